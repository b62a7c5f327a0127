/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef INC_TOPOLOGY_PRIV_H
#define INC_TOPOLOGY_PRIV_H

#include "lib/topology/topology.h"
#include "lib/conf/yaml.h"

/* Connects hosts, ports and switches by name and makes topo->links. */
int inc_topology_link(struct inc_topology *topo, const struct inc_yaml_node *root,
		      struct inc_err *err);

#endif
