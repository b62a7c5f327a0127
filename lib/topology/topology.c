/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "lib/conf/schema.h"
#include "lib/conf/yaml.h"
#include "lib/proto/frame.h"
#include "lib/topology/topology_priv.h"

#define NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

static bool plain_name(const char *name)
{
	return strspn(name, NAME_CHARACTERS) == strlen(name) && name[0] != '-';
}

bool inc_topology_is_port_name(const char *name)
{
	return *name && strlen(name) <= INC_TOPO_NAME_LEN && name[0] != '-' && name[0] != '.' &&
	       strspn(name, NAME_CHARACTERS ".") == strlen(name);
}

bool inc_topology_is_name(const char *name)
{
	return *name && strlen(name) <= INC_TOPO_NAME_LEN && plain_name(name);
}

#define NAME_FIELD \
	.kind = INC_WORD, .need = INC_REQUIRED, .what = "a name of letters, digits, - and _"

static const struct inc_field host_fields[] = {
	{"name", NAME_FIELD, INC_AT(struct inc_topo_host, name)},
	{"ip", INC_ADDR, INC_OPTIONAL, INC_AT(struct inc_topo_host, ip)},
	{"ips", INC_OTHER, INC_OPTIONAL, .what = "a list of them, of several NICs"},
};
static const struct inc_schema host_schema = INC_SCHEMA(struct inc_topo_host, host_fields);

/* Ports may be VLAN devices, whose names often have a dot. */
#define PORT_NAME "a name of letters, digits, -, _ and dots"

/* The rows for a port's peers only name the fields. The peers are resolved when all names are
 * known, because a peer may stand behind the port in the file. */
static const struct inc_field port_fields[] = {
	{"name", INC_WORD, INC_REQUIRED, INC_AT(struct inc_topo_port, name), .what = PORT_NAME},
	{"ip", INC_ADDR, INC_REQUIRED, INC_AT(struct inc_topo_port, ip)},
	{"vlan", INC_UINT, INC_OPTIONAL, INC_AT(struct inc_topo_port, vlan), .min = 1,
	 .max = INC_MAX_VLAN},
	{"peer", INC_OTHER, INC_OPTIONAL, .what = "a host or switch"},
	{"peers", INC_OTHER, INC_OPTIONAL, .what = "a list of them"},
	{"hosts", INC_OTHER, INC_OPTIONAL, .what = "a subnet"},
	{"bridge", INC_OTHER, INC_OPTIONAL, .what = "the bridge between"},
	{"verbs", INC_MAP, INC_OPTIONAL, INC_AT(struct inc_topo_port, verbs),
	 .of = &inc_verbs_schema},
};
static const struct inc_schema port_schema = INC_SCHEMA(struct inc_topo_port, port_fields);

static const struct inc_field switch_fields[] = {
	{"name", INC_WORD, INC_REQUIRED, INC_AT(struct inc_topo_switch, name),
	 .what = "a name of letters, digits, - and _", .alias = "id"},
	{"root", INC_BOOL, INC_OPTIONAL, INC_AT(struct inc_topo_switch, root), .alias = "is_root"},
	{"mode", INC_CHOICE, INC_OPTIONAL, INC_AT(struct inc_topo_switch, mode),
	 .names = inc_mode_settings, .given = offsetof(struct inc_topo_switch, has_mode)},
	{"verbs", INC_MAP, INC_OPTIONAL, INC_AT(struct inc_topo_switch, verbs),
	 .of = &inc_verbs_schema},
	{"ports", INC_OTHER, INC_REQUIRED, .what = "a list"},
};
static const struct inc_schema switch_schema = INC_SCHEMA(struct inc_topo_switch, switch_fields);

static const struct inc_field bridge_fields[] = {
	{"name", NAME_FIELD, INC_AT(struct inc_topo_bridge, name)},
};
static const struct inc_schema bridge_schema = INC_SCHEMA(struct inc_topo_bridge, bridge_fields);

