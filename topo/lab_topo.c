// SPDX-License-Identifier: BSD-2-Clause
/* Reads nodes and links of a lab from a topology file, and finds the routes between the nodes. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/random.h"
#include "lib/conf/comm_conf.h"
#include "lib/topology/topology.h"
#include "topo/lab.h"

static struct lab_node *add_node(struct lab *lab, enum lab_role role, const char *name,
				 struct inc_err *err)
{
	struct lab_node *node = &lab->nodes[lab->n_nodes];
	char netns[LAB_NS_MAX];

	if (lab->n_nodes == LAB_NODES) {
		inc_err_set(err, E2BIG, "a lab has at most %d hosts, switches, bridges and wires",
			    LAB_NODES);
		return NULL;
	}
	if (role != LAB_WIRE && lab_find(lab, name)) {
		inc_err_set(err, EEXIST, "two nodes are called %s", name);
		return NULL;
	}
	node->role = role;
	snprintf(node->name, sizeof(node->name), "%s", name);
	snprintf(netns, sizeof(netns), "%s-%s", lab->name, role == LAB_CONTROLLER ? "ctl" : name);
	memcpy(node->netns, netns, sizeof(netns));
	if (role != LAB_WIRE && role != LAB_BRIDGE)
		/* address in the management network: 10.99.0.1 + the index of the node */
		node->mgmt.s_addr = htonl(0x0a630001 + lab->n_nodes);
	lab->n_nodes++;
	return node;
}

static void wire_arg(struct lab_link *link, const char *key, double value)
{
	if (value > 0)
		snprintf(link->wire_args[link->n_wire_args++], sizeof(link->wire_args[0]),
			 "%s=%.9f", key, value);
}

/* Returns the VLAN of a link, which is that of the port to which it leads. */
static unsigned int vlan_of(const struct inc_topology *topo, const struct inc_topo_link *link)
{
	const struct inc_topo_host *host = &topo->hosts[link->end[0].index];

	if (link->end[0].kind == INC_TOPO_HOST)
		return topo->switches[host->sw].ports[host->port].vlan;
	return topo->switches[link->end[0].index].ports[link->end[0].port].vlan;
}

/* Sets the interfaces of an end in a VLAN: the end of the cable, which the frames with tags pass,
 * and a VLAN device on it. The device of a port has the port's name, which must end in the VLAN. */
static int set_vlan(struct lab_end *end, enum inc_topo_kind kind, unsigned int vlan,
		    struct inc_err *err)
{
	char suffix[8];
	size_t n;

	snprintf(suffix, sizeof(suffix), ".%u", vlan);
	strcpy(end->device, end->ifname);
	if (!vlan || kind == INC_TOPO_BRIDGE)
		return 0;
	n = strlen(end->ifname);
	if (kind == INC_TOPO_HOST) {
		strcat(end->ifname, suffix);
		return 0;
	}
	if (n <= strlen(suffix) || strcmp(end->ifname + n - strlen(suffix), suffix) != 0)
		return inc_err_set(err, EINVAL,
				   "port %s: in a lab the name of a port in VLAN %u ends in %s",
				   end->ifname, vlan, suffix);
	end->device[n - strlen(suffix)] = 0;
	return 0;
}

/* Sets one end of a link. Nodes have the order of the file: the controller, hosts, switches,
 * bridges. */
static void set_end(struct lab_end *end, const struct inc_topology *topo,
		    const struct inc_topo_end *from, unsigned int link)
{
	const struct inc_topo_port *port;

	switch (from->kind) {
	case INC_TOPO_HOST:
		end->node = 1 + topo->hosts[from->index].of;
		snprintf(end->ifname, sizeof(end->ifname), "eth%u", topo->hosts[from->index].rail);
		end->ip = topo->hosts[from->index].ip;
		break;
	case INC_TOPO_SWITCH:
		port = &topo->switches[from->index].ports[from->port];
		end->node = 1 + topo->n_listed_hosts + from->index;
		strcpy(end->ifname, port->name);
		end->ip = port->ip;
		break;
	case INC_TOPO_BRIDGE:
		end->node = 1 + topo->n_listed_hosts + topo->n_switches + from->index;
		snprintf(end->ifname, sizeof(end->ifname), "l%u", link);
		break;
	}
}

