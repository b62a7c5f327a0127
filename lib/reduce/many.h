/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reduces many sources in one pass over memory. Engines that have whole messages reduce those of
 * their children by it. Floats are reduced as floats here. docs/floats.md has the rules for that.
 * It also has the rules for switches that add integers only.
 */
#ifndef INC_REDUCE_MANY_H
#define INC_REDUCE_MANY_H

#include <stdbool.h>
#include <stddef.h>
#include "lib/proto/desc.h"

#define INC_REDUCE_MOST 64 /* limit of the sources of one call */

struct inc_reduction {
	/* the operator; one of INC_GUISE_OPERATORS is computed as the other one */
	enum inc_operator op;
	/* the type; FLOAT32 to FLOAT64 are floats, AGREED, FIXED and FIXED64 the integers
	 * that represent them. Those with INDEX are keys (operate.h) */
	enum inc_dtype type;
	bool swapped; /* the elements of the sources and of dst are not in the machine's byte
		       * order */
};

/* Whether the operator exists for the type. Floats have SUM, AVG, PROD, MIN and MAX, integers have
 * all, and keys of 16 bytes have MIN and MAX. */
bool inc_can_reduce(enum inc_operator op, enum inc_dtype type);

/* Returns the integer type as which elements of a type are reduced where floats are not added as
 * floats. INC_GUISES has the size and sign of the types that are no integers, whose elements hosts
 * have mapped to such integers. */
enum inc_dtype inc_reduced_as(enum inc_dtype type);

/*
 * Sets dst[i] = src[0][i] op src[1][i] op ... op src[n - 1][i] for count elements (0: nothing),
 * always in this order. So the bits of a result do not depend on the order of arrival, the CPU, or
 * the calling thread's rounding mode and handling of denormals.
 *
 * Integers wrap modulo 2^bits. A float32 or float64 is added and multiplied by IEEE 754, rounded to
 * nearest, ties to even, each time. The types float16 and bfloat16 are computed as float32, and the
 * result is rounded to the type once. MIN and MAX are exact, and -0 is below +0. A NaN makes the
 * type's quiet NaN with every operator, even if there is only one source.
 *
 * One source may be dst itself, and sources may be equal or overlap each other. Any alignment, any
 * thread; no state, no allocation, but 27 KiB of stack. It returns -EINVAL if n is not 1 to
 * INC_REDUCE_MOST, and -EOPNOTSUPP if !inc_can_reduce(). In both cases dst is unchanged.
 */
int inc_reduce_many(const struct inc_reduction *r, void *dst, const void *const *src,
		    unsigned int n, size_t count);

#endif
