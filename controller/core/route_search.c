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

/* Parents that are tried one after the other in one search, where levels alone find no tree. */
#define TRIES 50000

static const char *name_of(const struct inc_routes *r, unsigned int s)
{
	return r->topo->switches[s].name;
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
	unsigned int can = inc_route_usable(r, s) ? inc_route_capacity(r, s, s != top) : 0;

	return can > has ? can - has : 0;
}

/* Whether a tree below top may have the edge: its way on from there bears no more than the limit.
 * The largest limit leaves in what is full, too: it is found so by those who say why. */
static bool leads_on(struct inc_routes *r, const struct inc_order *order, unsigned int e,
		     unsigned int top)
{
	const unsigned int to = r->graph.edges[e].to;

	return inc_route_usable(r, to) && inc_is_above(order, &r->graph, top, to) &&
	       inc_route_way_over(r, order, e, top) <= r->limit;
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
			if (leads_on(r, order, order->up[u], top))
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
			uint64_t load = inc_route_edge_load(r, r->edges[k]);
			struct inc_spot *spot = &r->spots[to];

			if (spot->seen != round) {
				spot->seen = round;
				spot->could = 0;
				spot->load = inc_route_switch_load(r, to);
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

/* A tree of the switches with hosts alone, which have no parents. */
static unsigned int start_tree(struct inc_routes *r)
{
	const unsigned int attempt = ++r->stamp;

	r->n_used = 0;
	for (unsigned int i = 0; i < r->n_leaves; i++) {
		take(r, attempt, r->leaves[i]);
		r->spots[r->leaves[i]].children = r->spots[r->leaves[i]].hosts;
	}
	return attempt;
}

/* The tree below top, in used and spots. What a level chooses is not taken back. */
static int try_levels(struct inc_routes *r, const struct inc_order *order, unsigned int top,
		      struct inc_err *err)
{
	const unsigned int attempt = start_tree(r);
	unsigned int n_level, n_next = 0, leaf = 0, *level;
	int ret = 0;

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

/* The deepest switch of the tree that has no parent yet, or NO_EDGE. */
static unsigned int deepest_without(const struct inc_routes *r, const struct inc_order *order,
				    unsigned int top)
{
	unsigned int deepest = NO_EDGE;

	for (unsigned int i = 0; i < r->n_used; i++) {
		const unsigned int s = r->used[i];

		if (s != top && r->spots[s].up == NO_EDGE &&
		    (deepest == NO_EDGE || order->depth[s] > order->depth[deepest]))
			deepest = s;
	}
	return deepest;
}

/* Every way to complete the tree, those first that need no other switch, until one is found or so
 * much has been tried that it is given up. */
static bool try_parents(struct inc_routes *r, const struct inc_order *order, unsigned int attempt,
			unsigned int top)
{
	const unsigned int s = deepest_without(r, order, top);

	if (s == NO_EDGE)
		return true;
	for (int more = 0; more < 2; more++) {
		for (unsigned int u = order->first_up[s]; u < order->first_up[s + 1]; u++) {
			const unsigned int e = order->up[u], to = r->graph.edges[e].to;
			struct inc_spot *parent = &r->spots[to];

			if ((parent->stamp != attempt) != more || !leads_on(r, order, e, top) ||
			    !room(r, attempt, to, top))
				continue;
			if (!r->tries)
				return false;
			r->tries--;
			take(r, attempt, to);
			attach(r, s, e);
			if (try_parents(r, order, attempt, top))
				return true;
			parent->children--;
			r->spots[s].up = NO_EDGE;
			if (!more)
				continue;
			parent->stamp = 0;
			r->n_used--;
		}
	}
	return false;
}

/* A tree below top of which no part bears more than the limit. */
static int try_limit(struct inc_routes *r, const struct inc_order *order, unsigned int top,
		     uint64_t limit, struct inc_err *err)
{
	int ret;

	r->limit = limit;
	ret = try_levels(r, order, top, err);
	if (ret && limit < INC_NO_WAY) {
		/* others have their share of the tries, too */
		const unsigned int kept = r->tries - r->tries / 8;

		r->tries /= 8;
		if (try_parents(r, order, start_tree(r), top))
			ret = 0;
		r->tries += kept;
	}
	return ret;
}

/* What the most loaded part of the tree that was found has to bear then. */
static uint64_t worst_load(const struct inc_routes *r)
{
	uint64_t worst = 0;

	for (unsigned int i = 0; i < r->n_used; i++) {
		const unsigned int up = r->spots[r->used[i]].up;

		worst = inc_route_larger(worst, inc_route_switch_load(r, r->used[i]));
		if (up != NO_EDGE)
			worst = inc_route_larger(worst, inc_route_edge_load(r, up));
	}
	return worst;
}

/* The best tree so far. */
struct best {
	unsigned int top; /* NO_EDGE: there is none */
	uint64_t limit;   /* that it was found with */
	uint64_t load;
	bool kept; /* it is what used and spots have */
};

static int try_better(struct inc_routes *r, const struct inc_order *order, unsigned int top,
		      uint64_t limit, struct best *best, struct inc_err *err)
{
	int ret;

	best->kept = false;
	ret = try_limit(r, order, top, limit, err);
	if (!ret)
		*best = (struct best){top, limit, worst_load(r), true};
	return ret;
}

/*
 * The best tree below top, if it is better than the best so far. Nearly always the ways that bear
 * least have room; where they have not, it is found from the other side: trees that bear less and
 * less, until there is none. Why there is no tree at all is what ways that are full tell.
 */
static int try_top(struct inc_routes *r, const struct inc_order *order, unsigned int top,
		   struct best *best, struct inc_err *err)
{
	const uint64_t least = inc_route_survey(r, order, top);
	const bool lacks = r->lacks;
	struct inc_err why;

	if (least < best->load && try_better(r, order, top, least, best, &why)) {
		while (best->load - 1 > least &&
		       !try_better(r, order, top, best->load - 1, best, &why))
			;
	}
	r->lacks = lacks; /* what is full on some of the ways is no reason */
	return best->top == NO_EDGE ? try_better(r, order, top, INC_NO_WAY, best, err) : 0;
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
	struct best best = {.top = NO_EDGE, .load = INC_NO_WAY};
	struct inc_top tops[r->graph.n];
	int ret = -EHOSTUNREACH;
	struct inc_err why;
	unsigned int n;

	sort_leaves(r, order);
	r->tries = TRIES;
	n = inc_route_list_tops(r, order, tops, err);
	for (unsigned int i = 0; i < n; i++) {
		/* what comes now is higher up, or bears as much */
		if (best.top != NO_EDGE &&
		    (tops[i].depth < order->depth[best.top] || tops[i].floor >= best.load))
			break;
		/* the first reason counts */
		ret = try_top(r, order, tops[i].s, &best, i ? &why : err);
	}
	if (best.top == NO_EDGE)
		return ret;
	if (best.kept)
		return 0;
	r->tries = TRIES;
	inc_route_survey(r, order, best.top);
	return try_limit(r, order, best.top, best.limit, err);
}
