// SPDX-License-Identifier: BSD-2-Clause
/* Runs a collective of MPI by the switch. Ranks of a node combine their parts by MPI first. Then
 * the leaders of the nodes use the switch, and give the result to their nodes by MPI. decide.c
 * calls this on the thread of the program.
 *
 * The leaders use the fallback of libinccl (inccl_fallback.h). If one of them fails, the leaders
 * get its result from each other, or all of them repeat it by MPI. docs/mpi.md, "A failure during a
 * call", has the reasons. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/mpi/front.h"

/* alignment of the rooms for contribution and result, enough for any element */
#define ROOM_ALIGNMENT 64
#define TAG            0
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

static void bcast_bytes(void *data, size_t bytes, int root, MPI_Comm comm)
{
	for (size_t at = 0; at < bytes; at += FRONT_PIECE_BYTES)
		PMPI_Bcast((char *)data + at,
			   bytes - at < FRONT_PIECE_BYTES ? bytes - at : FRONT_PIECE_BYTES,
			   MPI_BYTE, root, comm);
}

/* ---- functions that the fallback of the leaders calls ---- */

static int gather_all(void *context, const void *mine, void *all, size_t bytes)
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
		bcast_bytes(c->recv, s->bytes, x->root, team->leaders);
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
	INCCL_OPTS(inccl_fallback_opts, opts, .context = team, .gather = gather_all,
		   .repeat = repeat, .progress = progress, .lost = lost,
		   .keep_bytes = FRONT_KEEP_BYTES, .error = why, .error_size = FRONT_TEXT_BYTES,
		   .unreachable_ms = UNREACHABLE_MS);
	int err = inccl_fallback_create(team->comm, &opts, &team->fallback);

	if (err && !why[0])
		snprintf(why, FRONT_TEXT_BYTES, "%s", inccl_strerror(err));
	return err;
}

static void exchange(struct front_team *team, struct front_exchange *x)
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

/* ---- parts of a node ---- */

/* Returns room number @i of the team, with at least so many bytes. */
static void *room(struct front_team *team, int i, size_t bytes)
{
	void *p;

	if (bytes <= team->room_bytes[i])
		return team->room[i];
	if (posix_memalign(&p, ROOM_ALIGNMENT, bytes))
		front_die("no memory for the copy of a buffer");
	free(team->room[i]);
	team->room[i] = p;
	team->room_bytes[i] = bytes;
	return p;
}

static void send_bytes(const void *data, size_t bytes, int to, MPI_Comm comm)
{
	for (size_t at = 0; at < bytes; at += FRONT_PIECE_BYTES)
		PMPI_Send((const char *)data + at,
			  bytes - at < FRONT_PIECE_BYTES ? bytes - at : FRONT_PIECE_BYTES, MPI_BYTE,
			  to, TAG, comm);
}

static void receive_bytes(void *data, size_t bytes, int from, MPI_Comm comm)
{
	for (size_t at = 0; at < bytes; at += FRONT_PIECE_BYTES)
		PMPI_Recv((char *)data + at,
			  bytes - at < FRONT_PIECE_BYTES ? bytes - at : FRONT_PIECE_BYTES, MPI_BYTE,
			  from, TAG, comm, MPI_STATUS_IGNORE);
}

/* The node of a rank, and its place there. */
static int node_of(const struct front_team *team, int rank)
{
	return team->node_of[2 * rank];
}

static int place_of(const struct front_team *team, int rank)
{
	return team->node_of[2 * rank + 1];
}

/* At the end of each collective the ranks of a node learn from their leader whether the switch is
 * lost, so that the next collective has the same path on all ranks. */
static void end_in_node(struct front_team *team)
{
	int use = team->use;

	if (team->node_ranks < 2)
		return;
	PMPI_Bcast(&use, 1, MPI_INT, 0, team->node);
	team->use = use;
}

/* ---- reductions ---- */

/* Whether a contribution overlaps the receive buffer in a way that libinccl refuses. In a reduction
 * of the whole vector both may be the same. */
static bool is_entangled(const struct front_call *c, const void *part, size_t bytes)
{
	const uintptr_t from = (uintptr_t)part, to = (uintptr_t)c->recv;

	return from < to + bytes && to < from + bytes &&
	       (from != to || c->kind >= FRONT_REDUCE_SCATTER);
}

