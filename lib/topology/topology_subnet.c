/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ports with a subnet of hosts, "hosts: 10.1.0.0/24": every address of the subnet that nothing else
 * in the file has becomes a host, whose name is the address. So hosts need not be listed, and the
 * controller admits them as they come. An ordinary Ethernet switch is between, which becomes a
 * bridge if the file names none.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include "lib/topology/topology_priv.h"

struct subnet {
	struct inc_addr first; /* its lowest address */
	uint32_t count;
};

/* Returns the address that is i places behind another one. The last 32 bits must not overflow. */
static struct inc_addr behind(struct inc_addr addr, uint32_t i)
{
	addr.word[3] = htonl(ntohl(addr.word[3]) + i);
	return addr;
}

/* Splits "ADDRESS/BITS". Returns the number of bits behind these, or -1. */
static int split(const char *text, struct inc_addr *at, unsigned int *bits)
{
	char address[INC_ADDR_TEXT];
	int end = 0, most;

	if (sscanf(text, "%45[0-9a-fA-F.:]/%3u%n", address, bits, &end) != 2 || text[end] ||
	    inc_addr_parse(address, at))
		return -1;
	most = inc_addr_is_ipv4(*at) ? 32 : 128;
	return *bits <= (unsigned int)most ? most - (int)*bits : -1;
}

static int read_subnet(const struct inc_topology *topo, const struct inc_yaml_node *node,
		       struct subnet *subnet, struct inc_err *err)
{
	const char *text = inc_yaml_text(node);
	char address[INC_ADDR_TEXT];
	unsigned int bits;
	int rest = text ? split(text, &subnet->first, &bits) : -1;

	if (rest < 0)
		return inc_yaml_error(node, err, "'%.64s' is no subnet, such as 10.1.0.0/24",
				      text ? text : "");
	if (bits < inc_topology_prefix(topo, subnet->first))
		return inc_yaml_error(node, err, "is larger than the port's /%u network",
				      inc_topology_prefix(topo, subnet->first));
	if (rest >= 31 || 1u << rest > INC_TOPO_MAX_PEERS)
		return inc_yaml_error(node, err, "has more than %d addresses", INC_TOPO_MAX_PEERS);
	subnet->count = 1u << rest;
	if (ntohl(subnet->first.word[3]) % subnet->count)
		return inc_yaml_error(node, err, "%s is not the first address of a /%u",
				      inc_addr_text(subnet->first, address), bits);
	return 0;
}

bool inc_topology_is_special(const struct inc_topology *topo, struct inc_addr ip)
{
	const uint32_t address = ntohl(ip.word[3]), mask = UINT32_MAX >> topo->prefix;

	if (inc_addr_is_ipv4(ip))
		return topo->prefix < 31 && ((address & mask) == 0 || (address & mask) == mask);
	/* with 127 bits both addresses are those of interfaces (RFC 6164) */
	return topo->prefix_ipv6 < 127 &&
	       inc_addr_same(ip, inc_addr_network(ip, topo->prefix_ipv6));
}

static int add_host(struct inc_topology *topo, struct inc_addr ip, const struct inc_yaml_node *node,
		    struct inc_err *err)
{
	struct inc_topo_host *host = &topo->hosts[topo->n_hosts];
	char name[INC_ADDR_TEXT];
	struct inc_topo_end other;

	*host = (struct inc_topo_host){.ip = ip, .of = topo->n_hosts};
	inc_addr_text(ip, name);
	if (strlen(name) >= sizeof(host->name))
		return inc_yaml_error(node, err,
				      "%s is longer than the %d characters of a host's name: list "
				      "its hosts, with names",
				      name, INC_TOPO_NAME_LEN);
	strcpy(host->name, name);
	if (inc_topology_find(topo, host->name, &other))
		return inc_yaml_error(node, err, "another subnet has %s", host->name);
	if (inc_topology_add_name(topo, INC_TOPO_HOST, topo->n_hosts) ||
	    inc_topology_add_ip(topo, host->ip, INC_TOPO_HOST, topo->n_hosts))
		return inc_err_set(err, ENOMEM, "out of memory");
	topo->n_hosts++;
	return 0;
}

static int add_hosts(struct inc_topology *topo, struct inc_topo_port *port,
		     const struct inc_yaml_node *node, const struct subnet *subnet,
		     struct inc_err *err)
{
	struct inc_topo_host *more;
	int ret = 0;

	if (topo->n_hosts + subnet->count > INC_TOPO_MAX_HOSTS)
		return inc_yaml_error(node, err, "makes more than %d hosts", INC_TOPO_MAX_HOSTS);
	more = realloc(topo->hosts, (topo->n_hosts + subnet->count) * sizeof(*more));
	if (!more)
		return inc_err_set(err, ENOMEM, "out of memory");
	topo->hosts = more;
	port->first_of_subnet = topo->n_hosts;
	/* the first address is the name of the bridge */
	for (uint32_t i = 1; i < subnet->count && !ret; i++) {
		const struct inc_addr ip = behind(subnet->first, i);

		if (!inc_topology_is_special(topo, ip) && !inc_topology_has_ip(topo, ip))
			ret = add_host(topo, ip, node, err);
	}
	port->n_of_subnet = topo->n_hosts - port->first_of_subnet;
	if (!ret && !port->n_of_subnet)
		return inc_yaml_error(node, err, "has no address that is left for a host");
	return ret;
}

/* Adds the bridge between the port and the hosts of its subnet. Its name is the subnet's address,
 * which no name in a file can be. */
static int add_bridge(struct inc_topology *topo, struct inc_topo_port *port,
		      const struct inc_yaml_node *node, const struct subnet *subnet,
		      struct inc_err *err)
{
	char name[INC_ADDR_TEXT];
	struct inc_topo_bridge *more;
	struct inc_topo_end other;

	more = realloc(topo->bridges, (topo->n_bridges + 1) * sizeof(*more));
	if (!more)
		return inc_err_set(err, ENOMEM, "out of memory");
	topo->bridges = more;
	snprintf(more[topo->n_bridges].name, sizeof(more[0].name), "%.*s", INC_TOPO_NAME_LEN,
		 inc_addr_text(subnet->first, name));
	if (inc_topology_find(topo, more[topo->n_bridges].name, &other))
		return inc_yaml_error(node, err, "another subnet has %s",
				      more[topo->n_bridges].name);
	port->bridge = topo->n_bridges++;
	return inc_topology_add_name(topo, INC_TOPO_BRIDGE, port->bridge)
		       ? inc_err_set(err, ENOMEM, "out of memory")
		       : 0;
}

int inc_topology_subnet(struct inc_topology *topo, struct inc_topo_port *port,
			const struct inc_yaml_node *map, struct inc_err *err)
{
	const struct inc_yaml_node *node = inc_yaml_get(map, "hosts");
	struct subnet subnet = {0};
	int ret;

	if (!node)
		return 0;
	ret = read_subnet(topo, node, &subnet, err);
	if (ret)
		return ret;
	if (!inc_topology_same_network(topo, port->ip, subnet.first))
		return inc_yaml_error(node, err, "is outside this port's /%u network",
				      inc_topology_prefix(topo, port->ip));
	port->subnet = subnet.first;
	port->subnet_bits = (inc_addr_is_ipv4(port->ip) ? 32 : 128) - __builtin_ctz(subnet.count);
	ret = add_hosts(topo, port, node, &subnet, err);
	if (!ret && !inc_yaml_get(map, "bridge"))
		ret = add_bridge(topo, port, node, &subnet, err);
	return ret;
}
