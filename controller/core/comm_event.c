/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Failures that switches report (events), and the peers that switches wait for. A switch names a
 * host by the rank on it, and a switch below by the lowest rank behind that switch. An event
 * without a rank is about the switch's parent or about a port of the switch.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "controller/core/comm.h"
#include "controller/core/comm_config.h"
#include "controller/core/comm_event.h"
#include "controller/core/core.h"
#include "controller/core/group.h"
#include "controller/core/orphan.h"
#include "controller/core/switch.h"
#include "lib/base/log.h"

/* Whether the rank's host is attached to the switch. The answer is also true if the controller does
 * not know the host yet. */
static bool is_own(const struct inc_comm *comm, const struct inc_core_switch *sw, unsigned int rank)
{
	const struct inc_comm_member *m = &comm->members[rank];

	return !m->asked || sw->core->topo->hosts[m->route.host].sw == sw->index;
}

struct inc_peer inc_comm_peer(const struct inc_comm *comm, const struct inc_core_switch *sw,
			      int rank)
{
	const int node = comm->tree ? inc_tree_find(comm->tree, sw->index) : -1;
	const int parent = node < 0 ? -1 : comm->tree->nodes[node].parent;
	const struct inc_topo_switch *switches = sw->core->topo->switches;
	struct inc_peer peer = {.rank = -1, .node = -1};
	const struct inc_tree_child *child;

	if (rank < 0) {
		peer.sw = parent < 0 ? NULL : switches[comm->tree->nodes[parent].sw].name;
		return peer;
	}
	child = node < 0 ? NULL : inc_tree_child_of(comm->tree, node, rank);
	if (child && child->to_switch) {
		peer.node = child->node;
		peer.sw = switches[comm->tree->nodes[peer.node].sw].name;
		inc_tree_ranks(comm->tree, peer.node, &peer.below);
	} else if (child || is_own(comm, sw, rank)) {
		peer.rank = rank;
		if (child)
			inc_tree_child_ranks(comm->tree, child, &peer.below);
	}
	return peer;
}

/* Prints "switch s2 (ranks 4-7)", or "" if the peer is unknown */
static void print_peer(const struct inc_peer *peer, char *buf, size_t size)
{
	char ranks[200];

	*buf = '\0';
	if (!peer->sw)
		return;
	if (peer->node < 0) {
		snprintf(buf, size, "switch %s", peer->sw);
		return;
	}
	inc_ranks_print(&peer->below, ranks, sizeof(ranks));
	snprintf(buf, size, "switch %s (%s %s)", peer->sw,
		 inc_ranks_count(&peer->below) > 1 ? "ranks" : "rank", ranks);
}

/* Whether all of these ranks have destroyed the communicator. */
static bool all_destroyed(const struct inc_comm *comm, const struct inc_ranks *ranks)
{
	unsigned int rank = inc_ranks_next(ranks, 0);

	for (; rank < comm->group->world_size; rank = inc_ranks_next(ranks, rank + 1)) {
		if (!comm->members[rank].destroyed)
			return false;
	}
	return true;
}

/* Whether the peer has destroyed the communicator, so that it need not acknowledge anything any
 * more. A peer switch has done so if all ranks below it have. */
static bool is_through(const struct inc_comm *comm, const struct inc_peer *peer)
{
	return peer->rank >= 0 ? comm->members[peer->rank].destroyed
			       : peer->node >= 0 && all_destroyed(comm, &peer->below);
}

static void fail(struct inc_comm *comm, const struct inc_core_switch *sw,
		 const struct inc_peer *peer, int code, const char *text)
{
	char who[300];

	print_peer(peer, who, sizeof(who));
	inc_comm_fail(comm, peer->rank, code, "switch %s: %s%s%s", inc_switch_name(sw), text,
		      *who ? ": " : "", who);
}

/* Returns the rank because of which the peer will never contribute, or -1 if there is none. It is
 * the peer's own rank, if that has destroyed the communicator. It can also be a rank that the peer
 * leads and that has not come back. */
