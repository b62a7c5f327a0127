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
					       int64_t nan_key)                                \
	{                                                                                      \
		const uint##bits##_t rest = INT##bits##_MAX;                                   \
		const uint##bits##_t inf = (uint##bits##_t)inc_wide_formats[INC_##NAME].inf;   \
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
		const uint##bits##_t inf = (uint##bits##_t)inc_wide_formats[INC_##NAME].inf;   \
		const uint##bits##_t nan = (uint##bits##_t)inc_wide_formats[INC_##NAME].nan;   \
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

/*
 * The loops between elements with an index and their keys (operate.h). An element is two numbers of
 * half its size, of which the second one is the index and, in 16 bytes, its padding. A key of 8
 * bytes is one number: the index is its lower half, in the order of unsigned numbers.
 */
#define INC_INDEX_ORDER(NAME, name, bits)                                                    \
	INC_LOOP uint##bits##_t order_of_##name(uint##bits##_t x, uint##bits##_t nan_key)    \
	{                                                                                    \
		const uint##bits##_t rest = INT##bits##_MAX;                                 \
		const uint##bits##_t inf = (uint##bits##_t)inc_wide_formats[INC_##NAME].inf; \
		const uint##bits##_t turned = x > rest ? x ^ rest : x;                       \
                                                                                             \
		return (x & rest) > inf ? nan_key : turned;                                  \
	}                                                                                    \
	INC_LOOP uint##bits##_t value_of_##name(uint##bits##_t key)                          \
	{                                                                                    \
		const uint##bits##_t rest = INT##bits##_MAX;                                 \
		const uint##bits##_t inf = (uint##bits##_t)inc_wide_formats[INC_##NAME].inf; \
		const uint##bits##_t nan = (uint##bits##_t)inc_wide_formats[INC_##NAME].nan; \
		const uint##bits##_t turned = key > rest ? key ^ rest : key;                 \
                                                                                             \
		return (turned & rest) > inf ? nan : turned;                                 \
	}
INC_INDEX_ORDER(FLOAT32, float32, 32)
INC_INDEX_ORDER(FLOAT64, float64, 64)
#define INC_INDEX_SAME(bits)                                                             \
	INC_LOOP uint##bits##_t order_of_int##bits(uint##bits##_t x, uint##bits##_t nan) \
	{                                                                                \
		return x;                                                                \
	}                                                                                \
	INC_LOOP uint##bits##_t value_of_int##bits(uint##bits##_t key)                   \
	{                                                                                \
		return key;                                                              \
	}
INC_INDEX_SAME(32)
INC_INDEX_SAME(64)

#define INC_INDEX_KERNELS_32(name)                                                              \
	INC_TARGET static void name##_to_keys(void *keys, const void *elements, size_t count,   \
					      bool largest)                                     \
	{                                                                                       \
		const uint32_t turn = largest ? INT32_MAX : 1u << 31;                           \
		const uint32_t nan_key = largest ? INT32_MAX : 1u << 31;                        \
		const uint32_any *from = elements;                                              \
		uint64_any *to = keys;                                                          \
                                                                                                \
		INC_FOR_EACH(count)                                                             \
		to[i] = (uint64_t)order_of_##name(from[2 * i], nan_key) << 32 |                 \
			(from[2 * i + 1] ^ turn);                                               \
	}                                                                                       \
	INC_TARGET static void name##_from_keys(void *elements, const void *keys, size_t count, \
						bool largest)                                   \
	{                                                                                       \
		const uint32_t turn = largest ? INT32_MAX : 1u << 31;                           \
		const uint64_any *from = keys;                                                  \
		uint32_any *to = elements;                                                      \
                                                                                                \
		INC_FOR_EACH(count)                                                             \
		{                                                                               \
			to[2 * i] = value_of_##name((uint32_t)(from[i] >> 32));                 \
			to[2 * i + 1] = (uint32_t)from[i] ^ turn;                               \
		}                                                                               \
	}

#define INC_INDEX_KERNELS_64(name)                                                              \
	INC_TARGET static void name##_to_keys(void *keys, const void *elements, size_t count,   \
					      bool largest)                                     \
	{                                                                                       \
		const uint64_t nan_key = largest ? INT64_MAX : 1ull << 63;                      \
		const int64_t turn = largest ? -1 : 0;                                          \
		const uint64_any *values = elements;                                            \
		const int32_any *indices = elements;                                            \
		uint64_any *to = keys;                                                          \
                                                                                                \
		INC_FOR_EACH(count)                                                             \
		{                                                                               \
			to[2 * i] = order_of_##name(values[2 * i], nan_key);                    \
			to[2 * i + 1] = (uint64_t)(indices[4 * i + 2] ^ turn);                  \
		}                                                                               \
	}                                                                                       \
	INC_TARGET static void name##_from_keys(void *elements, const void *keys, size_t count, \
						bool largest)                                   \
	{                                                                                       \
		const uint64_t turn = largest ? UINT64_MAX : 0;                                 \
		const uint64_any *from = keys;                                                  \
		uint64_any *values = elements;                                                  \
		uint32_any *indices = elements;                                                 \
                                                                                                \
		INC_FOR_EACH(count)                                                             \
		{                                                                               \
			values[2 * i] = value_of_##name(from[2 * i]);                           \
			indices[4 * i + 2] = (uint32_t)(from[2 * i + 1] ^ turn);                \
			indices[4 * i + 3] = 0;                                                 \
		}                                                                               \
	}

