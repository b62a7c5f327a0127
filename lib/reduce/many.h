/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many sources in one pass over memory: what an engine that has whole messages makes of those of
 * its children. Floats are reduced as they are here; docs/floats.md says by which rules, and which
 * others hold where a switch knows integers only.
 */
#ifndef INC_REDUCE_MANY_H
#define INC_REDUCE_MANY_H

#include <stdbool.h>
#include <stddef.h>
#include "lib/proto/desc.h"

#define INC_REDUCE_MOST 64 /* sources of a call */

struct inc_reduction {
	enum inc_operator op; /* INC_OPERATOR_AVG: a sum, which the ranks divide */
	/* FLOAT32, FLOAT16, BFLOAT16: as they are; AGREED, FIXED: the integers that they are. */
	enum inc_dtype type;
	bool swapped; /* elements are in the other byte order than the machine's; so is dst */
};

/* Is there this operator for this type? Of floats SUM, AVG, PROD, MIN and MAX, of integers all. */
bool inc_can_reduce(enum inc_operator op, enum inc_dtype type);

/*
 * dst[i] = src[0][i] op src[1][i] op ... op src[n - 1][i] for count elements (0: nothing), always
 * in this order, so that the bits of a result do not depend on when a source came, nor on the
 * CPU, nor on the rounding mode of the calling thread and whether it flushes denormals.
 *
 * Integers wrap modulo 2^bits. float32 is added and multiplied as IEEE 754 has it, rounded to
 * nearest, ties to even, each time; float16 and bfloat16 as the float32s that they are, the end
 * rounded to the type, once. MIN and MAX are exact, -0 is below +0. A NaN makes a NaN, the type's
 * quiet one, whatever the operator, with one source too.
 *
 * dst may be exactly one of the sources, and sources may be the same or overlap one another; any
 * alignment, any thread; nothing is kept or allocated, but 24 KiB of the stack are used.
 * -EINVAL: n is not 1 to INC_REDUCE_MOST; -EOPNOTSUPP: !inc_can_reduce(). Then dst is as it was.
 */
int inc_reduce_many(const struct inc_reduction *r, void *dst, const void *const *src,
		    unsigned int n, size_t count);

#endif