static int who_is_gone(const struct inc_comm *comm, const struct inc_peer *peer)
{
	const struct inc_group *group = comm->group;
	unsigned int rank = inc_ranks_next(&peer->below, 0);

	if (peer->rank < 0)
		return -1;
	if (comm->members[peer->rank].destroyed)
		return peer->rank;
	for (; rank < group->world_size; rank = inc_ranks_next(&peer->below, rank + 1)) {
		if (!group->members[rank].present && !inc_group_awaits(group, rank))
			return rank;
	}
	return -1;
}

static void check_waiting(struct inc_core_switch *sw, struct inc_comm *comm)
{
	int ret = inc_act_ask_waiting(sw, comm->number);

	comm->in_doubt = true;
	if (ret)
		inc_warn("switch %s cannot be asked what communicator %u waits for: %s",
			 inc_switch_name(sw), comm->number, strerror(-ret));
}

void inc_comms_ask_waiting(struct inc_core_switch *sw)
{
	struct inc_group *group;
	struct inc_comm *comm;

	LIST_FOREACH (group, &sw->core->groups, entry) {
		LIST_FOREACH (comm, &group->comms, entry) {
			if (comm->in_doubt && comm->phase == COMM_STARTED &&
			    inc_comm_keeps(comm, sw))
				check_waiting(sw, comm);
		}
	}
}

bool inc_comm_check_missing(struct inc_comm *comm)
{
	const struct inc_group *group = comm->group;
	bool misses = false;

	if (comm->phase != COMM_STARTED)
		return false;
	for (unsigned int rank = 0; rank < group->world_size; rank++) {
		if (group->members[rank].present)
			continue;
		comm->members[rank].destroyed = true;
		misses = true;
	}
	for (unsigned int n = 0; misses && n < comm->tree->n; n++) {
		struct inc_core_switch *sw = group->core->switches[comm->tree->nodes[n].sw];

		if (sw->connected && inc_comm_keeps(comm, sw))
			check_waiting(sw, comm);
	}
	return misses;
}

void inc_comm_retry_waiting(struct inc_core_switch *sw, uint32_t number)
{
	struct inc_comm *comm = inc_comm_find(sw->core, number);

	if (comm && comm->phase == COMM_STARTED)
		check_waiting(sw, comm);
}

bool inc_comm_handle_waiting(struct inc_core_switch *sw, const struct inc_msg_waiting *said)
{
	struct inc_comm *comm = inc_comm_find(sw->core, said->communicator);
	char chunk[32] = "", who[300];

	if (!comm || comm->phase != COMM_STARTED)
		return true;
	if (said->has_chunk)
		snprintf(chunk, sizeof(chunk), "chunk %llu ", (unsigned long long)said->chunk);
	for (uint32_t i = 0; i < said->n_missing; i++) {
		const struct inc_msg_missing *m = &said->missing[i];
		struct inc_peer peer;
		int gone;

		if (!m->has_rank || m->up || m->rank >= comm->group->world_size)
			continue;
		peer = inc_comm_peer(comm, sw, m->rank);
		gone = who_is_gone(comm, &peer);
		if (gone < 0 && !is_through(comm, &peer)) {
			/* A switch below knows which of its ranks is missing, so it is asked for
			 * which ranks it waits, too. */
			if (peer.node >= 0)
				check_waiting(sw->core->switches[comm->tree->nodes[peer.node].sw],
					      comm);
			continue;
		}
		print_peer(&peer, who, sizeof(who));
		inc_comm_fail(comm, gone, ETIMEDOUT, "switch %s: %swaits for %s, which has %s",
			      inc_switch_name(sw), chunk,
			      *who ? who : inc_member_name(&comm->group->members[gone]),
			      gone == peer.rank ? "destroyed the communicator" : "not come back");
		return true;
	}
	return false;
}

/* Acts on a switch's report that a peer has failed, when the controller knows whether that peer had
 * already left the communicator. */
static void apply_report(struct inc_comm *comm, struct inc_core_switch *sw,
			 const struct inc_failure_report *r)
{
	const struct inc_peer none = {.rank = -1, .node = -1};
	const struct inc_peer peer = r->is_own ? none : inc_comm_peer(comm, sw, r->rank);

	if (r->code != EREMOTEIO && is_through(comm, &peer))
		/* The peer had left, so the communicator goes on unless other ranks still wait for
		 * the peer. A mismatch of collectives (EREMOTEIO) always fails the communicator. */
		check_waiting(sw, comm);
	else
		fail(comm, sw, &peer, r->code, r->text);
}

