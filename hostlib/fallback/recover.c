/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The wait for the switch, and what follows a failure.
 *
 * `given_up` is the least number of a collective that this rank has promised not to complete on the
 * switch any more. The promise and the completion exclude each other by the lock. So if all other
 * ranks have given a collective up, none of them has its result, and none ever will.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/fallback/fallback.h"
#include "lib/base/numbers.h"
#include "lib/net/wait.h"

/* A wait for the switch looks so often for what else has happened. */
#define SLICE_MS      1
#define LONG_SLICE_MS 20
/* A rank that has waited for so long asks the others how far they are, and again after a while. */
#define LOOK_AFTER_NS (1000 * INC_NSEC_PER_MSEC)
#define LOOK_AGAIN_NS (200 * INC_NSEC_PER_MSEC)
#define LOOK_MS       200 /* time limit of the question */
/* Once all ranks have begun a collective, it may take STALL_NS, and a second more for each of
 * SLOW_BYTES. */
#define STALL_NS   (10000 * INC_NSEC_PER_MSEC)
#define SLOW_BYTES 1000000
#define PAUSE_MS   2 /* between two rounds of questions */

/* ---- questions of other ranks ---- */

static struct inccl_result *result_of(struct inccl_fallback *f, uint64_t number)
{
	struct inccl_result *result = &f->result[number & 1];

	return result->number == number ? result : NULL;
}

/* Promises that this rank never completes the collective on the switch, unless it did so before and
 * has gone on. Called under the lock. */
static enum inccl_has give_up(struct inccl_fallback *f, uint64_t number,
			      const struct inccl_result *result)
{
	const bool is_own = result && result->state == RESULT_OWN && result->is_held;

	if (number >= f->given_up)
		return INCCL_HAS_NONE;
	if (number <= f->ended && !is_own)
		return INCCL_HAS_HAD;
	f->given_up = number;
	if (is_own)
		f->ended = number - 1;
	return INCCL_HAS_NONE;
}

void inccl_fallback_answer(void *arg, const struct inccl_question *question,
			   struct inccl_answer *reply, uint8_t *data)
{
	struct inccl_fallback *f = arg;
	const struct inccl_result *result;

	pthread_mutex_lock(&f->lock);
	result = result_of(f, question->number);
	if (result && result->state == RESULT_SHARED && result->is_held)
		reply->has = INCCL_HAS_RESULT;
	else if (question->ask == INCCL_ASK_RESULT)
		reply->has = give_up(f, question->number, result);
	if (question->ask == INCCL_ASK_BYTES && reply->has && question->offset < result->bytes) {
		reply->bytes = inc_min64(inc_min64(question->bytes, INCCL_PEERS_CHUNK_BYTES),
					 result->bytes - question->offset);
		memcpy(data, result->data + question->offset, reply->bytes);
	}
	reply->lost = f->lost;
	reply->begun = f->begun;
	reply->ended = f->has_failed ? UINT64_MAX : f->ended; /* it needs nothing more */
	pthread_mutex_unlock(&f->lock);
}

static bool is_given_up(struct inccl_fallback *f, uint64_t number)
{
	bool is;

	pthread_mutex_lock(&f->lock);
	is = f->given_up <= number;
	pthread_mutex_unlock(&f->lock);
	return is;
}

/* ---- the switch ---- */

void inccl_fallback_lose(struct inccl_fallback *f, const char *reason)
{
	if (!f->comm)
		return;
	snprintf(f->reason, sizeof(f->reason), "%s", reason);
	pthread_mutex_lock(&f->lock);
	f->lost = true;
	pthread_mutex_unlock(&f->lock);
	inccl_communicator_destroy(f->comm);
	f->comm = NULL;
	if (f->opts.lost)
		f->opts.lost(f->opts.context, f->reason);
}

/* Starts the clock of the limits anew, because it is not read between two waits. Returns the time
 * by it. */
static uint64_t begin_wait(struct inccl_fallback *f)
{
	f->awake = (struct inc_awake){0};
	return inc_awake_now_ns(&f->awake);
}

/* Returns the reason of a loss that is a rank's. */
static const char *gone_text(struct inccl_fallback *f, int rank)
{
	snprintf(f->text, sizeof(f->text), "the process of rank %d is gone", rank);
	return f->text;
}

