/* SPDX-License-Identifier: BSD-2-Clause */
/* Rows of groups and communicators, as they are now. Called by keep.c inside a transaction. */
#include <stdio.h>
#include <string.h>
#include "controller/store/keep_priv.h"

static int put_rank(struct inc_store *store, struct inc_member *member, struct inc_err *err)
{
	const struct inc_topology *topo = member->group->ctl->topo;
	struct inc_kept_rank row = {
		.number = member->group->number,
		.rank = member->rank,
		.gone = member->present && !member->client,
	};

	strcpy(row.host, topo->hosts[member->host].name);
	strcpy(row.node, member->node);
	return inc_store_put(store, INC_KEPT_RANKS, &row, err);
}

int inc_kept_put_group(struct inc_store *store, struct inc_group *group, bool all,
		       struct inc_err *err)
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
	int ret;

	/* nobody has heard of its number yet */
	if (!inc_group_formed(group))
		return 0;
	strcpy(row.job, group->job);
	strcpy(row.over, group->over);
	snprintf(row.state, sizeof(row.state), "%s", inc_group_phase_name(group->phase));
	ret = inc_store_put(store, INC_KEPT_GROUPS, &row, err);
	for (unsigned int rank = 0; !ret && rank < group->world_size; rank++) {
		struct inc_member *member = &group->members[rank];

		if (all || member->unkept)
			ret = put_rank(store, member, err);
		member->unkept = false;
	}
	return ret;
}

static struct inc_kept_end kept_end(const struct inc_route_end *end)
{
	return (struct inc_kept_end){end->qpn, end->psn, end->udp_port, end->kind, end->given};
}

static int put_nodes(struct inc_store *store, const struct inc_comm *comm, struct inc_err *err)
{
	const struct inc_topo_switch *switches = comm->group->ctl->topo->switches;
	int ret = 0;

	for (unsigned int i = 0; !ret && i < comm->tree->n; i++) {
		const struct inc_tree_node *node = &comm->tree->nodes[i];
		struct inc_kept_node row = {
			.number = comm->number,
			.node = i,
			.mode = node->mode,
			.parent = node->parent + 1,
			.first_rank = node->first_rank,
			.up = kept_end(&node->up),
			.down = kept_end(&node->down),
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
			.sw = kept_end(&m->route.sw),
		};

		/* of an earlier controller's, what those have that have come back */
		if (!m->has_endpoint)
			continue;
		strcpy(row.transport, m->transport);
		ret = inc_store_put(store, INC_KEPT_MEMBERS, &row, err);
	}
	return ret;
}

int inc_kept_put_comm(struct inc_store *store, const struct inc_comm *comm, bool all,
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

	/* no switch has heard of it yet, or none has it any more */
	if (!comm->number || !comm->tree || comm->phase < COMM_CONFIGURING ||
	    comm->phase == COMM_REFUSED)
		return 0;
	strcpy(row.reason, comm->reason);
	/* it is written before its members are told, and fails when they have been */
	snprintf(row.state, sizeof(row.state), "%s",
		 failed ? inc_comm_phase_name(COMM_FAILED) : inc_comm_state_name(comm));
	ret = inc_store_put(store, INC_KEPT_COMMS, &row, err);
	if (!ret && all)
		ret = put_nodes(store, comm, err) ?: put_members(store, comm, err);
	return ret;
}
