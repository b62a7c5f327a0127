/* SPDX-License-Identifier: BSD-2-Clause */
/* Trees of communicators with what their connections have done, as text. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include "controller/incctl/incctl.h"

#define MAX_DEPTH 64 /* of a tree that is shown: an answer may say anything */

/* A switch's connection to a child, as it answers itself; NULL: it does not. */
static json_t *connection_of(const json_t *connections, const json_t *edge, long long communicator)
{
	json_t *slot, *conn;
	size_t i, k;

	json_array_foreach (connections, i, slot) {
		if (strcmp(incctl_text(slot, "switch"), incctl_text(edge, "switch")) != 0)
			continue;
		json_array_foreach (json_object_get(slot, "data"), k, conn) {
			if (incctl_number(conn, "communicator") == communicator &&
			    incctl_number(conn, "rank") == incctl_number(edge, "rank") &&
			    !json_is_true(json_object_get(conn, "up")))
				return conn;
		}
	}
	return NULL;
}

/* Puts the figures of a connection on its edge. */
static void add_figures(json_t *edge, const json_t *tree, const json_t *before,
			const json_t *behind, double interval_s)
{
	static const char *const names[] = {"received", "results", "retransmits", "rtt_us",
					    "state"};
	const long long communicator = incctl_number(tree, "communicator");
	const json_t *now = connection_of(behind, edge, communicator), *then;

	for (size_t i = 0; now && i < sizeof(names) / sizeof(names[0]); i++) {
		if (json_object_get(now, names[i]))
			json_object_set(edge, names[i], json_object_get(now, names[i]));
	}
	then = now && interval_s > 0 ? connection_of(before, edge, communicator) : NULL;
	if (then)
		json_object_set_new(
			edge, "rate_mbit",
			json_real(
				(incctl_number(now, "received") - incctl_number(then, "received")) *
				incctl_number(tree, "payload") * 8.0 / 1e6 / interval_s));
}

int incctl_tree(json_t *trees, uint32_t only, const json_t *before, const json_t *behind,
		double interval_s)
{
	json_t *tree, *edge;
	size_t i;

	for (size_t k = json_array_size(trees); only && k--;) {
		if (incctl_number(json_array_get(trees, k), "communicator") != only)
			json_array_remove(trees, k);
	}
	for (size_t k = 0; k < json_array_size(trees); k++) {
		tree = json_array_get(trees, k);
		json_array_foreach (json_object_get(tree, "edges"), i, edge)
			add_figures(edge, tree, before, behind, interval_s);
	}
	return only && !json_array_size(trees) ? -ENOENT : 0;
}

const char *incctl_edge_text(const json_t *edge, char *buf, size_t size)
{
	int n;

	*buf = '\0';
	if (!json_object_get(edge, "results"))
		return buf;
	n = snprintf(buf, size, "%lld results, %lld resent", incctl_number(edge, "results"),
		     incctl_number(edge, "retransmits"));
	if (json_object_get(edge, "rate_mbit") && n > 0 && (size_t)n < size)
		snprintf(buf + n, size - n, ", %.1f Mbit/s",
			 json_number_value(json_object_get(edge, "rate_mbit")));
	return buf;
}

static void print_below(const json_t *tree, const char *sw, unsigned int depth)
{
	char figures[120];
	json_t *edge;
	size_t i;

	json_array_foreach (json_object_get(tree, "edges"), i, edge) {
		const char *ranks = incctl_text(edge, "ranks"), *state = incctl_text(edge, "state");

		if (strcmp(incctl_text(edge, "switch"), sw) != 0)
			continue;
		printf("%*s%s -> %s (rank%s %s)", (int)(2 * depth), "", incctl_text(edge, "port"),
		       incctl_text(edge, "child"), strpbrk(ranks, ",-") ? "s" : "", ranks);
		incctl_edge_text(edge, figures, sizeof(figures));
		printf("%s%s%s%s\n", *figures ? ": " : "", figures, *state ? ", " : "", state);
		if (json_is_true(json_object_get(edge, "to_switch")) && depth < MAX_DEPTH)
			print_below(tree, incctl_text(edge, "child"), depth + 1);
	}
}

bool incctl_is_child(const json_t *tree, const char *sw)
{
	json_t *edge;
	size_t i;

	json_array_foreach (json_object_get(tree, "edges"), i, edge) {
		if (json_is_true(json_object_get(edge, "to_switch")) &&
		    strcmp(incctl_text(edge, "child"), sw) == 0)
			return true;
	}
	return false;
}

void incctl_print_tree(const json_t *trees)
{
	json_t *tree, *node;
	size_t i, k;

	json_array_foreach (trees, i, tree) {
		printf("%scommunicator %lld (%s, %s, payload %lld)%s\n", i ? "\n" : "",
		       incctl_number(tree, "communicator"), incctl_text(tree, "job"),
		       incctl_text(tree, "state"), incctl_number(tree, "payload"),
		       json_is_false(json_object_get(tree, "whole"))
			       ? ": an earlier controller's, its shape is not known"
			       : "");
		json_array_foreach (json_object_get(tree, "nodes"), k, node) {
			const char *sw = incctl_text(node, "switch");

			if (incctl_is_child(tree, sw))
				continue;
			printf("  %s%s\n", sw,
			       strcmp(incctl_text(node, "state"), "absent") ? ""
									    : " (not connected)");
			print_below(tree, sw, 2);
		}
	}
}
