// SPDX-License-Identifier: BSD-2-Clause
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include "cluster.h"
#include "hostlib/src/internal.h"
#include "lib/proto/desc.h"
#include "memory.h"
#include "selftests/unit/ref_switch.h"
#include "sim.h"

#define BYTES_MOST 8192
/* After the death of a rank, and after the daemon's SIGTERM, each affected call must fail within
 * this time. It is the timeout of members or of switches, plus 2 s for the messages. */
#define DEATH_NS       ((CLUSTER_MEMBER_TIMEOUT_MS + 2000) * INC_NSEC_PER_MSEC)
#define TERMINATION_NS ((CLUSTER_SWITCH_TIMEOUT_MS + 2000) * INC_NSEC_PER_MSEC)
/* A collective fails if it makes no progress for this time (inccl.h, timeout_ms). */
#define PROGRESS_NS (30 * INC_NSEC_PER_SEC)
/* No call may last longer than this, including a creation with its 70 s. Time in which the rank
 * itself stands still does not count. */
#define CALL_NS (80 * INC_NSEC_PER_SEC)

const struct inccl_transport inccl_transports[] = {{INCCL_TRANSPORT_SOFT, &inc_channel_soft}, {}};

/* The data of a rank: its group, its buffers, and the state of its current call. */
struct work {
	struct cluster_rank *rank;
	struct inccl_group *group;
	struct cluster_made *made; /* the rank's group as the test records it */
	bool all_have_it;          /* every rank of the group has created its communicator */
	bool connects;             /* the rank's current call connects to the controller */
	char error[256];
	_Alignas(8) uint8_t send[BYTES_MOST];
	uint8_t recv[BYTES_MOST], expected[BYTES_MOST], other[BYTES_MOST];
};
static struct work works[CLUSTER_GROUPS_MOST][CLUSTER_HOSTS_MOST];

static void on_log(void *ctx, const char *line)
{
	sim_note(((struct cluster_rank *)ctx)->process.name, line, 0, 0, 0);
}

static void think(uint64_t ns)
{
	const struct timespec ts = {.tv_sec = ns / INC_NSEC_PER_SEC,
				    .tv_nsec = ns % INC_NSEC_PER_SEC};

	ppoll(NULL, 0, &ts, NULL);
}

/* --- calls: none hangs, and none fails without a reason --- */

static void begins(struct cluster_rank *rank, const char *what)
{
	rank->called_at_ns = sim_now_ns();
	sim_note(rank->process.name, what, 0, 0, 0);
}

/* Has an allocation failed in a rank of the group, or in the controller or daemon, which serve all
 * groups? */
static bool memory_has_failed(const struct cluster_group *group)
{
	const struct process *failed = memory_failed();
	unsigned int r;

	for (r = 0; r < group->n_ranks; r++)
		if (failed == &group->rank[r].process)
			return true;
	return failed == &controller.process || failed == &cluster.sw.process;
}

/* Does the daemon stand still for about as long as a collective waits for progress? A lost result
 * must be retransmitted by the daemon. After the loss of a port nothing moves until the daemon
 * observes the port's return. */
static bool needs_daemon_for_long(void)
{
	const uint64_t more_ms = cluster.port.goes ? 10000 : 2000;

	return (cluster.daemon_stalls_ms + more_ms) * INC_NSEC_PER_MSEC >= PROGRESS_NS;
}

/* Is there a reason for which the rank's call may fail? The death of the controller or the daemon,
 * a standstill of the daemon and a lost port may fail only calls that create or destroy something.
 * A collective fails in three cases: SIGTERM ends the daemon's communicators, a port whose return
 * no daemon observed ends its own, or the daemon stands still for too long. A standstill of the
 * controller may fail a call that connects, if there are keys, and no other. */
