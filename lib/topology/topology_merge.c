/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Replaces a topology by that of a new file, while jobs use parts of the old one. Parts that they
 * use and that the file lacks are appended behind all parts of the file, and drain there. So the
 * parts of the file have the same indexes as in a controller that has just read the file.
 * inc-controller calls this when it receives SIGHUP, and when something has drained.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/topology/topology_priv.h"

#define WHERE_LEN  330 /* room for the places of three NICs of a host */
#define SUBNET_LEN (INC_ADDR_TEXT + sizeof("hosts /128"))

int inc_topo_map_init(struct inc_topo_map *map, const struct inc_topology *old)
{
	unsigned int n = 0;

	*map = (struct inc_topo_map){
		.host_used = calloc(old->n_hosts + 1, sizeof(*map->host_used)),
		.hosts = calloc(old->n_hosts + 1, sizeof(*map->hosts)),
		.switch_used = calloc(old->n_switches, sizeof(*map->switch_used)),
		.switches = calloc(old->n_switches, sizeof(*map->switches)),
		.first_port = calloc(old->n_switches + 1, sizeof(*map->first_port)),
	};
	if (!map->host_used || !map->hosts || !map->switch_used || !map->switches ||
	    !map->first_port)
		return -ENOMEM;
	for (unsigned int s = 0; s < old->n_switches; s++) {
		n += old->switches[s].n_ports;
		map->first_port[s + 1] = n;
	}
	map->port_used = calloc(n, sizeof(*map->port_used));
	map->ports = calloc(n, sizeof(*map->ports));
	return map->port_used && map->ports ? 0 : -ENOMEM;
}

void inc_topo_map_free(struct inc_topo_map *map)
{
	free(map->host_used);
	free(map->hosts);
	free(map->switch_used);
	free(map->switches);
	free(map->port_used);
	free(map->ports);
	free(map->first_port);
	*map = (struct inc_topo_map){};
}

static void *copy(const void *from, size_t n, size_t size)
{
	void *to = calloc(n + 1, size);

	if (to && n)
		memcpy(to, from, n * size);
	return to;
}

static int copy_ports(struct inc_topo_switch *to, const struct inc_topo_switch *from)
{
	to->n_ports = 0;
	to->ports = copy(from->ports, from->n_live_ports, sizeof(*to->ports));
	if (!to->ports)
		return -ENOMEM;
	for (; to->n_ports < from->n_live_ports; to->n_ports++) {
		struct inc_topo_port *port = &to->ports[to->n_ports];

		port->peers =
			copy(from->ports[to->n_ports].peers, port->n_peers, sizeof(*port->peers));
		if (!port->peers)
			return -ENOMEM;
	}
	return 0;
}

static int copy_index(struct inc_topo_index *to, const struct inc_topo_index *from)
{
	*to = *from;
	to->slots = copy(from->slots, from->room, sizeof(*to->slots));
	return to->slots ? 0 : -ENOMEM;
}

static int copy_parts(struct inc_topology *to, const struct inc_topology *from)
{
	int ret = 0;

	to->hosts = copy(from->hosts, from->n_live_hosts, sizeof(*to->hosts));
	to->switches = calloc(from->n_live_switches, sizeof(*to->switches));
	to->bridges = copy(from->bridges, from->n_bridges, sizeof(*to->bridges));
	to->links = copy(from->links, from->n_live_links, sizeof(*to->links));
	if (!to->hosts || !to->switches || !to->bridges || !to->links)
		return -ENOMEM;
	while (!ret && to->n_switches < from->n_live_switches) {
		struct inc_topo_switch *sw = &to->switches[to->n_switches];

		*sw = from->switches[to->n_switches];
		ret = copy_ports(sw, &from->switches[to->n_switches++]);
	}
	return ret;
}

struct inc_topology *inc_topology_copy(const struct inc_topology *topo)
{
	struct inc_topology *to = calloc(1, sizeof(*to));

