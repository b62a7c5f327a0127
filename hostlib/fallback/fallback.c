/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls of inccl_fallback.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "hostlib/fallback/fallback.h"
#include "lib/base/caller.h"
#include "lib/base/numbers.h"

#define KEEP_BYTES     (256u << 10) /* default of keep_bytes */
#define UNREACHABLE_MS 30000        /* default of unreachable_ms */
#define TIMEOUT_MS     600000       /* default of timeout_ms */
#define ROOM_ALIGNMENT 64           /* enough for any element */

/* The sizes of a call. */
struct shape {
	size_t send, recv; /* bytes; 0 if the rank gives or gets nothing */
	size_t whole;      /* bytes of the whole vector */
	bool is_shared;    /* this rank's result is the whole vector */
	/* recv has the result from the beginning, and must not be written: a root broadcasts in
	 * place, and may have memory that it can only read */
	bool is_there;
};

/* ---- calls ---- */

/* Finds the sizes of a call. Returns the error with which the library refuses its arguments. That
 * does not depend on whether this rank has lost the switch, so all ranks refuse the same calls. */
static int measure(const struct inccl_fallback *f, const struct inccl_fallback_call *c,
		   struct shape *shape)
{
	const struct inccl_call call = inccl_fallback_call_of(c);
	struct inccl_plan plan;
	struct inc_err err;
	int ret = inccl_check_call(f->facts, &call, &plan, &err);

	if (ret)
		return ret;
	*shape = (struct shape){
		.send = plan.send_bytes,
		.recv = plan.recv_bytes,
		.whole = plan.shape.blocks * plan.block_bytes,
	};
	shape->is_shared = shape->recv == shape->whole;
	shape->is_there =
		c->collective == INCCL_BROADCAST && c->root == f->rank && c->send == c->recv;
	return 0;
}

/* Sets the state of a result, and is the only function that does so. Called under the lock. */
static void set_state(struct inccl_result *result, enum inccl_result_state state)
{
	result->state = state;
}

/* Begins a collective: the result of the one before the last is not needed any more. data: where
 * the result will be */
static struct inccl_result *begin(struct inccl_fallback *f, const uint8_t *data, size_t bytes)
{
	struct inccl_result *result;

	pthread_mutex_lock(&f->lock);
	f->begun++;
	result = &f->result[f->begun & 1];
	result->number = f->begun;
	set_state(result, RESULT_RUNNING);
	result->is_held = true;
	result->data = data;
	result->bytes = bytes;
	pthread_mutex_unlock(&f->lock);
	return result;
}

/* Notes that the switch has given this rank its result. Returns -ECANCELED if the rank has given
 * the collective up before. */
static int complete(struct inccl_fallback *f, struct inccl_result *result,
		    enum inccl_result_state state)
{
	int ret = 0;

	pthread_mutex_lock(&f->lock);
	if (f->given_up <= result->number)
		ret = -ECANCELED;
	else
		f->ended = result->number;
	set_state(result, ret ? RESULT_RUNNING : state);
	pthread_mutex_unlock(&f->lock);
	if (ret)
		inccl_fallback_lose(f, INCCL_FALLBACK_ANOTHER " has failed in this collective");
	return ret;
}

/* The switch has not given this rank a result. Gets the result from another rank, or lets the
 * framework repeat the collective. Returns 1 if another rank had it, or 0. */
static int resolve(struct inccl_fallback *f, const struct inccl_fallback_call *c,
		   const struct shape *shape, struct inccl_result *result, bool is_small)
{
	const bool is_shared = is_small || shape->is_shared;
	/* the whole result of a large reduction is on its root alone */
	const int first = !is_small && c->collective == INCCL_REDUCE ? c->root : -1;
	int found = 0, ret;

	pthread_mutex_lock(&f->lock);
	f->given_up = inc_min64(f->given_up, result->number);
	set_state(result, RESULT_RUNNING);
	pthread_mutex_unlock(&f->lock);
	found = inccl_fallback_ask_all(f, result->number, first, is_small ? result->room : c->recv,
				       is_small                        ? shape->whole
				       : is_shared && !shape->is_there ? shape->recv
								       : 0);
	if (found < 0)
		return found;
	if (!found) {
		f->settled = true;
		ret = f->opts.repeat(f->opts.context, c);
		if (ret)
			return ret;
	}
	pthread_mutex_lock(&f->lock);
	set_state(result, !found ? RESULT_REPEATED : is_shared ? RESULT_SHARED : RESULT_OWN);
	f->ended = result->number;
	pthread_mutex_unlock(&f->lock);
	return found;
}

