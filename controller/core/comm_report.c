/* SPDX-License-Identifier: BSD-2-Clause */
/* Failures that members report with the message failed, and time limits of communicators, whose
 * members receive the names of missing ranks before that. Called by core.c and by timers. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "lib/base/err.h"
#include "controller/core/comm.h"
#include "controller/core/comm_config.h"
#include "controller/core/comm_event.h"
#include "controller/core/core.h"
#include "controller/core/group.h"
#include "controller/core/switch.h"
#include "lib/base/log.h"
#include "lib/base/printable.h"

static const char *name_not_asked(const void *arg, unsigned int rank)
{
	const struct inc_comm *comm = arg;

	return comm->members[rank].asked ? NULL : inc_leader_name(&comm->group->members[rank]);
}

static const char *name_not_ready(const void *arg, unsigned int rank)
{
	const struct inc_comm *comm = arg;

	return comm->members[rank].ready ? NULL : inc_leader_name(&comm->group->members[rank]);
}

void inc_comm_on_timeout(void *arg)
{
	struct inc_comm *comm = arg;
	const struct inc_core *core = comm->group->core;
	const struct inc_core_switch *absent;
	char ranks[400];

	switch (comm->phase) {
	case COMM_COLLECTING:
		inc_list_ranks(comm->group->world_size, name_not_asked, comm, ranks, sizeof(ranks));
		inc_comm_fail(comm, -1, ETIMEDOUT,
			      "%s did not ask for communicator %u of job %s within %u ms", ranks,
			      comm->index, comm->group->job, core->opt.group_timeout_ms);
		break;
	case COMM_WAIT_SWITCH:
		absent = inc_comm_absent(comm);
		/* All its switches are connected, so the communicator waits on until they have
		 * answered requests of other communicators. Those requests have time limits, so
		 * this wait needs none. */
		if (!absent) {
			inc_core_timer_arm(&comm->timer, core->opt.switch_timeout_ms);
			break;
		}
		inc_comm_fail(comm, -1, EHOSTUNREACH,
			      "switch %s, which job %s needs, is not connected (see incctl "
			      "switches)",
			      inc_switch_name(absent), comm->group->job);
		break;
	case COMM_CONFIGURED:
		inc_list_ranks(comm->group->world_size, name_not_ready, comm, ranks, sizeof(ranks));
		inc_comm_fail(comm, -1, ETIMEDOUT,
			      "%s was not ready for communicator %u within %u ms", ranks,
			      comm->number, core->opt.group_timeout_ms);
		break;
	case COMM_STARTED:
		inc_comm_fail(comm, -1, ECONNABORTED,
			      "switch %s: communicator %u has ended at a neighbour switch, and no "
			      "switch has reported the reason",
			      inc_switch_name(comm->ended), comm->number);
		break;
	default:
		break;
	}
}

void inc_comms_await_switch(const struct inc_core_switch *sw)
{
	const struct inc_core *core = sw->core;
	const struct inc_group *group;
	struct inc_comm *comm;

	LIST_FOREACH (group, &core->groups, entry) {
		LIST_FOREACH (comm, &group->comms, entry) {
			if (comm->phase == COMM_WAIT_SWITCH && comm->tree &&
			    inc_tree_find(comm->tree, sw->index) >= 0 && !inc_comm_absent(comm))
				inc_core_timer_arm(&comm->timer, core->opt.switch_timeout_ms);
		}
	}
}

void inc_comms_record_lost(const struct inc_core_switch *sw, bool peer_closed)
{
	const struct inc_group *group;
	const struct inc_comm *comm;
	char text[200] = "";
	struct inc_list list = inc_list_begin(text, sizeof(text));

	LIST_FOREACH (group, &sw->core->groups, entry) {
		LIST_FOREACH (comm, &group->comms, entry) {
			if (inc_comm_keeps(comm, sw) && comm->phase != COMM_FAILED)
				inc_list_add(&list, "%u", comm->number);
		}
	}
	inc_core_record(
		sw->core, INC_RECORD_SWITCH_LOST, 0, "switch %s: %s; %s%s", inc_switch_name(sw),
		peer_closed ? "its machine has closed the connection" : "its connection has ended",
		*text ? "communicators on it: " : "no communicator is on it", text);
}

