// SPDX-License-Identifier: BSD-2-Clause
/* A rank: it joins its group, creates communicators and calls collectives on them. Where others
 * have died, it shrinks the group and goes on. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cluster.h"
#include "collective.h"
#include "hostlib/src/internal.h"
#include "lib/base/opt.h"
#include "lib/base/os.h"
#include "network.h"
#include "process.h"
#include "sim.h"

#define SHRINKS_MOST 8
/* so small that the calls of these jobs are cut into parts, too */
#define CHANNEL_PART_BYTES 512

const struct inccl_transport inccl_transports[] = {
	{INCCL_TRANSPORT_VERBS, &inc_channel_verbs}, {INCCL_TRANSPORT_SOFT, &inc_channel_soft}, {}};

/* The data of a rank: its group, its communicators, and the calls on them that have begun. */
struct work {
	struct cluster_rank *rank;
	struct inccl_group *group;
	struct cluster_made *made; /* the rank's group as the test records it */
	unsigned int round;
	struct inccl_communicator *comm[CLUSTER_COMMS_AT_ONCE];
	struct call {
		struct collective what;
		struct collective_buffers buffers;
		struct inccl_request *request;
	} call[CLUSTER_CALLS_MOST];
};
static struct work works[CLUSTER_GROUPS_MOST][CLUSTER_HOSTS_MOST];

static void on_log(void *ctx, const char *line)
{
	struct cluster_rank *rank = ctx;

	sim_note(rank->process.name, line, 0, 0, 0);
	if (strstr(line, " has failed: "))
		rank->failed_at_ns = sim_now_ns();
	cluster_figures.waits_reported += strstr(line, "waiting: ") == line;
}

static void think(uint64_t ns)
{
	const struct timespec ts = inc_timespec_of_ns(ns);

	inc_os.wait.poll(NULL, 0, &ts);
}

/* --- a collective, its data and its check --- */

/* The communicator that a call uses. Calls use the group's communicators in turn. */
static struct inccl_communicator *comm_of(const struct work *w, unsigned int call)
{
	return w->comm[call % w->rank->group->comms];
}

/* The number of a call among all calls of the group. */
static unsigned int number_of(const struct work *w, unsigned int call)
{
	return w->round * CLUSTER_CALLS_MOST + call;
}

/* The data of a rank of the job for a call follow from this seed. */
static uint64_t seed_of(const struct work *w, unsigned int job_rank, unsigned int call)
{
	return rng_mix(sim_seed() ^ w->group->number, number_of(w, call) << 8 | job_rank);
}

static struct inccl_communicator_info info_of(struct inccl_communicator *comm)
{
	struct inccl_communicator_info info = {.sz = sizeof(info)};

	sim_require(!inccl_communicator_info(comm, &info), "no facts of a communicator");
	return info;
}

static bool is_native(const struct inccl_communicator_info *info)
{
	return !strcmp(info->floats, "native");
}

static void forget_calls(struct work *w)
{
	unsigned int i;

	for (i = 0; i < CLUSTER_CALLS_MOST; i++)
		collective_free(&w->call[i].buffers);
}

/* Starts a call. Fails only if the communicator has failed. */
static int begin(struct work *w, unsigned int i)
{
	const struct inccl_communicator_info info = info_of(comm_of(w, i));
	const struct collective_limits limits = {
		.ranks = inccl_group_size(w->group),
		.payload = info.payload,
		.native = is_native(&info),
		.writes = !strcmp(info.mode, "passthrough"),
	};
	struct rng rng = {.state = rng_mix(sim_seed() + w->group->number, number_of(w, i))};
	struct call *c = &w->call[i];
	int ret;

	if (sim_chance(200))
		think(sim_between(0, 20 * INC_NSEC_PER_MSEC));
	collective_draw(&rng, &limits, &c->what);
	collective_make(&c->what, inccl_group_rank(w->group), seed_of(w, w->rank->number, i),
			&c->buffers);
	cluster_call_begins(w->rank, collective_name(&c->what));
	ret = collective_start(&c->what, comm_of(w, i), &c->buffers, &c->request);
	return ret;
}

