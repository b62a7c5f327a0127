/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/proto/roce.h"
#include "controller/core/tree.h"

int inc_tree_find(const struct inc_tree *tree, unsigned int sw)
{
	for (unsigned int i = 0; i < tree->n; i++) {
		if (tree->nodes[i].sw == sw)
			return i;
	}
	return -1;
}

struct inc_load inc_tree_node_takes(const struct inc_tree *tree, unsigned int n)
{
	const struct inc_tree_node *node = &tree->nodes[n];
	const unsigned int slots = node->mode == INC_PASSTHROUGH ? tree->slots : 0;

	return inc_load_of(node->n_children + (node->parent >= 0), slots);
}

/* Adds a rank to the set, and the ranks that it leads. */
static void add_led(const struct inc_tree *tree, unsigned int leader, struct inc_ranks *ranks)
{
	inc_ranks_add(ranks, leader);
	for (unsigned int rank = 0; tree->leader && rank < tree->n_ranks; rank++)
		if (tree->leader[rank] == leader)
			inc_ranks_add(ranks, rank);
}

void inc_tree_ranks(const struct inc_tree *tree, unsigned int n, struct inc_ranks *ranks)
{
	const struct inc_tree_node *node = &tree->nodes[n], *last = node + node->size - 1;

	memset(ranks, 0, sizeof(*ranks));
	for (unsigned int i = node->first_child; i < last->first_child + last->n_children; i++) {
		if (!tree->children[i].to_switch)
			add_led(tree, tree->children[i].rank, ranks);
	}
}

void inc_tree_child_ranks(const struct inc_tree *tree, const struct inc_tree_child *child,
			  struct inc_ranks *ranks)
{
	memset(ranks, 0, sizeof(*ranks));
	if (child->to_switch)
		inc_tree_ranks(tree, child->node, ranks);
	else
		add_led(tree, child->rank, ranks);
}

int inc_tree_lead(struct inc_tree *tree, const unsigned int *leader, unsigned int n)
{
	unsigned int *rank_of = calloc(n, sizeof(*rank_of)), leaders = 0;

	tree->leader = calloc(n, sizeof(*tree->leader));
	tree->n_ranks = n;
	if (!rank_of || !tree->leader) {
		free(rank_of);
		return -ENOMEM;
	}
	memcpy(tree->leader, leader, n * sizeof(*leader));
	for (unsigned int rank = 0; rank < n; rank++)
		if (leader[rank] == rank)
			rank_of[leaders++] = rank;
	for (unsigned int i = 0; i < tree->n_children; i++)
		if (!tree->children[i].to_switch)
			tree->children[i].rank = rank_of[tree->children[i].rank];
	free(rank_of);
	for (unsigned int i = 0; i < tree->n; i++) {
		struct inc_ranks below;

		inc_tree_ranks(tree, i, &below);
		tree->nodes[i].first_rank = inc_ranks_next(&below, 0);
	}
	return 0;
}

const struct inc_tree_child *inc_tree_child_of(const struct inc_tree *tree, unsigned int n,
					       unsigned int rank)
{
	const struct inc_tree_node *node = &tree->nodes[n];

	for (unsigned int i = 0; i < node->n_children; i++) {
		const struct inc_tree_child *child = &tree->children[node->first_child + i];

		if (rank == (child->to_switch ? tree->nodes[child->node].first_rank : child->rank))
			return child;
	}
	return NULL;
}

void inc_tree_describe(const struct inc_tree *tree, const struct inc_topology *topo,
		       unsigned int node, char *buf, size_t size)
{
	char end[64], machines[32] = "";
	unsigned int hosts = tree->n_children + 1 - tree->n;
	size_t used, room;

	if (tree->leader)
		snprintf(machines, sizeof(machines), ", %u machines", hosts);
	snprintf(end, sizeof(end), "%s of %u switch%s%s", topo->switches[tree->nodes[0].sw].name,
		 tree->n, tree->n == 1 ? "" : "es", machines);
	room = size - strlen(end) - sizeof("... > ");
	for (used = 0; tree->nodes[node].parent >= 0; node = tree->nodes[node].parent) {
		const char *name = topo->switches[tree->nodes[node].sw].name;

		if (used + strlen(name) + strlen(" > ") > room) {
			used += sprintf(buf + used, "... > ");
			break;
		}
		used += sprintf(buf + used, "%s > ", name);
	}
	strcpy(buf + used, end);
}

/* Fills in both ends of a connection for a switch's configuration. The peer's numbers are left out
 * if the peer is a switch that has not chosen them yet. */
