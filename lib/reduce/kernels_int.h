/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The loops of operate.h. A set's file defines INC_TARGET, the attribute that lets the compiler use
 * its instructions, and includes this: plain loops, which it makes vectors of.
 */
#ifndef INC_REDUCE_KERNELS_INT_H
#define INC_REDUCE_KERNELS_INT_H

#include <stddef.h>
#include <stdint.h>
#include "lib/proto/desc.h"
#include "lib/reduce/kernels_loop.h"

/* In what a type's arithmetic is done, so that it wraps: its own size would be promoted to int. */
#define INC_WRAPS_1 uint32_t
#define INC_WRAPS_2 uint32_t
#define INC_WRAPS_4 uint32_t
#define INC_WRAPS_8 uint64_t

#define INC_KERNEL(op, name, value)                                                               \
	INC_TARGET static void op##_##name(void *dst, const void *a, const void *b, size_t count) \
	{                                                                                         \
		name##_any *to = dst;                                                             \
		const name##_any *from_a = a, *from_b = b;                                        \
                                                                                                  \
		INC_FOR_EACH(count)                                                               \
		{                                                                                 \
			name##_t x = from_a[i], y = from_b[i];                                    \
                                                                                                  \
			to[i] = (name##_t)(value);                                                \
		}                                                                                 \
	}

/* The truncated double of a quotient of 32 bits is the truncated quotient: one that is no integer
 * is at least 2^-32 of itself below the next. */
#define INC_QUOTIENT_1(x, divisor, name) ((double)(x) / (divisor))
#define INC_QUOTIENT_2(x, divisor, name) ((double)(x) / (divisor))
#define INC_QUOTIENT_4(x, divisor, name) ((double)(x) / (divisor))
#define INC_QUOTIENT_8(x, divisor, name) ((x) / (name##_t)(divisor))

#define INC_INT_KERNELS(NAME, name, bytes, has_sign)                                   \
	INC_KERNEL(sum, name, (INC_WRAPS_##bytes)x + (INC_WRAPS_##bytes)y)             \
	INC_KERNEL(min, name, x < y ? x : y)                                           \
	INC_KERNEL(max, name, x > y ? x : y)                                           \
	INC_KERNEL(prod, name, (INC_WRAPS_##bytes)x *(INC_WRAPS_##bytes)y)             \
	INC_KERNEL(and, name, x &y)                                                    \
	INC_KERNEL(or, name, x | y)                                                    \
	INC_KERNEL(xor, name, x ^ y)                                                   \
	INC_TARGET static void divide_##name(void *dst, const void *src, size_t count, \
					     uint32_t divisor)                         \
	{                                                                              \
		name##_any *to = dst;                                                  \
		const name##_any *from = src;                                          \
                                                                                       \
		INC_FOR_EACH(count)                                                    \
		to[i] = (name##_t)INC_QUOTIENT_##bytes(from[i], divisor, name);        \
	}
INC_DTYPES(INC_INT_KERNELS)

/* The rows of struct inc_kernels. */
#define INC_REDUCE_ROW(NAME, name, bytes, has_sign)                 \
	.reduce[INC_OPERATOR_SUM][INC_DTYPE_##NAME] = sum_##name,   \
	.reduce[INC_OPERATOR_MIN][INC_DTYPE_##NAME] = min_##name,   \
	.reduce[INC_OPERATOR_MAX][INC_DTYPE_##NAME] = max_##name,   \
	.reduce[INC_OPERATOR_PROD][INC_DTYPE_##NAME] = prod_##name, \
	.reduce[INC_OPERATOR_AND][INC_DTYPE_##NAME] = and_##name,   \
	.reduce[INC_OPERATOR_OR][INC_DTYPE_##NAME] = or_##name,     \
	.reduce[INC_OPERATOR_XOR][INC_DTYPE_##NAME] = xor_##name,   \
	.divide[INC_DTYPE_##NAME] = divide_##name,

#endif
