/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "controller/core/route_priv.h"

/* Allocates the arrays that have an element for each switch. Returns 0 or -ENOMEM. */
static int make_arrays(struct inc_routes *r)
{
	const unsigned int n = r->graph.n;
	unsigned int **const lists[] = {&r->roots,      &r->by_load, &r->queue,
					&r->leaves,     &r->used,    &r->level,
					&r->next_level, &r->parents, &r->first};
	const size_t n_lists = sizeof(lists) / sizeof(lists[0]);

	r->room = calloc(n_lists * (n + 1), sizeof(*r->room));
	r->edges = calloc(r->graph.first[n] + 1, sizeof(*r->edges));
	r->spots = calloc(n, sizeof(*r->spots));
	r->use = calloc(n, sizeof(*r->use));
	r->limits = calloc(n, sizeof(*r->limits));
	r->mode = calloc(n, sizeof(*r->mode));
	r->children = calloc(n, sizeof(*r->children));
	r->there = calloc(n, sizeof(*r->there));
	r->avoided = calloc(n, sizeof(*r->avoided));
	r->link_load = calloc(r->topo->n_links, sizeof(*r->link_load));
	r->link_weight = calloc(r->topo->n_links, sizeof(*r->link_weight));
	if (!r->room || !r->edges || !r->spots || !r->use || !r->limits || !r->mode ||
	    !r->children || !r->there || !r->avoided || !r->link_load || !r->link_weight)
		return -ENOMEM;
	for (size_t i = 0; i < n_lists; i++)
		*lists[i] = r->room + i * (n + 1);
	return 0;
}

struct inc_routes *inc_routes_new(const struct inc_topology *topo)
{
	struct inc_routes *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->topo = topo;
	if (inc_graph_init(&r->graph, topo) || inc_order_init(&r->all, &r->graph) ||
	    inc_order_init(&r->one, &r->graph) || make_arrays(r)) {
		inc_routes_free(r);
		return NULL;
	}
	for (unsigned int l = 0; l < topo->n_links; l++)
		r->link_weight[l] = INC_LOAD_UNIT * (INC_TOPO_DEF_RATE / topo->links[l].rate_mbit);
	/* No link leads to a draining switch. As a root it still serves the hosts behind it. */
	for (unsigned int s = 0; s < topo->n_switches; s++) {
		if (topo->switches[s].root || s >= topo->n_live_switches)
			r->roots[r->n_roots++] = s;
	}
	inc_order_from(&r->all, &r->graph, r->roots, r->n_roots, r->queue);
	return r;
}

void inc_routes_free(struct inc_routes *r)
{
	if (!r)
		return;
	free(r->room);
	free(r->edges);
	free(r->spots);
	free(r->use);
	free(r->limits);
	free(r->mode);
	free(r->children);
	free(r->there);
	free(r->avoided);
	free(r->link_load);
	free(r->link_weight);
	inc_order_free(&r->one);
	inc_order_free(&r->all);
	inc_graph_free(&r->graph);
	free(r);
}

void inc_routes_avoid(struct inc_routes *r, unsigned int sw, bool avoid)
{
	r->n_avoided += avoid - r->avoided[sw];
	r->avoided[sw] = avoid;
}

void inc_routes_set_mode(struct inc_routes *r, unsigned int sw, uint32_t mode, uint32_t children)
{
	r->mode[sw] = mode;
	r->children[sw] = children;
}

void inc_routes_choose(struct inc_routes *r, enum inc_mode_of_switch mode)
{
	r->chosen = mode;
}

void inc_routes_offer(struct inc_routes *r, unsigned int sw, const struct inc_msg_limits *limits)
{
	r->there[sw] = limits;
	inc_routes_avoid(r, sw, false);
	r->limits[sw] = limits ? *limits : (struct inc_msg_limits){0};
}

const struct inc_msg_limits *inc_routes_limits(const struct inc_routes *r, unsigned int sw)
{
	return &r->limits[sw];
}

const struct inc_route_use *inc_routes_use(const struct inc_routes *r, unsigned int sw)
{
	return &r->use[sw];
}

