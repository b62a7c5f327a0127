// SPDX-License-Identifier: BSD-2-Clause
/* Runs a collective of MPI by the switch or by MPI, and chooses between the two. Ranks of a node
 * combine their parts by MPI first. Then the leaders of the nodes use the switch, and give the
 * result to their nodes by MPI. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/mpi/front.h"

/* Calls of a trial, of which each path serves every second one. The first call of each path does
 * not count, because buffers and connections may be new. */
#define TRIAL_CALLS 8
/* calls between the first trial and the next, and at most */
#define FIRST_REST   256
#define LONGEST_REST (1u << 20)
/* bytes that a call of MPI moves at once, because MPI counts them by an int */
#define PIECE_BYTES ((size_t)1 << 30)
/* alignment of the rooms for contribution and result, enough for any element */
#define ROOM_ALIGNMENT 64
/* time slice of a wait, after which MPI makes progress, because a peer may need that to come here
 */
#define SLICE_MS 1
#define TAG      0

/* A collective of the leaders. */
struct exchange {
	const struct front_call *call;
	const struct front_shape *shape;
	const void *in; /* contribution, which stays as it is until all leaders have the result */
	void *out;      /* where the result belongs; NULL: this leader needs none */
	int root;       /* node that gives or gets; -1: all */
	int err;        /* the error of libinccl, or 0 */
};

int front_pass(const struct front_call *c)
{
	switch (c->kind) {
	case FRONT_ALLREDUCE:
		return PMPI_Allreduce(c->send, c->recv, c->count, c->type, c->op, c->comm);
	case FRONT_REDUCE:
		return PMPI_Reduce(c->send, c->recv, c->count, c->type, c->op, c->root, c->comm);
	case FRONT_BCAST:
		return PMPI_Bcast(c->recv, c->count, c->type, c->root, c->comm);
	case FRONT_BARRIER:
	default:
		return PMPI_Barrier(c->comm);
	}
}

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

static bool is_aligned(const void *p, const struct front_shape *shape)
{
	return (uintptr_t)p % inccl_dtype_size(shape->dtype) == 0;
}

/* ---- bytes of any number by MPI, between ranks of a team ---- */

static void bcast_bytes(void *data, size_t bytes, int root, MPI_Comm comm)
{
	for (size_t at = 0; at < bytes; at += PIECE_BYTES)
		PMPI_Bcast((char *)data + at, bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES,
			   MPI_BYTE, root, comm);
}

static void send_bytes(const void *data, size_t bytes, int to, MPI_Comm comm)
{
	for (size_t at = 0; at < bytes; at += PIECE_BYTES)
		PMPI_Send((const char *)data + at,
			  bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES, MPI_BYTE, to, TAG,
			  comm);
}

static void receive_bytes(void *data, size_t bytes, int from, MPI_Comm comm)
{
	for (size_t at = 0; at < bytes; at += PIECE_BYTES)
		PMPI_Recv((char *)data + at, bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES,
			  MPI_BYTE, from, TAG, comm, MPI_STATUS_IGNORE);
}

/* ---- the leaders ---- */

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

/* Runs one AllReduce or barrier by libinccl, whose end shows that all leaders have begun it. */
static int small_by_switch(struct front_team *team, const struct exchange *x, uint8_t *result)
{
	struct inccl_request *request;
	int err;

	if (!team->comm)
		return -ENOTCONN;
	if (x->call->kind == FRONT_BARRIER)
		err = inccl_barrier_start(team->comm, NULL, &request);
	else
		err = inccl_allreduce_start(team->comm, x->in, result, x->shape->elements,
					    x->shape->dtype, x->shape->op, NULL, &request);
	return err ? give_up(team, err, inccl_strerror(err))
		   : finish(team, request, x->shape->bytes);
}

static void small_by_mpi(struct front_team *team, const struct exchange *x, uint8_t *result)
{
	if (x->call->kind == FRONT_BARRIER)
		PMPI_Barrier(team->leaders);
	else if (x->call->kind == FRONT_BCAST)
		PMPI_Allreduce(x->in, result, x->shape->bytes, MPI_BYTE, MPI_BOR, team->leaders);
	else
		PMPI_Allreduce(x->in, result, x->call->count, x->call->type, x->call->op,
			       team->leaders);
}

