// SPDX-License-Identifier: BSD-2-Clause
/* The checks of a rank's calls: none hangs, and none fails without a reason. */
#include <stdio.h>
#include <string.h>
#include "cluster.h"
#include "lib/channel/verbs_priv.h"
#include "process.h"
#include "sim.h"
#include "userspace/call.h"
#include "userspace/engine.h"

/* After the death of a rank, and after the daemon's SIGTERM, each affected call must fail within
 * this time. It is the timeout of members or of switches, plus 2 s for the messages. */
#define DEATH_NS       ((CLUSTER_MEMBER_TIMEOUT_MS + 2000) * INC_NSEC_PER_MSEC)
#define TERMINATION_NS ((CLUSTER_SWITCH_TIMEOUT_MS + 2000) * INC_NSEC_PER_MSEC)
/* A switch that stands still for so long may be reported as unresponsive. Faults and timers account
 * for the rest of the limit. */
#define GUILTY_NS ((INC_UNRESPONSIVE_S - 3) * INC_NSEC_PER_SEC)
/* A collective fails if it makes no progress for this time, unless the group names another time
 * (inccl.h, timeout_ms). */
#define PROGRESS_NS (30 * INC_NSEC_PER_SEC)
/* Because of faults and timers, ranks may miss a process for longer than it stood still, by at most
 * this time. */
#define LAGS_MOST_NS (3 * INC_NSEC_PER_SEC)
/* A device gives a connection up after 3.8 s without an ACK (docs/verbs.md), and after 2 s without
 * its port. Faults and timers account for the rest of these limits. */
#define DEVICE_TRIES_NS (3300 * INC_NSEC_PER_MSEC)
#define DEVICE_PORT_NS  (1800 * INC_NSEC_PER_MSEC)
#define WOKEN_NS        (100 * INC_NSEC_PER_MSEC)
/* Without standstills a collective moves for less than this time. */
#define MOVES_MOST_NS (20 * INC_NSEC_PER_SEC)
/* No call may last longer than this, including a creation with its 70 s. Time in which the rank
 * itself stands still does not count. */
#define CALL_NS (80 * INC_NSEC_PER_SEC)

void cluster_call_begins(struct cluster_rank *rank, const char *what)
{
	rank->called_at_ns = sim_now_ns();
	rank->error[0] = '\0';
	rank->failed_at_ns = 0;
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
	return failed && (failed == &controller.process || cluster_switch_of(failed));
}

/* How long the group's collectives wait for progress. */
static uint64_t progress_ns(const struct cluster_group *group)
{
	return group->opts.timeout_ms ? group->opts.timeout_ms * INC_NSEC_PER_MSEC : PROGRESS_NS;
}

/* Does a daemon stand still, or is a port away, for about as long in all as a collective waits for
 * progress? A lost result must be retransmitted by the daemon. After the loss of a port nothing
 * moves until the daemon observes the port's return. */
static bool needs_daemon_for_long(const struct cluster_group *group)
{
	const uint64_t ns = cluster.daemon_stalls_ms * INC_NSEC_PER_MSEC +
			    (cluster.port.goes ? cluster.port.away_ns : 0);

	return ns && ns + LAGS_MOST_NS >= progress_ns(group);
}

/* How long the other ranks of the group, and the switches, have stood still in all. */
static uint64_t others_stood_ns(const struct cluster_rank *rank)
{
	uint64_t sum_ns = 0;
	unsigned int i;

	for (i = 0; i < rank->group->n_ranks; i++)
		if (i != rank->number)
			sum_ns += rank->group->rank[i].process.stood_ns;
	for (i = 0; i < cluster.n_switches; i++)
		sum_ns += cluster.sw[i].process.stood_ns;
	return sum_ns;
}

/* Has a rank of a patient group stood still for so long that others give up, or that a switch
 * reports it? */
static bool was_missed(const struct cluster_rank *rank)
{
	const struct cluster_group *group = rank->group;
	const uint64_t limit_ns = CLUSTER_GROUP_TIMEOUT_MS * INC_NSEC_PER_MSEC;
	const uint64_t others_ns = others_stood_ns(rank) + LAGS_MOST_NS;
	unsigned int i;

	for (i = 0; i < group->n_ranks; i++)
		if (group->rank[i].process.stood_ns >= GUILTY_NS)
			return cluster.patient;
	return cluster.patient && (others_ns >= progress_ns(group) || others_ns >= limit_ns);
}