/* Copies what belongs to the caller from the whole result. */
static void deliver(const struct inccl_fallback *f, const struct inccl_fallback_call *c,
		    const struct shape *shape, const uint8_t *whole)
{
	const size_t offset = c->collective == INCCL_REDUCE_SCATTER ? f->rank * shape->recv : 0;

	if (shape->recv && !shape->is_there)
		memcpy(c->recv, whole + offset, shape->recv);
}

static uint8_t *new_room(size_t bytes)
{
	void *room;

	return posix_memalign(&room, ROOM_ALIGNMENT, bytes) ? NULL : room;
}

/* Returns room for a copy of a contribution, or NULL. */
static uint8_t *copy_room(struct inccl_fallback *f, size_t bytes)
{
	uint8_t *room;

	if (bytes <= f->copy_bytes)
		return f->copy;
	room = new_room(bytes);
	if (!room)
		return NULL;
	free(f->copy);
	f->copy = room;
	f->copy_bytes = bytes;
	return room;
}

/* A small collective is one that ends on no rank before all ranks have begun it, so that its result
 * need not be kept for longer than the next one takes. All ranks get the whole result. */
static struct inccl_fallback_call as_small(struct inccl_fallback *f,
					   const struct inccl_fallback_call *c,
					   const struct shape *shape, uint8_t *recv)
{
	struct inccl_fallback_call small = *c;

	small.recv = recv;
	switch (c->collective) {
	case INCCL_REDUCE:
		small.collective = INCCL_ALLREDUCE;
		break;
	case INCCL_REDUCE_SCATTER:
		small.collective = INCCL_ALLREDUCE;
		small.count = c->count * f->ranks;
		break;
	case INCCL_BROADCAST:
		/* the OR of the root's bytes and of zeros */
		small.collective = INCCL_ALLREDUCE;
		small.count = shape->whole;
		small.dtype = INCCL_UINT8;
		small.op = INCCL_OR;
		if (c->root != f->rank)
			small.send = memset(f->copy, 0, shape->whole);
		break;
	default:
		break;
	}
	return small;
}

static int run_small(struct inccl_fallback *f, const struct inccl_fallback_call *c,
		     const struct shape *shape)
{
	struct inccl_result *result = begin(f, f->result[(f->begun + 1) & 1].room, shape->whole);
	const struct inccl_fallback_call small = as_small(f, c, shape, result->room);
	int ret;

	ret = inccl_fallback_by_switch(f, &small, shape->whole);
	ret = ret ?: complete(f, result, RESULT_SHARED);
	if (ret) {
		ret = resolve(f, c, shape, result, true);
		if (ret <= 0)
			return ret;
	}
	deliver(f, c, shape, result->room);
	return 0;
}

/* Copies the contribution of a call in place, which the switch's result may overwrite in part
 * before a failure. Returns false if there is no memory. */
static bool save_contribution(struct inccl_fallback *f, const struct shape *shape,
			      struct inccl_fallback_call *c)
{
	const uint8_t *send = c->send, *recv = c->recv;

	if (!shape->send || !shape->recv || shape->is_there || send >= recv + shape->recv ||
	    recv >= send + shape->send)
		return true;
	if (!copy_room(f, shape->send))
		return false;
	c->send = memcpy(f->copy, send, shape->send);
	return true;
}

static int run_large(struct inccl_fallback *f, const struct inccl_fallback_call *given,
		     const struct shape *shape)
{
	const struct inccl_fallback_call barrier = {.collective = INCCL_BARRIER};
	struct inccl_result *result = begin(f, given->recv, shape->recv);
	struct inccl_fallback_call c = *given;
	int ret = -ENOMEM;

	if (save_contribution(f, shape, &c))
		ret = inccl_fallback_by_switch(f, &c, shape->whole);
	else
		inccl_fallback_lose(f, "no memory for a copy of the contribution");
	ret = ret ?: complete(f, result, shape->is_shared ? RESULT_SHARED : RESULT_OWN);
	if (!ret && inccl_fallback_by_switch(f, &barrier, shape->whole))
		ret = inccl_fallback_wait_for_others(f, result->number, true);
	if (ret)
		ret = resolve(f, &c, shape, result, false);
	pthread_mutex_lock(&f->lock);
	result->is_held = false;
	pthread_mutex_unlock(&f->lock);
	return ret < 0 ? ret : 0;
}

int inccl_fallback_run(struct inccl_fallback *f, const struct inccl_fallback_call *given)
{
	INCCL_UNCANCELLED(cancel_state);
	struct inccl_fallback_call call;
	struct shape shape;
	int ret;

	if (!f || !given)
		return -EINVAL;
	if (f->maker != getpid())
		return -ECHILD;
	ret = inc_caller_opts(&call, sizeof(call), given) ?: measure(f, &call, &shape);
	if (ret)
		return ret;
	/* A collective without elements ends at once, so it would not show that all ranks have
	 * begun it. */
	if (!shape.whole && call.collective != INCCL_BARRIER)
		return 0;
	/* Other ranks may still ask for one of the last two results, so these stay as they are. */
	if (f->settled)
		return f->opts.repeat(f->opts.context, &call);
	return shape.whole <= f->opts.keep_bytes ? run_small(f, &call, &shape)
						 : run_large(f, &call, &shape);
}

