/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * incctl check: finds what is wrong on this machine, whether it is a switch, a host or the
 * controller's. It learns the interfaces from options, running switches and a topology file,
 * examines them with lib/check, and prints one line for each finding. One thread.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <glob.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "controller/incctl/incctl.h"
#include "lib/base/stdout.h"
#include "lib/check/inspect.h"
#include "lib/net/netdev.h"
#include "lib/topology/topology.h"

#define SOCKETS        "/run/inc/*.sock"
#define MAX_INTERFACES (4 * INC_TOPO_MAX_PORTS)
#define MAX_NEIGHBOURS 8

/* An interface to examine. */
struct interface {
	char name[IF_NAMESIZE];
	enum inc_adapter_use use;
	struct inc_addr own; /* its address; zeros: none */
	/* the topology's object here, a port of a switch or a host; NULL: there is none */
	const struct inc_topo_port *port;
	const struct inc_topo_host *host;
	char state[256]; /* the running switch's report of the port; "": there is none */
	bool lost;       /* the running switch cannot use it */
	bool unused;     /* the running switch does not know it, but the topology has it */
};

struct check {
	struct incctl_target target;
	const struct incctl_check *what;
	struct inc_findings findings;
	struct inc_topology *topology;
	struct ifaddrs *addresses;
	struct interface interface[MAX_INTERFACES];
	unsigned int n;
	/* a switch of this machine that runs, as the topology calls it; "": none */
	char switch_name[INC_TOPO_NAME_MAX];
	json_t *seen; /* answers of the running switches about their neighbours; NULL: none runs */
};

static bool is_port(const struct interface *i)
{
	return i->use != INC_ADAPTER_HOST;
}

static void name_interface(const struct interface *i, char where[80])
{
	snprintf(where, 80, "%s %s", is_port(i) ? "port" : "interface", i->name);
}

/* Returns the entry of an interface, which is new if there was none. NULL: there are too many. */
static struct interface *enter(struct check *c, const char *ifname, enum inc_adapter_use use)
{
	struct interface *i = c->interface;

	while (i < c->interface + c->n && strcmp(i->name, ifname) != 0)
		i++;
	if (i < c->interface + c->n)
		return i;
	if (c->n == MAX_INTERFACES)
		return NULL;
	*i = (struct interface){.use = use, .own = incctl_first_address(c->addresses, ifname)};
	snprintf(i->name, sizeof(i->name), "%s", ifname);
	c->n++;
	return i;
}

/* ---- switches that run on this machine -------------------------------------------------- */

/* Whether the port of a running switch is an interface of this network namespace. */
static bool is_here(const json_t *port)
{
	const unsigned int ifindex = if_nametoindex(incctl_text(port, "name"));
	uint8_t mac[6];
	char text[18];

	if (!ifindex || inc_interface_mac(ifindex, mac))
		return false;
	snprintf(text, sizeof(text), "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2],
		 mac[3], mac[4], mac[5]);
	return !strcmp(text, incctl_text(port, "mac"));
}

static void enter_port(struct check *c, const json_t *port, bool termination)
{
	const char *reason = incctl_text(port, "reason"), *state = incctl_text(port, "state");
	struct interface *i =
		enter(c, incctl_text(port, "name"),
		      termination ? INC_ADAPTER_TERMINATION : INC_ADAPTER_PASSTHROUGH);

	if (!i)
		return;
	i->lost = *reason || strcmp(state, "up") != 0;
	snprintf(i->state, sizeof(i->state), "%s", *reason ? reason : state);
}

static json_t *ask_socket(struct check *c, const char *path, const char *what, const char *instance)
{
	const struct incctl_target target = {.socket = path, .timeout_ms = c->target.timeout_ms};
	struct inc_err err;
	json_t *data = incctl_ask(&target, what, 0, &err);

	if (!data)
		inc_find_fix(inc_find(&c->findings, INC_FINDING_PROBLEM, instance, "answers",
				      "%.200s", err.msg),
			     "Nobody can ask this switch.",
			     "start inc-switchd again, or remove what is left: rm %s", path);
	return data;
}

