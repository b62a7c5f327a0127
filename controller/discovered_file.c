/* SPDX-License-Identifier: BSD-2-Clause */
/* The topology file that is made of segments and hosts (discovered.h). A comment stands beside
 * everything that is a guess, and for everything that is left out. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "controller/discovered.h"
#include "lib/base/log.h"

#define SUBNET_PREFIX 22 /* prefix length of the largest subnet that a port may have */
#define SHOWN         4  /* most hosts of a subnet that a comment names */
#define PREFIX_LEAST  8  /* bounds of a topology's prefix length */
#define PREFIX_MOST   31

/* ---- ports of a segment ---- */

static unsigned int count_hosts(const struct inc_found *f, unsigned int segment)
{
	unsigned int n = 0;

	for (unsigned int h = 0; h < f->n_hosts; h++)
		n += f->ports[f->hosts[h].port].segment == segment;
	return n;
}

/* Whether a cable or bridge of an earlier segment leads from one switch to the other. */
static bool are_linked(const struct inc_found *f, unsigned int a, unsigned int b,
		       unsigned int segment)
{
	for (unsigned int p = 0; p < f->n_ports; p++) {
		if (f->ports[p].sw != a || !f->ports[p].shape || f->ports[p].segment >= segment)
			continue;
		for (unsigned int q = f->ports[p].next; q != p; q = f->ports[q].next)
			if (f->ports[q].sw == b && f->ports[q].shape)
				return true;
	}
	return false;
}

/* Leaves out a port of a segment if a topology cannot have it there beside the port k, which stays.
 * Returns whether it stays, too. */
static bool stays_beside(struct inc_found *f, unsigned int p, unsigned int k)
{
	struct inc_found_port *port = &f->ports[p], *kept = &f->ports[k];

	if (port->sw == kept->sw)
		snprintf(port->why, sizeof(port->why),
			 "port %s of this switch is in the same network", kept->said.name);
	else if (are_linked(f, port->sw, kept->sw, port->segment))
		snprintf(port->why, sizeof(port->why),
			 "this is a second link to %s, and a topology has one",
			 inc_found_switch_of(f, kept));
	else
		return true;
	return false;
}

/* Decides which ports of a segment stay, and moves the hosts to one that does. Returns the number
 * of ports. */
static unsigned int choose_ports(struct inc_found *f, unsigned int segment, unsigned int *first)
{
	unsigned int n = 0;

	*first = INC_FOUND_NONE;
	for (unsigned int p = 0; p < f->n_ports; p++) {
		bool stays = f->ports[p].segment == segment && !*f->ports[p].why;

		for (unsigned int k = 0; stays && k < p; k++)
			if (f->ports[k].segment == segment && f->ports[k].shape)
				stays = stays_beside(f, p, k);
		if (!stays)
			continue;
		f->ports[p].shape = INC_FOUND_CABLE;
		*first = n++ ? *first : p;
	}
	for (unsigned int h = 0; h < f->n_hosts && n; h++) {
		struct inc_found_host *host = &f->hosts[h];

		if (f->ports[host->port].segment == segment && !f->ports[host->port].shape)
			host->port = *first;
	}
	return n;
}

/* Leaves out the only port of a segment without hosts. */
static void leave_alone(struct inc_found_port *port, unsigned int p)
{
	port->shape = INC_FOUND_OUT;
	if (port->next != p)
		snprintf(port->why, sizeof(port->why), "the port at its other end is left out");
	else
		snprintf(port->why, sizeof(port->why),
			 "nothing was seen there%s: ping the switch from the other end",
			 port->said.lldp ? "" : " (and LLDP frames are not received)");
}

/* Makes a name for a bridge that no switch has. Hosts have no such names. */
static void name_bridge(struct inc_found *f, char name[INC_TOPO_NAME_MAX])
{
	unsigned int s = 0;

	while (s < f->n_switches) {
		snprintf(name, INC_TOPO_NAME_MAX, "bridge-%u", f->n_bridges++);
		for (s = 0; s < f->n_switches && strcmp(f->switches[s].name, name) != 0; s++)
			;
	}
}

