/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files that find routes share. */
#ifndef INC_ROUTE_PRIV_H
#define INC_ROUTE_PRIV_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include "lib/base/err.h"
#include "controller/core/graph.h"
#include "controller/core/route.h"

#define NO_EDGE    UINT_MAX
#define INC_NO_WAY UINT64_MAX

/* A switch in the search for one tree. What is of an earlier search has another stamp. */
struct inc_spot {
	unsigned int stamp;    /* of the attempt that has it in its tree */
	unsigned int children; /* so far */
	unsigned int up;       /* edge to its parent, or NO_EDGE */
	/* the round it was looked at in: as a parent of one level (count_parents), as a full one
	 * whose children may go elsewhere (make_place), or on the ways up from a leaf (climb) */
	unsigned int seen;
	unsigned int could; /* as a parent: how many switches of the level have an edge to it */
	uint64_t load;      /* what bears most: it or the links to it; on the best way up to it */
	/* for a search: how many switches with hosts it is above, and what bears most on the best
	 * way from the worst of them */
	unsigned int search, meets;
	uint64_t floor;
	/* what bears most on the best way from it to the top that was surveyed, itself too */
	unsigned int survey;
	uint64_t way; /* INC_NO_WAY: there is none with room */
	/* its hosts at the switch */
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
	enum inc_mode_of_switch *mode; /* by switch */
	bool *there;                   /* by switch */
	bool *avoided;                 /* by switch */
	unsigned int n_avoided;
	uint64_t *link_load, *link_weight; /* by link: what there is, and what a connection adds */
	unsigned int *room;                /* what holds the lists of switches below */
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
	unsigned int *parents;            /* what the level has edges to, each once */
	/* edges[first[i]] on: the edges of level[i] to possible parents */
	unsigned int *first;
	unsigned int job;   /* the communicator's stamp */
	unsigned int slots; /* its */
	bool avoids; /* switches that inc_routes_avoid() names are left out, but hosts' own */
	unsigned int survey; /* the stamp of the last one */
	uint64_t limit;      /* no part of the tree may bear more */
	unsigned int tries;  /* how many parents this search may still try */
	bool anywhere;       /* absent switches may be used */
	bool empty;          /* as if nothing were in use */
	bool lacks;          /* lack holds what the first switch without room is short of */
	struct inc_route_lack lack;
	struct inc_err lack_text;
};

/* What a communicator adds to the load of a switch. */
static inline uint64_t inc_route_slots_load(unsigned int slots)
{
	return (uint64_t)INC_LOAD_UNIT * slots / INC_DEF_SLOTS;
}

static inline uint64_t inc_route_larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static inline bool inc_route_usable(const struct inc_routes *r, unsigned int s)
{
	return r->anywhere ||
	       (r->there[s] && !(r->avoids && r->avoided[s] && r->spots[s].job != r->job));
}

/* What the links of an edge, and a switch, have to bear with this communicator. */
uint64_t inc_route_edge_load(const struct inc_routes *routes, unsigned int e);
uint64_t inc_route_switch_load(const struct inc_routes *routes, unsigned int sw);

/* How many children a switch can take of a communicator of this size, now; up: it has a parent. */
unsigned int inc_route_capacity(const struct inc_routes *routes, unsigned int sw, bool up);

/* Says what a switch lacks for so many children of it; true: what it lacks is in use. */
bool inc_route_say_lack(struct inc_routes *routes, unsigned int sw, unsigned int children, bool up,
			struct inc_err *err);

/* A switch above all that have hosts. */
struct inc_top {
	unsigned int s, depth;
	uint64_t floor; /* no tree below it bears less */
	uint64_t load;  /* its own */
};

/* route_ways.c: these switches, in the order in which they are tried; tops has room for all.
 * Returns how many; 0: err says why. */
unsigned int inc_route_list_tops(struct inc_routes *routes, const struct inc_order *order,
				 struct inc_top *tops, struct inc_err *err);
/* What bears most when each switch with hosts takes its best way to top; INC_NO_WAY: one of them
 * has none with room. What is chosen for one tree is not known to it, so a tree can need more. */
uint64_t inc_route_survey(struct inc_routes *routes, const struct inc_order *order,
			  unsigned int top);
/* What bears most on the best way to the top of the last survey that begins with the edge. */
uint64_t inc_route_way_over(struct inc_routes *routes, const struct inc_order *order,
			    unsigned int e, unsigned int top);

/* route_search.c: finds a tree in this order, and leaves it in used and spots. 0 or why not. */
int inc_route_search(struct inc_routes *routes, const struct inc_order *order, struct inc_err *err);

/* route_tree.c: what was found, as a tree. */
int inc_route_build(struct inc_routes *routes, const unsigned int *hosts, unsigned int n_hosts,
		    struct inc_tree **tree, struct inc_err *err);
/* What has been kept of one (inc_route_restore). */
int inc_route_rebuild(struct inc_routes *routes, const unsigned int *hosts, unsigned int n_hosts,
		      const struct inc_tree_node *nodes, unsigned int n, struct inc_tree **tree,
		      struct inc_err *err);

#endif
