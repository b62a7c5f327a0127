// SPDX-License-Identifier: BSD-2-Clause
/* A job whose calls end without the switch if need be (inccl_fallback.h). Its framework passes
 * bytes between the ranks in memory, and always works. Every call must end on every rank with the
 * right result, whatever happens to switches and controller. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cluster.h"
#include "hostlib/include/inccl_fallback.h"
#include "lib/base/os.h"
#include "sim.h"

/* calls of the framework: one for each call, and those that create and destroy the fallback */
#define FRAMES     (CLUSTER_CALLS_MOST + 4)
#define KEEP_BYTES 512
/* Vectors have up to 64 times so many bytes, so that results are kept or not. */
#define VECTOR_BYTES 64
/* pause of a rank that waits for others in the framework, and its limit */
#define PAUSE_NS (200 * 1000)
#define LIMIT_NS (200 * INC_NSEC_PER_SEC)
/* A call ends within this time after the others have begun it. */
#define CALL_NS (60 * INC_NSEC_PER_SEC)

/* A call of the framework, which all ranks make. */
struct frame {
	unsigned int call; /* number of the call that it repeats; CLUSTER_CALLS_MOST: none */
	unsigned int begun;
	uint8_t *part[CLUSTER_HOSTS_MOST];
};

struct member {
	struct cluster_rank *rank;
	unsigned int frames, call;
	struct collective what; /* the present call */
	bool lost, repeated;
};

static struct job {
	struct frame frame[FRAMES];
	struct member member[CLUSTER_HOSTS_MOST];
	unsigned int created; /* a bit for each rank that has a fallback */
} jobs[CLUSTER_GROUPS_MOST];

static struct job *job_of(const struct member *m)
{
	return &jobs[m->rank->group - cluster.group];
}

static unsigned int all_of(const struct member *m)
{
	return (1u << m->rank->group->n_ranks) - 1;
}

static void pause_for(uint64_t ns)
{
	const struct timespec ts = inc_timespec_of_ns(ns);

	inc_os.wait.poll(NULL, 0, &ts);
}

void cluster_fallback_begin(void)
{
	for (struct job *job = jobs; job < jobs + CLUSTER_GROUPS_MOST; job++)
		for (struct frame *frame = job->frame; frame < job->frame + FRAMES; frame++)
			for (unsigned int r = 0; r < CLUSTER_HOSTS_MOST; r++)
				free(frame->part[r]);
	memset(jobs, 0, sizeof(jobs));
}

/* --- the framework --- */

/* Takes part in the next call of the framework, with this rank's bytes, and waits for the ranks of
 * a mask. */
static struct frame *take_part(struct member *m, unsigned int call, const void *mine, size_t bytes,
			       unsigned int needs)
{
	struct frame *frame = &job_of(m)->frame[m->frames++];
	const uint64_t until_ns = sim_now_ns() + LIMIT_NS;

	sim_require(m->frames <= FRAMES, "%s: too many calls of the framework",
		    m->rank->process.name);
	sim_require(!frame->begun || frame->call == call,
		    "%s: calls of the framework differ: this rank repeats call %u, and another "
		    "rank %u",
		    m->rank->process.name, call, frame->call);
	frame->call = call;
	frame->part[m->rank->number] = malloc(bytes + 1);
	sim_require(frame->part[m->rank->number], "no memory");
	if (bytes)
		memcpy(frame->part[m->rank->number], mine, bytes);
	frame->begun |= 1u << m->rank->number;
	while ((frame->begun & needs) != needs) {
		sim_require(sim_now_ns() < until_ns, "%s: the framework waits for ranks 0x%x",
			    m->rank->process.name, needs & ~frame->begun);
		pause_for(PAUSE_NS);
	}
	return frame;
}

static int gather(void *context, const void *mine, void *all, size_t bytes)
{
	struct member *m = context;
	const struct frame *frame = take_part(m, CLUSTER_CALLS_MOST, mine, bytes, all_of(m));

	for (unsigned int r = 0; r < m->rank->group->n_ranks; r++)
		memcpy((uint8_t *)all + r * bytes, frame->part[r], bytes);
	return 0;
}

/* The ranks without which the framework's collective does not end on this one. */
static unsigned int needs(const struct member *m)
{
	if (m->what.what == INCCL_BROADCAST)
		return 1u << m->what.root;
	if (m->what.what == INCCL_REDUCE && m->what.root != (int)m->rank->number)
		return 0;
	return all_of(m);
}

/* Copies what the collective gives this rank from the results of all blocks. */
static void copy_own(const struct member *m, const uint8_t *const given[], uint8_t *out)
{
	static const struct collective_tree tree;
	const unsigned int rank = m->rank->number;
	const size_t at = m->what.what == INCCL_REDUCE_SCATTER ? rank * m->what.block_bytes : 0;
	uint8_t *all = malloc(collective_all_bytes(&m->what) + 1);

	sim_require(all, "no memory");
	if (collective_recv_bytes(&m->what, rank)) {
		collective_expect(&m->what, given, &tree, all);
		memcpy(out, all + at, collective_recv_bytes(&m->what, rank));
	}
	free(all);
}

