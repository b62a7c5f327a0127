// SPDX-License-Identifier: BSD-2-Clause
/*
 * Trees on random topologies, which are the same in every run, and on a topology of 1,024 switches.
 * Each result must be a tree that spans its ranks. The resources of a tree must be given back, and
 * equal communicators must be spread evenly.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "controller/core/route_priv.h"
#include "selftests/control/fabric.h"

#define ROUNDS    400
#define MAX_LEVEL 4
#define MAX_WIDE  5
#define MAX_HOSTS 20
#define JOBS      12

static uint32_t seed = 1;

static unsigned int draw(unsigned int below)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % below;
}

/* A topology in levels of switches. Each switch is linked to one or more switches of the next
 * level, and may have hosts. */
struct layers {
	unsigned int levels, wide[MAX_LEVEL];
	/* links, as [level][switch][switch of the level above] */
	bool link[MAX_LEVEL][MAX_WIDE][MAX_WIDE];
	unsigned int hosts, host_level[MAX_HOSTS], host_at[MAX_HOSTS];
};

static void draw_layers(struct layers *l)
{
	memset(l, 0, sizeof(*l));
	l->levels = 1 + draw(MAX_LEVEL);
	for (unsigned int i = 0; i < l->levels; i++) {
		l->wide[i] = 1 + draw(MAX_WIDE);
		for (unsigned int s = 0; i && s < l->wide[i]; s++) {
			l->link[i][s][draw(l->wide[i - 1])] = true;
			for (unsigned int up = 0; up < l->wide[i - 1]; up++)
				l->link[i][s][up] |= !draw(3);
		}
	}
	l->hosts = 1 + draw(MAX_HOSTS);
	for (unsigned int h = 0; h < l->hosts; h++) {
		l->host_level[h] = draw(3) ? l->levels - 1 : draw(l->levels);
		l->host_at[h] = draw(l->wide[l->host_level[h]]);
	}
}

/* Writes a port of a link. Each link has a network of its own. Addresses count links, because
 * addresses by level and switch would collide. */
static void put_port(FILE *f, unsigned int *ports, unsigned int link, int end, const char *peer)
{
	fprintf(f, "      - {name: p%u, ip: 10.%u.%u.%u, peer: %s}\n", (*ports)++, link / 250,
		link % 250, 1 + end, peer);
}

static unsigned int link_number(unsigned int level, unsigned int s, unsigned int up)
{
	return 100 + (level * MAX_WIDE + s) * MAX_WIDE + up;
}

static void put_switch(FILE *f, const struct layers *l, unsigned int level, unsigned int s)
{
	unsigned int ports = 0;
	char peer[32];

	fprintf(f, "  - name: s%u-%u\n    root: %s\n    ports:\n", level, s,
		level ? "false" : "true");
	for (unsigned int h = 0; h < l->hosts; h++) {
		snprintf(peer, sizeof(peer), "h%u", h);
		if (l->host_level[h] == level && l->host_at[h] == s)
			put_port(f, &ports, h, 1, peer);
	}
	for (unsigned int up = 0; level && up < l->wide[level - 1]; up++) {
		snprintf(peer, sizeof(peer), "s%u-%u", level - 1, up);
		if (l->link[level][s][up])
			put_port(f, &ports, link_number(level, s, up), 0, peer);
	}
	for (unsigned int down = 0; level + 1 < l->levels && down < l->wide[level + 1]; down++) {
		snprintf(peer, sizeof(peer), "s%u-%u", level + 1, down);
		if (l->link[level + 1][down][s])
			put_port(f, &ports, link_number(level + 1, down, s), 1, peer);
	}
}

/* Does the switch have hosts or links? The file leaves out a switch without them. */
static bool has_ports(const struct layers *l, unsigned int level, unsigned int s)
{
	bool any = level > 0;

	for (unsigned int h = 0; h < l->hosts; h++)
		any |= l->host_level[h] == level && l->host_at[h] == s;
	for (unsigned int down = 0; level + 1 < l->levels && down < l->wide[level + 1]; down++)
		any |= l->link[level + 1][down][s];
	return any;
}

