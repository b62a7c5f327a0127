// SPDX-License-Identifier: BSD-2-Clause
// SIZE: check
/*
 * Communicators for which there is no room. The error must name the full switch and what is in use
 * there, and whether the communicator would fit an empty switch.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "selftests/control/fabric.h"

/* The topology: hosts h0 and h1 at s0, h2 and h3 at s1, h4 and h5 at s2. Switch a0 is above s0 and
 * s1, and r is above a0 and s2. */
static const char tree_text[] =
	"hosts:\n"
	"  - {name: h0, ip: 10.1.0.1}\n  - {name: h1, ip: 10.1.1.1}\n"
	"  - {name: h2, ip: 10.1.2.1}\n  - {name: h3, ip: 10.1.3.1}\n"
	"  - {name: h4, ip: 10.1.4.1}\n  - {name: h5, ip: 10.1.5.1}\n"
	"switches:\n"
	"  - name: r\n    root: true\n    ports:\n"
	"      - {name: a0, ip: 10.2.0.1, peer: a0}\n      - {name: s2, ip: 10.2.1.1, peer: s2}\n"
	"  - name: a0\n    ports:\n      - {name: up, ip: 10.2.0.2, peer: r}\n"
	"      - {name: s0, ip: 10.3.0.1, peer: s0}\n      - {name: s1, ip: 10.3.1.1, peer: s1}\n"
	"  - name: s0\n    ports:\n      - {name: up, ip: 10.3.0.2, peer: a0}\n"
	"      - {name: p0, ip: 10.1.0.2, peer: h0}\n      - {name: p1, ip: 10.1.1.2, peer: h1}\n"
	"  - name: s1\n    ports:\n      - {name: up, ip: 10.3.1.2, peer: a0}\n"
	"      - {name: p0, ip: 10.1.2.2, peer: h2}\n      - {name: p1, ip: 10.1.3.2, peer: h3}\n"
	"  - name: s2\n    ports:\n      - {name: up, ip: 10.2.1.2, peer: r}\n"
	"      - {name: p0, ip: 10.1.4.2, peer: h4}\n      - {name: p1, ip: 10.1.5.2, peer: h5}\n";

struct hosts {
	unsigned int n, host[4];
};

static int compute(struct inc_routes *r, const struct hosts *h, struct inc_tree **tree,
		   struct inc_err *err)
{
	return inc_route_compute(r, h->host, h->n, 64, tree, err);
}

#define TOO_BIG        SIZE_MAX
#define IN_USE(figure) offsetof(struct inc_load, figure)

static const struct {
	const char *name;
	/* limits of the named switch; other switches have no limits */
	struct inc_msg_limits limits;
	/* hosts of two communicators: the first exists, the second is requested */
	struct hosts first, second;
	/* the resource that is in use; TOO_BIG: the second communicator would not fit alone */
	size_t figure;
	const char *why;
} cases[] = {
	/* clang-format off */
	/* a0 is the root of the first tree, and has a parent in the second */
	{"a0", {.connections = 4}, {2, {0, 2}}, {3, {0, 2, 4}}, IN_USE(connections),
	 "switch a0 has no room for 3 connections: 2 of 4 are free (inc-switchd --max-connections)"},
	{"a0", {.rows = 200}, {2, {0, 2}}, {2, {1, 3}}, IN_USE(rows),
	 "switch a0 has no room for 128 contribution rows: 72 of 200 are free (inc-switchd --max-rows)"},
	{"r", {.communicators = 1, .rows = 1024}, {2, {0, 4}}, {2, {1, 5}}, IN_USE(communicators),
	 "switch r has no room for 1 communicator: 0 of 1 are free (inc-switchd --max-communicators)"},
	/* the second tree uses other connections of r than the first tree */
	{"a0", {.connections = 3}, {2, {0, 4}}, {2, {2, 5}}, IN_USE(connections),
	 "switch a0 has no room for 2 connections: 1 of 3 are free (inc-switchd --max-connections)"},
	/* s0 has room for the host, but not for the parent */
	{"s0", {.connections = 2}, {1, {0}}, {2, {0, 2}}, IN_USE(connections),
	 "switch s0 has no room for 2 connections: 1 of 2 are free (inc-switchd --max-connections)"},
	{"s0", {.rows = 255}, {2, {0, 1}}, {2, {0, 1}}, IN_USE(rows),
	 "switch s0 has no room for 128 contribution rows: 127 of 255 are free (inc-switchd --max-rows)"},
	{"s0", {.rows = 127}, {1, {0}}, {2, {0, 2}}, TOO_BIG,
	 "switch s0: 128 contribution rows are more than its limit of 127 (inc-switchd --max-rows)"},
	{"a0", {.connections = 2}, {2, {0, 2}}, {3, {0, 2, 4}}, TOO_BIG,
	 "switch a0: 3 connections are more than its limit of 2 (inc-switchd --max-connections)"},
	{"a0", {.children = 1}, {2, {0, 1}}, {2, {0, 2}}, TOO_BIG,
	 "switch a0: 2 children are more than its limit of 1"},
	/* clang-format on */
};

