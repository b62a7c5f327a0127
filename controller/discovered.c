/* SPDX-License-Identifier: BSD-2-Clause */
/* The segments and hosts in what switches have answered (discovered.h). */
#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "controller/discovered.h"

#define SEVERAL ((unsigned int)-2)

void inc_found_note(struct inc_found *f, const char *fmt, ...)
{
	char text[320];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	json_array_append_new(f->notes, json_string(text));
}

const char *inc_found_ip(struct in_addr ip)
{
	static char text[INET_ADDRSTRLEN];

	return inet_ntop(AF_INET, &ip, text, sizeof(text)) ?: "";
}

static bool same_network(struct in_addr a, struct in_addr b, unsigned int prefix)
{
	return !prefix || !(ntohl(a.s_addr ^ b.s_addr) >> (32 - prefix));
}

/* ---- reading the answers ---- */

static int compare_names(const void *a, const void *b)
{
	return strcmp(((const struct inc_found_switch *)a)->name,
		      ((const struct inc_found_switch *)b)->name);
}

static void read_port(struct inc_found *f, unsigned int sw, const json_t *object)
{
	struct inc_found_port *port = &f->ports[f->n_ports];
	struct inc_err err;

	*port = (struct inc_found_port){.sw = sw,
					.segment = f->n_ports,
					.next = f->n_ports,
					.neighbours = json_object_get(object, "neighbours"),
					.introduced = json_object_get(object, "introduced")};
	if (inc_schema_read_json(&inc_place_schema, object, &port->said, &err)) {
		inc_found_note(f, "switch %s: a port is left out: %s", f->switches[sw].name,
			       err.msg);
		return;
	}
	if (!inc_topology_is_port_name(port->said.name))
		snprintf(port->why, sizeof(port->why), "this is no name for a topology");
	else if (!port->said.has_ip)
		snprintf(port->why, sizeof(port->why),
			 "it has no address (ip addr add ADDRESS/PREFIX dev %s)", port->said.name);
	f->n_ports++;
}

static int read_answers(struct inc_found *f, const json_t *answers)
{
	const json_t *data, *object;
	const char *name;
	size_t n = 0, i;

	f->notes = json_array();
	f->switches = calloc(json_object_size(answers) + 1, sizeof(*f->switches));
	json_object_foreach ((json_t *)answers, name, data) {
		if (f->switches)
			f->switches[f->n_switches++].name = name;
		n += json_array_size(data);
	}
	f->ports = calloc(n + 1, sizeof(*f->ports));
	if (!f->switches || !f->ports || !f->notes)
		return -ENOMEM;
	qsort(f->switches, f->n_switches, sizeof(*f->switches), compare_names);
	for (unsigned int s = 0; s < f->n_switches; s++) {
		json_array_foreach (json_object_get(answers, f->switches[s].name), i, object)
			if (i < INC_TOPO_MAX_PORTS)
				read_port(f, s, object);
	}
	return 0;
}

/* ---- segments and hosts ---- */

static unsigned int port_by_ip(const struct inc_found *f, struct in_addr ip)
{
	for (unsigned int p = 0; p < f->n_ports; p++)
		if (f->ports[p].said.has_ip && f->ports[p].said.ip.s_addr == ip.s_addr)
			return p;
	return INC_FOUND_NONE;
}

/* Finds the port with the MAC address. INC_FOUND_NONE: there is none. SEVERAL: the ports of a
 * switch may share their address. */
static unsigned int port_by_mac(const struct inc_found *f, const uint8_t mac[6])
{
	unsigned int found = INC_FOUND_NONE;

	for (unsigned int p = 0; p < f->n_ports; p++)
		if (f->ports[p].said.has_mac && !memcmp(f->ports[p].said.mac, mac, 6))
			found = found == INC_FOUND_NONE ? p : SEVERAL;
	return found;
}

/* Finds the port that a switch's own LLDP frame names. */
static unsigned int port_by_name(const struct inc_found *f, const char *sw, const char *name)
{
	for (unsigned int p = 0; p < f->n_ports; p++)
		if (!strcmp(f->ports[p].said.name, name) &&
		    !strcmp(inc_found_switch_of(f, &f->ports[p]), sw))
			return p;
	return INC_FOUND_NONE;
}

/* Makes one segment of those of two ports: two rings become one where their links are exchanged. */
static void join(struct inc_found *f, unsigned int a, unsigned int b)
{
	const unsigned int from = f->ports[b].segment, to = f->ports[a].segment;
	unsigned int p = b, next;

	if (from == to)
		return;
	do {
		f->ports[p].segment = to;
		p = f->ports[p].next;
	} while (p != b);
	next = f->ports[a].next;
	f->ports[a].next = f->ports[b].next;
	f->ports[b].next = next;
}

static struct inc_found_host *host_by_ip(const struct inc_found *f, struct in_addr ip)
{
	for (unsigned int h = 0; h < f->n_hosts; h++)
		if (f->hosts[h].ip.s_addr == ip.s_addr)
			return &f->hosts[h];
	return NULL;
}

