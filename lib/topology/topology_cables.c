/* SPDX-License-Identifier: BSD-2-Clause */
/* The last step of reading a topology: makes every cable, and reads the links in the file. */
#include <errno.h>
#include <stdlib.h>
#include "lib/conf/schema.h"
#include "lib/conf/yaml.h"
#include "lib/topology/topology_priv.h"

#define WIRE(member) INC_AT(struct inc_topo_wire, member)
#define CHANCE       .kind = INC_REAL, .need = INC_OPTIONAL, .max = 1

static const struct inc_field wire_fields[] = {
	{"rate_mbit", INC_TOPO_RATE_FIELD, WIRE(rate_mbit)},
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
	{"rate_mbit", INC_TOPO_RATE_FIELD, INC_AT(struct inc_topo_link, rate_mbit)},
	{"wire", INC_MAP, INC_OPTIONAL, INC_AT(struct inc_topo_link, wire), .of = &wire_schema},
};
static const struct inc_schema link_schema = INC_SCHEMA(struct inc_topo_link, link_fields);

static unsigned int add_link(struct inc_topology *topo, struct inc_topo_end a,
			     struct inc_topo_end b, const struct inc_topo_wire *wire)
{
	struct inc_topo_link *link = &topo->links[topo->n_links];

	link->end[0] = a;
	link->end[1] = b;
	link->mtu = topo->mtu;
	link->rate_mbit = topo->rate_mbit;
	if (wire) {
		link->has_wire = true;
		link->wire = *wire;
	}
	return topo->n_links++;
}

/* Adds the cable of a port, and the cables of its hosts. A cable between two switches is added
 * once. */
static void add_links(struct inc_topology *topo, unsigned int s, unsigned int p,
		      const struct inc_topo_wire *wire)
{
	const struct inc_topo_end own = {INC_TOPO_SWITCH, s, p};
	struct inc_topo_port *port = &topo->switches[s].ports[p];
	const struct inc_topo_end bridge = {INC_TOPO_BRIDGE, port->bridge, 0};

	if (port->bridge >= 0)
		port->link = add_link(topo, own, bridge, wire);
	for (unsigned int i = 0; i < port->n_peers; i++) {
		const struct inc_topo_peer *peer = &port->peers[i];

		if (!peer->to_switch) {
			unsigned int link =
				add_link(topo, (struct inc_topo_end){INC_TOPO_HOST, peer->index, 0},
					 port->bridge < 0 ? own : bridge, wire);

			topo->hosts[peer->index].link = link;
			if (port->bridge < 0)
				port->link = link;
		} else if (port->bridge < 0) {
			/* a cable between two switches is added when the switch with the lower
			 * index is processed, so the other one has it already */
			port->link =
				peer->index < s
					? topo->switches[peer->index].ports[peer->port].link
					: add_link(topo,
						   (struct inc_topo_end){INC_TOPO_SWITCH,
									 peer->index, peer->port},
						   own, wire);
		}
	}
}

/* Makes all links of the topology. wire: the wire that every link has; NULL: the file has none. */
static int make_links(struct inc_topology *topo, const struct inc_topo_wire *wire,
		      struct inc_err *err)
{
	size_t n = topo->n_hosts;

	for (unsigned int s = 0; s < topo->n_switches; s++)
		n += topo->switches[s].n_ports;
	topo->links = calloc(n, sizeof(*topo->links));
	if (!topo->links)
		return inc_err_set(err, ENOMEM, "out of memory");
	for (unsigned int s = 0; s < topo->n_switches; s++) {
		for (unsigned int p = 0; p < topo->switches[s].n_ports; p++)
			add_links(topo, s, p, wire);
	}
	return 0;
}

static int read_ends(const struct inc_topology *topo, const struct inc_yaml_node *map,
		     struct inc_topo_end ends[2], struct inc_err *err)
{
	const struct inc_yaml_node *seq = inc_yaml_get(map, "between");

