/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include "lib/topology/topology_priv.h"

static bool plain_name(const char *name)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789_-";

	return strspn(name, allowed) == strlen(name) && name[0] != '-';
}

static int get_name(const struct inc_yaml_node *map, char out[INC_TOPO_NAME_MAX],
		    struct inc_err *err)
{
	const char *text;
	int ret = inc_yaml_get_str(map, "name", true, &text, err);

	if (ret)
		return ret;
	if (strlen(text) > INC_TOPO_NAME_LEN || !plain_name(text))
		return inc_yaml_error(inc_yaml_get(map, "name"), err,
				      "'%.64s' is not a name (1 to %d letters, digits, - and _)",
				      text, INC_TOPO_NAME_LEN);
	snprintf(out, INC_TOPO_NAME_MAX, "%s", text);
	return 0;
}

static int get_ip(const struct inc_topology *topo, const struct inc_yaml_node *map,
		  struct in_addr *out, struct inc_err *err)
{
	uint32_t ip;
	int ret = inc_yaml_get_ipv4(map, "ip", true, out, err);

	if (ret)
		return ret;
	ip = ntohl(out->s_addr);
	if (ip >> 24 == 0 || ip >> 24 == 127 || ip >> 28 >= 14)
		return inc_yaml_error(inc_yaml_get(map, "ip"), err,
				      "is not an address of a single host");
	if (inc_topology_host_by_ip(topo, *out) >= 0)
		goto twice;
	for (unsigned int s = 0; s < topo->n_switches; s++) {
		for (unsigned int p = 0; p < topo->switches[s].n_ports; p++) {
			if (topo->switches[s].ports[p].ip.s_addr == out->s_addr)
				goto twice;
		}
	}
	return 0;
twice:
	return inc_yaml_error(inc_yaml_get(map, "ip"), err, "is given twice");
}

static int read_hosts(struct inc_topology *topo, const struct inc_yaml_node *seq,
		      struct inc_err *err)
{
	static const char *const keys[] = {"name", "ip", NULL};
	size_t n = inc_yaml_len(seq);
	int ret;

	if (n < 1 || n > INC_TOPO_MAX_HOSTS)
		return inc_yaml_error(seq, err, "%zu hosts, not 1 to %d", n, INC_TOPO_MAX_HOSTS);
	topo->hosts = calloc(n, sizeof(*topo->hosts));
	if (!topo->hosts)
		return inc_err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		const struct inc_yaml_node *map = inc_yaml_at(seq, i);
		struct inc_topo_host *host = &topo->hosts[i];

		ret = inc_yaml_check_keys(map, keys, err);
		if (!ret)
			ret = get_name(map, host->name, err);
		if (!ret)
			ret = get_ip(topo, map, &host->ip, err);
		if (ret)
			return ret;
		if (inc_topology_host_by_name(topo, host->name) >= 0)
			return inc_yaml_error(inc_yaml_get(map, "name"), err, "'%s' is given twice",
					      host->name);
		topo->n_hosts++;
	}
	return 0;
}

static int read_ports(struct inc_topology *topo, struct inc_topo_switch *sw,
		      const struct inc_yaml_node *seq, struct inc_err *err)
{
	static const char *const keys[] = {"name", "ip", "peer", NULL};
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

		ret = inc_yaml_check_keys(map, keys, err);
		if (!ret)
			ret = get_name(map, port->name, err);
		if (!ret)
			ret = get_ip(topo, map, &port->ip, err);
		if (ret)
			return ret;
		for (size_t k = 0; k < i; k++) {
			if (strcmp(sw->ports[k].name, port->name) == 0)
				return inc_yaml_error(inc_yaml_get(map, "name"), err,
						      "'%s' is given twice", port->name);
		}
		sw->n_ports++;
	}
	return 0;
}

static int read_switches(struct inc_topology *topo, const struct inc_yaml_node *seq,
			 struct inc_err *err)
{
	static const char *const keys[] = {"name", "root", "ports", NULL};
	size_t n = inc_yaml_len(seq);
	unsigned int roots = 0;

