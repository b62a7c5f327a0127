/* SPDX-License-Identifier: BSD-2-Clause */
/* Groups: all ranks of a job join, and all of them are told when one is lost (group.h). Called by
 * core.c. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include "lib/base/clock.h"
#include "controller/core/comm.h"
#include "controller/core/core.h"
#include "controller/core/derive.h"
#include "controller/core/group.h"
#include "controller/core/switch.h"
#include "lib/base/log.h"
#include "lib/base/printable.h"

const char *inc_group_state_name(const struct inc_group *group)
{
	const char *name = "GROUP_READY";
	const struct inc_comm *comm;

	if (!inc_group_formed(group))
		return "CREATING_GROUP";
	if (inc_group_ended(group))
		return "IDLE";
	LIST_FOREACH (comm, &group->comms, entry) {
		if (comm->phase < COMM_STARTED)
			return "CREATING_COMM";
		if (comm->phase == COMM_STARTED)
			name = "COMM_READY";
	}
	return name;
}

const char *inc_member_name(const struct inc_member *member)
{
	const struct inc_topology *topo = member->group->core->topo;
	const struct inc_topo_host *host;
	char ip[INC_ADDR_TEXT];
	static char text[96];

	/* While the group forms, a rank that was here and has left is still known by its host. A
	 * rank from the database may have a host that the topology lacks. */
	if ((!member->present && (!*member->node || inc_group_formed(member->group))) ||
	    member->host >= topo->n_hosts) {
		snprintf(text, sizeof(text), "rank %u", member->rank);
		return text;
	}
	host = &topo->hosts[member->host];
	inc_addr_text(host->ip, ip);
	snprintf(text, sizeof(text), "rank %u (%s, %s)", member->rank, host->name, ip);
	return text;
}

void inc_list_ranks(unsigned int n, const char *(*name)(const void *arg, unsigned int rank),
		    const void *arg, char *buf, size_t size)
{
	struct inc_list list = inc_list_begin(buf, size);

	for (unsigned int rank = 0; rank < n; rank++) {
		const char *text = name(arg, rank);

		if (text)
			inc_list_add(&list, "%s", text);
	}
}

bool inc_same_host(const struct inc_core *core, unsigned int one, unsigned int other)
{
	return inc_addr_same(core->topo->hosts[one].ip, core->topo->hosts[other].ip);
}

static const char *name_absent(const void *arg, unsigned int rank)
{
	const struct inc_group *group = arg;

	return group->members[rank].present ? NULL : inc_member_name(&group->members[rank]);
}

void inc_group_list_absent(const struct inc_group *group, char *buf, size_t size)
{
	inc_list_ranks(group->world_size, name_absent, group, buf, size);
}

void inc_group_record_failure(const struct inc_group *group, uint32_t communicator,
			      const char *reason)
{
	inc_core_record(group->core, INC_RECORD_FAILED, communicator, "group %u (%s): %s",
			group->number, group->job, reason);
}

/* Frees a group that cannot form. The ranks that have joined receive the reason, and may ask
 * again. */
static void dissolve(struct inc_group *group, int code, const struct inc_err *why)
{
	inc_warn("group %u (%s): %s", group->number, group->job, why->msg);
	for (unsigned int rank = 0; rank < group->world_size; rank++) {
		struct inc_core_client *client = group->members[rank].client;

		if (!client)
			continue;
		inc_act_refuse(client, code, NULL, "job %s: %s", group->job, why->msg);
		client->member = NULL;
		inc_act_idle(client);
	}
	inc_group_free(group);
}

static void on_timeout(void *arg)
{
	struct inc_group *group = arg;
	struct inc_err why;
	char ranks[200], down[INC_DOWN_TEXT];

	if (group->phase == GROUP_RESTORED || group->phase == GROUP_RETURNING) {
		inc_group_settle(group);
		return;
	}
	if (group->phase == GROUP_SETTLED) {
		inc_group_recheck(group);
		return;
	}
	inc_group_list_absent(group, ranks, sizeof(ranks));
	inc_group_print_down(group, down, sizeof(down));
	inc_err_set(&why, ETIMEDOUT, "%s did not come within %u ms%s%s", ranks,
		    group->core->opt.group_timeout_ms, *down ? "; " : "", down);
	inc_group_record_failure(group, 0, why.msg);
	dissolve(group, ETIMEDOUT, &why);
}

