/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The search for a tree below one top: from the deepest switches with hosts upward, all switches of
 * one depth get parents together, as few as possible, and of those the least loaded. Tops are tried
 * from the lowest on; of equally low ones the tree with the least load is taken.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "controller/core/route_priv.h"

static const char *name_of(const struct inc_routes *r, unsigned int s)
{
	return r->topo->switches[s].name;
}

static bool usable(const struct inc_routes *r, unsigned int s)
{
	return r->anywhere || r->there[s];
}

static const char *host_at(const struct inc_routes *r, unsigned int leaf)
{
	return r->topo->hosts[r->spots[leaf].host].name;
}

/* Puts a switch into the tree, unless it is there. */
static void take(struct inc_routes *r, unsigned int attempt, unsigned int s)
{
	struct inc_spot *spot = &r->spots[s];

	if (spot->stamp == attempt)
		return;
	spot->stamp = attempt;
	spot->up = NO_EDGE;
	spot->children = 0;
	r->used[r->n_used++] = s;
}

/* How many more children a switch can have in this tree. */
static unsigned int room(const struct inc_routes *r, unsigned int attempt, unsigned int s,
			 unsigned int top)
{
	const struct inc_spot *spot = &r->spots[s];
	unsigned int has = spot->stamp == attempt ? spot->children : 0;
	unsigned int can = usable(r, s) ? inc_route_capacity(r, s, s != top) : 0;

	return can > has ? can - has : 0;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* What the links of an edge, and a switch, have to bear with this communicator. */
static uint64_t edge_load(const struct inc_routes *r, unsigned int e)
{
	const unsigned int *link = r->graph.edges[e].link;

	return larger(r->link_load[link[0]] + r->link_weight[link[0]],
		      r->link_load[link[1]] + r->link_weight[link[1]]);
}

static uint64_t switch_load(const struct inc_routes *r, unsigned int s)
{
	return r->use[s].load + inc_route_slots_load(r->slots);
}

/* The parents that the n switches of a level could have below top. */
static int list_parents(struct inc_routes *r, const struct inc_order *order, unsigned int n,
			unsigned int top, struct inc_err *err)
{
	unsigned int listed = 0;

	for (unsigned int i = 0; i < n; i++) {
		const unsigned int s = r->level[i];

		r->first[i] = listed;
		for (unsigned int u = order->first_up[s]; u < order->first_up[s + 1]; u++) {
			const unsigned int to = r->graph.edges[order->up[u]].to;

			if (usable(r, to) && inc_is_above(order, &r->graph, top, to))
				r->edges[listed++] = order->up[u];
		}
		if (r->first[i] == listed)
			return inc_err_set(err, EHOSTUNREACH,
					   "no way from switch %s up to switch %s: the switches "
					   "between are not connected to the controller",
					   name_of(r, s), name_of(r, top));
	}
	r->first[n] = listed;
	return 0;
}

static void attach(struct inc_routes *r, unsigned int s, unsigned int e)
{
	r->spots[s].up = e;
	r->spots[r->graph.edges[e].to].children++;
}

/* How many of a level without a parent could have each switch as one. Returns how many those are.
 */
static unsigned int count_parents(struct inc_routes *r, unsigned int n)
{
	const unsigned int round = ++r->stamp;
	unsigned int parents = 0;

	for (unsigned int i = 0; i < n; i++) {
		if (r->spots[r->level[i]].up != NO_EDGE)
			continue;
		for (unsigned int k = r->first[i]; k < r->first[i + 1]; k++) {
			const unsigned int to = r->graph.edges[r->edges[k]].to;
			uint64_t load = edge_load(r, r->edges[k]);
			struct inc_spot *spot = &r->spots[to];

			if (spot->seen != round) {
				spot->seen = round;
				spot->could = 0;
				spot->load = switch_load(r, to);
				r->parents[parents++] = to;
			}
			spot->could++;
			if (load > spot->load)
				spot->load = load;
		}
	}
	return parents;
}

/* The parent for most of them, or NO_EDGE where none has room: one that the tree has anyway, else
 * the one that can take most, else the least loaded. */
static unsigned int best_parent(const struct inc_routes *r, unsigned int attempt, unsigned int n,
				unsigned int top)
{
	unsigned int best = NO_EDGE, best_takes = 0;
	bool best_there = false;

	for (unsigned int i = 0; i < n; i++) {
		const unsigned int s = r->parents[i];
		const struct inc_spot *spot = &r->spots[s];
		const unsigned int can = room(r, attempt, s, top);
		const unsigned int takes = can < spot->could ? can : spot->could;
		const bool there = spot->stamp == attempt;

		if (!takes || (best != NO_EDGE && there < best_there))
			continue;
		if (best != NO_EDGE && there == best_there &&
		    (takes < best_takes ||
		     (takes == best_takes && (spot->load > r->spots[best].load ||
					      (spot->load == r->spots[best].load && s > best)))))
			continue;
		best = s;
		best_takes = takes;
		best_there = there;
	}
	return best;
}

/* Gives the parent as many of the level as it can take; first those with the fewest others. */
static void fill_parent(struct inc_routes *r, unsigned int attempt, unsigned int n,
			unsigned int parent, unsigned int top)
{
	unsigned int left = room(r, attempt, parent, top);

	for (unsigned int ways = 1; left && ways <= r->graph.n; ways++) {
		unsigned int more = 0;

		for (unsigned int i = 0; i < n && left; i++) {
			if (r->spots[r->level[i]].up != NO_EDGE)
				continue;
			more |= r->first[i + 1] - r->first[i] > ways;
			if (r->first[i + 1] - r->first[i] != ways)
				continue;
			for (unsigned int k = r->first[i]; k < r->first[i + 1]; k++) {
				if (r->graph.edges[r->edges[k]].to != parent)
					continue;
				attach(r, r->level[i], r->edges[k]);
				left--;
				break;
			}
		}
		if (!more)
			break;
	}
}

/* Finds a place for the i-th of a level where all its parents are full: one of their children goes
 * elsewhere, if need be by the same means. Each parent is asked once in a round. */
static bool make_place(struct inc_routes *r, unsigned int attempt, unsigned int n, unsigned int i,
		       unsigned int top, unsigned int round)
{
	for (unsigned int k = r->first[i]; k < r->first[i + 1]; k++) {
		const unsigned int to = r->graph.edges[r->edges[k]].to;

		if (room(r, attempt, to, top)) {
			take(r, attempt, to);
			attach(r, r->level[i], r->edges[k]);
			return true;
		}
	}
	for (unsigned int k = r->first[i]; k < r->first[i + 1]; k++) {
		const unsigned int to = r->graph.edges[r->edges[k]].to;

		if (r->spots[to].seen == round)
			continue;
		r->spots[to].seen = round;
		for (unsigned int j = 0; j < n; j++) {
			struct inc_spot *other = &r->spots[r->level[j]];
			const unsigned int was = other->up;

			if (was == NO_EDGE || r->graph.edges[was].to != to ||
			    !make_place(r, attempt, n, j, top, round))
				continue;
			r->spots[to].children--;
			attach(r, r->level[i], r->edges[k]);
			return true;
		}
	}
	return false;
}

/* A switch that is full, and how many children it would have with those of the level that can go
 * nowhere else. Where several are full, the first one is named that others keep from having room.
 */
static int say_full(struct inc_routes *r, unsigned int attempt, unsigned int n, unsigned int top,
		    unsigned int round, struct inc_err *err)
{
	for (unsigned int k = 0; k < r->first[n]; k++) {
		const unsigned int to = r->graph.edges[r->edges[k]].to;
		const struct inc_spot *spot = &r->spots[to];
		const unsigned int has = spot->stamp == attempt ? spot->children : 0;
		unsigned int must = spot->job == r->job ? spot->hosts : 0;

		if (spot->seen != round)
			continue;
		for (unsigned int i = 0; i < n; i++)
			must += r->first[i + 1] - r->first[i] == 1 &&
				r->graph.edges[r->edges[r->first[i]]].to == to;
		if (must <= has)
			must = has + 1;
		if (inc_route_say_lack(r, to, must, to != top, err))
			break;
	}
	return -ENOSPC;
}

static int place_rest(struct inc_routes *r, unsigned int attempt, unsigned int n, unsigned int top,
		      struct inc_err *err)
{
	for (unsigned int i = 0; i < n; i++) {
		if (r->spots[r->level[i]].up != NO_EDGE)
			continue;
		if (!make_place(r, attempt, n, i, top, ++r->stamp))
			return say_full(r, attempt, n, top, r->stamp, err);
	}
	return 0;
}

/*
 * Parents for the n switches of one level; those of them that are new to the tree are the next
 * level, *n_next of them. A parent that has hosts of the communicator is in the tree from the
 * start, so it is not among these: try_top() adds it to the level of its depth with the other
 * leaves.
 */
static int cover(struct inc_routes *r, const struct inc_order *order, unsigned int attempt,
		 unsigned int n, unsigned int top, unsigned int *n_next, struct inc_err *err)
{
	const unsigned int had = r->n_used;
	unsigned int parents, best;
	int ret = list_parents(r, order, n, top, err);

	while (!ret && (parents = count_parents(r, n))) {
		best = best_parent(r, attempt, parents, top);
		if (best == NO_EDGE) {
			ret = place_rest(r, attempt, n, top, err);
			break;
		}
		take(r, attempt, best);
		fill_parent(r, attempt, n, best, top);
	}
	*n_next = r->n_used - had;
	memcpy(r->next_level, r->used + had, *n_next * sizeof(*r->next_level));
	return ret;
}

/* The tree below top, in used and spots. */
static int try_top(struct inc_routes *r, const struct inc_order *order, unsigned int top,
		   struct inc_err *err)
{
	const unsigned int attempt = ++r->stamp;
	unsigned int n_level, n_next = 0, leaf = 0, *level;
	int ret = 0;

	r->n_used = 0;
	for (unsigned int i = 0; i < r->n_leaves; i++) {
		take(r, attempt, r->leaves[i]);
		r->spots[r->leaves[i]].children = r->spots[r->leaves[i]].hosts;
	}
	for (unsigned int d = order->depth[r->leaves[0]]; d > order->depth[top] && !ret; d--) {
		n_level = n_next;
		while (leaf < r->n_leaves && order->depth[r->leaves[leaf]] == d)
			r->level[n_level++] = r->leaves[leaf++];
		ret = cover(r, order, attempt, n_level, top, &n_next, err);
		level = r->level;
		r->level = r->next_level;
		r->next_level = level;
	}
	for (unsigned int i = 0; i < r->n_used && !ret; i++) {
		const unsigned int s = r->used[i];

		if (r->spots[s].children <= inc_route_capacity(r, s, s != top))
			continue;
		inc_route_say_lack(r, s, r->spots[s].children, s != top, err);
		ret = -ENOSPC;
	}
	return ret;
}

/* What the most loaded part of the tree that was found has to bear then. */
static uint64_t worst_load(const struct inc_routes *r)
{
	uint64_t worst = 0;

	for (unsigned int i = 0; i < r->n_used; i++) {
		const unsigned int up = r->spots[r->used[i]].up;

		worst = larger(worst, switch_load(r, r->used[i]));
		if (up != NO_EDGE)
			worst = larger(worst, edge_load(r, up));
	}
	return worst;
}

struct top {
	unsigned int s, depth;
	uint64_t floor; /* no tree below it bears less */
	uint64_t load;  /* its own */
};

static int compare_tops(const void *a, const void *b)
{
	const struct top *x = a, *y = b;

	if (x->depth != y->depth)
		return x->depth > y->depth ? -1 : 1;
	if (x->floor != y->floor)
		return x->floor < y->floor ? -1 : 1;
	if (x->load != y->load)
		return x->load < y->load ? -1 : 1;
	return x->s < y->s ? -1 : 1;
}

/* Looks at the switches above one: what the most loaded part of the best way to each is. */
static void look_up(struct inc_routes *r, const struct inc_order *order, unsigned int s,
		    unsigned int round, unsigned int *tail)
{
	for (unsigned int u = order->first_up[s]; u < order->first_up[s + 1]; u++) {
		const unsigned int e = order->up[u], to = r->graph.edges[e].to;
		struct inc_spot *other = &r->spots[to];
		uint64_t load;

		if (!usable(r, to))
			continue;
		load = larger(larger(r->spots[s].load, edge_load(r, e)), switch_load(r, to));
		if (other->seen != round) {
			other->seen = round;
			other->load = load;
			r->queue[(*tail)++] = to;
		} else if (load < other->load) {
			other->load = load;
		}
	}
}

/* All ways up from a switch with hosts. */
static void climb(struct inc_routes *r, const struct inc_order *order, unsigned int leaf,
		  unsigned int search)
{
	const unsigned int round = ++r->stamp;
	unsigned int head = 0, tail = 0;

	r->queue[tail++] = leaf;
	r->spots[leaf].seen = round;
	r->spots[leaf].load = switch_load(r, leaf);
	for (; head < tail; head++) {
		struct inc_spot *spot = &r->spots[r->queue[head]];

		/* its load is final: all that lead here are deeper, and have been here before */
		if (spot->search != search) {
			spot->search = search;
			spot->meets = 0;
			spot->floor = 0;
		}
		spot->meets++;
		spot->floor = larger(spot->floor, spot->load);
		look_up(r, order, r->queue[head], round, &tail);
	}
}

/* The switches above all that have hosts, in the order in which they are tried. */
static unsigned int list_tops(struct inc_routes *r, const struct inc_order *order, struct top *tops,
			      struct inc_err *err)
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
			tops[n++] = (struct top){s, order->depth[s], spot->floor, r->use[s].load};
	}
	qsort(tops, n, sizeof(*tops), compare_tops);
	if (!n)
		inc_err_set(err, EHOSTUNREACH, "no switch is above both %s and %s",
			    host_at(r, r->leaves[0]), host_at(r, r->leaves[r->n_leaves - 1]));
	return n;
}