static bool has_reason(const struct work *w)
{
	/* with keys, a call that connects needs the controller for the TLS handshake, which has a
	 * limit of 5 s */
	if (cluster.tls && cluster.controller_stalls && w->connects)
		return true;
	return w->rank->group->died_at_ns || memory_has_failed(w->rank->group) ||
	       cluster.terminated_at_ns || cluster.port.unseen || needs_daemon_for_long() ||
	       ((cluster.controller_dies || cluster.daemon_dies || cluster.daemon_stalls ||
		 cluster.port.goes) &&
		!w->all_have_it);
}

/* Does the controller or the daemon die or stand still in this run? If so, the text of an error
 * depends on that, and is not checked. */
static bool control_plane_disturbed(void)
{
	return cluster.controller_dies || cluster.daemon_dies || cluster.controller_stalls ||
	       cluster.daemon_stalls;
}

/* The time from which a call's failure has a reason: the start of the call, or the latest event
 * that may fail it. */
static uint64_t reason_at_ns(const struct cluster_rank *rank)
{
	uint64_t at_ns = rank->called_at_ns;

	if (at_ns < rank->group->died_at_ns)
		at_ns = rank->group->died_at_ns;
	if (at_ns < cluster.terminated_at_ns)
		at_ns = cluster.terminated_at_ns;
	if (cluster.port.unseen && at_ns < cluster.port.back_at_ns)
		at_ns = cluster.port.back_at_ns;
	if (cluster.port.unseen && at_ns < cluster.sw.ready_at_ns)
		at_ns = cluster.sw.ready_at_ns;
	/* a process that stands still receives and reports nothing before it goes on */
	if (at_ns < cluster_resumed_at_ns())
		at_ns = cluster_resumed_at_ns();
	return at_ns;
}

static bool stands_still(const struct process *process)
{
	return sim_now_ns() < process->paused_until_ns;
}

/* The time within which a call must fail after its cause. */
static uint64_t within_ns(void)
{
	const uint64_t ns = cluster.terminated_at_ns || cluster.n_pauses || cluster.port.goes
				    ? TERMINATION_NS
				    : DEATH_NS;

	/* If the cause of a failure cannot be reported, the rank's own limit ends its collective.
	 * That is so while the controller or the daemon stands still. It is also so if the daemon
	 * ends right after a standstill, because the controller has closed the connection by which
	 * the daemon would report its end. */
	return stands_still(&controller.process) || stands_still(&cluster.sw.process) ||
			       (cluster.terminated_at_ns && cluster.daemon_stalls)
		       ? ns + PROGRESS_NS
		       : ns;
}

/* A process that stood still must not blame a peer for messages that the process itself missed.
 * Only a rank that was silent or has died may be reported as silent. */
static void check_blame(const struct work *w, const char *what)
{
	const struct cluster_group *group = w->rank->group;
	const char *said = strstr(w->error, " has not answered for");
	const char *addr = said ? strstr(w->error, "10.77.") : NULL;
	unsigned int host;

	if (!addr || addr > said || sscanf(addr, "10.77.%u.1", &host) != 1)
		return;
	sim_require(host < group->n_ranks && group->rank[host].silenced,
		    "%s: %s: blames a rank that was only slow: %s", w->rank->process.name, what,
		    w->error);
}

/* Checks that the text of an error names something that has happened. A rank that was silent is
 * blamed on every rank with "has not answered", on the silent rank as well. After SIGTERM to the
 * daemon, the error names the switch, or a rank that left because of it. If a port was lost, the
 * error of a new communicator names the port, or the switch if its daemon could not start without
 * that port. */
static void check_story(const struct work *w, const char *what)
{
	const struct cluster_group *group = w->rank->group;

	if (group->killed || !w->rank->formed || memory_has_failed(group) ||
	    control_plane_disturbed())
		return;
	sim_require((group->died_at_ns && strstr(w->error, "has not answered")) ||
			    (cluster.terminated_at_ns && (strstr(w->error, "switch s0") ||
							  strstr(w->error, "left the group"))) ||
			    (cluster.port.goes && strstr(w->error, "its interface is gone")) ||
			    (cluster.sw.lacked_port && strstr(w->error, "switch s0")),
		    "%s: %s: nothing has happened that would explain: %s", w->rank->process.name,
		    what, w->error);
}