/* Reports to the members which ranks are missing. */
static void on_wait(void *arg)
{
	struct inc_group *group = arg;
	const unsigned int waited_s = inc_core_wait_go_on(&group->wait);
	char ranks[300], down[INC_DOWN_TEXT], text[640];

	inc_group_list_absent(group, ranks, sizeof(ranks));
	inc_group_print_down(group, down, sizeof(down));
	snprintf(text, sizeof(text), "job %s has waited %u s for %s%s%s", group->job, waited_s,
		 ranks, *down ? "; " : "", down);
	inc_info("group %u: %s", group->number, text);
	for (unsigned int rank = 0; rank < group->world_size; rank++) {
		if (group->members[rank].client)
			inc_act_absent(group->members[rank].client, text);
	}
}

/* Makes a group with this number. Returns NULL if number is 0, because then the number allocator
 * had no memory. */
static struct inc_group *group_new(struct inc_core *core, const char *job, unsigned int world_size,
				   uint32_t number)
{
	struct inc_group *group =
		number ? calloc(1, sizeof(*group) + world_size * sizeof(group->members[0])) : NULL;

	if (!group)
		return NULL;
	inc_core_timer_init(&group->timer, core, on_timeout, group);
	inc_core_timer_init(&group->wait.timer, core, on_wait, group);
	group->core = core;
	group->number = number;
	snprintf(group->job, sizeof(group->job), "%s", job);
	group->world_size = world_size;
	group->since_at_ms = core->now.clock_ms;
	for (unsigned int rank = 0; rank < world_size; rank++) {
		group->members[rank].group = group;
		group->members[rank].rank = group->members[rank].leader = rank;
	}
	LIST_INSERT_HEAD(&core->groups, group, entry);
	inc_core_timer_arm(&group->timer, core->opt.group_timeout_ms);
	inc_core_wait_begin(&group->wait);
	return group;
}

struct inc_group *inc_group_adopt(struct inc_core *core, const char *job, unsigned int world_size,
				  uint32_t number)
{
	struct inc_group *group = group_new(core, job, world_size, number);

	if (!group)
		return NULL;
	inc_group_set_phase(group, GROUP_RETURNING);
	group->over_code = ESHUTDOWN;
	snprintf(group->over, sizeof(group->over),
		 "the controller has restarted: nothing new can begin in group %u", number);
	return group;
}

struct inc_group *inc_group_restore(struct inc_core *core, const char *job, unsigned int world_size,
				    uint32_t number)
{
	struct inc_group *group = group_new(core, job, world_size, number);

	if (group)
		inc_group_set_phase(group, GROUP_RESTORED);
	return group;
}

struct inc_group *inc_group_find(const struct inc_core *core, uint32_t number)
{
	struct inc_group *group;

	LIST_FOREACH (group, &core->groups, entry) {
		if (group->number == number)
			return group;
	}
	return NULL;
}

static bool is_taken(struct inc_core *core, uint32_t number)
{
	return inc_group_find(core, number);
}

static uint32_t next_number(struct inc_core *core)
{
	return inc_number_allocate(&core->group_numbers, is_taken, core);
}

struct inc_group *inc_group_derive(const struct inc_group *parent, enum inc_derive_how how,
				   unsigned int world_size)
{
	struct inc_core *core = parent->core;
	struct inc_group *group = group_new(core, parent->job, world_size, next_number(core));

	if (!group)
		return NULL;
	group->of = parent->number;
	group->how = how;
	return group;
}

void inc_group_free(struct inc_group *group)
{
	inc_derive_parent_ended(group);
	while (!LIST_EMPTY(&group->comms))
		inc_comm_end(LIST_FIRST(&group->comms));
	if (inc_group_formed(group))
		inc_act_delete_group(group);
	LIST_REMOVE(group, entry);
	inc_core_timer_stop(&group->timer);
	inc_core_timer_stop(&group->wait.timer);
	free(group);
}