/* The failure frees the communicator, so the search begins again. */
void inc_comms_end_unmade(const struct inc_core_switch *sw)
{
	const struct inc_group *group;
	struct inc_comm *comm;
again:
	LIST_FOREACH (group, &sw->core->groups, entry) {
		LIST_FOREACH (comm, &group->comms, entry) {
			if (comm->phase != COMM_CONFIGURING || !inc_comm_keeps(comm, sw))
				continue;
			inc_comm_fail(comm, -1, ECONNRESET, "switch %s: connection lost",
				      inc_switch_name(sw));
			goto again;
		}
	}
}

/* The switches remove such a communicator, which gets another number. If its next tree has the lost
 * switch, it waits for that. The search begins again each time, because a communicator that finds
 * no tree fails, and may be freed. */
void inc_comms_begin_again(const struct inc_core_switch *sw)
{
	const struct inc_group *group;
	struct inc_comm *comm;
again:
	LIST_FOREACH (group, &sw->core->groups, entry) {
		LIST_FOREACH (comm, &group->comms, entry) {
			if (comm->phase != COMM_CONFIGURING ||
			    inc_tree_find(comm->tree, sw->index) < 0)
				continue;
			inc_info("group %u (%s), communicator %u: switch %s connects again, so the "
				 "communicator is made again",
				 group->number, group->job, comm->number, inc_switch_name(sw));
			inc_comm_unconfigure(comm);
			comm->number = 0;
			comm->pending = 0;
			inc_comm_configure(comm);
			goto again;
		}
	}
}

/* Whether the communicator runs, and the memory of the switch's daemon has the switch's part of it.
 * Behind a restart of the controller the modes in a mixed tree are guessed, so nothing is certain
 * there. */
static bool lives_in_daemon(const struct inc_comm *comm, const struct inc_core_switch *sw)
{
	return (comm->mode != INC_TREE_MIXED || comm->tree->counted) &&
	       (comm->phase == COMM_CONFIGURED || comm->phase == COMM_STARTED) &&
	       inc_comm_keeps(comm, sw) &&
	       comm->tree->nodes[inc_tree_find(comm->tree, sw->index)].mode == INC_TERMINATION;
}

bool inc_comms_live_in_daemon(const struct inc_core_switch *sw)
{
	const struct inc_group *group;
	const struct inc_comm *comm;

	LIST_FOREACH (group, &sw->core->groups, entry) {
		LIST_FOREACH (comm, &group->comms, entry) {
			if (lives_in_daemon(comm, sw))
				return true;
		}
	}
	return false;
}

void inc_comms_note_closed(const struct inc_core_switch *sw)
{
	const struct inc_group *group;
	struct inc_comm *comm;

	LIST_FOREACH (group, &sw->core->groups, entry) {
		LIST_FOREACH (comm, &group->comms, entry) {
			if (lives_in_daemon(comm, sw))
				inc_comm_set_notice(comm, sw, "not connected to the controller");
		}
	}
}

/* no communicator is freed in this loop, because only those that were made are failed */
void inc_comms_end_with_daemon(const struct inc_core_switch *sw)
{
	const struct inc_group *group;
	struct inc_comm *comm;

	LIST_FOREACH (group, &sw->core->groups, entry) {
		LIST_FOREACH (comm, &group->comms, entry) {
			if (lives_in_daemon(comm, sw))
				inc_comm_fail(comm, -1, EHOSTUNREACH,
					      "switch %s is not connected to the controller: its "
					      "inc-switchd has ended, and a communicator in "
					      "termination mode ends with it (start it again; its "
					      "log may have the reason)",
					      inc_switch_name(sw));
		}
	}
}

/* Whether the member of this rank waits for others. A rank that another one leads waits with its
 * leader, which asks as soon as all ranks of its machine wait. */