static int add_link(struct lab *lab, const struct inc_topology *topo,
		    const struct inc_topo_link *from, struct inc_err *err)
{
	struct lab_link *link = &lab->links[lab->n_links];
	char name[LAB_NODE_MAX];
	uint8_t random[4];
	int ret;

	link->wire = -1;
	link->mtu = from->mtu;
	link->vlan = vlan_of(topo, from);
	for (int e = 0; e < 2; e++) {
		set_end(&link->end[e], topo, &from->end[e], lab->n_links);
		ret = set_vlan(&link->end[e], from->end[e].kind, link->vlan, err);
		if (ret)
			return ret;
	}
	link->prefix = inc_topology_prefix(topo, link->end[0].ip);
	if (link->vlan && from->has_wire)
		return inc_err_set(err, EOPNOTSUPP, "a wire does not forward the tags of VLAN %u",
				   link->vlan);
	ret = inc_random_bytes(random, sizeof(random), err);
	if (ret)
		return ret;
	for (int e = 0; e < 2; e++)
		snprintf(link->end[e].mac, sizeof(link->end[e].mac), "02:%02x:%02x:%02x:%02x:%02x",
			 random[0], random[1], random[2], random[3], e);
	if (from->has_wire) {
		struct lab_node *wire;

		/* the two names, which have at most INC_TOPO_NAME_LEN characters each, fit, with
		 * the number of a host's NIC behind them if its other NIC leads to the same switch
		 */
		snprintf(name, sizeof(name), "%.15s-%.15s", lab->nodes[link->end[0].node].name,
			 lab->nodes[link->end[1].node].name);
		if (lab_find(lab, name) && from->end[0].kind == INC_TOPO_HOST)
			snprintf(name, sizeof(name), "%.15s-%.15s-%u",
				 lab->nodes[link->end[0].node].name,
				 lab->nodes[link->end[1].node].name,
				 topo->hosts[from->end[0].index].rail);
		wire = add_node(lab, LAB_WIRE, name, err);
		if (!wire)
			return -E2BIG;
		link->wire = wire - lab->nodes;
		link->seed = from->wire.seed;
		wire_arg(link, "rate", from->wire.rate_mbit);
		wire_arg(link, "loss", from->wire.loss);
		wire_arg(link, "duplicate", from->wire.duplicate);
		wire_arg(link, "corrupt", from->wire.corrupt);
		wire_arg(link, "reorder", from->wire.reorder);
	}
	lab->n_links++;
	return 0;
}

int lab_read_topology(struct lab *lab, const char *path, struct inc_err *err)
{
	struct inc_topology *topo = NULL;
	struct lab_node *node;
	int ret;

	if (!realpath(path, lab->topology))
		return inc_err_set(err, errno, "%s: %s", path, strerror(errno));
	ret = inc_topology_load(path, &topo, err);
	if (ret)
		return ret;
	if (topo->n_hosts > topo->n_listed_hosts + topo->n_nics) {
		ret = inc_err_set(err, EINVAL,
				  "%s: a port has a subnet of hosts, and a lab needs a list of its "
				  "hosts",
				  path);
		goto out;
	}
	ret = -E2BIG;
	if (!add_node(lab, LAB_CONTROLLER, "controller", err))
		goto out;
	for (unsigned int i = 0; i < topo->n_listed_hosts; i++) {
		node = add_node(lab, LAB_HOST, topo->hosts[i].name, err);
		if (!node)
			goto out;
		node->addr = topo->hosts[i].ip;
		node->has_rails = topo->hosts[i].next;
		node->rank = i;
	}
	for (unsigned int i = 0; i < topo->n_switches; i++) {
		node = add_node(lab, LAB_SWITCH, topo->switches[i].name, err);
		if (!node)
			goto out;
		/* the controller alone knows auto */
		if (topo->switches[i].has_mode && topo->switches[i].mode != INC_AUTO)
			node->mode = inc_mode_settings[topo->switches[i].mode];
	}
	for (unsigned int i = 0; i < topo->n_bridges; i++)
		if (!add_node(lab, LAB_BRIDGE, topo->bridges[i].name, err))
			goto out;
	lab->links = calloc(topo->n_links, sizeof(*lab->links));
	if (!lab->links) {
		ret = inc_err_set(err, ENOMEM, "out of memory");
		goto out;
	}
	ret = 0;
	for (unsigned int i = 0; i < topo->n_links && !ret; i++)
		ret = add_link(lab, topo, &topo->links[i], err);
out:
	inc_topology_free(topo);
	return ret;
}