static const struct inc_field defaults_fields[] = {
	{"prefix", INC_UINT, INC_OPTIONAL, INC_AT(struct inc_topology, prefix), .min = 8,
	 .max = 31},
	{"prefix_ipv6", INC_UINT, INC_OPTIONAL, INC_AT(struct inc_topology, prefix_ipv6), .min = 16,
	 .max = 127},
	{"mtu", INC_TOPO_MTU_FIELD, INC_AT(struct inc_topology, mtu)},
	{"rate_mbit", INC_TOPO_RATE_FIELD, INC_AT(struct inc_topology, rate_mbit)},
	{"wire", INC_OTHER, INC_OPTIONAL, .what = "as that of a link"},
};
static const struct inc_schema defaults_schema = INC_SCHEMA(struct inc_topology, defaults_fields);

static const struct inc_field topology_fields[] = {
	{"name", INC_WORD, INC_OPTIONAL, INC_AT(struct inc_topology, name), .what = "a name"},
	{"hosts", INC_OTHER, INC_OPTIONAL, .what = "a list"},
	{"switches", INC_OTHER, INC_REQUIRED, .alias = "switch", .what = "a list"},
	{"bridges", INC_OTHER, INC_OPTIONAL, .what = "a list"},
	{"links", INC_OTHER, INC_OPTIONAL, .what = "a list"},
	{"defaults", INC_OTHER, INC_OPTIONAL, .what = "of every link"},
	{"verbs", INC_MAP, INC_OPTIONAL, INC_AT(struct inc_topology, verbs),
	 .of = &inc_verbs_schema},
};
static const struct inc_schema topology_schema = INC_SCHEMA(struct inc_topology, topology_fields);

static const struct inc_yaml_node *name_node(const struct inc_yaml_node *map)
{
	return inc_yaml_get(map, "name") ?: inc_yaml_get(map, "id");
}

static int check_name(const struct inc_yaml_node *map, const char *name, struct inc_err *err)
{
	if (plain_name(name))
		return 0;
	return inc_yaml_error(name_node(map), err,
			      "'%.64s' is not a name of letters, digits, - and _", name);
}

/* Registers the name of a node, which must be new. */
static int take_name(struct inc_topology *topo, const struct inc_yaml_node *map, const char *name,
		     enum inc_topo_kind kind, unsigned int index, struct inc_err *err)
{
	struct inc_topo_end other;
	int ret = check_name(map, name, err);

	if (ret)
		return ret;
	if (inc_topology_find(topo, name, &other))
		return inc_yaml_error(name_node(map), err, "'%s' is given twice", name);
	return inc_topology_add_name(topo, kind, index) ? inc_err_set(err, ENOMEM, "out of memory")
							: 0;
}

/* Checks an address that a node of the file gives to an interface. */
static int check_ip(const struct inc_topology *topo, const struct inc_yaml_node *node,
		    struct inc_addr ip, struct inc_err *err)
{
	const bool ipv4 = inc_addr_is_ipv4(ip);
	char text[INC_ADDR_TEXT];

	inc_addr_text(ip, text);
	if (inc_topology_is_special(topo, ip))
		return inc_yaml_error(node, err,
				      "%s is the first%s address of a /%u network, which no "
				      "interface can have; correct it, or defaults.prefix%s",
				      text, ipv4 ? " or last" : "", inc_topology_prefix(topo, ip),
				      ipv4 ? "" : "_ipv6");
	if (inc_topology_has_ip(topo, ip))
		return inc_yaml_error(node, err, "%s is given twice", text);
	return 0;
}

/* Registers the address of a node, which must be new. */
static int take_ip(struct inc_topology *topo, const struct inc_yaml_node *map, struct inc_addr ip,
		   enum inc_topo_kind kind, unsigned int index, struct inc_err *err)
{
	const int ret = check_ip(topo, inc_yaml_get(map, "ip"), ip, err);

	if (ret)
		return ret;
	return inc_topology_add_ip(topo, ip, kind, index)
		       ? inc_err_set(err, ENOMEM, "out of memory")
		       : 0;
}

/* Reads address i of a host with several NICs, and registers it as that of the NIC, whose entry is
 * the one with this index. */
