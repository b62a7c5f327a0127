/* SPDX-License-Identifier: BSD-2-Clause */
/* Pictures of switches and hosts: what is in them, and how they are printed. draw_layout.c decides
 * where everything stands. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "controller/draw/draw.h"

/* clang-format off */
const char inc_draw_style[] =
	".pic text {font: 12px 'DejaVu Sans Mono', 'Liberation Mono', Menlo, Consolas, monospace; fill: #1b1f24}\n"
	".pic .title, .pic .name {font-weight: bold}\n"
	".pic .mid {text-anchor: middle}\n"
	".pic .end {text-anchor: end}\n"
	".pic .dim {fill: #57606a}\n"
	".pic .ground, .pic .plate rect {fill: #ffffff}\n"
	".pic .node rect {fill: #f6f8fa; stroke: #8c959f}\n"
	".pic .switch > rect {fill: #ddeeff; stroke: #0b61c4}\n"
	".pic .bridge > rect {fill: #eeeeee; stroke: #6e7781}\n"
	".pic .node.bad > rect {fill: #ffe3e0; stroke: #b3261e; stroke-dasharray: 4 3}\n"
	".pic .node .mark {fill: #8c959f; stroke: none}\n"
	".pic .node .mark.busy {fill: #0b61c4}\n"
	".pic .node .mark.bad {fill: #b3261e}\n"
	".pic path {fill: none; stroke: #8c959f}\n"
	".pic path.busy {stroke: #0b61c4}\n"
	".pic path.bad {stroke: #b3261e; stroke-dasharray: 4 3}\n"
	"@media (prefers-color-scheme: dark) {\n"
	".pic text {fill: #e6edf3}\n"
	".pic .dim {fill: #9da7b1}\n"
	".pic .ground, .pic .plate rect {fill: #0d1117}\n"
	".pic .node rect {fill: #1c2128; stroke: #6e7781}\n"
	".pic .switch > rect {fill: #10294a; stroke: #58a6ff}\n"
	".pic .bridge > rect {fill: #2a2f36; stroke: #8c959f}\n"
	".pic .node.bad > rect {fill: #4a1512; stroke: #ff7b72}\n"
	".pic .node .mark.busy {fill: #58a6ff}\n"
	".pic .node .mark.bad {fill: #ff7b72}\n"
	".pic path.busy {stroke: #58a6ff}\n"
	".pic path.bad {stroke: #ff7b72}\n"
	"}\n";
/* clang-format on */

static const char *const looks[] = {
	[INC_DRAW_IDLE] = "", [INC_DRAW_BUSY] = " busy", [INC_DRAW_BAD] = " bad"};
static const char *const kinds[] = {[INC_DRAW_SWITCH] = "switch",
				    [INC_DRAW_BRIDGE] = "bridge",
				    [INC_DRAW_HOST] = "host",
				    [INC_DRAW_LIST] = "list"};

void inc_draw_text(FILE *out, const char *text)
{
	for (; *text; text++) {
		switch (*text) {
		case '<':
			fputs("&lt;", out);
			break;
		case '>':
			fputs("&gt;", out);
			break;
		case '&':
			fputs("&amp;", out);
			break;
		case '"':
			fputs("&quot;", out);
			break;
		case '\'':
			fputs("&#39;", out);
			break;
		default:
			fputc((unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text, out);
		}
	}
}

/* Copies a text, and cuts it behind so many columns. */
static void copy_cut(char *out, size_t size, const char *text, unsigned int columns)
{
	const bool cut = inc_draw_count_columns(text) > columns;
	unsigned int n = 0, width;
	size_t len;

	for (; *text; text += len) {
		width = (unsigned char)*text < 0x80 ? 1 : 2;
		len = 1;
		while (((unsigned char)text[len] & 0xc0) == 0x80)
			len++;
		if (n + width > columns - (cut ? 2 : 0) || len + sizeof("…") > size)
			break;
		memcpy(out, text, len);
		out += len;
		size -= len;
		n += width;
	}
	strcpy(out, cut || *text ? "…" : "");
}

struct inc_draw *inc_draw_new(const char *title, const struct inc_draw_figure *figures)
{
	struct inc_draw *draw = calloc(1, sizeof(*draw));

	if (!draw)
		return NULL;
	copy_cut(draw->title, sizeof(draw->title), title, INC_DRAW_TITLE_COLUMNS);
	draw->figures = figures;
	while (draw->n_figures < INC_DRAW_FIGURES && figures[draw->n_figures].head)
		draw->n_figures++;
	return draw;
}

void inc_draw_free(struct inc_draw *draw)
{
	if (!draw)
		return;
	free(draw->nodes);
	free(draw->links);
	free(draw);
}

/* Makes room for one entry more in an array of n entries. Returns the array, or NULL if there is no
 * memory, and the old array stays. */
static void *grow(void *array, unsigned int n, size_t size)
{
	/* the room doubles whenever n is a power of two */
	return n & (n - 1) ? array : realloc(array, (n ? 2 * (size_t)n : 1) * size);
}

int inc_draw_node(struct inc_draw *draw, enum inc_draw_kind kind, unsigned int row,
		  const char *name, const char *const more[2], enum inc_draw_look look)
{
	struct inc_draw_node *nodes = NULL, *node;

	if (!draw->failed)
		nodes = grow(draw->nodes, draw->n_nodes, sizeof(*nodes));
	if (!nodes) {
		draw->failed = true;
		return -1;
	}
	draw->nodes = nodes;
	node = &nodes[draw->n_nodes];
	*node = (struct inc_draw_node){.kind = (int)kind, .row = row, .look = look, .list = -1};
	copy_cut(node->name, sizeof(node->name), name, INC_DRAW_TEXT_COLUMNS);
	for (unsigned int i = 0; more && i < 2; i++)
		copy_cut(node->more[i], sizeof(node->more[i]), more[i] ?: "",
			 INC_DRAW_TEXT_COLUMNS);
	return (int)draw->n_nodes++;
}

void inc_draw_link(struct inc_draw *draw, int upper, int lower,
		   const char *const texts[INC_DRAW_FIGURES], double load, enum inc_draw_look look)
{
	struct inc_draw_link *links = NULL, *link;

	if (!draw->failed)
		links = grow(draw->links, draw->n_links, sizeof(*links));
	if (!links || upper < 0 || lower < 0) {
		draw->failed = true;
		return;
	}
	draw->links = links;
	link = &links[draw->n_links++];
	*link = (struct inc_draw_link){.upper = upper, .lower = lower, .load = load, .look = look};
	for (unsigned int i = 0; i < draw->n_figures; i++)
		copy_cut(link->text[i], sizeof(link->text[i]), texts[i] ?: "",
			 INC_DRAW_FIGURE_COLUMNS);
}

static void print_text(FILE *out, double x, double y, const char *class, const char *text)
{
	if (!*text)
		return;
	fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, class);
	inc_draw_text(out, text);
	fputs("</text>\n", out);
}

