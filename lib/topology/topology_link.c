/* SPDX-License-Identifier: BSD-2-Clause */
/* The second step of reading a topology: resolves which peers each port leads to. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/topology/topology_priv.h"

#define NOT_ATTACHED ((unsigned int)-1)

static const struct inc_yaml_node *port_node(const struct inc_yaml_node *root, unsigned int sw,
					     unsigned int port)
{
	const struct inc_yaml_node *s = inc_topology_switch(root, sw);

	return inc_yaml_at(inc_yaml_get(s, "ports"), port);
}

/* Returns the node of the file that names peer i of a port. */
static const struct inc_yaml_node *peer_node(const struct inc_yaml_node *port, unsigned int i)
{
	const struct inc_yaml_node *peers = inc_yaml_get(port, "peers");

	return peers ? inc_yaml_at(peers, i) : inc_yaml_get(port, "peer");
}

/* Explains why none of the host's NICs can be attached to a port. One that is attached already is
 * the reason, if it is in the port's network or the only one. */
static int say_why_not(const struct inc_topology *topo, unsigned int s, unsigned int p,
		       unsigned int h, const struct inc_yaml_node *node, struct inc_err *err)
{
	const struct inc_topo_port *port = &topo->switches[s].ports[p];
	const struct inc_topo_host *host = &topo->hosts[h], *nic = host;

	while (nic->next && inc_addr_is_ipv4(nic->ip) != inc_addr_is_ipv4(port->ip))
		nic = &topo->hosts[nic->next];
	if (inc_addr_is_ipv4(nic->ip) != inc_addr_is_ipv4(port->ip))
		return inc_yaml_error(
			node, err,
			"%s has no %s address, and port %s of %s has one: give both ends "
			"addresses of one family",
			host->name, inc_addr_family(port->ip), port->name, topo->switches[s].name);
	nic = host;
	while (host->next && nic->next && !inc_topology_same_network(topo, nic->ip, port->ip))
		nic = &topo->hosts[nic->next];
	if (nic->sw != NOT_ATTACHED &&
	    (!host->next || inc_topology_same_network(topo, nic->ip, port->ip)))
		return inc_yaml_error(node, err, "%s is attached already, to %s", host->name,
				      topo->switches[nic->sw].name);
	return inc_yaml_error(node, err,
			      host->next ? "%s has no address inside this port's /%u network"
					 : "%s has an address outside this port's /%u network",
			      host->name, inc_topology_prefix(topo, port->ip));
}

/* Attaches the host's first free NIC in the port's network to the port. Sets *nic to its index. */
static int attach_host(struct inc_topology *topo, unsigned int s, unsigned int p, unsigned int h,
		       unsigned int *nic, const struct inc_yaml_node *node, struct inc_err *err)
{
	const struct inc_topo_port *port = &topo->switches[s].ports[p];
	struct inc_topo_host *host = &topo->hosts[h];

	while (host->next &&
	       (host->sw != NOT_ATTACHED || !inc_topology_same_network(topo, host->ip, port->ip)))
		host = &topo->hosts[host->next];
	if (host->sw != NOT_ATTACHED || !inc_topology_same_network(topo, host->ip, port->ip))
		return say_why_not(topo, s, p, h, node, err);
	host->sw = s;
	host->port = p;
	*nic = host - topo->hosts;
	return 0;
}

/* Whether a port of the switch leads to the other switch already. */
static bool has_switch(const struct inc_topo_switch *sw, unsigned int other)
{
	for (unsigned int p = 0; p < sw->n_ports; p++) {
		for (unsigned int i = 0; i < sw->ports[p].n_peers; i++) {
			if (sw->ports[p].peers[i].to_switch && sw->ports[p].peers[i].index == other)
				return true;
		}
	}
	return false;
}

