/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The search for a tree below one top (route_priv.h). From the deepest leaves upward, all switches
 * of one depth get their parents together: as few parents as possible, and of those the least
 * loaded. The lowest tops are tried first, and of equally low ones the tree with the least load is
 * chosen.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "controller/core/route_priv.h"

/* The most parents that a search tries one by one, if the search level by level finds no tree. */
#define TRIES 50000

static const char *name_of(const struct inc_routes *r, unsigned int s)
{
	return r->topo->switches[s].name;
}

/* Puts a switch into the tree, unless it is in it already. */
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

/* Returns how many further children a switch has room for in the tree of this attempt. */
static unsigned int room(const struct inc_routes *r, unsigned int attempt, unsigned int s,
			 unsigned int top)
{
	const struct inc_spot *spot = &r->spots[s];
	unsigned int has = spot->stamp == attempt ? spot->children : 0;
	unsigned int can = inc_route_usable(r, s) ? inc_route_capacity(r, s, s != top) : 0;

	return can > has ? can - has : 0;
}

/* Whether a tree below top may use the edge. It may if the best path over the edge to top has no
 * more load than the limit. If the limit is the largest value, full switches are allowed, too,
 * because say_full() then names them. */
static bool leads_on(struct inc_routes *r, const struct inc_order *order, unsigned int e,
		     unsigned int top)
{
	const unsigned int to = r->graph.edges[e].to;

	return inc_route_usable(r, to) && inc_is_above(order, &r->graph, top, to) &&
	       inc_route_way_over(r, order, e, top) <= r->limit;
}

/* Lists the edges to possible parents of the n switches of a level. Returns 0 or -EHOSTUNREACH. */
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

/* Counts for each possible parent how many switches it could have as children, among those of the
 * level that have no parent yet. Returns the number of possible parents. */
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

/* Finds the parent that suits the switches of a level that still have none. A parent that is in the
 * tree already comes first, then the one with room for most of these switches, then the least
 * loaded one. Returns NO_EDGE if none has room. */
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

/* Attaches as many switches of the level to the parent as it has room for. Those with the fewest
 * other possible parents are first. */
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

/* Finds a parent for switch i of a level whose possible parents are all full. One of their children
 * must move to another parent, for which room may be made in the same way. Each parent is tried
 * once in a round. */
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

/* Writes into err a full switch and the number of children that it would need, with the switches of
 * the level that have no other possible parent. Of several full switches the first one is named
 * whose room other communicators use. Returns -ENOSPC. */
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
 * Finds parents for the n switches of one level. Parents that are new to the tree are the next
 * level, *n_next of them. A parent that is a leaf is in the tree from the start, so it is not among
 * these: try_levels() adds it to the level of its depth with the other leaves.
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

/* Begins a tree with the leaves alone, which have no parents yet. */
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

/* Finds a tree below top level by level, in used and spots. A choice for one level is never changed
 * later. Returns 0 or -errno. */
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

/* Finds the deepest switch of the tree without a parent; NO_EDGE if there is none. */
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

/* Tries all ways to complete the tree, those first that need no new switch. Stops at the first
 * tree, or when the number of tries is used up. */
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

/* Finds a tree below top without a switch or link that has more load than the limit. 0 or
 * -errno. */
static int try_limit(struct inc_routes *r, const struct inc_order *order, unsigned int top,
		     uint64_t limit, struct inc_err *err)
{
	int ret;

	r->limit = limit;
	ret = try_levels(r, order, top, err);
	if (ret && limit < INC_NO_WAY) {
		/* one call uses at most an eighth of the tries that are left, so that others can
		 * try, too */
		const unsigned int kept = r->tries - r->tries / 8;

		r->tries /= 8;
		if (try_parents(r, order, start_tree(r), top))
			ret = 0;
		r->tries += kept;
	}
	return ret;
}

/* Returns the load of the most loaded switch or link of the tree that was found, the new
 * communicator included. */
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
	unsigned int top; /* root of the best tree so far; NO_EDGE: there is no tree yet */
	uint64_t limit;   /* limit of load with which the best tree was found */
	uint64_t load;
	bool kept; /* used and spots still contain the best tree */
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
 * Finds a tree below top that is better than the best tree so far. Nearly always the least loaded
 * paths have room. If they have, trees with less and less load are searched until there is none. If
 * no top has had a tree yet, a search without a limit of load finds one, or the reason.
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
	/* full switches on some paths are no reason for a failure, because other paths have room */
	r->lacks = lacks;
	return best->top == NO_EDGE ? try_better(r, order, top, INC_NO_WAY, best, err) : 0;
}

static void sort_leaves(struct inc_routes *r, const struct inc_order *order)
{
	/* The array is sorted by insertion, because the leaves are nearly sorted: they are in the
	 * order of ranks, and most are equally deep. */
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
		/* the tops that remain are higher than the best tree's root, or have at least the
		 * best tree's load */
		if (best.top != NO_EDGE &&
		    (tops[i].depth < order->depth[best.top] || tops[i].floor >= best.load))
			break;
		/* if no top has a tree, the error of the first top is reported */
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