/* Asks the ranks that have not begun yet how far they are, up to the first that has not. Returns
 * why the collective will never end, or NULL. */
static const char *look(struct inccl_fallback *f, size_t bytes)
{
	const struct inccl_question question = {.ask = INCCL_ASK_STATUS, .number = f->begun};
	const uint64_t now_ns = inc_awake_now_ns(&f->awake);
	struct inccl_answer reply;
	int ret;

	if (now_ns - f->waiting_since_ns < LOOK_AFTER_NS || now_ns < f->look_again_at_ns)
		return NULL;
	while (f->look_at < f->ranks) {
		ret = f->look_at == f->rank ? 0
					    : inccl_peers_ask(f->peers, f->look_at, &question,
							      &reply, NULL, LOOK_MS);
		if (ret == -ECONNRESET)
			return gone_text(f, f->look_at);
		if (!ret && f->look_at != f->rank && reply.lost)
			return INCCL_FALLBACK_ANOTHER " has lost the switch";
		if (ret || (f->look_at != f->rank && reply.begun < f->begun)) {
			f->look_again_at_ns = inc_awake_now_ns(&f->awake) + LOOK_AGAIN_NS;
			return NULL;
		}
		if (++f->look_at == f->ranks)
			f->all_begun_at_ns = inc_awake_now_ns(&f->awake);
	}
	if (!inc_awake_past(&f->awake, f->all_begun_at_ns,
			    STALL_NS + bytes / SLOW_BYTES * INC_NSEC_PER_SEC))
		return NULL;
	return "a collective makes no progress, although all ranks have begun it";
}

/* Waits for a request, unless another rank has failed. */
static int finish(struct inccl_fallback *f, struct inccl_request *request, size_t bytes)
{
	const int slice_ms = f->opts.progress ? SLICE_MS : LONG_SLICE_MS;
	const char *reason;
	int ret;

	f->waiting_since_ns = begin_wait(f);
	f->look_at = 0;
	f->look_again_at_ns = 0;
	while ((ret = inccl_wait(request, slice_ms)) == -EAGAIN) {
		if (f->opts.progress)
			f->opts.progress(f->opts.context);
		/* the error of the communicator may name the rank that is the cause */
		reason = is_given_up(f, f->begun) ? inccl_communicator_error(f->comm)
							    ?: INCCL_FALLBACK_ANOTHER
							    " has failed in this collective"
						  : look(f, bytes);
		if (reason) {
			inccl_fallback_lose(f, reason);
			return -ECANCELED;
		}
	}
	if (ret) {
		reason = inccl_communicator_error(f->comm);
		inccl_fallback_lose(f, reason ? reason : inccl_strerror(ret));
	}
	return ret;
}

struct inccl_call inccl_fallback_call_of(const struct inccl_fallback_call *c)
{
	struct inccl_call call = {
		.collective = c->collective,
		.send = c->send,
		.recv = c->recv,
		.count = c->collective == INCCL_BARRIER ? 0 : c->count,
		.dtype = c->dtype,
		.op = INCCL_SUM,
	};

	/* a member that the collective lacks has no meaning, so it goes to no switch */
	if (inccl_is_reduced(&call))
		call.op = c->op;
	if (c->collective == INCCL_REDUCE || c->collective == INCCL_BROADCAST)
		call.root = c->root;
	return call;
}

int inccl_fallback_by_switch(struct inccl_fallback *f, const struct inccl_fallback_call *c,
			     size_t bytes)
{
	INCCL_OPTS(inccl_collective_opts, opts, .timeout_ms = f->opts.timeout_ms);
	const struct inccl_call call = inccl_fallback_call_of(c);
	struct inccl_request *request;
	int ret;

	if (!f->comm)
		return -ENOTCONN;
	ret = inccl_collective_start(f->comm, &call, &opts, &request);
	if (!ret)
		return finish(f, request, bytes);
	inccl_fallback_lose(f, inccl_communicator_error(f->comm) ?: inccl_strerror(ret));
	return ret;
}

/* ---- after a failure ---- */