static int read_nic(struct inc_topology *topo, const struct inc_yaml_node *map, size_t i,
		    unsigned int index, struct inc_err *err)
{
	const struct inc_yaml_node *node = inc_yaml_at(inc_yaml_get(map, "ips"), i);
	const char *text = inc_yaml_text(node);
	struct inc_addr *ip = &topo->hosts[index].ip;
	int ret = text ? inc_addr_parse_host(text, ip) : -EINVAL;

	if (ret == -ERANGE)
		return inc_yaml_error(node, err, "%s %s", text, inc_addr_fault(*ip));
	if (ret)
		return inc_yaml_error(node, err, "'%.64s' is not an IPv4 or IPv6 address",
				      text ? text : "");
	ret = check_ip(topo, node, *ip, err);
	if (ret)
		return ret;
	return inc_topology_add_ip(topo, *ip, INC_TOPO_HOST, index)
		       ? inc_err_set(err, ENOMEM, "out of memory")
		       : 0;
}

/* Checks that a host has one address, or a list of them, and registers the first one. */
static int read_first_ip(struct inc_topology *topo, const struct inc_yaml_node *map,
			 unsigned int index, struct inc_err *err)
{
	const struct inc_yaml_node *one = inc_yaml_get(map, "ip"), *list = inc_yaml_get(map, "ips");
	const size_t n = inc_yaml_len(list);
	int ret;

	if (one && list)
		return inc_yaml_error(map, err, "'ip' and 'ips' exclude each other");
	if (one)
		return take_ip(topo, map, topo->hosts[index].ip, INC_TOPO_HOST, index, err);
	if (!list)
		return inc_yaml_error(map, err, "'ip' is missing");
	ret = inc_yaml_want_seq(list, err);
	if (!ret && (n < 1 || n > INC_MAX_RAILS))
		ret = inc_yaml_error(list, err, "%zu addresses, not 1 to %d", n, INC_MAX_RAILS);
	return ret ?: read_nic(topo, map, 0, index, err);
}

/* Adds the entries of a host's NICs behind its first one. */
static int read_more_nics(struct inc_topology *topo, const struct inc_yaml_node *map,
			  unsigned int host, struct inc_err *err)
{
	const size_t n = inc_yaml_len(inc_yaml_get(map, "ips"));
	unsigned int last = host;
	int ret = 0;

	for (size_t i = 1; i < n && !ret; i++) {
		const unsigned int index = topo->n_hosts;
		struct inc_topo_host *nic = &topo->hosts[index];

		*nic = (struct inc_topo_host){.of = host, .rail = i};
		strcpy(nic->name, topo->hosts[host].name);
		ret = read_nic(topo, map, i, index, err);
		topo->hosts[last].next = index;
		last = index;
		topo->n_hosts++;
	}
	return ret;
}

static size_t count_nics(const struct inc_yaml_node *seq)
{
	size_t n = 0;

	for (size_t i = 0; i < inc_yaml_len(seq); i++)
		n += inc_yaml_len(inc_yaml_get(inc_yaml_at(seq, i), "ips")) ?: 1;
	return n;
}

static int read_hosts(struct inc_topology *topo, const struct inc_yaml_node *seq,
		      struct inc_err *err)
{
	size_t n = inc_yaml_len(seq), nics = count_nics(seq);
	int ret = seq ? inc_yaml_want_seq(seq, err) : 0;

	if (ret || !seq)
		return ret;
	if (n < 1 || nics > INC_TOPO_MAX_HOSTS)
		return inc_yaml_error(seq, err, "%zu hosts, not 1 to %d", nics, INC_TOPO_MAX_HOSTS);
	topo->hosts = calloc(nics, sizeof(*topo->hosts));
	if (!topo->hosts)
		return inc_err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		const struct inc_yaml_node *map = inc_yaml_at(seq, i);
		struct inc_topo_host *host = &topo->hosts[i];

		ret = inc_schema_read_yaml(&host_schema, map, host, err);
		if (!ret)
			ret = take_name(topo, map, host->name, INC_TOPO_HOST, i, err);
		if (!ret)
			ret = read_first_ip(topo, map, i, err);
		if (ret)
			return ret;
		host->of = i;
		topo->n_hosts++;
	}
	topo->n_listed_hosts = n;
	for (size_t i = 0; i < n && !ret; i++)
		ret = read_more_nics(topo, inc_yaml_at(seq, i), i, err);
	topo->n_nics = topo->n_hosts - n;
	return ret;
}

