/* SPDX-License-Identifier: BSD-2-Clause */
/* Barrier: returns when every rank has called it. */
#include "hostlib/src/coll/coll.h"

static void shape(int rank, int size, int root, struct inccl_shape *shape)
{
	*shape = (struct inccl_shape){.blocks = 1};
}

int inccl_barrier_start(struct inccl_communicator *comm, const struct inccl_collective_opts *opts,
			struct inccl_request **request)
{
	const struct inccl_call call = {.collective = INCCL_BARRIER, .shape = shape};

	return inccl_collective_start(comm, &call, opts, request);
}

int inccl_barrier(struct inccl_communicator *comm, const struct inccl_collective_opts *opts)
{
	const struct inccl_call call = {.collective = INCCL_BARRIER, .shape = shape};

	return inccl_collective_run(comm, &call, opts);
}