	if (!to)
		return NULL;
	*to = *topo;
	to->hosts = NULL;
	to->switches = NULL;
	to->bridges = NULL;
	to->links = NULL;
	to->n_switches = 0;
	to->n_hosts = topo->n_live_hosts;
	to->n_links = topo->n_live_links;
	/* both indexes are copied even after an error, because they must not be freed twice */
	if (copy_index(&to->by_name, &topo->by_name) | copy_index(&to->by_ip, &topo->by_ip) |
	    copy_parts(to, topo)) {
		inc_topology_free(to);
		return NULL;
	}
	return to;
}

bool inc_topology_drains(const struct inc_topology *topo)
{
	bool any = topo->n_hosts > topo->n_live_hosts || topo->n_switches > topo->n_live_switches;

	for (unsigned int s = 0; !any && s < topo->n_live_switches; s++)
		any = topo->switches[s].n_ports > topo->switches[s].n_live_ports;
	return any;
}

/* Whether a host of the file has the same NICs as one of the old topology: their addresses and
 * switches. is, was: the hosts' first NICs. */
static bool has_same_nics(const struct inc_topology *topo, unsigned int is,
			  const struct inc_topology *old, unsigned int was)
{
	for (;;) {
		const struct inc_topo_host *a = &topo->hosts[is], *b = &old->hosts[was];

		if (!inc_addr_same(a->ip, b->ip) ||
		    strcmp(topo->switches[a->sw].name, old->switches[b->sw].name) != 0)
			return false;
		if (!a->next || !b->next)
			return !a->next && !b->next;
		is = a->next;
		was = b->next;
	}
}

/* Finds the NIC of the file that is the same as one of the old topology, or returns
 * INC_TOPO_NOWHERE. A host whose NICs differ is another host, so all its old NICs drain. */
static unsigned int same_host(const struct inc_topology *topo, const struct inc_topology *old,
			      unsigned int h)
{
	const struct inc_topo_host *was = &old->hosts[h];
	const int found = inc_topology_host_by_name(topo, was->name);

	if (found < 0 || !has_same_nics(topo, found, old, was->of))
		return INC_TOPO_NOWHERE;
	return inc_topology_nic(topo, found, was->rail);
}

static unsigned int same_port(const struct inc_topo_switch *sw, const struct inc_topo_port *was)
{
	const int found = inc_topology_port_by_name(sw, was->name);

	return found < 0 || !inc_addr_same(sw->ports[found].ip, was->ip) ? INC_TOPO_NOWHERE
									 : (unsigned int)found;
}

/* A host in use needs all its NICs. Each of them needs its switch, and the port to it. */
static void use_hosts(const struct inc_topology *old, struct inc_topo_map *map)
{
	for (unsigned int h = 0; h < old->n_hosts; h++)
		map->host_used[old->hosts[h].of] |= map->host_used[h];
	for (unsigned int h = 0; h < old->n_hosts; h++)
		map->host_used[h] = map->host_used[old->hosts[h].of];
	for (unsigned int h = 0; h < old->n_hosts; h++) {
		if (!map->host_used[h])
			continue;
		map->switch_used[old->hosts[h].sw] = true;
		map->port_used[map->first_port[old->hosts[h].sw] + old->hosts[h].port] = true;
	}
	for (unsigned int s = 0; s < old->n_switches; s++) {
		for (unsigned int p = map->first_port[s]; p < map->first_port[s + 1]; p++)
			map->switch_used[s] |= map->port_used[p];
	}
}

/* Appends a copy of a link of the old topology, without its ends. Links have room for it. */
static unsigned int add_link(struct inc_topology *topo, const struct inc_topology *old,
			     unsigned int link)
{
	topo->links[topo->n_links] = (struct inc_topo_link){
		.mtu = old->links[link].mtu,
		.rate_mbit = old->links[link].rate_mbit,
	};
	return topo->n_links++;
}

