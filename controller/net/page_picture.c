/* SPDX-License-Identifier: BSD-2-Clause */
/* The picture of the page of --http: the topology, with the rates of its links. */
#include <stdlib.h>
#include <string.h>
#include "controller/core/group.h"
#include "controller/core/switch.h"
#include "controller/draw/draw.h"
#include "controller/net/ctl.h"
#include "lib/base/clock.h"

/* limits of the picture, so that it does not take long */
#define MAX_NODES  256 /* switches and bridges of the picture */
#define MAX_HOSTS  1024
#define LEAST_MBIT 1 /* a link with less is idle */

static const struct inc_draw_figure figures[] = {
	{"port", "port", ""},
	{"up", "up", ""},
	{"down", "down", ""},
	{},
};

/* Adds what is known at an end of a link, which is a switch's port. is_upper: the end is the upper
 * one in the picture. */
static void add_end(const struct inc_page *page, const struct inc_topo_end *end, bool is_upper,
		    struct inc_page_rates *out)
{
	const struct inc_page_switch *side;
	const struct inc_page_port *port;

	if (end->kind != INC_TOPO_SWITCH || end->index >= page->n_switches)
		return;
	side = &page->switches[end->index];
	if (end->port >= side->n_ports || !page->ctl->core.switches[end->index]->connected)
		return;
	port = &side->ports[end->port];
	out->down |= port->known && port->down;
	if (*port->reason)
		out->reason = port->reason;
	if (!port->rated)
		return;
	out->known = true;
	out->up_mbit = is_upper ? port->rx_mbit : port->tx_mbit;
	out->down_mbit = is_upper ? port->tx_mbit : port->rx_mbit;
}

const char *inc_page_end_name(const struct inc_topology *topo, const struct inc_topo_end *end)
{
	return end->kind == INC_TOPO_HOST     ? topo->hosts[end->index].name
	       : end->kind == INC_TOPO_SWITCH ? topo->switches[end->index].name
					      : topo->bridges[end->index].name;
}

const char *inc_page_port_name(const struct inc_topology *topo, const struct inc_topo_end *end)
{
	return end->kind == INC_TOPO_SWITCH ? topo->switches[end->index].ports[end->port].name : "";
}

void inc_page_link_rates(const struct inc_page *page, const struct inc_topo_link *link,
			 unsigned int upper, struct inc_page_rates *out)
{
	const struct inc_topology *topo = page->ctl->topo;

	*out = (struct inc_page_rates){.port = inc_page_port_name(topo, &link->end[upper]),
				       .reason = ""};
	if (!*out->port)
		out->port = inc_page_port_name(topo, &link->end[!upper]);
	add_end(page, &link->end[!upper], false, out);
	add_end(page, &link->end[upper], true, out);
}

const char *inc_page_gbit(double mbit, char *buf, size_t size)
{
	const double gbit = mbit / 1e3;

	snprintf(buf, size,
		 gbit < .0005 ? "0"
		 : gbit < .1  ? "%.3f"
		 : gbit < 10  ? "%.2f"
			      : "%.1f",
		 gbit);
	return buf;
}

/* Index of a switch or bridge in the array of rows. -1: the end is a host. */
static int place_of(const struct inc_topology *topo, const struct inc_topo_end *end)
{
	return end->kind == INC_TOPO_HOST     ? -1
	       : end->kind == INC_TOPO_SWITCH ? (int)end->index
					      : (int)(topo->n_switches + end->index);
}

/* Puts those switches into row 0 that may be the root of a tree. If two of them are neighbours,
 * only the first one is. */
static void find_roots(const struct inc_topology *topo, unsigned int *rows)
{
	bool neighbours = false, any = false;

	for (unsigned int i = 0; i < topo->n_live_links; i++) {
		const struct inc_topo_end *end = topo->links[i].end;

		neighbours |= end[0].kind == INC_TOPO_SWITCH && end[1].kind == INC_TOPO_SWITCH &&
			      topo->switches[end[0].index].root &&
			      topo->switches[end[1].index].root;
	}
	for (unsigned int i = 0; i < topo->n_switches; i++) {
		if (topo->switches[i].root && !(neighbours && any)) {
			rows[i] = 0;
			any = true;
		}
	}
}

