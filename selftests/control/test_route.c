// SPDX-License-Identifier: BSD-2-Clause
// SIZE: check
/* Routes and configurations on a tree: hosts h0 to h5, leaves s1 to s3, s0 above s1 and s2, and the
 * root r above s0 and s3. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <cmocka.h>
#include "selftests/control/fabric.h"

static const char tree_text[] =
	"hosts:\n"
	"  - {name: h0, ip: 10.1.0.1}\n  - {name: h1, ip: 10.1.1.1}\n"
	"  - {name: h2, ip: 10.2.0.1}\n  - {name: h3, ip: 10.2.1.1}\n"
	"  - {name: h4, ip: 10.3.0.1}\n  - {name: h5, ip: 10.0.9.1}\n"
	"switches:\n"
	"  - name: s0\n    ports:\n"
	"      - {name: up, ip: 10.9.0.1, peer: r}\n"
	"      - {name: d1, ip: 10.8.1.1, peer: s1}\n      - {name: d2, ip: 10.8.2.1, peer: s2}\n"
	"  - name: r\n    root: true\n    ports:\n"
	"      - {name: d0, ip: 10.9.0.2, peer: s0}\n      - {name: d3, ip: 10.9.3.2, peer: s3}\n"
	"      - {name: h5, ip: 10.0.9.254, peer: h5}\n"
	"  - name: s1\n    ports:\n"
	"      - {name: p0, ip: 10.1.0.254, peer: h0}\n      - {name: p1, ip: 10.1.1.254, peer: "
	"h1}\n"
	"      - {name: up, ip: 10.8.1.2, peer: s0}\n"
	"  - name: s2\n    ports:\n"
	"      - {name: p0, ip: 10.2.0.254, peer: h2}\n      - {name: p1, ip: 10.2.1.254, peer: "
	"h3}\n"
	"      - {name: up, ip: 10.8.2.2, peer: s0}\n"
	"  - name: s3\n    ports:\n"
	"      - {name: p0, ip: 10.3.0.254, peer: h4}\n      - {name: up, ip: 10.9.3.1, peer: r}\n";

static struct inc_topology *topo;
static struct inc_routes *routes;

static int setup(void **state)
{
	struct inc_err err;

	if (inc_topology_parse("tree", tree_text, sizeof(tree_text) - 1, &topo, &err))
		return -1;
	routes = inc_routes_new(topo);
	return routes ? 0 : -1;
}

static int teardown(void **state)
{
	inc_routes_free(routes);
	inc_topology_free(topo);
	return 0;
}

static const struct {
	unsigned int hosts[6];
	unsigned int n;
	const char *nodes; /* nodes of the expected tree as node<parent, the root first */
} cases[] = {
	{{0, 1}, 2, "s1"},
	{{4}, 1, "s3"},
	{{5}, 1, "r"},
	{{0, 0, 0}, 3, "s1"},
	{{0, 2}, 2, "s0 s1<s0 s2<s0"},
	{{3, 0, 2, 1}, 4, "s0 s2<s0 s1<s0"},
	{{0, 4}, 2, "r s0<r s1<s0 s3<r"},
	{{0, 5}, 2, "r s0<r s1<s0"},
	{{0, 1, 2, 3, 4, 5}, 6, "r s0<r s1<s0 s2<s0 s3<r"},
};

static void describe(const struct inc_tree *tree, char *text)
{
	*text = '\0';
	for (unsigned int i = 0; i < tree->n; i++) {
		const struct inc_tree_node *node = &tree->nodes[i];

		if (i)
			strcat(text, " ");
		strcat(text, topo->switches[node->sw].name);
		if (node->parent < 0)
			continue;
		strcat(text, "<");
		strcat(text, topo->switches[tree->nodes[node->parent].sw].name);
	}
}

static void smallest_tree(void **state)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct inc_tree *tree;
		struct inc_err err;
		char text[200];

		assert_int_equal(
			inc_route_compute(routes, cases[i].hosts, cases[i].n, 64, &tree, &err), 0);
		describe(tree, text);
		assert_string_equal(text, cases[i].nodes);
		assert_null(tree_wrong(topo, tree, cases[i].hosts, cases[i].n));
		inc_route_release(routes, tree);
	}
	assert_null(routes_in_use(topo, routes));
}

