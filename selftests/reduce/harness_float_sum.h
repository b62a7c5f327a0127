/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A sum of floats over many ranks, with families of inputs that provoke certain errors. The
 * expected result comes from the reference of numbers.h and from exact sums.
 */
#ifndef SELFTESTS_REDUCE_HARNESS_FLOAT_SUM_H
#define SELFTESTS_REDUCE_HARNESS_FLOAT_SUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/reduce/floats.h"

#define FLOAT_SUM_MAX_COUNT 2100

/* _(name, description of a rank's elements) */
#define FLOAT_SUM_FAMILIES(_)                                       \
	_(ZEROS, "zeros of both signs")                             \
	_(UNIFORM, "random between -1 and 1")                       \
	_(CANCEL, "large numbers that cancel but for a small rest") \
	_(DENORMAL, "denormals")                                    \
	_(RANGE, "random bits: all exponents in one block")         \
	_(LARGEST, "the largest number of all")                     \
	_(EDGE, "the last number below a power of two")             \
	_(TIES, "half-way between two integers of their block")     \
	_(ONE_BIG, "one large element in a block, the others tiny") \
	_(SPECIAL, "infinities and NaN among the others, of all kinds in one block")

enum float_sum_family {
#define _(NAME, text) FLOAT_SUM_##NAME,
	FLOAT_SUM_FAMILIES(_)
#undef _
		FLOAT_SUM_N_FAMILIES
};

struct float_sum {
	enum inc_float type;
	enum float_sum_family family;
	uint32_t block, ranks;
	size_t count;
	uint64_t seed;
	uint32_t divisor;
	/* the integers of the ranks are added in another order than that of the ranks */
	bool permuted;
	struct inc_fixed fixed;
};

/* Runs all phases for all ranks, in chunks of random sizes from buffers of random alignment. Checks
 * the result, and stores it in values. */
void float_sum_run(struct float_sum *s, void *values);

/* Fills values with the elements of one rank. */
void float_sum_values(const struct float_sum *s, uint32_t rank, void *values);

#endif