static void set_ends(const struct inc_route_end *own, const struct inc_topo_port *port,
		     const struct inc_route_end *peer, struct inc_addr peer_ip,
		     struct inc_conn_conf *c)
{
	strcpy(c->port, port->name);
	c->own = own->end;
	c->own.ip = port->ip;
	c->has_own_psn = true;
	if (!own->open && !c->own.udp_port)
		c->own.udp_port = INC_ROCE_UDP_PORT;
	c->peer = peer->open ? (struct inc_rc_end){.kind = peer->end.kind} : peer->end;
	c->peer.ip = peer_ip;
	c->has_peer_psn = !peer->open;
	if (!peer->open && !c->peer.udp_port)
		c->peer.udp_port = INC_ROCE_UDP_PORT;
}

/* Fills in the settings of the queue pair. In passthrough mode they are the traffic class, which an
 * older switch does not know. */
static void set_verbs(const struct inc_route_comm *comm, const struct inc_tree_node *node,
		      const struct inc_topo_port *port, struct inc_conn_conf *c)
{
	if (node->mode == INC_TERMINATION || comm->has_classes)
		inc_conn_conf_add_verbs(c, &port->verbs);
}

static void host_connection(const struct inc_route_comm *comm, const struct inc_tree_node *node,
			    const struct inc_tree_child *child, struct inc_conn_conf *c)
{
	const struct inc_topo_port *port = &comm->topo->switches[node->sw].ports[child->port];
	const unsigned int rank = child->rank;
	const struct inc_route_member *member = comm->member(comm->arg, rank);

	*c = (struct inc_conn_conf){
		.rank = rank,
		.pkey = member->pkey,
		.udp_csum = member->udp_csum,
	};
	set_ends(&member->peer, port, &member->own, comm->topo->hosts[member->host].ip, c);
	set_verbs(comm, node, port, c);
}

/* Fills in the connection between a node and its parent, seen from the node (up) or from the
 * parent. */
static void switch_connection(const struct inc_route_comm *comm, const struct inc_tree_node *node,
			      bool up, struct inc_conn_conf *c)
{
	const struct inc_tree_node *parent = &comm->tree->nodes[node->parent];
	const unsigned int sws[] = {node->sw, parent->sw};
	const unsigned int ports[] = {node->up_port, node->down_port};
	const struct inc_route_end *ends[] = {&node->own, &node->peer};
	const struct inc_topo_port *own = &comm->topo->switches[sws[!up]].ports[ports[!up]];
	const struct inc_topo_port *peer = &comm->topo->switches[sws[up]].ports[ports[up]];
	const uint8_t *mac = comm->mac(comm->arg, sws[up], ports[up]);

	*c = (struct inc_conn_conf){
		.up = up,
		.rank = node->first_rank,
		.has_peer_mac = mac,
		.pkey = INC_PKEY_DEFAULT,
	};
	set_ends(ends[!up], own, ends[up], peer->ip, c);
	if (mac)
		memcpy(c->peer_mac, mac, sizeof(c->peer_mac));
	set_verbs(comm, up ? node : parent, own, c);
}

int inc_route_config(const struct inc_route_comm *comm, unsigned int n, struct inc_comm_conf *conf)
{
	const struct inc_tree_node *node = &comm->tree->nodes[n];

	conf->communicator = comm->communicator;
	conf->root = node->parent < 0;
	conf->payload = comm->payload;
	conf->slots = comm->slots;
	conf->byte_order = comm->byte_order;
	conf->has_reorder = conf->reorder = comm->reorder;
	conf->has_mode = true;
	conf->mode = node->mode;
	conf->message_packets = node->mode == INC_PASSTHROUGH ? 0 : comm->message_packets;
	conf->messages = node->mode == INC_PASSTHROUGH ? 0 : comm->messages;
	conf->floats = node->mode == INC_PASSTHROUGH ? INC_FLOATS_FIXED : comm->floats;
	conf->n_conns = 0;
	if (node->n_children + !conf->root > INC_COMM_MAX_CONNECTIONS)
		return -E2BIG;
	for (unsigned int i = 0; i < node->n_children; i++) {
		const struct inc_tree_child *child = &comm->tree->children[node->first_child + i];
		struct inc_conn_conf *c = &conf->conn[conf->n_conns++];

		if (!child->to_switch) {
			host_connection(comm, node, child, c);
			inc_tree_child_ranks(comm->tree, child, &c->ranks);
			c->has_ranks = c->has_machine = c->is_machine =
				inc_ranks_count(&c->ranks) > 1;
			continue;
		}
		switch_connection(comm, &comm->tree->nodes[child->node], false, c);
		c->has_ranks = true;
		inc_tree_ranks(comm->tree, child->node, &c->ranks);
	}
	if (!conf->root)
		switch_connection(comm, node, true, &conf->conn[conf->n_conns++]);
	return 0;
}