static void examine_link(struct check *c, const char *where, const json_t *status)
{
	const char *state = incctl_text(status, "controller");

	snprintf(c->switch_name, sizeof(c->switch_name), "%s", incctl_text(status, "switch"));
	if (!strcmp(state, "none") || !strcmp(state, "connected"))
		inc_find(&c->findings, INC_FINDING_OK, where, "controller", "%s",
			 *state == 'n' ? "none, as configured" : "connected");
	else
		inc_find_fix(inc_find(&c->findings, INC_FINDING_PROBLEM, where, "controller",
				      "the switch is not connected to it: %.60s", state),
			     "No new communicator can use this switch.",
			     "read the log of inc-switchd, which has the reason");
}

/* Keeps a running switch's answer to "neighbours", and releases it. */
static void enter_seen(struct check *c, json_t *answer)
{
	if (!c->seen)
		c->seen = json_array();
	json_array_extend(c->seen, json_object_get(json_array_get(answer, 0), "data"));
	json_decref(answer);
}

/* Enters the ports of a running switch. must: also if its ports are not here. */
static void enter_switch(struct check *c, const char *path, bool must)
{
	json_t *ports, *port, *status = NULL;
	const char *base = strrchr(path, '/');
	bool here = false, termination;
	char where[80];
	size_t i;

	snprintf(where, sizeof(where), "switch %.60s", base ? base + 1 : path);
	where[strcspn(where, ".")] = '\0';
	ports = ask_socket(c, path, "ports", where);
	json_array_foreach (json_object_get(json_array_get(ports, 0), "data"), i, port)
		here |= is_here(port);
	if (ports && must && !here)
		inc_find_fix(inc_find(&c->findings, INC_FINDING_PROBLEM, where, "ports",
				      "its ports are not in this network namespace"),
			     "They cannot be examined from here.",
			     "nsenter --net=/run/netns/NAME incctl check");
	if (here) {
		status = ask_socket(c, path, "status", where);
		if (c->what->topology)
			enter_seen(c, ask_socket(c, path, "neighbours", where));
	}
	if (status) {
		const json_t *data = json_object_get(json_array_get(status, 0), "data");

		termination = !strcmp(incctl_text(data, "mode"), "termination");
		examine_link(c, where, data);
		json_array_foreach (json_object_get(json_array_get(ports, 0), "data"), i, port)
			enter_port(c, port, termination);
	}
	json_decref(status);
	json_decref(ports);
}

static void enter_switches(struct check *c)
{
	glob_t found;
	size_t i;

	if (c->target.socket) {
		enter_switch(c, c->target.socket, true);
		return;
	}
	if (glob(SOCKETS, 0, NULL, &found))
		return;
	for (i = 0; i < found.gl_pathc; i++)
		enter_switch(c, found.gl_pathv[i], false);
	globfree(&found);
}

/* ---- the topology ----------------------------------------------------------------------- */

static bool has_own_port(const struct check *c, const struct inc_topo_switch *sw)
{
	unsigned int p;

	if (!strcmp(sw->name, c->switch_name))
		return true;
	for (p = 0; p < sw->n_ports; p++)
		if (incctl_interface_with(c->addresses, sw->ports[p].ip))
			return true;
	return false;
}

static void enter_topology_switch(struct check *c, const struct inc_topo_switch *sw)
{
	struct interface *i;
	unsigned int p;

	for (p = 0; p < sw->n_ports; p++) {
		i = enter(c, sw->ports[p].name, INC_ADAPTER_PASSTHROUGH);
		if (!i)
			return;
		i->port = &sw->ports[p];
		i->own = sw->ports[p].ip;
		i->unused = !*i->state && !strcmp(sw->name, c->switch_name);
		if (sw->has_mode && !*i->state)
			i->use = sw->mode == INC_TERMINATION ? INC_ADAPTER_TERMINATION
							     : INC_ADAPTER_PASSTHROUGH;
	}
}

