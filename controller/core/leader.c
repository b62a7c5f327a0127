/* SPDX-License-Identifier: BSD-2-Clause */
/* Ranks that share memory. If all ranks of a group are on one machine, they need no switch. In a
 * group that spans machines each machine's lowest rank leads the others, and has their connection
 * to the switch. Called by the rest of core/. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "controller/core/comm.h"
#include "controller/core/core.h"
#include "controller/core/group.h"

const char *inc_group_meeting(const struct inc_group *group)
{
	const struct inc_member *first = &group->members[0];

	if (group->world_size > INC_MAX_NODE_RANKS)
		return "";
	for (unsigned int rank = 1; rank < group->world_size; rank++) {
		if (strcmp(group->members[rank].machine, first->machine) != 0)
			return "";
	}
	return *first->machine ? first->meeting : "";
}

/* Whether two ranks use one connection of a switch if their group spans machines. A machine
 * whose NICs are several hosts of the topology has a leader for each of them. */
static bool are_together(const struct inc_member *a, const struct inc_member *b)
{
	return a->host == b->host && strcmp(a->machine, b->machine) == 0;
}

unsigned int inc_group_find_leaders(struct inc_group *group)
{
	unsigned int n = 0, led[CTL_MAX_WORLD] = {0};
	bool possible = !*inc_group_meeting(group);

	for (unsigned int rank = 0; rank < group->world_size && possible; rank++) {
		struct inc_member *member = &group->members[rank];

		member->leader = 0;
		while (!are_together(&group->members[member->leader], member))
			member->leader++;
		n += member->leader == rank;
		possible = *member->machine && member->spans &&
			   ++led[member->leader] <= INC_MAX_NODE_RANKS;
	}
	if (possible)
		return n;
	for (unsigned int rank = 0; rank < group->world_size; rank++)
		group->members[rank].leader = rank;
	return group->world_size;
}

/* Finds the ranks that have the member's connection to the switch, itself included. */
static void find_led(const struct inc_member *member, struct inc_ranks *ranks)
{
	const struct inc_group *group = member->group;

	memset(ranks, 0, sizeof(*ranks));
	for (unsigned int rank = 0; rank < group->world_size; rank++)
		if (group->members[rank].leader == member->leader)
			inc_ranks_add(ranks, rank);
}

const char *inc_leader_name(const struct inc_member *member)
{
	static char text[200];
	struct inc_ranks led;
	char ranks[80];

	find_led(member, &led);
	if (inc_ranks_count(&led) == 1)
		return inc_member_name(member);
	inc_ranks_print(&led, ranks, sizeof(ranks));
	snprintf(text, sizeof(text), "%s, which leads ranks %s", inc_member_name(member), ranks);
	return text;
}

unsigned int inc_comm_leader_hosts(const struct inc_comm *comm, unsigned int *hosts)
{
	unsigned int n = 0;

	for (unsigned int rank = 0; rank < comm->group->world_size; rank++) {
		if (!inc_group_is_led(comm->group, rank))
			hosts[n++] = comm->members[rank].route.host;
	}
	return n;
}

int inc_group_lead_tree(const struct inc_group *group, struct inc_tree *tree, struct inc_err *err)
{
	unsigned int leader[CTL_MAX_WORLD];

	for (unsigned int rank = 0; rank < group->world_size; rank++)
		leader[rank] = group->members[rank].leader;
	return inc_tree_lead(tree, leader, group->world_size)
		       ? inc_err_set(err, ENOMEM, "out of memory")
		       : 0;
}

void inc_group_announce(const struct inc_member *member, struct inc_msg_joined *joined)
{
	const struct inc_group *group = member->group;

	strcpy(joined->meeting, inc_group_meeting(group));
	if (*joined->meeting)
		return;
	find_led(member, &joined->machine_ranks);
	joined->has_machine_ranks = inc_ranks_count(&joined->machine_ranks) > 1;
	if (joined->has_machine_ranks)
		strcpy(joined->meeting, group->members[member->leader].meeting);
}

void inc_comm_mark_led(struct inc_comm *comm)
{
	for (unsigned int rank = 0; rank < comm->group->world_size; rank++) {
		struct inc_comm_member *member = &comm->members[rank];

		member->asked = member->ready = member->destroyed =
			inc_group_is_led(comm->group, rank);
	}
}
