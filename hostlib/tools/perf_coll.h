/* SPDX-License-Identifier: BSD-2-Clause */
/* The collectives that inccl-perf times: how each is called, and which vectors each rank has. */
#ifndef INCCL_TOOLS_PERF_COLL_H
#define INCCL_TOOLS_PERF_COLL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hostlib/include/inccl.h"
#include "hostlib/tools/perf_opts.h"

/* A call of a collective that is timed, with its vectors. */
struct perf_call {
	const struct perf_opts *opts;
	uint32_t rank, ranks;
	enum inccl_dtype dtype;
	enum inccl_op op;
	/* argument count of the call, which is the elements of one block if the collective has
	 * blocks */
	size_t count;
	void *send, *recv;
	size_t send_count, recv_count; /* numbers of elements in the vectors at send and at recv */
	/* If several calls are started together: distance in bytes from the vectors of one call to
	 * those of the next. */
	size_t stride;
};

/* Returns call number n, from 0 on, of those that are started together. */
static inline struct perf_call perf_nth(const struct perf_call *call, unsigned int n)
{
	struct perf_call nth = *call;

	nth.send = (char *)call->send + n * call->stride;
	nth.recv = (char *)call->recv + n * call->stride;
	return nth;
}

struct perf_collective {
	enum inccl_collective collective;
	bool blocks; /* a vector is cut into blocks, of which each rank sends or receives one */
	bool has_op; /* the collective has an operator */
	bool has_root;
	int (*run)(const struct perf_call *call, const struct inccl_collective_opts *how);
	/* Bytes that each of N ranks would have to send, and receive, without a switch that
	 * computes, as a multiple of the vector's size. If ranks differ, it counts those of the
	 * busiest rank. */
	double (*bus_factor)(double ranks);
};

/* Returns the entry of a collective in the table; each collective has one. */
const struct perf_collective *perf_collective(enum inccl_collective collective);

/* Sets the vectors of a call for so many elements in total. Each memory has room for these, and for
 * PERF_GUARD_BYTES more. */
void perf_place(struct perf_call *call, uint64_t elements, void *send_memory, void *recv_memory);

#endif
