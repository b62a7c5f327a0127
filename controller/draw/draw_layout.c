/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Decides where nodes and links of a picture stand. In a tree each node stands above all nodes
 * below it, and lines go down, across and down. In any other picture the rows are placed from the
 * bottom, each node in the middle of the nodes below it, and lines are straight.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "controller/draw/draw.h"

#define PAD            10 /* room between a box and its text, and between boxes and the frame */
#define GAP            18 /* room between neighbours */
#define ROUTE_STRAIGHT 80 /* the same in a picture that is no tree */
#define BELOW_PLATE    7  /* height between the figures of a link and the node below */
#define LIST_FROM      9  /* from so many hosts on, they are drawn as lists */

unsigned int inc_draw_count_columns(const char *text)
{
	unsigned int n = 0;

	for (; *text; text++)
		n += (unsigned char)*text < 0x80 ? 1 : (unsigned char)*text >= 0xc0 ? 2 : 0;
	return n;
}

static double wider(double a, double b)
{
	return a > b ? a : b;
}

bool inc_draw_is_beside(const struct inc_draw *draw, const struct inc_draw_link *link)
{
	return draw->nodes[link->upper].row >= draw->nodes[link->lower].row;
}

static bool is_shown(const struct inc_draw_node *node)
{
	return node->list < 0;
}

void inc_draw_columns_of(const struct inc_draw *draw, unsigned int list, unsigned int block,
			 struct inc_draw_columns *out)
{
	unsigned int n = 0;

	*out = (struct inc_draw_columns){.name = strlen("host")};
	for (unsigned int i = 0; i < draw->n_links; i++) {
		const struct inc_draw_link *link = &draw->links[i];
		const struct inc_draw_node *host = &draw->nodes[link->lower];

		if (host->list != (int)list || n++ / INC_DRAW_LIST_LINES != block)
			continue;
		out->lines++;
		out->name = wider(out->name, inc_draw_count_columns(host->name));
		out->more = wider(out->more, inc_draw_count_columns(host->more[0]));
		for (unsigned int f = 0; f < draw->n_figures; f++) {
			if (!*link->text[f])
				continue;
			out->figure[f] =
				wider(out->figure[f], inc_draw_count_columns(link->text[f]));
			out->figure[f] = wider(out->figure[f],
					       inc_draw_count_columns(draw->figures[f].head));
		}
	}
	out->name = (out->name + 2) * INC_DRAW_CHAR;
	out->more = out->more ? (out->more + 2) * INC_DRAW_CHAR : 0;
	out->width = out->name + out->more + 2 * INC_DRAW_CHAR;
	for (unsigned int f = 0; f < draw->n_figures; f++) {
		out->figure[f] = out->figure[f] ? (out->figure[f] + 2) * INC_DRAW_CHAR : 0;
		out->width += out->figure[f];
	}
}

/* Shows the link to a list as busy, because that of one of its hosts is. */
static void mark_busy(struct inc_draw *draw, unsigned int first, int list)
{
	for (unsigned int i = first; i < draw->n_links; i++) {
		if ((int)draw->links[i].lower == list)
			draw->links[i].look = INC_DRAW_BUSY;
	}
}

/* Makes a list for each switch or bridge with hosts that have no other link. Returns 0 or
 * -ENOMEM. */
static int make_lists(struct inc_draw *draw)
{
	static const char *const none[INC_DRAW_FIGURES] = {};
	const unsigned int n_nodes = draw->n_nodes, n_links = draw->n_links;
	int *list_of = malloc((n_nodes + 1) * sizeof(*list_of));
	int *links_of = calloc(n_nodes + 1, sizeof(*links_of));

	for (unsigned int i = 0; list_of && i < n_nodes; i++)
		list_of[i] = -1;
	for (unsigned int i = 0; links_of && i < n_links; i++)
		links_of[draw->links[i].lower]++;
	for (unsigned int i = 0; list_of && links_of && i < n_links; i++) {
		const unsigned int upper = draw->links[i].upper, lower = draw->links[i].lower;

		if (draw->nodes[lower].kind != INC_DRAW_HOST || links_of[lower] > 1)
			continue;
		if (list_of[upper] < 0) {
			list_of[upper] = inc_draw_node(draw, INC_DRAW_HOST, draw->nodes[lower].row,
						       "", NULL, INC_DRAW_IDLE);
			inc_draw_link(draw, (int)upper, list_of[upper], none, 0, INC_DRAW_IDLE);
			if (draw->failed)
				break;
			draw->nodes[list_of[upper]].kind = INC_DRAW_LIST;
		}
		draw->nodes[lower].list = list_of[upper];
		if (draw->links[i].look == INC_DRAW_BUSY)
			mark_busy(draw, n_links, list_of[upper]);
	}
	free(list_of);
	free(links_of);
	return draw->failed || !list_of || !links_of ? -ENOMEM : 0;
}

