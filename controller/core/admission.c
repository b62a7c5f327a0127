/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counts how much of each resource every job uses. This serves quotas, which are checked before a
 * communicator gets its tree, and the job that uses most of a resource that is used up. Either
 * route.h finds that a switch is full, or the switch itself refuses. A communicator that a switch
 * has from an earlier controller, and that no member has claimed, belongs to no job.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "controller/core/admission.h"
#include "controller/core/comm.h"
#include "controller/core/core.h"
#include "controller/core/group.h"
#include "controller/core/route.h"
#include "controller/core/switch.h"

/* A job gets channels that it has not asked for only while less than 1 / SPARE_PART of each
 * resource is in use. So the rest suffices for nearly as many communicators as without channels. */
#define SPARE_PART 4

/* Adds to load the resources that the group's communicators use on a switch. Communicators that the
 * switch has refused do not count. */
static void add_group(struct inc_load *load, const struct inc_group *group,
		      const struct inc_core_switch *sw)
{
	const struct inc_comm *comm;
	int i;

	LIST_FOREACH (comm, &group->comms, entry) {
		i = comm->tree && comm->configs ? inc_tree_find(comm->tree, sw->index) : -1;
		if (i < 0 || comm->configs[i] == CONFIG_REFUSED)
			continue;
		inc_load_add(load, inc_tree_node_takes(comm->tree, i), 1);
	}
}

void inc_switch_load(const struct inc_core_switch *sw, struct inc_load *load)
{
	const struct inc_group *group;

	*load = (struct inc_load){};
	LIST_FOREACH (group, &sw->core->groups, entry)
		add_group(load, group, sw);
}

/* A job is all groups of one name. A new run may use the name while groups of an earlier run still
 * end, and the job includes both until then. */
#define FOREACH_OF_JOB(group, of)                        \
	LIST_FOREACH (group, &(of)->core->groups, entry) \
		if (strcmp((group)->job, (of)->job) == 0)

static uint64_t part_of(const struct inc_load *load, size_t offset)
{
	return *(const uint64_t *)((const char *)load + offset);
}

/* Finds the job that uses most of the resource whose figure is at this offset of struct inc_load,
 * and returns one of the job's groups. NULL: no job uses any. */
static const struct inc_group *find_holder(const struct inc_core_switch *sw, size_t offset,
					   struct inc_load *held)
{
	const struct inc_group *group, *other, *holder = NULL;

	*held = (struct inc_load){};
	LIST_FOREACH (group, &sw->core->groups, entry) {
		struct inc_load load = {};

		FOREACH_OF_JOB (other, group)
			add_group(&load, other, sw);
		if (part_of(&load, offset) > part_of(held, offset)) {
			*held = load;
			holder = group;
		}
	}
	return holder;
}

void inc_switch_holder(const struct inc_core_switch *sw, char *buf, size_t size)
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

void inc_comm_name_holder(const struct inc_comm *comm, struct inc_err *err)
{
	const struct inc_core *core = comm->group->core;
	const struct inc_route_lack *lack = inc_routes_lack(core->routes);
	const struct inc_err why = *err;
	const struct inc_group *holder;
	struct inc_load held;

	holder = lack ? find_holder(core->switches[lack->sw], lack->figure, &held) : NULL;
	if (holder)
		inc_err_set(err, ENOSPC, "%s; job %s holds most, %llu", why.msg, holder->job,
			    (unsigned long long)part_of(&held, lack->figure));
}

struct inc_job_load inc_group_load(const struct inc_group *group)
{
	struct inc_job_load load = {.communicators = group->n_comms};
	const struct inc_comm *comm;

	LIST_FOREACH (comm, &group->comms, entry)
		load.slots += comm->tree ? comm->slots : 0;
	return load;
}

struct inc_job_load inc_job_load(const struct inc_group *group)
{
	const struct inc_group *other;
	struct inc_job_load sum = {};

	FOREACH_OF_JOB (other, group) {
		const struct inc_job_load load = inc_group_load(other);

		sum.communicators += load.communicators;
		sum.slots += load.slots;
	}
	return sum;
}

int inc_comm_admit(const struct inc_comm *comm, struct inc_err *err)
{
	const unsigned int quota = comm->group->core->opt.job_slots;
	/* The communicator to be checked has no tree yet, so the job's load does not include it. */
	const uint64_t has = inc_job_load(comm->group).slots;

	if (!quota || has + comm->slots <= quota)
		return 0;
	return inc_err_set(err, EDQUOT,
			   "job %s wants %u slots, has %llu and may have %u (--job-slots)",
			   comm->group->job, comm->slots, (unsigned long long)has, quota);
}

/* Reduces n, a number of further communicators, to those that fit into a quarter of a resource
 * beside what is in use. Each of them needs `each` of the resource. */
static unsigned int fit(unsigned int n, uint64_t limit, uint64_t used, uint64_t each)
{
	const uint64_t part = limit / SPARE_PART, left = part > used ? part - used : 0;

	return each && n * each > left ? left / each : n;
}

/* Reduces n, a number of further communicators, to those for which a node's switch has room. In
 * termination mode a switch has no rows, so these are not counted. */
static unsigned int fit_switch(const struct inc_comm *comm, unsigned int node, unsigned int n)
{
	const struct inc_core_switch *sw = comm->group->core->switches[comm->tree->nodes[node].sw];
	const struct inc_msg_limits *limits = &sw->engines[comm->tree->nodes[node].mode].limits;
	const struct inc_load each = inc_tree_node_takes(comm->tree, node);
	struct inc_load load;

	inc_switch_load(sw, &load);
	n = fit(n, limits->communicators, load.communicators, each.communicators);
	n = fit(n, limits->connections, load.connections, each.connections);
	return each.rows ? fit(n, limits->rows, load.rows, each.rows) : n;
}

unsigned int inc_comm_spare(const struct inc_comm *comm, unsigned int n)
{
	const struct inc_core_options *opt = &comm->group->core->opt;
	const struct inc_job_load load = inc_job_load(comm->group);

	n = fit(n, CTL_MAX_COMMS, comm->group->n_comms, 1);
	n = fit(n, opt->job_communicators, load.communicators, 1);
	if (opt->job_slots)
		n = fit(n, opt->job_slots, load.slots, comm->slots);
	for (unsigned int i = 0; i < comm->tree->n; i++)
		n = fit_switch(comm, i, n);
	return n;
}

int inc_group_admit(const struct inc_group *group, struct inc_err *err)
{
	const unsigned int quota = group->core->opt.job_communicators;
	const uint64_t has = inc_job_load(group).communicators;

	/* A group cannot have more than CTL_MAX_COMMS, even if the quota is higher, because a
	 * message resume can list no more communicators. */
	if (group->n_comms == CTL_MAX_COMMS)
		return inc_err_set(err, EDQUOT, "group %u of job %s has %u communicators at a time",
				   group->number, group->job, CTL_MAX_COMMS);
	if (has < quota)
		return 0;
	return inc_err_set(
		err, EDQUOT,
		"job %s has %llu communicators and may have %u at a time (--job-communicators)",
		group->job, (unsigned long long)has, quota);
}
