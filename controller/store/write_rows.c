/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes rows of groups, communicators and switches as they are now. Called by persist.c inside a
 * transaction. An object that has ended since it changed is not written, because its removal
 * follows. */
#include <stdio.h>
#include <string.h>
#include "controller/core/comm.h"
#include "controller/core/core.h"
#include "controller/core/group.h"
#include "controller/core/switch.h"
#include "controller/store/store_priv.h"

static int put_rank(struct inc_store *store, const struct inc_member *member, struct inc_err *err)
{
	const struct inc_topology *topo = member->group->core->topo;
	struct inc_kept_rank row = {
		.number = member->group->number,
		.rank = member->rank,
		.gone = member->present && !member->client,
		.leader = member->leader,
	};

	if (!inc_group_formed(member->group))
		return 0;
	/* a group from the database may have a host that the topology lacks; it stays unknown */
	strcpy(row.host, member->host < topo->n_hosts ? topo->hosts[member->host].name : "-");
	strcpy(row.node, member->node);
	return inc_store_put(store, INC_KEPT_RANKS, &row, err);
}

static int put_ranks(struct inc_store *store, const struct inc_group *group, struct inc_err *err)
{
	int ret = 0;

	for (unsigned int rank = 0; !ret && rank < group->world_size; rank++)
		ret = put_rank(store, &group->members[rank], err);
	return ret;
}

static int put_group(struct inc_store *store, const struct inc_group *group, struct inc_err *err)
{
	struct inc_kept_group row = {
		.number = group->number,
		.world_size = group->world_size,
		.over_code = group->over_code,
		.of = group->of,
		.how = group->how,
		.derived = group->derived[0],
		.shrunk = group->derived[1],
	};

	/* A group that has not formed has no row, because no peer has its number yet. */
	if (!inc_group_formed(group))
		return 0;
	strcpy(row.job, group->job);
	strcpy(row.over, group->over);
	snprintf(row.state, sizeof(row.state), "%s", inc_group_phase_name(group->phase));
	return inc_store_put(store, INC_KEPT_GROUPS, &row, err);
}

static struct inc_kept_end kept_end(const struct inc_route_end *end)
{
	return (struct inc_kept_end){.end = end->end, .given = end->given};
}

static int put_nodes(struct inc_store *store, const struct inc_comm *comm, struct inc_err *err)
{
	const struct inc_topo_switch *switches = comm->group->core->topo->switches;
	int ret = 0;

	for (unsigned int i = 0; !ret && i < comm->tree->n; i++) {
		const struct inc_tree_node *node = &comm->tree->nodes[i];
		struct inc_kept_node row = {
			.number = comm->number,
			.node = i,
			.mode = node->mode,
			.parent = node->parent + 1,
			.first_rank = node->first_rank,
			.own = kept_end(&node->own),
			.peer = kept_end(&node->peer),
		};

		strcpy(row.sw, switches[node->sw].name);
		if (node->parent >= 0) {
			const unsigned int parent = comm->tree->nodes[node->parent].sw;

			strcpy(row.up_port, switches[node->sw].ports[node->up_port].name);
			strcpy(row.down_port, switches[parent].ports[node->down_port].name);
		}
		ret = inc_store_put(store, INC_KEPT_NODES, &row, err);
	}
	return ret;
}

static int put_members(struct inc_store *store, const struct inc_comm *comm, struct inc_err *err)
{
	int ret = 0;

	for (unsigned int rank = 0; !ret && rank < comm->group->world_size; rank++) {
		const struct inc_comm_member *m = &comm->members[rank];
		struct inc_kept_member row = {
			.number = comm->number,
			.rank = rank,
			.pkey = m->route.pkey,
			.udp_csum = m->route.udp_csum,
			.own = kept_end(&m->route.own),
			.peer = kept_end(&m->route.peer),
		};

		/* a member of an earlier controller's communicator gets its row when it comes
		 * back */
		if (!m->has_endpoint)
			continue;
		row.rail = comm->group->core->topo->hosts[m->route.host].rail;
		strcpy(row.transport, m->transport);
		ret = inc_store_put(store, INC_KEPT_MEMBERS, &row, err);
	}
	return ret;
}

static int put_comm(struct inc_store *store, const struct inc_comm *comm, bool whole,
		    struct inc_err *err)
{
	const bool failed = comm->code && comm->phase >= COMM_CONFIGURED;
	struct inc_kept_comm row = {
		.number = comm->number,
		.of = comm->group->number,
		.comm = comm->index,
		.place = comm->place,
		.code = comm->code,
		.payload = comm->payload,
		.slots = comm->slots,
		.byte_order = comm->byte_order,
		.mode = comm->mode,
		.floats = comm->floats,
		.message_packets = comm->message_packets,
		.messages = comm->messages,
		.counted = comm->tree && comm->tree->counted,
	};
	int ret;