const char *inccl_fallback_reason(struct inccl_fallback *f)
{
	return f && !f->comm ? f->reason : NULL;
}

/* ---- the object ---- */

static void fallback_free(struct inccl_fallback *f)
{
	inccl_peers_close(f->peers);
	for (int i = 0; i < 2; i++)
		free(f->result[i].room);
	free(f->copy);
	free(f->asked);
	free(f->facts);
	pthread_mutex_destroy(&f->lock);
	free(f);
}

/* Copies what the check of a call reads of the communicator, which ends with a loss. A communicator
 * that was derived from another one owns its group, so the group ends with it, and is copied, too.
 */
static struct inccl_communicator *facts_of(const struct inccl_communicator *comm)
{
	struct {
		struct inccl_communicator comm; /* first, so that free() of it frees both */
		struct inccl_group group;
	} *both = calloc(1, sizeof(*both));
	struct inccl_communicator *facts = &both->comm;

	if (!both)
		return NULL;
	both->group.rank = comm->group->rank;
	both->group.world_size = comm->group->world_size;
	facts->group = &both->group;
	facts->mode = comm->mode;
	facts->native_floats = comm->native_floats;
	memcpy(facts->tree, comm->tree, sizeof(facts->tree));
	return facts;
}

/* Makes an object without connections. Returns NULL if there is no memory. */
static struct inccl_fallback *fallback_new(const struct inccl_communicator *comm,
					   const struct inccl_fallback_opts *opts)
{
	struct inccl_fallback *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	pthread_mutex_init(&f->lock, NULL);
	f->maker = getpid();
	f->opts = *opts;
	f->rank = comm->group->rank;
	f->ranks = comm->group->world_size;
	f->given_up = UINT64_MAX;
	f->asked = calloc(f->ranks, sizeof(*f->asked));
	f->facts = facts_of(comm);
	for (int i = 0; i < 2; i++)
		f->result[i].room = new_room(opts->keep_bytes);
	if (f->asked && f->facts && f->result[0].room && f->result[1].room &&
	    copy_room(f, opts->keep_bytes))
		return f;
	fallback_free(f);
	return NULL;
}

int inccl_fallback_create(struct inccl_communicator *comm, const struct inccl_fallback_opts *given,
			  struct inccl_fallback **out)
{
	INCCL_UNCANCELLED(cancel_state);
	struct inccl_peers *peers = NULL;
	struct inccl_fallback_opts opts;
	struct inccl_fallback *f;
	struct inc_err err = {""};
	int ret;

	if (!out)
		return -EINVAL;
	*out = NULL;
	if (!comm || !given)
		return -EINVAL;
	ret = inc_caller_opts(&opts, sizeof(opts), given);
	if (!opts.gather || !opts.repeat)
		return ret ?: -EINVAL;
	opts.keep_bytes = opts.keep_bytes ?: KEEP_BYTES;
	opts.unreachable_ms = opts.unreachable_ms ?: UNREACHABLE_MS;
	opts.timeout_ms = opts.timeout_ms ?: TIMEOUT_MS;
	f = fallback_new(comm, &opts);
	if (!ret && !f)
		ret = -ENOMEM;
	/* The other ranks learn of that error, too, because this rank takes part in gather(). */
	ret = inccl_peers_open(comm, &opts, ret, inccl_fallback_answer, f, &peers, &err);
	if (ret) {
		inc_caller_explain(opts.error, opts.error_size, &err);
		if (f)
			fallback_free(f);
		return ret;
	}
	f->peers = peers;
	f->comm = comm;
	*out = f;
	return 0;
}

/* Waits until no other rank needs a result of this one any more. */
static int wait_for_end(struct inccl_fallback *f)
{
	uint8_t own = 0, *all;
	int ret;

	if (f->opts.leave_early)
		return inccl_fallback_wait_for_others(f, f->ended, false);
	all = calloc(f->ranks, 1);
	ret = all ? f->opts.gather(f->opts.context, &own, all, 1) : -ENOMEM;
	free(all);
	return ret;
}

int inccl_fallback_destroy(struct inccl_fallback *f)
{
	INCCL_UNCANCELLED(cancel_state);
	int ret = 0;

	/* in a forked child the threads and the connections are the parent's */
	if (!f || f->maker != getpid())
		return 0;
	/* another rank may still need the last result, unless the job is over */
	if (!f->has_failed)
		ret = wait_for_end(f);
	if (f->comm)
		inccl_communicator_destroy(f->comm);
	fallback_free(f);
	return ret;
}