static bool waits(const struct inc_comm *comm, unsigned int rank)
{
	const struct inc_member *member = &comm->group->members[rank];
	const struct inc_comm_member *m = &comm->members[member->leader];

	return member->client && !m->destroyed && !m->reported_failure &&
	       (comm->phase == COMM_CONFIGURED ? m->ready : m->asked);
}

/* Whether no rank of the group has joined from the host, so a missing one may be there. */
static bool has_no_rank(const void *arg, unsigned int host)
{
	const struct inc_group *group = arg;
	unsigned int rank = 0;

	while (rank < group->world_size &&
	       (!group->members[rank].present ||
		!inc_same_host(group->core, group->members[rank].host, host)))
		rank++;
	return rank == group->world_size;
}

void inc_group_print_down(const struct inc_group *group, char *buf, size_t size)
{
	inc_switches_print_down(group->core, has_no_rank, group, buf, size);
}

static bool has_missing_rank(const void *arg, unsigned int host)
{
	const struct inc_comm *comm = arg;
	const struct inc_group *group = comm->group;
	unsigned int rank = 0;

	while (rank < group->world_size &&
	       ((comm->phase == COMM_CONFIGURED ? comm->members[rank].ready
						: comm->members[rank].asked) ||
		!inc_same_host(group->core, group->members[rank].host, host)))
		rank++;
	return rank < group->world_size;
}

void inc_comm_print_down(const struct inc_comm *comm, char *buf, size_t size)
{
	inc_switches_print_down(comm->group->core, has_missing_rank, comm, buf, size);
}

bool inc_comm_describe_wait(const struct inc_comm *comm, char *buf, size_t size)
{
	const bool is_ready = comm->phase == COMM_CONFIGURED;
	const struct inc_core_switch *absent;
	char ranks[300];

	if (comm->phase == COMM_WAIT_SWITCH) {
		absent = inc_comm_absent(comm);
		if (absent)
			snprintf(buf, size, "switch %s, which is not connected",
				 inc_switch_name(absent));
		return absent;
	}
	if (!is_ready && comm->phase != COMM_COLLECTING)
		return false;
	inc_list_ranks(comm->group->world_size, is_ready ? name_not_ready : name_not_asked, comm,
		       ranks, sizeof(ranks));
	snprintf(buf, size, "%s to %s", ranks, is_ready ? "be ready" : "ask for it");
	return true;
}

void inc_comm_on_wait(void *arg)
{
	struct inc_comm *comm = arg;
	const unsigned int waited_s = inc_core_wait_go_on(&comm->wait);
	const struct inc_group *group = comm->group;
	char missing[340], down[INC_DOWN_TEXT], text[700];

	if (!inc_comm_describe_wait(comm, missing, sizeof(missing)))
		return;
	inc_comm_print_down(comm, down, sizeof(down));
	snprintf(text, sizeof(text), "communicator %u of job %s has waited %u s for %s%s%s",
		 inc_channel_comm(comm->index), group->job, waited_s, missing, *down ? "; " : "",
		 down);
	inc_info("group %u: %s", group->number, text);
	for (unsigned int rank = 0; rank < group->world_size; rank++) {
		if (waits(comm, rank))
			inc_act_absent(group->members[rank].client, text);
	}
}

/* Whether two of the controller's communicators are channels of one communicator of the members. */
static bool are_channels(const struct inc_comm *one, const struct inc_comm *other)
{
	return inc_channel_comm(one->index) == inc_channel_comm(other->index);
}

unsigned int inc_comm_count_channels(const struct inc_comm *comm)
{
	const struct inc_comm *other;
	unsigned int n = 0;

	LIST_FOREACH (other, &comm->group->comms, entry)
		n += other->phase != COMM_REFUSED && are_channels(comm, other);
	return n;
}

void inc_comm_record_failure(const struct inc_comm *comm)
{
	const struct inc_comm *other;

	LIST_FOREACH (other, &comm->group->comms, entry) {
		if (other != comm && other->phase == COMM_FAILED && are_channels(comm, other) &&
		    !strcmp(other->reason, comm->reason))
			return;
	}
	inc_group_record_failure(comm->group, comm->number, comm->reason);
}