static int resolve_peer(struct inc_topology *topo, unsigned int s, unsigned int p,
			const struct inc_yaml_node *node, struct inc_err *err)
{
	struct inc_topo_port *port = &topo->switches[s].ports[p];
	const char *name = inc_yaml_text(node);
	struct inc_topo_end end;
	int ret;

	if (!name)
		return inc_yaml_error(node, err, "is not a single value");
	if (!inc_topology_find(topo, name, &end) || end.kind == INC_TOPO_BRIDGE)
		return inc_yaml_error(node, err, "there is no host or switch '%.64s'", name);
	if (end.kind == INC_TOPO_HOST) {
		ret = attach_host(topo, s, p, end.index, &end.index, node, err);
		if (ret)
			return ret;
	} else if (end.index == s) {
		return inc_yaml_error(node, err, "%s is this switch itself", name);
	} else if (has_switch(&topo->switches[s], end.index)) {
		return inc_yaml_error(node, err, "a second link to %s", name);
	}
	port->peers[port->n_peers++] = (struct inc_topo_peer){
		.to_switch = end.kind == INC_TOPO_SWITCH,
		.index = end.index,
	};
	return 0;
}

static int resolve_bridge(struct inc_topology *topo, struct inc_topo_port *port,
			  const struct inc_yaml_node *node, struct inc_err *err)
{
	const struct inc_yaml_node *named = inc_yaml_get(node, "bridge");
	const char *name = inc_yaml_text(named);
	struct inc_topo_end end;

	if (!named && port->n_of_subnet) /* inc_topology_subnet() has made a bridge */
		return 0;
	port->bridge = -1;
	if (!named)
		return 0;
	if (!name || !inc_topology_find(topo, name, &end) || end.kind != INC_TOPO_BRIDGE)
		return inc_yaml_error(named, err, "there is no bridge '%.64s'", name ? name : "");
	port->bridge = end.index;
	return 0;
}

static int resolve_port(struct inc_topology *topo, unsigned int s, unsigned int p,
			const struct inc_yaml_node *node, struct inc_err *err)
{
	const struct inc_yaml_node *peer = inc_yaml_get(node, "peer");
	const struct inc_yaml_node *peers = inc_yaml_get(node, "peers");
	struct inc_topo_port *port = &topo->switches[s].ports[p];
	const size_t named = peers ? inc_yaml_len(peers) : peer != NULL;
	const size_t n = named + port->n_of_subnet;
	int ret;

	if (peer && peers)
		return inc_yaml_error(node, err, "'peer' and 'peers' exclude each other");
	if (!n)
		return inc_yaml_error(node, err, "'peer' is missing");
	if (peers && (!named || n > INC_TOPO_MAX_PEERS))
		return inc_yaml_error(peers, err, "is not a list of 1 to %d peers",
				      INC_TOPO_MAX_PEERS - (int)port->n_of_subnet);
	ret = resolve_bridge(topo, port, node, err);
	if (ret)
		return ret;
	if (n > 1 && port->bridge < 0)
		return inc_yaml_error(peers, err, "several peers need a 'bridge' between");
	port->peers = calloc(n, sizeof(*port->peers));
	if (!port->peers)
		return inc_err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < named && !ret; i++)
		ret = resolve_peer(topo, s, p, peer_node(node, i), err);
	for (unsigned int i = 0; i < port->n_of_subnet && !ret; i++) {
		unsigned int h = port->first_of_subnet + i;

		ret = attach_host(topo, s, p, h, &h, inc_yaml_get(node, "hosts"), err);
		port->peers[port->n_peers++] = (struct inc_topo_peer){.index = h};
	}
	return ret;
}

/* Returns the port of a switch that leads to the other switch. n_ports: there is none. */
static unsigned int port_to(const struct inc_topo_switch *sw, unsigned int other)
{
	for (unsigned int p = 0; p < sw->n_ports; p++) {
		for (unsigned int i = 0; i < sw->ports[p].n_peers; i++) {
			if (sw->ports[p].peers[i].to_switch && sw->ports[p].peers[i].index == other)
				return p;
		}
	}
	return sw->n_ports;
}

/* Finds the port of the other switch that leads back to switch s, which is the other end of a
 * connection between switches. */
static int pair_peer(struct inc_topology *topo, unsigned int s, const struct inc_topo_port *port,
		     struct inc_topo_peer *peer, const struct inc_yaml_node *node,
		     struct inc_err *err)
{
	const struct inc_topo_switch *other = &topo->switches[peer->index];

