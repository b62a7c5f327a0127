/* SPDX-License-Identifier: BSD-2-Clause */
/* The collectives of the switch and of the framework (fallback_ranks.h). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/node/node.h"
#include "selftests/fakes/fallback_ranks.h"

#define SLICE_NS (400 * INC_NSEC_PER_MSEC) /* of a wait for the switch */

/* ---- collectives of all ranks ---- */

static size_t bytes_sent(const struct inccl_fallback_call *c, int rank)
{
	const size_t bytes = c->count * inccl_dtype_size(c->dtype);

	if (c->collective == INCCL_BARRIER || (c->collective == INCCL_BROADCAST && rank != c->root))
		return 0;
	return c->collective == INCCL_REDUCE_SCATTER ? bytes * job.ranks : bytes;
}

static size_t bytes_received(const struct inccl_fallback_call *c, int rank)
{
	const size_t bytes = c->count * inccl_dtype_size(c->dtype);

	if (c->collective == INCCL_BARRIER || (c->collective == INCCL_REDUCE && rank != c->root))
		return 0;
	return c->collective == INCCL_ALL_GATHER ? bytes * job.ranks : bytes;
}

/* Adds this rank's part, which is copied. All ranks must make the same call. */
static void join(struct round *round, const struct inccl_fallback_call *c, const char *where)
{
	const struct inccl_fallback_call *first = &round->call;
	const size_t bytes = bytes_sent(c, me->rank);

	if (!round->begun)
		round->call = *c;
	if (first->collective != c->collective || first->count != c->count ||
	    first->dtype != c->dtype || first->op != c->op || first->root != c->root)
		job_fail("rank %d calls collective %d of %zu elements %s, and others %d of %zu",
			 me->rank, c->collective, c->count, where, first->collective, first->count);
	if (round->begun >> me->rank & 1)
		job_fail("rank %d calls the same collective twice %s", me->rank, where);
	round->part[me->rank] = malloc(bytes + 1);
	if (bytes)
		memcpy(round->part[me->rank], c->send, bytes);
	round->begun |= 1u << me->rank;
}

/* Whether all ranks have begun that this rank's result needs. Without elements it needs none. */
static bool is_complete(const struct round *round, int rank)
{
	unsigned int need = (1u << job.ranks) - 1;

	if (!round->call.count && round->call.collective != INCCL_BARRIER)
		need = 0;
	else if (round->call.collective == INCCL_REDUCE && rank != round->call.root)
		need = 1u << rank;
	else if (round->call.collective == INCCL_BROADCAST)
		need = 1u << rank | 1u << round->call.root;
	return (round->begun & need) == need;
}

/* Adds 32-bit integers, or combines bytes by OR. */
static void combine(const struct round *round, size_t offset, uint8_t *out, size_t bytes)
{
	uint32_t sum, element;

	memset(out, 0, bytes);
	for (int r = 0; r < job.ranks; r++) {
		const uint8_t *part = round->part[r] + offset;

		for (size_t i = 0; i < bytes && round->call.dtype == INCCL_UINT8; i++)
			out[i] |= part[i];
		for (size_t i = 0; i < bytes && round->call.dtype == INCCL_INT32; i += 4) {
			memcpy(&sum, out + i, 4);
			memcpy(&element, part + i, 4);
			sum += element;
			memcpy(out + i, &sum, 4);
		}
	}
}

/* The buffer into which a call writes on this rank, or NULL. The root of a broadcast in place may
 * have memory that it can only read. */
static void *written_by(const struct inccl_fallback_call *c)
{
	const bool is_there = c->collective == INCCL_BROADCAST && c->root == me->rank;

	return !bytes_received(c, me->rank) || (is_there && c->send == c->recv) ? NULL : c->recv;
}

/* out: what written_by() has returned */
static void write_result(const struct round *round, uint8_t *out)
{
	const struct inccl_fallback_call *c = &round->call;
	const size_t bytes = bytes_received(c, me->rank);

	if (!out)
		return;
	if (c->collective == INCCL_BROADCAST)
		memcpy(out, round->part[c->root], bytes);
	else if (c->collective == INCCL_ALL_GATHER)
		for (int r = 0; r < job.ranks; r++)
			memcpy(out + r * (bytes / job.ranks), round->part[r], bytes / job.ranks);
	else
		combine(round, c->collective == INCCL_REDUCE_SCATTER ? me->rank * bytes : 0, out,
			bytes);
}

