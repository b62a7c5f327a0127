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
#include "lib/conf/comm_conf.h"
#include "controller/core/graph.h"
#include "controller/core/route.h"

#define NO_EDGE    UINT_MAX
#define INC_NO_WAY UINT64_MAX

/* The state of a switch in the search for one tree. Some fields are valid only if the stamp beside
 * them is that of the current search, so that no search must clear them. */
struct inc_spot {
	unsigned int stamp;    /* stamp of the attempt that has the switch in its tree */
	unsigned int children; /* number of children that the switch has in the tree so far */
	unsigned int up;       /* edge that leads from the switch to its parent, or NO_EDGE */
	/* Stamp of the last round that has visited the switch. There are three kinds of rounds: for
	 * possible parents (count_parents()), for full parents whose children may move
	 * (make_place()), and for paths up from a leaf (climb()). */
	unsigned int seen;
	/* number of switches on the present level that could have this switch as their parent */
	unsigned int could;
	/* Load of the switch as a parent, with the links to it. In climb() it is the load of the
	 * best path up to the switch. */
	uint64_t load;
	/* Stamp of a search, and what that search found: the number of leaves below the switch
	 * (meets), and the load of the best path from the leaf whose path is worst (floor). */
	unsigned int search, meets;
	uint64_t floor;
	/* Stamp of a survey. A survey finds the load of the best path from the switch to one top,
	 * with the switch itself. */
	unsigned int survey;
	uint64_t way; /* load of the best path of that survey; INC_NO_WAY: no path has room */
	/* The communicator's hosts at the switch, valid if the stamp is that of the
	 * communicator. */
	unsigned int job; /* stamp of the communicator */
	/* number of the communicator's hosts at the switch, and the first of them */
	unsigned int hosts, host;
	/* indexes of nodes, ranks and children, by which route_tree.c builds the tree */
	unsigned int node, first_rank, first_kid, last_kid, next_kid;
};

struct inc_routes {
	const struct inc_topology *topo;
	struct inc_graph graph;
	struct inc_order all; /* distances of the switches to the nearest of all roots */
	/* Distances of the switches to one root. They are used for a second search, if the search
	 * with the nearest roots finds no tree. */
	struct inc_order one;
	struct inc_route_use *use;
	struct inc_msg_limits *limits; /* limits of each switch's resources; 0: no limit */
	uint32_t *mode; /* mode of each switch: enum inc_mode_of_switch, or INC_AUTO */
	enum inc_mode_of_switch chosen; /* mode of switches with INC_AUTO */
	/* for each switch with INC_AUTO, the limit of its children in termination mode */
	uint32_t *children;
	bool *there;   /* whether each switch is connected */
	bool *avoided; /* whether trees avoid each switch */
	unsigned int n_avoided;
	/* For each link, its load, and the load that one connection adds to it. */
	uint64_t *link_load, *link_weight;
	/* the memory of the arrays below that have an element for each switch */
	unsigned int *room;
	unsigned int *roots;
	unsigned int n_roots;

	/* state of the search */
	struct inc_spot *spots; /* state of each switch */
	/* The last stamp that was given to an attempt, round, search, survey or communicator. */
	unsigned int stamp;
	/* edges from the present level to possible parents, with room for all edges of the graph */
	unsigned int *edges;
	/* The following arrays have room for all switches. */
	/* the roots of the topology, in the order in which they are tried one by one */
	unsigned int *by_load;
	unsigned int *queue;
	unsigned int *leaves; /* the leaves, deepest first */
	unsigned int n_leaves;
	unsigned int *used; /* the switches of the tree that was found, in no order */
	unsigned int n_used;
	unsigned int *level, *next_level; /* switches that need a parent */
	/* The possible parents of the present level, each once. The level's switches have edges to
	 * them. */
	unsigned int *parents;
	/* The edges from switch level[i] to possible parents begin at edges[first[i]]. */
	unsigned int *first;
	unsigned int job;   /* stamp of the communicator */
	unsigned int slots; /* slots of the communicator */
	/* the search does not use the switches of inc_routes_avoid(), unless they are leaves */
	bool avoids;
	unsigned int survey; /* stamp of the last survey */
	/* most load that a switch or link of the tree may have in this search */
	uint64_t limit;
	unsigned int tries; /* number of parents that this search may still try */
	bool anywhere;      /* the search may use absent switches */
	bool empty;         /* the search ignores what other communicators use */
	/* lack has the resource that the first full switch does not have enough of */
	bool lacks;
	struct inc_route_lack lack;
	struct inc_err lack_text;
};

/* Returns the load that a communicator with so many slots adds to a switch. */
static inline uint64_t inc_route_slots_load(unsigned int slots)
{
	return (uint64_t)INC_LOAD_UNIT * slots / INC_DEF_SLOTS;
}

/* Returns the mode that the switch has in a tree that is found now. */
static inline enum inc_mode_of_switch inc_route_mode(const struct inc_routes *r, unsigned int sw)
{
	return r->mode[sw] == INC_AUTO ? r->chosen : r->mode[sw];
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

/* These functions return the load of an edge's links, or of a switch, with the new communicator
 * included. */
uint64_t inc_route_edge_load(const struct inc_routes *routes, unsigned int e);
uint64_t inc_route_switch_load(const struct inc_routes *routes, unsigned int sw);

/* Returns how many children of the new communicator a switch has room for. If up is set, the switch
 * also needs a connection to a parent. */
unsigned int inc_route_capacity(const struct inc_routes *routes, unsigned int sw, bool up);

/* Writes into err which resource the switch lacks for so many children. Returns true if other
 * communicators use that resource, or false if the need exceeds the switch's limit. */
bool inc_route_say_lack(struct inc_routes *routes, unsigned int sw, unsigned int children, bool up,
			struct inc_err *err);

/* A top: a switch above all leaves, which can be the root of the tree. */
struct inc_top {
	unsigned int s, depth;
	uint64_t floor; /* lower bound of the load of each tree below this top */
	uint64_t load;  /* load of the switch itself */
};

/* route_ways.c: lists the tops in the order in which they are tried, into an array with room for
 * all switches. Returns their number. If it is 0, err has the reason. */
unsigned int inc_route_list_tops(struct inc_routes *routes, const struct inc_order *order,
				 struct inc_top *tops, struct inc_err *err);
/* Computes the load of a tree in which each leaf has its best path to top. Returns INC_NO_WAY if a
 * leaf has no path with room. The paths are chosen independently of each other, so a real tree may
 * have more load. */
uint64_t inc_route_survey(struct inc_routes *routes, const struct inc_order *order,
			  unsigned int top);
/* Returns the load of the best path that begins with edge e and leads to top, for which the last
 * survey was made. */
uint64_t inc_route_way_over(struct inc_routes *routes, const struct inc_order *order,
			    unsigned int e, unsigned int top);

/* route_search.c: finds a tree by the distances in order, and stores it in used and spots. Returns
 * 0, or -errno with the reason. */
int inc_route_search(struct inc_routes *routes, const struct inc_order *order, struct inc_err *err);

/* route_tree.c: makes a struct inc_tree of the tree that inc_route_search() has found. */
int inc_route_build(struct inc_routes *routes, const unsigned int *hosts, unsigned int n_hosts,
		    struct inc_tree **tree, struct inc_err *err);
/* Makes a struct inc_tree of nodes from the database (inc_route_restore()). */
int inc_route_rebuild(struct inc_routes *routes, const unsigned int *hosts, unsigned int n_hosts,
		      const struct inc_tree_node *nodes, unsigned int n, struct inc_tree **tree,
		      struct inc_err *err);

#endif
