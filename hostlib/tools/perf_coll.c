/* SPDX-License-Identifier: BSD-2-Clause */
#include "hostlib/tools/perf_coll.h"

static double twice_all_but_own(double ranks)
{
	return 2 * (ranks - 1) / ranks;
}

static double all_but_own(double ranks)
{
	return (ranks - 1) / ranks;
}

static double once(double ranks)
{
	return 1;
}

static int run_allreduce(const struct perf_call *c, const struct inccl_collective_opts *how)
{
	return inccl_allreduce(c->opts->job.comm, c->send, c->recv, c->count, c->dtype, c->op, how);
}

static int run_reduce(const struct perf_call *c, const struct inccl_collective_opts *how)
{
	return inccl_reduce(c->opts->job.comm, c->send, c->recv, c->count, c->dtype, c->op,
			    c->opts->root, how);
}

static int run_broadcast(const struct perf_call *c, const struct inccl_collective_opts *how)
{
	return inccl_broadcast(c->opts->job.comm, c->send, c->recv, c->count, c->dtype,
			       c->opts->root, how);
}

static int run_barrier(const struct perf_call *c, const struct inccl_collective_opts *how)
{
	return inccl_barrier(c->opts->job.comm, how);
}

static int run_reduce_scatter(const struct perf_call *c, const struct inccl_collective_opts *how)
{
	return inccl_reduce_scatter(c->opts->job.comm, c->send, c->recv, c->count, c->dtype, c->op,
				    how);
}

static int run_all_gather(const struct perf_call *c, const struct inccl_collective_opts *how)
{
	return inccl_all_gather(c->opts->job.comm, c->send, c->recv, c->count, c->dtype, how);
}

static const struct perf_collective collectives[] = {
	{INCCL_ALLREDUCE, .has_op = true, .run = run_allreduce, .bus_factor = twice_all_but_own},
	{INCCL_REDUCE, .has_op = true, .has_root = true, .run = run_reduce, .bus_factor = once},
	{INCCL_BROADCAST, .has_root = true, .run = run_broadcast, .bus_factor = once},
	{INCCL_BARRIER, .run = run_barrier, .bus_factor = once},
	{INCCL_REDUCE_SCATTER, .blocks = true, .has_op = true, .run = run_reduce_scatter,
	 .bus_factor = all_but_own},
	{INCCL_ALL_GATHER, .blocks = true, .run = run_all_gather, .bus_factor = all_but_own},
};

const struct perf_collective *perf_collective(enum inccl_collective collective)
{
	const struct perf_collective *c = collectives;

	while (c->collective != collective)
		c++;
	return c;
}

void perf_place(struct perf_call *call, uint64_t elements, void *send_memory, void *recv_memory)
{
	const struct perf_opts *opts = call->opts;
	const bool is_root = call->rank == opts->root;
	size_t own;

	call->count = perf_collective(opts->collective)->blocks ? elements / call->ranks : elements;
	call->send = send_memory;
	call->recv = recv_memory;
	call->send_count = call->recv_count = call->count;
	own = call->rank * call->count * inccl_dtype_size(call->dtype);
	switch (opts->collective) {
	case INCCL_REDUCE:
		call->recv_count = is_root ? call->count : 0;
		break;
	case INCCL_BROADCAST:
		call->send_count = is_root ? call->count : 0;
		break;
	case INCCL_REDUCE_SCATTER:
		call->send_count = call->ranks * call->count;
		if (opts->in_place)
			call->recv = (char *)send_memory + own;
		return;
	case INCCL_ALL_GATHER:
		call->recv_count = call->ranks * call->count;
		if (opts->in_place)
			call->send = (char *)recv_memory + own;
		return;
	default:
		break;
	}
	if (opts->in_place)
		call->recv = send_memory;
}