void inc_comm_apply_reports(struct inc_comm *comm)
{
	struct inc_failure_report *r = LIST_FIRST(&comm->failure_reports), *next;
	struct inc_group *group = comm->group;

	for (; r && comm->phase == COMM_STARTED; r = next) {
		const bool is_rank = r->rank < (int)group->world_size;

		next = LIST_NEXT(r, entry);
		if (is_rank && inc_group_awaits(group, r->rank))
			continue;
		if (is_rank && !group->members[r->rank].present)
			comm->members[r->rank].destroyed = true;
		if (is_rank)
			apply_report(comm, group->core->switches[r->by->index], r);
		inc_failure_report_remove(r);
	}
}

/* Keeps a switch's failure report if the controller does not know yet whether the rank had left
 * before it fell silent. Returns true if the report needs no more attention now. */
static bool defer_report(struct inc_core_switch *sw, struct inc_comm *comm, uint32_t number,
			 const struct inc_failure_report *report)
{
	if (inc_orphan_fail(sw, number, report))
		return true;
	return comm && report->rank >= 0 && comm->phase == COMM_STARTED &&
	       inc_tree_find(comm->tree, sw->index) >= 0 &&
	       inc_group_awaits(comm->group, report->rank) &&
	       inc_failure_report_add(&comm->failure_reports, report);
}

void inc_comm_wait_for_reason(struct inc_comm *comm, const struct inc_core_switch *sw)
{
	if (comm->ended)
		return;
	comm->ended = sw;
	/* A communicator that has not started has other time limits. The limit for the reason of
	 * its end begins when it starts (inc_comm_set_phase()). */
	if (comm->phase == COMM_STARTED)
		inc_core_timer_arm(&comm->timer, sw->core->opt.switch_timeout_ms);
}

/* Finds the communicator of this number. Returns NULL if it does not exist, has failed, or is not
 * on this switch. */
static struct inc_comm *find_running(struct inc_core_switch *sw, uint32_t number)
{
	struct inc_comm *comm = inc_comm_find(sw->core, number);

	return comm && comm->phase != COMM_FAILED && inc_comm_keeps(comm, sw) ? comm : NULL;
}

/* Handles a switch's report that a neighbour has ended the communicator. */
static void take_end(struct inc_core_switch *sw, uint32_t number)
{
	struct inc_comm *comm = find_running(sw, number);

	if (comm)
		inc_comm_wait_for_reason(comm, sw);
	else
		inc_orphan_ended(sw, number);
}

/* Logs a switch's event about one of its ports, and notes whether the port is down. If a
 * communicator ends with the port, another event reports that. */
static void report_port(struct inc_core_switch *sw, const struct inc_msg_event *said)
{
	const struct inc_event_info *info = &inc_event_info[said->kind];
	const int port =
		inc_topology_port_by_name(&sw->core->topo->switches[sw->index], said->port);
	const char *down = said->kind == INC_EVENT_KIND_PORT_LOST ? said->message : "";

	if (port >= 0)
		snprintf(sw->ports[port].down, sizeof(sw->ports[port].down), "%.159s", down);
	/* another topology is applied to the ports of the hello */
	for (uint32_t i = 0; i < sw->n_hello_ports; i++) {
		struct inc_msg_port *own = &sw->hello_ports[i];

		if (strcmp(own->name, said->port) == 0)
			snprintf(own->reason, sizeof(own->reason), "%.159s", down);
	}
	if (info->about == INC_EVENT_ABOUT_PORT)
		inc_warn("switch %s: %s: %s", inc_switch_name(sw), info->name, said->message);
	else
		inc_warn("switch %s: event %s ignored: communicator: 0 is none",
			 inc_switch_name(sw), info->name);
}

/* Sends a member all standing notices of the communicator. Without any the member learns that what
 * it received before is over. */