uint64_t inc_routes_link_load(const struct inc_routes *r, unsigned int link)
{
	return r->link_load[link];
}

const struct inc_route_lack *inc_routes_lack(const struct inc_routes *r)
{
	return r->lacks ? &r->lack : NULL;
}

static const struct inc_load *in_use(const struct inc_routes *r, unsigned int sw)
{
	static const struct inc_load nothing;

	return r->empty ? &nothing : &r->use[sw].taken;
}

/* Returns for how many connections of the communicator a switch has room. In termination mode there
 * is no limit here. */
static unsigned int free_connections(const struct inc_routes *r, unsigned int sw)
{
	const struct inc_msg_limits *limits = &r->limits[sw];
	const struct inc_load *use = in_use(r, sw);
	uint64_t left = UINT_MAX;

	if (inc_route_mode(r, sw) != INC_PASSTHROUGH)
		return left;
	if ((limits->slots && r->slots > limits->slots) ||
	    (limits->communicators && use->communicators >= limits->communicators))
		return 0;
	if (limits->connections)
		left = limits->connections > use->connections
			       ? limits->connections - use->connections
			       : 0;
	if (limits->rows && use->rows >= limits->rows)
		return 0;
	if (limits->rows && (limits->rows - use->rows) / r->slots < left)
		left = (limits->rows - use->rows) / r->slots;
	return left;
}

static unsigned int max_children(const struct inc_routes *r, unsigned int sw)
{
	const enum inc_mode_of_switch mode = inc_route_mode(r, sw);
	const unsigned int said = r->mode[sw] == INC_AUTO && mode == INC_TERMINATION
					  ? r->children[sw]
					  : r->limits[sw].children;
	const unsigned int most = inc_most_children(mode);

	return said && said < most ? said : most;
}

unsigned int inc_route_capacity(const struct inc_routes *r, unsigned int sw, bool up)
{
	const unsigned int most = max_children(r, sw), left = free_connections(r, sw);

	if (left <= up)
		return 0;
	return left - up < most ? left - up : most;
}

/* A resource of a switch with its use, to find the one that is used up. */
struct part {
	const char *name;
	const char *option; /* of inc-switchd, by which the limit grows; "": there is none */
	uint64_t want, limit, used;
	/* Offset of the resource in struct inc_load. It means nothing for a resource that no other
	 * communicator can use up. */
	size_t figure;
};

/* Finds the first resource that a switch lacks for so many children. If the switch has enough of
 * all resources but the last, it is the last one. */
static struct part lacking(const struct inc_routes *r, unsigned int sw, unsigned int children,
			   bool up)
{
	const struct inc_load want = inc_load_of(children + up, r->slots), *use = in_use(r, sw);
	const struct inc_msg_limits *limits = &r->limits[sw];
	const struct part parts[] = {
		{"children", "", children, max_children(r, sw), 0, 0},
		{"slots", "", want.slots, limits->slots, 0, 0},
		{"communicators", " (inc-switchd --max-communicators)", want.communicators,
		 limits->communicators, use->communicators,
		 offsetof(struct inc_load, communicators)},
		{"connections", " (inc-switchd --max-connections)", want.connections,
		 limits->connections, use->connections, offsetof(struct inc_load, connections)},
		{"contribution rows", " (inc-switchd --max-rows)", want.rows, limits->rows,
		 use->rows, offsetof(struct inc_load, rows)},
	};
	const struct part *p = parts, *last = parts + sizeof(parts) / sizeof(parts[0]) - 1;

	while (p < last && (!p->limit || p->used + p->want <= p->limit))
		p++;
	return *p;
}

bool inc_route_say_lack(struct inc_routes *r, unsigned int sw, unsigned int children, bool up,
			struct inc_err *err)
{
	const struct part p = lacking(r, sw, children, up);
	const uint64_t left = p.used < p.limit ? p.limit - p.used : 0;
	const char *name = r->topo->switches[sw].name;
	const int len = strlen(p.name) - (p.want == 1);

