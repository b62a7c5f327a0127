/* SPDX-License-Identifier: BSD-2-Clause */
/* The floats that inccl-perf sends, and the error that a result may have (docs/floats.md). */
#ifndef INCCL_TOOLS_PERF_FLOAT_H
#define INCCL_TOOLS_PERF_FLOAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hostlib/tools/perf_data.h"

/* Fills data with a rank's floats for an iteration. op is the operator that the collective will
 * apply to them. */
void perf_float_fill(enum inccl_dtype dtype, void *data, size_t count, enum inccl_op op,
		     uint32_t rank, uint32_t iter);
/* The parameters of the allowed error of a result, beside the elements. */
struct perf_bound {
	bool native;             /* the switches add floats as they are, not as integers */
	unsigned int float_bits; /* float_bits of the communicator, if the switches add integers */
	/* number of elements that share an exponent, if the switches add integers */
	unsigned int block;
	/* How often a sum of a 16-bit type is rounded at most, if the switches add floats as they
	 * are. That is once at each switch on its path. */
	unsigned int roundings;
};

/* Returns how many elements of a piece of a result are wrong. Sums, products and averages are wrong
 * if their error exceeds the bound. */
uint64_t perf_float_count_wrong(enum inccl_dtype dtype, const struct perf_piece *piece,
				const struct perf_bound *bound);

#endif