/* Does a daemon stand still, or is a port away, for so long in all that a switch may report a peer
 * as unresponsive? */
static bool may_be_blamed(void)
{
	const bool has_peers = cluster.n_switches > 1 || cluster.sw[0].mode == INC_TERMINATION;
	const uint64_t away_ns = cluster.port.goes ? cluster.port.away_ns : 0;

	return cluster.port.ends ||
	       (has_peers && cluster.daemon_stalls_ms &&
		cluster.daemon_stalls_ms * INC_NSEC_PER_MSEC + away_ns >= GUILTY_NS);
}

/* Has a switch stood still for so long that a rank's device has given the connection up? A switch
 * acknowledges in passthrough mode, and by its own devices, while its daemon stands still. But a
 * port that was away acknowledges only when the daemon has repaired it. */
static bool is_given_up(void)
{
	const struct cluster_switch *sw;
	bool needs_daemon;

	for (sw = cluster.sw; sw < cluster.sw + cluster.n_switches; sw++) {
		needs_daemon = (sw->mode == INC_TERMINATION && !sw->rdma) ||
			       (cluster.port.goes && cluster.port.sw == sw);
		if (needs_daemon && sw->process.stood_ns >= DEVICE_TRIES_NS)
			return cluster.rdma_hosts;
	}
	return false;
}

static bool has_devices(void)
{
	bool has = cluster.rdma_hosts;
	unsigned int i;

	for (i = 0; i < cluster.n_switches; i++)
		has |= cluster.sw[i].rdma;
	return has;
}

/* Is a port away for so long that RDMA devices end their connections? */
static bool device_lacks_port(void)
{
	return has_devices() && cluster.port.goes && cluster.port.away_ns >= DEVICE_PORT_NS;
}

/* Has something happened that ends the connections of an RDMA device, and none of a soft
 * endpoint? */
static bool device_has_reason(void)
{
	return cluster.rdma_broken || is_given_up() || device_lacks_port();
}

/* Has a switch a device at the port that is away, which its own timer ends before the peer's device
 * gives up? */
static bool device_has_timer(void)
{
	const struct cluster_switch *sw = cluster.port.sw;
	const struct host *peer = sw ? sw->port[cluster.port.number].peer_host : NULL;

	return peer && peer->rdma && sw->rdma && !sw->process.stood_ns && !cluster.slowed;
}

/* Does the text of an error name what has happened to an RDMA device? */
static bool device_has_story(const char *error)
{
	const bool silence = strstr(error, "transport retry counter exceeded");

	return (is_given_up() && silence) ||
	       (device_lacks_port() &&
		((silence && !device_has_timer()) || strstr(error, "port down for") ||
		 strstr(error, "left the group"))) ||
	       (has_devices() && cluster.port.goes &&
		(strstr(error, "port is down") || strstr(error, "UDP port 4791 is in use"))) ||
	       (cluster.rdma_silent && (silence || strstr(error, "device is gone"))) ||
	       (cluster.rdma_broken &&
		(strstr(error, "local catastrophic error") || strstr(error, "cannot be opened") ||
		 strstr(error, "no RoCE v2 GID") || strstr(error, "left the group") ||
		 strstr(error, "Input/output error") || strstr(error, "UDP port 4791 is in use") ||
		 strstr(error, "is gone") || strstr(error, "no RDMA device")));
}

/* Is there a reason for which the rank's call may fail? The death of the controller or of a daemon
 * in passthrough mode, a standstill of a daemon and a lost port may fail only calls that create or
 * destroy something. SIGTERM to a daemon fails its collectives, and so does the
 * death of a daemon in termination mode. So do a port whose return no daemon observed, and a daemon
 * that stands still for too long. A standstill of the controller may fail a call that connects,
 * if there are keys, and no other. */