	if (inc_yaml_len(seq) != 2)
		return inc_yaml_error(seq, err, "is not a pair of names");
	for (int i = 0; i < 2; i++) {
		const char *name = inc_yaml_text(inc_yaml_at(seq, i));

		if (!name || !inc_topology_find(topo, name, &ends[i]))
			return inc_yaml_error(inc_yaml_at(seq, i), err,
					      "there is no host or switch '%.64s'",
					      name ? name : "");
	}
	return 0;
}

static bool joins(const struct inc_topo_link *link, const struct inc_topo_end *a,
		  const struct inc_topo_end *b)
{
	return link->end[0].kind == a->kind && link->end[0].index == a->index &&
	       link->end[1].kind == b->kind && link->end[1].index == b->index;
}

/* Finds the cable between a host and a switch or bridge. A host may have several to one switch, so
 * the file's entries are for its NICs in their order. If all are given, the last one is found. */
static struct inc_topo_link *find_cable(struct inc_topology *topo, struct inc_topo_end host,
					const struct inc_topo_end *to, const bool *given)
{
	struct inc_topo_link *found = NULL, *link;

	do {
		link = &topo->links[topo->hosts[host.index].link];
		if (joins(link, &host, to))
			found = link;
		host.index = topo->hosts[host.index].next;
	} while (host.index && (!found || given[found - topo->links]));
	return found;
}

static struct inc_topo_link *find_link(struct inc_topology *topo, const struct inc_topo_end ends[2],
				       const bool *given)
{
	for (int i = 0; i < 2; i++) {
		const struct inc_topo_end *a = &ends[i], *b = &ends[!i];
		struct inc_topo_link *link;

		if (a->kind == INC_TOPO_HOST)
			return find_cable(topo, *a, b, given);
		for (unsigned int p = 0; a->kind == INC_TOPO_SWITCH && b->kind != INC_TOPO_HOST &&
					 p < topo->switches[a->index].n_ports;
		     p++) {
			link = &topo->links[topo->switches[a->index].ports[p].link];
			if (joins(link, a, b) || joins(link, b, a))
				return link;
		}
	}
	return NULL;
}

static int read_link(struct inc_topology *topo, const struct inc_yaml_node *map, bool *given,
		     struct inc_err *err)
{
	struct inc_topo_link *link, unknown = {0};
	struct inc_topo_end ends[2];
	int ret;

	/* check the keys and values of an entry before its link is searched, because errors in them
	 * do not depend on the link */
	ret = inc_schema_read_yaml(&link_schema, map, &unknown, err);
	if (!ret)
		ret = read_ends(topo, map, ends, err);
	if (ret)
		return ret;
	link = find_link(topo, ends, given);
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

/* Sets the rate of links without one to that of their wire, or to the default. */
static void choose_rates(struct inc_topology *topo)
{
	for (unsigned int i = 0; i < topo->n_links; i++) {
		struct inc_topo_link *link = &topo->links[i];

		if (link->rate_mbit <= 0)
			link->rate_mbit =
				link->wire.rate_mbit > 0 ? link->wire.rate_mbit : INC_TOPO_DEF_RATE;
	}
}

int inc_topology_cables(struct inc_topology *topo, const struct inc_yaml_node *root,
			struct inc_err *err)
{
	const struct inc_yaml_node *every = inc_yaml_get(inc_yaml_get(root, "defaults"), "wire");
	struct inc_topo_wire wire = {0};
	int ret = 0;

	if (every)
		ret = inc_schema_read_yaml(&wire_schema, every, &wire, err);
	if (!ret)
		ret = make_links(topo, every ? &wire : NULL, err);
	if (!ret && inc_yaml_get(root, "links"))
		ret = read_links(topo, inc_yaml_get(root, "links"), err);
	if (!ret)
		choose_rates(topo);
	return ret;
}
