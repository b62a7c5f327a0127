/* SPDX-License-Identifier: BSD-2-Clause */
/* AllReduce: each rank receives the operator's result over the elements of all ranks. */
#include "hostlib/src/coll/coll.h"

static void shape(int rank, int size, int root, struct inccl_shape *shape)
{
	*shape = (struct inccl_shape){.blocks = 1, .send_blocks = 1, .recv_blocks = 1};
}

int inccl_allreduce_start(struct inccl_communicator *comm, const void *send, void *recv,
			  size_t count, enum inccl_dtype dtype, enum inccl_op op,
			  const struct inccl_collective_opts *opts, struct inccl_request **request)
{
	const struct inccl_call call = {INCCL_ALLREDUCE, shape, send, recv, count, dtype, op, 0};

	return inccl_collective_start(comm, &call, opts, request);
}

int inccl_allreduce(struct inccl_communicator *comm, const void *send, void *recv, size_t count,
		    enum inccl_dtype dtype, enum inccl_op op,
		    const struct inccl_collective_opts *opts)
{
	const struct inccl_call call = {INCCL_ALLREDUCE, shape, send, recv, count, dtype, op, 0};

	return inccl_collective_run(comm, &call, opts);
}

int inccl_allreduce_sendrecv(struct inccl_communicator *comm, const int32_t *send, size_t count,
			     int32_t *recv)
{
	INCCL_OPTS(inccl_collective_opts, opts, .mode = INCCL_MODE_SENDRECV);

	return inccl_allreduce(comm, send, recv, count, INCCL_INT32, INCCL_SUM, &opts);
}

int inccl_allreduce_write(struct inccl_communicator *comm, const int32_t *send, size_t count,
			  int32_t *recv)
{
	INCCL_OPTS(inccl_collective_opts, opts, .mode = INCCL_MODE_WRITE);

	return inccl_allreduce(comm, send, recv, count, INCCL_INT32, INCCL_SUM, &opts);
}
