/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>
#include "selftests/control/fabric.h"

/* Writes a port of a link. Each link has a network of two addresses, counted from 10.0.0.0. */
static void put_port(FILE *f, const char *name, unsigned int n, unsigned int link, int end,
		     const char *peer, unsigned int peer_n)
{
	const unsigned int ip = 10u << 24 | (2 * link + end);

	fprintf(f, "      - {name: %s%u, ip: %u.%u.%u.%u, peer: %s%u}\n", name, n, ip >> 24,
		ip >> 16 & 255, ip >> 8 & 255, ip & 255, peer, peer_n);
}

static void put_cores(FILE *f, const struct fabric *s, unsigned int first_link)
{
	for (unsigned int c = 0; c < s->aggs * s->cores; c++) {
		fprintf(f, "  - name: c%u\n    root: true\n    ports:\n", c);
		for (unsigned int pod = 0; pod < s->pods; pod++)
			put_port(f, "d", pod, first_link + c * s->pods + pod, 0, "a",
				 pod * s->aggs + c / s->cores);
	}
}

static void put_aggs(FILE *f, const struct fabric *s, unsigned int edge_link,
		     unsigned int core_link)
{
	for (unsigned int a = 0; a < s->pods * s->aggs; a++) {
		const unsigned int pod = a / s->aggs;

		fprintf(f, "  - name: a%u\n    ports:\n", a);
		for (unsigned int i = 0; i < s->cores; i++) {
			const unsigned int c = a % s->aggs * s->cores + i;

			put_port(f, "u", i, core_link + c * s->pods + pod, 1, "c", c);
		}
		for (unsigned int e = 0; e < s->edges; e++)
			put_port(f, "d", e, edge_link + a * s->edges + e, 0, "e",
				 pod * s->edges + e);
	}
}

static void put_edges(FILE *f, const struct fabric *s, unsigned int edge_link)
{
	for (unsigned int e = 0; e < s->pods * s->edges; e++) {
		const unsigned int pod = e / s->edges;

		fprintf(f, "  - name: e%u\n    ports:\n", e);
		for (unsigned int i = 0; i < s->aggs; i++) {
			const unsigned int a = pod * s->aggs + i;

			put_port(f, "u", i, edge_link + a * s->edges + e % s->edges, 1, "a", a);
		}
		for (unsigned int h = 0; h < s->hosts; h++)
			put_port(f, "p", h, e * s->hosts + h, 0, "h", e * s->hosts + h);
	}
}

char *fabric_text(const struct fabric *s, size_t *len)
{
	const unsigned int hosts = s->pods * s->edges * s->hosts;
	const unsigned int core_link = hosts + s->pods * s->aggs * s->edges;
	char *text = NULL;
	FILE *f = open_memstream(&text, len);

	if (!f)
		return NULL;
	fprintf(f, "hosts:\n");
	for (unsigned int h = 0; h < hosts; h++) {
		const unsigned int ip = 10u << 24 | (2 * h + 1);

		fprintf(f, "  - {name: h%u, ip: %u.%u.%u.%u}\n", h, ip >> 24, ip >> 16 & 255,
			ip >> 8 & 255, ip & 255);
	}
	fprintf(f, "switches:\n");
	put_cores(f, s, core_link);
	put_aggs(f, s, hosts, core_link);
	put_edges(f, s, hosts);
	fprintf(f, "defaults: {prefix: 31");
	if (s->rate_mbit)
		fprintf(f, ", rate_mbit: %u", s->rate_mbit);
	fprintf(f, "}\n");
	return fclose(f) ? NULL : text;
}

/* Checks that the two ends of a node's connection to its parent are each other's peers. */
static bool linked(const struct inc_topology *topo, const struct inc_tree_node *node,
		   const struct inc_tree_node *parent)
{
	const struct inc_topo_port *up, *down;
	bool there = false, back = false;

	if (node->up_port >= topo->switches[node->sw].n_ports ||
	    node->down_port >= topo->switches[parent->sw].n_ports)
		return false;
	up = &topo->switches[node->sw].ports[node->up_port];
	down = &topo->switches[parent->sw].ports[node->down_port];
	for (unsigned int i = 0; i < up->n_peers; i++)
		there |= up->peers[i].to_switch && up->peers[i].index == parent->sw &&
			 up->peers[i].port == node->down_port;
	for (unsigned int i = 0; i < down->n_peers; i++)
		back |= down->peers[i].to_switch && down->peers[i].index == node->sw;
	return there && back;
}

