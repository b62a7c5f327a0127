/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes a struct inc_tree of the switches that a search has found, or of nodes from the
 * database. */
#include <errno.h>
#include <stdlib.h>
#include "controller/core/route_priv.h"

#define NONE UINT_MAX

/* Links each parent to its children in the order of their lowest ranks: follows each rank, from 0
 * on, from its switch up to a switch that an earlier rank has reached. Returns the root. */
static unsigned int link_kids(struct inc_routes *r, const unsigned int *hosts, unsigned int n_hosts)
{
	unsigned int root = r->used[0];

	for (unsigned int i = 0; i < r->n_used; i++) {
		struct inc_spot *spot = &r->spots[r->used[i]];

		spot->first_rank = spot->first_kid = spot->last_kid = spot->next_kid = NONE;
		if (spot->up == NO_EDGE)
			root = r->used[i];
	}
	for (unsigned int rank = 0; rank < n_hosts; rank++) {
		unsigned int s = r->topo->hosts[hosts[rank]].sw;

		while (r->spots[s].first_rank == NONE) {
			unsigned int up = r->spots[s].up, parent;

			r->spots[s].first_rank = rank;
			if (up == NO_EDGE)
				break;
			parent = r->graph.edges[up].to;
			if (r->spots[parent].first_kid == NONE)
				r->spots[parent].first_kid = s;
			else
				r->spots[r->spots[parent].last_kid].next_kid = s;
			r->spots[parent].last_kid = s;
			s = parent;
		}
	}
	return root;
}

static void add_node(struct inc_routes *r, struct inc_tree *tree, unsigned int s)
{
	const struct inc_spot *spot = &r->spots[s];
	struct inc_tree_node *node = &tree->nodes[tree->n];

	node->sw = s;
	node->mode = inc_route_mode(r, s);
	node->parent = -1;
	node->first_rank = spot->first_rank;
	node->size = 1;
	if (spot->up != NO_EDGE) {
		const struct inc_edge *edge = &r->graph.edges[spot->up];

		node->parent = r->spots[edge->to].node;
		node->up_port = edge->port;
		node->down_port = edge->to_port;
	}
	node->first_child = tree->n_children;
	tree->n_children += spot->children;
	r->spots[s].node = tree->n++;
}

/* Adds the nodes in an order in which each stands before its children: goes down to the first
 * child, then to the next one, and up if there is none. */
static void add_nodes(struct inc_routes *r, struct inc_tree *tree, unsigned int root)
{
	unsigned int s = root;

	for (;;) {
		add_node(r, tree, s);
		if (r->spots[s].first_kid != NONE) {
			s = r->spots[s].first_kid;
			continue;
		}
		while (s != root && r->spots[s].next_kid == NONE)
			s = r->graph.edges[r->spots[s].up].to;
		if (s == root)
			return;
		s = r->spots[s].next_kid;
	}
}

static int compare_children(const void *a, const void *b)
{
	const struct inc_tree_child *x = a, *y = b;

	if (x->port != y->port)
		return x->port < y->port ? -1 : 1;
	if (x->to_switch != y->to_switch)
		return x->to_switch ? -1 : 1;
	return (x->to_switch ? x->node < y->node : x->rank < y->rank) ? -1 : 1;
}

static void add_children(const struct inc_routes *r, struct inc_tree *tree,
			 const unsigned int *hosts, unsigned int n_hosts)
{
	for (unsigned int i = tree->n - 1; i; i--) {
		const struct inc_tree_node *node = &tree->nodes[i];
		struct inc_tree_node *parent = &tree->nodes[node->parent];

		parent->size += node->size;
		tree->children[parent->first_child + parent->n_children++] =
			(struct inc_tree_child){
				.to_switch = true, .node = i, .port = node->down_port};
	}
	for (unsigned int rank = 0; rank < n_hosts; rank++) {
		const struct inc_topo_host *host = &r->topo->hosts[hosts[rank]];
		struct inc_tree_node *node = &tree->nodes[r->spots[host->sw].node];

		tree->children[node->first_child + node->n_children++] = (struct inc_tree_child){
			.rank = rank, .host = hosts[rank], .port = host->port};
	}
	for (unsigned int i = 0; i < tree->n; i++)
		qsort(tree->children + tree->nodes[i].first_child, tree->nodes[i].n_children,
		      sizeof(tree->children[0]), compare_children);
}

