/* SPDX-License-Identifier: BSD-2-Clause */
/* The switches of a topology as a graph, and which of them stand above a switch. */
#ifndef INC_GRAPH_H
#define INC_GRAPH_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/topology/topology.h"

#define INC_UNREACHED UINT_MAX

/* Half of a connection between switches: of the one that has the edge. */
struct inc_edge {
	unsigned int to;      /* a switch */
	unsigned int port;    /* of the one that has the edge */
	unsigned int to_port; /* the other's */
	unsigned int link[2]; /* the ports' cables: two where a bridge is between */
};

struct inc_graph {
	unsigned int n;      /* switches */
	unsigned int *first; /* those of switch s: edges[first[s]] to edges[first[s + 1] - 1] */
	struct inc_edge *edges;
	unsigned int words; /* of a set of switches */
};

/* How switches stand to some of them that are roots. */
struct inc_order {
	unsigned int *depth; /* links to the nearest root, or INC_UNREACHED */
	uint64_t *above;     /* sets: the switches on shortest ways to a root, s itself too */
	/* edges that lead a step nearer to a root: of switch s up[first_up[s]] to
	 * up[first_up[s + 1] - 1], in the graph's order. Most edges of a large switch lead down. */
	unsigned int *first_up, *up;
};

/* 0 or -ENOMEM; what has been made so far is the caller's to free. */
int inc_graph_init(struct inc_graph *graph, const struct inc_topology *topo);
void inc_graph_free(struct inc_graph *graph);
int inc_order_init(struct inc_order *order, const struct inc_graph *graph);
void inc_order_free(struct inc_order *order);
/* From these roots; queue has room for all switches. */
void inc_order_from(struct inc_order *order, const struct inc_graph *graph,
		    const unsigned int *roots, unsigned int n_roots, unsigned int *queue);

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