static int add_host(struct inc_found *f, unsigned int p, struct in_addr ip, const uint8_t mac[6],
		    bool stale)
{
	const struct inc_found_port *port = &f->ports[p];
	struct inc_found_host *host = host_by_ip(f, ip), *more;

	if (!port->said.has_ip || !same_network(ip, port->said.ip, port->said.prefix)) {
		inc_found_note(f, "%s is left out: it is outside the network of %s %s",
			       inc_found_ip(ip), inc_found_switch_of(f, port), port->said.name);
		return 0;
	}
	if (host) {
		if (f->ports[host->port].segment != port->segment)
			inc_found_note(f, "%s was also seen at %s %s", inc_found_ip(ip),
				       inc_found_switch_of(f, port), port->said.name);
		return 0;
	}
	if (f->n_hosts == INC_TOPO_MAX_HOSTS)
		return -E2BIG;
	if (f->n_hosts == f->room_hosts) {
		f->room_hosts = 2 * f->room_hosts + 64;
		more = realloc(f->hosts, f->room_hosts * sizeof(*more));
		if (!more)
			return -ENOMEM;
		f->hosts = more;
	}
	host = &f->hosts[f->n_hosts++];
	*host = (struct inc_found_host){.ip = ip, .port = p, .stale = stale};
	memcpy(host->mac, mac, sizeof(host->mac));
	return 0;
}

/* Returns the port that a neighbour of port p is; INC_FOUND_NONE: it is none of a switch. */
static unsigned int find_neighbour(const struct inc_found *f, const json_t *object,
				   struct inc_msg_neighbour *said)
{
	unsigned int other;

	*said = (struct inc_msg_neighbour){};
	if (inc_schema_read_json(&inc_neighbour_schema, object, said, NULL))
		return SEVERAL;
	other = port_by_ip(f, said->ip);
	return other == INC_FOUND_NONE ? port_by_mac(f, said->mac) : other;
}

static unsigned int find_introduced(const struct inc_found *f, const json_t *object,
				    struct inc_msg_introduced *said)
{
	unsigned int other;

	*said = (struct inc_msg_introduced){};
	if (inc_schema_read_json(&inc_introduced_schema, object, said, NULL))
		return SEVERAL;
	/* Anybody can send a name. So it only counts in a frame that has the address of that port,
	 * and then decides between ports of a switch that share their address. */
	other = port_by_name(f, said->name, said->port);
	if (other != INC_FOUND_NONE && f->ports[other].said.has_mac &&
	    !memcmp(f->ports[other].said.mac, said->mac, sizeof(said->mac)))
		return other;
	return port_by_mac(f, said->mac);
}

static void find_segments(struct inc_found *f)
{
	struct inc_msg_introduced introduced;
	struct inc_msg_neighbour neighbour;
	const json_t *object;
	unsigned int other;
	size_t i;

	for (unsigned int p = 0; p < f->n_ports; p++) {
		json_array_foreach (f->ports[p].neighbours, i, object) {
			other = find_neighbour(f, object, &neighbour);
			if (other < SEVERAL)
				join(f, p, other);
		}
		json_array_foreach (f->ports[p].introduced, i, object) {
			other = find_introduced(f, object, &introduced);
			if (other < SEVERAL)
				join(f, p, other);
		}
	}
}

/* Makes a name for a topology of a name that LLDP has: its first part, without other characters.
 * Returns whether something is left. */
static bool plain_name(const char *said, char name[INC_TOPO_NAME_MAX])
{
	size_t n = 0;

	for (; *said && *said != '.' && n < INC_TOPO_NAME_LEN; said++) {
		const char one[2] = {*said};

		if (inc_topology_is_name(one) || (*said == '-' && n))
			name[n++] = *said;
	}
	name[n] = '\0';
	return n;
}

/* Names the hosts that introduce themselves at a port, and adds those whose address only LLDP
 * has. */
static int name_hosts(struct inc_found *f, unsigned int p)
{
	const struct inc_found_port *port = &f->ports[p];
	struct inc_msg_introduced said;
	const json_t *object;
	int ret = 0;
	size_t i;

	json_array_foreach (port->introduced, i, object) {
		bool known = false;

		if (find_introduced(f, object, &said) != INC_FOUND_NONE)
			continue;
		if (said.has_address && !host_by_ip(f, said.address) && port->said.has_ip &&
		    same_network(said.address, port->said.ip, port->said.prefix))
			ret = ret ?: add_host(f, p, said.address, said.mac, false);
		for (unsigned int h = 0; h < f->n_hosts; h++) {
			struct inc_found_host *host = &f->hosts[h];

			if (memcmp(host->mac, said.mac, sizeof(said.mac)) != 0 ||
			    f->ports[host->port].segment != port->segment)
				continue;
			known = true;
			if (host->named)
				continue;
			host->named = plain_name(said.name, host->name);
			snprintf(host->chassis, sizeof(host->chassis), "%s", said.chassis);
		}
		if (!known)
			inc_found_note(
				f,
				"%s %s: '%s' introduces itself by LLDP, but no address of it is "
				"known: ping it from there if it is a host",
				inc_found_switch_of(f, port), port->said.name,
				*said.name ? said.name : said.chassis);
	}
	return ret;
}

