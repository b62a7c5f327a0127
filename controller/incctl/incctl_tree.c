/* SPDX-License-Identifier: BSD-2-Clause */
/* Prints trees of communicators with the figures of their connections: as text, and as pictures. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "controller/draw/draw.h"
#include "controller/incctl/incctl.h"
#include "lib/topology/topology.h"

/* Makes the text by which a switch's connection to a child is found: communicator, rank of the
 * child, and switch. */
static void key_of(const char *sw, long long communicator, long long rank, char *buf, size_t size)
{
	snprintf(buf, size, "%lld %lld %s", communicator, rank, sw);
}

/* Makes an index of the switches' connections to children, with the keys of key_of(). */
static json_t *index_connections(const json_t *connections)
{
	json_t *index = json_object(), *slot, *conn;
	char key[128];
	size_t i, k;

	json_array_foreach (connections, i, slot) {
		json_array_foreach (json_object_get(slot, "data"), k, conn) {
			if (incctl_true(conn, "up"))
				continue;
			key_of(incctl_text(slot, "switch"), incctl_number(conn, "communicator"),
			       incctl_number(conn, "rank"), key, sizeof(key));
			json_object_set(index, key, conn);
		}
	}
	return index;
}

/* Adds the figures of a connection to its edge of the tree. ns is the time between the samples
 * before and now, or 0 if there is only one sample. */
static void add_figures(json_t *edge, const json_t *tree, const json_t *before, const json_t *now,
			uint64_t ns)
{
	static const char *const names[] = {"received", "acknowledged", "retransmits", "rtt_us",
					    "state"};
	const json_t *conn, *then;
	char key[128];

	key_of(incctl_text(edge, "switch"), incctl_number(tree, "communicator"),
	       incctl_number(edge, "rank"), key, sizeof(key));
	conn = json_object_get(now, key);
	then = json_object_get(before, key);
	for (size_t i = 0; conn && i < sizeof(names) / sizeof(names[0]); i++) {
		if (json_object_get(conn, names[i]))
			json_object_set(edge, names[i], json_object_get(conn, names[i]));
	}
	if (conn && ns)
		json_object_set_new(edge, "packets_per_s",
				    incctl_rate(json_object_get(conn, "received"),
						json_object_get(then, "received"), ns));
}

/*
 * Checks whether the controller's answer is a tree, because a walk along its edges must end. Edges
 * must stand from the root down. So each switch is a child once at most, and that before it has
 * children. Returns 0 or -EBADMSG.
 */
static int check_tree(const json_t *tree, struct inc_err *err)
{
	json_t *seen = json_object(), *edge;
	unsigned int children = 0;
	const char *child;
	int ret = 0;
	size_t i;

	json_array_foreach (json_object_get(tree, "edges"), i, edge) {
		json_object_set_new(seen, incctl_text(edge, "switch"), json_true());
		if (!incctl_true(edge, "to_switch"))
			continue;
		child = incctl_text(edge, "child");
		if (json_object_get(seen, child) || ++children >= INC_TOPO_MAX_SWITCHES) {
			ret = inc_err_set(err, EBADMSG,
					  "communicator %lld: no tree: switch %s cannot be below "
					  "switch %s",
					  incctl_number(tree, "communicator"), child,
					  incctl_text(edge, "switch"));
			break;
		}
		json_object_set_new(seen, child, json_true());
	}
	json_decref(seen);
	return ret;
}

int incctl_tree(json_t *trees, const struct incctl_sample *before, const struct incctl_sample *now,
		struct inc_err *err)
{
	json_t *then = index_connections(before->data), *conns = index_connections(now->data);
	const uint64_t ns = before->data ? now->at_ns - before->at_ns : 0;
	json_t *tree, *edge;
	int ret = 0;
	size_t i, k;