/* Reports a NIC of the topology whose address no interface has, if another NIC of its host is
 * here. */
static void find_lacking_nic(struct check *c, unsigned int nic)
{
	const struct inc_topo_host *hosts = c->topology->hosts;
	unsigned int k = hosts[nic].of;
	char ip[INC_ADDR_TEXT];

	while (hosts[k].next && !incctl_interface_with(c->addresses, hosts[k].ip))
		k = hosts[k].next;
	if (!incctl_interface_with(c->addresses, hosts[k].ip))
		return;
	inc_addr_text(hosts[nic].ip, ip);
	inc_find_fix(inc_find(&c->findings, INC_FINDING_PROBLEM, "topology", "nic",
			      "no interface has %s, which the topology gives host %s", ip,
			      hosts[nic].name),
		     "Jobs do not use this NIC.", "ip addr add %s/%u dev NIC", ip,
		     inc_topology_prefix(c->topology, hosts[nic].ip));
}

/* Reports an address of this machine that is in the network of a host, but not in the topology.
 * Returns whether there is one. */
static bool find_wrong_address(struct check *c)
{
	const struct inc_topology *t = c->topology;
	const struct inc_topo_host *h = t->hosts;
	char own[INC_ADDR_TEXT], wanted[INC_ADDR_TEXT];
	const struct ifaddrs *a = NULL;
	struct inc_addr ip = {};
	unsigned int prefix;

	for (; h < t->hosts + t->n_hosts && !a; h += !a)
		for (a = c->addresses; a; a = a->ifa_next) {
			ip = inc_addr_of_sockaddr(a->ifa_addr);
			if (inc_addr_given(ip) &&
			    inc_addr_same_network(ip, h->ip, inc_topology_prefix(t, ip)))
				break;
		}
	if (!a)
		return false;
	prefix = inc_topology_prefix(t, ip);
	inc_addr_text(ip, own);
	inc_addr_text(h->ip, wanted);
	inc_find_fix(inc_find(&c->findings, INC_FINDING_PROBLEM, "topology", "addresses",
			      "interface %s has %s, which is not in the topology; behind port %s "
			      "of %s it has %s (%s)",
			      a->ifa_name, own, t->switches[h->sw].ports[h->port].name,
			      t->switches[h->sw].name, h->name, wanted),
		     "The controller does not admit ranks of this machine.",
		     "correct the topology, or ip addr del %s/%u dev %s; ip addr add %s/%u dev %s",
		     own, prefix, a->ifa_name, wanted, prefix, a->ifa_name);
	return true;
}

static void enter_topology(struct check *c)
{
	char doubt[INC_TOPO_DOUBT_TEXT];
	struct interface *i;
	const char *ifname;
	struct inc_err err;
	unsigned int k;
	bool found = false;

	if (inc_topology_load(c->what->topology, &c->topology, &err)) {
		inc_find_fix(inc_find(&c->findings, INC_FINDING_PROBLEM, "topology", "file",
				      "%.250s", err.msg),
			     "The controller does not start with it.",
			     "correct it until this line is ok");
		return;
	}
	inc_find(&c->findings, INC_FINDING_OK, "topology", "file", "%u hosts, %u switches",
		 c->topology->n_hosts - c->topology->n_nics, c->topology->n_switches);
	if (*inc_topology_doubt(c->topology, doubt))
		inc_find_fix(inc_find(&c->findings, INC_FINDING_WARNING, "topology", "networks",
				      "%.*s", (int)strcspn(doubt, ","), doubt),
			     "The kernel sends what is for the peers of both by one of them.",
			     "give each port a network of its own, or correct defaults.prefix");
	for (k = 0; k < c->topology->n_switches; k++)
		if (has_own_port(c, &c->topology->switches[k])) {
			enter_topology_switch(c, &c->topology->switches[k]);
			found = true;
		}
	for (k = 0; k < c->topology->n_hosts; k++) {
		ifname = incctl_interface_with(c->addresses, c->topology->hosts[k].ip);
		i = ifname ? enter(c, ifname, INC_ADAPTER_HOST) : NULL;
		if (!ifname)
			find_lacking_nic(c, k);
		if (!i)
			continue;
		i->host = &c->topology->hosts[k];
		i->own = i->host->ip;
		found = true;
	}
	if (!found && !find_wrong_address(c))
		inc_find(&c->findings, INC_FINDING_SKIPPED, "topology", "addresses",
			 "no address of this machine is in it, so this is neither a switch nor a "
			 "host");
}