static struct inc_topology *make_topology(const struct layers *l)
{
	struct inc_topology *topo = NULL;
	struct inc_err err = {""};
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	fprintf(f, "hosts:\n");
	for (unsigned int h = 0; h < l->hosts; h++)
		fprintf(f, "  - {name: h%u, ip: 10.0.%u.1}\n", h, h);
	fprintf(f, "switches:\n");
	for (unsigned int i = 0; i < l->levels; i++) {
		for (unsigned int s = 0; s < l->wide[i]; s++) {
			if (has_ports(l, i, s))
				put_switch(f, l, i, s);
		}
	}
	fclose(f);
	if (inc_topology_parse("random", text, len, &topo, &err))
		fail_msg("%s in\n%s", err.msg, text);
	free(text);
	return topo;
}

/* Is there any way between the switches of these hosts? */
static bool connected(const struct inc_topology *topo, const unsigned int *hosts, unsigned int n)
{
	bool seen[MAX_LEVEL * MAX_WIDE] = {0}, more = true;

	seen[topo->hosts[hosts[0]].sw] = true;
	while (more) {
		more = false;
		for (unsigned int s = 0; s < topo->n_switches; s++) {
			for (unsigned int p = 0; seen[s] && p < topo->switches[s].n_ports; p++) {
				const struct inc_topo_peer *peer =
					&topo->switches[s].ports[p].peers[0];

				if (peer->to_switch && !seen[peer->index])
					seen[peer->index] = more = true;
			}
		}
	}
	for (unsigned int i = 0; i < n; i++) {
		if (!seen[topo->hosts[hosts[i]].sw])
			return false;
	}
	return true;
}

static unsigned int one_round(const struct inc_topology *topo)
{
	struct inc_routes *routes = inc_routes_new(topo);
	struct inc_tree *trees[JOBS] = {0};
	unsigned int hosts[MAX_HOSTS], n, found = 0;
	struct inc_err err;
	const char *wrong;
	int ret;

	assert_non_null(routes);
	for (unsigned int j = 0; j < JOBS; j++) {
		n = 1 + draw(topo->n_hosts);
		for (unsigned int i = 0; i < n; i++)
			hosts[i] = draw(topo->n_hosts);
		ret = inc_route_compute(routes, hosts, n, 1u << draw(10), &trees[j], &err);
		if (ret && connected(topo, hosts, n))
			fail_msg("job %u: %s", j, err.msg);
		if (ret)
			continue;
		found++;
		wrong = tree_wrong(topo, trees[j], hosts, n);
		if (wrong)
			fail_msg("job %u: %s", j, wrong);
	}
	for (unsigned int j = 0; j < JOBS; j++)
		inc_route_release(routes, trees[(j * 5) % JOBS]);
	wrong = routes_in_use(topo, routes);
	if (wrong)
		fail_msg("%s is in use when all is given back", wrong);
	inc_routes_free(routes);
	return found;
}

static void random_topologies(void **state)
{
	unsigned int found = 0;

	for (unsigned int i = 0; i < ROUNDS; i++) {
		struct inc_topology *topo;
		struct layers l;

		draw_layers(&l);
		topo = make_topology(&l);
		found += one_round(topo);
		inc_topology_free(topo);
	}
	assert_true(found > ROUNDS * JOBS / 2);
}

/* An exhaustive search of all trees below a top switch. */
struct trial {
	const struct inc_routes *r;
	unsigned int top;
	bool in[MAX_LEVEL * MAX_WIDE];
	unsigned int up[MAX_LEVEL * MAX_WIDE], children[MAX_LEVEL * MAX_WIDE];
	/* greatest load of any part of the best tree so far; UINT64_MAX: no tree was found */
	uint64_t best;
};

static uint64_t bears(const struct inc_routes *r, unsigned int s, unsigned int up)
{
	uint64_t most = r->use[s].load + inc_route_slots_load(r->slots);

	for (unsigned int i = 0; up != NO_EDGE && i < 2; i++) {
		const unsigned int link = r->graph.edges[up].link[i];

		if (r->link_load[link] + r->link_weight[link] > most)
			most = r->link_load[link] + r->link_weight[link];
	}
	return most;
}

static void weigh(struct trial *t)
{
	uint64_t most = 0, load;

	for (unsigned int s = 0; s < t->r->graph.n; s++) {
		if (!t->in[s])
			continue;
		if (t->children[s] > inc_route_capacity(t->r, s, s != t->top))
			return;
		load = bears(t->r, s, t->up[s]);
		most = load > most ? load : most;
	}
	t->best = most < t->best ? most : t->best;
}

