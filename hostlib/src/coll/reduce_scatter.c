/* SPDX-License-Identifier: BSD-2-Clause */
/* ReduceScatter: each rank receives one block of the operator's result over the elements of all
 * ranks. On the wire it is one Reduce after the other, with the rank of each block as the root. */
#include "hostlib/src/coll/coll.h"

static void shape(int rank, int size, int root, struct inccl_shape *shape)
{
	*shape = (struct inccl_shape){
		.blocks = size, .send_blocks = size, .recv_blocks = 1, .own_block = rank};
}

int inccl_reduce_scatter_start(struct inccl_communicator *comm, const void *send, void *recv,
			       size_t count, enum inccl_dtype dtype, enum inccl_op op,
			       const struct inccl_collective_opts *opts,
			       struct inccl_request **request)
{
	const struct inccl_call call = {
		INCCL_REDUCE_SCATTER, shape, send, recv, count, dtype, op, 0};

	return inccl_collective_start(comm, &call, opts, request);
}

int inccl_reduce_scatter(struct inccl_communicator *comm, const void *send, void *recv,
			 size_t count, enum inccl_dtype dtype, enum inccl_op op,
			 const struct inccl_collective_opts *opts)
{
	const struct inccl_call call = {
		INCCL_REDUCE_SCATTER, shape, send, recv, count, dtype, op, 0};

	return inccl_collective_run(comm, &call, opts);
}
