/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Members of an earlier controller's groups, whose communicators continue to run, connect to this
 * controller and send resume. A group from the database runs again as soon as all its ranks are
 * back. Any other group is built rank by rank from what its members claim, and nothing new can
 * begin in it. A rank that has not come back a while after the first one counts as gone, like a
 * member that does not answer. A member may come back before the controller has noticed that its
 * old connection broke. Called by core.c.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "controller/core/comm.h"
#include "controller/core/comm_event.h"
#include "controller/core/core.h"
#include "controller/core/derive.h"
#include "controller/core/endpoint.h"
#include "controller/core/group.h"
#include "controller/core/orphan.h"
#include "controller/core/switch.h"
#include "lib/base/log.h"

#define TRIES_MS 2000 /* time in ms in which a lost member tries twice to connect again */
/* time in ms between two checks whether a switch waits for a missing rank */
#define RECHECK_MS 1000

struct claim {
	uint32_t number;
	uint32_t index;
	const struct inc_msg_claim *said;
	struct inc_core_switch *sw;
	struct inc_comm_member member;
};

struct resume {
	struct inc_join join;
	uint32_t group;
	unsigned int n;
	struct claim claims[CTL_MAX_COMMS];
	bool again; /* the rank is present, and this client replaces the rank's connection */
	/* Communicators that the member claims and its switch has lost. They are not in claims. */
	unsigned int n_gone;
	struct {
		uint32_t number;
		struct inc_err why;
	} gone[CTL_MAX_COMMS];
};

static int read_claim(struct inc_core *core, const struct inc_join *join,
		      const struct inc_msg_claim *said, struct claim *c, struct inc_err *err)
{
	int sw = inc_topology_switch_by_name(core->topo, said->node);

	if (sw < 0)
		return inc_err_set(err, ENOENT, "'switch': the topology %s has no '%s'",
				   core->topo->name, said->node);
	c->sw = core->switches[sw];
	c->number = said->communicator;
	c->index = said->comm;
	c->said = said;
	c->member.asked = c->member.ready = true;
	c->member.route.host = join->nic;
	if (said->has_own_ip) {
		const int nic = inc_topology_nic_by_ip(core->topo, join->host, said->own_ip);

		if (nic < 0)
			return inc_err_set(err, EADDRNOTAVAIL,
					   "'own_ip': no NIC of host %s has this address",
					   core->topo->hosts[join->host].name);
		c->member.route.host = nic;
	}
	c->member.byte_order = said->byte_order;
	c->member.route.own.end = said->own;
	strcpy(c->member.transport, said->transport);
	return 0;
}

static int take_claims(struct inc_core *core, const struct inc_msg_resume *said, struct resume *r,
		       struct inc_err *err)
{
	struct inc_err why;
	int ret;

	for (uint32_t i = 0; i < said->n_claims; i++) {
		ret = read_claim(core, &r->join, &said->claims[i], &r->claims[i], &why);
		if (ret)
			return inc_err_set(err, -ret, "communicators[%u]: %s", i, why.msg);
		for (uint32_t k = 0; k < i; k++) {
			if (r->claims[k].number == r->claims[i].number ||
			    r->claims[k].index == r->claims[i].index)
				return inc_err_set(err, EINVAL, "communicators[%u] is listed twice",
						   i);
		}
		r->n++;
	}
	return 0;
}

static int take_said(struct inc_core *core, const struct inc_msg_resume *said, struct resume *r,
		     struct inc_err *err)
{
	int ret = inc_group_check_join(core, &said->join, &r->join, err);

	if (ret)
		return ret;
	if (!said->n_claims && !said->led)
		return inc_err_set(err, EINVAL,
				   "communicators: a member that is not led has at least one");
	r->group = said->group;
	return take_claims(core, said, r, err);
}

/* Whether a client that claims a present rank can be the same member as before. It must connect
 * from the same address, and claim only communicators that the member has. check_claim() removes
 * lost communicators before, and check_kept() compares the endpoints. */
static bool comes_again(const struct inc_group *group, const struct inc_core_client *client,
			const struct resume *r)
{
	const struct inc_core_client *before = group->members[r->join.rank].client;
	bool same = before && inc_core_same_address(client, before);

	for (unsigned int i = 0; i < r->n && same; i++) {
		const struct inc_comm *comm = inc_comm_find(group->core, r->claims[i].number);

		same = !comm || (comm->group == group && comm->members[r->join.rank].has_endpoint &&
				 !comm->members[r->join.rank].destroyed);
	}
	return same;
}

/* Checks whether the member that sent resume belongs to the group. If group is NULL, this member is
 * the first one to come back. Sets r->again. Returns 0 or -errno. */
