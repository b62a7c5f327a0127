/* SPDX-License-Identifier: BSD-2-Clause */
/* The second half of reading a topology: who is connected to whom, and by what. */
#include <errno.h>
#include <stdlib.h>
#include <arpa/inet.h>
#include "lib/conf/schema_yaml.h"
#include "lib/topology/topology_priv.h"

#define NO_PEER ((unsigned int)-1)

static const struct inc_yaml_node *port_node(const struct inc_yaml_node *root, unsigned int sw,
					     unsigned int port)
{
	const struct inc_yaml_node *s = inc_yaml_at(inc_yaml_get(root, "switches"), sw);

	return inc_yaml_at(inc_yaml_get(s, "ports"), port);
}

static bool same_network(const struct inc_topology *topo, struct in_addr a, struct in_addr b)
{
	return (ntohl(a.s_addr) ^ ntohl(b.s_addr)) >> (32 - topo->prefix) == 0;
}

static int resolve_port(struct inc_topology *topo, unsigned int s, unsigned int p,
			const struct inc_yaml_node *node, struct inc_err *err)
{
	struct inc_topo_port *port = &topo->switches[s].ports[p];
	const char *peer;
	int i, ret;

	ret = inc_yaml_get_str(node, "peer", &peer, err);
	if (ret)
		return ret;
	node = inc_yaml_get(node, "peer");
	i = inc_topology_host_by_name(topo, peer);
	if (i >= 0) {
		struct inc_topo_host *host = &topo->hosts[i];

		if (host->link != NO_PEER)
			return inc_yaml_error(node, err, "%s is attached already, to %s", peer,
					      topo->switches[host->sw].name);
		if (!same_network(topo, host->ip, port->ip))
			return inc_yaml_error(node, err,
					      "%s has an address outside this port's /%u network",
					      peer, topo->prefix);
		host->sw = s;
		host->port = p;
		host->link = 0;
		port->peer = i;
		return 0;
	}
	i = inc_topology_switch_by_name(topo, peer);
	if (i < 0)
		return inc_yaml_error(node, err, "there is no host or switch '%.64s'", peer);
	if ((unsigned int)i == s)
		return inc_yaml_error(node, err, "%s is this switch itself", peer);
	for (unsigned int k = 0; k < p; k++) {
		const struct inc_topo_port *other = &topo->switches[s].ports[k];

		if (other->to_switch && other->peer == (unsigned int)i)
			return inc_yaml_error(node, err, "a second link to %s", peer);
	}
	port->to_switch = true;
	port->peer = i;
	return 0;
}

/* Finds the other end of every link between switches. */
static int pair_ports(struct inc_topology *topo, const struct inc_yaml_node *root,
		      struct inc_err *err)
{
	for (unsigned int s = 0; s < topo->n_switches; s++) {
		for (unsigned int p = 0; p < topo->switches[s].n_ports; p++) {
			struct inc_topo_port *port = &topo->switches[s].ports[p];
			const struct inc_yaml_node *node = port_node(root, s, p);
			const struct inc_topo_switch *peer;
			unsigned int k;

			if (!port->to_switch)
				continue;
			peer = &topo->switches[port->peer];
			for (k = 0; k < peer->n_ports; k++) {
				if (peer->ports[k].to_switch && peer->ports[k].peer == s)
					break;
			}
			if (k == peer->n_ports)
				return inc_yaml_error(inc_yaml_get(node, "peer"), err,
						      "%s has no port whose peer is %s", peer->name,
						      topo->switches[s].name);
			if (!same_network(topo, port->ip, peer->ports[k].ip))
				return inc_yaml_error(inc_yaml_get(node, "ip"), err,
						      "%s's port %s is outside this /%u network",
						      peer->name, peer->ports[k].name,
						      topo->prefix);
			port->peer_port = k;
		}
	}
	return 0;
}

/* wire: what the file says about every link, NULL: nothing */
static int make_links(struct inc_topology *topo, const struct inc_topo_wire *wire,
		      struct inc_err *err)
{
	size_t n = 0;

