/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The data of inccl-perf --check. They depend on rank, position and iteration, so that a stale,
 * misplaced or duplicated chunk is noticed. The expected results are computed element by element. A
 * guard behind the vectors detects writes beyond their end.
 */
#ifndef INCCL_TOOLS_PERF_DATA_H
#define INCCL_TOOLS_PERF_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hostlib/include/inccl.h"
#include "hostlib/tools/perf_coll.h"

#define PERF_GUARD_BYTES 64

/* Returns element i of a rank's test vector in an iteration, for types of 64 bits. Smaller types
 * use the low bits. */
static inline uint64_t perf_value(uint32_t rank, uint64_t i, uint32_t iter)
{
	uint64_t x = (i + 1) * 0x9e3779b97f4a7c15u + rank * 0xc2b2ae3d27d4eb4fu +
		     iter * 0x165667b19e3779f9u;

	return x ^ x >> 29;
}

/* A piece of a result vector, which is checked as a whole. Its elements combine the vectors of
 * `ranks` ranks, beginning with rank `first`, from element `offset` of each vector on. */
struct perf_piece {
	const void *data;
	size_t count;
	uint32_t first, ranks;
	size_t offset;
	uint32_t iter;
	enum inccl_op op;
	bool reduced; /* the collective applies op, even if there is one rank only */
};

/* Fills the send vector with this rank's data for an iteration, and the receive vector with bytes
 * that no right result has. */
void perf_fill(const struct perf_call *call, uint32_t iter);
/* Fills the vectors for runs without --check. If results replace the input, floats are set to 0,
 * because their sums then never overflow. */
void perf_fill_unchecked(const struct perf_call *call);
/* Adds the bytes of a call's result to a hash, and returns the new hash. */
uint64_t perf_hash(const struct perf_call *call, uint64_t hash);
/* Returns how many elements of a call's result, and bytes of the guard behind it, are wrong. */
uint64_t perf_verify(const struct perf_call *call, uint32_t iter);

/* perf_float.c: the floats that inccl-perf sends, and the error that a result may have
 * (docs/floats.md). */

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
