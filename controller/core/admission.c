/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who has how much: a job's share, which is asked before a communicator gets its tree, and who
 * holds what a switch has no more of (route.h says that it has none, or the switch itself does).
 * What a switch holds of an earlier controller, whose jobs have not come back, is nobody's here.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "controller/ctl.h"

/* What a group has on a switch: what is counted there for its trees (route.h) and not refused. */
static void add_group(struct inc_load *load, const struct inc_group *group,
		      const struct inc_switch *sw)
{
	const struct inc_tree_node *node;
	const struct inc_comm *comm;
	int i;

	LIST_FOREACH(comm, &group->comms, entry)
	{
		i = comm->tree && comm->configs ? inc_tree_find(comm->tree, sw->index) : -1;
		if (i < 0 || comm->configs[i] == CONFIG_REFUSED)
			continue;
		node = &comm->tree->nodes[i];
		load->communicators++;
		load->connections += node->n_children + (node->parent >= 0);
		load->rows += (uint64_t)(node->n_children + (node->parent >= 0)) * comm->slots;
		load->slots += comm->slots;
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

/* All groups of a run of a job, whatever was made of the first one. */
#define FOREACH_OF_FAMILY(group, of)                   \
	LIST_FOREACH(group, &(of)->ctl->groups, entry) \
	if ((group)->family == (of)->family)

/* A group of the job that has most of what stands at offset; NULL: none has any. */
static const struct inc_group *find_holder(const struct inc_switch *sw, size_t offset,
					   struct inc_load *held)
{
	const struct inc_group *group, *relative, *holder = NULL;

	*held = (struct inc_load){};
	LIST_FOREACH(group, &sw->ctl->groups, entry)
	{
		struct inc_load load = {};

		FOREACH_OF_FAMILY(relative, group)
		add_group(&load, relative, sw);
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

/* Whether a switch lacks something for so many hosts of a communicator, and what. A limit of 0 is
 * one that it has not said. */
static bool name_lack(const struct inc_comm *comm, const struct inc_switch *sw, unsigned int hosts,
		      struct inc_err *err)
{
	const struct inc_route_use *use = inc_routes_use(sw->ctl->routes, sw->index);
	const struct inc_msg_limits *limits = inc_routes_limits(sw->ctl->routes, sw->index);
	const struct {
		const char *what;
		size_t offset;
		uint64_t want, used, limit;
	} parts[] = {
		{"communicators", offsetof(struct inc_load, communicators), 1, use->communicators,
		 limits->groups},
		{"connections", offsetof(struct inc_load, connections), hosts, use->connections,
		 limits->connections},
		{"contribution rows", offsetof(struct inc_load, rows),
		 (uint64_t)hosts * comm->slots, use->rows, limits->rows},
	};
	const struct inc_group *holder;
	char most[CTL_NAME_MAX + 48] = "";
	struct inc_load held;

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		const uint64_t want = parts[i].want, used = parts[i].used, limit = parts[i].limit;

		if (!limit || used + want <= limit)
			continue;
		holder = find_holder(sw, parts[i].offset, &held);
		if (holder)
			snprintf(most, sizeof(most), "; job %s holds most, %llu", holder->job,
				 (unsigned long long)part_of(&held, parts[i].offset));
		inc_err_set(err, ENOSPC, "switch %s: job %s wants %llu %s, %llu of %llu are free%s",
			    inc_switch_name(sw), comm->group->job, (unsigned long long)want,
			    parts[i].what, (unsigned long long)(used < limit ? limit - used : 0),
			    (unsigned long long)limit, most);
		return true;
	}
	return false;
}

void inc_comm_name_holder(const struct inc_comm *comm, struct inc_err *err)
{
	const struct inc_ctl *ctl = comm->group->ctl;
	const struct inc_member *members = comm->group->members;

	for (unsigned int rank = 0; rank < comm->group->world_size; rank++) {
		const unsigned int sw = ctl->topo->hosts[members[rank].host].sw;
		unsigned int hosts = 0;

		for (unsigned int other = 0; other < comm->group->world_size; other++)
			hosts += ctl->topo->hosts[members[other].host].sw == sw;
		if (name_lack(comm, &ctl->switches[sw], hosts, err))
			return;
	}
}

int inc_comm_admit(const struct inc_comm *comm, struct inc_err *err)
{
	const unsigned int quota = comm->group->ctl->opt.job_slots;
	const struct inc_group *group;
	const struct inc_comm *other;
	uint64_t has = 0;

	FOREACH_OF_FAMILY(group, comm->group)
	LIST_FOREACH(other, &group->comms, entry)
	has += other != comm && other->tree ? other->slots : 0;
	if (!quota || has + comm->slots <= quota)
		return 0;
	return inc_err_set(err, EDQUOT,
			   "job %s wants %u slots, has %llu and may have %u (--job-slots)",
			   comm->group->job, comm->slots, (unsigned long long)has, quota);
}

int inc_group_admit(const struct inc_group *group, struct inc_err *err)
{
	const unsigned int quota = group->ctl->opt.job_communicators;
	const struct inc_group *relative;
	unsigned int has = 0;

	/* whatever its job may have, it can name no more when it resumes */
	if (group->n_comms == CTL_MAX_COMMS)
		return inc_err_set(err, EDQUOT, "group %u of job %s has %u communicators at a time",
				   group->number, group->job, CTL_MAX_COMMS);
	FOREACH_OF_FAMILY(relative, group)
	has += relative->n_comms;
	if (has < quota)
		return 0;
	return inc_err_set(
		err, EDQUOT,
		"job %s has %u communicators and may have %u at a time (--job-communicators)",
		group->job, has, quota);
}