	peer->port = port_to(other, s);
	if (peer->port == other->n_ports)
		return inc_yaml_error(node, err, "%s has no port whose peer is %s", other->name,
				      topo->switches[s].name);
	if (other->ports[peer->port].bridge != port->bridge)
		return inc_yaml_error(node, err, "%s's port %s is not on the same bridge",
				      other->name, other->ports[peer->port].name);
	if (!inc_topology_same_network(topo, port->ip, other->ports[peer->port].ip))
		return inc_yaml_error(node, err, "%s's port %s is outside this /%u network",
				      other->name, other->ports[peer->port].name,
				      inc_topology_prefix(topo, port->ip));
	if (port->vlan != other->ports[peer->port].vlan)
		return inc_yaml_error(node, err, "%s's port %s is not in the same 'vlan'",
				      other->name, other->ports[peer->port].name);
	return 0;
}

static int pair_ports(struct inc_topology *topo, const struct inc_yaml_node *root,
		      struct inc_err *err)
{
	int ret = 0;

	for (unsigned int s = 0; s < topo->n_switches; s++) {
		for (unsigned int p = 0; p < topo->switches[s].n_ports; p++) {
			struct inc_topo_port *port = &topo->switches[s].ports[p];

			for (unsigned int i = 0; i < port->n_peers && !ret; i++) {
				if (port->peers[i].to_switch)
					ret = pair_peer(topo, s, port, &port->peers[i],
							peer_node(port_node(root, s, p), i), err);
			}
		}
	}
	return ret;
}

/* Checks that all ports of a bridge are in the same network. */
static int check_bridges(const struct inc_topology *topo, const struct inc_yaml_node *root,
			 struct inc_err *err)
{
	const struct inc_topo_port **first = calloc(topo->n_bridges + 1, sizeof(*first));
	int ret = first ? 0 : inc_err_set(err, ENOMEM, "out of memory");

	for (unsigned int s = 0; s < topo->n_switches && !ret; s++) {
		for (unsigned int p = 0; p < topo->switches[s].n_ports && !ret; p++) {
			const struct inc_topo_port *port = &topo->switches[s].ports[p];

			if (port->bridge < 0)
				continue;
			if (!first[port->bridge])
				first[port->bridge] = port;
			if (!inc_topology_same_network(topo, port->ip, first[port->bridge]->ip))
				ret = inc_yaml_error(
					inc_yaml_get(port_node(root, s, p), "ip"), err,
					"another port of bridge %s is outside this /%u network",
					topo->bridges[port->bridge].name,
					inc_topology_prefix(topo, port->ip));
		}
	}
	for (unsigned int b = 0; b < topo->n_bridges && !ret; b++) {
		if (!first[b])
			ret = inc_yaml_error(inc_yaml_at(inc_yaml_get(root, "bridges"), b), err,
					     "no port is on bridge %s", topo->bridges[b].name);
	}
	free(first);
	return ret;
}

static int check_attached(const struct inc_topology *topo, const struct inc_yaml_node *root,
			  struct inc_err *err)
{
	for (unsigned int h = 0; h < topo->n_hosts; h++) {
		const struct inc_topo_host *host = &topo->hosts[h], *first = &topo->hosts[host->of];
		char ip[INC_ADDR_TEXT], of[INC_ADDR_TEXT + 20] = "";

		if (host->sw != NOT_ATTACHED)
			continue;
		if (first->next)
			snprintf(of, sizeof(of), " in the network of %s",
				 inc_addr_text(host->ip, ip));
		return inc_yaml_error(inc_yaml_at(inc_yaml_get(root, "hosts"), host->of), err,
				      "no switch has a port whose peer is %s%s", host->name, of);
	}
	return 0;
}