INC_INDEX_KERNELS_32(int32)
INC_INDEX_KERNELS_32(float32)
INC_INDEX_KERNELS_64(int64)
INC_INDEX_KERNELS_64(float64)

/* Initializes the table of the types with an index. */
#define INC_INDEX_TABLE(NAME, name) \
	[INC_DTYPE_##NAME##_INDEX - INC_DTYPE_INT32_INDEX] = {name##_to_keys, name##_from_keys}

#define INC_SCAN_KERNEL(NAME, name, bits)                                                       \
	INC_TARGET static uint64_t scan_##name(const void *values, size_t count, bool *special) \
	{                                                                                       \
		const uint##bits##_t inf = (uint##bits##_t)inc_wide_formats[INC_##NAME].inf;    \
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
	}

/* The loops between floats and integers of fixed point. fixed: the bits of these integers. form:
 * the functions of float_bits.h that compute in so many bits, and their formats. */
#define INC_FIXED_KERNELS(NAME, name, bits, fixed, form)                                           \
	INC_TARGET static uint64_t put_##name(void *to_fixed, const void *values, size_t count,    \
					      int32_t shift)                                       \
	{                                                                                          \
		const uint##bits##_any *from = values;                                             \
		int##fixed##_any *to = to_fixed;                                                   \
		uint##fixed##_t largest = 0;                                                       \
                                                                                                   \
		INC_FOR_EACH(count)                                                                \
		{                                                                                  \
			uint##fixed##_t x = from[i], magnitude = x & INT##bits##_MAX;              \
                                                                                                   \
			largest = magnitude > largest ? magnitude : largest;                       \
			to[i] = inc_##form##_to_fixed(&inc_##form##_formats[INC_##NAME], x,        \
						      shift);                                      \
		}                                                                                  \
		return largest;                                                                    \
	}                                                                                          \
	INC_TARGET static void get_##name(void *values, const void *sums, size_t count,            \
					  int32_t exponent)                                        \
	{                                                                                          \
		const int##fixed##_any *from = sums;                                               \
		uint##bits##_any *to = values;                                                     \
                                                                                                   \
		INC_FOR_EACH(count)                                                                \
		to[i] = (uint##bits##_t)inc_##form##_from_fixed(&inc_##form##_formats[INC_##NAME], \
								from[i], exponent);                \
	}                                                                                          \
	INC_TARGET static void get_mean_##name(void *values, const void *sums, size_t count,       \
					       int32_t exponent, uint32_t divisor)                 \
	{                                                                                          \
		const int##fixed##_any *from = sums;                                               \
		uint##bits##_any *to = values;                                                     \
                                                                                                   \
		INC_FOR_EACH(count)                                                                \
		to[i] = (uint##bits##_t)inc_##form##_mean_from_fixed(                              \
			&inc_##form##_formats[INC_##NAME], from[i], exponent, divisor);            \
	}

#define INC_DIVIDE_KERNEL(NAME, name, bits)                                                        \
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

#define INC_NARROW_KERNELS(NAME, name, bits, mantissa_bits) \
	INC_ORDER_KERNELS(NAME, name, bits)                 \
	INC_SCAN_KERNEL(NAME, name, bits)                   \
	INC_FIXED_KERNELS(NAME, name, bits, 32, float)      \
	INC_DIVIDE_KERNEL(NAME, name, bits)
INC_NARROW_FLOATS(INC_NARROW_KERNELS)

INC_ORDER_KERNELS(FLOAT64, float64, 64)
INC_SCAN_KERNEL(FLOAT64, float64, 64)
INC_FIXED_KERNELS(FLOAT64, float64, 64, 64, wide)
/* divide_float64() is in kernels_native.h, because the CPU's division is exactly rounded */

/* Initializes a struct inc_float_kernels. Its sums and products are in kernels_native.h. */
#define INC_FLOAT_TABLE(name)                                                            \
	{                                                                                \
		to_order_##name, from_order_##name, scan_##name, put_##name, get_##name, \
			get_mean_##name, divide_##name, INC_ENDS_##name(sum),            \
			INC_ENDS_##name(prod)                                            \
	}

#endif
