/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * incctl check: finds cables of this machine's switches that lead to another machine than the
 * topology has there. The kernel's neighbour table has addresses at each port, and a running switch
 * also has the names by which machines introduce themselves (LLDP).
 */
#include <ifaddrs.h>
#include <stdio.h>
#include <string.h>
#include "controller/incctl/incctl.h"
#include "lib/check/inspect.h"
#include "lib/topology/topology.h"

#define MAX_ENTRIES 256

/* A port of the topology, and the machines that are seen at it. */
struct cable {
	const struct inc_topology *topology;
	unsigned int sw; /* index of the port's switch */
	const struct inc_topo_port *port;
	bool right; /* a machine was seen that the topology has behind this port */
	/* the first machine that the topology has elsewhere; "": there is none */
	char wrong[INC_TOPO_NAME_MAX + 48];
	const struct inc_topo_port *other; /* this switch's port for it, or NULL */
};

struct inc_addr incctl_first_address(const struct ifaddrs *a, const char *ifname)
{
	struct inc_addr first = {}, ip;

	for (; a; a = a->ifa_next) {
		ip = inc_addr_of_sockaddr(a->ifa_addr);
		if (strcmp(a->ifa_name, ifname) != 0 || !inc_addr_is_host(ip))
			continue;
		if (inc_addr_is_ipv4(ip))
			return ip;
		first = ip;
	}
	return first;
}

const char *incctl_interface_with(const struct ifaddrs *a, struct inc_addr ip)
{
	while (a && !inc_addr_same(inc_addr_of_sockaddr(a->ifa_addr), ip))
		a = a->ifa_next;
	return a ? a->ifa_name : NULL;
}

bool incctl_is_known(const char *ifname, struct in_addr ip)
{
	struct inc_neighbour_entry entry[MAX_ENTRIES];
	const unsigned int n = inc_neighbours_read(ifname, entry, MAX_ENTRIES);
	unsigned int k = 0;

	while (k < n && entry[k].ip.s_addr != ip.s_addr)
		k++;
	return k < n;
}

/* Notes something with an address that belongs behind a port, or behind none of this switch (NULL).
 * by: how it is known. A machine that is also seen at its own port was here earlier. */
static void note(struct cable *s, const char *name, const char *by,
		 const struct inc_topo_port *port, struct inc_addr ip)
{
	if (port == s->port) {
		s->right = true;
		return;
	}
	if (*s->wrong || (port && incctl_is_known(port->name, inc_addr_in(ip))))
		return;
	snprintf(s->wrong, sizeof(s->wrong), "%s (%.40s)", name, by);
	s->other = port;
}

/* Whether the topology has another NIC of the host behind the port. This NIC may answer for the
 * addresses of all of them. */
static bool leads_to_other_nic(const struct cable *s, unsigned int nic)
{
	const struct inc_topo_host *hosts = s->topology->hosts;
	const struct inc_topo_peer *peer = s->port->peers;

	return s->port->n_peers && !peer->to_switch && peer->index != nic &&
	       hosts[peer->index].of == hosts[nic].of;
}

/* Notes a host. nic: its NIC; any of its NICs may be meant if it is known by name alone. */
static void note_host(struct cable *s, unsigned int nic, const char *by, bool any_nic)
{
	const struct inc_topology *t = s->topology;
	const struct inc_topo_host *h = &t->hosts[nic], *at = h;
	const struct inc_topo_port *port = NULL;

	if (!any_nic && leads_to_other_nic(s, nic))
		return;
	do {
		port = h->sw == s->sw ? &t->switches[h->sw].ports[h->port] : NULL;
		at = h;
		h = h->next ? &t->hosts[h->next] : NULL;
	} while (any_nic && port != s->port && h);
	note(s, at->name, by, port, at->ip);
}