/* Marks all switches that can be reached from a root. */
static void walk(const struct inc_topology *topo, bool *seen)
{
	unsigned int queue[INC_TOPO_MAX_SWITCHES], head = 0, tail = 0;

	for (unsigned int s = 0; s < topo->n_switches; s++) {
		if (topo->switches[s].root) {
			seen[s] = true;
			queue[tail++] = s;
		}
	}
	for (; head < tail; head++) {
		const struct inc_topo_switch *sw = &topo->switches[queue[head]];

		for (unsigned int p = 0; p < sw->n_ports; p++) {
			for (unsigned int i = 0; i < sw->ports[p].n_peers; i++) {
				const struct inc_topo_peer *peer = &sw->ports[p].peers[i];

				if (!peer->to_switch || seen[peer->index])
					continue;
				seen[peer->index] = true;
				queue[tail++] = peer->index;
			}
		}
	}
}

/* Checks that every switch can be reached from a root. Circles are allowed, because a fat-tree
 * has many. */
static int check_connected(const struct inc_topology *topo, const struct inc_yaml_node *root,
			   struct inc_err *err)
{
	bool seen[INC_TOPO_MAX_SWITCHES] = {0};

	walk(topo, seen);
	for (unsigned int s = 0; s < topo->n_switches; s++) {
		if (!seen[s])
			return inc_yaml_error(inc_topology_switch(root, s), err,
					      "%s cannot be reached from any root",
					      topo->switches[s].name);
	}
	return 0;
}

static void count_leaves(struct inc_topology *topo)
{
	bool leaf[INC_TOPO_MAX_SWITCHES] = {0};

	for (unsigned int h = 0; h < topo->n_hosts; h++) {
		/* a communicator has one NIC of each host, so further NICs allow no more ranks */
		if (topo->hosts[h].rail)
			continue;
		topo->n_leaves += !leaf[topo->hosts[h].sw];
		leaf[topo->hosts[h].sw] = true;
	}
}

int inc_topology_link(struct inc_topology *topo, const struct inc_yaml_node *root,
		      struct inc_err *err)
{
	int ret = 0;

	for (unsigned int h = 0; h < topo->n_hosts; h++)
		topo->hosts[h].sw = NOT_ATTACHED;
	for (unsigned int s = 0; s < topo->n_switches; s++) {
		for (unsigned int p = 0; p < topo->switches[s].n_ports && !ret; p++)
			ret = resolve_port(topo, s, p, port_node(root, s, p), err);
	}
	if (!ret)
		ret = pair_ports(topo, root, err);
	if (!ret)
		ret = check_bridges(topo, root, err);
	if (!ret)
		ret = check_attached(topo, root, err);
	if (!ret)
		ret = check_connected(topo, root, err);
	if (!ret)
		count_leaves(topo);
	return ret;
}

/* Returns an earlier port of the switch in the network of port p, or NULL. */
static const struct inc_topo_port *port_beside(const struct inc_topology *topo,
					       const struct inc_topo_switch *sw, unsigned int p)
{
	for (unsigned int q = 0; q < p; q++)
		if (inc_topology_same_network(topo, sw->ports[q].ip, sw->ports[p].ip))
			return &sw->ports[q];
	return NULL;
}

const char *inc_topology_doubt(const struct inc_topology *topo, char text[INC_TOPO_DOUBT_TEXT])
{
	const struct inc_topo_port *beside = NULL;
	const struct inc_topo_switch *sw = topo->switches;
	unsigned int p = 0;

	*text = '\0';
	for (; sw < topo->switches + topo->n_live_switches; sw++) {
		for (p = 0; p < sw->n_live_ports && !beside; p++)
			beside = port_beside(topo, sw, p);
		if (beside)
			break;
	}
	if (beside)
		snprintf(text, INC_TOPO_DOUBT_TEXT,
			 "switch %s: ports %s and %s are in one /%u network, so its kernel sends "
			 "what is for the peer of %s by %s: give each port a network of its own, "
			 "or correct defaults.prefix%s",
			 sw->name, beside->name, sw->ports[p - 1].name,
			 inc_topology_prefix(topo, beside->ip), sw->ports[p - 1].name, beside->name,
			 inc_addr_is_ipv4(beside->ip) ? "" : "_ipv6");
	return text;
}
