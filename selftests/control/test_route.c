// SPDX-License-Identifier: BSD-2-Clause
/* Routes and configurations on a tree: hosts h0 to h5, leaves s1 to s3, s0 above s1 and
 * s2, the root r above s0 and s3. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <cmocka.h>
#include "controller/core/route.h"

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

static int setup(void **state)
{
	struct inc_err err;

	return inc_topology_parse("tree", tree_text, sizeof(tree_text) - 1, &topo, &err);
}

static int teardown(void **state)
{
	inc_topology_free(topo);
	return 0;
}

static const struct {
	unsigned int hosts[6];
	unsigned int n;
	const char *nodes; /* name<parent, root first */
} routes[] = {
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
	for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
		struct inc_tree *tree;
		struct inc_err err;
		char text[200];

		assert_int_equal(inc_route_compute(topo, routes[i].hosts, routes[i].n, &tree, &err),
				 0);
		describe(tree, text);
		assert_string_equal(text, routes[i].nodes);
		for (unsigned int k = 0; k < routes[i].n; k++)
			assert_true(inc_route_node(tree, topo, routes[i].hosts[k]) >= 0);
		free(tree);
	}
}

static struct inc_route_member members[6];

static const struct inc_route_member *get_member(const void *arg, unsigned int rank)
{
	return &members[rank];
}

static const char *text_of(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

static long long number_of(const json_t *o, const char *key)
{
	return json_integer_value(json_object_get(o, key));
}

/* Every connection of one switch has its mirror image at the other end. */
static json_t *config_of(const struct inc_route_comm *comm, unsigned int node)
{
	struct inc_comm_conf conf;

	assert_int_equal(inc_route_config(comm, node, &conf), 0);
	return inc_schema_print(&inc_comm_schema, INC_MESSAGE_ONLY, &conf);
}

static void ends_agree(void **state)
{
	static const unsigned int hosts[] = {2, 0, 4, 1, 5};
	struct inc_route_comm comm = {
		.communicator = 12,
		.payload = 1024,
		.slots = 64,
		.topo = topo,
		.member = get_member,
		.n_members = 5,
	};
	struct inc_tree *tree;
	json_t *configs[5], *conn, *other;
	unsigned int between = 0, to_hosts = 0;
	struct inc_err err;
	size_t i, k;

	assert_int_equal(inc_route_compute(topo, hosts, 5, &tree, &err), 0);
	assert_int_equal(tree->n, 5);
	for (unsigned int r = 0; r < 5; r++) {
		members[r].host = hosts[r];
		members[r].own.qpn = 1000 + r;
		members[r].sw.qpn = 2000 + r;
		members[r].udp_port = 4791;
	}
	for (unsigned int n = 0; n < tree->n; n++) {
		tree->nodes[n].up.qpn = 3000 + n;
		tree->nodes[n].up.psn = 30 + n;
		tree->nodes[n].down.qpn = 4000 + n;
		tree->nodes[n].down.psn = 40 + n;
	}
	comm.tree = tree;
	for (unsigned int n = 0; n < tree->n; n++) {
		configs[n] = config_of(&comm, n);
		assert_non_null(configs[n]);
		assert_int_equal(json_is_true(json_object_get(configs[n], "root")), n == 0);
	}
	for (unsigned int n = 0; n < tree->n; n++) {
		json_array_foreach (json_object_get(configs[n], "connections"), i, conn) {
			bool found = false;

			if (number_of(conn, "peer_qp") < 2000) {
				unsigned int rank = number_of(conn, "host_id");
				char ip[INET_ADDRSTRLEN];

				inet_ntop(AF_INET, &topo->hosts[hosts[rank]].ip, ip, sizeof(ip));
				assert_string_equal(text_of(conn, "peer_ip"), ip);
				assert_int_equal(number_of(conn, "peer_qp"), 1000 + rank);
				assert_int_equal(number_of(conn, "my_qp"), 2000 + rank);
				to_hosts++;
				continue;
			}
			between++;
			for (unsigned int m = 0; m < tree->n; m++) {
				json_array_foreach (json_object_get(configs[m], "connections"), k,
						    other) {
					if (m == n ||
					    number_of(other, "my_qp") != number_of(conn, "peer_qp"))
						continue;
					found = true;
					assert_int_equal(number_of(other, "peer_qp"),
							 number_of(conn, "my_qp"));
					assert_int_equal(number_of(other, "my_psn"),
							 number_of(conn, "psn"));
					assert_string_equal(text_of(other, "my_ip"),
							    text_of(conn, "peer_ip"));
					assert_int_not_equal(
						json_is_true(json_object_get(other, "up")),
						json_is_true(json_object_get(conn, "up")));
				}
			}
			assert_true(found);
		}
	}
	assert_int_equal(to_hosts, 5);
	assert_int_equal(between, 8); /* four links, seen from both ends */
	for (unsigned int n = 0; n < tree->n; n++)
		json_decref(configs[n]);
	free(tree);
}

/* Several members on one host stand together, whatever their ranks. */
static void children_of_a_port(void **state)
{
	static const unsigned int hosts[] = {0, 1, 0, 1, 0};
	static const int want[] = {0, 2, 4, 1, 3};
	struct inc_route_comm comm = {
		.communicator = 1,
		.payload = 256,
		.slots = 1,
		.topo = topo,
		.member = get_member,
		.n_members = 5,
	};
	struct inc_tree *tree;
	json_t *config, *conn;
	struct inc_err err;
	size_t i;

	assert_int_equal(inc_route_compute(topo, hosts, 5, &tree, &err), 0);
	for (unsigned int r = 0; r < 5; r++)
		members[r].host = hosts[r];
	comm.tree = tree;
	config = config_of(&comm, 0);
	assert_int_equal(json_array_size(json_object_get(config, "connections")), 5);
	json_array_foreach (json_object_get(config, "connections"), i, conn)
		assert_int_equal(number_of(conn, "host_id"), want[i]);
	json_decref(config);
	free(tree);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(smallest_tree),
		cmocka_unit_test(ends_agree),
		cmocka_unit_test(children_of_a_port),
	};

	return cmocka_run_group_tests_name("route", tests, setup, teardown) ? 1 : 0;
}