/* Tries every parent for the deepest switch that has no parent yet. */
static void try_parents(struct trial *t)
{
	const struct inc_graph *graph = &t->r->graph;
	const unsigned int *depth = t->r->all.depth;
	unsigned int s = NO_EDGE;

	for (unsigned int i = 0; i < graph->n; i++) {
		if (t->in[i] && i != t->top && t->up[i] == NO_EDGE &&
		    (s == NO_EDGE || depth[i] > depth[s]))
			s = i;
	}
	if (s == NO_EDGE) {
		weigh(t);
		return;
	}
	for (unsigned int e = graph->first[s]; e < graph->first[s + 1]; e++) {
		const unsigned int to = graph->edges[e].to;
		const bool had = t->in[to];

		if (depth[to] + 1 != depth[s] || !t->r->there[to] ||
		    !inc_is_above(&t->r->all, graph, t->top, to))
			continue;
		t->up[s] = e;
		t->in[to] = true;
		t->children[to]++;
		try_parents(t);
		t->children[to]--;
		t->in[to] = had;
		t->up[s] = NO_EDGE;
	}
}

/* The load of the best tree, found by trying all trees of connected switches. The top of such a
 * tree is as low as possible. */
static uint64_t best_by_trial(const struct inc_routes *r, const unsigned int *hosts, unsigned int n)
{
	uint64_t best = UINT64_MAX;
	unsigned int lowest = 0;

	for (unsigned int top = 0; top < r->graph.n; top++) {
		struct trial t = {.r = r, .top = top, .best = UINT64_MAX};
		bool above = r->there[top];

		for (unsigned int s = 0; s < r->graph.n; s++)
			t.up[s] = NO_EDGE;
		for (unsigned int i = 0; i < n; i++) {
			const unsigned int s = r->topo->hosts[hosts[i]].sw;

			above = above && r->there[s] && inc_is_above(&r->all, &r->graph, top, s);
			t.in[s] = true;
			t.children[s]++;
		}
		if (!above || (best != UINT64_MAX && r->all.depth[top] < lowest))
			continue;
		try_parents(&t);
		if (t.best == UINT64_MAX ||
		    (best != UINT64_MAX && r->all.depth[top] == lowest && t.best >= best))
			continue;
		best = t.best;
		lowest = r->all.depth[top];
	}
	return best;
}

/* The load of the tree that the router found, with the tree itself included. Returns UINT64_MAX if
 * a part of it is not connected. */
static uint64_t found_bears(struct inc_routes *r, const struct inc_tree *tree)
{
	uint64_t most = 0, load;

	for (unsigned int i = 0; i < tree->n; i++) {
		const unsigned int s = tree->nodes[i].sw;

		if (!r->there[s])
			return UINT64_MAX;
		load = r->use[s].load;
		if (i &&
		    load < r->link_load[r->topo->switches[s].ports[tree->nodes[i].up_port].link])
			load = r->link_load
				       [r->topo->switches[s].ports[tree->nodes[i].up_port].link];
		most = load > most ? load : most;
	}
	return most;
}

static void offer_some(struct inc_routes *r)
{
	for (unsigned int l = 0; l < r->topo->n_links; l++)
		r->link_weight[l] = INC_LOAD_UNIT << draw(4);
	for (unsigned int s = 0; s < r->graph.n; s++) {
		const struct inc_msg_limits limits = {.children = 2 + draw(4),
						      .communicators = 1 + draw(JOBS)};

		inc_routes_offer(r, s, draw(8) ? &limits : NULL);
	}
}

/* Routes on topologies with one root, links of several rates, some absent switches and some that
 * are soon full. If there is a tree of connected switches the router must find one, and no other
 * tree may be better. */