static void send_notice(const struct inc_comm *comm, unsigned int rank)
{
	struct inc_core_client *client = comm->group->members[rank].client;
	struct inc_msg_notice notice = {.communicator = comm->number};

	if (!client || !comm->members[rank].asked || comm->members[rank].destroyed)
		return;
	inc_standing_print(&comm->standings, notice.message, sizeof(notice.message));
	inc_act_send(client, INC_MSG_NOTICE, &notice);
}

void inc_comm_tell_notice(const struct inc_comm *comm, unsigned int rank)
{
	if (!LIST_EMPTY(&comm->standings))
		send_notice(comm, rank);
}

void inc_comm_set_notice(struct inc_comm *comm, const struct inc_core_switch *sw, const char *text)
{
	if (!inc_standing_set(&comm->standings, sw, text) ||
	    (comm->phase != COMM_CONFIGURED && comm->phase != COMM_STARTED))
		return;
	for (unsigned int rank = 0; rank < comm->group->world_size; rank++)
		send_notice(comm, rank);
}

void inc_comms_set_notices(struct inc_core_switch *sw, const struct inc_msg_notice *list,
			   uint32_t n)
{
	struct inc_group *group;
	struct inc_comm *comm;
	uint32_t i;

	for (i = 0; i < n; i++)
		inc_orphan_set_notice(sw, list[i].communicator, list[i].message);
	LIST_FOREACH (group, &sw->core->groups, entry) {
		LIST_FOREACH (comm, &group->comms, entry) {
			for (i = 0; i < n && list[i].communicator != comm->number; i++)
				;
			/* a switch speaks only for communicators that it has */
			if (comm->number)
				inc_comm_set_notice(
					comm, sw,
					i < n && inc_comm_keeps(comm, sw) ? list[i].message : "");
		}
	}
}

/* Stores what stands after a switch's notice about a communicator, which goes on. A switch of an
 * earlier version does not report what stands, so the notice's own text takes that place. */
static void take_notice(struct inc_core_switch *sw, const struct inc_msg_event *said)
{
	const bool is_over =
		said->kind == INC_EVENT_KIND_PORT_FIT || said->kind == INC_EVENT_KIND_DELIVERED;
	const char *stands = *said->stands || is_over ? said->stands : said->message;
	struct inc_comm *comm = find_running(sw, said->communicator);

	inc_orphan_set_notice(sw, said->communicator, stands);
	if (comm)
		inc_comm_set_notice(comm, sw, stands);
}

void inc_comm_event(struct inc_core_switch *sw, const struct inc_msg_event *said)
{
	const struct inc_event_info *info = &inc_event_info[said->kind];
	const char *text = *said->message ? said->message : info->name;
	struct inc_comm *comm = inc_comm_find(sw->core, said->communicator);
	struct inc_failure_report report = {
		.code = info->code,
		.rank = said->has_rank ? (int)said->rank : -1,
		.is_own = info->about != INC_EVENT_ABOUT_PEER,
		.stopped = said->kind == INC_EVENT_KIND_STOPPED,
		.by = sw,
	};
	const bool orphan = inc_orphan_is(sw, said->communicator);

	sw->core->events[said->kind]++;
	if (!said->communicator) {
		report_port(sw, said);
		return;
	}
	if (comm && report.rank >= (int)comm->group->world_size) {
		inc_warn("switch %s: event of communicator %u ignored: rank: %d is not below %u",
			 inc_switch_name(sw), said->communicator, report.rank,
			 comm->group->world_size);
		return;
	}
	inc_warn("switch %s: event %s, communicator %u: %s", inc_switch_name(sw), info->name,
		 said->communicator, said->message);
	if (said->kind == INC_EVENT_KIND_ENDED)
		take_end(sw, said->communicator);
	if (inc_event_is_notice(said->kind))
		take_notice(sw, said);
	if (!report.code)
		return;
	snprintf(report.text, sizeof(report.text), "%s", text);
	if (report.code == EREMOTEIO && orphan)
		/* If ranks have called different collectives, the communicator fails for all ranks,
		 * whichever rank the switch names. */
		report.rank = -1;
	if ((report.code != EREMOTEIO || orphan) &&
	    defer_report(sw, comm, said->communicator, &report))
		return;
	comm = find_running(sw, said->communicator);
	if (comm)
		apply_report(comm, sw, &report);
}
