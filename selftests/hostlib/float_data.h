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
uint64_t float_bits(enum inccl_dtype dtype, const void *array, size_t i);
double float_value(enum inccl_dtype dtype, uint64_t bits);
/* The quiet NaN of the type. */
uint64_t float_nan(enum inccl_dtype dtype);

/*
 * Fills an array with numbers whose sums are exact in 113 bits, and that are smaller than
 * 2^FLOAT_BELOW. Every 11th element is the greatest of these, for any seed, so that the sum of many
 * ranks comes near the limit of its integer. With `special`, every 37th element may be infinite or
 * NaN.
 */
#define FLOAT_BELOW 4
void float_fill(enum inccl_dtype dtype, void *array, size_t count, uint32_t seed, bool special);
/* Fills an array of floats with arbitrary bit patterns. */
void float_fill_any(enum inccl_dtype dtype, void *array, size_t count, uint32_t seed);

/* The contributions of all ranks, each of which is a vector of count elements. */
struct float_given {
	enum inccl_dtype dtype;
	const void *const *of_rank;
	unsigned int ranks;
	size_t count;
	/* number of elements that share an exponent; 0: all elements have the exponent
	 * FLOAT_BELOW */
	size_t block;
	unsigned int bits; /* value of the field float_bits in struct inccl_communicator_info */
};

/* Asserts that `bits` are a permitted result of op for element i. For SUM and AVG the result must
 * be within the error bound. */
void float_check(const struct float_given *given, enum inccl_op op, size_t i, uint64_t bits);

#endif
