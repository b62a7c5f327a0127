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
	uint32_t first; /* its lowest address, in host order */
	uint32_t count;
};

/* Reads "ADDRESS/BITS". */
static int read_subnet(const struct inc_topology *topo, const struct inc_yaml_node *node,
		       struct subnet *subnet, struct inc_err *err)
{
	const char *text = inc_yaml_text(node);
	unsigned int bits;
	struct in_addr at;
	char address[16];
	int end = 0;

	if (!text || sscanf(text, "%15[0-9.]/%2u%n", address, &bits, &end) != 2 || text[end] ||
	    inet_pton(AF_INET, address, &at) != 1 || bits > 32)
		return inc_yaml_error(node, err, "'%.64s' is no subnet, such as 10.1.0.0/24",
				      text ? text : "");
	if (bits < topo->prefix)
		return inc_yaml_error(node, err, "is larger than the port's /%u network",
				      topo->prefix);
	subnet->count = 1u << (32 - bits);
	if (subnet->count > INC_TOPO_MAX_PEERS)
		return inc_yaml_error(node, err, "has more than %d addresses", INC_TOPO_MAX_PEERS);
	subnet->first = ntohl(at.s_addr);
	if (subnet->first % subnet->count)
		return inc_yaml_error(node, err, "%s is not the first address of a /%u", address,
				      bits);
	return 0;
}

bool inc_topology_is_special(const struct inc_topology *topo, uint32_t address)
{
	const uint32_t mask = UINT32_MAX >> topo->prefix;

	return topo->prefix < 31 && ((address & mask) == 0 || (address & mask) == mask);
}

static int add_host(struct inc_topology *topo, uint32_t address, const struct inc_yaml_node *node,
		    struct inc_err *err)
{
	struct inc_topo_host *host = &topo->hosts[topo->n_hosts];
	struct inc_topo_end other;

	*host = (struct inc_topo_host){.ip.s_addr = htonl(address), .of = topo->n_hosts};
	inet_ntop(AF_INET, &host->ip, host->name, sizeof(host->name));
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
		const uint32_t address = subnet->first + i;

		if (!inc_topology_is_special(topo, address) &&
		    !inc_topology_has_ip(topo, (struct in_addr){htonl(address)}))
			ret = add_host(topo, address, node, err);
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
	const struct in_addr at = {htonl(subnet->first)};
	struct inc_topo_bridge *more;
	struct inc_topo_end other;

	more = realloc(topo->bridges, (topo->n_bridges + 1) * sizeof(*more));
	if (!more)
		return inc_err_set(err, ENOMEM, "out of memory");
	topo->bridges = more;
	inet_ntop(AF_INET, &at, more[topo->n_bridges].name, sizeof(more[0].name));
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
	if (!inc_topology_same_network(topo, port->ip, (struct in_addr){htonl(subnet.first)}))
		return inc_yaml_error(node, err, "is outside this port's /%u network",
				      topo->prefix);
	port->subnet.s_addr = htonl(subnet.first);
	port->subnet_bits = 32 - __builtin_ctz(subnet.count);
	ret = add_hosts(topo, port, node, &subnet, err);
	if (!ret && !inc_yaml_get(map, "bridge"))
		ret = add_bridge(topo, port, node, &subnet, err);
	return ret;
}