/* Fills in what all members of the group have given. Returns one piece of memory. */
static uint8_t *gather(const struct work *w, unsigned int i, const uint8_t *given[])
{
	const struct collective *c = &w->call[i].what;
	const size_t most = collective_all_bytes(c) + 1;
	uint8_t *bytes = malloc(most * c->ranks);
	unsigned int job_rank, r = 0;

	sim_require(bytes, "no memory");
	for (job_rank = 0; job_rank < CLUSTER_HOSTS_MOST; job_rank++) {
		if (!(w->made->members >> job_rank & 1))
			continue;
		given[r] = bytes + r * most;
		collective_fill(c, seed_of(w, job_rank, i), bytes + r * most,
				collective_send_bytes(c, r));
		r++;
	}
	return bytes;
}

static uint64_t sum_of(const uint8_t *bytes, size_t n)
{
	uint64_t sum = n + 1;

	while (n--)
		sum = (sum ^ bytes[n]) * 0x100000001b3;
	return sum | 1;
}

/* Checks floats that were added as integers. Those of one rank must be within the error bound, and
 * those of the other ranks must equal them. */
static void check_floats(struct work *w, unsigned int i, const uint8_t *const given[])
{
	const struct inccl_communicator_info info = info_of(comm_of(w, i));
	const struct call *c = &w->call[i];
	const unsigned int rank = inccl_group_rank(w->group);
	const bool is_shared = c->what.what != INCCL_REDUCE_SCATTER;
	const uint64_t sum = sum_of(c->buffers.recv, collective_recv_bytes(&c->what, rank));
	uint64_t *first = &w->made->sum[number_of(w, i)];

	sim_require(!is_shared || !*first || *first == sum, "%s: a sum of floats differs",
		    w->rank->process.name);
	if (!*first || !is_shared)
		collective_check_floats(&c->what, given, rank, info.float_bits, c->buffers.recv);
	*first = sum;
}

static void check_exactly(const struct work *w, unsigned int i, const uint8_t *const given[])
{
	const struct collective_tree *tree = &w->made->tree[w->round][i % w->rank->group->comms];
	const struct call *c = &w->call[i];
	const unsigned int rank = inccl_group_rank(w->group);
	const size_t at = c->what.what == INCCL_REDUCE_SCATTER ? rank * c->what.block_bytes : 0;
	uint8_t *expected = malloc(collective_all_bytes(&c->what) + 1);

	sim_require(expected, "no memory");
	collective_expect(&c->what, given, tree, expected);
	sim_require(!memcmp(c->buffers.recv, expected + at, collective_recv_bytes(&c->what, rank)),
		    "%s: a result is wrong", w->rank->process.name);
	free(expected);
}

static void check_result(struct work *w, unsigned int i)
{
	const struct inccl_communicator_info info = info_of(comm_of(w, i));
	const unsigned int rank = inccl_group_rank(w->group);
	const struct collective *c = &w->call[i].what;
	const uint8_t *given[CLUSTER_HOSTS_MOST];
	uint8_t *bytes;

	sim_require(__builtin_popcount(w->made->members) == (int)c->ranks,
		    "%s: a result of %d ranks, and the group has %u", w->rank->process.name,
		    __builtin_popcount(w->made->members), c->ranks);
	sim_require(collective_is_unchanged(c, rank, &w->call[i].buffers),
		    "%s: what was given has changed", w->rank->process.name);
	if (!collective_recv_bytes(c, rank))
		return;
	bytes = gather(w, i, given);
	if (!collective_reduces_floats(c))
		check_exactly(w, i, given);
	else if (!is_native(&info))
		check_floats(w, i, given);
	else if (w->made->has_tree[w->round] >> i % w->rank->group->comms & 1)
		check_exactly(w, i, given);
	free(bytes);
	sim_hash_bytes(w->call[i].buffers.recv, collective_recv_bytes(c, rank));
}

static void note_error(struct cluster_rank *rank, const char *error)
{
	if (error)
		snprintf(rank->error, sizeof(rank->error), "%s", error);
}

