/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which switches a communicator uses: a tree over the switches of its hosts, on shortest ways to a
 * root of the topology. What all communicators take of switches and links is counted, and shared
 * evenly where there is a choice. The controller calls it, in its one loop; nothing else is needed
 * than the topology, so that it can be tested alone.
 */
#ifndef INC_ROUTE_H
#define INC_ROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/base/err.h"
#include "lib/conf/messages.h"
#include "lib/topology/topology.h"
#include "controller/core/tree.h"

struct inc_routes;

/* Nothing is in use. The topology must live as long. NULL: no memory. */
struct inc_routes *inc_routes_new(const struct inc_topology *topo);
void inc_routes_free(struct inc_routes *routes);

/* A switch is there and can hold so much (0: as much as anybody likes); limits NULL: it is absent,
 * as all are at first. Absent ones are used where no tree is possible without them. */
void inc_routes_offer(struct inc_routes *routes, unsigned int sw,
		      const struct inc_msg_limits *limits);

/* What the switch does with communicators that get their tree from now on; passthrough at first. In
 * termination mode only its children are limited here: of what else it is short of, it says itself.
 */
void inc_routes_set_mode(struct inc_routes *routes, unsigned int sw, enum inc_mode_of_switch mode);

/* Where there is a tree without this switch, it is not used: it has refused for want of what is not
 * known here. Until it is offered anew, or this is taken back. */
void inc_routes_avoid(struct inc_routes *routes, unsigned int sw, bool avoid);

/*
 * Finds a tree for a communicator of so many slots that holds the switches of all hosts (indexes
 * into topo->hosts, by rank), and counts what it takes. Its root is the lowest switch that ways
 * from all of them meet at, so hosts behind one switch need that switch alone. All ways are
 * shortest ones to a root. Of several trees it is the one whose most loaded switch or link is least
 * loaded, and of those always the same.
 *
 * Where the best ways up have room for all, that tree is found at once. Where they have not, trees
 * are tried one after the other, so many and no more: in a large network that is nearly full the
 * tree may bear more than the best one would, or not be found.
 *
 * 0, or why there is none: -EHOSTUNREACH (no path), -E2BIG (none would have room if nothing were in
 * use), -ENOSPC (what it needs is in use), -ENOMEM.
 */
int inc_route_compute(struct inc_routes *routes, const unsigned int *hosts, unsigned int n_hosts,
		      unsigned int slots, struct inc_tree **tree, struct inc_err *err);
/* The same tree again, of what has been kept of it: the nodes in their order, without what children
 * and sizes they have. Its connections are taken as they are, whatever room there is. 0, -EINVAL
 * (the topology has no such tree any more) or -ENOMEM. */
int inc_route_restore(struct inc_routes *routes, const unsigned int *hosts, unsigned int n_hosts,
		      unsigned int slots, const struct inc_tree_node *nodes, unsigned int n,
		      struct inc_tree **tree, struct inc_err *err);
/* A tree of the switch alone, whose load is not counted. NULL: no memory. */
struct inc_tree *inc_route_known(unsigned int sw);
/* Adds a switch to such a tree, its parent unknown; *tree may move. 0 or -ENOMEM. */
int inc_route_known_add(struct inc_tree **tree, unsigned int sw);
/* Gives back what the tree takes, and frees it. NULL is fine. */
void inc_route_release(struct inc_routes *routes, struct inc_tree *tree);

/* What communicators take of a switch. */
struct inc_route_use {
	struct inc_load taken; /* in passthrough mode */
	uint64_t load;         /* in units of INC_LOAD_UNIT: a communicator counts by its slots */
};

#define INC_LOAD_UNIT (1u << 20) /* a communicator of INC_DEF_SLOTS; on a link: of 10 Gbit/s */

/* What a switch can hold; all 0 where it is absent. */
const struct inc_msg_limits *inc_routes_limits(const struct inc_routes *routes, unsigned int sw);
const struct inc_route_use *inc_routes_use(const struct inc_routes *routes, unsigned int sw);
/* The same of a link: a connection counts by the link's rate. */
uint64_t inc_routes_link_load(const struct inc_routes *routes, unsigned int link);

/* What the last communicator with -ENOSPC found in use by others; NULL: more than one thing. */
struct inc_route_lack {
	unsigned int sw;
	size_t figure; /* its place in struct inc_load */
};
const struct inc_route_lack *inc_routes_lack(const struct inc_routes *routes);

#endif
