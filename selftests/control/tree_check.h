/* SPDX-License-Identifier: BSD-2-Clause */
/* Checks that a tree is valid, by the topology alone, independently of the router. */
#ifndef INC_TREE_CHECK_H
#define INC_TREE_CHECK_H

#include <stdbool.h>
#include "controller/core/route.h"

/* Returns NULL, or what is wrong with the tree of these hosts (by rank). */
const char *tree_wrong(const struct inc_topology *topo, const struct inc_tree *tree,
		       const unsigned int *hosts, unsigned int n_hosts);
/* Returns NULL, or the name of the first switch or link that has a resource in use. */
const char *routes_in_use(const struct inc_topology *topo, const struct inc_routes *routes);

#endif