static void print_rect(FILE *out, double x, double y, double w, double h, double round)
{
	fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"%.0f\"/>\n",
		x, y, w, h, round);
}

/* Prints the line of a link: down from the upper node, across, and down to the lower one. In a
 * picture that is no tree the way across is straight, because several such ways would lie upon each
 * other. */
static void print_line(const struct inc_draw *draw, const struct inc_draw_link *link, FILE *out)
{
	const struct inc_draw_node *upper = &draw->nodes[link->upper];
	const struct inc_draw_node *lower = &draw->nodes[link->lower];
	const double from = upper->y + upper->h, beside = lower->y + lower->h;
	const double share = link->load > 1 ? 1 : link->load;
	const double width = link->look == INC_DRAW_BUSY ? 2 + 4 * share : 1.2;

	fprintf(out, "<path class=\"link%s\" stroke-width=\"%.1f\" d=\"M%.1f %.1f",
		looks[link->look], width, upper->x, from);
	if (inc_draw_is_beside(draw, link))
		fprintf(out, "V%.1f H%.1f V%.1f",
			(from > beside ? from : beside) + INC_DRAW_ROUTE / 3, lower->x, beside);
	else if (draw->is_tree)
		fprintf(out, "V%.1f H%.1f V%.1f", link->top - INC_DRAW_ROUTE / 2, link->x,
			lower->y);
	else
		fprintf(out, "L%.1f %.1f V%.1f", link->x, link->top, lower->y);
	fputs("\"><title>", out);
	inc_draw_text(out, upper->name);
	fputs(" – ", out);
	inc_draw_text(out, lower->name);
	for (unsigned int i = 0; i < draw->n_figures; i++) {
		if (!*link->text[i])
			continue;
		fputs(", ", out);
		fprintf(out, "%s%s", draw->figures[i].before, *draw->figures[i].before ? " " : "");
		inc_draw_text(out, link->text[i]);
		fprintf(out, "%s%s", *draw->figures[i].after ? " " : "", draw->figures[i].after);
	}
	fputs("</title></path>\n", out);
}

/* Prints a figure of a link with what stands before and after it. The spaces cannot be broken,
 * because some readers of SVG drop others at the edge of an element. */
static void print_figure(const struct inc_draw_figure *figure, const char *text, FILE *out)
{
	if (*figure->before)
		fprintf(out, "<tspan class=\"dim\">%s&#160;</tspan>", figure->before);
	inc_draw_text(out, text);
	if (*figure->after)
		fprintf(out, "<tspan class=\"dim\">&#160;%s</tspan>", figure->after);
}

static void print_plate(const struct inc_draw *draw, const struct inc_draw_link *link, FILE *out)
{
	double y = link->top + INC_DRAW_LINE;

	if (!link->w)
		return;
	fputs("<g class=\"plate\">\n", out);
	print_rect(out, link->x - link->w / 2, link->top, link->w, link->h, 0);
	for (unsigned int i = 0; i < draw->n_figures; i++) {
		if (!*link->text[i])
			continue;
		fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"mid\">", link->x, y);
		print_figure(&draw->figures[i], link->text[i], out);
		fputs("</text>\n", out);
		y += INC_DRAW_LINE;
	}
	fputs("</g>\n", out);
}