	if (p.want > p.limit) {
		inc_err_set(err, ENOSPC, "switch %s: %llu %s are more than its limit of %llu%s",
			    name, (unsigned long long)p.want, p.name, (unsigned long long)p.limit,
			    p.option);
		return false;
	}
	inc_err_set(err, ENOSPC, "switch %s has no room for %llu %.*s: %llu of %llu are free%s",
		    name, (unsigned long long)p.want, len, p.name, (unsigned long long)left,
		    (unsigned long long)p.limit, p.option);
	if (!r->lacks) {
		r->lacks = true;
		r->lack = (struct inc_route_lack){sw, p.figure};
		r->lack_text = *err;
	}
	return true;
}

static void list_leaves(struct inc_routes *r, const unsigned int *hosts, unsigned int n_hosts)
{
	r->job = ++r->stamp;
	r->n_leaves = 0;
	for (unsigned int rank = 0; rank < n_hosts; rank++) {
		const unsigned int s = r->topo->hosts[hosts[rank]].sw;
		struct inc_spot *spot = &r->spots[s];

		if (spot->job != r->job) {
			spot->job = r->job;
			spot->hosts = 0;
			spot->host = hosts[rank];
			r->leaves[r->n_leaves++] = s;
		}
		spot->hosts++;
	}
}

/* Sorts the roots of the topology into the array by_load, the least loaded root first. */
static void sort_roots(struct inc_routes *r)
{
	for (unsigned int i = 0; i < r->n_roots; i++) {
		unsigned int k = i;

		for (; k && r->use[r->by_load[k - 1]].load > r->use[r->roots[i]].load; k--)
			r->by_load[k] = r->by_load[k - 1];
		r->by_load[k] = r->roots[i];
	}
}

/* Finds a tree for the communicator. It first searches with the paths from each switch to the
 * nearest root, which nearly always meet. They do not if parts of the network have roots of their
 * own, or if the paths have no room. Then it tries the paths to one root after the other. */
static int find_tree(struct inc_routes *r, struct inc_err *err)
{
	int ret = inc_route_search(r, &r->all, err), again;
	struct inc_err why;

	if (!ret || r->n_roots < 2)
		return ret;
	sort_roots(r);
	for (unsigned int i = 0; i < r->n_roots; i++) {
		inc_order_from(&r->one, &r->graph, &r->by_load[i], 1, r->queue);
		again = inc_route_search(r, &r->one, &why);
		if (!again)
			return 0;
		/* paths existed, so no tree was found because none of them has room */
		if (ret == -EHOSTUNREACH && again == -ENOSPC) {
			ret = again;
			*err = why;
		}
	}
	return ret;
}

static bool leaves_there(const struct inc_routes *r)
{
	for (unsigned int i = 0; i < r->n_leaves; i++) {
		if (!r->there[r->leaves[i]])
			return false;
	}
	return true;
}

static unsigned int up_link(const struct inc_routes *r, const struct inc_tree_node *node)
{
	return r->topo->switches[node->sw].ports[node->up_port].link;
}

/* Adds the load of a tree to that of its switches and links (sign 1), or subtracts it (-1). */
static void count(struct inc_routes *r, const struct inc_tree *tree, int sign)
{
	for (unsigned int i = 0; i < tree->n; i++) {
		const struct inc_tree_node *node = &tree->nodes[i];
		struct inc_route_use *use = &r->use[node->sw];

		if (node->mode == INC_PASSTHROUGH)
			inc_load_add(&use->taken, inc_tree_node_takes(tree, i), sign);
		use->load += sign * inc_route_slots_load(tree->slots);
		for (unsigned int k = 0; k < node->n_children; k++) {
			const struct inc_tree_child *child = &tree->children[node->first_child + k];
			const unsigned int near =
				r->topo->switches[node->sw].ports[child->port].link;
			const unsigned int far = child->to_switch
							 ? up_link(r, &tree->nodes[child->node])
							 : r->topo->hosts[child->host].link;

			r->link_load[near] += sign * r->link_weight[near];
			/* if a bridge is between the ports, the connection has two cables */
			if (far != near)
				r->link_load[far] += sign * r->link_weight[far];
		}
	}
}

