/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who may have how much: what a switch can hold and what a job may have, both asked before a
 * communicator is configured. The controller knows what it has given to jobs itself; what else a
 * switch holds (of an earlier controller, say) only the switch knows, which refuses in its turn.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "controller/ctl.h"

/* A communicator's connections at a node of its tree: its children's and its parent's. */
static unsigned int count_connections(const struct inc_comm *comm, unsigned int node)
{
	const struct inc_topology *topo = comm->group->ctl->topo;
	const struct inc_tree *tree = comm->tree;
	unsigned int n = tree->nodes[node].parent >= 0;

	for (unsigned int rank = 0; rank < comm->group->world_size; rank++)
		n += topo->hosts[comm->members[rank].route.host].sw == tree->nodes[node].sw;
	for (unsigned int i = 1; i < tree->n; i++)
		n += tree->nodes[i].parent == (int)node;
	return n;
}

static void add_load(struct inc_load *load, const struct inc_comm *comm, unsigned int node)
{
	const uint64_t connections = count_connections(comm, node);

	load->communicators++;
	load->connections += connections;
	load->rows += connections * comm->slots;
	load->slots += comm->slots;
}

/* What a group has on a switch, as far as the switch has been told and has not refused. */
static void add_group(struct inc_load *load, const struct inc_group *group,
		      const struct inc_switch *sw)
{
	const struct inc_comm *comm;

	LIST_FOREACH(comm, &group->comms, entry)
	{
		for (unsigned int i = 0; comm->tree && i < comm->tree->n; i++) {
			if (comm->tree->nodes[i].sw == sw->index &&
			    (comm->configs[i] == CONFIG_ASKED || comm->configs[i] == CONFIG_THERE))
				add_load(load, comm, i);
		}
	}
}

void inc_switch_load(const struct inc_switch *sw, struct inc_load *load)
{
	const struct inc_group *group;

	*load = (struct inc_load){};
	LIST_FOREACH(group, &sw->ctl->groups, entry)
	add_group(load, group, sw);
}

static uint64_t part_of(const struct inc_load *load, size_t offset)
{
	return *(const uint64_t *)((const char *)load + offset);
}

/* The group that has most of what stands at offset; NULL: none has any. */
static const struct inc_group *find_holder(const struct inc_switch *sw, size_t offset,
					   struct inc_load *held)
{
	const struct inc_group *group, *holder = NULL;

	*held = (struct inc_load){};
	LIST_FOREACH(group, &sw->ctl->groups, entry)
	{
		struct inc_load load = {};

		add_group(&load, group, sw);
		if (part_of(&load, offset) > part_of(held, offset)) {
			*held = load;
			holder = group;
		}
	}
	return holder;
}

void inc_switch_holder(const struct inc_switch *sw, char *buf, size_t size)
{
	struct inc_load held;
	const struct inc_group *holder = find_holder(sw, offsetof(struct inc_load, rows), &held);

	buf[0] = '\0';
	if (holder)
		snprintf(buf, size,
			 "; job %s has most there: rows %llu, slots %llu, connections %llu, "
			 "communicators %llu",
			 holder->job, (unsigned long long)held.rows, (unsigned long long)held.slots,
			 (unsigned long long)held.connections,
			 (unsigned long long)held.communicators);
}

/* What one switch lacks for a communicator's node; a limit of 0 is one that it has not said. */
static int check_room(const struct inc_comm *comm, unsigned int node, const struct inc_load *has,
		      struct inc_err *err)
{
	const struct inc_switch *sw = &comm->group->ctl->switches[comm->tree->nodes[node].sw];
	const struct {
		const char *what;
		size_t offset;
		uint32_t limit;
	} parts[] = {
		{"communicators", offsetof(struct inc_load, communicators), sw->limits.groups},
		{"connections", offsetof(struct inc_load, connections), sw->limits.connections},
		{"contribution rows", offsetof(struct inc_load, rows), sw->limits.rows},
	};
	struct inc_load wants = {}, held;
	const struct inc_group *holder;
	char most[CTL_NAME_MAX + 48] = "";

	add_load(&wants, comm, node);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		const uint64_t want = part_of(&wants, parts[i].offset);
		const uint64_t used = part_of(has, parts[i].offset), limit = parts[i].limit;

		if (!limit || used + want <= limit)
			continue;
		holder = find_holder(sw, parts[i].offset, &held);
		if (holder)
			snprintf(most, sizeof(most), "; job %s holds most, %llu", holder->job,
				 (unsigned long long)part_of(&held, parts[i].offset));
		return inc_err_set(
			err, ENOSPC, "switch %s: job %s wants %llu %s, %llu of %llu are free%s",
			inc_switch_name(sw), comm->group->job, (unsigned long long)want,
			parts[i].what, (unsigned long long)(used < limit ? limit - used : 0),
			(unsigned long long)limit, most);
	}
	return 0;
}

/* 0, or -errno where a switch cannot hold this communicator, whatever it holds now. */
static int check_node(const struct inc_comm *comm, unsigned int node, struct inc_err *err)
{
	const struct inc_switch *sw = &comm->group->ctl->switches[comm->tree->nodes[node].sw];
	const unsigned int children =
		count_connections(comm, node) - (comm->tree->nodes[node].parent >= 0);

	if (children > sw->limits.children)
		return inc_err_set(err, E2BIG, "switch %s takes %u children, not %u",
				   inc_switch_name(sw), sw->limits.children, children);
	if (comm->slots > sw->limits.slots)
		return inc_err_set(err, E2BIG, "switch %s has %u slots, not %u",
				   inc_switch_name(sw), sw->limits.slots, comm->slots);
	return 0;
}

static int check_slots_of_job(const struct inc_comm *comm, struct inc_err *err)
{
	const unsigned int quota = comm->group->ctl->opt.job_slots;
	const struct inc_comm *other;
	uint64_t has = 0;

	LIST_FOREACH(other, &comm->group->comms, entry)
	has += other != comm && other->tree ? other->slots : 0;
	if (!quota || has + comm->slots <= quota)
		return 0;
	return inc_err_set(err, EDQUOT,
			   "job %s wants %u slots, has %llu and may have %u (--job-slots)",
			   comm->group->job, comm->slots, (unsigned long long)has, quota);
}

int inc_comm_admit(const struct inc_comm *comm, struct inc_err *err)
{
	struct inc_load has;
	int ret = check_slots_of_job(comm, err);

	for (unsigned int i = 0; i < comm->tree->n && !ret; i++) {
		inc_switch_load(&comm->group->ctl->switches[comm->tree->nodes[i].sw], &has);
		ret = check_node(comm, i, err);
		if (!ret)
			ret = check_room(comm, i, &has, err);
	}
	return ret;
}

int inc_group_admit(const struct inc_group *group, struct inc_err *err)
{
	const unsigned int quota = group->ctl->opt.job_communicators;

	if (group->n_comms < quota)
		return 0;
	return inc_err_set(
		err, EDQUOT,
		"job %s has %u communicators and may have %u at a time (--job-communicators)",
		group->job, group->n_comms, quota);
}