static int large_by_switch(struct front_team *team, const struct exchange *x)
{
	const struct front_shape *s = x->shape;
	struct inccl_request *request;
	int err = -ENOTCONN;

	if (!team->comm)
		return err;
	if (x->call->kind == FRONT_ALLREDUCE)
		err = inccl_allreduce_start(team->comm, x->in, x->out, s->elements, s->dtype, s->op,
					    NULL, &request);
	else if (x->call->kind == FRONT_REDUCE)
		err = inccl_reduce_start(team->comm, x->in, x->out, s->elements, s->dtype, s->op,
					 x->root, NULL, &request);
	else if (x->call->kind == FRONT_BCAST)
		err = inccl_broadcast_start(team->comm, x->in, x->out, s->elements, s->dtype,
					    x->root, NULL, &request);
	else
		err = inccl_barrier_start(team->comm, NULL, &request);
	return err ? give_up(team, err, inccl_strerror(err))
		   : finish(team, request, x->shape->bytes);
}

static void large_by_mpi(struct front_team *team, const struct exchange *x)
{
	const struct front_call *c = x->call;

	if (c->kind == FRONT_ALLREDUCE)
		PMPI_Allreduce(x->in, x->out, c->count, c->type, c->op, team->leaders);
	else if (c->kind == FRONT_REDUCE)
		PMPI_Reduce(x->in, x->out, c->count, c->type, c->op, x->root, team->leaders);
	else if (c->kind == FRONT_BCAST)
		bcast_bytes(x->out, x->shape->bytes, x->root, team->leaders);
	else
		PMPI_Barrier(team->leaders);
}

/* A collective whose result fits into the window. Returns the result, which stays there until the
 * collective after the next. */
static uint8_t *exchange_small(struct front_team *team, const struct exchange *x)
{
	const uint64_t number = ++team->number;
	uint8_t *result = front_window_result(team, number);
	int err;

	front_window_begin(team);
	err = small_by_switch(team, x, result);
	if (!err) {
		front_window_publish(team, number, true);
	} else if (!front_window_fetch(team, number, x->shape->bytes)) {
		small_by_mpi(team, x, result);
		front_window_publish(team, number, true);
		front_lost(team);
	}
	return result;
}

/* A collective after which the leaders agree whether all have the result. */
static void exchange_large(struct front_team *team, const struct exchange *x)
{
	int good, all_good;

	front_window_begin(team);
	good = !large_by_switch(team, x);
	PMPI_Allreduce(&good, &all_good, 1, MPI_INT, MPI_MIN, team->leaders);
	if (all_good)
		return;
	large_by_mpi(team, x);
	front_lost(team);
}

static bool is_small(const struct front_team *team, const struct front_shape *shape)
{
	return team->has_window && shape->bytes <= FRONT_WINDOW_BYTES;
}

/* ---- collectives ---- */

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

/* Combines the parts of the own node. Returns the contribution of the node, on its leader. It
 * differs from the caller's receive buffer, so a failure cannot damage it. */
