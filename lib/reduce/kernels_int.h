/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The loops of operate.h: plain loops, which the compiler vectorizes with the instructions that
 * INC_TARGET allows (kernels_target.h). A source that includes this names the loops that it needs,
 * and the compiler drops the others before it compiles them.
 */
#ifndef INC_REDUCE_KERNELS_INT_H
#define INC_REDUCE_KERNELS_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "lib/proto/desc.h"
#include "lib/reduce/kernels_loop.h"
#include "lib/reduce/kernels_target.h"

/* The type in which elements of so many bytes are computed, so that they wrap modulo 2^bits. In
 * its own size an element would be promoted to a signed int. */
#define INC_WRAPS_1 uint32_t
#define INC_WRAPS_2 uint32_t
#define INC_WRAPS_4 uint32_t
#define INC_WRAPS_8 uint64_t

#define INC_KERNEL(op, name, value)                                                             \
	INC_LOOP void op##_##name##_of(void *dst, const void *const *src, const unsigned int n, \
				       size_t count)                                            \
	{                                                                                       \
		name##_any *to = dst;                                                           \
		INC_SOURCES(name##_any, from, src, n);                                          \
                                                                                                \
		INC_FOR_EACH(count)                                                             \
		{                                                                               \
			name##_t x = from[0][i];                                                \
                                                                                                \
			INC_FOR_SOURCES (j, 1, n) {                                             \
				name##_t y = from[j][i];                                        \
                                                                                                \
				x = (name##_t)(value);                                          \
			}                                                                       \
			to[i] = x;                                                              \
		}                                                                               \
	}                                                                                       \
	INC_TARGET static void op##_##name(void *dst, const void *const *src, unsigned int n,   \
					   size_t count)                                        \
	{                                                                                       \
		if (n == 2)                                                                     \
			op##_##name##_of(dst, src, 2, count);                                   \
		else if (n == 4)                                                                \
			op##_##name##_of(dst, src, 4, count);                                   \
		else                                                                            \
			op##_##name##_of(dst, src, INC_FOLD_MOST, count);                       \
	}

/* Returns a quotient of 32-bit numbers. The quotient as a double, truncated, is exact, because a
 * quotient that is no integer is below the next integer by at least 2^-32 of its size. */
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

/* MIN and MAX of elements that are two numbers. If the first ones are equal, the second ones
 * decide. */
#define INC_PAIR_KERNEL(op, before)                                                           \
	INC_LOOP void op##_pair_of(void *dst, const void *const *src, const unsigned int n,   \
				   size_t count)                                              \
	{                                                                                     \
		int64_any *to = dst;                                                          \
		INC_SOURCES(int64_any, from, src, n);                                         \
                                                                                              \
		INC_FOR_EACH(count / 2)                                                       \
		{                                                                             \
			int64_t x = from[0][2 * i], x2 = from[0][2 * i + 1];                  \
                                                                                              \
			INC_FOR_SOURCES (j, 1, n) {                                           \
				const int64_t y = from[j][2 * i], y2 = from[j][2 * i + 1];    \
				const bool take = (y before x) | ((y == x) & (y2 before x2)); \
                                                                                              \
				x = take ? y : x;                                             \
				x2 = take ? y2 : x2;                                          \
			}                                                                     \
			to[2 * i] = x;                                                        \
			to[2 * i + 1] = x2;                                                   \
		}                                                                             \
	}                                                                                     \
	INC_TARGET static void op##_pair(void *dst, const void *const *src, unsigned int n,   \
					 size_t count)                                        \
	{                                                                                     \
		if (n == 2)                                                                   \
			op##_pair_of(dst, src, 2, count);                                     \
		else if (n == 4)                                                              \
			op##_pair_of(dst, src, 4, count);                                     \
		else                                                                          \
			op##_pair_of(dst, src, INC_FOLD_MOST, count);                         \
	}
INC_PAIR_KERNEL(min, <)
INC_PAIR_KERNEL(max, >)

/*
 * Initializes a struct inc_int_kernels. Only MIN, MAX and the division depend on the sign. The
 * other loops give the same bits with and without it, so a signed type uses those of the unsigned
 * type, which are compiled once.
 */
#define INC_INT_TABLE(name, same_bits)                             \
	{                                                          \
		.reduce = {[INC_OPERATOR_SUM] = sum_##same_bits,   \
			   [INC_OPERATOR_MIN] = min_##name,        \
			   [INC_OPERATOR_MAX] = max_##name,        \
			   [INC_OPERATOR_PROD] = prod_##same_bits, \
			   [INC_OPERATOR_AND] = and_##same_bits,   \
			   [INC_OPERATOR_OR] = or_##same_bits,     \
			   [INC_OPERATOR_XOR] = xor_##same_bits},  \
		.divide = divide_##name,                           \
	}

#endif
