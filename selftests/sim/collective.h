/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The collectives that ranks call: their choice, their data, and their expected results. Any task
 * may call the functions. They keep no state.
 */
#ifndef SIM_COLLECTIVE_H
#define SIM_COLLECTIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hostlib/include/inccl.h"
#include "selftests/unit/report.h"

#define COLLECTIVE_RANKS    8
#define COLLECTIVE_SWITCHES 4
#define COLLECTIVE_PACKETS  64 /* greatest number of packets of one call */

/* A collective that all ranks of a communicator call. */
struct collective {
	enum inccl_collective what;
	int root;
	enum inccl_dtype dtype;
	enum inccl_op op;
	enum inccl_mode mode;
	unsigned int ranks;
	/* number of elements in a block; a ReduceScatter and an AllGather have one block for each
	 * rank, other collectives one block */
	size_t count;
	size_t block_bytes;
	bool in_place;
	unsigned int float_block;
	/* scaled: all ranks use a known bound of the floats; special: some values are infinite or
	 * NaN */
	bool scaled, special;
};

/* The properties of a communicator that its collectives depend on. */
struct collective_limits {
	unsigned int ranks, payload;
	bool native; /* switches add floats as they are */
	bool writes; /* the mode WRITE is possible */
};

/* The tree of a communicator's switches: the parent of each switch (-1: it is the root), and the
 * switch at which each rank is. */
struct collective_tree {
	int parent[COLLECTIVE_SWITCHES];
	unsigned int at[COLLECTIVE_RANKS];
};

/* The memory of one rank for a call. */
struct collective_buffers {
	/* copy of the input, for the check that the call did not change it */
	uint8_t *given;
	uint8_t *send, *recv; /* buffers of the call; NULL if there is no data */
	/* allocated memory of send and recv; one piece if they are the same buffer */
	uint8_t *room[2];
};

/* Draws a collective. */
void collective_draw(struct rng *rng, const struct collective_limits *limits,
		     struct collective *out);
/* "AllReduce" and so on. */
const char *collective_name(const struct collective *c);
/* Lengths of the data that a rank contributes, and receives, and of the data of all blocks. */
size_t collective_send_bytes(const struct collective *c, unsigned int rank);
size_t collective_recv_bytes(const struct collective *c, unsigned int rank);
size_t collective_all_bytes(const struct collective *c);
/* Does the collective add, compare or multiply floats? */
bool collective_reduces_floats(const struct collective *c);
/* Fills memory with the data of a rank, which follow from the seed. */
void collective_fill(const struct collective *c, uint64_t seed, uint8_t *at, size_t size);
/* Makes a rank's buffers, with data that follow from the seed. */
void collective_make(const struct collective *c, unsigned int rank, uint64_t seed,
		     struct collective_buffers *out);
/* Restores the buffers to their contents before the call. */
void collective_renew(const struct collective *c, unsigned int rank,
		      const struct collective_buffers *b);
void collective_free(struct collective_buffers *b);
int collective_start(const struct collective *c, struct inccl_communicator *comm,
		     const struct collective_buffers *b, struct inccl_request **request);
/* Computes the results of all blocks from what the ranks have given. A sum of floats is computed as
 * switches in termination mode make it, in the order of the tree. */
void collective_expect(const struct collective *c, const uint8_t *const given[],
		       const struct collective_tree *tree, uint8_t *expected);
/* Checks floats that were added as integers: each of those that the rank got must be within the
 * error bound. bits: the communicator's float_bits. */
void collective_check_floats(const struct collective *c, const uint8_t *const given[],
			     unsigned int rank, unsigned int bits, const uint8_t *got);
/* If a call does not use one buffer for input and output, the input must be unchanged. */
bool collective_is_unchanged(const struct collective *c, unsigned int rank,
			     const struct collective_buffers *b);

/* native.c: the sums of floats. */
void collective_native(const struct collective *c, const uint8_t *const given[],
		       const struct collective_tree *tree, uint8_t *expected);

#endif