/* Combines the parts of the own node. Returns the contribution of the node, on its leader. */
static const void *contribution(struct front_team *team, const struct front_call *c,
				const struct front_shape *shape)
{
	/* is_valid() accepts equal buffers where MPI might. Those of a Reduce are equal by chance
	 * on ranks that get no result. */
	const bool in_place =
		c->send == MPI_IN_PLACE || (c->kind != FRONT_REDUCE && c->send == c->recv);
	const void *part = in_place ? c->recv : c->send;
	const bool indexed = shape->op == INCCL_MINLOC || shape->op == INCCL_MAXLOC;
	void *copy;

	if (team->node_ranks > 1) {
		copy = team->node_rank ? NULL : room(team, 0, shape->bytes);
		PMPI_Reduce(part, copy, shape->count, c->type, c->op, 0, team->node);
	} else if (indexed || is_entangled(c, part, shape->bytes)) {
		copy = room(team, 0, shape->bytes);
		memcpy(copy, part, shape->bytes);
	} else {
		return part;
	}
	if (copy && indexed)
		front_unsign_zeros(copy, shape->elements, shape->dtype);
	return copy;
}

static void run_allreduce(struct front_team *team, const struct front_call *c,
			  const struct front_shape *shape)
{
	struct front_exchange x = {FRONT_ALLREDUCE, *shape,         c->type,
				   c->op,           .out = c->recv, .root = 0};

	x.in = contribution(team, c, shape);
	if (!team->node_rank) {
		exchange(team, &x);
		if (x.out != c->recv)
			memcpy(c->recv, x.out, shape->bytes);
	}
	if (team->node_ranks > 1)
		PMPI_Bcast(c->recv, c->count, c->type, 0, team->node);
	end_in_node(team);
}

static void run_reduce(struct front_team *team, const struct front_call *c,
		       const struct front_shape *shape)
{
	const int place = place_of(team, c->root), root_node = node_of(team, c->root);
	const bool own_node = root_node == node_of(team, team->rank);
	struct front_exchange x = {FRONT_REDUCE, *shape, c->type, c->op, .root = root_node};

	x.in = contribution(team, c, shape);
	if (!team->node_rank) {
		if (own_node)
			x.out = place ? room(team, 1, shape->bytes) : c->recv;
		exchange(team, &x);
		if (own_node && place)
			send_bytes(x.out, shape->bytes, place, team->node);
		else if (own_node && x.out != c->recv)
			memcpy(c->recv, x.out, shape->bytes);
	} else if (team->rank == c->root) {
		receive_bytes(c->recv, shape->bytes, 0, team->node);
	}
	end_in_node(team);
}

/* The number of elements of a rank's block. */
static int block_count(const struct front_call *c, int rank)
{
	return c->kind == FRONT_REDUCE_SCATTER ? c->counts[rank] : c->count;
}

/* Copies a vector's blocks, which are in the order of ranks, into the order of nodes. All blocks
 * have the same size. */
static void sort_by_node(const struct front_team *team, const uint8_t *from, uint8_t *to,
			 size_t block_bytes)
{
	for (int rank = 0; rank < team->ranks; rank++) {
		const size_t at = node_of(team, rank) * team->node_ranks + place_of(team, rank);

		memcpy(to + at * block_bytes, from + rank * block_bytes, block_bytes);
	}
}

/* Gives each rank of the node its block. The leader has either the whole vector in the order of
 * ranks, or the blocks of its node. */
static void scatter(struct front_team *team, const struct front_call *c,
		    const struct front_shape *shape, const uint8_t *from, bool whole)
{
	const size_t element_bytes = shape->bytes / shape->count;
	int *counts = team->parts, *at = team->parts + team->node_ranks, next = 0;

	for (int rank = 0; rank < team->ranks; rank++) {
		const int place = place_of(team, rank), n = block_count(c, rank);

		if (node_of(team, rank) == node_of(team, team->rank)) {
			counts[place] = n;
			at[place] = next;
		}
		if (whole || node_of(team, rank) == node_of(team, team->rank))
			next += n;
	}
	if (team->node_ranks > 1)
		PMPI_Scatterv(from, counts, at, c->type, c->recv, counts[team->node_rank], c->type,
			      0, team->node);
	else if (from != c->recv && counts[0]) /* a rank without elements may have no buffer */
		memcpy(c->recv, from + at[0] * element_bytes, counts[0] * element_bytes);
}