/* ---- the framework ---- */

static bool frame_is_complete(struct member *m)
{
	return is_complete(m->frame, m->rank);
}

static int take_part(struct member *m, const struct inccl_fallback_call *c)
{
	job_check(m == me && m->frames < FRAMES);
	m->frame = &job.in_framework[m->frames++];
	join(m->frame, c, "in the framework");
	job_pass_turn(frame_is_complete, UINT64_MAX);
	write_result(m->frame, written_by(c));
	return 0;
}

int job_gather(void *context, const void *mine, void *all, size_t bytes)
{
	const struct inccl_fallback_call c = {
		.collective = INCCL_ALL_GATHER,
		.send = mine,
		.recv = all,
		.count = bytes,
		.dtype = INCCL_UINT8,
	};

	return take_part(context, &c);
}

int job_repeat(void *context, const struct inccl_fallback_call *c)
{
	struct member *m = context;

	m->repeats++;
	return take_part(m, c);
}

void job_progress(void *context)
{
	job_check(context == me);
	job_pass_turn(NULL, 0);
}

void job_lost(void *context, const char *reason)
{
	struct member *m = context;

	job_check(m == me && !m->losses && *reason);
	/* the communicator's error may name the rank that is the cause */
	job_check(!m->comm_error || !strcmp(reason, m->comm_error));
	m->losses++;
}

/* ---- the switch: what hostlib/fallback calls of libinccl ---- */

/* Whether another rank has asked this one for the result, so that it must not have it any more. */
static bool is_asked(struct member *m)
{
	struct inccl_fallback *f = m->fallback;
	bool is;

	pthread_mutex_lock(&f->lock);
	is = f->given_up <= f->begun;
	pthread_mutex_unlock(&f->lock);
	return is;
}

static bool operation_is_over(struct member *m)
{
	const bool is_late = is_asked(m) || job_now_ns >= m->begun_at_ns + job.late_ns;

	switch (m->ending) {
	case ARRIVES:
	case FAILS_AFTER:
		return is_complete(m->pending, m->rank);
	case ARRIVES_LATE:
		return is_late && is_complete(m->pending, m->rank);
	case FAILS:
		return is_late || m->variant == 1;
	default:
		return false;
	}
}

int inccl_collective_start(struct inccl_communicator *comm, const struct inccl_call *call,
			   const struct inccl_collective_opts *opts, struct inccl_request **request)
{
	const struct inccl_fallback_call c = {
		.collective = call->collective,
		.send = call->send,
		.recv = call->recv,
		.count = call->count,
		.dtype = call->dtype,
		.op = call->op,
		.root = call->root,
	};
	const unsigned int number = 2 * (me->calls - 1) + me->operations++;
	const size_t bytes = bytes_received(&c, me->rank);

	job_check(comm == &me->comm && !me->comm_ended && !me->pending && number < OPERATIONS);
	/* the communicator's own limit must not count */
	job_check(opts->timeout_ms);
	/* as the public calls have it */
	job_check(inccl_is_reduced(call) || call->op == INCCL_SUM);
	me->ending = plan.ending[number][me->rank];
	me->variant = job_draw(3);
	me->begun_at_ns = job_now_ns;
	me->limit_ns = opts->timeout_ms * INC_NSEC_PER_MSEC;
	if (me->ending == FAILS && !me->variant) {
		me->comm_error = job_draw(2) ? "the communicator had failed before" : NULL;
		return me->comm_error ? -EINVAL : -ENOMEM;
	}
	me->pending = &job.on_switch[number];
	join(me->pending, &c, "on the switch");
	/* a part of the result may be there before the rest, also if the rest never comes */
	me->recv = written_by(&c);
	if (me->recv)
		memset(me->recv, 0xab, bytes / 2 + 1);
	*request = (struct inccl_request *)me;
	return 0;
}

/* collectives.c has calls that wait, which a fallback does not use. */
int inccl_collective_run(struct inccl_communicator *comm, const struct inccl_call *call,
			 const struct inccl_collective_opts *opts)
{
	job_fail("a collective that waits by itself");
}

bool inccl_node_needs_network(const struct inccl_group *group)
{
	return true;
}