	json_array_foreach (trees, i, tree) {
		ret = check_tree(tree, err);
		if (ret)
			break;
		json_array_foreach (json_object_get(tree, "edges"), k, edge)
			add_figures(edge, tree, then, conns, ns);
	}
	json_decref(then);
	json_decref(conns);
	return ret;
}

const char *incctl_edge_text(const json_t *edge, char *buf, size_t size)
{
	const json_t *rate = json_object_get(edge, "packets_per_s");
	int n;

	*buf = '\0';
	if (!json_object_get(edge, "received"))
		return buf;
	n = snprintf(buf, size, "%lld received, %lld acknowledged, %lld resent",
		     incctl_number(edge, "received"), incctl_number(edge, "acknowledged"),
		     incctl_number(edge, "retransmits"));
	if (json_is_real(rate) && n > 0 && (size_t)n < size)
		snprintf(buf + n, size - n, ", %.0f packets/s", json_real_value(rate));
	return buf;
}

/* Prints the mode of a switch of the tree as ", termination", without the mode if it is unknown,
 * and with " (not connected)" if the controller has no connection to the switch. "" for a host. */
static const char *mode_text(const json_t *tree, const char *sw, char *buf, size_t size)
{
	const json_t *node;
	size_t i;

	*buf = '\0';
	json_array_foreach (json_object_get(tree, "nodes"), i, node) {
		const char *mode = incctl_text(node, "mode");

		if (strcmp(incctl_text(node, "switch"), sw) != 0)
			continue;
		snprintf(buf, size, "%s%s%s", *mode ? ", " : "", mode,
			 strcmp(incctl_text(node, "state"), "absent") ? "" : " (not connected)");
	}
	return buf;
}

static void print_below(const json_t *tree, const char *sw, unsigned int depth)
{
	char figures[120], mode[64];
	json_t *edge;
	size_t i;

	json_array_foreach (json_object_get(tree, "edges"), i, edge) {
		const char *ranks = incctl_text(edge, "ranks"), *state = incctl_text(edge, "state");

		if (strcmp(incctl_text(edge, "switch"), sw) != 0)
			continue;
		printf("%*s%s -> %s%s%s (rank%s %s)", (int)(2 * depth), "",
		       incctl_text(edge, "port"), incctl_text(edge, "child"),
		       incctl_true(edge, "to_switch")
			       ? mode_text(tree, incctl_text(edge, "child"), mode, sizeof(mode))
			       : "",
		       incctl_true(edge, "draining") ? ", draining" : "",
		       strpbrk(ranks, ",-") ? "s" : "", ranks);
		incctl_edge_text(edge, figures, sizeof(figures));
		printf("%s%s%s%s\n", *figures ? ": " : "", figures, *state ? ", " : "", state);
		if (incctl_true(edge, "to_switch"))
			print_below(tree, incctl_text(edge, "child"), depth + 1);
	}
}

bool incctl_is_child(const json_t *tree, const char *sw)
{
	json_t *edge;
	size_t i;

	json_array_foreach (json_object_get(tree, "edges"), i, edge) {
		if (incctl_true(edge, "to_switch") && strcmp(incctl_text(edge, "child"), sw) == 0)
			return true;
	}
	return false;
}

/* Prints which channel of its communicator a tree is for, as ", channel 1 of 4", or "" if the
 * communicator has one channel. */
static const char *channel_text(const json_t *tree, char *buf, size_t size)
{
	*buf = '\0';
	if (incctl_number(tree, "channels") > 1)
		snprintf(buf, size, ", channel %lld of %lld", incctl_number(tree, "channel"),
			 incctl_number(tree, "channels"));
	return buf;
}