static struct inc_route_member members[6];

static const struct inc_route_member *get_member(const void *arg, unsigned int rank)
{
	return &members[rank];
}

/* Returns the only MAC address that is known: that of r's port to s3. */
static const uint8_t *get_mac(const void *arg, unsigned int sw, unsigned int port)
{
	static const uint8_t mac[6] = {2, 0, 0, 0, 0, 7};

	return strcmp(topo->switches[sw].name, "r") == 0 && port == 1 ? mac : NULL;
}

static const char *text_of(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

static long long number_of(const json_t *o, const char *key)
{
	return json_integer_value(json_object_get(o, key));
}

/* The configuration of a node, which must survive being printed and read as a message. */
static json_t *config_of(const struct inc_route_comm *comm, unsigned int node)
{
	struct inc_msg_configure said, read;
	struct inc_err err;
	json_t *message, *config;

	assert_int_equal(inc_route_config(comm, node, &said.config), 0);
	message = inc_message_new(INC_MSG_CONFIGURE, &said);
	assert_int_equal(inc_message_read(INC_MSG_CONFIGURE, message, &read, &err), 0);
	config = json_incref(json_object_get(message, "config"));
	json_decref(message);
	return config;
}

/* Chooses queue pair numbers and PSNs that show which node owns the connection's end. */
static void number_ends(struct inc_tree *tree, const unsigned int *hosts, unsigned int n)
{
	for (unsigned int r = 0; r < n; r++)
		members[r] = (struct inc_route_member){
			.host = hosts[r],
			.own.end.qpn = 1000 + r,
			.peer.end.qpn = 2000 + r,
			.own.end.udp_port = 4791,
			.pkey = INC_PKEY_DEFAULT,
		};
	for (unsigned int i = 0; i < tree->n; i++) {
		tree->nodes[i].own.end = (struct inc_rc_end){.qpn = 3000 + i, .psn = 30 + i};
		tree->nodes[i].peer.end = (struct inc_rc_end){.qpn = 4000 + i, .psn = 40 + i};
	}
}

/* Routes a communicator of these hosts, by rank. The caller releases the tree. */
static struct inc_tree *route(struct inc_route_comm *comm, const unsigned int *hosts,
			      unsigned int n)
{
	struct inc_tree *tree;
	struct inc_err err;

	*comm = (struct inc_route_comm){
		.communicator = 12,
		.payload = 1024,
		.slots = 64,
		.topo = topo,
		.member = get_member,
		.mac = get_mac,
	};
	assert_int_equal(inc_route_compute(routes, hosts, n, comm->slots, &tree, &err), 0);
	number_ends(tree, hosts, n);
	comm->tree = tree;
	return tree;
}

/* Returns the configuration of the root of a communicator of these hosts. */
static json_t *root_config(const unsigned int *hosts, unsigned int n)
{
	struct inc_route_comm comm;
	struct inc_tree *tree = route(&comm, hosts, n);
	json_t *config = config_of(&comm, 0);

	inc_route_release(routes, tree);
	return config;
}

static void host_agrees(const json_t *conn, const unsigned int *hosts)
{
	unsigned int rank = number_of(conn, "host_id");
	char ip[INC_ADDR_TEXT];

	assert_string_equal(text_of(conn, "peer_ip"),
			    inc_addr_text(topo->hosts[hosts[rank]].ip, ip));
	assert_int_equal(number_of(conn, "peer_qp"), 1000 + rank);
	assert_int_equal(number_of(conn, "own_qp"), 2000 + rank);
	assert_null(json_object_get(conn, "ranks"));
}

/* Checks that one of the n configurations has the other end of a connection between switches. */
static void switch_agrees(const json_t *conn, json_t *const *configs, unsigned int n)
{
	unsigned int found = 0;
	json_t *other;
	size_t k;

	for (unsigned int m = 0; m < n; m++) {
		json_array_foreach (json_object_get(configs[m], "connections"), k, other) {
			if (number_of(other, "own_qp") != number_of(conn, "peer_qp"))
				continue;
			found++;
			assert_int_equal(number_of(other, "peer_qp"), number_of(conn, "own_qp"));
			assert_int_equal(number_of(other, "own_psn"), number_of(conn, "peer_psn"));
			assert_string_equal(text_of(other, "own_ip"), text_of(conn, "peer_ip"));
			assert_int_not_equal(json_is_true(json_object_get(other, "up")),
					     json_is_true(json_object_get(conn, "up")));
		}
	}
	assert_int_equal(found, 1);
	/* a child has its ranks; a peer has a MAC address only if its switch has announced one */
	assert_int_equal(!json_object_get(conn, "ranks"),
			 json_is_true(json_object_get(conn, "up")));
	assert_int_equal(!!json_object_get(conn, "peer_mac"),
			 !strcmp(text_of(conn, "peer_ip"), "10.9.3.2"));
}

static void ends_agree(void **state)
{
	static const unsigned int hosts[] = {2, 0, 4, 1, 5};
	struct inc_route_comm comm;
	struct inc_tree *tree = route(&comm, hosts, 5);
	unsigned int between = 0, to_hosts = 0;
	json_t *configs[5], *conn;
	size_t i;

	assert_int_equal(tree->n, 5);
	for (unsigned int n = 0; n < tree->n; n++) {
		configs[n] = config_of(&comm, n);
		assert_int_equal(json_is_true(json_object_get(configs[n], "root")), n == 0);
	}
	for (unsigned int n = 0; n < tree->n; n++) {
		json_array_foreach (json_object_get(configs[n], "connections"), i, conn) {
			bool host = number_of(conn, "peer_qp") < 2000;

			to_hosts += host;
			between += !host;
			if (host)
				host_agrees(conn, hosts);
			else
				switch_agrees(conn, configs, tree->n);
		}
	}
	assert_int_equal(to_hosts, 5);
	assert_int_equal(between, 8); /* four links, each seen from both of its ends */
	for (unsigned int n = 0; n < tree->n; n++)
		json_decref(configs[n]);
	inc_route_release(routes, tree);
}

/* Several members on one host are adjacent in the order of children, whatever their ranks. */
static void children_of_a_port(void **state)
{
	static const unsigned int hosts[] = {0, 1, 0, 1, 0};
	static const int want[] = {0, 2, 4, 1, 3};
	json_t *config = root_config(hosts, 5), *conn;
	size_t i;

	assert_int_equal(json_array_size(json_object_get(config, "connections")), 5);
	json_array_foreach (json_object_get(config, "connections"), i, conn)
		assert_int_equal(number_of(conn, "host_id"), want[i]);
	json_decref(config);
}

/* The root's configuration must name the right ranks of each child. */
static void ranks_below(void **state)
{
	static const unsigned int hosts[] = {4, 0, 2, 1, 5, 3};
	static const char *const want[] = {"1-3,5", "0", NULL};
	json_t *config = root_config(hosts, 6), *conn;
	size_t i;

	json_array_foreach (json_object_get(config, "connections"), i, conn) {
		assert_true(i < 3);
		assert_int_equal(!text_of(conn, "ranks"), !want[i]);
		if (want[i])
			assert_string_equal(text_of(conn, "ranks"), want[i]);
		assert_int_equal(number_of(conn, "host_id"), i == 0 ? 1 : i == 1 ? 0 : 4);
	}
	json_decref(config);
}

/* Makes a topology with n leaves of one host each, all linked to two spines. The spines are below a
 * root, or are roots themselves. The first spine has hosts of its own. */
static struct inc_topology *spines(unsigned int n, unsigned int own, bool above)
{
	struct inc_topology *made = NULL;
	struct inc_err err = {""};
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	fprintf(f, "hosts:\n");
	for (unsigned int h = 0; h < n + own; h++)
		fprintf(f, "  - {name: h%u, ip: 10.1.%u.1}\n", h, h);
	fprintf(f, "switches:\n");
	if (above)
		fprintf(f, "  - name: r\n    root: true\n    ports:\n"
			   "      - {name: a, ip: 10.5.0.1, peer: a}\n"
			   "      - {name: b, ip: 10.5.1.1, peer: b}\n");
	for (unsigned int s = 0; s < 2; s++) {
		fprintf(f, "  - name: %c\n    root: %s\n    ports:\n", 'a' + s,
			above ? "false" : "true");
		if (above)
			fprintf(f, "      - {name: up, ip: 10.5.%u.2, peer: r}\n", s);
		for (unsigned int l = 0; l < n; l++)
			fprintf(f, "      - {name: l%u, ip: 10.%u.%u.1, peer: l%u}\n", l, 2 + s, l,
				l);
		for (unsigned int h = n; !s && h < n + own; h++)
			fprintf(f, "      - {name: h%u, ip: 10.1.%u.2, peer: h%u}\n", h, h, h);
	}
	for (unsigned int l = 0; l < n; l++)
		fprintf(f,
			"  - name: l%u\n    ports:\n      - {name: a, ip: 10.2.%u.2, peer: a}\n"
			"      - {name: b, ip: 10.3.%u.2, peer: b}\n"
			"      - {name: h, ip: 10.1.%u.2, peer: h%u}\n",
			l, l, l, l, l);
	fclose(f);
	if (inc_topology_parse("spines", text, len, &made, &err))
		fail_msg("%s", err.msg);
	free(text);
	return made;
}

/* Routes a communicator of all hosts. Returns its error, or NULL and the number of switches. */
static const char *try_all(const struct inc_topology *t, const struct inc_msg_limits *limits,
			   unsigned int slots, int *code, unsigned int *n)
{
	struct inc_routes *r = inc_routes_new(t);
	unsigned int hosts[64];
	struct inc_tree *tree = NULL;
	static struct inc_err err;

	for (unsigned int h = 0; h < t->n_hosts; h++)
		hosts[h] = h;
	for (unsigned int s = 0; s < t->n_switches; s++)
		inc_routes_offer(r, s, limits);
	*code = inc_route_compute(r, hosts, t->n_hosts, slots, &tree, &err);
	if (!*code) {
		assert_null(tree_wrong(t, tree, hosts, t->n_hosts));
		*n = tree->n;
	}
	inc_route_release(r, tree);
	assert_null(routes_in_use(t, r));
	inc_routes_free(r);
	return *code ? err.msg : NULL;
}

/* A switch has at most 32 children. Further children use another switch if there is one. */
static void too_many_children(void **state)
{
	static const struct {
		unsigned int leaves, own;
		bool above;
		unsigned int switches; /* number of switches in the tree; 0: there is no tree */
	} fan[] = {
		{32, 0, false, 33}, {33, 0, false, 0},  {33, 0, true, 36},  {40, 0, true, 43},
		{32, 0, true, 33},  {20, 20, true, 23}, {30, 20, true, 33}, {10, 32, false, 12},
	};

	for (size_t i = 0; i < sizeof(fan) / sizeof(fan[0]); i++) {
		struct inc_topology *t = spines(fan[i].leaves, fan[i].own, fan[i].above);
		unsigned int n = 0;
		int code;
		const char *why = try_all(t, &(struct inc_msg_limits){0}, 1, &code, &n);

		assert_int_equal(n, fan[i].switches);
		if (!n) {
			assert_int_equal(code, -E2BIG);
			assert_non_null(strstr(why, "switch a: 33 children are more than its "
						    "limit of 32"));
		}
		inc_topology_free(t);
	}
}

static void reasons(void **state)
{
	static const struct {
		struct inc_msg_limits limits;
		int code;
		const char *why;
	} given[] = {
		{{.children = 3}, -E2BIG, "switch a: 4 children are more than its limit of 3"},
		{{.slots = 32}, -E2BIG, "switch l0: 64 slots are more than its limit of 32"},
		{{.connections = 3},
		 -E2BIG,
		 "switch a: 4 connections are more than its limit of 3"},
		{{.rows = 255},
		 -E2BIG,
		 "switch a: 256 contribution rows are more than its limit of 255"},
		/* the limit counts the spine's own hosts, and the leaves that have no other way */
		{{.connections = 4},
		 -E2BIG,
		 "switch a: 6 connections are more than its limit of 4"},
		{{.rows = 1 << 20, .connections = 64, .communicators = 1}, 0, NULL},
	};
	struct inc_topology *t = spines(2, 4, true);

	for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++) {
		unsigned int n;
		int code;
		const char *why = try_all(t, &given[i].limits, 64, &code, &n);

		assert_int_equal(code, given[i].code);
		if (code && !strstr(why, given[i].why))
			fail_msg("'%s' is not in '%s'", given[i].why, why);
	}
	inc_topology_free(t);
}