/* Gives each switch and bridge its row: its distance to the nearest root. */
static void find_rows(const struct inc_topology *topo, unsigned int *rows)
{
	const unsigned int n = topo->n_switches + topo->n_bridges;
	bool changed;

	for (unsigned int i = 0; i < n; i++)
		rows[i] = n;
	find_roots(topo, rows);
	do {
		changed = false;
		for (unsigned int i = 0; i < topo->n_live_links; i++) {
			const int a = place_of(topo, &topo->links[i].end[0]);
			const int b = place_of(topo, &topo->links[i].end[1]);

			if (a < 0 || b < 0)
				continue;
			if (rows[a] > rows[b] + 1) {
				rows[a] = rows[b] + 1;
				changed = true;
			} else if (rows[b] > rows[a] + 1) {
				rows[b] = rows[a] + 1;
				changed = true;
			}
		}
	} while (changed);
	for (unsigned int i = 0; i < n; i++)
		rows[i] = rows[i] < n ? rows[i] : 0;
}

/* The ranks on a host, of which the picture names the first. */
struct tenant {
	const struct inc_group *group;
	unsigned int rank, n;
};

static void find_tenants(const struct inc_ctl *ctl, struct tenant *tenants)
{
	const struct inc_group *group;

	LIST_FOREACH (group, &ctl->core.groups, entry) {
		for (unsigned int rank = 0; rank < group->world_size; rank++) {
			struct tenant *t = &tenants[group->members[rank].host];

			if (!group->members[rank].client)
				continue;
			if (!t->n++) {
				t->group = group;
				t->rank = rank;
			}
		}
	}
}

/* All that is needed to draw the topology. */
struct scene {
	const struct inc_page *page;
	struct inc_draw *draw;
	unsigned int *rows; /* of switches and bridges */
	int *nodes;         /* the same, their nodes of the picture */
	struct tenant *tenants;
	unsigned int n_hosts, n_left_out;
};

static void draw_switches(const struct scene *scene)
{
	const struct inc_ctl *ctl = scene->page->ctl;
	const struct inc_topology *topo = ctl->topo;

	for (unsigned int i = 0; i < topo->n_switches; i++) {
		const struct inc_core_switch *sw = ctl->core.switches[i];
		const char *const more[2] = {sw->connected
						     ? inc_mode_settings[inc_switch_setting(sw)]
						     : "not connected"};

		scene->nodes[i] = inc_draw_node(scene->draw, INC_DRAW_SWITCH, scene->rows[i],
						topo->switches[i].name, more,
						sw->connected ? INC_DRAW_IDLE : INC_DRAW_BAD);
	}
	for (unsigned int i = 0; i < topo->n_bridges; i++)
		scene->nodes[topo->n_switches + i] = inc_draw_node(
			scene->draw, INC_DRAW_BRIDGE, scene->rows[topo->n_switches + i],
			topo->bridges[i].name, (const char *const[2]){"bridge"}, INC_DRAW_IDLE);
}

/* Draws a host, or a NIC of a host with several, unless there are too many. Returns its node, or -1
 * if it is left out. */
static int draw_host(struct scene *scene, unsigned int host, unsigned int row)
{
	const struct inc_topo_host *nic = &scene->page->ctl->topo->hosts[host];
	const struct inc_topo_host *first = &scene->page->ctl->topo->hosts[nic->of];
	const struct tenant *t = &scene->tenants[nic->of];
	char text[CTL_NAME_MAX + 40] = "", number[24] = "";

	if (scene->n_hosts >= MAX_HOSTS) {
		scene->n_left_out++;
		return -1;
	}
	scene->n_hosts++;
	if (t->n > 1)
		snprintf(text, sizeof(text), "%u ranks", t->n);
	else if (t->n)
		snprintf(text, sizeof(text), "rank %u of %s", t->rank, t->group->job);
	if (first->next)
		snprintf(number, sizeof(number), "NIC %u", nic->rail);
	return inc_draw_node(scene->draw, INC_DRAW_HOST, row, nic->name,
			     *text ? (const char *const[2]){text, number}
				   : (const char *const[2]){number},
			     INC_DRAW_IDLE);
}