void incctl_print_tree(const json_t *trees)
{
	json_t *tree, *node;
	char mode[64], channel[64];
	size_t i, k;

	json_array_foreach (trees, i, tree) {
		printf("%scommunicator %lld (%s%s, %s, payload %lld)%s\n", i ? "\n" : "",
		       incctl_number(tree, "communicator"), incctl_text(tree, "job"),
		       channel_text(tree, channel, sizeof(channel)), incctl_text(tree, "state"),
		       incctl_number(tree, "payload"),
		       json_is_false(json_object_get(tree, "whole"))
			       ? ": an earlier controller's, its shape is not known"
			       : "");
		json_array_foreach (json_object_get(tree, "nodes"), k, node) {
			const char *sw = incctl_text(node, "switch");

			if (incctl_is_child(tree, sw))
				continue;
			printf("  %s%s\n", sw, mode_text(tree, sw, mode, sizeof(mode)));
			print_below(tree, sw, 2);
		}
	}
}

/* ---- pictures ---- */

/* Prints a text for dot(1), inside quotes, with the characters escaped that quotes need. */
static void put_quoted(const char *text)
{
	for (; *text; text++)
		printf(strchr("\"\\", *text) ? "\\%c" : "%c", *text);
}

static void put_dot_edge(const json_t *tree, const json_t *edge)
{
	char figures[120];

	printf("  \"%lld ", incctl_number(tree, "communicator"));
	put_quoted(incctl_text(edge, "switch"));
	printf("\" -- \"%lld ", incctl_number(tree, "communicator"));
	put_quoted(incctl_text(edge, "child"));
	if (!incctl_true(edge, "to_switch"))
		printf(" %lld", incctl_number(edge, "rank"));
	printf("\" [label=\"");
	put_quoted(incctl_text(edge, "port"));
	printf("\\n%s\"];\n", incctl_edge_text(edge, figures, sizeof(figures)));
	if (incctl_true(edge, "to_switch"))
		return;
	printf("  \"%lld ", incctl_number(tree, "communicator"));
	put_quoted(incctl_text(edge, "child"));
	printf(" %lld\" [label=\"", incctl_number(edge, "rank"));
	put_quoted(incctl_text(edge, "child"));
	printf("\\nrank %lld\"];\n", incctl_number(edge, "rank"));
}

void incctl_print_dot(const json_t *trees)
{
	json_t *tree, *node, *edge;
	size_t i, k;

	printf("graph trees {\n  node [fontsize=11];\n  edge [fontsize=9];\n");
	json_array_foreach (trees, i, tree) {
		json_array_foreach (json_object_get(tree, "nodes"), k, node) {
			printf("  \"%lld ", incctl_number(tree, "communicator"));
			put_quoted(incctl_text(node, "switch"));
			printf("\" [shape=box, label=\"");
			put_quoted(incctl_text(node, "switch"));
			if (*incctl_text(node, "mode"))
				printf(", %s", incctl_text(node, "mode"));
			printf("\\n");
			put_quoted(incctl_text(tree, "job"));
			printf(" %lld\"];\n", incctl_number(tree, "communicator"));
		}
		json_array_foreach (json_object_get(tree, "edges"), k, edge)
			put_dot_edge(tree, edge);
	}
	printf("}\n");
}

static const struct inc_draw_figure figures[] = {
	{"port", "port", ""},
	{"received", "", "received"},
	{"acknowledged", "", "acknowledged"},
	{"resent", "", "resent"},
	{"packets/s", "", "packets/s"},
	{},
};

/* Prints a figure of an edge into buf. Returns NULL if the edge's switch has not answered. */
static const char *figure_text(const json_t *edge, const char *key, char *buf, size_t size)
{
	const json_t *value = json_object_get(edge, key);

	if (!json_is_number(value))
		return NULL;
	snprintf(buf, size, "%.0f", json_number_value(value));
	return buf;
}

static enum inc_draw_look look_of(const json_t *edge)
{
	const char *state = incctl_text(edge, "state");

	if (strcmp(state, "undelivered") == 0 || strcmp(state, "unresponsive") == 0 ||
	    strcmp(state, "ended") == 0)
		return INC_DRAW_BAD;
	return json_number_value(json_object_get(edge, "packets_per_s")) > 0 ? INC_DRAW_BUSY
									     : INC_DRAW_IDLE;
}

