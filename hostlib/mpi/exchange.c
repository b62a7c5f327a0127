// SPDX-License-Identifier: BSD-2-Clause
/* Collectives among the leaders of a team, by libinccl. If one of them fails, the leaders get its
 * result from each other, or repeat it by MPI. The reasons are in docs/mpi.md, "A failure during a
 * call". The thread of the program calls this by run.c. */
#include <errno.h>
#include <stdio.h>
#include "hostlib/mpi/front.h"

/* time slice of a wait, after which MPI makes progress, because a peer may need that to come here
 */
#define SLICE_MS 1

void front_bcast_bytes(void *data, size_t bytes, int root, MPI_Comm comm)
{
	for (size_t at = 0; at < bytes; at += FRONT_PIECE_BYTES)
		PMPI_Bcast((char *)data + at,
			   bytes - at < FRONT_PIECE_BYTES ? bytes - at : FRONT_PIECE_BYTES,
			   MPI_BYTE, root, comm);
}

/* Ends a communicator whose collective cannot begin or has failed, so that no later one begins, and
 * so that the other leaders fail, too. */
static int give_up(struct front_team *team, int err, const char *reason)
{
	snprintf(team->reason, sizeof(team->reason), "%s", reason);
	front_window_leave(team);
	front_leave(team);
	return err;
}

/* Waits for a collective of libinccl, while MPI makes progress. */
static int finish(struct front_team *team, struct inccl_request *request, size_t bytes)
{
	const char *story;
	int err;

	while ((err = inccl_wait(request, SLICE_MS)) == -EAGAIN) {
		front_progress(team->leaders);
		story = front_window_stalled(team, bytes);
		if (story)
			return give_up(team, -ETIMEDOUT, story);
	}
	if (!err)
		return 0;
	story = inccl_communicator_error(team->comm);
	return give_up(team, err, story ? story : inccl_strerror(err));
}

static int by_switch(struct front_team *team, const struct front_exchange *x)
{
	const size_t n = x->shape.elements, part = n / team->nodes;
	const enum inccl_dtype dtype = x->shape.dtype;
	const enum inccl_op op = x->shape.op;
	struct inccl_communicator *comm = team->comm;
	struct inccl_request *request;
	int err;

	if (!comm)
		return -ENOTCONN;
	if (x->kind == FRONT_ALLREDUCE)
		err = inccl_allreduce_start(comm, x->in, x->out, n, dtype, op, NULL, &request);
	else if (x->kind == FRONT_REDUCE)
		err = inccl_reduce_start(comm, x->in, x->out, n, dtype, op, x->root, NULL,
					 &request);
	else if (x->kind == FRONT_BCAST)
		err = inccl_broadcast_start(comm, x->in, x->out, n, dtype, x->root, NULL, &request);
	else if (x->kind == FRONT_REDUCE_SCATTER)
		err = inccl_reduce_scatter_start(comm, x->in, x->out, part, dtype, op, NULL,
						 &request);
	else if (x->kind == FRONT_ALLGATHER)
		err = inccl_all_gather_start(comm, x->in, x->out, part, dtype, NULL, &request);
	else
		err = inccl_barrier_start(comm, NULL, &request);
	return err ? give_up(team, err, inccl_strerror(err))
		   : finish(team, request, x->shape.bytes);
}

static void by_mpi(struct front_team *team, const struct front_exchange *x)
{
	const struct front_shape *s = &x->shape;
	const int part = s->count / team->nodes;

	if (x->kind == FRONT_ALLREDUCE)
		PMPI_Allreduce(x->in, x->out, s->count, x->type, x->op, team->leaders);
	else if (x->kind == FRONT_REDUCE)
		PMPI_Reduce(x->in, x->out, s->count, x->type, x->op, x->root, team->leaders);
	else if (x->kind == FRONT_BCAST)
		front_bcast_bytes(x->out, s->bytes, x->root, team->leaders);
	else if (x->kind == FRONT_REDUCE_SCATTER)
		PMPI_Reduce_scatter_block(x->in, x->out, part, x->type, x->op, team->leaders);
	else if (x->kind == FRONT_ALLGATHER)
		PMPI_Allgather(x->in, part, x->type, x->out, part, x->type, team->leaders);
	else
		PMPI_Barrier(team->leaders);
}

/* An AllReduce or a barrier whose result fits into the window. The result stays there until the
 * collective after the next. */
static void exchange_small(struct front_team *team, struct front_exchange *x)
{
	const uint64_t number = ++team->number;
	int err;

	x->out = front_window_result(team, number);
	front_window_begin(team);
	err = by_switch(team, x);
	if (!err) {
		front_window_publish(team, number, true);
	} else if (!front_window_fetch(team, number, x->shape.bytes)) {
		by_mpi(team, x);
		front_window_publish(team, number, true);
		front_lost(team);
	}
}

/* A collective after which the leaders agree whether all have the result. */
static void exchange_large(struct front_team *team, const struct front_exchange *x)
{
	int good, all_good;

	front_window_begin(team);
	good = !by_switch(team, x);
	PMPI_Allreduce(&good, &all_good, 1, MPI_INT, MPI_MIN, team->leaders);
	if (all_good)
		return;
	by_mpi(team, x);
	front_lost(team);
}

bool front_is_small(const struct front_team *team, size_t bytes)
{
	return team->has_window && bytes <= FRONT_WINDOW_BYTES;
}

void front_exchange(struct front_team *team, struct front_exchange *x)
{
	const bool ends_together = x->kind == FRONT_ALLREDUCE || x->kind == FRONT_BARRIER;

	if (ends_together && front_is_small(team, x->shape.bytes))
		exchange_small(team, x);
	else
		exchange_large(team, x);
}