/* A route avoids absent and full switches. It uses absent ones if there is no other way. */
static void around_the_absent(void **state)
{
	struct inc_topology *t = spines(4, 0, false);
	struct inc_routes *r = inc_routes_new(t);
	const struct inc_msg_limits one = {.communicators = 1};
	unsigned int hosts[] = {0, 1, 2, 3};
	struct inc_tree *trees[3];
	struct inc_err err;

	/* all switches are absent */
	assert_int_equal(inc_route_compute(r, hosts, 4, 1, &trees[0], &err), 0);
	assert_string_equal(t->switches[trees[0]->nodes[0].sw].name, "a");
	inc_route_release(r, trees[0]);
	for (unsigned int s = 0; s < t->n_switches; s++)
		inc_routes_offer(r, s, s ? &(struct inc_msg_limits){0} : NULL);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(inc_route_compute(r, hosts, 4, 1, &trees[i], &err), 0);
		assert_string_equal(t->switches[trees[i]->nodes[0].sw].name, "b");
	}
	inc_routes_offer(r, 0, &one);
	inc_routes_offer(r, 1, &one); /* sets the same limit for both spines */
	assert_int_equal(inc_route_compute(r, hosts, 4, 1, &trees[2], &err), 0);
	assert_string_equal(t->switches[trees[2]->nodes[0].sw].name, "a");
	for (int i = 0; i < 3; i++)
		inc_route_release(r, trees[i]);
	assert_null(routes_in_use(t, r));
	inc_routes_free(r);
	inc_topology_free(t);
}

