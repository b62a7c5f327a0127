/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include "lib/proto/roce.h"
#include "controller/core/route.h"

#define NO_PARENT UINT_MAX

/* parent[s]: next switch on a shortest path from s to the root; port[s]: towards it */
static void search(const struct inc_topology *topo, unsigned int root, unsigned int *parent,
		   unsigned int *port, unsigned int *depth)
{
	unsigned int queue[INC_TOPO_MAX_SWITCHES], head = 0, tail = 0;

	for (unsigned int s = 0; s < topo->n_switches; s++)
		parent[s] = NO_PARENT;
	parent[root] = root;
	depth[root] = 0;
	queue[tail++] = root;
	for (; head < tail; head++) {
		unsigned int s = queue[head];

		for (unsigned int p = 0; p < topo->switches[s].n_ports; p++) {
			const struct inc_topo_port *down = &topo->switches[s].ports[p];

			if (!down->to_switch || parent[down->peer] != NO_PARENT)
				continue;
			parent[down->peer] = s;
			port[down->peer] = down->peer_port;
			depth[down->peer] = depth[s] + 1;
			queue[tail++] = down->peer;
		}
	}
}

static unsigned int common_ancestor(const unsigned int *parent, const unsigned int *depth,
				    unsigned int a, unsigned int b)
{
	while (a != b) {
		if (depth[a] >= depth[b])
			a = parent[a];
		else
			b = parent[b];
	}
	return a;
}

static int node_of_switch(const struct inc_tree *tree, unsigned int sw)
{
	for (unsigned int i = 0; i < tree->n; i++) {
		if (tree->nodes[i].sw == sw)
			return i;
	}
	return -1;
}

/* Appends the path from sw up to what the tree has, parents first. */
static void add_path(struct inc_tree *tree, const unsigned int *parent, const unsigned int *port,
		     unsigned int sw, unsigned int rank)
{
	unsigned int path[INC_TOPO_MAX_SWITCHES], n = 0;
	int at;

	while ((at = node_of_switch(tree, sw)) < 0) {
		path[n++] = sw;
		sw = parent[sw];
	}
	while (n--) {
		struct inc_tree_node *node = &tree->nodes[tree->n];

		node->sw = path[n];
		node->parent = at;
		node->up_port = port[path[n]];
		node->first_rank = rank;
		at = tree->n++;
	}
}

int inc_route_compute(const struct inc_topology *topo, const unsigned int *hosts,
		      unsigned int n_hosts, struct inc_tree **out, struct inc_err *err)
{
	unsigned int parent[INC_TOPO_MAX_SWITCHES], port[INC_TOPO_MAX_SWITCHES] = {0};
	unsigned int depth[INC_TOPO_MAX_SWITCHES] = {0};
	unsigned int top, root = 0;
	struct inc_tree *tree;

	if (!n_hosts)
		return inc_err_set(err, EINVAL, "a communicator without members has no route");
	while (root < topo->n_switches && !topo->switches[root].root)
		root++;
	if (root == topo->n_switches)
		return inc_err_set(err, EINVAL, "the topology has no root switch");
	search(topo, root, parent, port, depth);
	top = topo->hosts[hosts[0]].sw;
	for (unsigned int i = 0; i < n_hosts; i++) {
		const struct inc_topo_host *host = &topo->hosts[hosts[i]];

		if (parent[host->sw] == NO_PARENT)
			return inc_err_set(err, EHOSTUNREACH, "no path from %s to switch %s",
					   host->name, topo->switches[root].name);
		top = common_ancestor(parent, depth, top, host->sw);
	}
	tree = calloc(1, sizeof(*tree) + topo->n_switches * sizeof(tree->nodes[0]));
	if (!tree)
		return inc_err_set(err, ENOMEM, "out of memory");
	tree->n = 1;
	tree->nodes[0].sw = top;
	tree->nodes[0].parent = -1;
	for (unsigned int i = 0; i < n_hosts; i++)
		add_path(tree, parent, port, topo->hosts[hosts[i]].sw, i);
	*out = tree;
	return 0;
}

