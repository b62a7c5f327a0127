// SPDX-License-Identifier: BSD-2-Clause
/* Collectives among the leaders of a team, by the fallback of libinccl (inccl_fallback.h). If one
 * of them fails, the leaders get its result from each other, or all of them repeat it by MPI.
 * docs/mpi.md, "A failure during a call", has the reasons. The thread of the program calls this by
 * run.c. */
#include <errno.h>
#include <stdio.h>
#include "hostlib/mpi/front.h"

/* number of times that MPI makes progress in one go */
#define PROGRESS_TIMES 4
/* A leader that cannot be reached for so long is gone. TCP gives up a connection after some 15
 * minutes, and MPI with it. */
#define UNREACHABLE_MS (15 * 60 * 1000)

void front_progress(MPI_Comm comm)
{
	int found;

	for (int i = 0; i < PROGRESS_TIMES; i++)
		PMPI_Iprobe(MPI_ANY_SOURCE, 0, comm, &found, MPI_STATUS_IGNORE);
}

void front_bcast_bytes(void *data, size_t bytes, int root, MPI_Comm comm)
{
	for (size_t at = 0; at < bytes; at += FRONT_PIECE_BYTES)
		PMPI_Bcast((char *)data + at,
			   bytes - at < FRONT_PIECE_BYTES ? bytes - at : FRONT_PIECE_BYTES,
			   MPI_BYTE, root, comm);
}

/* ---- functions that the fallback calls ---- */

static int gather(void *context, const void *mine, void *all, size_t bytes)
{
	struct front_team *team = context;

	PMPI_Allgather(mine, bytes, MPI_BYTE, all, bytes, MPI_BYTE, team->leaders);
	return 0;
}

/* All leaders repeat the same collective, so all of them leave the switch with it. */
static int repeat(void *context, const struct inccl_fallback_call *c)
{
	struct front_team *team = context;
	const struct front_exchange *x = team->exchange;
	const struct front_shape *s = &x->shape;
	const void *in = c->send == c->recv ? MPI_IN_PLACE : c->send;
	const int part = s->count / team->nodes;

	team->repeated = true;
	if (x->kind == FRONT_ALLREDUCE)
		PMPI_Allreduce(in, c->recv, s->count, x->type, x->op, team->leaders);
	else if (x->kind == FRONT_REDUCE)
		PMPI_Reduce(in, c->recv, s->count, x->type, x->op, x->root, team->leaders);
	else if (x->kind == FRONT_BCAST)
		front_bcast_bytes(c->recv, s->bytes, x->root, team->leaders);
	else if (x->kind == FRONT_REDUCE_SCATTER)
		PMPI_Reduce_scatter_block(in, c->recv, part, x->type, x->op, team->leaders);
	else if (x->kind == FRONT_ALLGATHER)
		PMPI_Allgather(in, part, x->type, c->recv, part, x->type, team->leaders);
	else
		PMPI_Barrier(team->leaders);
	return 0;
}

static void progress(void *context)
{
	struct front_team *team = context;

	front_progress(team->leaders);
}

static void lost(void *context, const char *reason)
{
	struct front_team *team = context;

	snprintf(team->reason, sizeof(team->reason), "%s", reason);
	team->comm = NULL;
}

int front_fallback(struct front_team *team, char why[FRONT_TEXT_BYTES])
{
	INCCL_OPTS(inccl_fallback_opts, opts, .context = team, .gather = gather, .repeat = repeat,
		   .progress = progress, .lost = lost, .keep_bytes = FRONT_KEEP_BYTES, .error = why,
		   .error_size = FRONT_TEXT_BYTES, .unreachable_ms = UNREACHABLE_MS);
	int err = inccl_fallback_create(team->comm, &opts, &team->fallback);

	if (err && !why[0])
		snprintf(why, FRONT_TEXT_BYTES, "%s", inccl_strerror(err));
	return err;
}

void front_exchange(struct front_team *team, struct front_exchange *x)
{
	static const enum inccl_collective collectives[] = {
		[FRONT_ALLREDUCE] = INCCL_ALLREDUCE,
		[FRONT_REDUCE] = INCCL_REDUCE,
		[FRONT_BCAST] = INCCL_BROADCAST,
		[FRONT_BARRIER] = INCCL_BARRIER,
		[FRONT_REDUCE_SCATTER] = INCCL_REDUCE_SCATTER,
		[FRONT_ALLGATHER] = INCCL_ALL_GATHER,
	};
	const bool in_blocks = x->kind == FRONT_REDUCE_SCATTER || x->kind == FRONT_ALLGATHER;
	INCCL_OPTS(inccl_fallback_call, call, .collective = collectives[x->kind], .send = x->in,
		   .recv = x->out, .count = x->shape.elements / (in_blocks ? team->nodes : 1),
		   .dtype = x->shape.dtype, .op = x->shape.op, .root = x->root);
	int err;

	team->exchange = x;
	err = inccl_fallback_run(team->fallback, &call);
	/* a leader whose process is gone ends the program, as it does in MPI */
	if (err)
		front_die(inccl_fallback_reason(team->fallback) ?: inccl_strerror(err));
	if (team->repeated)
		front_lost(team);
}