/* A route uses a switch that is to be avoided only if there is no tree without it. */
static void around_what_refuses(void **state)
{
	static const struct {
		unsigned int avoided; /* mask of switches to be avoided */
		const char *root;
	} given[] = {{0, "a"}, {1, "b"}, {1 | 4, "b"}, {1 | 2, "a"}, {2, "a"}};
	struct inc_topology *t = spines(4, 0, false);
	struct inc_routes *r = inc_routes_new(t);
	unsigned int hosts[] = {0, 1, 2, 3};
	struct inc_tree *tree;
	struct inc_err err;

	for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++) {
		for (unsigned int s = 0; s < t->n_switches; s++) {
			inc_routes_offer(r, s, &(struct inc_msg_limits){0}); /* no limits */
			inc_routes_avoid(r, s, given[i].avoided >> s & 1);
		}
		assert_int_equal(inc_route_compute(r, hosts, 4, 1, &tree, &err), 0);
		assert_string_equal(t->switches[tree->nodes[0].sw].name, given[i].root);
		inc_route_release(r, tree);
	}
	inc_routes_free(r);
	inc_topology_free(t);
}

/* Two roots with hosts and no switch above them: the only way between them is through one. */
static void roots_side_by_side(void **state)
{
	static const char text[] =
		"hosts:\n  - {name: h0, ip: 10.1.0.1}\n  - {name: h1, ip: 10.1.1.1}\n"
		"  - {name: h2, ip: 10.1.2.1}\n"
		"switches:\n"
		"  - name: a\n    root: true\n    ports:\n"
		"      - {name: p, ip: 10.1.0.2, peer: h0}\n"
		"      - {name: b, ip: 10.2.0.1, peer: b}\n"
		"  - name: b\n    root: true\n    ports:\n"
		"      - {name: p, ip: 10.1.1.2, peer: h1}\n"
		"      - {name: a, ip: 10.2.0.2, peer: a}\n"
		"  - name: island\n    root: true\n    ports:\n"
		"      - {name: p, ip: 10.1.2.2, peer: h2}\n";
	struct inc_topology *t;
	struct inc_routes *r;
	unsigned int hosts[] = {0, 1, 2};
	struct inc_tree *tree;
	struct inc_err err;

	assert_int_equal(inc_topology_parse("t", text, sizeof(text) - 1, &t, &err), 0);
	r = inc_routes_new(t);
	assert_int_equal(inc_route_compute(r, hosts, 2, 1, &tree, &err), 0);
	assert_null(tree_wrong(t, tree, hosts, 2));
	assert_int_equal(tree->n, 2);
	inc_route_release(r, tree);
	assert_int_equal(inc_route_compute(r, hosts, 3, 1, &tree, &err), -EHOSTUNREACH);
	assert_non_null(strstr(err.msg, "no switch is above both h0 and h2"));
	inc_routes_free(r);
	inc_topology_free(t);
}