	for (unsigned int s = 0; s < topo->n_switches; s++)
		n += topo->switches[s].n_ports;
	topo->links = calloc(n, sizeof(*topo->links));
	if (!topo->links)
		return inc_err_set(err, ENOMEM, "out of memory");
	for (unsigned int s = 0; s < topo->n_switches; s++) {
		for (unsigned int p = 0; p < topo->switches[s].n_ports; p++) {
			struct inc_topo_port *port = &topo->switches[s].ports[p];
			struct inc_topo_link *link = &topo->links[topo->n_links];

			/* between switches: made once, from the one with the lower index */
			if (port->to_switch && port->peer < s) {
				port->link = topo->switches[port->peer].ports[port->peer_port].link;
				continue;
			}
			link->a_is_switch = port->to_switch;
			link->a = port->peer;
			link->a_port = port->to_switch ? port->peer_port : 0;
			link->b = s;
			link->b_port = p;
			link->mtu = topo->mtu;
			if (wire) {
				link->has_wire = true;
				link->wire = *wire;
			}
			port->link = topo->n_links;
			if (!port->to_switch)
				topo->hosts[port->peer].link = topo->n_links;
			topo->n_links++;
		}
	}
	return 0;
}

static int check_attached(const struct inc_topology *topo, const struct inc_yaml_node *root,
			  struct inc_err *err)
{
	for (unsigned int h = 0; h < topo->n_hosts; h++) {
		if (topo->hosts[h].link == NO_PEER)
			return inc_yaml_error(inc_yaml_at(inc_yaml_get(root, "hosts"), h), err,
					      "no switch has a port whose peer is %s",
					      topo->hosts[h].name);
	}
	return 0;
}

/* Every switch must be reachable from the first root. */
static int check_connected(const struct inc_topology *topo, const struct inc_yaml_node *root,
			   struct inc_err *err)
{
	unsigned int queue[INC_TOPO_MAX_SWITCHES], head = 0, tail = 0, first = 0;
	bool seen[INC_TOPO_MAX_SWITCHES] = {0};

	while (!topo->switches[first].root)
		first++;
	seen[first] = true;
	queue[tail++] = first;
	for (; head < tail; head++) {
		const struct inc_topo_switch *sw = &topo->switches[queue[head]];

		for (unsigned int p = 0; p < sw->n_ports; p++) {
			if (!sw->ports[p].to_switch || seen[sw->ports[p].peer])
				continue;
			seen[sw->ports[p].peer] = true;
			queue[tail++] = sw->ports[p].peer;
		}
	}
	for (unsigned int s = 0; s < topo->n_switches; s++) {
		if (!seen[s])
			return inc_yaml_error(inc_yaml_at(inc_yaml_get(root, "switches"), s), err,
					      "%s cannot be reached from the root %s",
					      topo->switches[s].name, topo->switches[first].name);
	}
	return 0;
}

#define WIRE(member) INC_AT(struct inc_topo_wire, member)
#define CHANCE       .kind = INC_REAL, .need = INC_OPTIONAL, .max = 1

static const struct inc_field wire_fields[] = {
	{"rate_mbit", INC_REAL, INC_OPTIONAL, WIRE(rate_mbit), .max = 1000000},
	{"loss", CHANCE, WIRE(loss)},
	{"duplicate", CHANCE, WIRE(duplicate)},
	{"corrupt", CHANCE, WIRE(corrupt)},
	{"reorder", CHANCE, WIRE(reorder)},
	{"seed", INC_UINT, INC_OPTIONAL, WIRE(seed), .max = UINT64_MAX},
};
static const struct inc_schema wire_schema = INC_SCHEMA(struct inc_topo_wire, wire_fields);

static const struct inc_field link_fields[] = {
	{"between", INC_OTHER, INC_REQUIRED, .what = "a pair of names"},
	{"mtu", INC_TOPO_MTU_FIELD, INC_AT(struct inc_topo_link, mtu)},
	{"wire", INC_MAP, INC_OPTIONAL, INC_AT(struct inc_topo_link, wire), .of = &wire_schema},
};
static const struct inc_schema link_schema = INC_SCHEMA(struct inc_topo_link, link_fields);

