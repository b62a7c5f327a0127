/* SPDX-License-Identifier: BSD-2-Clause */
/* Reduce: one rank, the root, receives the operator's result over the elements of all ranks. */
#include "hostlib/src/coll/coll.h"

static void shape(int rank, int size, int root, struct inccl_shape *shape)
{
	*shape = (struct inccl_shape){.blocks = 1, .send_blocks = 1, .recv_blocks = rank == root};
}

int inccl_reduce_start(struct inccl_communicator *comm, const void *send, void *recv, size_t count,
		       enum inccl_dtype dtype, enum inccl_op op, int root,
		       const struct inccl_collective_opts *opts, struct inccl_request **request)
{
	const struct inccl_call call = {INCCL_REDUCE, shape, send, recv, count, dtype, op, root};

	return inccl_collective_start(comm, &call, opts, request);
}

int inccl_reduce(struct inccl_communicator *comm, const void *send, void *recv, size_t count,
		 enum inccl_dtype dtype, enum inccl_op op, int root,
		 const struct inccl_collective_opts *opts)
{
	const struct inccl_call call = {INCCL_REDUCE, shape, send, recv, count, dtype, op, root};

	return inccl_collective_run(comm, &call, opts);
}