/* One host at the root t, one at l, and two ways between them: by a and x, or by b and y. */
static const char two_ways[] =
	"hosts:\n  - {name: h0, ip: 10.1.0.1}\n  - {name: h1, ip: 10.1.1.1}\n"
	"switches:\n"
	"  - name: t\n    root: true\n    ports:\n"
	"      - {name: h, ip: 10.1.1.2, peer: h1}\n"
	"      - {name: x, ip: 10.2.0.1, peer: x}\n      - {name: y, ip: 10.2.1.1, peer: y}\n"
	"  - name: x\n    ports:\n"
	"      - {name: t, ip: 10.2.0.2, peer: t}\n      - {name: a, ip: 10.3.0.1, peer: a}\n"
	"  - name: y\n    ports:\n"
	"      - {name: t, ip: 10.2.1.2, peer: t}\n      - {name: b, ip: 10.3.1.1, peer: b}\n"
	"  - name: a\n    ports:\n"
	"      - {name: x, ip: 10.3.0.2, peer: x}\n      - {name: l, ip: 10.4.0.1, peer: l}\n"
	"  - name: b\n    ports:\n"
	"      - {name: y, ip: 10.3.1.2, peer: y}\n      - {name: l, ip: 10.4.1.1, peer: l}\n"
	"  - name: l\n    ports:\n"
	"      - {name: a, ip: 10.4.0.2, peer: a}\n      - {name: b, ip: 10.4.1.2, peer: b}\n"
	"      - {name: h, ip: 10.1.0.2, peer: h0}\n";

