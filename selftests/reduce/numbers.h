/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Elements as numbers, for the tests of lib/reduce: random ones from a seed, extreme ones, and a
 * reference that shares no line with the library. It is slow and works in 128 bits and in long
 * double, which holds every sum of up to 4096 fixed-point integers exactly.
 */
#ifndef REDUCE_NUMBERS_H
#define REDUCE_NUMBERS_H

#include <stddef.h>
#include <stdint.h>
#include "lib/reduce/floats.h"

/* The next of a sequence of random numbers, and its state (any seed). */
uint64_t random_u64(uint64_t *state);
uint32_t random_below(uint64_t *state, uint32_t limit);

/* Element i of an array of integers, any alignment. */
__int128 integer_value(enum inc_dtype type, const void *elements, size_t i);
/* x op y, wrapped. */
__int128 integer_result(enum inc_operator op, enum inc_dtype type, __int128 x, __int128 y);
/* Random bits, with the ends of the range and small numbers among them. */
void random_integers(void *elements, enum inc_dtype type, size_t count, uint64_t *state);

const char *float_name(enum inc_float type);
/* Element i of an array, any alignment. */
uint32_t float_bits(enum inc_float type, const void *values, size_t i);
void set_float_bits(enum inc_float type, void *values, size_t i, uint32_t bits);

uint32_t sign_bit(enum inc_float type);
uint32_t infinity(enum inc_float type);
uint32_t quiet_nan(enum inc_float type);
uint32_t largest(enum inc_float type);      /* finite */
uint32_t least_normal(enum inc_float type); /* positive */

/* The number, exactly; the bits are those of a finite element. */
long double float_value(enum inc_float type, uint32_t bits);
/* The bits of the element next to the number, ties to even; beyond all, infinity. A zero has the
 * sign of the number. */
uint32_t float_nearest(enum inc_float type, long double value);

/* The same of any element and any number: infinities and NaN are those of long double. */
long double any_float_value(enum inc_float type, uint32_t bits);
uint32_t any_float_nearest(enum inc_float type, long double value);
/* x op y as docs/floats.md has it where floats are reduced as they are, one step of several: what
 * is added or multiplied is rounded to float32. No operator of bits. */
long double float_result(enum inc_operator op, long double x, long double y);

/* A finite element: any bits, small and round numbers, the ends of the ranges. */
uint32_t random_finite(enum inc_float type, uint64_t *state);

#endif