static int check_group(const struct inc_core *core, const struct inc_group *group,
		       const struct inc_core_client *client, struct resume *r, struct inc_err *err)
{
	if (!group && inc_number_was_allocated(&core->group_numbers, r->group))
		return inc_err_set(err, ECONNRESET, "group %u has ended", r->group);
	if (!group && core->knows_all)
		return inc_err_set(err, ECONNRESET,
				   "group %u is none that this controller's database has",
				   r->group);
	if (!group)
		return 0;
	/* Only a group of an earlier controller accepts its members again. In another group the
	 * member's connection was lost, and the other members have received the report that the
	 * member is gone. */
	if (group->phase != GROUP_RESTORED &&
	    (!inc_group_resumed(group) || group->over_code != ESHUTDOWN))
		return inc_err_set(err, ECONNRESET, "group %u is over%s%s", r->group,
				   inc_group_ended(group) ? ": " : "", group->over);
	if (strcmp(group->job, r->join.job) != 0 || group->world_size != r->join.world_size)
		return inc_err_set(err, EINVAL, "group %u is that of job %s with world size %u",
				   r->group, group->job, group->world_size);
	r->again = group->members[r->join.rank].present;
	if (r->again && !comes_again(group, client, r))
		return inc_err_set(err, EEXIST, "job %s: rank %u is taken", r->join.job,
				   r->join.rank);
	return 0;
}

/* Compares a member's claim with the switch and the endpoint that this controller stores for the
 * member. Returns 0 or -EPERM. */
static int check_kept(const struct inc_comm *comm, unsigned int rank, const struct claim *c,
		      struct inc_err *err)
{
	const struct inc_comm_member *m = &comm->members[rank];

	if (comm->tree->counted && inc_tree_find(comm->tree, c->sw->index) < 0)
		return inc_err_set(err, EPERM, "communicator %u is not on switch %s", c->number,
				   inc_switch_name(c->sw));
	if (m->has_endpoint &&
	    (!inc_same_host(comm->group->core, m->route.host, c->member.route.host) ||
	     m->route.own.end.qpn != c->member.route.own.end.qpn ||
	     m->route.own.end.udp_port != c->member.route.own.end.udp_port))
		return inc_err_set(err, EPERM,
				   "communicator %u has another host or queue pair at rank %u",
				   c->number, rank);
	return 0;
}

/* Checks whether a member may claim a communicator. Returns 0, or -errno if the claim is refused;
 * -ENETRESET means that the communicator is lost. The hello of a connected switch has listed its
 * communicators. On an absent switch a claim is accepted until its hello comes. */
static int check_claim(struct inc_core *core, const struct inc_group *group, const struct resume *r,
		       const struct claim *c, struct inc_err *err)
{
	const struct inc_comm *comm = inc_comm_find(core, c->number), *other;

	if (comm && (!group || comm->group != group || comm->index != c->index))
		return inc_err_set(err, EEXIST,
				   "communicator %u belongs to another group or has another index",
				   c->number);
	if (comm)
		return check_kept(comm, r->join.rank, c, err);
	if (inc_number_was_allocated(&core->comm_numbers, c->number) || core->knows_all ||
	    (c->sw->connected && !inc_orphan_is(c->sw, c->number)))
		return inc_err_set(err, ENETRESET, "switch %s has no communicator %u any more",
				   inc_switch_name(c->sw), c->number);
	if (!group)
		return 0;
	if (r->again)
		return inc_err_set(err, EEXIST,
				   "job %s: rank %u is taken, and has no communicator %u",
				   r->join.job, r->join.rank, c->number);
	LIST_FOREACH (other, &group->comms, entry) {
		if (other->index == c->index)
			return inc_err_set(err, EEXIST,
					   "communicator %u of this group has number %u", c->index,
					   other->number);
	}
	return 0;
}

/* Checks all claims of a member. Those of lost communicators are moved to r->gone, because the
 * other communicators run. Returns 0, or -errno if a claim is refused or all communicators are
 * lost. */
static int check_claims(struct inc_core *core, const struct inc_group *group, struct resume *r,
			struct inc_err *err)
{
	unsigned int n = 0;
	int ret;

	for (unsigned int i = 0; i < r->n; i++) {
		ret = check_claim(core, group, r, &r->claims[i], err);
		if (ret && ret != -ENETRESET)
			return ret;
		if (!ret) {
			r->claims[n++] = r->claims[i];
			continue;
		}
		/* the parts of this communicator on other switches are useless without this
		 * switch's part */
		inc_orphans_report_failure(core, r->claims[i].number, ENETRESET, err->msg);
		r->gone[r->n_gone].number = r->claims[i].number;
		r->gone[r->n_gone++].why = *err;
	}
	r->n = n;
	return n || !r->n_gone ? 0 : -ENETRESET;
}