static void run_reduce_scatter(struct front_team *team, const struct front_call *c,
			       const struct front_shape *shape)
{
	const bool whole = shape->bytes <= FRONT_KEEP_BYTES;
	struct front_exchange x = {whole ? FRONT_ALLREDUCE : FRONT_REDUCE_SCATTER, *shape, c->type,
				   c->op, .root = 0};
	size_t part_bytes = whole ? shape->bytes : shape->bytes / team->nodes;

	x.in = contribution(team, c, shape);
	if (!team->node_rank) {
		if (!whole && !team->sorted) {
			uint8_t *sorted = room(team, 1, shape->bytes + part_bytes);

			sort_by_node(team, x.in, sorted, shape->bytes / team->ranks);
			x.in = sorted;
			x.out = sorted + shape->bytes;
		} else if (!whole && team->node_ranks == 1) {
			x.out = c->recv;
		} else {
			x.out = room(team, 1, part_bytes);
		}
		exchange(team, &x);
	}
	scatter(team, c, shape, x.out, whole);
	end_in_node(team);
}

/* ---- bytes of any type ---- */

/* Elements of a type in the memory of the program. */
struct buffer {
	char *at;
	int count;
	MPI_Datatype type;
	MPI_Comm comm;
};

/* Copies between a buffer and packed bytes, a piece at a time. */
static void pack(const struct buffer *b, size_t bytes, uint8_t *packed, bool unpack)
{
	const size_t size = bytes / b->count,
		     n = FRONT_PIECE_BYTES / size ? FRONT_PIECE_BYTES / size : 1;
	/* MPICH packs nothing from MPI_BOTTOM, which is NULL. So addresses begin elsewhere then,
	 * and the type leads back. */
	const bool is_bottom = b->at == MPI_BOTTOM;
	const MPI_Aint back = -(MPI_Aint)packed;
	char *const begin = is_bottom ? (char *)packed : b->at;
	MPI_Aint lower, extent;
	MPI_Datatype type = b->type;
	const int one = 1;

	if (is_bottom) {
		PMPI_Type_create_hindexed(1, &one, &back, b->type, &type);
		PMPI_Type_commit(&type);
	}
	PMPI_Type_get_extent(b->type, &lower, &extent);
	for (size_t at = 0; at < (size_t)b->count; at += n) {
		const int here = b->count - at < n ? b->count - at : n;
		char *element = begin + (MPI_Aint)at * extent;
		int position = 0;

		if (unpack)
			PMPI_Unpack(packed + at * size, here * size, &position, element, here, type,
				    b->comm);
		else
			PMPI_Pack(element, here, type, packed + at * size, here * size, &position,
				  b->comm);
	}
	if (is_bottom)
		PMPI_Type_free(&type);
}

static void run_bcast(struct front_team *team, const struct front_call *c,
		      const struct front_shape *shape)
{
	const int place = place_of(team, c->root), root_node = node_of(team, c->root);
	const bool own_node = root_node == node_of(team, team->rank);
	const struct buffer buffer = {c->recv, c->count, c->type, c->comm};
	const bool plain = front_is_contiguous(c->type);
	struct front_exchange x = {FRONT_BCAST, *shape, MPI_BYTE, MPI_BOR, .root = root_node};
	uint8_t *data = plain ? c->recv : room(team, 1, shape->bytes);

	if (!plain && team->rank == c->root)
		pack(&buffer, shape->bytes, data, false);
	if (team->rank == c->root && team->node_rank) {
		send_bytes(data, shape->bytes, 0, team->node);
		/* the root's own bytes come back, and its buffer may be read-only */
		data = room(team, 1, shape->bytes);
	}
	if (!team->node_rank) {
		if (own_node && place)
			receive_bytes(data, shape->bytes, place, team->node);
		x.in = x.out = data;
		exchange(team, &x);
	}
	if (team->node_ranks > 1)
		bcast_bytes(data, shape->bytes, 0, team->node);
	if (!plain && team->rank != c->root)
		pack(&buffer, shape->bytes, data, true);
	end_in_node(team);
}

/* ---- Allgather ---- */

/* The block of a rank in the receive buffer. */
static struct buffer block_of(const struct front_call *c, int rank)
{
	MPI_Aint lower, extent;

	PMPI_Type_get_extent(c->type, &lower, &extent);
	return (struct buffer){(char *)c->recv + extent * (c->displs ? (MPI_Aint)c->displs[rank]
								     : (MPI_Aint)rank * c->count),
			       c->count, c->type, c->comm};
}