/* Makes room in topo for all that may be appended. */
static int make_room(struct inc_topology *topo, const struct inc_topology *old,
		     const struct inc_topo_map *map)
{
	const unsigned int n_ports = map->first_port[old->n_switches];
	struct inc_topo_switch *switches;
	struct inc_topo_host *hosts;
	struct inc_topo_link *links;

	hosts = reallocarray(topo->hosts, topo->n_hosts + old->n_hosts, sizeof(*hosts));
	topo->hosts = hosts ?: topo->hosts;
	switches =
		reallocarray(topo->switches, topo->n_switches + old->n_switches, sizeof(*switches));
	topo->switches = switches ?: topo->switches;
	links = reallocarray(topo->links, topo->n_links + old->n_hosts + n_ports, sizeof(*links));
	topo->links = links ?: topo->links;
	return hosts && switches && links ? 0 : -ENOMEM;
}

/* Stores the new index of a switch, which is appended if it is in use and the file lacks it. */
static void merge_switch(struct inc_topology *topo, const struct inc_topology *old,
			 struct inc_topo_map *map, unsigned int s)
{
	const int found = inc_topology_switch_by_name(topo, old->switches[s].name);
	struct inc_topo_switch *sw = &topo->switches[topo->n_switches];

	map->switches[s] = INC_TOPO_NOWHERE;
	if (found >= 0) {
		map->switches[s] = found;
	} else if (map->switch_used[s]) {
		*sw = old->switches[s];
		sw->ports = NULL;
		sw->n_ports = sw->n_live_ports = 0;
		map->switches[s] = topo->n_switches++;
	}
}

/* Stores the new indexes of a switch's ports, and appends those that are in use and that the file
 * lacks. */
static int merge_ports(struct inc_topology *topo, const struct inc_topology *old,
		       struct inc_topo_map *map, unsigned int s)
{
	const struct inc_topo_switch *was = &old->switches[s];
	struct inc_topo_port *ports;
	struct inc_topo_switch *sw;

	for (unsigned int p = 0; p < was->n_ports; p++)
		*inc_topo_map_port(map, s, p) = INC_TOPO_NOWHERE;
	if (map->switches[s] == INC_TOPO_NOWHERE)
		return 0;
	sw = &topo->switches[map->switches[s]];
	ports = reallocarray(sw->ports, sw->n_ports + was->n_ports, sizeof(*ports));
	if (!ports)
		return -ENOMEM;
	sw->ports = ports;
	for (unsigned int p = 0; p < was->n_ports; p++) {
		unsigned int *to = inc_topo_map_port(map, s, p);

		*to = same_port(sw, &was->ports[p]);
		if (*to != INC_TOPO_NOWHERE || !map->port_used[map->first_port[s] + p])
			continue;
		ports[sw->n_ports] = (struct inc_topo_port){
			.ip = was->ports[p].ip,
			.vlan = was->ports[p].vlan,
			.verbs = was->ports[p].verbs,
			.bridge = -1,
			.link = add_link(topo, old, was->ports[p].link),
		};
		strcpy(ports[sw->n_ports].name, was->ports[p].name);
		*to = sw->n_ports++;
	}
	return 0;
}

/* Stores the new index of a NIC, which is appended if it is in use and the file lacks it. The first
 * NIC of its host has got its new index before. */
static void merge_host(struct inc_topology *topo, const struct inc_topology *old,
		       struct inc_topo_map *map, unsigned int h)
{
	const struct inc_topo_host *was = &old->hosts[h];

	map->hosts[h] = same_host(topo, old, h);
	if (map->hosts[h] != INC_TOPO_NOWHERE || !map->host_used[h])
		return;
	topo->hosts[topo->n_hosts] = (struct inc_topo_host){
		.ip = was->ip,
		.of = was->of == h ? topo->n_hosts : map->hosts[was->of],
		.rail = was->rail,
		.sw = map->switches[was->sw],
		.port = *inc_topo_map_port(map, was->sw, was->port),
		.link = add_link(topo, old, was->link),
	};
	strcpy(topo->hosts[topo->n_hosts].name, was->name);
	map->hosts[h] = topo->n_hosts++;
}