/* no channel is freed in this loop, because only channels that run are failed */
void inc_comm_fail_channels(const struct inc_comm *comm, int rank)
{
	struct inc_comm *other;

	LIST_FOREACH (other, &comm->group->comms, entry) {
		if (other->phase == COMM_STARTED && are_channels(comm, other))
			inc_comm_fail(other, rank, comm->code, "%s", comm->reason);
	}
}

static int check_report(const struct inc_member *member, const struct inc_msg_report *r,
			struct inc_err *err)
{
	const unsigned int world_size = member->group->world_size;

	if (!r->has_communicator && !r->has_comm)
		return inc_err_set(err, EINVAL, "neither 'communicator' nor 'comm' is there");
	if (r->has_rank && r->rank >= world_size)
		return inc_err_set(err, EINVAL, "rank: %u is not below %u", r->rank, world_size);
	return 0;
}

/* Finds the rank to blame if a member reports a failure without a rank. It is a rank that has
 * destroyed the communicator, because the others may wait for it. Returns -1 if there is none. */
static int who_destroyed(const struct inc_comm *comm)
{
	for (unsigned int rank = 0; rank < comm->group->world_size; rank++) {
		if (comm->members[rank].destroyed && !inc_group_is_led(comm->group, rank))
			return rank;
	}
	return -1;
}

static void report_failed(struct inc_comm *comm, const struct inc_member *member,
			  const struct inc_msg_report *r)
{
	int blame = r->has_rank ? (int)r->rank : who_destroyed(comm);
	const struct inc_core_switch *absent = comm->tree ? inc_comm_absent(comm) : NULL;
	char name[96], more[160] = "", lost[96] = "";

	snprintf(name, sizeof(name), "%s", inc_member_name(member));
	if (!r->has_rank && blame >= 0)
		snprintf(more, sizeof(more), "; %s had destroyed it",
			 inc_member_name(&comm->group->members[blame]));
	if (r->code == ETIMEDOUT && absent)
		snprintf(lost, sizeof(lost), "; switch %s is not connected to the controller",
			 inc_switch_name(absent));
	inc_comm_fail(comm, blame, r->code, "%s: %s (%s)%s%s", name, r->message,
		      inc_errno_name(r->code), more, lost);
}

static void take_report(struct inc_comm *comm, const struct inc_member *member,
			const struct inc_msg_report *r)
{
	bool configured = comm->phase >= COMM_CONFIGURED && comm->phase != COMM_REFUSED;

	/* a member that reports a failure need not receive that failure */
	comm->members[member->rank].asked = true;
	comm->members[member->rank].reported_failure = true;
	if (comm->phase == COMM_REFUSED)
		inc_comm_forget_refused(member->group);
	else if (comm->phase != COMM_FAILED)
		report_failed(comm, member, r);
	if (!configured || r->has_communicator)
		return;
	/* The member names the communicator by its index, because it does not know the number: the
	 * answer to its message C came too late. So it cannot destroy the communicator, which
	 * counts as destroyed. */
	comm->members[member->rank].destroyed = true;
	inc_comm_end_unused(comm);
}

void inc_comm_report(struct inc_member *member, const struct inc_msg_report *r, int wrong,
		     struct inc_err *why)
{
	const struct inc_msg_error about = {.has_comm = !r->has_communicator,
					    .comm = r->comm,
					    .has_communicator = r->has_communicator,
					    .communicator = r->communicator};
	struct inc_comm *comm;

	wrong = wrong ?: check_report(member, r, why);
	if (wrong)
		goto refuse;
	comm = r->has_communicator ? inc_comm_find(member->group->core, r->communicator)
				   : inc_comm_get_index(member->group, r->comm);
	if (!comm || comm->group != member->group || comm->members[member->rank].destroyed) {
		wrong = inc_err_set(why, ENOENT, "this member has no communicator %u",
				    r->has_communicator ? r->communicator : r->comm);
		goto refuse;
	}
	take_report(comm, member, r);
	return;

refuse:
	inc_info("%s: failed ignored: %s", member->client->peer, why->msg);
	inc_act_refuse(member->client, -wrong, &about, "failed: %s", why->msg);
}