/* Finds a tree for the communicator, with absent switches if there is no other. In any tree each
 * switch of a host must have room for its own hosts. */
static int find_any_tree(struct inc_routes *r, struct inc_err *err)
{
	int ret;

	r->lacks = false;
	for (unsigned int i = 0; i < r->n_leaves; i++) {
		const unsigned int s = r->leaves[i];

		if (r->spots[s].hosts <= inc_route_capacity(r, s, false))
			continue;
		inc_route_say_lack(r, s, r->spots[s].hosts, false, err);
		return -ENOSPC;
	}
	r->anywhere = false;
	if (leaves_there(r)) {
		r->avoids = r->n_avoided;
		ret = find_tree(r, err);
		if (ret && r->avoids) {
			r->avoids = false;
			r->lacks = false;
			ret = find_tree(r, err);
		}
		if (!ret)
			return 0;
	}
	r->anywhere = true;
	r->lacks = false;
	return find_tree(r, err);
}

/* Explains why no tree has room. Returns -ENOSPC if other communicators use the missing room, or
 * -E2BIG if the communicator is too large for any tree. */
static int explain_no_room(struct inc_routes *r, struct inc_err *err)
{
	const bool lacks = r->lacks;
	struct inc_err why;
	int ret;

	r->empty = true;
	ret = find_any_tree(r, &why);
	r->empty = false;
	if (ret == -ENOSPC)
		return inc_err_set(err, E2BIG, "%s", why.msg);
	r->lacks = lacks;
	if (lacks)
		*err = r->lack_text;
	return -ENOSPC;
}

int inc_route_compute(struct inc_routes *r, const unsigned int *hosts, unsigned int n_hosts,
		      unsigned int slots, struct inc_tree **tree, struct inc_err *err)
{
	int ret;

	if (!n_hosts)
		return inc_err_set(err, EINVAL, "a communicator without members has no route");
	r->slots = slots;
	list_leaves(r, hosts, n_hosts);
	ret = find_any_tree(r, err);
	if (ret == -ENOSPC)
		ret = explain_no_room(r, err);
	if (!ret)
		ret = inc_route_build(r, hosts, n_hosts, tree, err);
	if (ret)
		return ret;
	(*tree)->counted = true;
	count(r, *tree, 1);
	return 0;
}

int inc_route_restore(struct inc_routes *r, const unsigned int *hosts, unsigned int n_hosts,
		      unsigned int slots, const struct inc_tree_node *nodes, unsigned int n,
		      struct inc_tree **tree, struct inc_err *err)
{
	int ret;

	r->slots = slots;
	ret = inc_route_rebuild(r, hosts, n_hosts, nodes, n, tree, err);
	if (ret)
		return ret;
	(*tree)->counted = true;
	count(r, *tree, 1);
	return 0;
}

void inc_route_recount(struct inc_routes *r, const struct inc_tree *tree)
{
	if (tree && tree->counted)
		count(r, tree, 1);
}

struct inc_tree *inc_route_known(unsigned int sw)
{
	struct inc_tree *tree = calloc(1, sizeof(*tree));

	if (tree && inc_route_known_add(&tree, sw)) {
		free(tree);
		return NULL;
	}
	return tree;
}

int inc_route_known_add(struct inc_tree **tree, unsigned int sw)
{
	const size_t n = (*tree)->n + 1;
	struct inc_tree *more = realloc(*tree, sizeof(*more) + n * sizeof(more->nodes[0]));

	if (!more)
		return -ENOMEM;
	*tree = more;
	more->nodes[more->n++] = (struct inc_tree_node){.sw = sw, .parent = -1, .size = 1};
	return 0;
}

void inc_route_release(struct inc_routes *r, struct inc_tree *tree)
{
	if (tree && tree->counted)
		count(r, tree, -1);
	if (tree)
		free(tree->leader);
	free(tree);
}
