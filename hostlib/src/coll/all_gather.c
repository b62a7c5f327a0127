/* SPDX-License-Identifier: BSD-2-Clause */
/* AllGather: each rank receives the elements of all ranks. On the wire it is one Broadcast after
 * the other, one of each rank's block. */
#include "hostlib/src/coll/coll.h"

static void shape(int rank, int size, int root, struct inccl_shape *shape)
{
	*shape = (struct inccl_shape){.blocks = size,
				      .send_blocks = 1,
				      .recv_blocks = size,
				      .own_block = rank,
				      .copied = true};
}

int inccl_all_gather_start(struct inccl_communicator *comm, const void *send, void *recv,
			   size_t count, enum inccl_dtype dtype,
			   const struct inccl_collective_opts *opts, struct inccl_request **request)
{
	const struct inccl_call call = {INCCL_ALL_GATHER, shape, send, recv, count, dtype,
					INCCL_SUM,        0};

	return inccl_collective_start(comm, &call, opts, request);
}

int inccl_all_gather(struct inccl_communicator *comm, const void *send, void *recv, size_t count,
		     enum inccl_dtype dtype, const struct inccl_collective_opts *opts)
{
	const struct inccl_call call = {INCCL_ALL_GATHER, shape, send, recv, count, dtype,
					INCCL_SUM,        0};

	return inccl_collective_run(comm, &call, opts);
}