static void tell_gone(const struct inc_group *group, struct inc_core_client *client,
		      const struct resume *r)
{
	for (unsigned int i = 0; i < r->n_gone; i++) {
		struct inc_msg_failed failed = {
			.group = group->number,
			.has_communicator = true,
			.communicator = r->gone[i].number,
			.code = ENETRESET,
		};

		strcpy(failed.message, r->gone[i].why.msg);
		inc_act_send(client, INC_MSG_FAILED, &failed);
	}
}

/* Adds a switch to the communicator's tree, because a rank at this switch has claimed the
 * communicator after ranks at others. Returns 0 or -ENOMEM. */
static int take_switch(struct inc_comm *comm, struct inc_core_switch *sw)
{
	if (comm->phase == COMM_FAILED || inc_tree_find(comm->tree, sw->index) >= 0)
		return 0;
	/* a connected switch has listed all its communicators in its hello, and this one was not
	 * there */
	if (!sw->connected)
		return inc_comm_adopt_switch(comm, sw);
	inc_comm_fail(comm, -1, ENETRESET, "switch %s has no communicator %u any more",
		      inc_switch_name(sw), comm->number);
	return 0;
}

/* Gives the member the communicator back that it claims. Returns 0 or -ENOMEM. */
static int take_claim(struct inc_group *group, unsigned int rank, const struct claim *c)
{
	struct inc_comm *comm = inc_comm_find(group->core, c->number);

	if (!comm) {
		comm = inc_comm_adopt(group, c->said, c->sw);
		if (!comm)
			return -ENOMEM;
		/* ranks that came back earlier without claiming the communicator have destroyed
		 * it */
		for (unsigned int other = 0; other < group->world_size; other++)
			comm->members[other].destroyed =
				group->members[other].present || inc_group_is_led(group, other);
		if (inc_orphans_take(comm))
			return -ENOMEM;
	}
	if (comm->members[rank].has_endpoint) {
		comm->members[rank].asked = comm->members[rank].ready = true;
		/* the group may have counted the member as gone, so the member had `destroyed`
		 * set */
		comm->members[rank].destroyed = false;
	} else {
		comm->members[rank] = c->member;
		inc_endpoint_take(group->core, &comm->members[rank]);
		inc_act_store_comm(comm);
	}
	return take_switch(comm, c->sw);
}

/* Whether the member has destroyed the communicator, which is so if its message resume does not
 * list it. A resume lists no communicator without a number, because that is still being made or was
 * refused. */
static bool has_destroyed(const struct resume *r, const struct inc_comm *comm)
{
	for (unsigned int i = 0; i < r->n; i++) {
		if (r->claims[i].number == comm->number)
			return false;
	}
	return comm->number;
}

/* Fails the communicators that the rank has asked for and that are not made yet. The request is
 * gone with the rank's old connection, so the other ranks would wait in vain. */
static void end_requests(struct inc_group *group, unsigned int rank)
{
	struct inc_comm *comm;
again:
	LIST_FOREACH (comm, &group->comms, entry) {
		if (comm->phase >= COMM_CONFIGURED || !comm->members[rank].asked)
			continue;
		/* the member has lost its request, so it receives the error when it asks again */
		comm->members[rank].asked = false;
		inc_comm_fail(comm, rank, ECONNRESET,
			      "%s had asked for communicator %u, and its connection broke",
			      inc_member_name(&group->members[rank]), comm->index);
		goto again;
	}
}

/* Ends the rank's old connection, because a new one replaces it. The member stays, so no loss is
 * reported. */
static void drop_connection(struct inc_group *group, unsigned int rank)
{
	struct inc_core_client *before = group->members[rank].client;
	struct inc_comm *comm;

	end_requests(group, rank);
	inc_info("group %u (%s): rank %u has connected again", group->number, group->job, rank);
	/* the member may have lost reports of failures with the connection, so it gets them
	 * again */
	LIST_FOREACH (comm, &group->comms, entry)
		comm->members[rank].reported_failure = false;
	group->connected--;
	inc_act_replaced(before);
}

static void end_unused(struct inc_group *group)
{
	struct inc_comm *comm = LIST_FIRST(&group->comms), *next;

	for (; comm; comm = next) {
		next = LIST_NEXT(comm, entry);
		inc_comm_end_unused(comm);
	}
}

/* Returns the time in which the other ranks must come back, counted from the first rank. Each rank
 * tries once a second. The time does not begin at the controller's start, because until the first
 * rank comes the network may be down for all. */