static int find_hosts(struct inc_found *f)
{
	struct inc_msg_neighbour said;
	const json_t *object;
	int ret = 0;
	size_t i;

	for (unsigned int p = 0; p < f->n_ports && !ret; p++) {
		json_array_foreach (f->ports[p].neighbours, i, object)
			if (!ret && find_neighbour(f, object, &said) == INC_FOUND_NONE)
				ret = add_host(f, p, said.ip, said.mac, said.stale);
	}
	for (unsigned int p = 0; p < f->n_ports && !ret; p++)
		ret = name_hosts(f, p);
	return ret;
}

/* ---- names ---- */

static bool is_taken(const struct inc_found *f, const char *name, unsigned int but)
{
	for (unsigned int s = 0; s < f->n_switches; s++)
		if (!strcmp(f->switches[s].name, name))
			return true;
	for (unsigned int h = 0; h < f->n_hosts; h++)
		if (h != but && !strcmp(f->hosts[h].name, name))
			return true;
	return false;
}

/* Names a host by its address, as far as a name has room for it. */
static void name_by_address(const struct inc_found *f, unsigned int h)
{
	const uint32_t ip = ntohl(f->hosts[h].ip.s_addr);
	char name[32];

	for (int form = 0; form < 3; form++) {
		if (form == 0)
			snprintf(name, sizeof(name), "h-%u-%u-%u-%u", ip >> 24, ip >> 16 & 255,
				 ip >> 8 & 255, ip & 255);
		else if (form == 1)
			snprintf(name, sizeof(name), "h-%u-%u-%u", ip >> 16 & 255, ip >> 8 & 255,
				 ip & 255);
		else
			snprintf(name, sizeof(name), "h-%08x", ip);
		if (strlen(name) <= INC_TOPO_NAME_LEN && !is_taken(f, name, h))
			break;
	}
	snprintf(f->hosts[h].name, sizeof(f->hosts[h].name), "%.15s", name);
}

/* Whether the name has a form of name_by_address() or name_bridge(). These are h- and three or four
 * numbers, h- and eight hex digits, and bridge- and a number. The reader would take a host of such
 * a name for something else. */
static bool looks_generated(const char *name)
{
	unsigned int groups = 1;

	if (!strncmp(name, "bridge-", 7))
		return name[7] && !name[7 + strspn(name + 7, "0123456789")];
	if (strncmp(name, "h-", 2) != 0)
		return false;
	for (const char *c = name + 2; *c; c++)
		groups += *c == '-';
	return groups >= 3 ? !name[2 + strspn(name + 2, "0123456789-")]
			   : strlen(name) == 10 && strspn(name + 2, "0123456789abcdef") == 8;
}

/* Returns why a host cannot have the name by which it introduces itself; NULL: it can. An earlier
 * host of this name and chassis in another segment is the same one, and this is a further NIC of
 * it. */
static const char *why_renamed(const struct inc_found *f, unsigned int h)
{
	const struct inc_found_host *host = &f->hosts[h];
	unsigned int nics = 1;

	if (!strcmp(host->name, "localhost"))
		return "the name of machines that have none";
	if (looks_generated(host->name))
		return "a name of the form that this file gives to bridges and nameless hosts";
	for (unsigned int s = 0; s < f->n_switches; s++)
		if (!strcmp(f->switches[s].name, host->name))
			return "the name of a switch";
	for (unsigned int k = 0; k < h; k++) {
		const struct inc_found_host *other = &f->hosts[k];

		if (strcmp(other->name, host->name) != 0)
			continue;
		if (strcmp(other->chassis, host->chassis) != 0 ||
		    f->ports[other->port].segment == f->ports[host->port].segment)
			return "the name of another host";
		if (++nics > INC_MAX_RAILS)
			return "the name of a host that has the most NICs already";
	}
	return NULL;
}

static void name_all(struct inc_found *f)
{
	for (unsigned int h = 0; h < f->n_hosts; h++) {
		struct inc_found_host *host = &f->hosts[h];
		const char *why = host->named ? why_renamed(f, h) : NULL;

		if (host->named && !why)
			continue;
		if (why)
			inc_found_note(f,
				       "%s at %s %s introduces itself as '%s', %s: it is named by "
				       "its address",
				       inc_found_ip(host->ip),
				       inc_found_switch_of(f, &f->ports[host->port]),
				       f->ports[host->port].said.name, host->name, why);
		host->named = false;
		*host->name = '\0';
	}
	/* now no name that was refused takes the place of a host's own */
	for (unsigned int h = 0; h < f->n_hosts; h++)
		if (!f->hosts[h].named)
			name_by_address(f, h);
}

int inc_found_read(struct inc_found *f, const json_t *answers)
{
	int ret = read_answers(f, answers);

	if (ret)
		return ret;
	find_segments(f);
	ret = find_hosts(f);
	if (!ret)
		name_all(f);
	return ret;
}

void inc_found_free(struct inc_found *f)
{
	free(f->switches);
	free(f->ports);
	free(f->hosts);
	json_decref(f->notes);
}
