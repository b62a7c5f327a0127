/* SPDX-License-Identifier: BSD-2-Clause */
/* The loops of floats.h, used like those of kernels_int.h. */
#ifndef INC_REDUCE_KERNELS_FLOAT_H
#define INC_REDUCE_KERNELS_FLOAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/reduce/float_bits.h"
#include "lib/reduce/kernels_loop.h"
#include "lib/reduce/kernels_target.h"

/* The loops between floats and keys, which are integers in the order of the floats. The same step
 * converts values to keys and keys to values: it inverts the bits of negative numbers, except the
 * sign. */
#define INC_ORDER_KERNELS(NAME, name, bits)                                                    \
	INC_TARGET static void to_order_##name(void *keys, const void *values, size_t count,   \
					       int32_t nan_key)                                \
	{                                                                                      \
		const uint##bits##_t rest = INT##bits##_MAX;                                   \
		const uint##bits##_t inf = (uint##bits##_t)inc_float_formats[INC_##NAME].inf;  \
		const uint##bits##_any *from = values;                                         \
		uint##bits##_any *to = keys;                                                   \
                                                                                               \
		INC_FOR_EACH(count)                                                            \
		{                                                                              \
			uint##bits##_t x = from[i], turned = x > rest ? x ^ rest : x;          \
                                                                                               \
			to[i] = (x & rest) > inf ? (uint##bits##_t)nan_key : turned;           \
		}                                                                              \
	}                                                                                      \
	INC_TARGET static void from_order_##name(void *values, const void *keys, size_t count) \
	{                                                                                      \
		const uint##bits##_t rest = INT##bits##_MAX;                                   \
		const uint##bits##_t inf = (uint##bits##_t)inc_float_formats[INC_##NAME].inf;  \
		const uint##bits##_t nan = (uint##bits##_t)inc_float_formats[INC_##NAME].nan;  \
		const uint##bits##_any *from = keys;                                           \
		uint##bits##_any *to = values;                                                 \
                                                                                               \
		INC_FOR_EACH(count)                                                            \
		{                                                                              \
			uint##bits##_t x = from[i], turned = x > rest ? x ^ rest : x;          \
                                                                                               \
			to[i] = (turned & rest) > inf ? nan : turned;                          \
		}                                                                              \
	}

#define INC_PUT_KERNELS(NAME, name, bits)                                                       \
	INC_TARGET static uint32_t scan_##name(const void *values, size_t count, bool *special) \
	{                                                                                       \
		const uint##bits##_t inf = (uint##bits##_t)inc_float_formats[INC_##NAME].inf;   \
		const uint##bits##_any *from = values;                                          \
		uint##bits##_t largest = 0, finite = 0;                                         \
                                                                                                \
		INC_FOR_EACH(count)                                                             \
		{                                                                               \
			uint##bits##_t x = from[i] & INT##bits##_MAX;                           \
			/* 0 if x is not finite: a mask, as a choice would become a branch */   \
			uint##bits##_t y = x & (uint##bits##_t) - (x < inf);                    \
                                                                                                \
			largest = x > largest ? x : largest;                                    \
			finite = y > finite ? y : finite;                                       \
		}                                                                               \
		*special = largest >= inf;                                                      \
		return finite;                                                                  \
	}                                                                                       \
	INC_TARGET static uint32_t put_##name(void *fixed, const void *values, size_t count,    \
					      int32_t shift)                                    \
	{                                                                                       \
		const uint##bits##_any *from = values;                                          \
		int32_any *to = fixed;                                                          \
		uint32_t largest = 0;                                                           \
                                                                                                \
		INC_FOR_EACH(count)                                                             \
		{                                                                               \
			uint32_t x = from[i], magnitude = x & INT##bits##_MAX;                  \
                                                                                                \
			largest = magnitude > largest ? magnitude : largest;                    \
			to[i] = inc_float_to_fixed(&inc_float_formats[INC_##NAME], x, shift);   \
		}                                                                               \
		return largest;                                                                 \
	}

#define INC_GET_KERNELS(NAME, name, bits)                                                          \
	INC_TARGET static void get_##name(void *values, const void *sums, size_t count,            \
					  int32_t exponent)                                        \
	{                                                                                          \
		const int32_any *from = sums;                                                      \
		uint##bits##_any *to = values;                                                     \
                                                                                                   \
		INC_FOR_EACH(count)                                                                \
		to[i] = (uint##bits##_t)inc_float_from_fixed(&inc_float_formats[INC_##NAME],       \
							     from[i], exponent);                   \
	}                                                                                          \
	INC_TARGET static void get_mean_##name(void *values, const void *sums, size_t count,       \
					       int32_t exponent, uint32_t divisor)                 \
	{                                                                                          \
		const int32_any *from = sums;                                                      \
		uint##bits##_any *to = values;                                                     \
                                                                                                   \
		INC_FOR_EACH(count)                                                                \
		to[i] = (uint##bits##_t)inc_float_mean_from_fixed(&inc_float_formats[INC_##NAME],  \
								  from[i], exponent, divisor);     \
	}                                                                                          \
	INC_TARGET static void divide_##name(void *dst, const void *src, size_t count,             \
					     uint32_t divisor)                                     \
	{                                                                                          \
		const uint##bits##_any *from = src;                                                \
		uint##bits##_any *to = dst;                                                        \
                                                                                                   \
		INC_FOR_EACH(count)                                                                \
		to[i] = (uint##bits##_t)inc_float_divided(&inc_float_formats[INC_##NAME], from[i], \
							  divisor);                                \
	}

#define INC_FLOAT_KERNELS(NAME, name, bits, mantissa_bits) \
	INC_ORDER_KERNELS(NAME, name, bits)                \
	INC_PUT_KERNELS(NAME, name, bits)                  \
	INC_GET_KERNELS(NAME, name, bits)
INC_FLOATS(INC_FLOAT_KERNELS)

/* Initializes a struct inc_float_kernels. Its sums and products are in kernels_native.h. */
#define INC_FLOAT_TABLE(name)                                                            \
	{                                                                                \
		to_order_##name, from_order_##name, scan_##name, put_##name, get_##name, \
			get_mean_##name, divide_##name, INC_ENDS_##name(sum),            \
			INC_ENDS_##name(prod)                                            \
	}

#endif