/* The contribution of a rank. */
static struct buffer own_block(const struct front_team *team, const struct front_call *c)
{
	if (c->send == MPI_IN_PLACE)
		return block_of(c, team->rank);
	return (struct buffer){(char *)c->send, c->send_count, c->send_type, c->comm};
}

/* Collects the blocks of a node on its leader, each at its place. */
static void gather(struct front_team *team, const struct front_call *c, size_t block_bytes,
		   uint8_t *to, bool whole)
{
	const struct buffer own = own_block(team, c);
	int *counts = team->parts, *at = team->parts + team->node_ranks;
	uint8_t *packed = to;

	for (int rank = 0; rank < team->ranks; rank++)
		if (node_of(team, rank) == node_of(team, team->rank)) {
			const int place = place_of(team, rank);

			counts[place] = block_bytes;
			at[place] = (whole ? rank : place) * block_bytes;
		}
	if (!team->node_rank)
		packed += at[0];
	else if (front_is_contiguous(own.type))
		packed = (uint8_t *)own.at;
	else
		packed = room(team, 0, block_bytes);
	if (packed != (uint8_t *)own.at)
		pack(&own, block_bytes, packed, false);
	if (team->node_ranks > 1)
		PMPI_Gatherv(team->node_rank ? packed : MPI_IN_PLACE, block_bytes, MPI_BYTE, to,
			     counts, at, MPI_BYTE, 0, team->node);
}

/* Whether the blocks lie one behind the other in the receive buffer, in the order of ranks. */
static bool is_dense(const struct front_team *team, const struct front_call *c)
{
	for (int rank = 0; c->displs && rank < team->ranks; rank++)
		if (c->displs[rank] != (int64_t)rank * c->count)
			return false;
	return front_is_contiguous(c->type);
}

static void run_allgather(struct front_team *team, const struct front_call *c,
			  const struct front_shape *shape)
{
	const size_t block_bytes = shape->bytes / team->ranks;
	const bool whole = shape->bytes <= FRONT_KEEP_BYTES; /* the OR of vectors with gaps */
	const bool dense = is_dense(team, c) && (whole || team->sorted);
	uint8_t *all = dense ? c->recv : room(team, 1, shape->bytes);
	struct front_exchange x = {whole ? FRONT_ALLREDUCE : FRONT_ALLGATHER, *shape, MPI_BYTE,
				   MPI_BOR, .out = all};

	if (team->node_rank) {
		gather(team, c, block_bytes, NULL, whole);
	} else {
		const size_t in_bytes = whole ? shape->bytes : block_bytes * team->node_ranks;
		uint8_t *in = room(team, 0, in_bytes);

		if (whole)
			memset(in, 0, in_bytes);
		gather(team, c, block_bytes, in, whole);
		x.in = in;
		exchange(team, &x);
		if (x.out != all)
			memcpy(all, x.out, shape->bytes);
	}
	if (team->node_ranks > 1)
		bcast_bytes(all, shape->bytes, 0, team->node);
	for (int rank = 0; !dense && rank < team->ranks; rank++) {
		const struct buffer block = block_of(c, rank);
		const size_t at = whole ? (size_t)rank
					: (size_t)node_of(team, rank) * team->node_ranks +
						  place_of(team, rank);

		pack(&block, block_bytes, all + at * block_bytes, true);
	}
	end_in_node(team);
}

static void run_barrier(struct front_team *team, const struct front_call *c,
			const struct front_shape *shape)
{
	struct front_exchange x = {FRONT_BARRIER, *shape, MPI_BYTE, MPI_OP_NULL, .root = 0};

	if (team->node_ranks > 1)
		PMPI_Barrier(team->node);
	if (!team->node_rank)
		exchange(team, &x);
	end_in_node(team);
}

void front_run(struct front_team *team, const struct front_call *c, const struct front_shape *shape)
{
	static void (*const runs[FRONT_KINDS])(struct front_team *, const struct front_call *,
					       const struct front_shape *) = {
		[FRONT_ALLREDUCE] = run_allreduce,
		[FRONT_REDUCE] = run_reduce,
		[FRONT_BCAST] = run_bcast,
		[FRONT_BARRIER] = run_barrier,
		[FRONT_REDUCE_SCATTER] = run_reduce_scatter,
		[FRONT_REDUCE_SCATTER_BLOCK] = run_reduce_scatter,
		[FRONT_ALLGATHER] = run_allgather,
		[FRONT_ALLGATHERV] = run_allgather,
	};

	runs[c->kind](team, c, shape);
}