/* ---- segments and routes ---- */

const char *lab_ip_text(struct inc_addr a)
{
	/* four buffers in turn, because one fprintf() prints four texts at most */
	static char text[4][INC_ADDR_TEXT];
	static unsigned int i;

	return inc_addr_text(a, text[i++ % 4]);
}

/* Returns the number of the segment to which a link belongs. A segment is one cable, or all cables
 * of a bridge, and the nodes on it are neighbours. */
unsigned int lab_segment(const struct lab *lab, unsigned int link)
{
	const unsigned int node = lab->links[link].end[1].node;

	return lab->nodes[node].role == LAB_BRIDGE ? lab->n_links + node : link;
}

static bool is_in(const struct lab *lab, unsigned int node, unsigned int seg)
{
	for (unsigned int i = 0; i < lab->n_links; i++) {
		for (int e = 0; e < 2; e++) {
			if (lab->links[i].end[e].node == (int)node && lab_segment(lab, i) == seg)
				return true;
		}
	}
	return false;
}

/* A step of the search for shortest paths: adds the neighbours of node `at` on a segment to the
 * queue, if they were not seen before. via: the first hop to each node. The first hop to a
 * neighbour is that to `at`; at the start of the search it is the neighbour itself. */
static void see_neighbours(const struct lab *lab, unsigned int at, unsigned int seg,
			   const struct lab_end **via, unsigned int *queue, unsigned int *tail)
{
	for (unsigned int i = 0; i < lab->n_links; i++) {
		for (int e = 0; e < 2 && lab_segment(lab, i) == seg; e++) {
			const struct lab_end *to = &lab->links[i].end[e];

			if (lab->nodes[to->node].role == LAB_BRIDGE || via[to->node])
				continue;
			via[to->node] = at == queue[0] ? to : via[at];
			queue[(*tail)++] = to->node;
		}
	}
}

/* Returns the end of the link that is nearer to the start. A route by the farther end could lead
 * through a host, and hosts do not forward. */
static unsigned int nearer_node(const struct lab_link *l, const struct lab_end *const *via,
				const unsigned int *queue, unsigned int tail)
{
	const unsigned int a = l->end[0].node, b = l->end[1].node;

	for (unsigned int i = 0; via[a] && via[b] && i < tail; i++) {
		if (queue[i] == a || queue[i] == b)
			return queue[i];
	}
	return a;
}

/* Writes a route to every subnet that the node is not in, by the first hop of the shortest path. */
void lab_write_routes(const struct lab *lab, unsigned int from, FILE *f)
{
	const struct lab_end *via[LAB_NODES] = {NULL}, self = {.node = from};
	unsigned int queue[LAB_NODES], head = 0, tail = 0;

	queue[tail++] = from;
	via[from] = &self;
	for (; head < tail; head++) {
		const unsigned int at = queue[head];

		/* hosts do not forward, so no path leads through them */
		if (at != from && lab->nodes[at].role != LAB_SWITCH)
			continue;
		for (unsigned int i = 0; i < lab->n_links; i++) {
			if (lab->links[i].end[0].node == (int)at ||
			    lab->links[i].end[1].node == (int)at)
				see_neighbours(lab, at, lab_segment(lab, i), via, queue, &tail);
		}
	}
	for (unsigned int i = 0; i < lab->n_links; i++) {
		const struct lab_link *l = &lab->links[i];
		const unsigned int seg = lab_segment(lab, i);
		const struct lab_end *first = via[nearer_node(l, via, queue, tail)];

		/* of the cables of a bridge only the first one gets a route, because all are in the
		 * same subnet */
		for (unsigned int k = 0; k < i && first; k++) {
			if (lab_segment(lab, k) == seg)
				first = NULL;
		}
		if (!first || is_in(lab, from, seg))
			continue;
		/* a router must have the family of the network that it leads to */
		if (inc_addr_is_ipv4(l->end[0].ip) == inc_addr_is_ipv4(first->ip))
			fprintf(f, "route add %s/%u via %s\n",
				lab_ip_text(inc_addr_network(l->end[0].ip, l->prefix)), l->prefix,
				lab_ip_text(first->ip));
	}
}
