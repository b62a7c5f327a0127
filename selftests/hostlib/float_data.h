/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Floats of any of the library's types for tests, and what a collective has to make of them: by
 * exact arithmetic and the bound of docs/floats.md, and not by the code under test.
 */
#ifndef SELFTESTS_FLOAT_DATA_H
#define SELFTESTS_FLOAT_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hostlib/include/inccl.h"

/* An element's bits, and its value: exact. */
uint32_t float_bits(enum inccl_dtype dtype, const void *array, size_t i);
double float_value(enum inccl_dtype dtype, uint32_t bits);
/* The type's quiet NaN. */
uint32_t float_nan(enum inccl_dtype dtype);

/*
 * Numbers whose sums are exact in long double, and below 2^FLOAT_BELOW in size. Every 37th is
 * infinite or NaN where they are special.
 */
#define FLOAT_BELOW 4
void float_fill(enum inccl_dtype dtype, void *array, size_t count, uint32_t seed, bool special);
/* Any bits at all. */
void float_fill_any(enum inccl_dtype dtype, void *array, size_t count, uint32_t seed);

/* What all ranks give: vectors of count elements. */
struct float_given {
	enum inccl_dtype dtype;
	const void *const *of_rank;
	unsigned int ranks;
	size_t count;
	size_t block;      /* elements that share an exponent; 0: they share FLOAT_BELOW */
	unsigned int bits; /* float_bits of struct inccl_communicator_info */
};

/* Asserts that bits is what op may make of element i: SUM and AVG within the bound. */
void float_check(const struct float_given *given, enum inccl_op op, size_t i, uint32_t bits);

#endif