/* Compares an interface with the topology: its address, MTU and speed. */
static void compare(struct check *c, const char *where, const struct interface *i,
		    const struct inc_adapter *a)
{
	const struct inc_topo_link *link =
		&c->topology->links[i->port ? i->port->link : i->host->link];
	const char *at = incctl_interface_with(c->addresses, i->own);
	const unsigned int prefix = inc_topology_prefix(c->topology, i->own);
	struct inc_findings *f = &c->findings;
	char ip[INC_ADDR_TEXT];

	inc_addr_text(i->own, ip);
	if (at && !strcmp(at, i->name))
		inc_find(f, INC_FINDING_OK, where, "address", "%s, as in the topology", ip);
	else if (at)
		inc_find_fix(inc_find(f, INC_FINDING_PROBLEM, where, "address",
				      "interface %s has its address %s", at, ip),
			     "The switch looks for its peers behind another port.",
			     "ip addr del %s/%u dev %s; ip addr add %s/%u dev %s", ip, prefix, at,
			     ip, prefix, i->name);
	else
		inc_find_fix(inc_find(f, INC_FINDING_PROBLEM, where, "address",
				      "no interface has %s, which the topology gives it", ip),
			     "The peer does not find the switch.", "ip addr add %s/%u dev %s", ip,
			     prefix, i->name);
	if (a->mtu < link->mtu)
		inc_find_fix(inc_find(f, INC_FINDING_WARNING, where, "topology mtu",
				      "MTU %u, and the topology has %u", a->mtu, link->mtu),
			     "The controller takes it for longer packets than it carries.",
			     "ip link set dev %s mtu %u", i->name, link->mtu);
	if (a->speed_mbit && a->speed_mbit < link->rate_mbit)
		inc_find_fix(inc_find(f, INC_FINDING_WARNING, where, "topology rate",
				      "%g Gbit/s, and the topology has %g", a->speed_mbit / 1e3,
				      link->rate_mbit / 1e3),
			     "The controller chooses trees for a faster cable.",
			     "correct rate_mbit in the topology, or ethtool %s", i->name);
}

/* The level of the finding that no XDP program answers at a port of the switch. A switch without a
 * job in passthrough mode may have no program yet. */
static enum inc_finding_level level_of_silence(const struct inc_topo_switch *sw)
{
	return sw->has_mode && sw->mode == INC_TERMINATION ? INC_FINDING_OK : INC_FINDING_WARNING;
}

/* Notes that a neighbour with an IPv6 address is not examined. Returns false if it has none. */
static bool skip_ipv6(struct check *c, const char *where, struct inc_addr ip, const char *name)
{
	char text[INC_ADDR_TEXT];

	if (inc_addr_is_ipv4(ip))
		return false;
	inc_find(&c->findings, INC_FINDING_SKIPPED, where, "answers",
		 "%s (%s): neighbours with IPv4 addresses alone are examined; ping %s", name,
		 inc_addr_text(ip, text), text);
	return true;
}

/* Examines a switch of the topology that is a neighbour, by its port with this address. */
static void visit_switch(struct check *c, const char *where, const struct interface *i,
			 const struct inc_adapter *a, const struct inc_topo_switch *sw,
			 struct inc_addr ip)
{
	const struct inc_check_peer peer = {.ifname = i->name,
					    .own = inc_addr_in(i->own),
					    .ip = inc_addr_in(ip),
					    .name = sw->name};
	bool answers;

