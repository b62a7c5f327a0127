/* SPDX-License-Identifier: BSD-2-Clause */
/* Failures that are found elsewhere: by a member, or by a switch that waits for one. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "lib/base/errno_name.h"
#include "controller/ctl.h"
#include "lib/base/log.h"

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

/* Who is blamed where the member blames nobody: a rank that has destroyed it may be missed. */
static int who_destroyed(const struct inc_comm *comm)
{
	for (unsigned int rank = 0; rank < comm->group->world_size; rank++) {
		if (comm->members[rank].destroyed)
			return rank;
	}
	return -1;
}

static void report_failed(struct inc_comm *comm, const struct inc_member *member,
			  const struct inc_msg_report *r)
{
	int blame = r->has_rank ? (int)r->rank : who_destroyed(comm);
	char name[96], more[160] = "";

	snprintf(name, sizeof(name), "%s", inc_member_name(member));
	if (!r->has_rank && blame >= 0)
		snprintf(more, sizeof(more), "; %s had destroyed it",
			 inc_member_name(&comm->group->members[blame]));
	inc_comm_fail(comm, blame, r->code, "%s: %s (%s)%s", name, r->message,
		      inc_errno_name(r->code), more);
}

static void take_report(struct inc_comm *comm, const struct inc_member *member,
			const struct inc_msg_report *r)
{
	bool configured = comm->phase >= COMM_CONFIGURED && comm->phase != COMM_REFUSED;

	/* it is not told what it says itself */
	comm->members[member->rank].asked = true;
	comm->members[member->rank].knows = true;
	if (comm->phase == COMM_REFUSED)
		inc_comm_forget_refused(member->group);
	else if (comm->phase != COMM_FAILED)
		report_failed(comm, member, r);
	if (!configured || r->has_communicator)
		return;
	/* the answer to its C came too late: it has no number to destroy it by */
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
	comm = r->has_communicator ? inc_comm_find(member->group->ctl, r->communicator)
				   : inc_comm_get_index(member->group, r->comm);
	if (!comm || comm->group != member->group || comm->members[member->rank].destroyed) {
		wrong = inc_err_set(why, ENOENT, "communicator %u is none of this member's",
				    r->has_communicator ? r->communicator : r->comm);
		goto refuse;
	}
	take_report(comm, member, r);
	return;

refuse:
	inc_info("%s: failed ignored: %s", inc_client_peer(member->client), why->msg);
	inc_client_refuse(member->client, -wrong, &about, "failed: %s", why->msg);
}

bool inc_comm_waits(struct inc_switch *sw, const struct inc_msg_waiting *said)
{
	struct inc_comm *comm = inc_comm_find(sw->ctl, said->communicator);
	char chunk[32] = "";

	if (!comm || comm->phase != COMM_STARTED)
		return true;
	for (uint32_t i = 0; i < said->n_missing; i++) {
		const uint32_t rank = said->missing[i].rank;

		if (rank >= comm->group->world_size || !comm->members[rank].destroyed)
			continue;
		if (said->has_chunk)
			snprintf(chunk, sizeof(chunk), "chunk %llu ",
				 (unsigned long long)said->chunk);
		inc_comm_fail(comm, rank, ETIMEDOUT,
			      "switch %s: %swaits for %s, which has destroyed the communicator",
			      inc_switch_name(sw), chunk,
			      inc_member_name(&comm->group->members[rank]));
		return true;
	}
	return false;
}

void inc_comm_check_waiting(struct inc_switch *sw, const struct inc_comm *comm)
{
	int ret = inc_switch_ask_waiting(sw, comm->number);

	if (ret)
		inc_warn("switch %s cannot be asked what communicator %u waits for: %s",
			 inc_switch_name(sw), comm->number, strerror(-ret));
}

void inc_comm_judge(struct inc_comm *comm)
{
	const int code = comm->accused.code, rank = comm->accused.rank;
	struct inc_group *group = comm->group;
	struct inc_switch *sw;

	if (!code || comm->phase != COMM_STARTED)
		return;
	if (rank < (int)group->world_size && inc_group_awaits(group, rank))
		return;
	comm->accused.code = 0;
	if (rank >= (int)group->world_size)
		return;
	sw = &group->ctl->switches[comm->tree->nodes[0].sw];
	if (!group->members[rank].present)
		comm->members[rank].destroyed = true;
	if (comm->members[rank].destroyed)
		inc_comm_check_waiting(sw, comm);
	else
		inc_comm_fail(comm, rank, code, "switch %s: %s", inc_switch_name(sw),
			      comm->accused.text);
}