/* After the test has changed switch x, the tree must use y. */
static void goes_by_y(const char *links, bool x_there, const struct inc_msg_limits *x)
{
	const unsigned int hosts[] = {0, 1};
	struct inc_topology *t = NULL;
	struct inc_routes *r;
	struct inc_tree *tree = NULL;
	struct inc_err err = {""};
	char text[4096];

	snprintf(text, sizeof(text), "%s%s", two_ways, links);
	if (inc_topology_parse("t", text, strlen(text), &t, &err))
		fail_msg("%s", err.msg);
	r = inc_routes_new(t);
	for (unsigned int s = 0; s < t->n_switches; s++)
		inc_routes_offer(r, s, &(struct inc_msg_limits){0});
	inc_routes_offer(r, 1, x_there ? x : NULL);
	if (inc_route_compute(r, hosts, 2, 64, &tree, &err))
		fail_msg("%s", err.msg);
	assert_null(tree_wrong(t, tree, hosts, 2));
	assert_int_equal(tree->n, 4);
	assert_string_equal(t->switches[tree->nodes[1].sw].name, "y");
	inc_route_release(r, tree);
	inc_routes_free(r);
	inc_topology_free(t);
}

/* The route avoids an absent switch that is two levels above the leaf whose parent is chosen. */
static void around_an_absent_switch_higher_up(void **state)
{
	goes_by_y("", false, NULL);
}

static void around_a_full_switch_higher_up(void **state)
{
	goes_by_y("", true, &(struct inc_msg_limits){.rows = 64});
}

static void around_a_slow_link_higher_up(void **state)
{
	goes_by_y("links:\n  - {between: [x, t], rate_mbit: 1000}\n", true,
		  &(struct inc_msg_limits){0});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(smallest_tree),
		cmocka_unit_test(ends_agree),
		cmocka_unit_test(children_of_a_port),
		cmocka_unit_test(ranks_below),
		cmocka_unit_test(too_many_children),
		cmocka_unit_test(reasons),
		cmocka_unit_test(around_the_absent),
		cmocka_unit_test(around_what_refuses),
		cmocka_unit_test(roots_side_by_side),
		cmocka_unit_test(around_an_absent_switch_higher_up),
		cmocka_unit_test(around_a_full_switch_higher_up),
		cmocka_unit_test(around_a_slow_link_higher_up),
	};

	return cmocka_run_group_tests_name("route", tests, setup, teardown) ? 1 : 0;
}