static bool has_reason(const struct cluster_rank *rank)
{
	/* with keys, a call that connects needs the controller for the TLS handshake, which has a
	 * limit of 5 s */
	if (cluster.tls && cluster.controller_stalls && rank->connects)
		return true;
	return rank->group->died_at_ns || memory_has_failed(rank->group) ||
	       cluster.terminated_at_ns || cluster.port.unseen || cluster.struck ||
	       needs_daemon_for_long(rank->group) || was_missed(rank) || may_be_blamed() ||
	       device_has_reason() ||
	       ((cluster.controller_dies || cluster.daemon_dies || cluster.daemon_stalls ||
		 cluster.port.goes) &&
		!rank->all_have_it);
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
	if (cluster.port.ends && at_ns < cluster.port.lost_at_ns)
		at_ns = cluster.port.lost_at_ns;
	if (cluster.port.ends && at_ns < cluster.port.sw->ready_at_ns)
		at_ns = cluster.port.sw->ready_at_ns;
	if (cluster.port.unseen && at_ns < cluster.port.back_at_ns)
		at_ns = cluster.port.back_at_ns;
	if (cluster.port.unseen && at_ns < cluster.port.sw->ready_at_ns)
		at_ns = cluster.port.sw->ready_at_ns;
	/* a process that stands still receives and reports nothing before it goes on */
	if (at_ns < cluster_resumed_at_ns())
		at_ns = cluster_resumed_at_ns();
	return at_ns;
}

static bool stands_still(const struct process *process)
{
	return sim_now_ns() < process->paused_until_ns;
}

static bool a_daemon_stands_still(void)
{
	unsigned int i;

	for (i = 0; i < cluster.n_switches; i++)
		if (stands_still(&cluster.sw[i].process))
			return true;
	return stands_still(&controller.process);
}

static bool lacked_port(void)
{
	unsigned int i;

	for (i = 0; i < cluster.n_switches; i++)
		if (cluster.sw[i].lacked_port)
			return true;
	return false;
}

/* The time within which a call of the group must fail after its cause. */
static uint64_t within_ns(const struct cluster_group *group)
{
	uint64_t ns = cluster.terminated_at_ns || cluster.n_pauses || cluster.port.goes
			      ? TERMINATION_NS
			      : DEATH_NS;

	if (cluster.port.ends)
		ns += INC_PORT_LOST_S * INC_NSEC_PER_SEC;
	/* a switch looks only now and then for a device that fails without an event */
	if (cluster.rdma_silent)
		ns += VERBS_LOOK_NS;
	/* If the cause of a failure cannot be reported, the rank's own limit ends its collective.
	 * That is so while the controller or the daemon stands still. It is also so if the daemon
	 * ends right after a standstill, because the controller has closed the connection by which
	 * the daemon would report its end. If one of two communicators has failed, a rank may wait
	 * on the other one for calls that the other ranks do not make. */
	return a_daemon_stands_still() || (cluster.terminated_at_ns && cluster.daemon_stalls) ||
			       group->comms > 1
		       ? ns + PROGRESS_NS
		       : ns;
}

/* Has a rank stood still for so long that another one's limit has ended its collective, while the
 * controller stood still as well and lost no member? Then one may shrink the group, while the other
 * one makes its next communicator, and the controller waits for both. */
static bool is_out_of_step(const struct cluster_group *group)
{
	unsigned int i;

	for (i = 0; i < group->n_ranks; i++)
		if (group->rank[i].process.stood_ns + LAGS_MOST_NS >= progress_ns(group))
			return cluster.controller_stalls;
	return false;
}

/* Where the controller waits for a rank that stands still or has gone, the other ranks' limits end
 * their calls.
 * The limits of a creation, and of a group, are about as long as that of the controller. */
static uint64_t missed_ns(const struct cluster_rank *rank)
{
	const uint64_t limit_ns = CLUSTER_GROUP_TIMEOUT_MS * INC_NSEC_PER_MSEC;

	if (!was_missed(rank) && !(cluster.patient && cluster.vanished) &&
	    !is_out_of_step(rank->group))
		return 0;
	return progress_ns(rank->group) < limit_ns ? limit_ns : progress_ns(rank->group);
}

/* A process that stood still must not blame a peer for messages that the process itself missed.
 * Only a rank that was silent or has died may be reported as silent. */
static void check_blame(const struct cluster_rank *rank, const char *what)
{
	const struct cluster_group *group = rank->group;
	const char *said = strstr(rank->error, " has not answered for");
	const char *addr = said ? strstr(rank->error, "10.77.") : NULL;
	unsigned int host;

	if (!addr || addr > said || sscanf(addr, "10.77.%u.1", &host) != 1)
		return;
	sim_require(host < group->n_ranks && group->rank[host].silenced,
		    "%s: %s: blames a rank that was only slow: %s", rank->process.name, what,
		    rank->error);
}