static void as_good_as_by_trial(void **state)
{
	unsigned int refused = 0, worse = 0, found = 0;

	for (unsigned int i = 0; i < ROUNDS; i++) {
		struct inc_topology *topo;
		struct inc_routes *r;
		struct inc_tree *trees[JOBS] = {0};
		struct layers l;

		do
			draw_layers(&l);
		while (l.levels < MAX_LEVEL || l.wide[0] > 1 || l.wide[1] > 3 || l.wide[2] > 3 ||
		       l.wide[3] > 3);
		topo = make_topology(&l);
		r = inc_routes_new(topo);
		offer_some(r);
		for (unsigned int j = 0; j < JOBS; j++) {
			const unsigned int n = 1 + draw(4);
			unsigned int hosts[4];
			struct inc_err err;
			uint64_t best;

			for (unsigned int k = 0; k < n; k++)
				hosts[k] = draw(topo->n_hosts);
			r->slots = INC_DEF_SLOTS;
			best = best_by_trial(r, hosts, n);
			if (inc_route_compute(r, hosts, n, INC_DEF_SLOTS, &trees[j], &err)) {
				refused += best != UINT64_MAX;
				if (best != UINT64_MAX)
					print_message("topology %u, job %u: %s\n", i, j, err.msg);
				continue;
			}
			found += best != UINT64_MAX;
			worse += best != UINT64_MAX && found_bears(r, trees[j]) > best;
		}
		for (unsigned int j = 0; j < JOBS; j++)
			inc_route_release(r, trees[j]);
		assert_null(routes_in_use(topo, r));
		inc_routes_free(r);
		inc_topology_free(topo);
	}
	print_message("of %u trees %u are not the best; %u were refused though there is one\n",
		      found, worse, refused);
	assert_int_equal(refused, 0);
	assert_int_equal(worse, 0);
}

/* The least and the greatest load of all switches or links of a kind. */
struct spread {
	uint64_t least, most;
};

static void widen(struct spread *s, uint64_t value)
{
	if (value < s->least)
		s->least = value;
	if (value > s->most)
		s->most = value;
}

static struct inc_topology *make_fabric(const struct fabric *shape)
{
	struct inc_topology *topo = NULL;
	struct inc_err err = {""};
	size_t len;
	char *text = fabric_text(shape, &len);

	assert_non_null(text);
	if (inc_topology_parse("fabric", text, len, &topo, &err))
		fail_msg("%s", err.msg);
	free(text);
	return topo;
}

/* Jobs over all pods of a fat tree: all cores and all of their links must have equal loads. */
static void even_shares(void **state)
{
	static const struct fabric shape = {
		.pods = 4, .edges = 2, .hosts = 2, .aggs = 2, .cores = 2};
	struct inc_topology *topo = make_fabric(&shape);
	struct inc_routes *routes = inc_routes_new(topo);
	struct spread cores = {UINT64_MAX, 0}, links = {UINT64_MAX, 0};
	unsigned int hosts[8];
	struct inc_tree *trees[16];
	struct inc_err err;

	for (unsigned int j = 0; j < 16; j++) {
		for (unsigned int i = 0; i < 8; i++)
			hosts[i] = 2 * i + j % 2;
		assert_int_equal(
			inc_route_compute(routes, hosts, 8, INC_DEF_SLOTS, &trees[j], &err), 0);
		assert_null(tree_wrong(topo, trees[j], hosts, 8));
		assert_int_equal(trees[j]->n, 1 + 4 + 8);
	}
	for (unsigned int s = 0; s < topo->n_switches; s++) {
		if (topo->switches[s].root)
			widen(&cores, inc_routes_use(routes, s)->taken.communicators);
	}
	for (unsigned int l = 0; l < topo->n_links; l++) {
		if (topo->links[l].end[0].kind == INC_TOPO_SWITCH &&
		    topo->switches[topo->links[l].end[1].index].root)
			widen(&links, inc_routes_link_load(routes, l));
	}
	assert_int_equal(cores.least, 4);
	assert_int_equal(cores.most, 4);
	assert_int_equal(links.least, 4 * INC_LOAD_UNIT);
	assert_int_equal(links.most, 4 * INC_LOAD_UNIT);
	for (unsigned int j = 0; j < 16; j++)
		inc_route_release(routes, trees[j]);
	assert_null(routes_in_use(topo, routes));
	inc_routes_free(routes);
	inc_topology_free(topo);
}

static const struct fabric large = {.pods = 16, .edges = 32, .hosts = 32, .aggs = 16, .cores = 16};

