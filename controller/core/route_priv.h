/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files that find routes (route*.c). A leaf is a switch with hosts of the
 * communicator. A top is a switch that is above all leaves, and can be the tree's root. The load of
 * a path, or of a tree, is that of its most loaded switch or link. */
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

/* The state of a switch in the search for one tree. Values are valid only if their stamp is that of
 * the current search, so that they need not be cleared. */
struct inc_spot {
	unsigned int stamp;    /* stamp of the attempt that has the switch in its tree */
	unsigned int children; /* number of children in the tree so far */
	unsigned int up;       /* edge from the switch to its parent, or NO_EDGE */
	/* Stamp of the last round that visited the switch. Rounds visit it as a possible parent of
	 * a level (count_parents()), as a full parent whose children may go elsewhere
	 * (make_place()), or on the paths up from a leaf (climb()). */
	unsigned int seen;
	/* if the switch is a possible parent: the number of switches of the level with an edge to
	 * it */
	unsigned int could;
	/* load of the switch and of the links to it, or of the best path up to it */
	uint64_t load;
	/* stamp of a search, the number of leaves below the switch in that search, and the load of
	 * the best path from the leaf whose path is worst */
	unsigned int search, meets;
	uint64_t floor;
	/* stamp of a survey, and the load of the best path from the switch to the top of that
	 * survey, with the switch itself */
	unsigned int survey;
	uint64_t way; /* load of that best path; INC_NO_WAY: no path has room */
	/* hosts at the switch of the communicator with this stamp */
	unsigned int job;         /* stamp of the communicator */
	unsigned int hosts, host; /* number of these hosts, and the first of them */
	/* indexes for the tree that route_tree.c builds */
	unsigned int node, first_rank, first_kid, last_kid, next_kid;
};

struct inc_routes {
	const struct inc_topology *topo;
	struct inc_graph graph;
	struct inc_order all; /* distances to the nearest of all roots */
	/* distances to one root, for the search that follows if the one with all roots finds
	 * nothing */
	struct inc_order one;
	struct inc_route_use *use;
	struct inc_msg_limits *limits; /* limits of each switch; 0: no limit */
	enum inc_mode_of_switch *mode; /* mode of each switch */
	bool *there;                   /* whether each switch is connected */
	bool *avoided;                 /* whether trees avoid each switch */
	unsigned int n_avoided;
	/* for each link: its load, and what one connection adds to the load */
	uint64_t *link_load, *link_weight;
	unsigned int *room; /* one allocation that has the arrays of switches below */
	unsigned int *roots;
	unsigned int n_roots;

	/* state of the search */
	struct inc_spot *spots; /* state of each switch */
	/* last stamp that an attempt, round, search, survey or communicator has received */
	unsigned int stamp;
	unsigned int *edges; /* edges to possible parents, with room for all edges of the graph */
	/* The following arrays have room for all switches. */
	unsigned int *by_load; /* the roots in the order in which they are tried alone */
	unsigned int *queue;
	unsigned int *leaves; /* the leaves, deepest first */
	unsigned int n_leaves;
	unsigned int *used; /* the switches of the tree, in no order */
	unsigned int n_used;
	unsigned int *level, *next_level; /* switches that need a parent */
	/* possible parents: the switches to which the level has edges, each once */
	unsigned int *parents;
	/* edges[first[i]] and the following ones lead from level[i] to possible parents */
	unsigned int *first;
	unsigned int job;   /* stamp of the communicator */
	unsigned int slots; /* slots of the communicator */
	bool avoids; /* the search leaves out the switches of inc_routes_avoid(), except leaves */
	unsigned int survey; /* stamp of the last survey */
	uint64_t limit;      /* most load that a switch or link of the tree may have */
	unsigned int tries;  /* number of parents that this search may still try */
	bool anywhere;       /* the search may use absent switches */
	bool empty;          /* the search assumes that nothing is in use */
	bool lacks;          /* lack holds the resource that the first full switch lacks */
	struct inc_route_lack lack;
	struct inc_err lack_text;
};

/* Returns the load that a communicator adds to a switch. */
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

/* Return the load of an edge's links, and of a switch, including this communicator. */
uint64_t inc_route_edge_load(const struct inc_routes *routes, unsigned int e);
uint64_t inc_route_switch_load(const struct inc_routes *routes, unsigned int sw);

/* Returns the number of children of the communicator for which a switch has room now. up: the
 * switch also needs a connection to a parent. */
unsigned int inc_route_capacity(const struct inc_routes *routes, unsigned int sw, bool up);

/* Writes into err which resource a switch lacks for so many children. Returns true if other
 * communicators use it, and false if the need exceeds the switch's limit. */
bool inc_route_say_lack(struct inc_routes *routes, unsigned int sw, unsigned int children, bool up,
			struct inc_err *err);

/* A possible root of the tree. */
struct inc_top {
	unsigned int s, depth;
	uint64_t floor; /* lower bound of the load of each tree below this top */
	uint64_t load;  /* load of the switch itself */
};

/* route_ways.c: lists the tops in the order in which they are tried. tops has room for all
 * switches. Returns their number; 0: there is none, and err says why. */
unsigned int inc_route_list_tops(struct inc_routes *routes, const struct inc_order *order,
				 struct inc_top *tops, struct inc_err *err);
/* Computes the load of a tree in which each leaf takes its best path to top. INC_NO_WAY: a leaf has
 * no path with room. The paths are chosen independently of each other, so a tree can have more
 * load. */
uint64_t inc_route_survey(struct inc_routes *routes, const struct inc_order *order,
			  unsigned int top);
/* Returns the load of the best path that begins with the edge and leads to the top of the last
 * survey. */
uint64_t inc_route_way_over(struct inc_routes *routes, const struct inc_order *order,
			    unsigned int e, unsigned int top);

/* route_search.c: finds a tree with these distances, and stores it in used and spots. Returns 0, or
 * -errno with the reason. */
int inc_route_search(struct inc_routes *routes, const struct inc_order *order, struct inc_err *err);

/* route_tree.c: makes a struct inc_tree of the tree that was found. */
int inc_route_build(struct inc_routes *routes, const unsigned int *hosts, unsigned int n_hosts,
		    struct inc_tree **tree, struct inc_err *err);
/* Does the same for nodes from the database (inc_route_restore()). */
int inc_route_rebuild(struct inc_routes *routes, const unsigned int *hosts, unsigned int n_hosts,
		      const struct inc_tree_node *nodes, unsigned int n, struct inc_tree **tree,
		      struct inc_err *err);

#endif
