/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
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

static const char *ip_text(struct in_addr ip, char buf[INET_ADDRSTRLEN])
{
	return inet_ntop(AF_INET, &ip, buf, INET_ADDRSTRLEN);
}

static json_t *host_connection(const struct inc_route_comm *comm, const struct inc_topo_port *port,
			       const struct inc_route_member *member, unsigned int rank)
{
	char my_ip[INET_ADDRSTRLEN], peer_ip[INET_ADDRSTRLEN];
	const struct inc_topo_host *host = &comm->topo->hosts[member->host];

	return json_pack("{s:b, s:i, s:s, s:s, s:i, s:I, s:I, s:s, s:i, s:I, s:I, s:i, s:b}", "up",
			 0, "host_id", (int)rank, "my_name", port->name, "my_ip",
			 ip_text(port->ip, my_ip), "my_port", INC_ROCE_UDP_PORT, "my_qp",
			 (json_int_t)member->sw.qpn, "my_psn", (json_int_t)member->sw.psn,
			 "peer_ip", ip_text(host->ip, peer_ip), "peer_port", (int)member->udp_port,
			 "peer_qp", (json_int_t)member->own.qpn, "psn", (json_int_t)member->own.psn,
			 "pkey", (int)member->pkey, "udp_csum", (int)member->udp_csum);
}

/* Between switches, seen from the end that owns the port. */
static json_t *switch_connection(const struct inc_route_comm *comm,
				 const struct inc_topo_port *port, bool up, unsigned int rank,
				 const struct inc_route_end *own, const struct inc_route_end *peer)
{
	char my_ip[INET_ADDRSTRLEN], peer_ip[INET_ADDRSTRLEN];
	const struct inc_topo_port *far = &comm->topo->switches[port->peer].ports[port->peer_port];

	return json_pack("{s:b, s:i, s:s, s:s, s:i, s:I, s:I, s:s, s:i, s:I, s:I, s:i, s:b}", "up",
			 (int)up, "host_id", (int)rank, "my_name", port->name, "my_ip",
			 ip_text(port->ip, my_ip), "my_port", INC_ROCE_UDP_PORT, "my_qp",
			 (json_int_t)own->qpn, "my_psn", (json_int_t)own->psn, "peer_ip",
			 ip_text(far->ip, peer_ip), "peer_port", INC_ROCE_UDP_PORT, "peer_qp",
			 (json_int_t)peer->qpn, "psn", (json_int_t)peer->psn, "pkey",
			 INC_PKEY_DEFAULT, "udp_csum", 0);
}

static int add_children(const struct inc_route_comm *comm, unsigned int n, unsigned int p,
			json_t *list)
{
	const struct inc_tree_node *node = &comm->tree->nodes[n];
	const struct inc_topo_port *port = &comm->topo->switches[node->sw].ports[p];

	if (port->to_switch) {
		for (unsigned int i = 0; i < comm->tree->n; i++) {
			const struct inc_tree_node *child = &comm->tree->nodes[i];

			if (child->parent != (int)n || child->sw != port->peer)
				continue;
			if (json_array_append_new(
				    list, switch_connection(comm, port, false, child->first_rank,
							    &child->down, &child->up)))
				return -ENOMEM;
		}
		return 0;
	}
	for (unsigned int rank = 0; rank < comm->n_members; rank++) {
		const struct inc_route_member *member = comm->member(comm->arg, rank);

		if (member->host != port->peer)
			continue;
		if (json_array_append_new(list, host_connection(comm, port, member, rank)))
			return -ENOMEM;
	}
	return 0;
}

json_t *inc_route_config(const struct inc_route_comm *comm, unsigned int n)
{
	const struct inc_tree_node *node = &comm->tree->nodes[n];
	const struct inc_topo_switch *sw = &comm->topo->switches[node->sw];
	json_t *list = json_array();

	if (!list)
		return NULL;
	for (unsigned int p = 0; p < sw->n_ports; p++) {
		if (add_children(comm, n, p, list))
			goto err;
	}
	if (node->parent >= 0 &&
	    json_array_append_new(list,
				  switch_connection(comm, &sw->ports[node->up_port], true,
						    node->first_rank, &node->up, &node->down)))
		goto err;
	return json_pack("{s:I, s:I, s:b, s:i, s:i, s:o}", "communicator",
			 (json_int_t)comm->communicator, "group", (json_int_t)comm->group, "root",
			 node->parent < 0, "payload", (int)comm->payload, "slots", (int)comm->slots,
			 "connections", list);
err:
	json_decref(list);
	return NULL;
}