void inc_groups_free(struct inc_core *core)
{
	while (!LIST_EMPTY(&core->groups))
		inc_group_free(LIST_FIRST(&core->groups));
}

/* Finds the group that a member of this job joins. A group that is over, that was made from another
 * group, or whose ranks are not all back does not count, so that the next run of the job may begin
 * at once. */
static struct inc_group *find_job(const struct inc_core *core, const char *job)
{
	struct inc_group *group;

	LIST_FOREACH (group, &core->groups, entry) {
		if (!inc_group_ended(group) && group->phase != GROUP_RESTORED && !group->of &&
		    strcmp(group->job, job) == 0)
			return group;
	}
	return NULL;
}

/* Checks whether the topology has room for so many ranks. Several ranks may share a host, but each
 * of them needs a connection of its switch unless all share memory. Returns 0 or -EINVAL. */
static int check_world(const struct inc_core *core, unsigned int world_size, struct inc_err *err)
{
	unsigned int children = 0, most;

	for (unsigned int s = 0; s < core->topo->n_switches; s++) {
		most = inc_most_children(inc_switch_setting(core->switches[s]));
		if (children < most)
			children = most;
	}
	most = core->topo->n_leaves * children;
	if (world_size <= most)
		return 0;
	return inc_err_set(err, EINVAL,
			   "'world_size' %u is too large: the topology %s takes %u ranks at most",
			   world_size, core->topo->name, most);
}

/* All ranks have joined, and their group begins as soon as the database has it. */
static void group_formed(struct inc_group *group)
{
	const unsigned int leaders = inc_group_find_leaders(group);
	struct inc_err err;

	if (!*inc_group_meeting(group) && check_world(group->core, leaders, &err)) {
		dissolve(group, EINVAL, &err);
		return;
	}
	inc_group_set_phase(group, GROUP_RUNNING);
	inc_act_store_ranks(group);
	group->storing = true;
	if (!inc_act_commit(group->core, group->number, 0))
		return;
	inc_err_set(&err, ENOMEM, "the controller is out of memory");
	dissolve(group, ENOMEM, &err);
}

static void tell_joined(struct inc_group *group)
{
	inc_info("group %u (%s): all %u ranks are here", group->number, group->job,
		 group->world_size);
	for (unsigned int rank = 0; rank < group->world_size; rank++) {
		const struct inc_member *member = &group->members[rank];
		struct inc_msg_joined joined = {
			.group = group->number,
			.addr = group->core->topo->hosts[member->nic].ip,
			.rank = rank,
			.world_size = group->world_size,
		};

		inc_group_announce(member, &joined);
		inc_rails_announce(member, &joined);
		inc_act_send(member->client, INC_MSG_JOINED, &joined);
	}
}

void inc_group_stored(struct inc_core *core, uint32_t number, int stored,
		      const struct inc_err *because)
{
	struct inc_group *group = inc_group_find(core, number);

	if (!group || !group->storing)
		return;
	group->storing = false;
	if (stored)
		dissolve(group, -stored, because);
	else if (group->phase == GROUP_RUNNING)
		tell_joined(group);
}

int inc_group_check_join(const struct inc_core *core, const struct inc_msg_join *said,
			 struct inc_join *join, struct inc_err *err)
{
	if (said->rank >= said->world_size)
		return inc_err_set(err, EINVAL, "rank: %u is not below world_size %u", said->rank,
				   said->world_size);
	join->rank = said->rank;
	join->world_size = said->world_size;
	strcpy(join->job, said->job);
	/* a member sends an empty host name if its machine has none */
	strcpy(join->node, *said->host ? said->host : "-");
	join->spans = said->spans;
	join->ipv4_alone = !said->n_addrs_ipv6;
	strcpy(join->machine, said->machine);
	strcpy(join->meeting, said->meeting);
	return inc_rails_find_host(core, said, join, err);
}

int inc_group_check_newcomer(const struct inc_core *core, const struct inc_msg_join *said,
			     struct inc_join *join, struct inc_err *err)
{
	int ret = inc_group_check_join(core, said, join, err);

