/* SPDX-License-Identifier: BSD-2-Clause */
/* Sums of floating-point numbers without any rounding: integers of 384 bits in units of 2^-200. */
#ifndef REDUCE_EXACT_H
#define REDUCE_EXACT_H

#include <stdbool.h>
#include <stdint.h>

#define EXACT_LIMBS 12

struct exact {
	int64_t limb[EXACT_LIMBS]; /* 32 bits each, and carries that have not been taken yet */
};

/* e += factor * value; value is a finite element of any of the types, or a multiple of 2^-200 that
 * has 32 significant bits at most. |factor| <= 4096, at most 2^17 times. */
void exact_add(struct exact *e, long double value, int32_t factor);

/* Is e at most 0? */
bool exact_not_positive(struct exact e);

/* Turns a negative sum round. */
void exact_absolute(struct exact *e);

#endif