int inccl_wait(struct inccl_request *request, int timeout_ms)
{
	struct round *round = me->pending;

	job_check(round && (struct member *)request == me);
	job_pass_turn(operation_is_over, job_now_ns + SLICE_NS);
	if (!operation_is_over(me)) {
		if (me->ending == DIES && job_now_ns >= me->begun_at_ns + job.late_ns)
			job_die();
		/* another rank's failure may be known while nothing arrives */
		if (me->ending == STALLS && is_asked(me) && !me->comm_error && job_draw(2))
			me->comm_error = "a rank is lost";
		if (job_now_ns < me->begun_at_ns + me->limit_ns)
			return -EAGAIN;
		me->pending = NULL;
		me->comm_error = "a collective has made no progress";
		return -ETIMEDOUT;
	}
	me->pending = NULL;
	if (me->ending != FAILS)
		write_result(round, me->recv);
	if (me->ending == ARRIVES || me->ending == ARRIVES_LATE)
		return 0;
	me->comm_error = job_draw(2) ? "the communicator has failed" : NULL;
	return -ENOTCONN;
}

const char *inccl_communicator_error(struct inccl_communicator *comm)
{
	job_check(comm == &me->comm && !me->comm_ended);
	return me->comm_error;
}

int inccl_communicator_destroy(struct inccl_communicator *comm)
{
	job_check(comm == &me->comm && !me->comm_ended);
	me->comm_ended = true;
	me->pending = NULL;
	return 0;
}

/* ---- all endings ---- */

static unsigned int endings_run; /* number of jobs that have run */

static bool is_large(const struct planned *p, int ranks)
{
	const bool is_wide =
		p->collective == INCCL_ALL_GATHER || p->collective == INCCL_REDUCE_SCATTER;

	return p->count * 4 * (is_wide ? ranks : 1) > JOB_KEEP_BYTES;
}

/* Whether a rank has lost the switch before an operation. */
static bool is_lost(unsigned int operation, int rank)
{
	while (operation--)
		if (is_failure(plan.ending[operation][rank]))
			return true;
	return false;
}

/* Whether the operation can end with a result on the rank. */
static bool is_possible(unsigned int operation, int rank, int ranks)
{
	const struct planned *p = &plan.call[operation / 2];
	const bool needs_all = operation % 2 || !is_large(p, ranks);

	for (int r = 0; r < ranks; r++) {
		const bool is_needed = needs_all || r == rank ||
				       (p->collective == INCCL_REDUCE      ? rank == p->root
					: p->collective == INCCL_BROADCAST ? r == p->root
									   : true);

		if (is_needed && is_lost(operation, r))
			return false;
	}
	return true;
}

static bool takes_place(unsigned int operation, int rank, int ranks)
{
	const struct planned *p = &plan.call[operation / 2];

	return (operation % 2 ? is_large(p, ranks) : p->count || p->collective == INCCL_BARRIER) &&
	       !is_lost(operation, rank);
}

/* A late result differs from another only if a rank asks for it. */
static bool is_late_in_vain(unsigned int operation, int ranks)
{
	bool is_late = false, fails = false;

	for (int r = 0; r < ranks; r++) {
		is_late |= plan.ending[operation][r] == ARRIVES_LATE;
		fails |= is_failure(plan.ending[operation][r]);
	}
	return is_late && !fails;
}

/* Runs the plan with all endings from an operation and a rank on. */
static void expand(unsigned int operation, int rank, int ranks, const char *text)
{
	enum ending ending = ARRIVES, last = ARRIVES;

	if (operation == 2 * plan.calls) {
		for (unsigned int i = 0; i < plan.calls; i++)
			plan.call[i].in_place = endings_run % 2;
		job_run_plan(ranks, ++endings_run, text);
		return;
	}
	if (rank == ranks) {
		if (!is_late_in_vain(operation, ranks))
			expand(operation + 1, 0, ranks, text);
		return;
	}
	if (takes_place(operation, rank, ranks)) {
		ending = is_possible(operation, rank, ranks) ? ARRIVES : STALLS;
		last = ending == ARRIVES ? FAILS_AFTER : FAILS;
	}
	for (; ending <= last; ending++) {
		/* a rank in the barrier is not asked for a result that it must not have then */
		if (operation % 2 && ending == ARRIVES_LATE)
			continue;
		plan.ending[operation][rank] = ending;
		expand(operation, rank + 1, ranks, text);
	}
	plan.ending[operation][rank] = ARRIVES;
}

unsigned int job_run_endings(int ranks, const char *text)
{
	expand(0, 0, ranks, text);
	return endings_run;
}