int inc_topology_merge(struct inc_topology *topo, const struct inc_topology *old,
		       struct inc_topo_map *map)
{
	int ret = make_room(topo, old, map);

	use_hosts(old, map);
	for (unsigned int s = 0; !ret && s < old->n_switches; s++)
		merge_switch(topo, old, map, s);
	for (unsigned int s = 0; !ret && s < old->n_switches; s++)
		ret = merge_ports(topo, old, map, s);
	for (unsigned int h = 0; !ret && h < old->n_hosts; h++)
		merge_host(topo, old, map, h);
	for (unsigned int h = 0; !ret && h < old->n_hosts; h++) {
		if (old->hosts[h].next && map->hosts[h] != INC_TOPO_NOWHERE)
			topo->hosts[map->hosts[h]].next = map->hosts[old->hosts[h].next];
	}
	return ret;
}

/* Two topologies that are compared, and the function that receives each difference. */
struct compare {
	const struct inc_topology *old, *topo;
	void (*fn)(void *arg, enum inc_topo_change change, const char *text);
	void *arg;
};

static void report(const struct compare *c, enum inc_topo_change change, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void report(const struct compare *c, enum inc_topo_change change, const char *fmt, ...)
{
	char text[2 * INC_VERBS_CONF_TEXT + 100];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	c->fn(c->arg, change, text);
}

/* Prints where a host is, such as "10.0.0.1 at s0 port p0", and after a comma its further NICs. */
static const char *print_host(const struct inc_topology *topo, const struct inc_topo_host *host,
			      char buf[WHERE_LEN])
{
	char ip[INC_ADDR_TEXT];
	size_t n = 0;

	for (;;) {
		n += snprintf(buf + n, WHERE_LEN - n, "%s%s at %s port %s", n ? ", " : "",
			      inc_addr_text(host->ip, ip), topo->switches[host->sw].name,
			      topo->switches[host->sw].ports[host->port].name);
		if (!host->next || n >= WHERE_LEN)
			return buf;
		host = &topo->hosts[host->next];
	}
}

static void compare_hosts(const struct compare *c)
{
	const struct inc_topology *old = c->old, *topo = c->topo;
	char a[WHERE_LEN], b[WHERE_LEN];

	for (unsigned int h = 0; h < topo->n_listed_hosts; h++) {
		const struct inc_topo_host *is = &topo->hosts[h];
		const int was = inc_topology_host_by_name(old, is->name);

		print_host(topo, is, b);
		if (was < 0)
			report(c, INC_TOPO_ADDED, "host %s is added, %s", is->name, b);
		else if (strcmp(print_host(old, &old->hosts[was], a), b) != 0)
			report(c, INC_TOPO_CHANGED, "host %s was %s and is now %s", is->name, a, b);
	}
	for (unsigned int h = 0; h < old->n_listed_hosts; h++) {
		if (inc_topology_host_by_name(topo, old->hosts[h].name) < 0)
			report(c, INC_TOPO_REMOVED, "host %s is removed, %s", old->hosts[h].name,
			       print_host(old, &old->hosts[h], a));
	}
}

static const char *mode_of(const struct inc_topo_switch *sw)
{
	return sw->has_mode ? inc_mode_settings[sw->mode] : "its own";
}

static void compare_switch(const struct compare *c, const struct inc_topo_switch *was,
			   const struct inc_topo_switch *is)
{
	if (was->root != is->root)
		report(c, INC_TOPO_CHANGED, "switch %s is %s root now", is->name,
		       is->root ? "a" : "no");
	if (strcmp(mode_of(was), mode_of(is)) != 0)
		report(c, INC_TOPO_CHANGED, "switch %s had mode %s and has now %s", is->name,
		       mode_of(was), mode_of(is));
}

static const char *print_subnet(const struct inc_topo_port *port, char buf[SUBNET_LEN])
{
	char ip[INC_ADDR_TEXT];

	if (port->subnet_bits)
		snprintf(buf, SUBNET_LEN, "hosts %s/%u", inc_addr_text(port->subnet, ip),
			 port->subnet_bits);
	else
		strcpy(buf, "no subnet of hosts");
	return buf;
}

/* Reports what differs at a port. was or is is NULL if only one file has the port. */
static void compare_port(const struct compare *c, const char *sw, const struct inc_topo_port *was,
			 const struct inc_topo_port *is)
{
	const char *name = is ? is->name : was->name;
	char a[INC_VERBS_CONF_TEXT], b[INC_VERBS_CONF_TEXT];

	if (!was || !is) {
		inc_addr_text(is ? is->ip : was->ip, a);
		report(c, is ? INC_TOPO_ADDED : INC_TOPO_REMOVED, "port %s of %s %s, %s, %s", name,
		       sw, is ? "is added" : "is removed", a, print_subnet(is ?: was, b));
		return;
	}
	if (!inc_addr_same(was->ip, is->ip))
		report(c, INC_TOPO_CHANGED, "port %s of %s was %s and is now %s", name, sw,
		       inc_addr_text(was->ip, a), inc_addr_text(is->ip, b));
	if (strcmp(print_subnet(was, a), print_subnet(is, b)) != 0)
		report(c, INC_TOPO_CHANGED, "port %s of %s had %s and has now %s", name, sw, a, b);
	if (was->vlan != is->vlan)
		report(c, INC_TOPO_CHANGED, "port %s of %s had VLAN %u and has now %u (0: none)",
		       name, sw, was->vlan, is->vlan);
	if (strcmp(inc_verbs_conf_text(&was->verbs, a), inc_verbs_conf_text(&is->verbs, b)) != 0)
		report(c, INC_TOPO_CHANGED, "port %s of %s had verbs %s and has now %s", name, sw,
		       a, b);
}

static void compare_ports(const struct compare *c, const struct inc_topo_switch *was,
			  const struct inc_topo_switch *is)
{
	for (unsigned int p = 0; p < is->n_live_ports; p++) {
		const unsigned int at = inc_topology_port_by_name(was, is->ports[p].name);

		compare_port(c, is->name, at < was->n_live_ports ? &was->ports[at] : NULL,
			     &is->ports[p]);
	}
	for (unsigned int p = 0; p < was->n_live_ports; p++) {
		const unsigned int at = inc_topology_port_by_name(is, was->ports[p].name);

		if (at >= is->n_live_ports)
			compare_port(c, is->name, &was->ports[p], NULL);
	}
}

static void compare_switches(const struct compare *c)
{
	const struct inc_topology *old = c->old, *topo = c->topo;

	for (unsigned int s = 0; s < topo->n_live_switches; s++) {
		const struct inc_topo_switch *is = &topo->switches[s];
		const int was = inc_topology_switch_by_name(old, is->name);

		if (was < 0 || (unsigned int)was >= old->n_live_switches) {
			report(c, INC_TOPO_ADDED, "switch %s is added, with %u ports", is->name,
			       is->n_live_ports);
			continue;
		}
		compare_switch(c, &old->switches[was], is);
		compare_ports(c, &old->switches[was], is);
	}
	for (unsigned int s = 0; s < old->n_live_switches; s++) {
		const int is = inc_topology_switch_by_name(topo, old->switches[s].name);

		if (is < 0 || (unsigned int)is >= topo->n_live_switches)
			report(c, INC_TOPO_REMOVED, "switch %s is removed", old->switches[s].name);
	}
}

/* Prints an end of a link, such as "s0 port p1". */
static void print_end(const struct inc_topology *topo, const struct inc_topo_end *end, char *buf,
		      size_t size)
{
	if (end->kind == INC_TOPO_HOST)
		snprintf(buf, size, "%s", topo->hosts[end->index].name);
	else if (end->kind == INC_TOPO_BRIDGE)
		snprintf(buf, size, "%s", topo->bridges[end->index].name);
	else
		snprintf(buf, size, "%s port %s", topo->switches[end->index].name,
			 topo->switches[end->index].ports[end->port].name);
}

/* Prints the name of a link, such as "h0 - s0 port p0". The name is the same whichever of two
 * switches comes first in the file. */
static void print_link(const struct inc_topology *topo, const struct inc_topo_link *link,
		       char buf[120])
{
	char a[56], b[56];

	print_end(topo, &link->end[0], a, sizeof(a));
	print_end(topo, &link->end[1], b, sizeof(b));
	if (link->end[0].kind == INC_TOPO_SWITCH && link->end[1].kind == INC_TOPO_SWITCH &&
	    strcmp(a, b) > 0)
		snprintf(buf, 120, "%s - %s", b, a);
	else
		snprintf(buf, 120, "%s - %s", a, b);
}

struct named_link {
	char name[120];
	const struct inc_topo_link *link;
};

static int compare_names(const void *a, const void *b)
{
	return strcmp(((const struct named_link *)a)->name, ((const struct named_link *)b)->name);
}

/* Lists the links of a file by their names, without those of hosts of subnets. Returns NULL if
 * there is no memory. */
static struct named_link *list_links(const struct inc_topology *topo, size_t *n)
{
	struct named_link *list = calloc(topo->n_live_links + 1, sizeof(*list));

	*n = 0;
	for (unsigned int l = 0; list && l < topo->n_live_links; l++) {
		const struct inc_topo_link *link = &topo->links[l];

		if (link->end[0].kind == INC_TOPO_HOST &&
		    !inc_topology_is_listed(topo, link->end[0].index))
			continue;
		print_link(topo, link, list[*n].name);
		list[(*n)++].link = link;
	}
	if (*n)
		qsort(list, *n, sizeof(*list), compare_names);
	return list;
}

static void compare_link(const struct compare *c, const struct named_link *was,
			 const struct named_link *is)
{
	if (was->link->mtu != is->link->mtu)
		report(c, INC_TOPO_CHANGED, "link %s had MTU %u and has now %u", is->name,
		       was->link->mtu, is->link->mtu);
	if (was->link->rate_mbit < is->link->rate_mbit ||
	    was->link->rate_mbit > is->link->rate_mbit)
		report(c, INC_TOPO_CHANGED, "link %s had rate %g Gbit/s and has now %g", is->name,
		       was->link->rate_mbit / 1e3, is->link->rate_mbit / 1e3);
}

static void compare_links(const struct compare *c)
{
	size_t n_old, n_new, i = 0, k = 0;
	struct named_link *was = list_links(c->old, &n_old), *is = list_links(c->topo, &n_new);

	while (was && is && (i < n_old || k < n_new)) {
		const int order = i == n_old   ? 1
				  : k == n_new ? -1
					       : strcmp(was[i].name, is[k].name);

		if (order < 0)
			report(c, INC_TOPO_REMOVED, "link %s is removed", was[i++].name);
		else if (order > 0)
			report(c, INC_TOPO_ADDED, "link %s is added", is[k++].name);
		else
			compare_link(c, &was[i++], &is[k++]);
	}
	free(was);
	free(is);
}

void inc_topology_compare(const struct inc_topology *old, const struct inc_topology *topo,
			  void (*fn)(void *arg, enum inc_topo_change change, const char *text),
			  void *arg)
{
	const struct compare c = {old, topo, fn, arg};

	compare_switches(&c);
	compare_hosts(&c);
	compare_links(&c);
}