/* Finds the size of a node's box. */
static void size_node(const struct inc_draw *draw, unsigned int n)
{
	struct inc_draw_node *node = &draw->nodes[n];
	unsigned int columns = inc_draw_count_columns(node->name), lines = 1;
	struct inc_draw_columns list;

	for (unsigned int i = 0; i < 2; i++) {
		columns = wider(columns, inc_draw_count_columns(node->more[i]));
		lines += *node->more[i] != '\0';
	}
	node->w = wider(columns * INC_DRAW_CHAR + 2 * PAD, 60);
	if (node->kind == INC_DRAW_LIST) {
		node->w = PAD;
		for (unsigned int block = 0;; block++) {
			inc_draw_columns_of(draw, n, block, &list);
			if (!list.lines)
				break;
			node->w += list.width;
			lines = wider(lines, 1 + list.lines);
		}
	}
	node->h = lines * INC_DRAW_LINE + 8;
	node->above = 0;
	node->n_above = 0;
}

/* Finds the size of each link's figures, and the width that a node needs with all figures above
 * it. */
static void size_links(const struct inc_draw *draw)
{
	for (unsigned int i = 0; i < draw->n_links; i++) {
		struct inc_draw_link *link = &draw->links[i];
		struct inc_draw_node *lower = &draw->nodes[link->lower];
		unsigned int columns = 0;

		link->w = link->h = 0;
		if (inc_draw_is_beside(draw, link) || !is_shown(lower))
			continue;
		for (unsigned int f = 0; f < draw->n_figures; f++) {
			const struct inc_draw_figure *figure = &draw->figures[f];

			if (!*link->text[f])
				continue;
			columns = wider(columns, inc_draw_count_columns(figure->before) + 2 +
							 inc_draw_count_columns(link->text[f]) +
							 inc_draw_count_columns(figure->after));
			link->h += INC_DRAW_LINE;
		}
		link->w = columns ? columns * INC_DRAW_CHAR + 8 : 0;
		link->h += columns ? 5 : 0;
		lower->above += (lower->n_above++ ? GAP : 0) + link->w;
	}
	for (unsigned int i = 0; i < draw->n_nodes; i++) {
		struct inc_draw_node *node = &draw->nodes[i];

		/* several lines end at the box, so it reaches below all of them */
		if (node->n_above > 1)
			node->w = wider(node->w, node->above);
		node->slot = wider(node->w, node->above);
	}
}

/* Whether each node has at most one link to a node above, which is in the row above. */
static bool check_tree(const struct inc_draw *draw)
{
	unsigned char *seen = calloc(draw->n_nodes + 1, 1);
	bool is_tree = seen;

	for (unsigned int i = 0; seen && i < draw->n_links; i++) {
		const struct inc_draw_link *link = &draw->links[i];

		is_tree &= draw->nodes[link->upper].row + 1 == draw->nodes[link->lower].row &&
			   !seen[link->lower]++;
	}
	free(seen);
	return is_tree;
}

/* Finds the width of a node with all nodes below it, which stand beside each other. */
static double span_of(const struct inc_draw *draw, unsigned int n)
{
	double sum = 0;

	for (unsigned int i = 0; i < draw->n_links; i++) {
		const struct inc_draw_link *link = &draw->links[i];

		if (link->upper == n && is_shown(&draw->nodes[link->lower]))
			sum += (sum ? GAP : 0) + span_of(draw, link->lower);
	}
	draw->nodes[n].span = wider(sum, draw->nodes[n].slot);
	return draw->nodes[n].span;
}