	if (n < 1 || n > INC_TOPO_MAX_SWITCHES)
		return inc_yaml_error(seq, err, "%zu switches, not 1 to %d", n,
				      INC_TOPO_MAX_SWITCHES);
	topo->switches = calloc(n, sizeof(*topo->switches));
	if (!topo->switches)
		return inc_err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		const struct inc_yaml_node *map = inc_yaml_at(seq, i);
		struct inc_topo_switch *sw = &topo->switches[i];
		int ret = inc_yaml_check_keys(map, keys, err);

		if (!ret)
			ret = get_name(map, sw->name, err);
		if (!ret)
			ret = inc_yaml_get_bool(map, "root", false, &sw->root, err);
		if (ret)
			return ret;
		if (inc_topology_host_by_name(topo, sw->name) >= 0 ||
		    inc_topology_switch_by_name(topo, sw->name) >= 0)
			return inc_yaml_error(inc_yaml_get(map, "name"), err, "'%s' is given twice",
					      sw->name);
		topo->n_switches++; /* now, so that its own ports' addresses are compared */
		if (!inc_yaml_get(map, "ports"))
			return inc_yaml_error(map, err, "'ports' is missing");
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

static int read_topology(struct inc_topology *topo, const struct inc_yaml_node *root,
			 struct inc_err *err)
{
	static const char *const keys[] = {"name", "hosts", "switches", "links", "defaults", NULL};
	static const char *const default_keys[] = {"prefix", "mtu", "wire", NULL};
	const struct inc_yaml_node *defaults;
	uint64_t prefix = 24, mtu = 1500;
	const char *name = "";
	int ret;

	ret = inc_yaml_check_keys(root, keys, err);
	if (!ret)
		ret = inc_yaml_get_str(root, "name", false, &name, err);
	if (ret)
		return ret;
	if (strlen(name) >= sizeof(topo->name) || !plain_name(name))
		return inc_yaml_error(inc_yaml_get(root, "name"), err,
				      "is not a name (1 to %zu letters, digits, - and _)",
				      sizeof(topo->name) - 1);
	snprintf(topo->name, sizeof(topo->name), "%s", name);

	defaults = inc_yaml_get(root, "defaults");
	if (defaults) {
		ret = inc_yaml_check_keys(defaults, default_keys, err);
		if (!ret)
			ret = inc_yaml_get_u64(defaults, "prefix", false, 8, 31, &prefix, err);
		if (!ret)
			ret = inc_yaml_get_u64(defaults, "mtu", false, 576, 9216, &mtu, err);
		if (ret)
			return ret;
	}
	topo->prefix = prefix;
	topo->mtu = mtu;

	if (!inc_yaml_get(root, "hosts"))
		return inc_yaml_error(root, err, "'hosts' is missing");
	if (!inc_yaml_get(root, "switches"))
		return inc_yaml_error(root, err, "'switches' is missing");
	ret = inc_yaml_want_seq(inc_yaml_get(root, "hosts"), err);
	if (!ret)
		ret = inc_yaml_want_seq(inc_yaml_get(root, "switches"), err);
	if (!ret)
		ret = read_hosts(topo, inc_yaml_get(root, "hosts"), err);
	if (!ret)
		ret = read_switches(topo, inc_yaml_get(root, "switches"), err);
	if (!ret)
		ret = inc_topology_link(topo, root, err);
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
	for (unsigned int i = 0; i < topo->n_switches; i++)
		free(topo->switches[i].ports);
	free(topo->switches);
	free(topo->hosts);
	free(topo->links);
	free(topo);
}

int inc_topology_host_by_ip(const struct inc_topology *topo, struct in_addr ip)
{
	for (unsigned int i = 0; i < topo->n_hosts; i++) {
		if (topo->hosts[i].ip.s_addr == ip.s_addr)
			return i;
	}
	return -1;
}

int inc_topology_host_by_name(const struct inc_topology *topo, const char *name)
{
	for (unsigned int i = 0; i < topo->n_hosts; i++) {
		if (strcmp(topo->hosts[i].name, name) == 0)
			return i;
	}
	return -1;
}

int inc_topology_switch_by_name(const struct inc_topology *topo, const char *name)
{
	for (unsigned int i = 0; i < topo->n_switches; i++) {
		if (strcmp(topo->switches[i].name, name) == 0)
			return i;
	}
	return -1;
}
