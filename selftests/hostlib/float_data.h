/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Test data of every float type, and a check of a collective's results. The check uses exact
 * arithmetic and the bound of docs/floats.md instead of the code under test.
 */
#ifndef SELFTESTS_FLOAT_DATA_H
#define SELFTESTS_FLOAT_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hostlib/include/inccl.h"

/* float_bits() returns an element's bits, float_value() its exact value. */
uint32_t float_bits(enum inccl_dtype dtype, const void *array, size_t i);
double float_value(enum inccl_dtype dtype, uint32_t bits);
/* The type's quiet NaN. */
uint32_t float_nan(enum inccl_dtype dtype);

/*
 * Fills an array with numbers whose sums are exact in long double, and that are smaller than
 * 2^FLOAT_BELOW. With `special`, every 37th element may be infinite or NaN.
 */
#define FLOAT_BELOW 4
void float_fill(enum inccl_dtype dtype, void *array, size_t count, uint32_t seed, bool special);
/* Fills an array with arbitrary bit patterns. */
void float_fill_any(enum inccl_dtype dtype, void *array, size_t count, uint32_t seed);

/* The contributions of all ranks, each a vector of count elements. */
struct float_given {
	enum inccl_dtype dtype;
	const void *const *of_rank;
	unsigned int ranks;
	size_t count;
	size_t block;      /* elements that share an exponent; 0: all elements share FLOAT_BELOW */
	unsigned int bits; /* the field float_bits of struct inccl_communicator_info */
};

/* Asserts that bits are a permitted result of op for element i. SUM and AVG must be within the
 * bound. */
void float_check(const struct float_given *given, enum inccl_op op, size_t i, uint32_t bits);

#endif