/* Places a node of a tree above all nodes below it, from this x on. */
static void place_below(const struct inc_draw *draw, unsigned int n, double x)
{
	struct inc_draw_node *node = &draw->nodes[n];
	double sum = 0, first = 0, last = 0, least = x + node->slot / 2;
	const double most = x + node->span - node->slot / 2;
	bool any = false;

	for (unsigned int i = 0; i < draw->n_links; i++) {
		const struct inc_draw_link *link = &draw->links[i];

		if (link->upper == n && is_shown(&draw->nodes[link->lower]))
			sum += (sum ? GAP : 0) + draw->nodes[link->lower].span;
	}
	x += (node->span - sum) / 2;
	for (unsigned int i = 0; i < draw->n_links; i++) {
		const struct inc_draw_link *link = &draw->links[i];
		const struct inc_draw_node *lower = &draw->nodes[link->lower];

		if (link->upper != n || !is_shown(lower))
			continue;
		place_below(draw, link->lower, x);
		x += lower->span + GAP;
		last = lower->x;
		first = any ? first : last;
		any = true;
	}
	node->x = any ? (first + last) / 2 : (least + most) / 2;
	node->x = node->x < least ? least : node->x > most ? most : node->x;
}

static void place_tree(const struct inc_draw *draw)
{
	double x = INC_DRAW_MARGIN;

	for (unsigned int i = 0; i < draw->n_nodes; i++) {
		if (draw->nodes[i].row || !is_shown(&draw->nodes[i]))
			continue;
		span_of(draw, i);
		place_below(draw, i, x);
		x += draw->nodes[i].span + GAP;
	}
}

/* Compares nodes by the place where they would like to stand. */
static int compare_wanted(const void *a, const void *b)
{
	const struct inc_draw_node *const *x = a, *const *y = b;

	if ((*x)->wanted != (*y)->wanted)
		return (*x)->wanted < (*y)->wanted ? -1 : 1;
	return *x < *y ? -1 : *x > *y;
}

/* Places the nodes of a row, which are in order, from the left to the right: each one where it
 * would like to stand, or else beside the node before. Then the row moves to the left by half of
 * what it was pushed to the right. */
static void place_row(struct inc_draw_node **row, unsigned int n)
{
	double x = 0, pushed = 0;

	for (unsigned int i = 0; i < n; i++) {
		x += i ? (row[i - 1]->slot + row[i]->slot) / 2 + GAP : 0;
		x = i ? wider(x, row[i]->wanted) : row[i]->wanted;
		row[i]->x = x;
		pushed += x - row[i]->wanted;
	}
	for (unsigned int i = 0; i < n; i++)
		row[i]->x -= pushed / n;
}

/* Finds where a node would like to stand: in the middle of the nodes below it. A node without these
 * stands beside the node before it. */
static void want(const struct inc_draw *draw, unsigned int n, double beside)
{
	double sum = 0;
	unsigned int count = 0;

	for (unsigned int i = 0; i < draw->n_links; i++) {
		const struct inc_draw_link *link = &draw->links[i];

		if (link->upper != n || !is_shown(&draw->nodes[link->lower]) ||
		    inc_draw_is_beside(draw, link))
			continue;
		sum += draw->nodes[link->lower].x;
		count++;
	}
	draw->nodes[n].wanted = count ? sum / count : beside;
}

/* Places the nodes of a picture that is no tree, row by row from the bottom. Returns 0 or
 * -ENOMEM. */
static int place_rows(const struct inc_draw *draw, unsigned int rows)
{
	struct inc_draw_node **row = calloc(draw->n_nodes + 1, sizeof(*row));

	if (!row)
		return -ENOMEM;
	while (rows--) {
		unsigned int n = 0;
		double beside = 0;

		for (unsigned int i = 0; i < draw->n_nodes; i++) {
			if (draw->nodes[i].row != rows || !is_shown(&draw->nodes[i]))
				continue;
			want(draw, i, beside);
			beside = draw->nodes[i].wanted + draw->nodes[i].slot + GAP;
			row[n++] = &draw->nodes[i];
		}
		qsort(row, n, sizeof(*row), compare_wanted);
		place_row(row, n);
	}
	free(row);
	return 0;
}

