/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files that find routes share. */
#ifndef INC_ROUTE_PRIV_H
#define INC_ROUTE_PRIV_H

#include <stdbool.h>
#include <stdint.h>
#include "controller/core/graph.h"
#include "controller/core/route.h"

#define NO_EDGE UINT_MAX

/* A switch in the search for one tree. What is of an earlier search has another stamp. */
struct inc_spot {
	unsigned int stamp;    /* of the attempt that has it in its tree */
	unsigned int children; /* so far */
	unsigned int up;       /* edge to its parent, or NO_EDGE */
	/* as a parent that children of one level could have */
	unsigned int seen; /* the round it was looked at in */
	unsigned int could;
	uint64_t load;
	/* hosts of the communicator at it */
	unsigned int job;         /* the communicator they belong to */
	unsigned int hosts, host; /* how many, and the first of them */
	/* for the tree that is made of it */
	unsigned int node, first_rank, first_kid, last_kid, next_kid;
};

struct inc_routes {
	const struct inc_topology *topo;
	struct inc_graph graph;
	struct inc_order all; /* from all roots */
	struct inc_order one; /* from one of them, where that finds nothing */
	struct inc_route_use *use;
	struct inc_msg_limits *limits; /* by switch; what is 0 is not limited */
	bool *there;                   /* by switch */
	uint64_t *link_load;
	unsigned int *room; /* what holds the lists of switches below */
	unsigned int *roots;
	unsigned int n_roots;

	/* the search */
	struct inc_spot *spots; /* by switch */
	unsigned int stamp;     /* of attempts, rounds and communicators alike */
	unsigned int *edges;    /* room for all edges */
	/* the others have room for all switches */
	unsigned int *by_load; /* the roots, where one is tried after the other */
	unsigned int *queue;
	unsigned int *leaves; /* switches with hosts of the communicator, deepest first */
	unsigned int n_leaves;
	unsigned int *used; /* the tree: its switches, in no order */
	unsigned int n_used;
	unsigned int *level, *next_level; /* switches that need a parent */
	unsigned int *parents;            /* that they could have, */
	unsigned int *first;              /* in edges[first[i]] on those of level[i] */
	unsigned int slots;               /* of the communicator */
	bool anywhere;                    /* absent switches may be used */
};

/* What a communicator adds to the load of a switch, and a connection to that of a link. */
static inline uint64_t inc_route_slots_load(unsigned int slots)
{
	return (uint64_t)INC_LOAD_UNIT * slots / INC_DEF_SLOTS;
}

static inline uint64_t inc_route_link_weight(const struct inc_topology *topo, unsigned int link)
{
	return INC_LOAD_UNIT * (INC_TOPO_DEF_RATE / topo->links[link].rate_mbit);
}

/* The two cables of an edge: two where a bridge is between. */
static inline void inc_edge_links(const struct inc_topology *topo, unsigned int s,
				  const struct inc_edge *edge, unsigned int links[2])
{
	links[0] = topo->switches[s].ports[edge->port].link;
	links[1] = topo->switches[edge->to].ports[edge->to_port].link;
}

/* How many children a switch can take of a communicator of this size, now; up: it has a parent. */
unsigned int inc_route_capacity(const struct inc_routes *routes, unsigned int sw, bool up);

/* route_search.c: finds a tree in this order, and leaves it in used and spots. 0 or why not. */
int inc_route_search(struct inc_routes *routes, const struct inc_order *order, struct inc_err *err);

/* route_tree.c: what was found, as a tree. */
int inc_route_build(struct inc_routes *routes, const unsigned int *hosts, unsigned int n_hosts,
		    struct inc_tree **tree, struct inc_err *err);

#endif