int inc_route_node(const struct inc_tree *tree, const struct inc_topology *topo, unsigned int host)
{
	return node_of_switch(tree, topo->hosts[host].sw);
}

static void host_connection(const struct inc_route_comm *comm, const struct inc_topo_port *port,
			    const struct inc_route_member *member, unsigned int rank,
			    struct inc_conn_conf *c)
{
	*c = (struct inc_conn_conf){
		.rank = rank,
		.own_ip = port->ip,
		.own_port = INC_ROCE_UDP_PORT,
		.own_qp = member->sw.qpn,
		.own_psn = member->sw.psn,
		.peer_ip = comm->topo->hosts[member->host].ip,
		.peer_port = member->udp_port,
		.peer_qp = member->own.qpn,
		.peer_psn = member->own.psn,
		.pkey = member->pkey,
		.udp_csum = member->udp_csum,
	};
	strcpy(c->port, port->name);
}

/* Between switches, seen from the end that owns the port. */
static void switch_connection(const struct inc_route_comm *comm, const struct inc_topo_port *port,
			      bool up, unsigned int rank, const struct inc_route_end *own,
			      const struct inc_route_end *peer, struct inc_conn_conf *c)
{
	*c = (struct inc_conn_conf){
		.up = up,
		.rank = rank,
		.own_ip = port->ip,
		.own_port = INC_ROCE_UDP_PORT,
		.own_qp = own->qpn,
		.own_psn = own->psn,
		.peer_ip = comm->topo->switches[port->peer].ports[port->peer_port].ip,
		.peer_port = INC_ROCE_UDP_PORT,
		.peer_qp = peer->qpn,
		.peer_psn = peer->psn,
		.pkey = INC_PKEY_DEFAULT,
	};
	strcpy(c->port, port->name);
}

static struct inc_conn_conf *next_connection(struct inc_comm_conf *conf)
{
	return conf->n_conns < INC_MAX_CONNECTIONS ? &conf->conn[conf->n_conns++] : NULL;
}

/* False where there are more than a switch can have. */
static bool add_children(const struct inc_route_comm *comm, unsigned int n, unsigned int p,
			 struct inc_comm_conf *conf)
{
	const struct inc_tree_node *node = &comm->tree->nodes[n];
	const struct inc_topo_port *port = &comm->topo->switches[node->sw].ports[p];
	struct inc_conn_conf *c;

	for (unsigned int i = 0; port->to_switch && i < comm->tree->n; i++) {
		const struct inc_tree_node *child = &comm->tree->nodes[i];

		if (child->parent != (int)n || child->sw != port->peer)
			continue;
		c = next_connection(conf);
		if (!c)
			return false;
		switch_connection(comm, port, false, child->first_rank, &child->down, &child->up,
				  c);
	}
	for (unsigned int rank = 0; !port->to_switch && rank < comm->n_members; rank++) {
		const struct inc_route_member *member = comm->member(comm->arg, rank);

		if (member->host != port->peer)
			continue;
		c = next_connection(conf);
		if (!c)
			return false;
		host_connection(comm, port, member, rank, c);
	}
	return true;
}

int inc_route_config(const struct inc_route_comm *comm, unsigned int n, struct inc_comm_conf *conf)
{
	const struct inc_tree_node *node = &comm->tree->nodes[n];
	const struct inc_topo_switch *sw = &comm->topo->switches[node->sw];
	struct inc_conn_conf *c;

	*conf = (struct inc_comm_conf){
		.communicator = comm->communicator,
		.root = node->parent < 0,
		.payload = comm->payload,
		.slots = comm->slots,
		.byte_order = comm->byte_order,
	};
	for (unsigned int p = 0; p < sw->n_ports; p++) {
		if (!add_children(comm, n, p, conf))
			return -E2BIG;
	}
	if (!conf->root) {
		c = next_connection(conf);
		if (!c)
			return -E2BIG;
		switch_connection(comm, &sw->ports[node->up_port], true, node->first_rank,
				  &node->up, &node->down, c);
	}
	return 0;
}
