/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reductions on the host: every operator on every integer type of lib/proto/desc.h, and the
 * division of a sum for an average. The host library's local steps and engines that reduce in user
 * space use them. Floats are in floats.h.
 *
 * The loops are compiled for several instruction sets, and the first call chooses the best that
 * this CPU runs. All give the same bits. Any thread may call the functions. They have no state,
 * allocate nothing, and accept buffers of any alignment and any count, 0 included. dst may be
 * exactly one of the sources; otherwise buffers must not overlap.
 */
#ifndef INC_REDUCE_OPERATE_H
#define INC_REDUCE_OPERATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/proto/desc.h"

/* Returns the name of the instruction set in use: "avx512", "avx2" or "generic". */
const char *inc_reduce_set(void);

/*
 * Sets dst[i] = a[i] op b[i] for count elements in the machine's byte order. SUM and PROD wrap
 * modulo 2^bits, signed types too.
 */
void inc_reduce(enum inc_operator op, enum inc_dtype type, void *dst, const void *a, const void *b,
		size_t count);

/*
 * Sets dst[i] = src[i] / divisor, rounded towards zero as in C and NCCL. If a sum has wrapped, the
 * wrapped value is divided. divisor: 1 or more.
 */
void inc_reduce_divide(enum inc_dtype type, void *dst, const void *src, size_t count,
		       uint32_t divisor);

/* Sets dst[i] to src[i] with its bytes reversed. bytes: the size of an element, 1, 2, 4 or 8. */
void inc_reduce_swap(void *dst, const void *src, size_t count, size_t bytes);

/* Sets dst[i] to 1 if src[i] is not 0, otherwise to 0. bytes: the size of an element, as for
 * inc_reduce_swap(). AND, OR and XOR of such elements are the logical operators. */
void inc_reduce_truth(void *dst, const void *src, size_t count, size_t bytes);

/*
 * Elements with an index for MINLOC and MAXLOC (types with INDEX). An element is a value, an
 * int32_t and, in 16 bytes, padding. Its key is one int64_t, or two that are compared one after the
 * other. MIN of keys, or MAX if they were made with `largest`, chooses the element with the
 * smallest or largest value, and among equal ones that with the lowest index. A NaN wins, and -0 is
 * below +0. The buffers must not overlap. In elements that are made of keys the padding is 0.
 */
void inc_index_to_keys(enum inc_dtype type, bool largest, void *keys, const void *elements,
		       size_t count);
void inc_index_from_keys(enum inc_dtype type, bool largest, void *elements, const void *keys,
			 size_t count);
/* Reverses the bytes of value and index of each element. */
void inc_index_swap(enum inc_dtype type, void *dst, const void *src, size_t count);

#endif
