/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether a tree is one: judged by the topology alone, not by how it was found. */
#ifndef INC_TREE_CHECK_H
#define INC_TREE_CHECK_H

#include <stdbool.h>
#include "controller/core/route.h"

/* NULL, or what is wrong with the tree of these hosts (by rank). */
const char *tree_wrong(const struct inc_topology *topo, const struct inc_tree *tree,
		       const unsigned int *hosts, unsigned int n_hosts);
/* NULL, or the first switch or link that something is taken of. */
const char *routes_in_use(const struct inc_topology *topo, const struct inc_routes *routes);

#endif