static int read_ports(struct inc_topology *topo, struct inc_topo_switch *sw,
		      const struct inc_yaml_node *seq, struct inc_err *err)
{
	size_t n = inc_yaml_len(seq);
	int ret = inc_yaml_want_seq(seq, err);

	if (ret)
		return ret;
	if (n < 1 || n > INC_TOPO_MAX_PORTS)
		return inc_yaml_error(seq, err, "%zu ports, not 1 to %d", n, INC_TOPO_MAX_PORTS);
	sw->ports = calloc(n, sizeof(*sw->ports));
	if (!sw->ports)
		return inc_err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		const struct inc_yaml_node *map = inc_yaml_at(seq, i);
		struct inc_topo_port *port = &sw->ports[i];

		ret = inc_schema_read_yaml(&port_schema, map, port, err);
		if (!ret && !inc_topology_is_port_name(port->name))
			ret = inc_yaml_error(name_node(map), err, "'%.64s' is not " PORT_NAME,
					     port->name);
		if (!ret)
			ret = take_ip(topo, map, port->ip, INC_TOPO_SWITCH, sw - topo->switches,
				      err);
		if (ret)
			return ret;
		for (size_t k = 0; k < i; k++) {
			if (strcmp(sw->ports[k].name, port->name) == 0)
				return inc_yaml_error(inc_yaml_get(map, "name"), err,
						      "'%s' is given twice", port->name);
		}
		inc_verbs_conf_complete(&port->verbs, &sw->verbs);
		inc_verbs_conf_complete(&port->verbs, &topo->verbs);
		sw->n_ports++;
	}
	return 0;
}

static int read_switches(struct inc_topology *topo, const struct inc_yaml_node *root,
			 struct inc_err *err)
{
	const struct inc_yaml_node *seq = inc_topology_switches(root);
	const bool one = inc_yaml_get(root, "switch") && !inc_yaml_want_map(seq, NULL);
	size_t n = one ? 1 : inc_yaml_len(seq);
	unsigned int roots = 0;
	int ret = one ? 0 : inc_yaml_want_seq(seq, err);

	if (ret)
		return ret;
	if (n < 1 || n > INC_TOPO_MAX_SWITCHES)
		return inc_yaml_error(seq, err, "%zu switches, not 1 to %d", n,
				      INC_TOPO_MAX_SWITCHES);
	topo->switches = calloc(n, sizeof(*topo->switches));
	if (!topo->switches)
		return inc_err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		const struct inc_yaml_node *map = inc_topology_switch(root, i);
		struct inc_topo_switch *sw = &topo->switches[i];

		ret = inc_schema_read_yaml(&switch_schema, map, sw, err);
		if (!ret)
			ret = take_name(topo, map, sw->name, INC_TOPO_SWITCH, i, err);
		if (ret)
			return ret;
		/* count the switch before its ports are read, so that these are freed after an
		 * error */
		topo->n_switches++;
		ret = read_ports(topo, sw, inc_yaml_get(map, "ports"), err);
		if (ret)
			return ret;
		roots += sw->root;
	}
	if (n == 1)
		topo->switches[0].root = true;
	else if (!roots)
		return inc_yaml_error(seq, err, "none of the switches is 'root: true'");
	return 0;
}

static int read_bridges(struct inc_topology *topo, const struct inc_yaml_node *seq,
			struct inc_err *err)
{
	size_t n = inc_yaml_len(seq);
	int ret = seq ? inc_yaml_want_seq(seq, err) : 0;

	if (ret || !n)
		return ret;
	if (n > INC_TOPO_MAX_BRIDGES)
		return inc_yaml_error(seq, err, "%zu bridges, more than %d", n,
				      INC_TOPO_MAX_BRIDGES);
	topo->bridges = calloc(n, sizeof(*topo->bridges));
	if (!topo->bridges)
		return inc_err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < n && !ret; i++) {
		const struct inc_yaml_node *map = inc_yaml_at(seq, i);
		struct inc_topo_bridge *bridge = &topo->bridges[i];

		ret = inc_schema_read_yaml(&bridge_schema, map, bridge, err);
		if (!ret)
			ret = take_name(topo, map, bridge->name, INC_TOPO_BRIDGE, i, err);
		topo->n_bridges += !ret;
	}
	return ret;
}