/* Ends a call that has begun, or whose start has failed with `ret`. */
static int end(struct work *w, unsigned int i, int ret)
{
	if (!ret) {
		cluster_call_begins(w->rank, "waits for its result");
		w->rank->collects = true;
		ret = inccl_wait(w->call[i].request, -1);
	}
	w->rank->all_have_it =
		__builtin_popcount(w->made->created[w->round]) == inccl_group_size(w->group);
	if (ret)
		note_error(w->rank, inccl_communicator_error(comm_of(w, i)));
	cluster_call_ended(w->rank, collective_name(&w->call[i].what), ret);
	w->rank->all_have_it = w->rank->collects = false;
	if (!ret)
		check_result(w, i);
	collective_free(&w->call[i].buffers);
	return ret;
}

/* Makes all calls of a round. After an error the calls that have begun must end, too, with their
 * results or with the error. */
static int call_all(struct work *w)
{
	const struct cluster_group *group = w->rank->group;
	unsigned int begun = 0, ended = 0;
	int ret = 0, one;

	while (ended < begun || (!ret && begun < group->calls)) {
		if (!ret && begun < group->calls && begun - ended < group->at_once) {
			ret = begin(w, begun);
			if (ret)
				end(w, begun, ret);
			begun += !ret;
			continue;
		}
		one = end(w, ended++, 0);
		ret = ret ?: one;
	}
	return ret;
}

/* --- communicators --- */

/* All ranks must have the same number of channels, because each cuts its collectives for them. */
static void check_channels(struct work *w, unsigned int i)
{
	unsigned int *channels = &w->made->channels[w->round][i];
	const unsigned int n = info_of(w->comm[i]).channels;

	sim_require(!*channels || *channels == n, "%s: %u channels, and another rank has %u",
		    w->rank->process.name, n, *channels);
	*channels = n;
	if (n > 1)
		cluster_figures.wide++;
}

static int create(struct work *w)
{
	struct inccl_communicator_opts opts = w->rank->group->opts;
	unsigned int i;
	int ret = 0;

	opts.error = w->rank->error;
	opts.error_size = sizeof(w->rank->error);
	/* the kernel's userfaultfd, which watches registrations that are stored, is not simulated
	 */
	opts.verbs = "cache_mib=0,traffic_class=" INC_STR(NETWORK_CLASS);
	inccl_channel_part_bytes = CHANNEL_PART_BYTES;
	if (rdma_has(&w->rank->process))
		opts.transport = INCCL_TRANSPORT_VERBS;
	for (i = 0; !ret && i < w->rank->group->comms; i++) {
		cluster_call_begins(w->rank, "makes a communicator");
		ret = cluster_call_ended(w->rank, "the communicator",
					 inccl_communicator_create(w->group, &opts, &w->comm[i]));
		if (!ret)
			check_channels(w, i);
		if (!ret)
			w->made->has_tree[w->round] |= controller_tree(info_of(w->comm[i]).number,
								       &w->made->tree[w->round][i])
						       << i;
	}
	if (!ret)
		w->made->created[w->round] |= 1u << w->rank->number;
	return ret;
}

static void destroy(struct work *w)
{
	unsigned int i;

	for (i = 0; i < CLUSTER_COMMS_AT_ONCE; i++) {
		if (!w->comm[i])
			continue;
		cluster_call_begins(w->rank, "destroys its communicator");
		note_error(w->rank, inccl_communicator_error(w->comm[i]));
		cluster_call_ended(w->rank, "the communicator's end",
				   inccl_communicator_destroy(w->comm[i]));
		w->comm[i] = NULL;
	}
}

/* Creates the communicators of a round, makes calls on them, and destroys them. A communicator that
 * fails in its end fails no round, because the other ranks, which have their results as well, may
 * not notice that. */
static int round_of(struct work *w)
{
	int ret = create(w);

	if (w->rank->group->falls_back) {
		sim_require(!ret, "%s: no communicator: %s", w->rank->process.name, w->rank->error);
		cluster_fallback_run(w->rank, w->comm[0]);
		w->comm[0] = NULL;
		return 0;
	}
	ret = ret ?: call_all(w);
	destroy(w);
	return ret;
}

