/* SPDX-License-Identifier: BSD-2-Clause */
/* Declarations that the files of the topology share. */
#ifndef INC_TOPOLOGY_PRIV_H
#define INC_TOPOLOGY_PRIV_H

#include <stdbool.h>
#include <stdint.h>
#include <netinet/in.h>
#include "lib/base/err.h"
#include "lib/topology/topology.h"
#include "lib/conf/yaml.h"

#define INC_TOPO_MTU_FIELD .kind = INC_UINT, .need = INC_OPTIONAL, .min = 576, .max = 9216
/* The row of a rate in Mbit/s. A rate of 0 means that the file has none. */
#define INC_TOPO_RATE_FIELD .kind = INC_REAL, .need = INC_OPTIONAL, .max = 1000000

/* The list of switches in the file, by either name of the field, or the mapping of a single
 * switch. */
static inline const struct inc_yaml_node *inc_topology_switches(const struct inc_yaml_node *root)
{
	return inc_yaml_get(root, "switches") ?: inc_yaml_get(root, "switch");
}

static inline const struct inc_yaml_node *inc_topology_switch(const struct inc_yaml_node *root,
							      unsigned int i)
{
	const struct inc_yaml_node *list = inc_topology_switches(root);

	return inc_yaml_want_map(list, NULL) ? inc_yaml_at(list, i) : list;
}

/* Whether the address has a meaning of its own in a network of the topology's prefix length: that
 * of the network, which in IPv6 means any router, or in IPv4 the one for all hosts. */
bool inc_topology_is_special(const struct inc_topology *topo, struct inc_addr ip);

static inline bool inc_topology_same_network(const struct inc_topology *topo, struct inc_addr a,
					     struct inc_addr b)
{
	return inc_addr_same_network(a, b, inc_topology_prefix(topo, a));
}

/* topology_subnet.c: makes hosts of the addresses of a port's subnet, if the port's map has one.
 * All listed hosts and all ports must have been read. */
int inc_topology_subnet(struct inc_topology *topo, struct inc_topo_port *port,
			const struct inc_yaml_node *map, struct inc_err *err);

/* Connects hosts, ports, bridges and switches by name and makes topo->links. */
int inc_topology_link(struct inc_topology *topo, const struct inc_yaml_node *root,
		      struct inc_err *err);

/* topology_cables.c: makes topo->links from the ports' peers, with the properties that the file's
 * list of links gives. */
int inc_topology_cables(struct inc_topology *topo, const struct inc_yaml_node *root,
			struct inc_err *err);

/* topology_index.c: these two add a host, switch or bridge to the index, by name and by address. A
 * name must be stored in topo before it is added. They return 0 or -ENOMEM. */
int inc_topology_add_name(struct inc_topology *topo, enum inc_topo_kind kind, unsigned int index);
int inc_topology_add_ip(struct inc_topology *topo, struct inc_addr ip, enum inc_topo_kind kind,
			unsigned int index);
bool inc_topology_find(const struct inc_topology *topo, const char *name, struct inc_topo_end *end);
bool inc_topology_has_ip(const struct inc_topology *topo, struct inc_addr ip);

#endif
