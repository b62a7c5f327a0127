/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "controller/core/graph.h"

/* Appends a switch's edges to the array out, which has n edges, and returns the new number. If out
 * is NULL, the function only counts them. */
static unsigned int add_edges(const struct inc_topology *topo, unsigned int s, struct inc_edge *out,
			      unsigned int n)
{
	const struct inc_topo_switch *sw = &topo->switches[s];

	for (unsigned int p = 0; p < sw->n_ports; p++) {
		for (unsigned int i = 0; i < sw->ports[p].n_peers; i++) {
			const struct inc_topo_peer *peer = &sw->ports[p].peers[i];

			if (!peer->to_switch)
				continue;
			if (out)
				out[n] = (struct inc_edge){
					peer->index,
					p,
					peer->port,
					{sw->ports[p].link,
					 topo->switches[peer->index].ports[peer->port].link}};
			n++;
		}
	}
	return n;
}

int inc_graph_init(struct inc_graph *graph, const struct inc_topology *topo)
{
	unsigned int n = 0;

	graph->n = topo->n_switches;
	graph->words = (graph->n + 63) / 64;
	for (unsigned int s = 0; s < graph->n; s++)
		n = add_edges(topo, s, NULL, n);
	graph->first = calloc(graph->n + 1, sizeof(*graph->first));
	graph->edges = calloc(n + 1, sizeof(*graph->edges));
	if (!graph->first || !graph->edges)
		return -ENOMEM;
	for (unsigned int s = 0; s < graph->n; s++)
		graph->first[s + 1] = add_edges(topo, s, graph->edges, graph->first[s]);
	return 0;
}

void inc_graph_free(struct inc_graph *graph)
{
	free(graph->first);
	free(graph->edges);
}

int inc_order_init(struct inc_order *order, const struct inc_graph *graph)
{
	order->depth = calloc(graph->n, sizeof(*order->depth));
	order->above = calloc((size_t)graph->n * graph->words, sizeof(*order->above));
	order->first_up = calloc(graph->n + 1, sizeof(*order->first_up));
	order->up = calloc(graph->first[graph->n] + 1, sizeof(*order->up));
	return order->depth && order->above && order->first_up && order->up ? 0 : -ENOMEM;
}

void inc_order_free(struct inc_order *order)
{
	free(order->depth);
	free(order->above);
	free(order->first_up);
	free(order->up);
}

static uint64_t *above_of(struct inc_order *order, const struct inc_graph *graph, unsigned int s)
{
	return order->above + (size_t)s * graph->words;
}

/* Whether neighbour `to` of switch s is nearer to a root. The distances of two neighbours differ by
 * one link at most. */
static bool is_step_up(const struct inc_order *order, unsigned int s, unsigned int to)
{
	return order->depth[to] < order->depth[s];
}

static void list_up(struct inc_order *order, const struct inc_graph *graph)
{
	unsigned int n = 0;

	for (unsigned int s = 0; s < graph->n; s++) {
		order->first_up[s] = n;
		for (unsigned int e = graph->first[s]; e < graph->first[s + 1]; e++) {
			if (is_step_up(order, s, graph->edges[e].to))
				order->up[n++] = e;
		}
	}
	order->first_up[graph->n] = n;
}

void inc_order_from(struct inc_order *order, const struct inc_graph *graph,
		    const unsigned int *roots, unsigned int n_roots, unsigned int *queue)
{
	unsigned int head = 0, tail = 0;

	memset(order->above, 0, (size_t)graph->n * graph->words * sizeof(*order->above));
	for (unsigned int s = 0; s < graph->n; s++)
		order->depth[s] = INC_UNREACHED;
	for (unsigned int i = 0; i < n_roots; i++) {
		order->depth[roots[i]] = 0;
		queue[tail++] = roots[i];
	}
	for (; head < tail; head++) {
		const unsigned int s = queue[head];
		uint64_t *mine = above_of(order, graph, s);

		/* The queue is in the order of distance, so the switches nearer to a root have
		 * their complete sets of switches above. */
		mine[s / 64] |= 1ull << s % 64;
		for (unsigned int e = graph->first[s]; e < graph->first[s + 1]; e++) {
			const unsigned int to = graph->edges[e].to;
			const uint64_t *theirs = inc_above(order, graph, to);

			if (order->depth[to] == INC_UNREACHED) {
				order->depth[to] = order->depth[s] + 1;
				queue[tail++] = to;
			}
			for (unsigned int w = 0; is_step_up(order, s, to) && w < graph->words; w++)
				mine[w] |= theirs[w];
		}
	}
	list_up(order, graph);
}