/* The two ends of an entry of links, as 0..n_hosts-1 and n_hosts.. for switches. */
static int read_ends(const struct inc_topology *topo, const struct inc_yaml_node *map,
		     unsigned int ends[2], struct inc_err *err)
{
	const struct inc_yaml_node *seq = inc_yaml_get(map, "between");

	if (inc_yaml_len(seq) != 2)
		return inc_yaml_error(seq, err, "is not a pair of names");
	for (int i = 0; i < 2; i++) {
		const char *name = inc_yaml_text(inc_yaml_at(seq, i));
		int k = name ? inc_topology_host_by_name(topo, name) : -1;

		if (k >= 0) {
			ends[i] = k;
			continue;
		}
		k = name ? inc_topology_switch_by_name(topo, name) : -1;
		if (k < 0)
			return inc_yaml_error(inc_yaml_at(seq, i), err,
					      "there is no host or switch '%.64s'",
					      name ? name : "");
		ends[i] = topo->n_hosts + k;
	}
	return 0;
}

static struct inc_topo_link *find_link(struct inc_topology *topo, const unsigned int ends[2])
{
	for (unsigned int i = 0; i < topo->n_links; i++) {
		struct inc_topo_link *link = &topo->links[i];
		unsigned int a = link->a + (link->a_is_switch ? topo->n_hosts : 0);
		unsigned int b = link->b + topo->n_hosts;

		if ((ends[0] == a && ends[1] == b) || (ends[0] == b && ends[1] == a))
			return link;
	}
	return NULL;
}

static int read_link(struct inc_topology *topo, const struct inc_yaml_node *map, bool *given,
		     struct inc_err *err)
{
	struct inc_topo_link *link, unknown = {0};
	unsigned int ends[2];
	int ret;

	/* the keys and values first: they do not hang on which link this is */
	ret = inc_schema_read_yaml(&link_schema, map, &unknown, err);
	if (!ret)
		ret = read_ends(topo, map, ends, err);
	if (ret)
		return ret;
	link = find_link(topo, ends);
	if (!link || given[link - topo->links])
		return inc_yaml_error(inc_yaml_get(map, "between"), err,
				      link ? "this link is given twice"
					   : "no port connects these two");
	given[link - topo->links] = true;
	link->has_wire |= inc_yaml_get(map, "wire") != NULL;
	return inc_schema_read_yaml(&link_schema, map, link, err);
}

static int read_links(struct inc_topology *topo, const struct inc_yaml_node *seq,
		      struct inc_err *err)
{
	int ret = inc_yaml_want_seq(seq, err);
	bool *given;

	if (ret)
		return ret;
	given = calloc(topo->n_links, sizeof(*given));
	if (!given)
		return inc_err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < inc_yaml_len(seq) && !ret; i++)
		ret = read_link(topo, inc_yaml_at(seq, i), given, err);
	free(given);
	return ret;
}

int inc_topology_link(struct inc_topology *topo, const struct inc_yaml_node *root,
		      struct inc_err *err)
{
	const struct inc_yaml_node *defaults = inc_yaml_get(root, "defaults");
	struct inc_topo_wire wire = {0};
	int ret = 0;

	for (unsigned int h = 0; h < topo->n_hosts; h++)
		topo->hosts[h].link = NO_PEER;
	for (unsigned int s = 0; s < topo->n_switches; s++) {
		for (unsigned int p = 0; p < topo->switches[s].n_ports && !ret; p++)
			ret = resolve_port(topo, s, p, port_node(root, s, p), err);
	}
	if (!ret && inc_yaml_get(defaults, "wire"))
		ret = inc_schema_read_yaml(&wire_schema, inc_yaml_get(defaults, "wire"), &wire,
					   err);
	if (!ret)
		ret = pair_ports(topo, root, err);
	if (!ret)
		ret = check_attached(topo, root, err);
	if (!ret)
		ret = check_connected(topo, root, err);
	if (!ret)
		ret = make_links(topo, inc_yaml_get(defaults, "wire") ? &wire : NULL, err);
	if (!ret && inc_yaml_get(root, "links"))
		ret = read_links(topo, inc_yaml_get(root, "links"), err);
	return ret;
}
