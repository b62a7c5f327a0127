/* SPDX-License-Identifier: BSD-2-Clause */
/* Floats that inccl-perf gives, and what a collective may make of them (docs/floats.md). */
#ifndef INCCL_TOOLS_PERF_FLOAT_H
#define INCCL_TOOLS_PERF_FLOAT_H

#include <stddef.h>
#include <stdint.h>
#include "hostlib/tools/perf_data.h"

void perf_float_fill(enum inccl_dtype dtype, void *data, size_t count, uint32_t rank,
		     uint32_t iter);
/* What the bound of a sum depends on, beside its elements. */
struct perf_fixed {
	unsigned int float_bits; /* the communicator's */
	unsigned int block;      /* elements that share an exponent */
};

/* Elements of the piece that are wrong: sums and averages by more than the bound. */
uint64_t perf_float_count_wrong(enum inccl_dtype dtype, const struct perf_piece *piece,
				const struct perf_fixed *fixed);

#endif