	if (skip_ipv6(c, where, ip, sw->name))
		return;
	answers = inc_inspect_neighbour(&c->findings, where, a, &peer, i->use, true);

	inc_inspect_echo(&c->findings, where, &peer,
			 answers ? level_of_silence(sw) : INC_FINDING_OK);
}

/* Examines a peer of a port. A host of a subnet need not exist, so it is examined if it is known.
 */
static void visit_peer(struct check *c, const char *where, const struct interface *i,
		       const struct inc_adapter *a, const struct inc_topo_peer *topo_peer)
{
	const struct inc_topology *t = c->topology;
	const unsigned int index = topo_peer->index;
	const bool listed = !topo_peer->to_switch && inc_topology_is_listed(t, index);
	struct inc_check_peer peer = {.ifname = i->name, .own = inc_addr_in(i->own)};

	if (topo_peer->to_switch) {
		visit_switch(c, where, i, a, &t->switches[index],
			     t->switches[index].ports[topo_peer->port].ip);
		return;
	}
	peer.ip = inc_addr_in(t->hosts[index].ip);
	peer.name = t->hosts[index].name;
	if (listed && skip_ipv6(c, where, t->hosts[index].ip, peer.name))
		return;
	if (listed || incctl_is_known(i->name, peer.ip))
		inc_inspect_neighbour(&c->findings, where, a, &peer, i->use, listed);
}

/* Examines what the topology has behind an interface. */
static void visit_topology(struct check *c, const char *where, const struct interface *i,
			   const struct inc_adapter *a)
{
	const struct inc_topo_switch *sw;
	unsigned int p;

	for (p = 0; i->port && p < i->port->n_peers; p++)
		visit_peer(c, where, i, a, &i->port->peers[p]);
	if (!i->host)
		return;
	sw = &c->topology->switches[i->host->sw];
	visit_switch(c, where, i, a, sw, sw->ports[i->host->port].ip);
}

/* ---- interfaces ------------------------------------------------------------------------- */

/* Examines the neighbours that the kernel knows. */
static void visit_neighbours(struct check *c, const char *where, const struct interface *i,
			     const struct inc_adapter *a)
{
	struct inc_neighbour_entry entry[MAX_NEIGHBOURS];
	unsigned int k, n = 0;

	if (inc_addr_is_ipv4(i->own))
		n = inc_neighbours_read(i->name, entry, MAX_NEIGHBOURS);
	if (!inc_addr_given(i->own)) {
		inc_find_fix(inc_find(&c->findings, INC_FINDING_PROBLEM, where, "address",
				      "it has no address"),
			     "No peer finds it.", "ip addr add ADDRESS/PREFIX dev %s", i->name);
		return;
	}
	for (k = 0; k < n; k++) {
		const struct inc_check_peer peer = {.ifname = i->name,
						    .own = inc_addr_in(i->own),
						    .ip = entry[k].ip,
						    .name = ""};

		inc_inspect_neighbour(&c->findings, where, a, &peer, i->use, false);
		inc_inspect_echo(&c->findings, where, &peer, INC_FINDING_OK);
	}
	if (!n)
		inc_find(&c->findings, INC_FINDING_SKIPPED, where, "answers",
			 "no neighbour is known; --topology FILE names those that must answer");
}

