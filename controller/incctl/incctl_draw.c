/* SPDX-License-Identifier: BSD-2-Clause */
/* Prints trees of communicators as pictures: for dot(1), and as SVG. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "controller/incctl/incctl.h"

#define STEP_X 170 /* horizontal distance between two neighbouring leaves of a tree, in pixels */
#define STEP_Y 110
#define BOX_X  110
#define BOX_Y  34

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

static void put_xml(FILE *f, const char *text)
{
	for (; *text; text++) {
		switch (*text) {
		case '<':
			fprintf(f, "&lt;");
			break;
		case '&':
			fprintf(f, "&amp;");
			break;
		default:
			fputc(*text, f);
		}
	}
}

struct drawing {
	FILE *f;
	const json_t *tree;
	double *at;    /* x coordinate of each edge's child, by the index of the edge */
	double next_x; /* x of the next leaf */
	double top;    /* y of the first row */
	unsigned int deepest;
};

static void put_box(const struct drawing *d, double x, unsigned int depth, bool sw,
		    const char *name, const char *more)
{
	const double y = d->top + depth * STEP_Y;

	fprintf(d->f,
		"<rect x=\"%.0f\" y=\"%.0f\" width=\"%d\" height=\"%d\" rx=\"%d\" fill=\"%s\" "
		"stroke=\"black\"/>\n<text x=\"%.0f\" y=\"%.0f\">",
		x - BOX_X / 2, y, BOX_X, BOX_Y, sw ? 0 : 12, sw ? "#dde8f5" : "#f5f0dd", x, y + 14);
	put_xml(d->f, name);
	fprintf(d->f, "</text>\n<text x=\"%.0f\" y=\"%.0f\" class=\"s\">", x, y + 27);
	put_xml(d->f, more);
	fprintf(d->f, "</text>\n");
}

static void put_line(const struct drawing *d, double x, double child_x, unsigned int depth,
		     const json_t *edge)
{
	const double y = d->top + depth * STEP_Y + BOX_Y;
	char figures[120];

	fprintf(d->f,
		"<line x1=\"%.0f\" y1=\"%.0f\" x2=\"%.0f\" y2=\"%.0f\" stroke=\"black\"/>\n"
		"<text x=\"%.0f\" y=\"%.0f\" class=\"s\">%s</text>\n",
		x, y, child_x, y + STEP_Y - BOX_Y, child_x, y + STEP_Y - BOX_Y - 6,
		incctl_edge_text(edge, figures, sizeof(figures)));
}

/* Draws a switch and all nodes below it. Returns the x coordinate of the switch's middle. */
static double draw(struct drawing *d, const char *sw, const char *ranks, unsigned int depth)
{
	json_t *edges = json_object_get(d->tree, "edges"), *edge;
	double first = 0, last = 0, x, *at = d->at;
	unsigned int children = 0;
	size_t i;

	if (depth > d->deepest)
		d->deepest = depth;
	json_array_foreach (edges, i, edge) {
		const char *child = incctl_text(edge, "child"), *below = incctl_text(edge, "ranks");

		if (strcmp(incctl_text(edge, "switch"), sw) != 0)
			continue;
		if (incctl_true(edge, "to_switch")) {
			at[i] = draw(d, child, below, depth + 1);
		} else {
			at[i] = d->next_x;
			d->next_x += STEP_X;
			put_box(d, at[i], depth + 1, false, child, below);
			if (depth + 1 > d->deepest)
				d->deepest = depth + 1;
		}
		last = at[i];
		first = children++ ? first : last;
	}
	if (!children) {
		first = last = d->next_x;
		d->next_x += STEP_X;
	}
	x = (first + last) / 2;
	json_array_foreach (edges, i, edge) {
		if (strcmp(incctl_text(edge, "switch"), sw) == 0)
			put_line(d, x, at[i], depth, edge);
	}
	put_box(d, x, depth, true, sw, ranks);
	return x;
}

/* Draws all trees, one below the other. */
static void draw_all(const json_t *trees, FILE *f, double *width, double *height)
{
	json_t *tree, *node;
	size_t i, k;

	json_array_foreach (trees, i, tree) {
		struct drawing d = {
			.f = f, .tree = tree, .next_x = STEP_X / 2, .top = *height + 40};

		d.at = calloc(json_array_size(json_object_get(tree, "edges")) + 1, sizeof(*d.at));
		if (!d.at)
			abort();
		fprintf(f, "<text x=\"10\" y=\"%.0f\" class=\"t\">communicator %lld, ",
			*height + 22, incctl_number(tree, "communicator"));
		put_xml(f, incctl_text(tree, "job"));
		fprintf(f, "</text>\n");
		json_array_foreach (json_object_get(tree, "nodes"), k, node) {
			if (!incctl_is_child(tree, incctl_text(node, "switch")))
				draw(&d, incctl_text(node, "switch"), "", 0);
		}
		*height = d.top + d.deepest * STEP_Y + BOX_Y + 20;
		if (d.next_x > *width)
			*width = d.next_x;
		free(d.at);
	}
}

void incctl_print_svg(const json_t *trees)
{
	double width = STEP_X, height = 0;
	char *body = NULL;
	size_t len;
	FILE *f = open_memstream(&body, &len);

	if (!f)
		abort();
	draw_all(trees, f, &width, &height);
	fclose(f);
	printf("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\">\n"
	       "<style>text {font: 12px sans-serif; text-anchor: middle} .s {font-size: 9px} "
	       ".t {text-anchor: start}</style>\n%s</svg>\n",
	       width, height, body ? body : "");
	free(body);
}
