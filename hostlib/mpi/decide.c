// SPDX-License-Identifier: BSD-2-Clause
/* A call of the program: whether it goes by the switch (run.c) or by MPI, and the choice between
 * the two. preload.c and component.c call this on the thread of the program. */
#include "hostlib/mpi/front.h"

/* Calls of a trial, of which each path serves every second one. The first call of each path does
 * not count, because buffers and connections may be new. */
#define TRIAL_CALLS (FRONT_PATHS * (1 + FRONT_COUNTED))
/* The switch must take this share of MPI's time at most. A gain below 5 % may be chance, because a
 * trial has few calls. Then MPI is chosen, with which a program is as fast as without the library.
 */
#define MOST_OF_MPI 0.95
/* calls between the first trial and the next, and at most */
#define FIRST_REST   256
#define LONGEST_REST (1u << 20)

/* Whether the switches of a team have the operator, and blocks of a size that they can move. All
 * ranks find the same. */
static enum front_reason refusal(const struct front_team *team, const struct front_call *c,
				 const struct front_shape *shape)
{
	const bool floats = shape->dtype == INCCL_FLOAT32 || shape->dtype == INCCL_FLOAT64;

	if (floats && shape->op == INCCL_PROD && !team->native_floats)
		return FRONT_PRODUCT;
	if (c->kind < FRONT_REDUCE_SCATTER || shape->bytes <= FRONT_KEEP_BYTES)
		return FRONT_NO_REASON;
	for (int i = 1; c->kind == FRONT_REDUCE_SCATTER && i < team->ranks; i++)
		if (c->counts[i] != c->counts[0])
			return FRONT_BLOCKS;
	return team->even ? FRONT_NO_REASON : FRONT_UNEVEN;
}

static enum front_path choose(const struct front_choice *choice)
{
	if (front_fixed >= 0)
		return front_fixed;
	return choice->rest ? choice->path : choice->trial % FRONT_PATHS;
}

/* The median, because the shortest of few calls may be a lucky one. */
static double median_of(const double s[FRONT_COUNTED])
{
	const double low = s[0] < s[1] ? s[0] : s[1], high = s[0] < s[1] ? s[1] : s[0];

	_Static_assert(FRONT_COUNTED == 3, "the median of three");
	return s[2] < low ? low : s[2] > high ? high : s[2];
}

/* Notes the time of a call. At the end of a trial all ranks choose the path whose median took less
 * time on its slowest rank. */
static void learn(struct front_choice *choice, enum front_path path, double took_s,
		  const struct front_call *c, size_t bytes)
{
	double typical_s[FRONT_PATHS];

	if (choice->rest) {
		choice->rest--;
		return;
	}
	if (choice->trial >= FRONT_PATHS)
		choice->took_s[path][choice->trial / FRONT_PATHS - 1] = took_s;
	if (++choice->trial < TRIAL_CALLS)
		return;
	for (int p = 0; p < FRONT_PATHS; p++)
		typical_s[p] = median_of(choice->took_s[p]);
	PMPI_Allreduce(MPI_IN_PLACE, typical_s, FRONT_PATHS, MPI_DOUBLE, MPI_MAX, c->comm);
	choice->path = typical_s[FRONT_SWITCH] <= MOST_OF_MPI * typical_s[FRONT_MPI] ? FRONT_SWITCH
										     : FRONT_MPI;
	front_count_choice(c->kind, front_class(bytes), choice->path, typical_s);
	choice->trial = 0;
	choice->next_rest = !choice->next_rest                 ? FIRST_REST
			    : choice->next_rest < LONGEST_REST ? 2 * choice->next_rest
							       : LONGEST_REST;
	choice->rest = choice->next_rest;
}

/* Whether MPI accepts the root and the buffers. Otherwise it returns the error that the program
 * expects. Buffers are known to one rank alone, which would wait in MPI for the others if MPI
 * accepted them. So this finds only errors that every MPI reports at once. A rank without elements
 * may have no buffer, and Open MPI accepts equal buffers except in a Reduce and in an Allreduce of
 * several elements. */
static bool is_valid(const struct front_team *team, const struct front_call *c)
{
	if (c->root < 0 || c->root >= team->ranks)
		return false;
	if (c->kind == FRONT_REDUCE && team->rank != c->root)
		return c->send != MPI_IN_PLACE;
	if (c->kind == FRONT_REDUCE || (c->kind == FRONT_ALLREDUCE && c->count > 1))
		return c->recv != MPI_IN_PLACE && c->send != c->recv;
	return c->recv != MPI_IN_PLACE;
}

/* Why MPI must serve a call on this communicator, or FRONT_NO_REASON. */
static enum front_reason team_reason(const struct front_team *team, const struct front_call *c,
				     const struct front_shape *shape)
{
	if (team->use == FRONT_NEW)
		return FRONT_FIRST;
	if (team->use == FRONT_OFF)
		return team->off;
	return is_valid(team, c) ? refusal(team, c, shape) : FRONT_ARGUMENTS;
}

int front_call(const struct front_call *c)
{
	enum front_path path = FRONT_MPI;
	struct front_choice *choice = NULL;
	struct front_team *team = NULL;
	struct front_shape shape;
	enum front_reason reason;
	int err = MPI_SUCCESS;
	double start_s, took_s;

	if (!front_on)
		return c->pass(c);
	reason = front_shape(c, &shape);
	if (!reason) {
		team = front_team(c);
		reason = team_reason(team, c, &shape);
	}
	if (reason)
		front_count_reason(c->kind, reason);
	if (!team || reason == FRONT_ARGUMENTS)
		return c->pass(c);
	if (!reason) {
		choice = &team->choice[c->kind][front_class(shape.bytes)];
		path = choose(choice);
	}
	start_s = PMPI_Wtime();
	if (path == FRONT_SWITCH)
		front_run(team, c, &shape);
	else
		err = c->pass(c);
	took_s = PMPI_Wtime() - start_s;
	front_count(c->kind, path, shape.bytes, took_s);
	if (choice && team->use == FRONT_ON && front_fixed < 0)
		learn(choice, path, took_s, c, shape.bytes);
	return err;
}

void front_nonblocking(enum front_kind kind)
{
	if (front_on)
		front_count_reason(kind, FRONT_NONBLOCKING);
}
