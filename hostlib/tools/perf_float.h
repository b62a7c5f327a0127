/* SPDX-License-Identifier: BSD-2-Clause */
/* The floats that inccl-perf sends, and the error that a result may have (docs/floats.md). */
#ifndef INCCL_TOOLS_PERF_FLOAT_H
#define INCCL_TOOLS_PERF_FLOAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hostlib/tools/perf_data.h"

/* Fills data with a rank's floats for an iteration. op: the operator that will be applied. */
void perf_float_fill(enum inccl_dtype dtype, void *data, size_t count, enum inccl_op op,
		     uint32_t rank, uint32_t iter);
/* The parameters of the bound of a result's error, beside the elements. */
struct perf_bound {
	bool native;             /* the switches add floats without converting them to integers */
	unsigned int float_bits; /* if not native: float_bits of the communicator */
	unsigned int block;      /* if not native: number of elements that share an exponent */
	/* if native, for types of 16 bits: how many times a sum is rounded at most, which is once
	 * at each switch on its path */
	unsigned int roundings;
};

/* Returns how many elements of the piece are wrong. Sums, products and averages are wrong if their
 * error exceeds the bound. */
uint64_t perf_float_count_wrong(enum inccl_dtype dtype, const struct perf_piece *piece,
				const struct perf_bound *bound);

#endif
