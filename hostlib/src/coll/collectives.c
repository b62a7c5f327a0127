/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls of the collectives. A collective is described by a number, which its descriptor has,
 * and by the shape of its buffers on each rank. Each has a call that waits, and one that returns a
 * request. A collective that is added has a row in the table of shapes. */
#include "hostlib/src/coll/coll.h"

/* ---- shapes ---- */

/* Each rank receives the operator's result over the elements of all ranks. */
static void allreduce_shape(int rank, int size, int root, struct inccl_shape *shape)
{
	*shape = (struct inccl_shape){.blocks = 1, .send_blocks = 1, .recv_blocks = 1};
}

/* One rank, the root, receives the operator's result over the elements of all ranks. */
static void reduce_shape(int rank, int size, int root, struct inccl_shape *shape)
{
	*shape = (struct inccl_shape){.blocks = 1, .send_blocks = 1, .recv_blocks = rank == root};
}

/* Each rank receives the elements of one rank, the root. */
static void broadcast_shape(int rank, int size, int root, struct inccl_shape *shape)
{
	*shape = (struct inccl_shape){
		.blocks = 1, .send_blocks = rank == root, .recv_blocks = 1, .copied = true};
}

/* Each rank receives one block of the operator's result over the elements of all ranks. On the
 * wire it is one Reduce after the other, with the rank of each block as the root. */
static void reduce_scatter_shape(int rank, int size, int root, struct inccl_shape *shape)
{
	*shape = (struct inccl_shape){
		.blocks = size, .send_blocks = size, .recv_blocks = 1, .own_block = rank};
}

/* Each rank receives the elements of all ranks. On the wire it is one Broadcast after the
 * other, one of each rank's block. */
static void all_gather_shape(int rank, int size, int root, struct inccl_shape *shape)
{
	*shape = (struct inccl_shape){.blocks = size,
				      .send_blocks = 1,
				      .recv_blocks = size,
				      .own_block = rank,
				      .copied = true};
}

/* Returns when every rank has called it. */
static void barrier_shape(int rank, int size, int root, struct inccl_shape *shape)
{
	*shape = (struct inccl_shape){.blocks = 1};
}

static void (*const shapes[])(int rank, int size, int root, struct inccl_shape *shape) = {
	[INCCL_ALLREDUCE] = allreduce_shape,           [INCCL_REDUCE] = reduce_shape,
	[INCCL_BROADCAST] = broadcast_shape,           [INCCL_BARRIER] = barrier_shape,
	[INCCL_REDUCE_SCATTER] = reduce_scatter_shape, [INCCL_ALL_GATHER] = all_gather_shape,
};

bool inccl_shape_of(const struct inccl_call *call, int rank, int size, struct inccl_shape *shape)
{
	if ((unsigned int)call->collective >= sizeof(shapes) / sizeof(shapes[0]))
		return false;
	shapes[call->collective](rank, size, call->root, shape);
	return true;
}

/* ---- the public calls ---- */

int inccl_allreduce_start(struct inccl_communicator *comm, const void *send, void *recv,
			  size_t count, enum inccl_dtype dtype, enum inccl_op op,
			  const struct inccl_collective_opts *opts, struct inccl_request **request)
{
	const struct inccl_call call = {INCCL_ALLREDUCE, send, recv, count, dtype, op, 0};

	return inccl_collective_start(comm, &call, opts, request);
}

int inccl_allreduce(struct inccl_communicator *comm, const void *send, void *recv, size_t count,
		    enum inccl_dtype dtype, enum inccl_op op,
		    const struct inccl_collective_opts *opts)
{
	const struct inccl_call call = {INCCL_ALLREDUCE, send, recv, count, dtype, op, 0};

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

int inccl_reduce_start(struct inccl_communicator *comm, const void *send, void *recv, size_t count,
		       enum inccl_dtype dtype, enum inccl_op op, int root,
		       const struct inccl_collective_opts *opts, struct inccl_request **request)
{
	const struct inccl_call call = {INCCL_REDUCE, send, recv, count, dtype, op, root};

	return inccl_collective_start(comm, &call, opts, request);
}

int inccl_reduce(struct inccl_communicator *comm, const void *send, void *recv, size_t count,
		 enum inccl_dtype dtype, enum inccl_op op, int root,
		 const struct inccl_collective_opts *opts)
{
	const struct inccl_call call = {INCCL_REDUCE, send, recv, count, dtype, op, root};

	return inccl_collective_run(comm, &call, opts);
}

int inccl_broadcast_start(struct inccl_communicator *comm, const void *send, void *recv,
			  size_t count, enum inccl_dtype dtype, int root,
			  const struct inccl_collective_opts *opts, struct inccl_request **request)
{
	const struct inccl_call call = {INCCL_BROADCAST, send, recv, count, dtype, INCCL_SUM, root};

	return inccl_collective_start(comm, &call, opts, request);
}

int inccl_broadcast(struct inccl_communicator *comm, const void *send, void *recv, size_t count,
		    enum inccl_dtype dtype, int root, const struct inccl_collective_opts *opts)
{
	const struct inccl_call call = {INCCL_BROADCAST, send, recv, count, dtype, INCCL_SUM, root};

	return inccl_collective_run(comm, &call, opts);
}

int inccl_reduce_scatter_start(struct inccl_communicator *comm, const void *send, void *recv,
			       size_t count, enum inccl_dtype dtype, enum inccl_op op,
			       const struct inccl_collective_opts *opts,
			       struct inccl_request **request)
{
	const struct inccl_call call = {INCCL_REDUCE_SCATTER, send, recv, count, dtype, op, 0};

	return inccl_collective_start(comm, &call, opts, request);
}

int inccl_reduce_scatter(struct inccl_communicator *comm, const void *send, void *recv,
			 size_t count, enum inccl_dtype dtype, enum inccl_op op,
			 const struct inccl_collective_opts *opts)
{
	const struct inccl_call call = {INCCL_REDUCE_SCATTER, send, recv, count, dtype, op, 0};

	return inccl_collective_run(comm, &call, opts);
}

int inccl_all_gather_start(struct inccl_communicator *comm, const void *send, void *recv,
			   size_t count, enum inccl_dtype dtype,
			   const struct inccl_collective_opts *opts, struct inccl_request **request)
{
	const struct inccl_call call = {INCCL_ALL_GATHER, send, recv, count, dtype, INCCL_SUM, 0};

	return inccl_collective_start(comm, &call, opts, request);
}

int inccl_all_gather(struct inccl_communicator *comm, const void *send, void *recv, size_t count,
		     enum inccl_dtype dtype, const struct inccl_collective_opts *opts)
{
	const struct inccl_call call = {INCCL_ALL_GATHER, send, recv, count, dtype, INCCL_SUM, 0};

	return inccl_collective_run(comm, &call, opts);
}

int inccl_barrier_start(struct inccl_communicator *comm, const struct inccl_collective_opts *opts,
			struct inccl_request **request)
{
	const struct inccl_call call = {.collective = INCCL_BARRIER};

	return inccl_collective_start(comm, &call, opts, request);
}

int inccl_barrier(struct inccl_communicator *comm, const struct inccl_collective_opts *opts)
{
	const struct inccl_call call = {.collective = INCCL_BARRIER};

	return inccl_collective_run(comm, &call, opts);
}
