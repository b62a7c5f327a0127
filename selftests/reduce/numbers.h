/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Elements as numbers, for the tests of lib/reduce: random and extreme numbers, and a reference
 * that shares no code with the library. The reference is slow. It computes in 128 bits and in long
 * double, which holds every sum of up to 4096 fixed-point integers exactly.
 */
#ifndef REDUCE_NUMBERS_H
#define REDUCE_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/reduce/floats.h"

/* An element of each type with an index, as C lays it out. */
union indexed {
	struct {
		int32_t value, index;
	} int32;
	struct {
		float value;
		int32_t index;
	} float32;
	struct {
		int64_t value;
		int32_t index, padding;
	} int64;
	struct {
		double value;
		int32_t index, padding;
	} float64;
};

/* Random numbers from a state, which may begin with any seed. */
uint64_t random_u64(uint64_t *state);
uint32_t random_below(uint64_t *state, uint32_t limit);

/* The value of element i of an array of integers, at any alignment. */
__int128 integer_value(enum inc_dtype type, const void *elements, size_t i);
/* The result of the operator for x and y, wrapped to the type. */
__int128 integer_result(enum inc_operator op, enum inc_dtype type, __int128 x, __int128 y);
/* Fills an array with random bits, numbers at the ends of the range, and small numbers. */
void random_integers(void *elements, enum inc_dtype type, size_t count, uint64_t *state);

const char *float_name(enum inc_float type);
/* The bits of element i of an array of floats, at any alignment. */
uint64_t float_bits(enum inc_float type, const void *values, size_t i);
void set_float_bits(enum inc_float type, void *values, size_t i, uint64_t bits);

uint64_t sign_bit(enum inc_float type);
uint64_t infinity(enum inc_float type);
uint64_t quiet_nan(enum inc_float type);
uint64_t largest(enum inc_float type);      /* bits of the largest finite number */
uint64_t least_normal(enum inc_float type); /* bits of the smallest positive normal number */

/* The exact value of a finite float. */
long double float_value(enum inc_float type, uint64_t bits);
/* The bits of the element nearest to the value, with ties to even. Too large values become
 * infinity. A zero has the value's sign. */
uint64_t float_nearest(enum inc_float type, long double value);

/* The bits of the element nearest to the quotient. The value is an element, or a sum of fixed-point
 * integers. */
uint64_t float_quotient(enum inc_float type, long double value, uint32_t divisor);

/* The same as float_value(), float_nearest() and float_quotient(), but also for infinities and NaN,
 * which are those of long double. */
long double any_float_value(enum inc_float type, uint64_t bits);
uint64_t any_float_nearest(enum inc_float type, long double value);
uint64_t any_float_quotient(enum inc_float type, long double value, uint32_t divisor);
/* The result of the operator for x and y, as docs/floats.md defines it for floats that are reduced
 * without conversion. It is one of several steps, so a sum or product is rounded to float32, or to
 * float64 where that is the type. op must not be a bitwise operator. */
long double float_result(enum inc_float type, enum inc_operator op, long double x, long double y);

/* A finite element, chosen from random bits, small and round numbers, and the ends of the range. */
uint64_t random_finite(enum inc_float type, uint64_t *state);

/* Sums of floating-point numbers without any rounding: integers of 2,528 bits in units of
 * 2^-1200. */

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