static int compute(struct work *w)
{
	int ret = 0;

	for (w->round = 0; !ret && w->round < w->rank->group->rounds; w->round++)
		ret = round_of(w);
	return ret;
}

/* --- groups --- */

static int join(struct work *w)
{
	struct cluster_rank *rank = w->rank;
	const struct in_addr addr = {rank->process.addr};
	char address[INET_ADDRSTRLEN];
	int ret;
	INCCL_OPTS(inccl_group_opts, opts, .job = rank->group->job,
		   .controller = CLUSTER_CONTROLLER, .rank = rank->number,
		   .world_size = rank->group->n_ranks, .address = address, .error = w->rank->error,
		   .error_size = sizeof(w->rank->error), .log = on_log, .log_ctx = w->rank);

	inet_ntop(AF_INET, &addr, address, sizeof(address));
	cluster_call_begins(w->rank, "joins its group");
	w->rank->connects = true;
	ret = cluster_call_ended(w->rank, "the group", inccl_group_create(&opts, &w->group));
	w->rank->connects = false;
	return ret;
}

static void leave(struct work *w, struct inccl_group *group)
{
	cluster_call_begins(w->rank, "leaves its group");
	sim_require(!cluster_call_ended(w->rank, "the group's end", inccl_group_destroy(group)),
		    "%s: the group does not end", w->rank->process.name);
}

/* Records the members of each group, so that the expected sum of their results can be computed. */
static void come_into(struct work *w)
{
	struct cluster_made *made = w->rank->group->made;

	while (made->members && made->number != w->group->number)
		made++;
	sim_require(made < w->rank->group->made + CLUSTER_MADE_MOST, "too many groups");
	made->number = w->group->number;
	made->members |= 1u << w->rank->number;
	w->made = made;
}

/* Does the rank shrink its group? After SIGTERM the switch is absent for up to 40 s, so a shrink
 * could fail again. A switch with an RDMA device that it did not have at its hello refuses each
 * communicator that needs it, so the ranks give up. */
static bool shrinks(const struct cluster_rank *rank, unsigned int times)
{
	return rank->group->died_at_ns && !cluster.terminated_at_ns &&
	       (!cluster.rdma_broken || times < SHRINKS_MOST);
}

/* The remaining ranks shrink their group each time that they lose a rank. */
static int shrink(struct work *w)
{
	INCCL_OPTS(inccl_group_opts, opts, .error = w->rank->error,
		   .error_size = sizeof(w->rank->error));
	struct inccl_group *old = w->group;
	int ret;

	if (cluster.port.goes || cluster.rdma_broken)
		think(2 * INC_NSEC_PER_SEC); /* meanwhile the port, or its device, may return */
	cluster_call_begins(w->rank, "shrinks its group");
	w->rank->connects = true;
	ret = cluster_call_ended(w->rank, "the shrink", inccl_group_shrink(old, &opts, &w->group));
	w->rank->connects = false;
	if (!ret) {
		cluster_figures.shrunk++;
		come_into(w);
	}
	leave(w, old);
	return ret;
}

void cluster_rank_run(void *arg)
{
	struct cluster_rank *rank = arg;
	struct work *w = &works[rank->group - cluster.group][rank->number];
	size_t size, n;
	int ret;

	forget_calls(w);
	memset(w, 0, sizeof(*w));
	w->rank = rank;
	if (!join(w)) {
		rank->formed = true;
		come_into(w);
		ret = compute(w);
		for (n = 0; ret && shrinks(rank, n) && !(ret = shrink(w)); n++)
			ret = compute(w);
		if (w->group)
			leave(w, w->group);
	}
	n = memory_pieces(&rank->process, &size);
	sim_require(!n, "%s: %zu pieces of memory are left, the first of %zu bytes",
		    rank->process.name, n, size);
	n = descriptors_of(&rank->process);
	sim_require(!n, "%s: %zu descriptors are left", rank->process.name, n);
	rank->through = true;
	sim_note(rank->process.name, "has ended", 0, 0, 0);
}