	/* ranks that may share memory are checked when all are there */
	if (ret || (*said->machine && (said->spans || said->world_size <= INC_MAX_NODE_RANKS)))
		return ret;
	return check_world(core, said->world_size, err);
}

void inc_group_enter(struct inc_group *group, struct inc_core_client *client,
		     const struct inc_join *join)
{
	struct inc_member *member = &group->members[join->rank];

	member->present = true;
	member->silent_ms = 0;
	member->client = client;
	member->host = join->host;
	member->nic = join->nic;
	memcpy(member->node, join->node, sizeof(member->node));
	member->spans = join->spans;
	member->ipv4_alone = join->ipv4_alone;
	memcpy(member->machine, join->machine, sizeof(member->machine));
	memcpy(member->meeting, join->meeting, sizeof(member->meeting));
	client->member = member;
	group->connected++;
	inc_act_store_rank(member);
	if (group->connected < group->world_size)
		return;
	if (group->phase == GROUP_FORMING)
		group_formed(group);
	else if (group->phase == GROUP_RESTORED)
		inc_group_set_phase(group, GROUP_RUNNING);
}

int inc_group_check_host(const struct inc_core *core, const struct inc_group *group,
			 unsigned int host, struct inc_err *err)
{
	if (host < core->topo->n_live_hosts)
		return 0;
	for (unsigned int rank = 0; group && rank < group->world_size; rank++) {
		if (group->members[rank].present && group->members[rank].host == host)
			return 0;
	}
	return inc_err_set(err, EADDRNOTAVAIL,
			   "host %s is draining: the topology %s does not have it any more",
			   core->topo->hosts[host].name, core->topo->name);
}

void inc_group_join(struct inc_core_client *client, const struct inc_msg_join *said)
{
	struct inc_core *core = client->core;
	struct inc_group *group;
	struct inc_join join;
	struct inc_err err;
	int ret;

	ret = inc_group_check_newcomer(core, said, &join, &err);
	if (ret)
		goto refuse;
	group = find_job(core, join.job);
	ret = inc_group_check_host(core, group, join.host, &err);
	if (ret)
		goto refuse;
	if (group && group->world_size != join.world_size) {
		ret = inc_err_set(&err, EINVAL, "job %s has world size %u, not %u", join.job,
				  group->world_size, join.world_size);
		goto refuse;
	}
	if (group && group->members[join.rank].present) {
		char other[96];

		snprintf(other, sizeof(other), "%s", inc_member_name(&group->members[join.rank]));
		ret = inc_err_set(&err, EEXIST, "job %s: rank %u is taken, by %s", join.job,
				  join.rank, other);
		goto refuse;
	}
	if (!group)
		group = group_new(core, join.job, join.world_size, next_number(core));
	if (!group) {
		ret = inc_err_set(&err, ENOMEM, "the controller is out of memory");
		goto refuse;
	}
	inc_group_enter(group, client, &join);
	return;

refuse:
	inc_info("%s: G refused: %s", client->peer, err.msg);
	inc_act_refuse(client, -ret, NULL, "%s", err.msg);
}

static bool has_comms(const struct inc_group *group, unsigned int rank)
{
	const struct inc_comm *comm;

	LIST_FOREACH (comm, &group->comms, entry) {
		if (comm->phase != COMM_REFUSED && comm->members[rank].asked &&
		    !comm->members[rank].destroyed)
			return true;
	}
	return false;
}

/* Makes the message "failed", by which the group's ranks learn that a member is lost. bye: its
 * connection ended with a bye. */
static struct inc_msg_failed describe_loss(const struct inc_member *lost, bool bye)
{
	struct inc_msg_failed failed = {
		.group = lost->group->number,
		.has_rank = true,
		.rank = lost->rank,
		.code = ECONNRESET,
	};

	if (lost->silent_ms)
		snprintf(failed.message, sizeof(failed.message), "%s has not answered for %u ms",
			 inc_member_name(lost), lost->silent_ms);
	else
		snprintf(failed.message, sizeof(failed.message),
			 bye ? "%s left the group"
			     : "%s left the group: its process or connection has ended",
			 inc_member_name(lost));
	return failed;
}