/* Finds the process that a switch has reported as unresponsive in this text: a switch by its name,
 * or else a rank. Returns NULL if the group has shrunk, because its ranks have other numbers
 * then. */
static const struct process *unresponsive_in(const struct cluster_group *group, const char *said,
					     const char *text)
{
	const char *name = strstr(said, "switch s"), *who = NULL, *at;
	unsigned int number;

	if (name && sscanf(name, "switch s%u", &number) == 1 && number < cluster.n_switches)
		return &cluster.sw[number].process;
	for (at = strstr(text, "rank "); at && at < said; at = strstr(at + 1, "rank "))
		who = at;
	if (!who || sscanf(who, "rank %u", &number) != 1 || group->died_at_ns)
		return NULL;
	return number < group->n_ranks ? &group->rank[number].process : NULL;
}

/* A switch may report only those as unresponsive that have stood still for long, or whose daemon
 * has ended. It may report any peer if a port was away for long, or if an RDMA device has a
 * reason. */
static void check_silence(const struct cluster_rank *rank, const char *what)
{
	const char *said = strstr(rank->error, " has not acknowledged");
	const struct process *process =
		said ? unresponsive_in(rank->group, said, rank->error) : NULL;
	const struct cluster_switch *sw = process ? cluster_switch_of(process) : NULL;

	if (!process || (sw && sw->ends) || cluster.port.unseen ||
	    (cluster.port.goes && may_be_blamed()) || device_has_story(rank->error))
		return;
	sim_require(process->stood_ns >= GUILTY_NS, "%s: %s: blames a peer that was only slow: %s",
		    rank->process.name, what, rank->error);
}

/* A rank must not hold its own standstill against the switch. The error of another rank begins with
 * that rank, and is checked there. After a rank's standstill the others may have given up, so the
 * rank's own limit counts from then on. */
static void check_own(const struct cluster_rank *rank, const char *what)
{
	const struct cluster_group *group = rank->group;
	const uint64_t resumed_at_ns = rank->process.paused_until_ns;

	if (!strstr(rank->error, "nothing has moved") || !strncmp(rank->error, "rank ", 5) ||
	    group->died_at_ns || group->comms > 1 || cluster.daemon_dies ||
	    cluster.terminated_at_ns || cluster.port.goes || cluster.controller_dies ||
	    memory_has_failed(group) || needs_daemon_for_long(group) || !resumed_at_ns)
		return;
	sim_require(others_stood_ns(rank) + LAGS_MOST_NS >= progress_ns(group) ||
			    sim_now_ns() + LAGS_MOST_NS >= resumed_at_ns + progress_ns(group),
		    "%s: %s: only this rank has stood still: %s", rank->process.name, what,
		    rank->error);
}

/* A rank that waits for a result is woken when its communicator fails, and does not look for that
 * now and then. */
static void check_awakening(const struct cluster_rank *rank, const char *what)
{
	uint64_t at_ns = rank->failed_at_ns;

	if (at_ns < rank->process.paused_until_ns)
		at_ns = rank->process.paused_until_ns;
	sim_require(!rank->failed_at_ns || !rank->collects || rank->group->comms > 1 ||
			    sim_now_ns() < at_ns + WOKEN_NS,
		    "%s: %s ends %llu ms after its communicator has failed", rank->process.name,
		    what, (unsigned long long)((sim_now_ns() - at_ns) / INC_NSEC_PER_MSEC));
}

/* Checks that the text of an error names something that has happened. A rank that was silent is
 * blamed on every rank with "has not answered", on the silent rank as well. After SIGTERM to the
 * daemon, the error names the switch, or a rank that left because of it. If a port was lost, the
 * error of a new communicator names the port, or the switch if its daemon could not start without
 * that port. */
