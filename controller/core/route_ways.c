/* SPDX-License-Identifier: BSD-2-Clause */
/* The paths from switches up to a top (route_priv.h): the load of the best of them, and the list of
 * the tops of a communicator. */
#include <errno.h>
#include <stdlib.h>
#include "controller/core/route_priv.h"

static const char *host_at(const struct inc_routes *r, unsigned int leaf)
{
	return r->topo->hosts[r->spots[leaf].host].name;
}

uint64_t inc_route_edge_load(const struct inc_routes *r, unsigned int e)
{
	const unsigned int *link = r->graph.edges[e].link;

	return inc_route_larger(r->link_load[link[0]] + r->link_weight[link[0]],
				r->link_load[link[1]] + r->link_weight[link[1]]);
}

uint64_t inc_route_switch_load(const struct inc_routes *r, unsigned int s)
{
	return r->use[s].load + inc_route_slots_load(r->slots);
}

/* Returns the load of the best path from switch s up to top, without s itself. */
static uint64_t way_from(struct inc_routes *r, const struct inc_order *order, unsigned int s,
			 unsigned int top)
{
	uint64_t least = INC_NO_WAY;

	for (unsigned int u = order->first_up[s]; u < order->first_up[s + 1]; u++) {
		const unsigned int e = order->up[u], to = r->graph.edges[e].to;
		uint64_t way;

		if (!inc_route_usable(r, to) || !inc_is_above(order, &r->graph, top, to))
			continue;
		way = inc_route_way_over(r, order, e, top);
		if (way < least)
			least = way;
	}
	return least;
}

/* Returns the load of the best path from a possible parent up to top, with the parent itself. It is
 * INC_NO_WAY if the parent has no room for a child. */
static uint64_t way_of(struct inc_routes *r, const struct inc_order *order, unsigned int s,
		       unsigned int top)
{
	struct inc_spot *spot = &r->spots[s];
	const unsigned int hosts = spot->job == r->job ? spot->hosts : 0;

	if (spot->survey == r->survey)
		return spot->way;
	spot->survey = r->survey;
	spot->way = INC_NO_WAY;
	if (inc_route_capacity(r, s, s != top) > hosts)
		spot->way = inc_route_larger(s == top ? 0 : way_from(r, order, s, top),
					     inc_route_switch_load(r, s));
	return spot->way;
}

uint64_t inc_route_way_over(struct inc_routes *r, const struct inc_order *order, unsigned int e,
			    unsigned int top)
{
	return inc_route_larger(inc_route_edge_load(r, e),
				way_of(r, order, r->graph.edges[e].to, top));
}

uint64_t inc_route_survey(struct inc_routes *r, const struct inc_order *order, unsigned int top)
{
	uint64_t least = 0;

	r->survey = ++r->stamp;
	for (unsigned int i = 0; i < r->n_leaves; i++) {
		const unsigned int s = r->leaves[i];

		least = inc_route_larger(least, inc_route_switch_load(r, s));
		if (s == top)
			continue;
		if (inc_route_capacity(r, s, true) < r->spots[s].hosts)
			return INC_NO_WAY;
		least = inc_route_larger(least, way_from(r, order, s, top));
	}
	return least;
}

static int compare_tops(const void *a, const void *b)
{
	const struct inc_top *x = a, *y = b;

	if (x->depth != y->depth)
		return x->depth > y->depth ? -1 : 1;
	if (x->floor != y->floor)
		return x->floor < y->floor ? -1 : 1;
	if (x->load != y->load)
		return x->load < y->load ? -1 : 1;
	return x->s < y->s ? -1 : 1;
}

/* Visits the switches one link above s, and updates the load of the best path from the leaf to each
 * of them. */
static void look_up(struct inc_routes *r, const struct inc_order *order, unsigned int s,
		    unsigned int round, unsigned int *tail)
{
	for (unsigned int u = order->first_up[s]; u < order->first_up[s + 1]; u++) {
		const unsigned int e = order->up[u], to = r->graph.edges[e].to;
		struct inc_spot *other = &r->spots[to];
		uint64_t load;

		if (!inc_route_usable(r, to))
			continue;
		load = inc_route_larger(
			inc_route_larger(r->spots[s].load, inc_route_edge_load(r, e)),
			inc_route_switch_load(r, to));
		if (other->seen != round) {
			other->seen = round;
			other->load = load;
			r->queue[(*tail)++] = to;
		} else if (load < other->load) {
			other->load = load;
		}
	}
}

/* Follows all paths up from a leaf, to count the leaf at each switch above it. */
static void climb(struct inc_routes *r, const struct inc_order *order, unsigned int leaf,
		  unsigned int search)
{
	const unsigned int round = ++r->stamp;
	unsigned int head = 0, tail = 0;

	r->queue[tail++] = leaf;
	r->spots[leaf].seen = round;
	r->spots[leaf].load = inc_route_switch_load(r, leaf);
	for (; head < tail; head++) {
		struct inc_spot *spot = &r->spots[r->queue[head]];

		/* The load of this switch is final, because all edges to it come from deeper
		 * switches, which the queue has before it. */
		if (spot->search != search) {
			spot->search = search;
			spot->meets = 0;
			spot->floor = 0;
		}
		spot->meets++;
		spot->floor = inc_route_larger(spot->floor, spot->load);
		look_up(r, order, r->queue[head], round, &tail);
	}
}

unsigned int inc_route_list_tops(struct inc_routes *r, const struct inc_order *order,
				 struct inc_top *tops, struct inc_err *err)
{
	const unsigned int search = ++r->stamp;
	unsigned int n = 0;

	for (unsigned int i = 0; i < r->n_leaves; i++) {
		if (order->depth[r->leaves[i]] == INC_UNREACHED) {
			inc_err_set(err, EHOSTUNREACH, "no path from %s to any root",
				    host_at(r, r->leaves[i]));
			return 0;
		}
		climb(r, order, r->leaves[i], search);
	}
	for (unsigned int s = 0; s < r->graph.n; s++) {
		const struct inc_spot *spot = &r->spots[s];

		if (spot->search == search && spot->meets == r->n_leaves)
			tops[n++] =
				(struct inc_top){s, order->depth[s], spot->floor, r->use[s].load};
	}
	qsort(tops, n, sizeof(*tops), compare_tops);
	if (!n)
		inc_err_set(err, EHOSTUNREACH, "no switch is above both %s and %s",
			    host_at(r, r->leaves[0]), host_at(r, r->leaves[r->n_leaves - 1]));
	return n;
}