static void tell_failed(const struct inc_group *group, const struct inc_msg_failed *failed)
{
	for (unsigned int rank = 0; rank < group->world_size; rank++) {
		struct inc_core_client *client = group->members[rank].client;

		if (client)
			inc_act_send(client, INC_MSG_FAILED, failed);
	}
}

void inc_group_silent(struct inc_member *member, unsigned int ms)
{
	struct inc_msg_failed failed;

	member->silent_ms = ms;
	failed = describe_loss(member, false);
	/* libinccl takes an error as the answer to a request. A member of a formed group may have
	 * no request under way, so only failed tells it that the group is over. */
	if (inc_group_formed(member->group))
		inc_act_send(member->client, INC_MSG_FAILED, &failed);
	else
		inc_act_refuse(member->client, ETIMEDOUT, NULL, "%s", failed.message);
}

/* Counts and records a communicator that was made and ends because a member is lost. */
static void record_loss(const struct inc_comm *comm)
{
	const struct inc_group *group = comm->group;

	group->core->figures.failed++;
	if (!inc_channel_of(comm->index))
		inc_group_record_failure(group, comm->number, group->over);
}

/*
 * A member has left or is lost. Communicators that are not made yet fail, because their members
 * wait for an answer. Other communicators end at once if the member is lost. After a clean leave
 * they stay until all members have destroyed them, because slower members may need a result once
 * more.
 */
static void end_comms(struct inc_group *group, unsigned int rank, bool clean)
{
	struct inc_comm *comm = LIST_FIRST(&group->comms), *next;

	for (; comm; comm = next) {
		next = LIST_NEXT(comm, entry);
		if (comm->phase < COMM_CONFIGURED)
			inc_comm_fail(comm, rank, group->over_code, "%s", group->over);
		else if (!clean && comm->phase != COMM_REFUSED) {
			if (comm->phase != COMM_FAILED)
				record_loss(comm);
			inc_comm_end(comm);
		}
	}
}

static bool awaits_any(const struct inc_group *group)
{
	for (unsigned int rank = 0; rank < group->world_size; rank++) {
		if (inc_group_awaits(group, rank))
			return true;
	}
	return false;
}

void inc_group_leave(struct inc_member *member, bool clean, const char *reason)
{
	const struct inc_msg_failed failed = describe_loss(member, clean);
	struct inc_group *group = member->group;

	member->client = NULL;
	group->connected--;
	inc_act_store_rank(member);
	if (!inc_group_formed(group)) {
		inc_info("group %u (%s): %s left before the group was formed", group->number,
			 group->job, inc_member_name(member));
		member->present = false;
		if (!group->connected)
			inc_group_free(group);
		return;
	}
	clean = clean && !has_comms(group, member->rank);
	if (clean)
		inc_info("group %u (%s): %s has left", group->number, group->job,
			 inc_member_name(member));
	else
		inc_warn("group %u (%s): %s is lost: %s", group->number, group->job,
			 inc_member_name(member), reason);
	if (!group->connected && !awaits_any(group)) {
		inc_group_free(group);
		return;
	}
	/* The first loss remains the reason for the group's end, although members leave because of
	 * it. */
	if (!inc_group_ended(group) || (!clean && group->over_code == ESHUTDOWN)) {
		if (group->phase == GROUP_RUNNING)
			inc_group_set_phase(group, GROUP_OVER);
		else if (group->phase == GROUP_RESTORED)
			/* the ranks that are not back yet may still come back to their
			 * communicators */
			inc_group_set_phase(group, GROUP_RETURNING);
		group->over_code = clean ? ESHUTDOWN : failed.code;
		snprintf(group->over, sizeof(group->over), "%.255s", failed.message);
		inc_act_store_group(group);
		end_comms(group, member->rank, clean);
		if (!clean)
			tell_failed(group, &failed);
	}
	inc_comm_forget_refused(group);
	inc_derive_parent_changed(group);
}