static void settle(struct inc_found *f, unsigned int segment)
{
	const unsigned int hosts = count_hosts(f, segment);
	unsigned int first, n = choose_ports(f, segment, &first);
	char bridge[INC_TOPO_NAME_MAX] = "";
	enum inc_found_shape shape = n + hosts == 2    ? INC_FOUND_CABLE
				     : n == 1 && hosts ? INC_FOUND_SUBNET
						       : INC_FOUND_BRIDGE;

	if (!n)
		return;
	if (n + hosts < 2) {
		leave_alone(&f->ports[first], first);
		return;
	}
	if (shape == INC_FOUND_SUBNET && f->ports[first].said.prefix < SUBNET_PREFIX)
		shape = INC_FOUND_BRIDGE;
	if (shape == INC_FOUND_BRIDGE)
		name_bridge(f, bridge);
	for (unsigned int p = 0; p < f->n_ports; p++) {
		if (f->ports[p].segment != segment || !f->ports[p].shape)
			continue;
		f->ports[p].shape = shape;
		memcpy(f->ports[p].bridge, bridge, sizeof(bridge));
	}
	for (unsigned int h = 0; h < f->n_hosts; h++) {
		struct inc_found_host *host = &f->hosts[h];

		if (f->ports[host->port].segment == segment) {
			host->listed = shape != INC_FOUND_SUBNET;
			f->switches[f->ports[host->port].sw].hosts++;
		}
	}
}

/* ---- the tree ---- */

/* Calls for each pair of ports of different switches on one cable or bridge. */
#define FOR_LINKS(f, p, q)                                                               \
	for (unsigned int p = 0; p < (f)->n_ports; p++)                                  \
		for (unsigned int q = (f)->ports[p].next; (f)->ports[p].shape && q != p; \
		     q = (f)->ports[q].next)                                             \
			if ((f)->ports[q].shape)

/* Stores the number of hops from switch s to each other one; INC_FOUND_NONE: there is no way. */
static void measure(const struct inc_found *f, unsigned int s, unsigned int *hops)
{
	bool changed = true;

	for (unsigned int i = 0; i < f->n_switches; i++)
		hops[i] = i == s ? 0 : INC_FOUND_NONE;
	while (changed) {
		changed = false;
		FOR_LINKS(f, p, q)
		{
			const unsigned int from = hops[f->ports[p].sw], to = f->ports[q].sw;

			if (from == INC_FOUND_NONE || hops[to] <= from + 1)
				continue;
			hops[to] = from + 1;
			changed = true;
		}
	}
}

/* Finds the part of the network with the most hosts, and leaves the switches of other parts out. */
static int measure_all(struct inc_found *f)
{
	unsigned int *hops = calloc(f->n_switches + 1, sizeof(*hops)), best = 0, most = 0;

	if (!hops)
		return -ENOMEM;
	for (unsigned int s = 0; s < f->n_switches; s++) {
		unsigned int hosts = 0;

		measure(f, s, hops);
		f->switches[s].part = INC_FOUND_NONE;
		for (unsigned int i = 0; i < f->n_switches; i++) {
			if (hops[i] == INC_FOUND_NONE)
				continue;
			if (f->switches[s].part == INC_FOUND_NONE)
				f->switches[s].part = i;
			hosts += f->switches[i].hosts;
			if (f->switches[i].hosts && hops[i] > f->switches[s].depth)
				f->switches[s].depth = hops[i];
		}
		if (hosts > most) {
			most = hosts;
			best = f->switches[s].part;
		}
	}
	free(hops);
	for (unsigned int s = 0; s < f->n_switches; s++) {
		f->switches[s].out = !most || f->switches[s].part != best;
		if (f->switches[s].out && f->n_switches > 1)
			inc_found_note(f,
				       "switch %s is left out: no link to the others was seen "
				       "(ping one of "
				       "them from there)",
				       f->switches[s].name);
	}
	return 0;
}

/* Chooses the root: the switch with the fewest hops to the hosts. Of several the ones without hosts
 * are all roots, as in a fat tree. Otherwise it is the first one. */
static void choose_root(struct inc_found *f)
{
	unsigned int best = INC_FOUND_NONE;
	bool spine = false;

	for (unsigned int s = 0; s < f->n_switches; s++) {
		if (f->switches[s].out || f->switches[s].depth > best)
			continue;
		spine = (spine && f->switches[s].depth == best) || !f->switches[s].hosts;
		best = f->switches[s].depth;
	}
	for (unsigned int s = 0, n = 0; s < f->n_switches; s++) {
		struct inc_found_switch *sw = &f->switches[s];

		sw->root = !sw->out && sw->depth == best && (spine ? !sw->hosts : !n);
		n += sw->root;
	}
}

