/* SPDX-License-Identifier: BSD-2-Clause */
/* Broadcast: each rank receives the elements of one rank, the root. */
#include "hostlib/src/coll/coll.h"

static void shape(int rank, int size, int root, struct inccl_shape *shape)
{
	*shape = (struct inccl_shape){
		.blocks = 1, .send_blocks = rank == root, .recv_blocks = 1, .copied = true};
}

int inccl_broadcast_start(struct inccl_communicator *comm, const void *send, void *recv,
			  size_t count, enum inccl_dtype dtype, int root,
			  const struct inccl_collective_opts *opts, struct inccl_request **request)
{
	const struct inccl_call call = {INCCL_BROADCAST, shape, send,      recv,
					count,           dtype, INCCL_SUM, root};

	return inccl_collective_start(comm, &call, opts, request);
}

int inccl_broadcast(struct inccl_communicator *comm, const void *send, void *recv, size_t count,
		    enum inccl_dtype dtype, int root, const struct inccl_collective_opts *opts)
{
	const struct inccl_call call = {INCCL_BROADCAST, shape, send,      recv,
					count,           dtype, INCCL_SUM, root};

	return inccl_collective_run(comm, &call, opts);
}
