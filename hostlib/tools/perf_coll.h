/* SPDX-License-Identifier: BSD-2-Clause */
/* The collectives that inccl-perf times: how each is called, and what each rank's buffers hold. */
#ifndef INCCL_TOOLS_PERF_COLL_H
#define INCCL_TOOLS_PERF_COLL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hostlib/include/inccl.h"
#include "hostlib/tools/perf_opts.h"

/* One call, and the vectors that it is about. */
struct perf_call {
	const struct perf_opts *opts;
	uint32_t rank, ranks;
	enum inccl_dtype dtype;
	enum inccl_op op;
	size_t count; /* elements of a block: of the call's own count */
	void *send, *recv;
	size_t send_count, recv_count; /* elements there */
};

struct perf_collective {
	enum inccl_collective collective;
	bool blocks; /* the vector is cut into one for each rank */
	bool has_op; /* an operator is applied */
	bool has_root;
	int (*run)(const struct perf_call *call, const struct inccl_collective_opts *how);
	/* What each of N ranks would have to send and receive without help from the network, in
	 * vectors; of those who do most. */
	double (*bus_factor)(double ranks);
};

/* Every collective has one. */
const struct perf_collective *perf_collective(enum inccl_collective collective);

/* The vectors of `elements` in all, in memory for as many and PERF_GUARD_BYTES more. */
void perf_place(struct perf_call *call, uint64_t elements, void *send_memory, void *recv_memory);

#endif