/* Whether a rank is gone: its process does not exist any more, or it has not answered for long.
 * ret: the outcome of the last question */
static bool is_gone(struct inccl_fallback *f, struct inccl_asked *asked, int ret)
{
	const uint64_t now_ns = inc_awake_now_ns(&f->awake);

	if (!ret)
		asked->silent_at_ns = 0;
	else if (!asked->silent_at_ns)
		asked->silent_at_ns = now_ns;
	return ret == -ECONNRESET ||
	       (ret && inc_awake_past(&f->awake, asked->silent_at_ns,
				      f->opts.unreachable_ms * INC_NSEC_PER_MSEC));
}

/* Lets the framework make progress, because a rank that is asked may wait for a message. */
static void pause_between(struct inccl_fallback *f)
{
	if (f->opts.progress)
		f->opts.progress(f->opts.context);
	inc_wait_poll(NULL, 0, PAUSE_MS);
}

/* Whether a rank has more than so many bytes of a result. A rank that does not answer has given
 * these bytes before, so the caller goes on with them. */
static bool has_more(struct inccl_fallback *f, int rank, uint64_t number, size_t bytes)
{
	const struct inccl_question question = {
		.ask = INCCL_ASK_BYTES, .number = number, .offset = bytes, .bytes = 1};
	struct inccl_answer reply;
	uint8_t byte;

	return !inccl_peers_ask(f->peers, rank, &question, &reply, &byte, INCCL_PEERS_ASK_MS) &&
	       reply.bytes;
}

/* Copies the result of a collective from a rank that has it. bytes: 0 if this rank needs none of
 * the result. Returns 0; -ECONNRESET if the rank is gone; -ENODATA if its result is shorter; or
 * -EMSGSIZE if that is longer. */
static int fetch(struct inccl_fallback *f, int rank, uint64_t number, uint8_t *to, size_t bytes)
{
	struct inccl_question question = {.ask = INCCL_ASK_BYTES, .number = number};
	struct inccl_asked asked = {0};
	struct inccl_answer reply;
	int ret;

	while (question.offset < bytes) {
		question.bytes = inc_min64(bytes - question.offset, INCCL_PEERS_CHUNK_BYTES);
		ret = inccl_peers_ask(f->peers, rank, &question, &reply, to + question.offset,
				      INCCL_PEERS_ASK_MS);
		if (is_gone(f, &asked, ret))
			return -ECONNRESET;
		if (!ret && !reply.bytes)
			return -ENODATA;
		if (ret)
			pause_between(f);
		else
			question.offset += reply.bytes;
	}
	return bytes && has_more(f, rank, number, bytes) ? -EMSGSIZE : 0;
}

/* Notes the rank without which it is not known whether the collective has a result, and why the
 * switch was lost, because a rank that is gone may have ended for the same cause. */
static int unknown(struct inccl_fallback *f, int rank, const char *what)
{
	char why[sizeof(f->reason)];

	if (!f->has_failed) {
		memcpy(why, f->reason, sizeof(why));
		snprintf(f->reason, sizeof(f->reason),
			 "rank %d %s, so it is not known whether it has the result of the "
			 "collective (%.400s)",
			 rank, what, why);
	}
	pthread_mutex_lock(&f->lock);
	f->has_failed = true;
	pthread_mutex_unlock(&f->lock);
	return -ECONNRESET;
}

/* Notes that ranks have made different calls, which the framework cannot repeat either. */
static int defect(struct inccl_fallback *f, int rank, const char *what)
{
	snprintf(f->reason, sizeof(f->reason), "rank %d %s", rank, what);
	pthread_mutex_lock(&f->lock);
	f->has_failed = true;
	pthread_mutex_unlock(&f->lock);
	return -EPROTO;
}

/* Notes that a rank will never give the result. It counts only if no other rank gives it, because
 * a rank that has failed gets no result any more. */
static int refuse(struct inccl_asked *asked, int error, const char *what)
{
	asked->answered = true;
	asked->error = error;
	asked->what = what;
	return 0;
}

