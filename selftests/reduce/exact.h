/* SPDX-License-Identifier: BSD-2-Clause */
/* Sums of floating-point numbers without any rounding: integers of 2,528 bits in units of
 * 2^-1200. */
#ifndef REDUCE_EXACT_H
#define REDUCE_EXACT_H

#include <stdbool.h>
#include <stdint.h>

#define EXACT_LIMBS 79

struct exact {
	/* limbs of 32 bits each, with carries that were not propagated yet */
	int64_t limb[EXACT_LIMBS];
};

/* Adds factor * value to e. The value must be a finite element of a float type, or a multiple of
 * 2^-1200 with at most 54 significant bits. |factor| <= 4096. At most 2^17 additions are allowed.
 */
void exact_add(struct exact *e, long double value, int32_t factor);

/* Is the sum e at most 0? */
bool exact_not_positive(struct exact e);

/* Negates e if it is negative. */
void exact_absolute(struct exact *e);

#endif