/* Gives each row its height, and each node and link its place. */
static int place_down(struct inc_draw *draw, unsigned int rows)
{
	double *boxes = calloc(rows + 1, sizeof(*boxes)),
	       *plates = calloc(rows + 1, sizeof(*plates));
	double *at = calloc(draw->n_nodes + 1, sizeof(*at));
	const int ret = boxes && plates && at ? 0 : -ENOMEM;
	double y = INC_DRAW_MARGIN + (*draw->title ? INC_DRAW_LINE + 8 : 0);

	for (unsigned int i = 0; !ret && i < draw->n_nodes; i++) {
		struct inc_draw_node *node = &draw->nodes[i];

		boxes[node->row] =
			is_shown(node) ? wider(boxes[node->row], node->h) : boxes[node->row];
		at[i] = node->x - node->above / 2;
	}
	for (unsigned int i = 0; !ret && i < draw->n_links; i++) {
		const unsigned int row = draw->nodes[draw->links[i].lower].row;

		plates[row] = wider(plates[row], draw->links[i].h);
	}
	for (unsigned int row = 0; !ret && row < rows; row++) {
		if (row)
			y += (draw->is_tree ? INC_DRAW_ROUTE : ROUTE_STRAIGHT) + plates[row] +
			     BELOW_PLATE;
		for (unsigned int i = 0; i < draw->n_nodes; i++) {
			if (draw->nodes[i].row == row)
				draw->nodes[i].y = y;
		}
		y += boxes[row];
	}
	for (unsigned int i = 0; !ret && i < draw->n_links; i++) {
		struct inc_draw_link *link = &draw->links[i];
		const struct inc_draw_node *lower = &draw->nodes[link->lower];

		if (!inc_draw_is_beside(draw, link)) {
			link->x = at[link->lower] + link->w / 2;
			at[link->lower] += link->w + GAP;
		}
		link->top = lower->y - BELOW_PLATE - link->h;
	}
	draw->height = y + INC_DRAW_MARGIN;
	free(boxes);
	free(plates);
	free(at);
	return ret;
}

/* Moves the picture to the frame's left edge, and finds its width. */
static void frame(struct inc_draw *draw)
{
	double left = INFINITY, right = -INFINITY;

	for (unsigned int i = 0; i < draw->n_nodes; i++) {
		const struct inc_draw_node *node = &draw->nodes[i];

		if (!is_shown(node))
			continue;
		left = node->x - node->slot / 2 < left ? node->x - node->slot / 2 : left;
		right = wider(right, node->x + node->slot / 2);
	}
	for (unsigned int i = 0; i < draw->n_nodes; i++)
		draw->nodes[i].x += INC_DRAW_MARGIN - left;
	draw->width = wider(inc_draw_count_columns(draw->title) * INC_DRAW_CHAR * 1.1,
			    draw->n_nodes ? right - left : 0) +
		      2 * INC_DRAW_MARGIN;
}

int inc_draw_lay_out(struct inc_draw *draw)
{
	unsigned int hosts = 0, rows = 0;
	int ret = draw->failed ? -ENOMEM : 0;

	for (unsigned int i = 0; i < draw->n_nodes; i++)
		hosts += draw->nodes[i].kind == INC_DRAW_HOST;
	if (!ret && hosts >= LIST_FROM)
		ret = make_lists(draw);
	if (ret)
		return ret;
	for (unsigned int i = 0; i < draw->n_nodes; i++) {
		size_node(draw, i);
		rows = draw->nodes[i].row >= rows ? draw->nodes[i].row + 1 : rows;
	}
	size_links(draw);
	draw->is_tree = check_tree(draw);
	if (draw->is_tree)
		place_tree(draw);
	else
		ret = place_rows(draw, rows);
	if (ret)
		return ret;
	frame(draw);
	return place_down(draw, rows);
}