static void sort_leaves(struct inc_routes *r, const struct inc_order *order)
{
	/* as good as sorted already: they stand by rank, and most are equally deep */
	for (unsigned int i = 1; i < r->n_leaves; i++) {
		const unsigned int s = r->leaves[i];
		unsigned int k = i;

		for (; k && order->depth[r->leaves[k - 1]] < order->depth[s]; k--)
			r->leaves[k] = r->leaves[k - 1];
		r->leaves[k] = s;
	}
}

int inc_route_search(struct inc_routes *r, const struct inc_order *order, struct inc_err *err)
{
	struct top tops[r->graph.n];
	unsigned int n, best = NO_EDGE, last = NO_EDGE;
	uint64_t least = UINT64_MAX, load;
	struct inc_err why;
	int ret = -EHOSTUNREACH;

	sort_leaves(r, order);
	n = list_tops(r, order, tops, err);
	for (unsigned int i = 0; i < n; i++) {
		/* what comes now is higher up, or bears as much */
		if (best != NO_EDGE &&
		    (tops[i].depth < order->depth[best] || tops[i].floor >= least))
			break;
		last = NO_EDGE;
		ret = try_top(r, order, tops[i].s, i ? &why : err); /* the first reason counts */
		if (ret)
			continue;
		last = tops[i].s;
		load = worst_load(r);
		if (load < least) {
			least = load;
			best = tops[i].s;
		}
	}
	if (best == NO_EDGE)
		return ret;
	return last == best ? 0 : try_top(r, order, best, err);
}