	/* A communicator has a row from the time when its switches are asked to make it, until they
	 * remove it. */
	if (!comm->number || !comm->tree || comm->phase < COMM_CONFIGURING ||
	    comm->phase == COMM_REFUSED)
		return 0;
	strcpy(row.reason, comm->reason);
	/* A communicator that is about to fail gets the state FAILED in its row already. The row is
	 * written before members receive the failure, and the phase changes after that. */
	snprintf(row.state, sizeof(row.state), "%s",
		 failed ? inc_comm_phase_name(COMM_FAILED) : inc_comm_state_name(comm));
	ret = inc_store_put(store, INC_KEPT_COMMS, &row, err);
	if (!ret && whole)
		ret = put_nodes(store, comm, err) ?: put_members(store, comm, err);
	return ret;
}

/* Writes the row of a switch, or removes it if it has nothing to say. */
static int put_switch(struct inc_store *store, const struct inc_core_switch *sw,
		      struct inc_err *err)
{
	struct inc_kept_switch row = {
		.mode_set = sw->mode_set,
		.mode = sw->mode,
		.gone = sw->gone,
	};

	strcpy(row.name, inc_switch_name(sw));
	return row.mode_set || row.gone ? inc_store_put(store, INC_KEPT_SWITCHES, &row, err)
					: inc_store_drop(store, INC_KEPT_SWITCHES, row.name, err);
}

int inc_rows_write_numbers(struct inc_store *store, const struct inc_core *core,
			   struct inc_err *err)
{
	const struct inc_kept_numbers rows[] = {
		{INC_KEPT_GROUP_NUMBERS, core->group_numbers.first, core->group_numbers.next},
		{INC_KEPT_COMM_NUMBERS, core->comm_numbers.first, core->comm_numbers.next},
	};

	return inc_store_put(store, INC_KEPT_NUMBERS, &rows[0], err)
		       ?: inc_store_put(store, INC_KEPT_NUMBERS, &rows[1], err);
}

int inc_rows_write_all(struct inc_store *store, const struct inc_core *core, struct inc_err *err)
{
	const struct inc_group *group;
	const struct inc_comm *comm;
	int ret = inc_store_clear(store, err);

	for (unsigned int s = 0; !ret && s < core->topo->n_switches; s++)
		ret = put_switch(store, core->switches[s], err);
	LIST_FOREACH (group, &core->groups, entry) {
		ret = ret ?: put_group(store, group, err);
		ret = ret ?: put_ranks(store, group, err);
		LIST_FOREACH (comm, &group->comms, entry)
			ret = ret ?: put_comm(store, comm, true, err);
	}
	return ret;
}

static int drop(struct inc_store *store, const enum inc_kept_table *tables, size_t n,
		uint32_t number, struct inc_err *err)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < n; i++)
		ret = inc_store_drop(store, tables[i], &number, err);
	return ret;
}

static int put_comm_change(struct inc_store *store, struct inc_core *core,
			   const struct inc_action *change, struct inc_err *err)
{
	const struct inc_comm *comm = inc_comm_find(core, change->of);

	return comm ? put_comm(store, comm, change->stored == STORED_COMM, err) : 0;
}

/* Writes the row of the switch of this name, or removes it if the topology lacks that switch. */
static int put_switch_change(struct inc_store *store, const struct inc_core *core, const char *name,
			     struct inc_err *err)
{
	const int sw = inc_topology_switch_by_name(core->topo, name);

	return sw < 0 ? inc_store_drop(store, INC_KEPT_SWITCHES, name, err)
		      : put_switch(store, core->switches[sw], err);
}

int inc_rows_write_change(struct inc_store *store, struct inc_core *core,
			  const struct inc_action *change, struct inc_err *err)
{
	static const enum inc_kept_table of_group[] = {INC_KEPT_GROUPS, INC_KEPT_RANKS};
	static const enum inc_kept_table of_comm[] = {INC_KEPT_COMMS, INC_KEPT_NODES,
						      INC_KEPT_MEMBERS};
	const struct inc_group *group = inc_group_find(core, change->of);

	switch (change->stored) {
	case STORED_NO_GROUP:
		return drop(store, of_group, 2, change->of, err);
	case STORED_NO_COMM:
		return drop(store, of_comm, 3, change->of, err);
	case STORED_COMM:
	case STORED_STATE:
		return put_comm_change(store, core, change, err);
	case STORED_GROUP:
		return group ? put_group(store, group, err) : 0;
	case STORED_RANKS:
		return group ? put_ranks(store, group, err) : 0;
	case STORED_RANK:
		return group ? put_rank(store, &group->members[change->rank], err) : 0;
	case STORED_SWITCH:
		return put_switch_change(store, core, (const char *)change->payload, err);
	}
	return 0;
}