static const char *nodes_wrong(const struct inc_topology *topo, const struct inc_tree *tree)
{
	bool *seen = calloc(topo->n_switches, sizeof(*seen));
	const char *wrong = NULL;

	for (unsigned int i = 0; i < tree->n && !wrong; i++) {
		const struct inc_tree_node *node = &tree->nodes[i];

		if (seen[node->sw])
			wrong = "a switch stands twice";
		else if (node->n_children < 1 || node->n_children > INC_MAX_CHILDREN)
			wrong = "a node has no children, or too many";
		else if ((node->parent < 0) != !i || node->parent >= (int)i)
			wrong = "a node stands before its parent";
		else if (i && !linked(topo, node, &tree->nodes[node->parent]))
			wrong = "no link to the parent";
		else if (!node->size || i + node->size > tree->n ||
			 (i && i + node->size > node->parent + tree->nodes[node->parent].size))
			wrong = "a subtree ends outside its parent's";
		seen[node->sw] = true;
	}
	free(seen);
	return wrong;
}

/* Checks the children of all nodes. Each rank must be at its own switch, and each node but the root
 * at its parent, exactly once, and in the order of ports. */
static const char *children_wrong(const struct inc_topology *topo, const struct inc_tree *tree,
				  const unsigned int *hosts, unsigned int n_hosts)
{
	unsigned int *ranks = calloc(n_hosts, sizeof(*ranks)), kids = 0, total = 0;
	const char *wrong = NULL;

	for (unsigned int i = 0; i < tree->n && !wrong; i++) {
		const struct inc_tree_node *node = &tree->nodes[i];

		for (unsigned int k = 0; k < node->n_children && !wrong; k++, total++) {
			const struct inc_tree_child *c = &tree->children[node->first_child + k];

			if (k && c[-1].port > c->port)
				wrong = "children of one port do not stand together";
			else if (c->to_switch &&
				 (c->node >= tree->n || tree->nodes[c->node].parent != (int)i ||
				  tree->nodes[c->node].down_port != c->port))
				wrong = "a switch is a child of another one's parent";
			else if (!c->to_switch &&
				 (c->rank >= n_hosts || c->host != hosts[c->rank] ||
				  topo->hosts[c->host].sw != node->sw ||
				  topo->hosts[c->host].port != c->port || ranks[c->rank]++))
				wrong = "a rank is not at its switch, or twice";
			kids += c->to_switch;
		}
	}
	if (!wrong && (kids != tree->n - 1 || total != kids + n_hosts))
		wrong = "a rank or a switch is no child of any";
	free(ranks);
	return wrong;
}

static const char *ranks_wrong(const struct inc_tree *tree, unsigned int n_hosts)
{
	for (unsigned int i = 0; i < tree->n; i++) {
		const struct inc_tree_node *node = &tree->nodes[i];
		struct inc_ranks all, mine;

		inc_tree_ranks(tree, i, &all);
		if (inc_ranks_next(&all, 0) != node->first_rank)
			return "the lowest rank below a node is another one";
		for (unsigned int k = 0; k < node->n_children; k++) {
			const struct inc_tree_child *c = &tree->children[node->first_child + k];

			if (c->to_switch)
				inc_tree_ranks(tree, c->node, &mine);
			else
				mine = (struct inc_ranks){0};
			if (!c->to_switch)
				inc_ranks_add(&mine, c->rank);
			for (unsigned int r = 0; (r = inc_ranks_next(&mine, r)) < n_hosts; r++) {
				if (!inc_ranks_have(&all, r))
					return "a rank is in two children's sets, or not in the "
					       "node's";
				all.word[r / 64] &= ~(1ull << r % 64);
			}
		}
		if (inc_ranks_count(&all))
			return "a rank is in no child's set";
	}
	return NULL;
}

const char *tree_wrong(const struct inc_topology *topo, const struct inc_tree *tree,
		       const unsigned int *hosts, unsigned int n_hosts)
{
	const char *wrong = nodes_wrong(topo, tree);

	if (!wrong)
		wrong = children_wrong(topo, tree, hosts, n_hosts);
	if (!wrong)
		wrong = ranks_wrong(tree, n_hosts);
	/* the tree must be minimal, because a root whose single child is a switch would only pass
	 * packets on */
	if (!wrong && tree->nodes[0].n_children == 1 &&
	    tree->children[tree->nodes[0].first_child].to_switch)
		wrong = "the root has one child, a switch";
	return wrong;
}

const char *routes_in_use(const struct inc_topology *topo, const struct inc_routes *routes)
{
	for (unsigned int s = 0; s < topo->n_switches; s++) {
		const struct inc_route_use *use = inc_routes_use(routes, s);

		if (use->taken.communicators || use->taken.connections || use->taken.slots ||
		    use->taken.rows || use->load)
			return topo->switches[s].name;
	}
	for (unsigned int l = 0; l < topo->n_links; l++) {
		if (inc_routes_link_load(routes, l))
			return "a link";
	}
	return NULL;
}
