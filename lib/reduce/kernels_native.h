/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SUM and PROD of native floats (many.h), used like the loops of kernels_int.h. A set with
 * INC_F16C takes float16's loops from kernels_f16c.h.
 */
#ifndef INC_REDUCE_KERNELS_NATIVE_H
#define INC_REDUCE_KERNELS_NATIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/reduce/half_bits.h"
#include "lib/reduce/kernels.h"
#include "lib/reduce/kernels_loop.h"
#include "lib/reduce/kernels_target.h"

_Static_assert(__FLT_EVAL_METHOD__ == 0,
	       "floats are added in their own type: 32-bit x86 needs -msse2 -mfpmath=sse");

typedef float float32_any __attribute__((aligned(1)));
typedef double float64_any __attribute__((aligned(1)));

/* type: the C type, and bits_of: the function that returns the bits of a result */
#define INC_WHOLE_KERNEL(op, operator, bits, type, bits_of)                                        \
	INC_LOOP void op##_float##bits##_of(void *dst, const void *const *src,                     \
					    const unsigned int n, size_t count)                    \
	{                                                                                          \
		uint##bits##_any *to = dst;                                                        \
		INC_SOURCES(float##bits##_any, from, src, n);                                      \
                                                                                                   \
		INC_FOR_EACH(count)                                                                \
		{                                                                                  \
			type x = from[0][i];                                                       \
                                                                                                   \
			INC_FOR_SOURCES (j, 1, n)                                                  \
				x = x operator from[j][i];                                         \
			to[i] = bits_of(x);                                                        \
		}                                                                                  \
	}                                                                                          \
	INC_TARGET static void op##_float##bits(void *dst, const void *const *src, unsigned int n, \
						size_t count)                                      \
	{                                                                                          \
		if (n == 2)                                                                        \
			op##_float##bits##_of(dst, src, 2, count);                                 \
		else if (n == 4)                                                                   \
			op##_float##bits##_of(dst, src, 4, count);                                 \
		else                                                                               \
			op##_float##bits##_of(dst, src, INC_FOLD_MOST, count);                     \
	}
INC_WHOLE_KERNEL(sum, +, 32, float, inc_native_bits)
INC_WHOLE_KERNEL(prod, *, 32, float, inc_native_bits)
INC_WHOLE_KERNEL(sum, +, 64, double, inc_native_bits64)
INC_WHOLE_KERNEL(prod, *, 64, double, inc_native_bits64)

INC_TARGET static void divide_float64(void *dst, const void *src, size_t count, uint32_t divisor)
{
	const float64_any *from = src;
	uint64_any *to = dst;
	const double by = divisor;

	INC_FOR_EACH(count)
	to[i] = inc_native_bits64(from[i] / by);
}

/* In a part (kernels.h), the float32s that come from the upper halves of pairs follow those from
 * the lower halves. */
#define INC_HALVES_LOOP(op, operator, name)                                                     \
	INC_LOOP void op##_##name##_of(void *dst, const void *const *src, const unsigned int n, \
				       size_t count, const unsigned int ends)                   \
	{                                                                                       \
		size_t pairs = count / 2;                                                       \
		const float32_any *part = src[0];                                               \
		float32_any *to_part = dst;                                                     \
		uint32_any *to = dst;                                                           \
		INC_SOURCES(uint32_any, from, src, n);                                          \
                                                                                                \
		INC_FOR_EACH(pairs)                                                             \
		{                                                                               \
			float upper, lower;                                                     \
                                                                                                \
			if (ends & INC_FOLD_FROM_PART) {                                        \
				lower = part[i];                                                \
				upper = part[pairs + i];                                        \
			} else {                                                                \
				lower = inc_open_##name(from[0][i] << 16);                      \
				upper = inc_open_##name(from[0][i]);                            \
			}                                                                       \
			INC_FOR_SOURCES (j, 1, n) {                                             \
				lower = lower operator inc_open_##name(from[j][i] << 16);       \
				upper = upper operator inc_open_##name(from[j][i]);             \
			}                                                                       \
			if (ends & INC_FOLD_TO_PART) {                                          \
				to_part[i] = lower;                                             \
				to_part[pairs + i] = upper;                                     \
			} else {                                                                \
				to[i] = inc_close_##name(lower) >> 16 |                         \
					(inc_close_##name(upper) & 0xffff0000);                 \
			}                                                                       \
		}                                                                               \
	}

#define INC_HALVES_KERNEL(op, name, ends)                                              \
	INC_TARGET static void op##_##name##_##ends(void *dst, const void *const *src, \
						    unsigned int n, size_t count)      \
	{                                                                              \
		if (n == 2)                                                            \
			op##_##name##_of(dst, src, 2, count, ends);                    \
		else if (n == 4)                                                       \
			op##_##name##_of(dst, src, 4, count, ends);                    \
		else                                                                   \
			op##_##name##_of(dst, src, INC_FOLD_MOST, count, ends);        \
	}

#define INC_HALVES_KERNELS(op, name)   \
	INC_HALVES_KERNEL(op, name, 0) \
	INC_HALVES_KERNEL(op, name, 1) \
	INC_HALVES_KERNEL(op, name, 2) \
	INC_HALVES_KERNEL(op, name, 3)

INC_HALVES_LOOP(sum, +, bfloat16)
INC_HALVES_LOOP(prod, *, bfloat16)
#ifdef INC_F16C
#include "lib/reduce/kernels_f16c.h"
#else
INC_HALVES_LOOP(sum, +, float16)
INC_HALVES_LOOP(prod, *, float16)
#endif
INC_HALVES_KERNELS(sum, bfloat16)
INC_HALVES_KERNELS(prod, bfloat16)
INC_HALVES_KERNELS(sum, float16)
INC_HALVES_KERNELS(prod, float16)

/* The four folds of an operator, by enum inc_fold_ends. For float32 and float64 they are the same
 * function, because a part has no other form than a source. */
#define INC_ENDS_float32(op)                                           \
	{                                                              \
		op##_float32, op##_float32, op##_float32, op##_float32 \
	}
#define INC_ENDS_float64(op)                                           \
	{                                                              \
		op##_float64, op##_float64, op##_float64, op##_float64 \
	}
#define INC_ENDS_float16(op)                                                   \
	{                                                                      \
		op##_float16_0, op##_float16_1, op##_float16_2, op##_float16_3 \
	}
#define INC_ENDS_bfloat16(op)                                                      \
	{                                                                          \
		op##_bfloat16_0, op##_bfloat16_1, op##_bfloat16_2, op##_bfloat16_3 \
	}

#endif
