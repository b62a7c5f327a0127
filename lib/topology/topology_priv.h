/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the topology share. */
#ifndef INC_TOPOLOGY_PRIV_H
#define INC_TOPOLOGY_PRIV_H

#include "lib/base/err.h"
#include "lib/topology/topology.h"
#include "lib/conf/yaml.h"

#define INC_TOPO_MTU_FIELD .kind = INC_UINT, .need = INC_OPTIONAL, .min = 576, .max = 9216

/* Connects hosts, ports and switches by name and makes topo->links. */
int inc_topology_link(struct inc_topology *topo, const struct inc_yaml_node *root,
		      struct inc_err *err);

#endif