static void draw_edge(struct inc_draw *draw, int upper, int lower, const json_t *edge)
{
	static const char *const keys[] = {"received", "acknowledged", "retransmits",
					   "packets_per_s"};
	char buf[4][32];
	const char *texts[INC_DRAW_FIGURES] = {incctl_text(edge, "port")};

	for (size_t i = 0; i < 4; i++)
		texts[i + 1] = figure_text(edge, keys[i], buf[i], sizeof(buf[i]));
	inc_draw_link(draw, upper, lower, texts, 0, look_of(edge));
}

/* Finds the tree's entry of a switch. Returns NULL if there is none. */
static const json_t *find_node(const json_t *tree, const char *sw)
{
	json_t *node;
	size_t i;

	json_array_foreach (json_object_get(tree, "nodes"), i, node) {
		if (strcmp(incctl_text(node, "switch"), sw) == 0)
			return node;
	}
	return NULL;
}

/* Draws a switch and all nodes below it. ranks are those below it, or "" for the root. Returns the
 * switch's node. */
static int draw_below(struct inc_draw *draw, const json_t *tree, const char *sw, const char *ranks,
		      unsigned int row)
{
	const json_t *entry = find_node(tree, sw);
	const bool absent = entry && strcmp(incctl_text(entry, "state"), "absent") == 0;
	char text[64] = "";
	const char *const more[2] = {absent ? "not connected" : incctl_text(entry, "mode"), text};
	json_t *edge;
	int node, child;
	size_t i;

	if (*ranks)
		snprintf(text, sizeof(text), "rank%s %s", strpbrk(ranks, ",-") ? "s" : "", ranks);
	node = inc_draw_node(draw, INC_DRAW_SWITCH, row, sw, more,
			     absent ? INC_DRAW_BAD : INC_DRAW_IDLE);
	json_array_foreach (json_object_get(tree, "edges"), i, edge) {
		const char *name = incctl_text(edge, "child"), *below = incctl_text(edge, "ranks");
		char rank[64];

		if (strcmp(incctl_text(edge, "switch"), sw) != 0)
			continue;
		snprintf(rank, sizeof(rank), "rank%s %s", strpbrk(below, ",-") ? "s" : "", below);
		if (incctl_true(edge, "to_switch"))
			child = draw_below(draw, tree, name, below, row + 1);
		else
			child = inc_draw_node(draw, INC_DRAW_HOST, row + 1, name,
					      (const char *const[2]){rank}, INC_DRAW_IDLE);
		draw_edge(draw, node, child, edge);
	}
	return node;
}

static struct inc_draw *draw_tree(const json_t *tree)
{
	struct inc_draw *draw;
	char title[256];
	json_t *node;
	size_t i;

	snprintf(title, sizeof(title), "communicator %lld, %s", incctl_number(tree, "communicator"),
		 incctl_text(tree, "job"));
	draw = inc_draw_new(title, figures);
	json_array_foreach (json_object_get(tree, "nodes"), i, node) {
		if (draw && !incctl_is_child(tree, incctl_text(node, "switch")))
			draw_below(draw, tree, incctl_text(node, "switch"), "", 0);
	}
	return draw;
}

void incctl_print_svg(const json_t *trees)
{
	struct inc_draw **list = calloc(json_array_size(trees) + 1, sizeof(*list));
	unsigned int n = 0;
	json_t *tree;
	size_t i;

	json_array_foreach (trees, i, tree) {
		if (list && (list[n] = draw_tree(tree)))
			n++;
	}
	if (!list || n < json_array_size(trees) || inc_draw_print(list, n, true, stdout))
		abort(); /* no memory */
	while (n--)
		inc_draw_free(list[n]);
	free(list);
}