/* 1,024 switches, 16,384 hosts, 1,000 communicators of 2 to 128 ranks. */
static void large_fabric(void **state)
{
	struct inc_topology *topo = make_fabric(&large);
	struct inc_routes *routes = inc_routes_new(topo);
	struct inc_tree **trees = calloc(1000, sizeof(*trees));
	struct spread cores = {UINT64_MAX, 0};
	unsigned int hosts[128], across = 0;
	struct inc_err err;
	const char *wrong;

	assert_int_equal(topo->n_switches, 1024);
	assert_int_equal(topo->n_hosts, 16384);
	for (unsigned int j = 0; j < 1000; j++) {
		const unsigned int n = 2u << j % 7;

		for (unsigned int i = 0; i < n; i++)
			hosts[i] = j % 2 ? draw(topo->n_hosts) : (j * 16 + i) % topo->n_hosts;
		if (inc_route_compute(routes, hosts, n, INC_DEF_SLOTS, &trees[j], &err))
			fail_msg("%s", err.msg);
		wrong = tree_wrong(topo, trees[j], hosts, n);
		if (wrong)
			fail_msg("communicator %u: %s", j, wrong);
		across += topo->switches[trees[j]->nodes[0].sw].root;
	}
	for (unsigned int s = 0; s < topo->n_switches; s++) {
		if (topo->switches[s].root)
			widen(&cores, inc_routes_use(routes, s)->taken.communicators);
	}
	assert_true(across > 400);
	assert_true(cores.most <= across / 256 + 2); /* there are 256 cores */
	for (unsigned int j = 0; j < 1000; j++)
		inc_route_release(routes, trees[j]);
	assert_null(routes_in_use(topo, routes));
	free(trees);
	inc_routes_free(routes);
	inc_topology_free(topo);
}

static struct inc_route_member members[INC_MAX_RANKS];

static const struct inc_route_member *get_member(const void *arg, unsigned int rank)
{
	return &members[rank];
}

static const uint8_t *no_mac(const void *arg, unsigned int sw, unsigned int port)
{
	return NULL;
}

/* Routes a communicator of as many ranks as a descriptor can name. In the configurations each rank
 * must be below exactly one child of each switch above it, with its full number. */
static void many_ranks(void **state)
{
	struct inc_topology *topo = make_fabric(&large);
	struct inc_routes *routes = inc_routes_new(topo);
	struct inc_comm_conf *conf = calloc(1, sizeof(*conf));
	struct inc_route_comm comm = {.topo = topo, .member = get_member, .mac = no_mac};
	unsigned int hosts[INC_MAX_RANKS], seen = 0;
	struct inc_tree *tree;
	struct inc_err err;

	/* there are eight ranks at each edge switch */
	for (unsigned int i = 0; i < INC_MAX_RANKS; i++)
		members[i].host = hosts[i] = (i % 512) * 32 + i / 512;
	if (inc_route_compute(routes, hosts, INC_MAX_RANKS, INC_DEF_SLOTS, &tree, &err))
		fail_msg("%s", err.msg);
	assert_null(tree_wrong(topo, tree, hosts, INC_MAX_RANKS));
	assert_int_equal(tree->n, 1 + 16 + 512);
	comm.tree = tree;
	for (unsigned int n = 0; n < tree->n; n++) {
		struct inc_ranks below = {0}, want;

		assert_int_equal(inc_route_config(&comm, n, conf), 0);
		assert_int_equal(conf->root, n == 0);
		for (unsigned int i = 0; i < conf->n_conns; i++) {
			const struct inc_conn_conf *c = &conf->conn[i];

			assert_int_equal(c->up, n && i == conf->n_conns - 1);
			if (c->up)
				continue;
			if (!c->has_ranks) {
				inc_ranks_add(&below, c->rank);
				seen++;
				continue;
			}
			assert_int_equal(inc_ranks_next(&c->ranks, 0), c->rank);
			inc_ranks_join(&below, &c->ranks);
		}
		inc_tree_ranks(tree, n, &want);
		assert_memory_equal(&below, &want, sizeof(want));
	}
	assert_int_equal(seen, INC_MAX_RANKS);
	inc_route_release(routes, tree);
	free(conf);
	inc_routes_free(routes);
	inc_topology_free(topo);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_topologies), cmocka_unit_test(as_good_as_by_trial),
		cmocka_unit_test(even_shares),       cmocka_unit_test(large_fabric),
		cmocka_unit_test(many_ranks),
	};

	return cmocka_run_group_tests_name("random routes", tests, NULL, NULL) ? 1 : 0;
}