/* How long the rank's call has lasted, without the time in which the rank stood still. */
static uint64_t awake_ns(const struct cluster_rank *rank)
{
	return sim_now_ns() - rank->called_at_ns -
	       cluster_still_ns(&rank->process, rank->called_at_ns);
}

static int ended(struct work *w, const char *what, int ret)
{
	struct cluster_rank *rank = w->rank;
	const struct cluster_group *group = rank->group;
	const uint64_t took_ns = awake_ns(rank);

	sim_note(rank->process.name, "is through with it:", -ret, 0, 0);
	sim_require(took_ns < CALL_NS, "%s: %s took %llu s", rank->process.name, what,
		    (unsigned long long)(took_ns / INC_NSEC_PER_SEC));
	sim_require(!ret || has_reason(w), "%s: %s: %s (%s), and nothing has happened to the group",
		    rank->process.name, what, strerror(-ret), w->error);
	sim_require(!ret || cluster.controller_dies ||
			    (cluster.daemon_dies && !cluster.port.unseen) ||
			    memory_has_failed(group) || !rank->formed ||
			    sim_now_ns() < reason_at_ns(rank) + within_ns(),
		    "%s: %s has failed long after the cause: %s", rank->process.name, what,
		    strerror(-ret));
	if (ret) {
		check_blame(w, what);
		check_story(w, what);
	}
	rank->called_at_ns = 0;
	cluster_figures.failed += !!ret;
	return ret;
}

void cluster_rank_overdue(const struct cluster_rank *rank)
{
	sim_require(!rank->called_at_ns || rank->process.dead || awake_ns(rank) < CALL_NS,
		    "%s: a call does not end", rank->process.name);
}

/* --- an AllReduce, its data and its check --- */

/* Fills in the data that this rank of the job contributes to a call. */
static void fill(const struct work *w, unsigned int rank, uint32_t call, uint8_t *at, size_t size)
{
	struct rng rng = {.state = rng_mix(sim_seed() ^ w->group->number, call << 8 | rank)};
	size_t i;

	for (i = 0; i < size; i++)
		at[i] = rng_below(&rng, 256);
}

static int call(struct work *w, struct inccl_communicator *comm, uint32_t number)
{
	static const enum inccl_dtype dtypes[] = {INCCL_INT32, INCCL_UINT32, INCCL_INT16,
						  INCCL_UINT8};
	struct rng rng = {.state = rng_mix(sim_seed() + w->group->number, number)};
	const enum inccl_dtype dtype = dtypes[rng_below(&rng, 4)];
	const enum inccl_op op = rng_below(&rng, INCCL_XOR + 1);
	const uint32_t desc = INC_DESC(INC_COLL_ALLREDUCE, op, dtype, 0, 0);
	const size_t element = ref_element_bytes(desc);
	const size_t count = 1 + rng_below(&rng, BYTES_MOST / element);
	const size_t size = count * element;
	bool first = true;
	unsigned int r;
	int ret;

	fill(w, w->rank->number, number, w->send, size);
	memset(w->recv, 0xa5, size);
	begins(w->rank, "calls AllReduce");
	ret = inccl_allreduce(comm, w->send, w->recv, count, dtype, op, NULL);
	w->all_have_it = __builtin_popcount(w->made->created[number / CLUSTER_CALLS_MOST]) ==
			 inccl_group_size(w->group);
	if (ret)
		snprintf(w->error, sizeof(w->error), "%s", inccl_communicator_error(comm) ?: "");
	ended(w, "AllReduce", ret);
	w->all_have_it = false;
	if (ret)
		return ret;
	sim_require(__builtin_popcount(w->made->members) == inccl_group_size(w->group),
		    "%s: a result of %d ranks, and the group has %d", w->rank->process.name,
		    __builtin_popcount(w->made->members), inccl_group_size(w->group));
	for (r = 0; r < CLUSTER_HOSTS_MOST; r++) {
		if (!(w->made->members >> r & 1))
			continue;
		fill(w, r, number, first ? w->expected : w->other, size);
		if (!first)
			ref_operate(desc, false, w->expected, w->other, size);
		first = false;
	}
	sim_require(!memcmp(w->recv, w->expected, size), "%s: a result is wrong",
		    w->rank->process.name);
	return 0;
}

