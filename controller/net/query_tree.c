/* SPDX-License-Identifier: BSD-2-Clause */
/* The answer to "tree": the switches of each communicator's tree, and the ranks behind each
 * switch. */
#include "controller/core/comm.h"
#include "controller/core/core.h"
#include "controller/core/group.h"
#include "controller/core/switch.h"
#include "controller/net/ctl.h"

static json_t *ranks_json(const struct inc_ranks *ranks)
{
	char text[INC_RANKS_TEXT];

	inc_ranks_print(ranks, text, sizeof(text));
	return json_string(text);
}

static json_t *node_json(const struct inc_comm *comm, unsigned int n)
{
	const struct inc_tree_node *node = &comm->tree->nodes[n];
	const struct inc_core_switch *sw = comm->group->core->switches[node->sw];

	/* the mode of each switch is unknown if an earlier controller has made the tree */
	return json_pack("{s:s, s:s, s:s}", "switch", inc_switch_name(sw), "state",
			 sw->connected ? "connected" : "absent", "mode",
			 comm->tree->counted ? inc_modes_of_switch[node->mode] : "");
}

/* Makes the entry of an edge of a tree, from a switch to a child. rank is the number by which the
 * switch names the child. */
static json_t *edge_json(const struct inc_topo_switch *sw, unsigned int port, const char *child,
			 bool to_switch, bool draining, unsigned int rank,
			 const struct inc_ranks *ranks)
{
	return json_pack("{s:s, s:s, s:s, s:b, s:b, s:i, s:o}", "switch", sw->name, "port",
			 sw->ports[port].name, "child", child, "to_switch", (int)to_switch,
			 "draining", (int)draining, "rank", (int)rank, "ranks", ranks_json(ranks));
}

/* Whether the topology has the connection between two switches no longer, so that it drains. */
static bool link_drains(const struct inc_topology *topo, const struct inc_tree_node *node,
			unsigned int port, const struct inc_tree_node *below)
{
	const struct inc_topo_port *own = &topo->switches[node->sw].ports[port];

	for (unsigned int i = 0; i < own->n_peers; i++) {
		if (own->peers[i].to_switch && own->peers[i].index == below->sw)
			return own->peers[i].port != below->up_port;
	}
	return true;
}

static json_t *child_json(const struct inc_comm *comm, const struct inc_tree_node *node,
			  const struct inc_tree_child *child)
{
	const struct inc_topology *topo = comm->group->core->topo;
	struct inc_ranks ranks;

	inc_tree_child_ranks(comm->tree, child, &ranks);
	if (child->to_switch) {
		const struct inc_tree_node *below = &comm->tree->nodes[child->node];

		return edge_json(&topo->switches[node->sw], child->port,
				 topo->switches[below->sw].name, true,
				 link_drains(topo, node, child->port, below), below->first_rank,
				 &ranks);
	}
	return edge_json(&topo->switches[node->sw], child->port, topo->hosts[child->host].name,
			 false,
			 child->host >= topo->n_live_hosts ||
				 child->port >= topo->switches[node->sw].n_live_ports,
			 child->rank, &ranks);
}

/* Adds the edges of a communicator that comes from an earlier controller: those from switches to
 * their ranks' hosts. The edges between switches are unknown. */
static void add_known(const struct inc_comm *comm, json_t *edges)
{
	const struct inc_topology *topo = comm->group->core->topo;

	for (unsigned int rank = 0; rank < comm->group->world_size; rank++) {
		const struct inc_comm_member *m = &comm->members[rank];
		const struct inc_topo_host *host = &topo->hosts[m->route.host];
		struct inc_ranks ranks = {};

		if (!m->asked || inc_group_is_led(comm->group, rank))
			continue;
		inc_ranks_add(&ranks, rank);
		json_array_append_new(
			edges, edge_json(&topo->switches[host->sw], host->port, host->name, false,
					 m->route.host >= topo->n_live_hosts, rank, &ranks));
	}
}

json_t *inc_query_tree(const struct inc_comm *comm)
{
	const struct inc_tree *tree = comm->tree;
	json_t *nodes, *edges;

	if (!comm->number || !tree)
		return NULL;
	nodes = json_array();
	edges = json_array();
	for (unsigned int i = 0; i < tree->n; i++) {
		const struct inc_tree_node *node = &tree->nodes[i];

		json_array_append_new(nodes, node_json(comm, i));
		for (unsigned int k = 0; k < node->n_children; k++)
			json_array_append_new(
				edges,
				child_json(comm, node, &tree->children[node->first_child + k]));
	}
	if (!tree->counted)
		add_known(comm, edges);
	return json_pack("{s:I, s:s, s:i, s:i, s:s, s:i, s:b, s:o, s:o}", "communicator",
			 (json_int_t)comm->number, "job", comm->group->job, "channel",
			 (int)inc_channel_of(comm->index), "channels",
			 (int)inc_comm_count_channels(comm), "state", inc_comm_state_name(comm),
			 "payload", (int)comm->payload, "whole", (int)tree->counted, "nodes", nodes,
			 "edges", edges);
}