/* Makes an empty tree with room for the nodes and their children. Returns NULL if there is no
 * memory. */
static struct inc_tree *tree_new(const struct inc_routes *r, unsigned int n, unsigned int n_hosts)
{
	struct inc_tree *tree = calloc(1, sizeof(*tree) + n * sizeof(tree->nodes[0]) +
						  (n - 1 + n_hosts) * sizeof(tree->children[0]));

	if (!tree)
		return NULL;
	tree->children = (struct inc_tree_child *)(tree->nodes + n);
	tree->slots = r->slots;
	return tree;
}

int inc_route_build(struct inc_routes *r, const unsigned int *hosts, unsigned int n_hosts,
		    struct inc_tree **out, struct inc_err *err)
{
	struct inc_tree *tree = tree_new(r, r->n_used, n_hosts);

	if (!tree)
		return inc_err_set(err, ENOMEM, "out of memory");
	add_nodes(r, tree, link_kids(r, hosts, n_hosts));
	add_children(r, tree, hosts, n_hosts);
	*out = tree;
	return 0;
}

/* Whether a port of one switch is connected to a given port of another switch. */
static bool leads_to(const struct inc_topology *topo, unsigned int sw, unsigned int port,
		     unsigned int to, unsigned int to_port)
{
	const struct inc_topo_port *p = &topo->switches[sw].ports[port];

	for (unsigned int i = 0; i < p->n_peers; i++) {
		if (p->peers[i].to_switch && p->peers[i].index == to && p->peers[i].port == to_port)
			return true;
	}
	return false;
}

/* Whether nodes from the database are a tree of the topology. The root must be first, and each node
 * stand right before its subtree. No switch may come twice, and each edge must be a connection of
 * the topology. */
static bool is_tree(struct inc_routes *r, const struct inc_tree_node *nodes, unsigned int n)
{
	r->job = ++r->stamp;
	for (unsigned int i = 0; i < n; i++) {
		const struct inc_tree_node *node = &nodes[i];
		int above = (int)i - 1;

		if (r->spots[node->sw].job == r->job)
			return false;
		r->spots[node->sw].job = r->job;
		r->spots[node->sw].node = i;
		if (!i || node->parent < 0) {
			if (i || node->parent >= 0)
				return false;
			continue;
		}
		while (above >= 0 && above != node->parent)
			above = nodes[above].parent;
		if (above < 0 ||
		    !leads_to(r->topo, node->sw, node->up_port, nodes[above].sw, node->down_port))
			return false;
	}
	return n;
}

int inc_route_rebuild(struct inc_routes *r, const unsigned int *hosts, unsigned int n_hosts,
		      const struct inc_tree_node *nodes, unsigned int n, struct inc_tree **out,
		      struct inc_err *err)
{
	struct inc_tree *tree;

	if (!is_tree(r, nodes, n))
		return inc_err_set(err, EINVAL, "its switches are no tree of the topology");
	tree = tree_new(r, n, n_hosts);
	if (!tree)
		return inc_err_set(err, ENOMEM, "out of memory");
	/* Counts the children of each node, which determine its range in tree->children. */
	for (unsigned int i = 0; i < n; i++) {
		tree->nodes[i] = nodes[i];
		tree->nodes[i].size = 1;
		if (i)
			tree->nodes[nodes[i].parent].n_children++;
	}
	for (unsigned int rank = 0; rank < n_hosts; rank++) {
		const struct inc_spot *spot = &r->spots[r->topo->hosts[hosts[rank]].sw];

		if (spot->job != r->job) {
			free(tree);
			return inc_err_set(err, EINVAL, "host %s is at none of its switches",
					   r->topo->hosts[hosts[rank]].name);
		}
		tree->nodes[spot->node].n_children++;
	}
	for (unsigned int i = 0; i < n; i++) {
		tree->nodes[i].first_child = tree->n_children;
		tree->n_children += tree->nodes[i].n_children;
		tree->nodes[i].n_children = 0;
	}
	tree->n = n;
	add_children(r, tree, hosts, n_hosts);
	*out = tree;
	return 0;
}
