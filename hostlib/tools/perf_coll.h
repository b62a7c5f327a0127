/* SPDX-License-Identifier: BSD-2-Clause */
/* The collectives that inccl-perf times: how each is called, and which vectors each rank has. */
#ifndef INCCL_TOOLS_PERF_COLL_H
#define INCCL_TOOLS_PERF_COLL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hostlib/include/inccl.h"
#include "hostlib/tools/perf_opts.h"

/* A call of a collective, with its vectors. */
struct perf_call {
	const struct perf_opts *opts;
	uint32_t rank, ranks;
	enum inccl_dtype dtype;
	enum inccl_op op;
	size_t count; /* the count argument of the call; with blocks, the elements of one block */
	void *send, *recv;
	size_t send_count, recv_count; /* numbers of elements of the vectors at send and recv */
	/* distance in bytes to the vectors of the next of the calls that are started together */
	size_t stride;
};

/* Returns call n of those that are started together, beginning with 0. */
static inline struct perf_call perf_nth(const struct perf_call *call, unsigned int n)
{
	struct perf_call nth = *call;

	nth.send = (char *)call->send + n * call->stride;
	nth.recv = (char *)call->recv + n * call->stride;
	return nth;
}

struct perf_collective {
	enum inccl_collective collective;
	bool blocks; /* each rank sends or receives one block of the vector */
	bool has_op; /* the collective has an operator */
	bool has_root;
	int (*run)(const struct perf_call *call, const struct inccl_collective_opts *how);
	/* The data that each of N ranks would have to send and receive without the network's help,
	 * in multiples of the vector. If ranks differ, it is that of the busiest rank. */
	double (*bus_factor)(double ranks);
};

/* Returns the entry of a collective. Every collective has one. */
const struct perf_collective *perf_collective(enum inccl_collective collective);

/* Sets call's vectors for `elements` elements in total. Each memory has room for that many, and for
 * PERF_GUARD_BYTES more. */
void perf_place(struct perf_call *call, uint64_t elements, void *send_memory, void *recv_memory);

#endif