/* ---- the file, as a JSON value whose objects may have comments ---- */

static json_t *commented(json_t *object, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
static json_t *commented(json_t *object, const char *fmt, ...)
{
	char text[320];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	json_object_set_new(object, INC_FOUND_NOTE, json_string(text));
	return object;
}

static bool is_listed(const struct inc_found *f, const struct inc_found_host *host)
{
	return host->listed && !f->switches[f->ports[host->port].sw].out;
}

static json_t *host_json(const struct inc_found *f, unsigned int h)
{
	const struct inc_found_host *host = &f->hosts[h];
	const struct inc_found_port *port = &f->ports[host->port];
	json_t *object = json_pack("{ss}", "name", host->name), *ips = json_array();

	for (unsigned int k = h; k < f->n_hosts; k++)
		if (is_listed(f, &f->hosts[k]) && !strcmp(f->hosts[k].name, host->name))
			json_array_append_new(ips, json_string(inc_found_ip(f->hosts[k].ip)));
	if (json_array_size(ips) == 1)
		json_object_set(object, "ip", json_array_get(ips, 0));
	else
		json_object_set(object, "ips", ips);
	json_decref(ips);
	return commented(object, "%s, at %s %s%s",
			 host->named ? "named by LLDP" : "guess: named by its address",
			 inc_found_switch_of(f, port), port->said.name,
			 host->stale ? ", not confirmed lately" : "");
}

static json_t *hosts_json(const struct inc_found *f)
{
	json_t *list = json_array();

	for (unsigned int h = 0; h < f->n_hosts; h++) {
		bool first = is_listed(f, &f->hosts[h]);

		for (unsigned int k = 0; k < h && first; k++)
			first = !is_listed(f, &f->hosts[k]) ||
				strcmp(f->hosts[k].name, f->hosts[h].name) != 0;
		if (first)
			json_array_append_new(list, host_json(f, h));
	}
	return list;
}

/* Lists the names of a port's peers. */
static json_t *peers_json(const struct inc_found *f, unsigned int p)
{
	json_t *list = json_array();

	for (unsigned int q = f->ports[p].next; q != p; q = f->ports[q].next)
		if (f->ports[q].shape)
			json_array_append_new(list,
					      json_string(inc_found_switch_of(f, &f->ports[q])));
	for (unsigned int h = 0; h < f->n_hosts; h++)
		if (f->hosts[h].port == p && is_listed(f, &f->hosts[h]))
			json_array_append_new(list, json_string(f->hosts[h].name));
	return list;
}

/* Adds the subnet of a port, and a comment with the hosts that were seen there. */
static json_t *subnet_json(const struct inc_found *f, unsigned int p, json_t *object)
{
	const struct inc_msg_place *said = &f->ports[p].said;
	const uint32_t mask = UINT32_MAX << (32 - said->prefix);
	char text[32], seen[SHOWN * (INET_ADDRSTRLEN + 2) + 8] = "";
	unsigned int n = 0;

	snprintf(text, sizeof(text), "%s/%u",
		 inc_found_ip((struct in_addr){said->ip.s_addr & htonl(mask)}), said->prefix);
	json_object_set_new(object, "hosts", json_string(text));
	for (unsigned int h = 0; h < f->n_hosts; h++) {
		if (f->hosts[h].port != p || n++ >= SHOWN)
			continue;
		snprintf(seen + strlen(seen), sizeof(seen) - strlen(seen), " %s",
			 inc_found_ip(f->hosts[h].ip));
	}
	return commented(object, "guess: all hosts of the network; %u were seen:%s%s", n, seen,
			 n > SHOWN ? " ..." : "");
}

static json_t *port_json(const struct inc_found *f, unsigned int p)
{
	const struct inc_found_port *port = &f->ports[p];
	json_t *object, *peers;

	if (!port->shape)
		return commented(json_object(), "%s is left out: %s", port->said.name, port->why);
	object = json_pack("{ss, ss}", "name", port->said.name, "ip", inc_found_ip(port->said.ip));
	if (port->shape == INC_FOUND_SUBNET)
		return subnet_json(f, p, object);
	peers = peers_json(f, p);
	if (port->shape == INC_FOUND_CABLE) {
		json_object_set(object, "peer", json_array_get(peers, 0));
		json_decref(peers);
		return object;
	}
	json_object_set_new(object, "peers", peers);
	json_object_set_new(object, "bridge", json_string(port->bridge));
	return commented(object, "an ordinary Ethernet switch is between");
}

static json_t *switches_json(const struct inc_found *f)
{
	json_t *list = json_array(), *object, *ports;

	for (unsigned int s = 0; s < f->n_switches; s++) {
		if (f->switches[s].out)
			continue;
		object = json_pack("{ss}", "name", f->switches[s].name);
		if (f->switches[s].root) {
			json_object_set_new(object, "root", json_true());
			commented(object, "guess: %u %s to the farthest hosts",
				  f->switches[s].depth, f->switches[s].depth == 1 ? "hop" : "hops");
		}
		ports = json_array();
		for (unsigned int p = 0; p < f->n_ports; p++)
			if (f->ports[p].sw == s)
				json_array_append_new(ports, port_json(f, p));
		json_object_set_new(object, "ports", ports);
		json_array_append_new(list, object);
	}
	return list;
}

static json_t *bridges_json(const struct inc_found *f)
{
	json_t *list = json_array();

	for (unsigned int p = 0; p < f->n_ports; p++) {
		const struct inc_found_port *port = &f->ports[p];
		unsigned int before = 0;

		while (before < p && (f->switches[f->ports[before].sw].out ||
				      strcmp(f->ports[before].bridge, port->bridge) != 0))
			before++;
		if (port->shape == INC_FOUND_BRIDGE && !f->switches[port->sw].out && before == p)
			json_array_append_new(list, json_pack("{ss}", "name", port->bridge));
	}
	return list;
}

/* ---- links and defaults ---- */

static bool is_used(const struct inc_found *f, const struct inc_found_port *port)
{
	return port->shape && !f->switches[port->sw].out;
}

static unsigned int mtu_of(const struct inc_msg_place *said)
{
	return said->mtu;
}

static unsigned int speed_of(const struct inc_msg_place *said)
{
	return said->speed_mbit;
}

/* Returns the value that most ports have; 0: no port has one. */
static unsigned int most_common(const struct inc_found *f,
				unsigned int (*value)(const struct inc_msg_place *said))
{
	unsigned int best = 0, most = 0;

	for (unsigned int p = 0; p < f->n_ports; p++) {
		const unsigned int v = value(&f->ports[p].said);
		unsigned int n = 0;

		for (unsigned int q = p; q < f->n_ports && v; q++)
			n += is_used(f, &f->ports[q]) && value(&f->ports[q].said) == v;
		if (n > most && is_used(f, &f->ports[p])) {
			most = n;
			best = v;
		}
	}
	return best;
}

static unsigned int shortest_prefix(struct inc_found *f)
{
	unsigned int shortest = PREFIX_MOST, longest = PREFIX_LEAST;

	for (unsigned int p = 0; p < f->n_ports; p++) {
		const unsigned int prefix = f->ports[p].said.prefix;

		if (!is_used(f, &f->ports[p]) || prefix < PREFIX_LEAST)
			continue;
		shortest = prefix < shortest ? prefix : shortest;
		longest = prefix > longest ? prefix : longest;
	}
	if (shortest < longest)
		inc_found_note(f,
			       "networks have prefix lengths of %u to %u, and a topology has one: "
			       "the shortest",
			       shortest, longest);
	return shortest;
}

static unsigned int smaller(unsigned int a, unsigned int b)
{
	return !a || (b && b < a) ? b : a;
}

/* Adds the entry of a cable whose MTU or speed differs from the defaults. b: the port at its other
 * end; NULL: it is a host or a bridge. */
static void add_link(json_t *list, const char *from, const char *to, const struct inc_found_port *a,
		     const struct inc_found_port *b, const json_t *defaults)
{
	const unsigned int mtu = b ? smaller(a->said.mtu, b->said.mtu) : a->said.mtu;
	const unsigned int speed =
		b ? smaller(a->said.speed_mbit, b->said.speed_mbit) : a->said.speed_mbit;
	const bool other_mtu = mtu && mtu != json_integer_value(json_object_get(defaults, "mtu"));
	const json_t *rate = json_object_get(defaults, "rate_mbit");
	const bool other_speed =
		speed && speed != (rate ? json_integer_value(rate) : INC_TOPO_DEF_RATE);
	json_t *object;

	if (!other_mtu && !other_speed)
		return;
	object = json_pack("{s[ss]}", "between", from, to);
	if (other_mtu)
		json_object_set_new(object, "mtu", json_integer(mtu));
	if (other_speed)
		json_object_set_new(object, "rate_mbit", json_integer(speed));
	if (b && a->said.mtu != b->said.mtu)
		commented(object, "port %s has MTU %u, and port %s has %u", a->said.name,
			  a->said.mtu, b->said.name, b->said.mtu);
	json_array_append_new(list, object);
}

static json_t *links_json(const struct inc_found *f, const json_t *defaults)
{
	json_t *list = json_array(), *peers;

	for (unsigned int p = 0; p < f->n_ports; p++) {
		const struct inc_found_port *port = &f->ports[p], *other = &f->ports[port->next];
		const char *name = inc_found_switch_of(f, port);
		const char *bridge = port->bridge;
		char subnet[INET_ADDRSTRLEN];

		if (!is_used(f, port))
			continue;
		if (port->shape == INC_FOUND_CABLE) {
			peers = peers_json(f, p);
			other = other != port && other->shape ? other : NULL;
			if (!other || p < port->next)
				add_link(list, name, json_string_value(json_array_get(peers, 0)),
					 port, other, defaults);
			json_decref(peers);
			continue;
		}
		if (port->shape == INC_FOUND_SUBNET) {
			const uint32_t mask = htonl(UINT32_MAX << (32 - port->said.prefix));

			snprintf(subnet, sizeof(subnet), "%s",
				 inc_found_ip((struct in_addr){port->said.ip.s_addr & mask}));
			bridge = subnet;
		}
		add_link(list, name, bridge, port, NULL, defaults);
	}
	return list;
}

static json_t *defaults_json(struct inc_found *f)
{
	const unsigned int mtu = most_common(f, mtu_of), speed = most_common(f, speed_of);
	json_t *object = json_pack("{si}", "prefix", (int)shortest_prefix(f));

	if (mtu)
		json_object_set_new(object, "mtu", json_integer(mtu));
	if (speed && speed != INC_TOPO_DEF_RATE)
		json_object_set_new(object, "rate_mbit", json_integer(speed));
	return object;
}

static void set_list(json_t *object, const char *key, json_t *list)
{
	if (json_array_size(list))
		json_object_set_new(object, key, list);
	else
		json_decref(list);
}

static json_t *topology_json(struct inc_found *f)
{
	json_t *object = json_pack("{ss}", "name", "discovered"), *defaults = defaults_json(f);

	set_list(object, "hosts", hosts_json(f));
	set_list(object, "switches", switches_json(f));
	set_list(object, "bridges", bridges_json(f));
	set_list(object, "links", links_json(f, defaults));
	json_object_set_new(object, "defaults", defaults);
	return object;
}

/* Whether a switch is left. None is if none has seen a host. */
static bool is_some_left(const struct inc_found *f)
{
	unsigned int n = 0;

	for (unsigned int s = 0; s < f->n_switches; s++)
		n += !f->switches[s].out;
	return n;
}

/* Reports why nothing is left of what switches have answered. */
static int refuse(const struct inc_found *f, struct inc_err *err)
{
	const json_t *item;
	size_t i;

	json_array_foreach (f->notes, i, item)
		inc_info("%s", json_string_value(item));
	return inc_err_set(err, ENOENT,
			   "%u switches have answered, and none of them has seen a host: ping each "
			   "switch from its hosts",
			   f->n_switches);
}

int inc_discovered_topology(const json_t *answers, json_t **topology, json_t **notes,
			    struct inc_err *err)
{
	struct inc_found f = {};
	int ret = inc_found_read(&f, answers);

	for (unsigned int s = 0; s < f.n_ports && !ret; s++)
		settle(&f, s);
	ret = ret ?: measure_all(&f);
	if (ret == -E2BIG) {
		inc_err_set(err, E2BIG, "more than %d hosts were seen, which no topology can have",
			    INC_TOPO_MAX_HOSTS);
	} else if (ret) {
		inc_err_set(err, -ret, "out of memory");
	} else if (!is_some_left(&f)) {
		ret = refuse(&f, err);
	} else {
		choose_root(&f);
		*topology = topology_json(&f);
		*notes = json_incref(f.notes);
	}
	inc_found_free(&f);
	return ret;
}