static void print_box(const struct inc_draw_node *node, FILE *out)
{
	double y = node->y + INC_DRAW_LINE;

	fprintf(out, "<g class=\"node %s%s\">\n", kinds[node->kind], looks[node->look]);
	print_rect(out, node->x - node->w / 2, node->y, node->w, node->h,
		   node->kind == INC_DRAW_HOST ? 10 : 2);
	print_text(out, node->x, y, "name mid", node->name);
	for (unsigned int i = 0; i < 2; i++) {
		y += *node->more[i] ? INC_DRAW_LINE : 0;
		print_text(out, node->x, y, "mid", node->more[i]);
	}
	fputs("</g>\n", out);
}

/* Prints a line of a list of hosts. link is NULL for the heads of the columns. */
static void print_entry(const struct inc_draw *draw, const struct inc_draw_columns *columns,
			double x, double y, const struct inc_draw_link *link, FILE *out)
{
	const struct inc_draw_node *host = link ? &draw->nodes[link->lower] : NULL;

	if (link)
		fprintf(out,
			"<rect class=\"mark%s\" x=\"%.1f\" y=\"%.1f\" width=\"4\" "
			"height=\"%d\"/>\n",
			looks[host->look == INC_DRAW_BAD ? host->look : link->look], x - 8, y - 9,
			INC_DRAW_LINE - 5);
	print_text(out, x, y, host ? "name" : "dim", host ? host->name : "host");
	x += columns->name;
	print_text(out, x, y, "", host ? host->more[0] : "");
	x += columns->more;
	for (unsigned int i = 0; i < draw->n_figures; i++) {
		x += columns->figure[i];
		if (columns->figure[i])
			print_text(out, x - 2 * INC_DRAW_CHAR, y, host ? "end" : "end dim",
				   host ? link->text[i] : draw->figures[i].head);
	}
}

static void print_list(const struct inc_draw *draw, unsigned int list, FILE *out)
{
	const struct inc_draw_node *node = &draw->nodes[list];
	double x = node->x - node->w / 2 + 16;
	const double y = node->y + INC_DRAW_LINE;
	struct inc_draw_columns columns;
	unsigned int n = 0;

	fputs("<g class=\"node list\">\n", out);
	print_rect(out, node->x - node->w / 2, node->y, node->w, node->h, 4);
	for (unsigned int i = 0; i < draw->n_links; i++) {
		const struct inc_draw_link *link = &draw->links[i];
		const unsigned int line = n % INC_DRAW_LIST_LINES;

		if (draw->nodes[link->lower].list != (int)list)
			continue;
		if (!line) {
			x += n ? columns.width : 0;
			inc_draw_columns_of(draw, list, n / INC_DRAW_LIST_LINES, &columns);
			print_entry(draw, &columns, x, y, NULL, out);
		}
		print_entry(draw, &columns, x, y + (line + 1) * INC_DRAW_LINE, link, out);
		n++;
	}
	fputs("</g>\n", out);
}

static void print_picture(const struct inc_draw *draw, double y, FILE *out)
{
	fprintf(out, "<g transform=\"translate(0 %.1f)\">\n", y);
	print_text(out, INC_DRAW_MARGIN, INC_DRAW_LINE + 4, "title", draw->title);
	for (unsigned int i = 0; i < draw->n_links; i++) {
		if (draw->nodes[draw->links[i].lower].list < 0)
			print_line(draw, &draw->links[i], out);
	}
	for (unsigned int i = 0; i < draw->n_links; i++) {
		if (draw->nodes[draw->links[i].lower].list < 0)
			print_plate(draw, &draw->links[i], out);
	}
	for (unsigned int i = 0; i < draw->n_nodes; i++) {
		if (draw->nodes[i].kind == INC_DRAW_LIST)
			print_list(draw, i, out);
		else if (draw->nodes[i].list < 0)
			print_box(&draw->nodes[i], out);
	}
	fputs("</g>\n", out);
}

int inc_draw_print(struct inc_draw *const *list, unsigned int n, bool alone, FILE *out)
{
	double width = 2 * INC_DRAW_MARGIN, height = 0;

	for (unsigned int i = 0; i < n; i++) {
		if (inc_draw_lay_out(list[i]))
			return -ENOMEM;
		width = list[i]->width > width ? list[i]->width : width;
		height += list[i]->height;
	}
	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"pic\" role=\"group\" "
		"aria-label=\"picture of switches and hosts\" width=\"%.0f\" height=\"%.0f\" "
		"viewBox=\"0 0 %.0f %.0f\">\n",
		width, height, width, height);
	if (alone)
		fprintf(out,
			"<style>\n%s</style>\n<rect class=\"ground\" width=\"100%%\" "
			"height=\"100%%\"/>\n",
			inc_draw_style);
	height = 0;
	for (unsigned int i = 0; i < n; i++) {
		print_picture(list[i], height, out);
		height += list[i]->height;
	}
	fputs("</svg>\n", out);
	return 0;
}