static void draw_link(struct scene *scene, const struct inc_topo_link *link)
{
	const struct inc_topology *topo = scene->page->ctl->topo;
	const int a = place_of(topo, &link->end[0]), b = place_of(topo, &link->end[1]);
	const unsigned int upper = a < 0 || scene->rows[a] > scene->rows[b];
	const int lower = upper ? a : b;
	char up[24], down[24];
	struct inc_page_rates rates;
	int node;

	inc_page_link_rates(scene->page, link, upper, &rates);
	node = lower < 0 ? draw_host(scene, link->end[0].index, scene->rows[b] + 1)
			 : scene->nodes[lower];
	if (node < 0)
		return;
	inc_draw_link(scene->draw, scene->nodes[upper ? b : a], node,
		      (const char *const[INC_DRAW_FIGURES]){
			      rates.port,
			      rates.known ? inc_page_gbit(rates.up_mbit, up, sizeof(up)) : "",
			      rates.known ? inc_page_gbit(rates.down_mbit, down, sizeof(down)) : "",
		      },
		      link->rate_mbit > 0 ? (rates.up_mbit > rates.down_mbit ? rates.up_mbit
									     : rates.down_mbit) /
						    link->rate_mbit
					  : 0,
		      rates.down                                      ? INC_DRAW_BAD
		      : rates.up_mbit + rates.down_mbit >= LEAST_MBIT ? INC_DRAW_BUSY
								      : INC_DRAW_IDLE);
}

static bool is_drawn(const struct scene *scene, const struct inc_topo_link *link)
{
	/* a subnet has many addresses without a host */
	return link->end[0].kind != INC_TOPO_HOST ||
	       inc_topology_is_listed(scene->page->ctl->topo, link->end[0].index) ||
	       scene->tenants[link->end[0].index].n;
}

static void print_scene(struct scene *scene, FILE *out)
{
	const struct inc_topology *topo = scene->page->ctl->topo;

	find_rows(topo, scene->rows);
	find_tenants(scene->page->ctl, scene->tenants);
	draw_switches(scene);
	for (unsigned int i = 0; i < topo->n_live_links; i++) {
		if (is_drawn(scene, &topo->links[i]))
			draw_link(scene, &topo->links[i]);
	}
	if (inc_draw_print(&scene->draw, 1, false, out))
		fputs("<p>There is no memory for the picture.</p>\n", out);
	if (scene->n_left_out)
		fprintf(out, "<p>%u further hosts are not drawn.</p>\n", scene->n_left_out);
}

static void draw(const struct inc_page *page, FILE *out)
{
	const struct inc_topology *topo = page->ctl->topo;
	const unsigned int n = topo->n_switches + topo->n_bridges;
	struct scene scene = {.page = page};

	fputs("<h2 id=\"h-picture\">Topology</h2>\n<div class=\"wide\" id=\"picture\" data-live "
	      "tabindex=\"0\" role=\"region\" aria-labelledby=\"h-picture\">\n",
	      out);
	if (n > MAX_NODES) {
		fprintf(out, "<p>%u switches are too many for a picture.</p>\n", n);
	} else {
		scene.draw = inc_draw_new("", figures);
		scene.rows = calloc(n + 1, sizeof(*scene.rows));
		scene.nodes = calloc(n + 1, sizeof(*scene.nodes));
		scene.tenants = calloc(topo->n_hosts + 1, sizeof(*scene.tenants));
		if (scene.draw && scene.rows && scene.nodes && scene.tenants)
			print_scene(&scene, out);
		inc_draw_free(scene.draw);
		free(scene.rows);
		free(scene.nodes);
		free(scene.tenants);
	}
	fputs("</div>\n<p class=\"note\">Rates are in Gbit/s, by the counters of the switches\' "
	      "ports. Up is "
	      "towards the root. A dashed red line is a link that is down.</p>\n",
	      out);
}

void inc_page_picture(const struct inc_page *page, FILE *out)
{
	struct inc_page_drawn *drawn = page->drawn;
	const uint64_t now_ns = inc_now_ns();
	FILE *picture;

	if (!drawn->text || now_ns - drawn->at_ns >= INC_NSEC_PER_SEC) {
		free(drawn->text);
		drawn->text = NULL;
		picture = open_memstream(&drawn->text, &drawn->len);
		if (!picture)
			return;
		draw(page, picture);
		fclose(picture);
		drawn->at_ns = now_ns;
	}
	if (drawn->text)
		fwrite(drawn->text, 1, drawn->len, out);
}