static int read_subnets(struct inc_topology *topo, const struct inc_yaml_node *root,
			struct inc_err *err)
{
	int ret = 0;

	for (unsigned int s = 0; s < topo->n_switches; s++) {
		const struct inc_yaml_node *ports =
			inc_yaml_get(inc_topology_switch(root, s), "ports");
		struct inc_topo_switch *sw = &topo->switches[s];

		for (unsigned int p = 0; p < sw->n_ports && !ret; p++)
			ret = inc_topology_subnet(topo, &sw->ports[p], inc_yaml_at(ports, p), err);
	}
	if (!ret && !topo->n_hosts)
		return inc_yaml_error(root, err, "'hosts' is missing, and no port has 'hosts'");
	return ret;
}

static int read_topology(struct inc_topology *topo, const struct inc_yaml_node *root,
			 struct inc_err *err)
{
	const struct inc_yaml_node *defaults = inc_yaml_get(root, "defaults");
	int ret;

	topo->prefix = 24;
	topo->prefix_ipv6 = 64;
	topo->mtu = 1500;
	ret = inc_schema_read_yaml(&topology_schema, root, topo, err);
	if (!ret)
		ret = check_name(root, topo->name, err);
	if (!ret && defaults)
		ret = inc_schema_read_yaml(&defaults_schema, defaults, topo, err);
	if (!ret)
		ret = read_hosts(topo, inc_yaml_get(root, "hosts"), err);
	if (!ret)
		ret = read_switches(topo, root, err);
	if (!ret)
		ret = read_bridges(topo, inc_yaml_get(root, "bridges"), err);
	if (!ret)
		ret = read_subnets(topo, root, err);
	if (!ret)
		ret = inc_topology_link(topo, root, err);
	if (!ret)
		ret = inc_topology_cables(topo, root, err);
	for (unsigned int i = 0; i < topo->n_switches; i++)
		topo->switches[i].n_live_ports = topo->switches[i].n_ports;
	topo->n_live_hosts = topo->n_hosts;
	topo->n_live_switches = topo->n_switches;
	topo->n_live_links = topo->n_links;
	return ret;
}

static int from_document(struct inc_yaml *doc, struct inc_topology **out, struct inc_err *err)
{
	struct inc_topology *topo = calloc(1, sizeof(*topo));
	int ret;

	if (!topo)
		return inc_err_set(err, ENOMEM, "out of memory");
	ret = read_topology(topo, inc_yaml_root(doc), err);
	if (ret)
		inc_topology_free(topo);
	else
		*out = topo;
	return ret;
}

int inc_topology_load(const char *path, struct inc_topology **topo, struct inc_err *err)
{
	struct inc_yaml *doc;
	int ret = inc_yaml_load(path, &doc, err);

	if (ret)
		return ret;
	ret = from_document(doc, topo, err);
	inc_yaml_free(doc);
	return ret;
}

int inc_topology_parse(const char *name, const char *text, size_t len, struct inc_topology **topo,
		       struct inc_err *err)
{
	struct inc_yaml *doc;
	int ret = inc_yaml_parse(name, text, len, &doc, err);

	if (ret)
		return ret;
	ret = from_document(doc, topo, err);
	inc_yaml_free(doc);
	return ret;
}

void inc_topology_free(struct inc_topology *topo)
{
	if (!topo)
		return;
	for (unsigned int i = 0; i < topo->n_switches; i++) {
		for (unsigned int p = 0; p < topo->switches[i].n_ports; p++)
			free(topo->switches[i].ports[p].peers);
		free(topo->switches[i].ports);
	}
	free(topo->switches);
	free(topo->hosts);
	free(topo->bridges);
	free(topo->links);
	free(topo->by_name.slots);
	free(topo->by_ip.slots);
	free(topo);
}