/* The second communicator is refused beside the first, and fits after the first is gone, unless it
 * is too big. */
static void one_case(struct inc_topology *topo, size_t i)
{
	const int sw = inc_topology_switch_by_name(topo, cases[i].name);
	const bool too_big = cases[i].figure == TOO_BIG;
	struct inc_routes *r = inc_routes_new(topo);
	const struct inc_route_lack *lack;
	struct inc_tree *first, *second = NULL;
	struct inc_err err;

	for (unsigned int s = 0; s < topo->n_switches; s++)
		inc_routes_offer(r, s, &(struct inc_msg_limits){0});
	inc_routes_offer(r, sw, &cases[i].limits);
	assert_int_equal(compute(r, &cases[i].first, &first, &err), 0);
	assert_int_equal(compute(r, &cases[i].second, &second, &err), too_big ? -E2BIG : -ENOSPC);
	assert_string_equal(err.msg, cases[i].why);
	lack = inc_routes_lack(r);
	assert_int_equal(!lack, too_big);
	if (lack) {
		assert_int_equal(lack->sw, sw);
		assert_int_equal(lack->figure, cases[i].figure);
	}
	inc_route_release(r, first);
	assert_int_equal(compute(r, &cases[i].second, &second, &err), too_big ? -E2BIG : 0);
	if (too_big)
		assert_string_equal(err.msg, cases[i].why);
	inc_route_release(r, second);
	assert_null(routes_in_use(topo, r));
	inc_routes_free(r);
}

static void what_is_lacking(void **state)
{
	struct inc_topology *topo;
	struct inc_err err;

	assert_int_equal(inc_topology_parse("tree", tree_text, sizeof(tree_text) - 1, &topo, &err),
			 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		one_case(topo, i);
	inc_topology_free(topo);
}

/* Two leaves have different nearest roots. The only way between them leads over one root, which is
 * full. */
static void full_and_not_apart(void **state)
{
	static const char text[] =
		"hosts:\n  - {name: h0, ip: 10.1.0.1}\n  - {name: h1, ip: 10.1.1.1}\n"
		"switches:\n"
		"  - name: a\n    root: true\n    ports:\n"
		"      - {name: l, ip: 10.2.0.1, peer: l}\n"
		"      - {name: m, ip: 10.2.1.1, peer: m}\n"
		"  - name: b\n    root: true\n    ports:\n"
		"      - {name: k, ip: 10.2.2.1, peer: k}\n"
		"  - name: m\n    ports:\n      - {name: a, ip: 10.2.1.2, peer: a}\n"
		"      - {name: k, ip: 10.2.3.1, peer: k}\n"
		"  - name: l\n    ports:\n      - {name: a, ip: 10.2.0.2, peer: a}\n"
		"      - {name: h, ip: 10.1.0.2, peer: h0}\n"
		"  - name: k\n    ports:\n      - {name: b, ip: 10.2.2.2, peer: b}\n"
		"      - {name: m, ip: 10.2.3.2, peer: m}\n"
		"      - {name: h, ip: 10.1.1.2, peer: h1}\n";
	const unsigned int hosts[] = {0, 1};
	struct inc_tree *first, *second;
	struct inc_topology *t;
	struct inc_routes *r;
	struct inc_err err;

	assert_int_equal(inc_topology_parse("t", text, sizeof(text) - 1, &t, &err), 0);
	r = inc_routes_new(t);
	for (unsigned int s = 0; s < t->n_switches; s++)
		inc_routes_offer(r, s, &(struct inc_msg_limits){.communicators = 1});
	assert_int_equal(inc_route_compute(r, hosts, 2, 1, &first, &err), 0);
	for (unsigned int s = 3; s < t->n_switches; s++) /* the leaves have no low limits */
		inc_routes_offer(r, s, &(struct inc_msg_limits){.communicators = 2});
	assert_int_equal(inc_route_compute(r, hosts, 2, 1, &second, &err), -ENOSPC);
	assert_non_null(strstr(err.msg, "no room for 1 communicator"));
	inc_route_release(r, first);
	inc_routes_free(r);
	inc_topology_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_lacking),
		cmocka_unit_test(full_and_not_apart),
	};

	return cmocka_run_group_tests_name("room on routes", tests, NULL, NULL) ? 1 : 0;
}