/* Creates a communicator, makes calls on it, and destroys it. */
static int round_of(struct work *w, unsigned int number)
{
	const struct cluster_group *group = w->rank->group;
	struct inccl_communicator_opts opts = group->opts;
	struct inccl_communicator *comm;
	unsigned int i;
	int ret, end;

	opts.error = w->error;
	opts.error_size = sizeof(w->error);
	begins(w->rank, "makes a communicator");
	ret = ended(w, "the communicator", inccl_communicator_create(w->group, &opts, &comm));
	if (ret)
		return ret;
	w->made->created[number] |= 1u << w->rank->number;
	for (i = 0; !ret && i < group->calls; i++) {
		if (sim_chance(200))
			think(sim_between(0, 20 * INC_NSEC_PER_MSEC));
		ret = call(w, comm, number * CLUSTER_CALLS_MOST + i);
	}
	begins(w->rank, "destroys its communicator");
	end = ended(w, "the communicator's end", inccl_communicator_destroy(comm));
	return ret ?: end;
}

static int compute(struct work *w)
{
	unsigned int i;
	int ret = 0;

	for (i = 0; !ret && i < w->rank->group->rounds; i++)
		ret = round_of(w, i);
	return ret;
}

/* --- groups --- */

static int join(struct work *w)
{
	const struct cluster_rank *rank = w->rank;
	const struct in_addr addr = {rank->process.addr};
	char address[INET_ADDRSTRLEN];
	int ret;
	INCCL_OPTS(inccl_group_opts, opts, .job = rank->group->job,
		   .controller = CLUSTER_CONTROLLER, .rank = rank->number,
		   .world_size = rank->group->n_ranks, .address = address, .error = w->error,
		   .error_size = sizeof(w->error), .log = on_log, .log_ctx = w->rank);

	inet_ntop(AF_INET, &addr, address, sizeof(address));
	begins(w->rank, "joins its group");
	w->connects = true;
	ret = ended(w, "the group", inccl_group_create(&opts, &w->group));
	w->connects = false;
	return ret;
}

static void leave(struct work *w, struct inccl_group *group)
{
	begins(w->rank, "leaves its group");
	sim_require(!ended(w, "the group's end", inccl_group_destroy(group)),
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

/* The remaining ranks shrink their group each time that they lose a rank. */
static int shrink(struct work *w)
{
	INCCL_OPTS(inccl_group_opts, opts, .error = w->error, .error_size = sizeof(w->error));
	struct inccl_group *old = w->group;
	int ret;

	if (cluster.port.goes)
		think(2 * INC_NSEC_PER_SEC); /* meanwhile the port may return */
	begins(w->rank, "shrinks its group");
	w->connects = true;
	ret = ended(w, "the shrink", inccl_group_shrink(old, &opts, &w->group));
	w->connects = false;
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

	memset(w, 0, sizeof(*w));
	w->rank = rank;
	if (!join(w)) {
		rank->formed = true;
		come_into(w);
		ret = compute(w);
		/* after SIGTERM the switch is absent for up to 40 s, so a shrink could fail again
		 */
		while (ret && rank->group->died_at_ns && !cluster.terminated_at_ns &&
		       !(ret = shrink(w)))
			ret = compute(w);
		if (w->group)
			leave(w, w->group);
	}
	n = memory_pieces(&rank->process, &size);
	sim_require(!n, "%s: %zu pieces of memory are left, the first of %zu bytes",
		    rank->process.name, n, size);
	n = task_fds_of(&rank->process);
	sim_require(!n, "%s: %zu descriptors are left", rank->process.name, n);
	rank->through = true;
	sim_note(rank->process.name, "has ended", 0, 0, 0);
}
