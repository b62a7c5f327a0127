/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the switches of a communicator: a tree over the switches of its hosts, on shortest paths to
 * a root of the topology. The load of all communicators on switches and links is counted, and
 * shared evenly where there is a choice. comm_config.c calls this in the controller's one loop.
 * This code depends on the topology only, so that it can be tested alone.
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

/* Makes the object that finds trees. It counts no load yet, and the topology must outlive it.
 * Returns NULL if there is no memory. */
struct inc_routes *inc_routes_new(const struct inc_topology *topo);
void inc_routes_free(struct inc_routes *routes);

/* Sets the limits of a connected switch, in which 0 means no limit. If limits is NULL, the switch
 * is absent. All switches are absent at first. Absent switches are used only if no tree is possible
 * without them. */
void inc_routes_offer(struct inc_routes *routes, unsigned int sw,
		      const struct inc_msg_limits *limits);

/* Sets the mode of the switch for communicators that get their tree from now on, an enum
 * inc_mode_of_switch or INC_AUTO. It is passthrough at first. In termination mode only the number
 * of children is limited here, and the switch itself refuses what exceeds its other limits. The
 * limits of a switch with INC_AUTO are those of passthrough mode. children: how many children it
 * has in termination mode at most; 0: no limit. */
void inc_routes_set_mode(struct inc_routes *routes, unsigned int sw, uint32_t mode,
			 uint32_t children);
/* Sets the mode that switches with INC_AUTO have in trees from now on. It is passthrough at
 * first. */
void inc_routes_choose(struct inc_routes *routes, enum inc_mode_of_switch mode);

/* Makes trees avoid a switch if they can, because it has refused a communicator for a reason that
 * is unknown here. This ends when the switch is offered again, or by a call with avoid false. */
void inc_routes_avoid(struct inc_routes *routes, unsigned int sw, bool avoid);

/*
 * Finds a tree for a communicator of so many slots, and counts its load. hosts: the ranks' hosts,
 * as indexes in topo->hosts. The tree has the switches of all these hosts. Its root is the lowest
 * switch at which paths from all of them can meet, so hosts behind one switch need that switch
 * only. All paths are shortest ones to a root. Of several trees the one whose most loaded switch or
 * link has the least load is chosen, and of equal ones always the same.
 *
 * If the least loaded paths have room for all hosts, that tree is found at once. Otherwise trees
 * are tried one after the other, up to a limit. In a large network that is nearly full the tree may
 * then have more load than the best one, or no tree is found.
 *
 * 0; -EHOSTUNREACH: there is no path; -E2BIG: no tree would have room even if nothing were in use;
 * -ENOSPC: the room is in use; -ENOMEM.
 */
int inc_route_compute(struct inc_routes *routes, const unsigned int *hosts, unsigned int n_hosts,
		      unsigned int slots, struct inc_tree **tree, struct inc_err *err);
/* Makes a communicator's tree again from its nodes in the database. They are in their order there,
 * without children and sizes. The tree's load is counted without a check for room. Returns 0;
 * -EINVAL if the topology has no such tree any more; or -ENOMEM. */
int inc_route_restore(struct inc_routes *routes, const unsigned int *hosts, unsigned int n_hosts,
		      unsigned int slots, const struct inc_tree_node *nodes, unsigned int n,
		      struct inc_tree **tree, struct inc_err *err);
/* Counts the load of a tree that another object has counted, because this one takes its place. */
void inc_route_recount(struct inc_routes *routes, const struct inc_tree *tree);
/* Makes a tree with one switch for a communicator of an earlier controller. The real tree's shape
 * is unknown, so its load is not counted. Returns NULL if there is no memory. */
struct inc_tree *inc_route_known(unsigned int sw);
/* Adds a switch to a tree that inc_route_known() has made, without a parent. The function may move
 * *tree. Returns 0 or -ENOMEM. */
int inc_route_known_add(struct inc_tree **tree, unsigned int sw);
/* Frees a tree and subtracts its load from its switches and links. tree may be NULL. */
void inc_route_release(struct inc_routes *routes, struct inc_tree *tree);

/* The use of a switch by all communicators together. */
struct inc_route_use {
	/* resources of the switch that communicators in passthrough mode use */
	struct inc_load taken;
	/* Load of the switch, in units of INC_LOAD_UNIT. A communicator adds load according to its
	 * number of slots. */
	uint64_t load;
};

/* The unit of load. A communicator of INC_DEF_SLOTS adds one unit to a switch, and a connection
 * adds one to a link of 10 Gbit/s. */
#define INC_LOAD_UNIT (1u << 20)

/* Returns the limits of a switch, which are all 0 if it is absent. */
const struct inc_msg_limits *inc_routes_limits(const struct inc_routes *routes, unsigned int sw);
const struct inc_route_use *inc_routes_use(const struct inc_routes *routes, unsigned int sw);
/* Returns the load of a link. A connection adds more load to a slower link. */
uint64_t inc_routes_link_load(const struct inc_routes *routes, unsigned int link);

/* Returns the resource whose lack made the last search fail with -ENOSPC, and its switch. NULL:
 * several resources lacked room. */
struct inc_route_lack {
	unsigned int sw;
	size_t figure; /* offset of the resource in struct inc_load */
};
const struct inc_route_lack *inc_routes_lack(const struct inc_routes *routes);

#endif
