/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The data of inccl-perf --check: they depend on rank, position and iteration, so that a stale,
 * misplaced or doubled chunk cannot pass for a right one, and what becomes of them is worked out
 * on the spot, element by element. A guard behind the vectors catches overruns.
 */
#ifndef INCCL_TOOLS_PERF_DATA_H
#define INCCL_TOOLS_PERF_DATA_H

#include <stddef.h>
#include <stdint.h>
#include "hostlib/include/inccl.h"
#include "hostlib/tools/perf_coll.h"

#define PERF_GUARD_BYTES 64

/* What element i of a rank's vector is, for a type of 64 bits: others have its last ones. */
static inline uint64_t perf_value(uint32_t rank, uint64_t i, uint32_t iter)
{
	uint64_t x = (i + 1) * 0x9e3779b97f4a7c15u + rank * 0xc2b2ae3d27d4eb4fu +
		     iter * 0x165667b19e3779f9u;

	return x ^ x >> 29;
}

/* A piece of a result: its elements are put together from those of `ranks` ranks, from the first
 * on, which stand at `offset` in each one's vector. */
struct perf_piece {
	const void *data;
	size_t count;
	uint32_t first, ranks;
	size_t offset;
	uint32_t iter;
	enum inccl_op op;
};

/* What this rank gives in an iteration, and what must not stay where the result belongs. */
void perf_fill(const struct perf_call *call, uint32_t iter);
/* The same where nobody looks at the results, which in place are what is given next: what a sum of
 * floats can be made of for ever. */
void perf_fill_unchecked(const struct perf_call *call);
/* Adds the bits of the result to a hash. */
uint64_t perf_hash(const struct perf_call *call, uint64_t hash);
/* How many elements of the result, or behind it, are wrong. */
uint64_t perf_verify(const struct perf_call *call, uint32_t iter);

#endif