static const void *contribution(struct front_team *team, const struct front_call *c,
				const struct front_shape *shape)
{
	const bool in_place = c->send == MPI_IN_PLACE;
	const void *part = in_place ? c->recv : c->send;
	const bool indexed = shape->op == INCCL_MINLOC || shape->op == INCCL_MAXLOC;
	void *copy;

	if (team->node_ranks > 1) {
		copy = team->node_rank ? NULL : room(team, 0, shape->bytes);
		PMPI_Reduce(part, copy, c->count, c->type, c->op, 0, team->node);
	} else if (indexed || !is_aligned(part, shape) || (in_place && !is_small(team, shape))) {
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
	struct exchange x = {.call = c, .shape = shape, .out = c->recv, .root = -1};

	x.in = contribution(team, c, shape);
	if (!team->node_rank) {
		if (!is_aligned(c->recv, shape))
			x.out = room(team, 1, shape->bytes);
		if (is_small(team, shape))
			x.out = exchange_small(team, &x);
		else
			exchange_large(team, &x);
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
	const int *root = &team->node_of[2 * c->root];
	const bool own_node = root[0] == team->node_of[2 * team->rank];
	struct exchange x = {.call = c, .shape = shape, .root = root[0]};

	x.in = contribution(team, c, shape);
	if (!team->node_rank) {
		if (own_node)
			x.out = !root[1] && is_aligned(c->recv, shape)
					? c->recv
					: room(team, 1, shape->bytes);
		if (is_small(team, shape))
			x.out = exchange_small(team, &x);
		else
			exchange_large(team, &x);
		if (own_node && root[1])
			send_bytes(x.out, shape->bytes, root[1], team->node);
		else if (own_node && x.out != c->recv)
			memcpy(c->recv, x.out, shape->bytes);
	} else if (team->rank == c->root) {
		receive_bytes(c->recv, shape->bytes, 0, team->node);
	}
	end_in_node(team);
}

/* Whether the elements lie one behind the other from the buffer's address on. Extents do not show
 * that of derived types, because a transposed matrix has the same as the matrix. */
static bool is_contiguous(MPI_Datatype type, size_t size)
{
	MPI_Aint lower, extent, true_lower, true_extent;
	int integers, addresses, inner, combiner;

	PMPI_Type_get_envelope(type, &integers, &addresses, &inner, &combiner);
	if (combiner != MPI_COMBINER_NAMED)
		return false;
	PMPI_Type_get_extent(type, &lower, &extent);
	PMPI_Type_get_true_extent(type, &true_lower, &true_extent);
	return !lower && !true_lower && extent == true_extent && (size_t)extent == size;
}

/* Copies between the buffer of a Bcast and packed bytes, a piece at a time. */
static void pack(const struct front_call *c, size_t bytes, uint8_t *packed, bool unpack)
{
	const size_t size = bytes / c->count, n = PIECE_BYTES / size ? PIECE_BYTES / size : 1;
	MPI_Aint lower, extent;

	PMPI_Type_get_extent(c->type, &lower, &extent);
	for (size_t at = 0; at < (size_t)c->count; at += n) {
		const int here = c->count - at < n ? c->count - at : n;
		char *buffer = (char *)c->recv + (MPI_Aint)at * extent;
		int position = 0;

		if (unpack)
			PMPI_Unpack(packed + at * size, here * size, &position, buffer, here,
				    c->type, c->comm);
		else
			PMPI_Pack(buffer, here, c->type, packed + at * size, here * size, &position,
				  c->comm);
	}
}

/* Gives the root's bytes to all leaders. */
static void bcast_to_leaders(struct front_team *team, struct exchange *x, uint8_t *data)
{
	const size_t bytes = x->shape->bytes;
	const bool gives = team->node_of[2 * team->rank] == x->root;
	uint8_t *result;

	x->in = data;
	x->out = data;
	if (!is_small(team, x->shape)) {
		exchange_large(team, x);
		return;
	}
	/* the OR of the root's bytes and of zeros, which no leader can have before all leaders have
	 * begun it, as a broadcast's root can */
	if (!gives)
		x->in = memset(room(team, 0, bytes), 0, bytes);
	result = exchange_small(team, x);
	if (!gives)
		memcpy(data, result, bytes);
}

static void run_bcast(struct front_team *team, const struct front_call *c,
		      const struct front_shape *shape)
{
	const int *root = &team->node_of[2 * c->root];
	const bool own_node = root[0] == team->node_of[2 * team->rank];
	const bool plain = is_contiguous(c->type, shape->bytes / c->count);
	struct exchange x = {.call = c, .shape = shape, .root = root[0]};
	uint8_t *data = plain ? c->recv : room(team, 1, shape->bytes);

	if (!plain && team->rank == c->root)
		pack(c, shape->bytes, data, false);
	if (team->rank == c->root && team->node_rank)
		send_bytes(data, shape->bytes, 0, team->node);
	if (!team->node_rank) {
		if (own_node && root[1])
			receive_bytes(data, shape->bytes, root[1], team->node);
		bcast_to_leaders(team, &x, data);
	}
	if (team->node_ranks > 1)
		bcast_bytes(data, shape->bytes, 0, team->node);
	if (!plain && team->rank != c->root)
		pack(c, shape->bytes, data, true);
	end_in_node(team);
}

static void run_barrier(struct front_team *team, const struct front_call *c,
			const struct front_shape *shape)
{
	const struct exchange x = {.call = c, .shape = shape, .root = -1};

	if (team->node_ranks > 1)
		PMPI_Barrier(team->node);
	if (!team->node_rank) {
		if (is_small(team, shape))
			exchange_small(team, &x);
		else
			exchange_large(team, &x);
	}
	end_in_node(team);
}

static void run(struct front_team *team, const struct front_call *c,
		const struct front_shape *shape)
{
	static void (*const runs[FRONT_KINDS])(struct front_team *, const struct front_call *,
					       const struct front_shape *) = {
		[FRONT_ALLREDUCE] = run_allreduce,
		[FRONT_REDUCE] = run_reduce,
		[FRONT_BCAST] = run_bcast,
		[FRONT_BARRIER] = run_barrier,
	};

	runs[c->kind](team, c, shape);
}

/* ---- the choice ---- */

/* Whether the switches of a team have the operator. */
static bool has_operator(const struct front_team *team, const struct front_shape *shape)
{
	const bool floats = shape->dtype == INCCL_FLOAT32 || shape->dtype == INCCL_FLOAT64;

	return !floats || shape->op != INCCL_PROD || team->native_floats;
}

static enum front_path choose(const struct front_choice *choice)
{
	if (front_fixed >= 0)
		return front_fixed;
	return choice->rest ? choice->path : choice->trial % FRONT_PATHS;
}

/* Notes the time of a call. At the end of a trial all ranks choose the path whose shortest call
 * took less time on its slowest rank. */
static void learn(struct front_choice *choice, enum front_path path, double took_s, MPI_Comm comm)
{
	if (choice->rest) {
		choice->rest--;
		return;
	}
	if (choice->trial < 2 * FRONT_PATHS || took_s < choice->best_s[path])
		choice->best_s[path] = took_s;
	if (++choice->trial < TRIAL_CALLS)
		return;
	PMPI_Allreduce(MPI_IN_PLACE, choice->best_s, FRONT_PATHS, MPI_DOUBLE, MPI_MAX, comm);
	choice->path = choice->best_s[FRONT_SWITCH] <= choice->best_s[FRONT_MPI] ? FRONT_SWITCH
										 : FRONT_MPI;
	choice->trial = 0;
	choice->next_rest = !choice->next_rest                 ? FIRST_REST
			    : choice->next_rest < LONGEST_REST ? 2 * choice->next_rest
							       : LONGEST_REST;
	choice->rest = choice->next_rest;
}

/* Whether MPI accepts the root and the buffers. Otherwise it returns the error that the program
 * expects. */
static bool is_valid(const struct front_team *team, const struct front_call *c)
{
	const bool is_root = team->rank == c->root;

	if (c->root < 0 || c->root >= team->ranks)
		return false;
	if (c->kind == FRONT_REDUCE && !is_root)
		return c->send && c->send != MPI_IN_PLACE;
	if (c->kind == FRONT_REDUCE || c->kind == FRONT_ALLREDUCE)
		return c->send && c->recv && c->recv != MPI_IN_PLACE && c->send != c->recv;
	/* a Bcast of a derived type may have absolute addresses, and MPI_BOTTOM for its buffer */
	return c->kind == FRONT_BARRIER || c->recv != MPI_IN_PLACE;
}

int front_call(const struct front_call *c)
{
	enum front_path path = FRONT_MPI;
	struct front_choice *choice = NULL;
	struct front_team *team;
	struct front_shape shape;
	int err = MPI_SUCCESS;
	double start_s, took_s;

	if (!front_on || !front_shape(c, &shape))
		return front_pass(c);
	team = front_team(c->comm);
	if (team && !is_valid(team, c))
		return front_pass(c);
	if (team && has_operator(team, &shape)) {
		choice = &team->choice[c->kind][front_class(shape.bytes)];
		path = choose(choice);
	}
	start_s = PMPI_Wtime();
	if (path == FRONT_SWITCH)
		run(team, c, &shape);
	else
		err = front_pass(c);
	took_s = PMPI_Wtime() - start_s;
	front_count(c->kind, path, shape.bytes, took_s);
	if (choice && team->use == FRONT_ON && front_fixed < 0)
		learn(choice, path, took_s, c->comm);
	return err;
}