static void check_story(const struct cluster_rank *rank, const char *what)
{
	const struct cluster_group *group = rank->group;

	/* a communicator may fail in its end, of which there is no text */
	if (!rank->error[0] || group->killed || !rank->formed || memory_has_failed(group) ||
	    control_plane_disturbed() || was_missed(rank))
		return;
	sim_require(device_has_story(rank->error) ||
			    (group->died_at_ns && strstr(rank->error, "has not answered")) ||
			    (cluster.terminated_at_ns && (strstr(rank->error, "switch s") ||
							  strstr(rank->error, "left the group"))) ||
			    (cluster.port.goes && (strstr(rank->error, "its interface is gone") ||
						   strstr(rank->error, "is down (ip link set") ||
						   strstr(rank->error, "does not exist here") ||
						   /* a hello lacked the port, so the switch
						    * connects again */
						   strstr(rank->error, "connection lost") ||
						   strstr(rank->error, "has no endpoint"))) ||
			    (cluster.port.ends && (strstr(rank->error, "is down") ||
						   strstr(rank->error, "left the group") ||
						   strstr(rank->error, "has not acknowledged"))) ||
			    (lacked_port() && strstr(rank->error, "switch s")) ||
			    ((group->comms > 1 || needs_daemon_for_long(group)) &&
			     strstr(rank->error, "nothing has moved")),
		    "%s: %s: nothing has happened that would explain: %s", rank->process.name, what,
		    rank->error);
}

/* The time that the rank's current call may last at most. A collective ends by the rank's own limit
 * when nothing moves. A patient controller notices late that a host has gone, which matters if the
 * rank's own limit is long. */
static uint64_t most_ns(const struct cluster_rank *rank)
{
	const uint64_t own_ns = progress_ns(rank->group);
	uint64_t most_ns = CALL_NS, idle_ns;

	if (cluster.patient && cluster.vanished && own_ns > PROGRESS_NS)
		most_ns += CLUSTER_MEMBER_PATIENCE_MS * INC_NSEC_PER_MSEC;
	if (!rank->collects)
		return most_ns;
	idle_ns = own_ns + MOVES_MOST_NS + others_stood_ns(rank) + cluster.down_ns +
		  (cluster.port.goes ? cluster.port.away_ns : 0);
	return idle_ns < most_ns ? idle_ns : most_ns;
}

/* Has the rank waited for another one, which has given the communicator before up? A rank whose
 * result is lost gives up after its own limit if the daemon does not retransmit. The others may
 * have finished that communicator, and wait for the rank to create the next one. That has a limit
 * of its own. */
static bool waits_for_one_that_gave_up(const struct cluster_rank *rank)
{
	return strstr(rank->error, "did not ask for communicator") &&
	       needs_daemon_for_long(rank->group);
}

/* How long the rank's call has lasted, without the time in which the rank stood still. */
static uint64_t awake_ns(const struct cluster_rank *rank)
{
	return sim_now_ns() - rank->called_at_ns -
	       cluster_still_ns(&rank->process, rank->called_at_ns);
}

int cluster_call_ended(struct cluster_rank *rank, const char *what, int ret)
{
	const struct cluster_group *group = rank->group;
	const uint64_t took_ns = awake_ns(rank);

	sim_note(rank->process.name, "is through with it:", -ret, 0, 0);
	sim_require(took_ns < most_ns(rank), "%s: %s took %llu s", rank->process.name, what,
		    (unsigned long long)(took_ns / INC_NSEC_PER_SEC));
	sim_require(!ret || has_reason(rank),
		    "%s: %s: %s (%s), and nothing has happened to the group", rank->process.name,
		    what, strerror(-ret), rank->error);
	sim_require(!ret || cluster.controller_dies ||
			    (cluster.daemon_dies && !cluster.port.unseen) ||
			    memory_has_failed(group) || !rank->formed ||
			    waits_for_one_that_gave_up(rank) ||
			    sim_now_ns() < reason_at_ns(rank) + within_ns(group) + missed_ns(rank),
		    "%s: %s has failed long after the cause: %s", rank->process.name, what,
		    strerror(-ret));
	if (ret) {
		check_blame(rank, what);
		check_silence(rank, what);
		check_own(rank, what);
		check_awakening(rank, what);
		check_story(rank, what);
	}
	rank->called_at_ns = 0;
	cluster_figures.failed += !!ret;
	return ret;
}

void cluster_rank_overdue(const struct cluster_rank *rank)
{
	sim_require(!rank->called_at_ns || rank->process.dead || awake_ns(rank) < most_ns(rank),
		    "%s: a call does not end", rank->process.name);
}
