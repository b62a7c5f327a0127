/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pictures of switches and hosts, as SVG. incctl draws the trees of communicators, and the
 * controller's page draws the topology. The caller adds nodes and links, and the picture decides
 * where they stand. Texts have a monospaced font, so their widths are known: no text leaves its
 * box, and no box overlaps another one.
 *
 * Nodes stand in rows, those of row 0 on top. Figures of a link stand above the node below it. If
 * there are many hosts, the hosts of a switch become the lines of one list, with the figures of
 * their links in columns. One thread.
 */
#ifndef INC_DRAW_H
#define INC_DRAW_H

#include <stdbool.h>
#include <stdio.h>

#define INC_DRAW_FIGURES 5 /* most figures of a link */

enum inc_draw_kind {
	INC_DRAW_SWITCH,
	INC_DRAW_BRIDGE,
	INC_DRAW_HOST,
};

enum inc_draw_look {
	INC_DRAW_IDLE,
	INC_DRAW_BUSY, /* traffic passes */
	INC_DRAW_BAD,  /* a switch is absent, or a link is down */
};

struct inc_draw;

/* A figure of each link. In a list of hosts head is the head of its column. At a link alone, the
 * figure stands between before and after, which are words of this program or "". */
struct inc_draw_figure {
	const char *head, *before, *after;
};

/* Makes an empty picture. The title stands above it. figures has at most INC_DRAW_FIGURES entries
 * and ends with an empty one; it must exist as long as the picture. Returns NULL if there is no
 * memory. */
struct inc_draw *inc_draw_new(const char *title, const struct inc_draw_figure *figures);
void inc_draw_free(struct inc_draw *draw);

/* Adds a node in a row. Long texts are cut. more may have two further lines of text, or fewer; NULL
 * and "" are none. Returns the number of the node. If there is no memory, it returns -1 here and
 * later, and the picture is not printed. */
int inc_draw_node(struct inc_draw *draw, enum inc_draw_kind kind, unsigned int row,
		  const char *name, const char *const more[2], enum inc_draw_look look);
/* Adds a link between two nodes, of which the upper one has the smaller row. The array texts has
 * the text of each figure; NULL and "" are none. The share of the link's rate that is in use is
 * load, 0 to 1. */
void inc_draw_link(struct inc_draw *draw, int upper, int lower,
		   const char *const texts[INC_DRAW_FIGURES], double load, enum inc_draw_look look);

/* Prints n pictures, one below the other, as an element <svg>. alone: the element is a file of its
 * own and has the style; otherwise the style is that of the document around it. Returns 0 or
 * -ENOMEM. */
int inc_draw_print(struct inc_draw *const *list, unsigned int n, bool alone, FILE *out);

/* The rules of CSS for pictures. Colors follow the reader's scheme, light or dark. */
extern const char inc_draw_style[];

/* Prints a text with the characters escaped that XML and HTML need, also in attributes. Characters
 * that XML does not allow become '?'. */
void inc_draw_text(FILE *out, const char *text);

/* ---- used by draw.c and draw_layout.c only ---- */

#define INC_DRAW_CHAR                                                                             \
	7.4                /* width of a column of text in pixels, at most, with the style's font \
			    */
#define INC_DRAW_LINE   15 /* height of a line of text */
#define INC_DRAW_MARGIN 14
#define INC_DRAW_ROUTE  30 /* height between two rows for lines that go across */

#define INC_DRAW_TEXT_COLUMNS   26
#define INC_DRAW_FIGURE_COLUMNS 20
#define INC_DRAW_TITLE_COLUMNS  90
#define INC_DRAW_LIST_LINES     16 /* most lines of a column of a list */

#define INC_DRAW_LIST (INC_DRAW_HOST + 1) /* kind of a node that lists hosts */

struct inc_draw_node {
	unsigned int kind; /* enum inc_draw_kind, or INC_DRAW_LIST */
	unsigned int row;
	char name[4 * INC_DRAW_TEXT_COLUMNS], more[2][4 * INC_DRAW_TEXT_COLUMNS];
	enum inc_draw_look look;
	int list; /* index of the list in which a host stands; -1: none */
	double w, h;
	double x, y;  /* middle of the box, and its top */
	double above; /* width of the figures of the links to nodes above */
	unsigned int n_above;
	/* width of the node with the figures above it, and with all nodes below it */
	double slot, span;
	double wanted; /* x at which the node would stand if it had no neighbours */
};

struct inc_draw_link {
	unsigned int upper, lower;
	char text[INC_DRAW_FIGURES][4 * INC_DRAW_FIGURE_COLUMNS];
	double load;
	enum inc_draw_look look;
	/* where the link reaches its lower node, and the place of its figures */
	double x, top, w, h;
};

struct inc_draw {
	char title[4 * INC_DRAW_TITLE_COLUMNS];
	const struct inc_draw_figure *figures;
	unsigned int n_figures;
	struct inc_draw_node *nodes;
	unsigned int n_nodes;
	struct inc_draw_link *links;
	unsigned int n_links;
	bool failed;  /* no memory was left for a node or link */
	bool is_tree; /* each node has one link at most to a node above, in the next row */
	double width, height;
};

/* The widths of the columns of a list of hosts. */
struct inc_draw_columns {
	double name, more, figure[INC_DRAW_FIGURES];
	double width; /* of all together */
	unsigned int lines;
};

/* Counts the columns of a text. Characters that are not ASCII count twice, because they may be
 * wide. */
unsigned int inc_draw_count_columns(const char *text);
/* Whether a link is between two nodes of a row. */
bool inc_draw_is_beside(const struct inc_draw *draw, const struct inc_draw_link *link);
/* Finds the widths of the columns of a list. Each INC_DRAW_LIST_LINES hosts are a block, and the
 * blocks stand beside each other. A column without a text has no width. */
void inc_draw_columns_of(const struct inc_draw *draw, unsigned int list, unsigned int block,
			 struct inc_draw_columns *out);
/* Decides where everything stands. Returns 0 or -ENOMEM. */
int inc_draw_lay_out(struct inc_draw *draw);

#endif