static void examine(struct check *c, const struct interface *i)
{
	struct inc_adapter a;
	char where[80];
	int ret = inc_adapter_read(i->name, &a);

	name_interface(i, where);
	if (ret) {
		inc_find_fix(inc_find(&c->findings, INC_FINDING_PROBLEM, where, "interface", "%s",
				      ret == -ENODEV ? "there is no interface of this name here"
						     : strerror(-ret)),
			     "No communicator can use it.",
			     "ip link shows the names: correct the option or the topology");
		return;
	}
	inc_adapter_judge(&c->findings, where, &a, i->use);
	if (i->lost)
		inc_find_fix(inc_find(&c->findings, INC_FINDING_PROBLEM, where, "switch", "%s",
				      i->state),
			     "The running switch does not use the port.",
			     "incctl events, and the log of inc-switchd");
	else if (i->unused)
		inc_find_fix(inc_find(&c->findings, INC_FINDING_PROBLEM, where, "switch",
				      "the running switch does not use it"),
			     "No job can use the port.", "start inc-switchd with --port %s, too",
			     i->name);
	else if (*i->state)
		inc_find(&c->findings, INC_FINDING_OK, where, "switch",
			 "the running switch uses it");
	if (c->topology && (i->port || i->host))
		compare(c, where, i, &a);
	if (!a.up || !a.carrier)
		return;
	if (c->topology && (i->port || i->host))
		visit_topology(c, where, i, &a);
	else
		visit_neighbours(c, where, i, &a);
}

/* ---- all together -------------------------------------------------------------------- */

static void enter_given(struct check *c)
{
	unsigned int k;

	for (k = 0; k < c->what->port.count; k++)
		enter(c, c->what->port.text[k], INC_ADAPTER_PASSTHROUGH);
	for (k = 0; k < c->what->nic.count; k++)
		enter(c, c->what->nic.text[k], INC_ADAPTER_HOST);
}

/* Examines the machine itself: what a switch needs, if this is one or may become one, and what a
 * host needs. */
static void examine_machine(struct check *c)
{
	bool passthrough = !c->n, is_switch_here = !c->n, is_host = !c->n, has_rdma = false;
	struct in_addr own = {0};
	unsigned int k;

	for (k = 0; k < c->n; k++) {
		passthrough |= c->interface[k].use == INC_ADAPTER_PASSTHROUGH;
		is_switch_here |= is_port(&c->interface[k]);
		is_host |= !is_port(&c->interface[k]);
		own = is_port(&c->interface[k]) ? own : inc_addr_in(c->interface[k].own);
	}
	if (passthrough) {
		inc_inspect_kernel(&c->findings);
		inc_inspect_bpf(&c->findings);
	}
	if (is_host)
		inc_inspect_rdma(&c->findings, own, &has_rdma);
	inc_inspect_limits(&c->findings, is_switch_here && c->n, has_rdma);
	inc_inspect_clocks(&c->findings);
	inc_inspect_listeners(&c->findings);
}

/* Prints what has been found so far, because neighbours that do not answer take seconds. */
static void show(struct check *c)
{
	if (!c->what->json)
		inc_findings_print(&c->findings);
}

int incctl_check(const struct incctl_target *target, const struct incctl_check *what)
{
	struct check c = {.target = *target, .what = what};
	struct inc_err err;
	unsigned int k;
	int ret;

	if (getifaddrs(&c.addresses))
		c.addresses = NULL;
	enter_switches(&c);
	enter_given(&c);
	if (what->topology)
		enter_topology(&c);
	examine_machine(&c);
	show(&c);
	for (k = 0; k < c.n; k++) {
		examine(&c, &c.interface[k]);
		show(&c);
	}
	/* the neighbours have been asked by now */
	for (k = 0; k < c.n; k++)
		if (c.interface[k].port)
			incctl_check_cable(c.topology, c.interface[k].port, c.seen, &c.findings);
	incctl_check_controller(&c.target, what->names_controller, &c.findings);
	show(&c);
	if (c.findings.lost)
		fputs("incctl: no memory for all findings\n", stderr);
	if (what->json)
		inc_findings_print_json(&c.findings);
	else
		inc_findings_print_total(&c.findings);
	ret = c.findings.lost || inc_findings_count(&c.findings, INC_FINDING_PROBLEM);
	if (inc_stdout_flush(&err)) {
		fprintf(stderr, "incctl: %s\n", err.msg);
		ret = 1;
	}
	inc_findings_free(&c.findings);
	inc_topology_free(c.topology);
	json_decref(c.seen);
	if (c.addresses)
		freeifaddrs(c.addresses);
	return ret;
}