/* Copies the result from a rank that has said that it has one. Returns like ask_one(). */
static int fetch_announced(struct inccl_fallback *f, int rank, uint64_t number, uint8_t *to,
			   size_t bytes)
{
	struct inccl_asked *asked = &f->asked[rank];
	const int ret = fetch(f, rank, number, to, bytes);

	if (ret == -EMSGSIZE)
		return refuse(asked, -EPROTO, "has a longer result of the collective");
	if (ret != -ENODATA)
		return !ret;
	/* The rank may have gone on meanwhile, which its next answer says. */
	if (!asked->was_short) {
		asked->was_short = true;
		return 0;
	}
	return refuse(asked, -EPROTO, "has a shorter result of the collective");
}

/* Asks one rank. Returns 1 if the result is at `to`, or 0. asked->answered becomes true unless the
 * rank must be asked again. */
static int ask_one(struct inccl_fallback *f, int rank, uint64_t number, uint8_t *to, size_t bytes)
{
	const struct inccl_question question = {.ask = INCCL_ASK_RESULT, .number = number};
	struct inccl_asked *asked = &f->asked[rank];
	struct inccl_answer reply;
	int ret;

	ret = inccl_peers_ask(f->peers, rank, &question, &reply, NULL, INCCL_PEERS_ASK_MS);
	if (!ret && reply.has == INCCL_HAS_RESULT)
		return fetch_announced(f, rank, number, to, bytes);
	asked->answered = !ret;
	asked->had = !ret && reply.has == INCCL_HAS_HAD;
	if (!is_gone(f, asked, ret))
		return 0;
	return refuse(asked, -ECONNRESET, ret == -ECONNRESET ? "is gone" : "cannot be reached");
}

/* Asks ranks until all of them, from `from` to `end` - 1, have answered. Returns whether one of
 * them has given the result. */
static bool ask_ranks(struct inccl_fallback *f, int from, int end, uint64_t number, uint8_t *to,
		      size_t bytes)
{
	int missing;

	do {
		missing = 0;
		for (int r = from; r < end; r++) {
			if (f->asked[r].answered)
				continue;
			if (ask_one(f, r, number, to, bytes))
				return true;
			missing += !f->asked[r].answered;
		}
		if (missing)
			pause_between(f);
	} while (missing);
	return false;
}

/* None of the ranks has given the result. Returns an error if one of them may have it, or had it.
 * The latter is a defect: a rank goes on without it only if a rank with the next large result keeps
 * both until all have ended. */
static int none(struct inccl_fallback *f)
{
	for (int r = 0; r < f->ranks; r++)
		if (f->asked[r].error == -EPROTO)
			return defect(f, r, f->asked[r].what);
	for (int r = 0; r < f->ranks; r++)
		if (f->asked[r].error)
			return unknown(f, r, f->asked[r].what);
	for (int r = 0; r < f->ranks; r++)
		if (f->asked[r].had)
			return defect(
				f, r,
				"had the result of the collective, and has gone on without it");
	return 0;
}

int inccl_fallback_ask_all(struct inccl_fallback *f, uint64_t number, int first, uint8_t *to,
			   size_t bytes)
{
	begin_wait(f);
	memset(f->asked, 0, f->ranks * sizeof(*f->asked));
	f->asked[f->rank].answered = true;
	return (first >= 0 && ask_ranks(f, first, first + 1, number, to, bytes)) ||
			       ask_ranks(f, 0, f->ranks, number, to, bytes)
		       ? 1
		       : none(f);
}

int inccl_fallback_wait_for_others(struct inccl_fallback *f, uint64_t number, bool can_be_given_up)
{
	const struct inccl_question question = {.ask = INCCL_ASK_STATUS, .number = number};
	struct inccl_asked asked = {0};
	struct inccl_answer reply;
	int ret;

	begin_wait(f);
	for (int r = 0; r < f->ranks;) {
		if (can_be_given_up && is_given_up(f, number))
			return -ECANCELED;
		ret = r == f->rank ? 0
				   : inccl_peers_ask(f->peers, r, &question, &reply, NULL,
						     INCCL_PEERS_ASK_MS);
		/* a rank that is gone needs no result */
		if (r == f->rank || is_gone(f, &asked, ret) || (!ret && reply.ended >= number)) {
			asked.silent_at_ns = 0;
			r++;
		} else {
			pause_between(f);
		}
	}
	return 0;
}
