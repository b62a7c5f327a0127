/* SPDX-License-Identifier: BSD-2-Clause */
/* The switches of a topology as a graph, and the order of the switches from the roots down
 * (graph.c). */
#ifndef INC_GRAPH_H
#define INC_GRAPH_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/topology/topology.h"

#define INC_UNREACHED UINT_MAX

/* An edge of the graph: a connection between two switches in one direction. It belongs to the
 * switch where it begins. */
struct inc_edge {
	unsigned int to;      /* switch at the far end of the edge */
	unsigned int port;    /* port of the switch where the edge begins */
	unsigned int to_port; /* port of the switch at the far end */
	/* The cables at both ports of the connection, which differ if a bridge is between them. */
	unsigned int link[2];
};

struct inc_graph {
	unsigned int n; /* number of switches */
	/* The edges that begin at switch s are edges[first[s]] to edges[first[s + 1] - 1]. */
	unsigned int *first;
	struct inc_edge *edges;
	unsigned int words; /* number of 64-bit words in a set of switches */
};

/* The distances of all switches to a set of roots. */
struct inc_order {
	/* number of links from each switch to the nearest root, or INC_UNREACHED */
	unsigned int *depth;
	/* For each switch s, the set of the switches on shortest paths from s to a root, s
	 * included. */
	uint64_t *above;
	/* The edges that lead one link nearer to a root. The edges of switch s are up[first_up[s]]
	 * to up[first_up[s + 1] - 1], in the order of the graph. They are listed, because most
	 * edges of a large switch do not lead towards a root. */
	unsigned int *first_up, *up;
};

/* inc_graph_init() and inc_order_init() return 0 or -ENOMEM. Even after an error the caller frees
 * the object. */
int inc_graph_init(struct inc_graph *graph, const struct inc_topology *topo);
void inc_graph_free(struct inc_graph *graph);
int inc_order_init(struct inc_order *order, const struct inc_graph *graph);
void inc_order_free(struct inc_order *order);
/* Computes the distances and paths to these roots. queue is scratch memory with room for all
 * switches. */
void inc_order_from(struct inc_order *order, const struct inc_graph *graph,
		    const unsigned int *roots, unsigned int n_roots, unsigned int *queue);

/* Returns the set of the switches on shortest paths from s to a root. */
static inline const uint64_t *inc_above(const struct inc_order *order,
					const struct inc_graph *graph, unsigned int s)
{
	return order->above + (size_t)s * graph->words;
}

static inline bool inc_is_above(const struct inc_order *order, const struct inc_graph *graph,
				unsigned int top, unsigned int s)
{
	return inc_above(order, graph, s)[top / 64] >> top % 64 & 1;
}

#endif