static int repeat(void *context, const struct inccl_fallback_call *call)
{
	struct member *m = context;
	const struct frame *frame;

	sim_require(call->collective == m->what.what && call->count == m->what.count,
		    "%s: another call is repeated", m->rank->process.name);
	sim_note(m->rank->process.name, "repeats its call in the framework", m->call, 0, 0);
	m->repeated = true;
	frame = take_part(m, m->call, call->send, collective_send_bytes(&m->what, m->rank->number),
			  needs(m));
	copy_own(m, (const uint8_t *const *)frame->part, call->recv);
	return 0;
}

static void progress(void *context)
{
}

static void lost(void *context, const char *reason)
{
	struct member *m = context;

	sim_note(m->rank->process.name, reason, 0, 0, 0);
	sim_require(!m->lost && *reason, "%s: loses the switch twice, or for no reason",
		    m->rank->process.name);
	m->lost = true;
	cluster_figures.switch_lost++;
}

/* --- a rank --- */

/* The data of a rank for a call follow from this seed. */
static uint64_t seed_of(unsigned int rank, unsigned int call)
{
	return rng_mix(sim_seed(), call << 8 | rank);
}

static void draw(struct member *m)
{
	const struct collective_limits limits = {.ranks = m->rank->group->n_ranks,
						 .payload = VECTOR_BYTES};
	struct rng rng = {.state = rng_mix(sim_seed() ^ m->rank->group->n_ranks, m->call)};

	/* the framework adds floats in another order than the switch */
	do
		collective_draw(&rng, &limits, &m->what);
	while (collective_reduces_floats(&m->what));
}

static void check(const struct member *m, const struct collective_buffers *buffers)
{
	const size_t bytes = collective_recv_bytes(&m->what, m->rank->number);
	uint8_t *given[CLUSTER_HOSTS_MOST] = {0}, *expected = malloc(bytes + 1);

	sim_require(expected, "no memory");
	for (unsigned int r = 0; r < m->what.ranks; r++) {
		const size_t sent = collective_send_bytes(&m->what, r);

		given[r] = malloc(sent + 1);
		sim_require(given[r], "no memory");
		collective_fill(&m->what, seed_of(r, m->call), given[r], sent);
	}
	copy_own(m, (const uint8_t *const *)given, expected);
	sim_require(!bytes || !memcmp(buffers->recv, expected, bytes), "%s: a result is wrong",
		    m->rank->process.name);
	sim_require(collective_is_unchanged(&m->what, m->rank->number, buffers),
		    "%s: what was given has changed", m->rank->process.name);
	for (unsigned int r = 0; r < m->what.ranks; r++)
		free(given[r]);
	free(expected);
}

static void call(struct member *m, struct inccl_fallback *fallback)
{
	const bool was_lost = m->lost;
	const uint64_t begun_at_ns = sim_now_ns();
	struct collective_buffers buffers;
	int ret;

	draw(m);
	m->repeated = false;
	sim_note(m->rank->process.name, collective_name(&m->what), m->call,
		 collective_all_bytes(&m->what), 0);
	collective_make(&m->what, m->rank->number, seed_of(m->rank->number, m->call), &buffers);
	INCCL_OPTS(inccl_fallback_call, c, .collective = m->what.what, .send = buffers.send,
		   .recv = buffers.recv, .count = m->what.count, .dtype = m->what.dtype,
		   .op = m->what.op, .root = m->what.root);
	ret = inccl_fallback_run(fallback, &c);
	sim_require(!ret, "%s: %s: %s (%s)", m->rank->process.name, collective_name(&m->what),
		    strerror(-ret), inccl_fallback_reason(fallback) ?: "no loss");
	sim_require(sim_now_ns() - begun_at_ns < CALL_NS, "%s: %s took %llu s",
		    m->rank->process.name, collective_name(&m->what),
		    (unsigned long long)((sim_now_ns() - begun_at_ns) / INC_NSEC_PER_SEC));
	check(m, &buffers);
	collective_free(&buffers);
	cluster_figures.calls_repeated += m->repeated;
	cluster_figures.results_of_others += m->lost && !was_lost && !m->repeated;
}

/* Waits until all ranks have a fallback, because packets count from then on. */
static void wait_for_all(struct member *m)
{
	struct job *job = job_of(m);

	job->created |= 1u << m->rank->number;
	if (job->created == all_of(m))
		cluster_packets_count();
	while (job->created != all_of(m))
		pause_for(PAUSE_NS);
}

void cluster_fallback_run(struct cluster_rank *rank, struct inccl_communicator *comm)
{
	struct member *m = &job_of(&(struct member){.rank = rank})->member[rank->number];
	INCCL_OPTS(inccl_fallback_opts, opts, .context = m, .gather = gather, .repeat = repeat,
		   .progress = rank->number % 2 ? progress : NULL, .lost = lost,
		   .keep_bytes = KEEP_BYTES, .error = rank->error,
		   .error_size = sizeof(rank->error));
	struct inccl_fallback *fallback;
	int ret;

	m->rank = rank;
	ret = inccl_fallback_create(comm, &opts, &fallback);
	sim_require(!ret, "%s: no fallback: %s (%s)", rank->process.name, strerror(-ret),
		    rank->error);
	wait_for_all(m);
	for (m->call = 0; m->call < rank->group->calls; m->call++)
		call(m, fallback);
	ret = inccl_fallback_destroy(fallback);
	sim_require(!ret, "%s: the fallback does not end: %s", rank->process.name, strerror(-ret));
}