static unsigned int return_ms(const struct inc_core *core)
{
	const unsigned int ms = core->opt.member_timeout_ms + TRIES_MS;

	return core->opt.member_timeout_ms && ms < core->opt.group_timeout_ms
		       ? ms
		       : core->opt.group_timeout_ms;
}

static int take_resume(struct inc_group *group, struct inc_core_client *client,
		       const struct resume *r)
{
	struct inc_comm *comm;

	for (unsigned int i = 0; i < r->n; i++) {
		if (take_claim(group, r->join.rank, &r->claims[i]))
			return -ENOMEM;
	}
	LIST_FOREACH (comm, &group->comms, entry) {
		if (has_destroyed(r, comm))
			comm->members[r->join.rank].destroyed = true;
	}
	if (r->again)
		drop_connection(group, r->join.rank);
	inc_group_enter(group, client, &r->join);
	if (!r->again && group->connected == 1 && group->phase != GROUP_RUNNING)
		inc_core_timer_arm(&group->timer, return_ms(group->core));
	inc_info("group %u (%s): rank %u of an earlier controller is back with %u communicators",
		 group->number, group->job, r->join.rank, r->n);
	inc_act_send(client, INC_MSG_RESUMED, &(struct inc_msg_resumed){group->number});
	LIST_FOREACH (comm, &group->comms, entry) {
		if (comm->phase == COMM_FAILED)
			inc_comm_tell_failed(comm, r->join.rank, -1);
		else
			inc_comm_tell_notice(comm, r->join.rank);
	}
	tell_gone(group, client, r);
	LIST_FOREACH (comm, &group->comms, entry)
		inc_comm_apply_reports(comm);
	if (group->phase == GROUP_RUNNING || group->phase == GROUP_SETTLED)
		end_unused(group);
	return 0;
}

void inc_group_resume(struct inc_core_client *client, const struct inc_msg_resume *said)
{
	struct inc_core *core = client->core;
	struct resume *r = calloc(1, sizeof(*r));
	struct inc_group *group = NULL;
	struct inc_err err;
	int ret;

	if (!r) {
		ret = inc_err_set(&err, ENOMEM, "the controller is out of memory");
		goto out;
	}
	ret = take_said(core, said, r, &err);
	if (ret)
		goto out;
	group = inc_group_find(core, r->group);
	ret = check_group(core, group, client, r, &err);
	if (!ret)
		ret = check_claims(core, group, r, &err);
	if (ret)
		goto out;
	if (!group)
		group = inc_group_adopt(core, r->join.job, r->join.world_size, r->group);
	if (!group || take_resume(group, client, r))
		ret = inc_err_set(&err, ENOMEM, "the controller is out of memory");
out:
	free(r);
	if (!ret)
		return;
	inc_info("%s: resume refused: %s", client->peer, err.msg);
	inc_act_refuse(client, -ret, NULL, "%s", err.msg);
}

bool inc_group_awaits(const struct inc_group *group, unsigned int rank)
{
	return (group->phase == GROUP_RESTORED || group->phase == GROUP_RETURNING) &&
	       !group->members[rank].present;
}

/* Treats the ranks that have not come back by now as gone, because their time is over. */
void inc_group_settle(struct inc_group *group)
{
	struct inc_comm *comm = LIST_FIRST(&group->comms), *next;

	if (group->phase == GROUP_RESTORED) {
		inc_group_set_phase(group, GROUP_RETURNING);
		group->over_code = ESHUTDOWN;
		snprintf(group->over, sizeof(group->over),
			 "the controller has restarted, and some ranks of group %u have not come "
			 "back",
			 group->number);
	}
	inc_group_set_phase(group, GROUP_SETTLED);
	if (!group->connected) {
		inc_group_free(group);
		return;
	}
	for (unsigned int rank = 0; rank < group->world_size; rank++) {
		if (!group->members[rank].present)
			inc_warn("group %u (%s): rank %u has not come back", group->number,
				 group->job, rank);
	}
	for (; comm; comm = next) {
		next = LIST_NEXT(comm, entry);
		inc_comm_apply_reports(comm);
		inc_comm_end_unused(comm);
	}
	inc_derive_parent_changed(group);
	inc_group_recheck(group);
}

void inc_group_recheck(struct inc_group *group)
{
	struct inc_comm *comm = LIST_FIRST(&group->comms), *next;
	bool misses = false;

	for (; comm; comm = next) {
		next = LIST_NEXT(comm, entry);
		misses |= inc_comm_check_missing(comm);
	}
	if (misses)
		inc_core_timer_arm(&group->timer, RECHECK_MS);
}
