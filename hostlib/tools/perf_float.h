/* SPDX-License-Identifier: BSD-2-Clause */
/* Floats that inccl-perf gives, and what a collective may make of them (docs/floats.md). */
#ifndef INCCL_TOOLS_PERF_FLOAT_H
#define INCCL_TOOLS_PERF_FLOAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hostlib/tools/perf_data.h"

/* op: what is to be made of them. */
void perf_float_fill(enum inccl_dtype dtype, void *data, size_t count, enum inccl_op op,
		     uint32_t rank, uint32_t iter);
/* What the bound of a result depends on, beside its elements. */
struct perf_bound {
	bool native;             /* the switches add floats as they are; else: */
	unsigned int float_bits; /* the communicator's */
	unsigned int block;      /* elements that share an exponent */
	/* native: how often a sum is rounded to its type at most, if that is a half: at each
	 * switch on its way */
	unsigned int roundings;
};

/* Elements of the piece that are wrong: sums, products and averages by more than the bound. */
uint64_t perf_float_count_wrong(enum inccl_dtype dtype, const struct perf_piece *piece,
				const struct perf_bound *bound);

#endif