/* Notes another switch. */
static void note_switch(struct cable *s, unsigned int index, const char *by)
{
	const struct inc_topo_switch *own = &s->topology->switches[s->sw];
	const struct inc_topo_switch *sw = &s->topology->switches[index];
	const struct inc_topo_port *port = NULL;
	struct inc_addr ip = {};
	unsigned int p, k;

	if (index == s->sw)
		return;
	/* several ports may lead to it */
	for (p = 0; p < own->n_ports && port != s->port; p++)
		for (k = 0; k < own->ports[p].n_peers && port != s->port; k++)
			if (own->ports[p].peers[k].to_switch &&
			    own->ports[p].peers[k].index == index) {
				port = &own->ports[p];
				ip = sw->ports[port->peers[k].port].ip;
			}
	note(s, sw->name, by, port, ip);
}

static void note_address(struct cable *s, struct inc_addr ip)
{
	const struct inc_topology *t = s->topology;
	const int host = inc_topology_host_by_ip(t, ip);
	char text[INC_ADDR_TEXT];
	unsigned int k, p;

	inc_addr_text(ip, text);
	if (host >= 0)
		note_host(s, host, text, false);
	for (k = 0; host < 0 && k < t->n_switches; k++)
		for (p = 0; p < t->switches[k].n_ports; p++)
			if (inc_addr_same(t->switches[k].ports[p].ip, ip))
				note_switch(s, k, text);
}

/* Notes a name that LLDP has, of which the first part counts. */
static void note_name(struct cable *s, const char *name)
{
	char first[INC_TOPO_NAME_MAX] = "";
	int found;

	snprintf(first, sizeof(first), "%.*s", (int)strcspn(name, "."), name);
	found = inc_topology_host_by_name(s->topology, first);
	if (found >= 0) {
		note_host(s, found, "by LLDP", true);
		return;
	}
	found = inc_topology_switch_by_name(s->topology, first);
	if (found >= 0)
		note_switch(s, found, "by LLDP");
}

/* Returns the name of what the topology has behind a port. */
static const char *wanted(const struct inc_topology *t, const struct inc_topo_port *port)
{
	if (!port->n_peers)
		return "a subnet of hosts";
	return port->peers[0].to_switch ? t->switches[port->peers[0].index].name
					: t->hosts[port->peers[0].index].name;
}

/* Finds the switch of a port. */
static unsigned int switch_of(const struct inc_topology *t, const struct inc_topo_port *port)
{
	unsigned int k = 0;

	while (k < t->n_switches && (port < t->switches[k].ports ||
				     port >= t->switches[k].ports + t->switches[k].n_ports))
		k++;
	return k;
}

void incctl_check_cable(const struct inc_topology *t, const struct inc_topo_port *port,
			const json_t *said, struct inc_findings *f)
{
	struct cable s = {.topology = t, .sw = switch_of(t, port), .port = port};
	struct inc_neighbour_entry entry[MAX_ENTRIES];
	unsigned int n;
	const json_t *at, *introduced;
	struct inc_finding *bad;
	char where[80];
	size_t i, k;

	/* everything on a bridge is seen at each of its ports */
	if (port->bridge >= 0)
		return;
	n = inc_neighbours_read(port->name, entry, MAX_ENTRIES);
	for (k = 0; k < n; k++)
		note_address(&s, inc_addr_of_in(entry[k].ip));
	json_array_foreach (said, i, at) {
		if (strcmp(incctl_text(at, "name"), port->name) != 0)
			continue;
		json_array_foreach (json_object_get(at, "introduced"), k, introduced)
			note_name(&s, incctl_text(introduced, "name"));
	}
	/* the table may still have a machine that was there earlier */
	if (s.right || !*s.wrong)
		return;
	snprintf(where, sizeof(where), "port %s", port->name);
	bad = inc_find(f, INC_FINDING_PROBLEM, where, "cable",
		       "it leads to %s, and in the topology to %s", s.wrong, wanted(t, port));
	if (s.other)
		inc_find_fix(bad, "No job with either can begin.",
			     "exchange the cables of %s and %s, or correct the topology",
			     port->name, s.other->name);
	else
		inc_find_fix(bad, "No job with either can begin.",
			     "connect %s to port %s, or correct the topology", wanted(t, port),
			     port->name);
}
