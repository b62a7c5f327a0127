/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The text of the page of --http, in parts that the loop makes in a moment. It is HTML that can be
 * read without its script. The script only asks for the page again and puts in what is new. All
 * texts of peers go through inc_draw_text(), which escapes them.
 */
#include <stdlib.h>
#include <string.h>
#include "controller/core/admission.h"
#include "controller/core/comm.h"
#include "controller/core/group.h"
#include "controller/core/route.h"
#include "controller/core/switch.h"
#include "controller/draw/draw.h"
#include "controller/net/ctl.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"

/* limits of what the page shows, so that no part of it takes long */
#define MAX_JOBS     200
#define MAX_SWITCHES 256
#define MAX_WAITS    50
#define MAX_LINKS    512
#define WAIT_MS      1000 /* a switch that waits for less than that is busy */

/* clang-format off */
const char inc_page_style[] =
	"body {font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 1600px; padding: 0 1em 2em; color: #1b1f24; background: #fff}\n"
	"h1 {font-size: 1.4em; margin: .6em 0 0}\n"
	"h2 {font-size: 1.1em; margin: 1.4em 0 .4em}\n"
	"p, ul {margin: .3em 0}\n"
	"ul {padding-left: 1.3em}\n"
	".note {color: #57606a; font-size: .9em}\n"
	".wide {overflow-x: auto}\n"
	".wide svg {display: block}\n"
	"table {border-collapse: collapse; font-size: .93em}\n"
	"th, td {text-align: left; padding: .2em .8em .2em 0; border-bottom: 1px solid #d0d7de; vertical-align: top; white-space: nowrap}\n"
	"td.text {white-space: normal; min-width: 20em}\n"
	".n {text-align: right; font-variant-numeric: tabular-nums}\n"
	".wrong {color: #b3261e; font-weight: bold}\n"
	"meter {width: 6em; height: .9em}\n"
	"button, summary {font: inherit; cursor: pointer}\n"
	"summary {font-weight: bold; margin-top: 1em}\n"
	":focus-visible {outline: 2px solid #0b61c4; outline-offset: 2px}\n"
	"@media (prefers-color-scheme: dark) {\n"
	"body {color: #e6edf3; background: #0d1117}\n"
	".note {color: #9da7b1}\n"
	"th, td {border-color: #3d444d}\n"
	".wrong {color: #ff7b72}\n"
	":focus-visible {outline-color: #58a6ff}\n"
	"}\n";

const char inc_page_script[] =
	"'use strict';\n"
	"const pause = document.getElementById('pause'), lost = document.getElementById('lost');\n"
	"let paused = false;\n"
	"pause.hidden = false;\n"
	"pause.addEventListener('click', () => {\n"
	"  paused = !paused;\n"
	"  pause.textContent = paused ? 'Go on' : 'Pause';\n"
	"});\n"
	"async function look() {\n"
	"  if (!paused && !document.hidden) {\n"
	"    try {\n"
	"      const answer = await fetch('', {cache: 'no-store', signal: AbortSignal.timeout(5000)});\n"
	"      const page = new DOMParser().parseFromString(await answer.text(), 'text/html');\n"
	"      for (const old of document.querySelectorAll('[data-live]')) {\n"
	"        const fresh = page.getElementById(old.id);\n"
	"        if (fresh && fresh.innerHTML !== old.innerHTML)\n"
	"          old.replaceChildren(...fresh.childNodes);\n"
	"      }\n"
	"      lost.textContent = '';\n"
	"    } catch {\n"
	"      lost.textContent = 'The controller does not answer. This is what it said last.';\n"
	"    }\n"
	"  }\n"
	"  setTimeout(look, 1000);\n"
	"}\n"
	"setTimeout(look, 1000);\n";
/* clang-format on */

/* Prints a text in a cell of a table, or in an entry of a list. */
static void cell(FILE *out, const char *class, const char *text)
{
	fprintf(out, "<td%s%s%s>", *class ? " class=\"" : "", class, *class ? "\"" : "");
	inc_draw_text(out, text);
	fputs("</td>", out);
}

__attribute__((format(printf, 2, 3))) static void number(FILE *out, const char *fmt, ...)
{
	char text[64];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	cell(out, "n", text);
}

/* Prints how much of a limit is used, with a bar. A limit of 0 is unknown, or there is none. */
static void usage(FILE *out, uint64_t used, uint64_t limit)
{
	if (!limit) {
		number(out, "%llu", (unsigned long long)used);
		return;
	}
	fprintf(out,
		"<td class=\"n\">%llu of %llu <meter aria-hidden=\"true\" value=\"%llu\" "
		"max=\"%llu\"></meter></td>",
		(unsigned long long)used, (unsigned long long)limit, (unsigned long long)used,
		(unsigned long long)limit);
}

/* Begins a part of the page with a table. titles are the heads of its columns; those that begin
 * with # are of numbers. */
static void begin_table(FILE *out, const char *id, const char *heading, const char *const *titles)
{
	fprintf(out,
		"<h2 id=\"h-%s\">%s</h2>\n<div class=\"wide\" id=\"%s\" data-live tabindex=\"0\" "
		"role=\"region\" aria-labelledby=\"h-%s\">\n<table>\n<thead><tr>",
		id, heading, id, id);
	for (; *titles; titles++)
		fprintf(out, "<th scope=\"col\"%s>%s</th>", **titles == '#' ? " class=\"n\"" : "",
			*titles + (**titles == '#'));
	fputs("</tr></thead>\n<tbody>\n", out);
}

static void end_table(FILE *out, unsigned int left_out)
{
	fputs("</tbody></table>\n", out);
	if (left_out)
		fprintf(out, "<p>%u more are not shown.</p>\n", left_out);
	fputs("</div>\n", out);
}

/* Prints a time as "5 s", "12 min" or "3.5 h". */
static const char *age_text(uint64_t ms, char *buf, size_t size)
{
	const double s = (double)ms / 1e3;

	if (s < 120)
		snprintf(buf, size, "%.0f s", s);
	else if (s < 7200)
		snprintf(buf, size, "%.0f min", s / 60);
	else
		snprintf(buf, size, "%.1f h", s / 3600);
	return buf;
}

static void print_head(const struct inc_page *page, FILE *out)
{
	const struct inc_ctl *ctl = page->ctl;
	unsigned int connected = 0;
	char at[INC_LOG_TIME_BYTES], age[32];

	for (unsigned int i = 0; i < ctl->topo->n_switches; i++)
		connected += ctl->core.switches[i]->connected;
	fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>",
	      out);
	inc_draw_text(out, ctl->topo->name);
	fputs(" – inc-controller</title>\n"
	      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
	      "<meta name=\"color-scheme\" content=\"light dark\">\n"
	      "<link rel=\"icon\" href=\"data:,\">\n"
	      "<noscript><meta http-equiv=\"refresh\" content=\"2\"></noscript>\n",
	      out);
	fprintf(out, "<style>%s</style>\n</head>\n<body>\n<header>\n<h1>", page->style);
	inc_draw_text(out, ctl->topo->name);
	inc_log_time(inc_wall_ns(), at);
	fprintf(out,
		"</h1>\n<p id=\"state\" data-live>%u of %u switches connected, %u connections of "
		"members and tools, up for %s, at <time>%s</time></p>\n",
		connected, ctl->topo->n_switches, ctl->n_clients,
		age_text(inc_now_ms() - ctl->started_at_ms, age, sizeof(age)), at);
	fputs("<p><button id=\"pause\" type=\"button\" hidden>Pause</button> <span id=\"lost\" "
	      "class=\"wrong\" role=\"status\"></span></p>\n</header>\n<main>\n",
	      out);
}

/* The speed of a group's communicators together. */
struct speed {
	double results_per_s, mbit_per_s;
	int busy_percent; /* of the busiest one; -1: unknown */
};

static struct speed speed_of(const struct inc_page *page, const struct inc_group *group)
{
	struct speed sum = {.busy_percent = -1};
	const struct inc_page_speed *speed;
	const struct inc_comm *comm;
	int percent;

	LIST_FOREACH (comm, &group->comms, entry) {
		speed = comm->number ? inc_page_speed(page, comm->number) : NULL;
		if (!speed)
			continue;
		sum.results_per_s += speed->results_per_s;
		sum.mbit_per_s += speed->mbit_per_s;
		percent = 100 * __builtin_popcount(speed->busy) / (int)speed->answers;
		sum.busy_percent = percent > sum.busy_percent ? percent : sum.busy_percent;
	}
	return sum;
}

static void print_job(const struct inc_page *page, const struct inc_group *group,
		      uint64_t all_slots, FILE *out)
{
	const struct inc_job_load load = inc_group_load(group);
	const struct speed speed = speed_of(page, group);
	char age[32], gbit[24];

	fputs("<tr>", out);
	cell(out, "", group->job);
	number(out, "%u", group->number);
	cell(out, "", inc_group_state_name(group));
	number(out, "%s", age_text(inc_now_ms() - group->since_at_ms, age, sizeof(age)));
	number(out, "%u of %u", group->connected, group->world_size);
	number(out, "%llu", (unsigned long long)load.communicators);
	usage(out, load.slots, all_slots);
	if (speed.busy_percent < 0) {
		number(out, "–");
		number(out, "–");
		number(out, "–");
	} else {
		number(out, "%.0f", speed.results_per_s);
		number(out, "%s", inc_page_gbit(speed.mbit_per_s, gbit, sizeof(gbit)));
		fprintf(out,
			"<td class=\"n\">%d %% <meter aria-hidden=\"true\" value=\"%d\" "
			"max=\"100\"></meter></td>",
			speed.busy_percent, speed.busy_percent);
	}
	fputs("</tr>\n", out);
}

static void print_jobs(const struct inc_page *page, FILE *out)
{
	static const char *const titles[] = {
		"Job",    "#Group",     "State",           "#Age",       "#Ranks", "#Communicators",
		"#Slots", "#Results/s", "#Results Gbit/s", "#Time busy", NULL};
	const struct inc_ctl *ctl = page->ctl;
	const struct inc_group *group;
	uint64_t all_slots = 0;
	unsigned int n = 0;

	LIST_FOREACH (group, &ctl->core.groups, entry)
		all_slots += inc_group_load(group).slots;
	begin_table(out, "jobs", "Jobs", titles);
	LIST_FOREACH (group, &ctl->core.groups, entry) {
		if (n++ < MAX_JOBS)
			print_job(page, group, all_slots, out);
	}
	if (!n)
		fputs("<tr><td colspan=\"10\">There is no job.</td></tr>\n", out);
	end_table(out, n > MAX_JOBS ? n - MAX_JOBS : 0);
	fputs("<p class=\"note\">The bar of slots is the job's share of all slots in use. Time "
	      "busy "
	      "is the share of the last two minutes of watching in which results were made.</p>\n",
	      out);
}

/* Prints an entry of the list of waits, if it has room. */
__attribute__((format(printf, 4, 5))) static void wait_entry(FILE *out, unsigned int *n,
							     uint64_t ms, const char *fmt, ...)
{
	char text[700], age[32];
	va_list args;

	if ((*n)++ >= MAX_WAITS)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	fputs("<li>", out);
	inc_draw_text(out, text);
	fprintf(out, ", for %s</li>\n", age_text(ms, age, sizeof(age)));
}

static uint64_t waited_ms(struct inc_ctl *ctl, const struct inc_core_wait *wait)
{
	return (inc_timeouts_now_ns(&ctl->timeouts) - wait->began_at_ns) / INC_NSEC_PER_MSEC;
}

/* Prints which ranks are missing in groups and communicators that have not begun yet. */
static void print_group_waits(struct inc_ctl *ctl, unsigned int *n, FILE *out)
{
	const struct inc_group *group;
	const struct inc_comm *comm;
	char text[340], down[INC_DOWN_TEXT];

	LIST_FOREACH (group, &ctl->core.groups, entry) {
		if (group->phase == GROUP_FORMING) {
			inc_group_list_absent(group, text, sizeof(text));
			inc_group_print_down(group, down, sizeof(down));
			wait_entry(out, n, waited_ms(ctl, &group->wait),
				   "job %s waits for %s to join%s%s", group->job, text,
				   *down ? "; " : "", down);
		}
		LIST_FOREACH (comm, &group->comms, entry) {
			if (inc_comm_describe_wait(comm, text, sizeof(text)))
				wait_entry(out, n, waited_ms(ctl, &comm->wait),
					   "communicator %u of job %s waits for %s",
					   inc_channel_comm(comm->index), group->job, text);
		}
	}
}

/* Whether a missing peer is a switch that itself waits for a peer below it in this communicator, so
 * that this wait explains nothing. */
static bool is_explained(const struct inc_page *page, const char *peer, json_int_t communicator)
{
	const int sw = *peer ? inc_topology_switch_by_name(page->ctl->topo, peer) : -1;

	return sw >= 0 && (unsigned int)sw < page->n_switches &&
	       inc_page_waits_below(&page->switches[sw], communicator);
}

static void print_missing(const struct inc_page *page, const char *sw, const json_t *entry,
			  unsigned int *n, FILE *out)
{
	const json_int_t communicator = json_integer_value(json_object_get(entry, "communicator"));
	const json_t *missing;
	size_t i;

	json_array_foreach (json_object_get(entry, "missing"), i, missing) {
		const char *peer = inc_ctl_text(missing, "peer"),
			   *host = inc_ctl_text(missing, "host"),
			   *reason = inc_ctl_text(missing, "reason");
		const json_int_t ms = json_integer_value(json_object_get(missing, "since_ms"));
		char who[80];

		if (ms < WAIT_MS || json_is_true(json_object_get(missing, "up")) ||
		    is_explained(page, peer, communicator))
			continue;
		if (*peer)
			snprintf(who, sizeof(who), "switch %s", peer);
		else
			snprintf(who, sizeof(who), "rank %lld",
				 (long long)json_integer_value(json_object_get(missing, "rank")));
		wait_entry(out, n, ms,
			   "switch %s waits for %s%s%s%s in communicator %lld of job %s%s%s", sw,
			   who, *host ? " (" : "", host, *host ? ")" : "", (long long)communicator,
			   inc_ctl_text(entry, "job"), *reason ? ": " : "", reason);
	}
}

static void print_waits(const struct inc_page *page, FILE *out)
{
	struct inc_ctl *ctl = page->ctl;
	const json_t *entry;
	unsigned int n = 0;
	size_t i;

	fputs("<h2 id=\"h-waits\">Waits</h2>\n<div id=\"waits\" data-live>\n<ul>\n", out);
	print_group_waits(ctl, &n, out);
	for (unsigned int s = 0; s < page->n_switches; s++) {
		if (!ctl->core.switches[s]->connected)
			continue;
		json_array_foreach (page->switches[s].waiting, i, entry)
			print_missing(page, inc_switch_name(ctl->core.switches[s]), entry, &n, out);
	}
	fputs("</ul>\n", out);
	if (!n)
		fputs("<p>There is no wait of a second or longer.</p>\n", out);
	else if (n > MAX_WAITS)
		fprintf(out, "<p>%u more are not shown.</p>\n", n - MAX_WAITS);
	fputs("</div>\n", out);
}

static void print_events(const struct inc_page *page, FILE *out)
{
	static const char *const titles[] = {"Time",          "From",    "Event",
					     "#Communicator", "Message", NULL};
	const unsigned int n = page->n_events < INC_PAGE_EVENTS ? page->n_events : INC_PAGE_EVENTS;
	char at[INC_LOG_TIME_BYTES];

	begin_table(out, "events", "Events", titles);
	for (unsigned int i = 1; i <= n; i++) {
		const struct inc_page_event *event =
			&page->events[(page->n_events - i) % INC_PAGE_EVENTS];

		inc_log_time(event->time_ns, at);
		fputs("<tr>", out);
		cell(out, "", at);
		cell(out, "", event->from);
		cell(out, "", event->kind);
		number(out, "%u", event->communicator);
		cell(out, "text", event->message);
		fputs("</tr>\n", out);
	}
	if (!n)
		fputs("<tr><td colspan=\"5\">There is no event since the controller was "
		      "started.</td></tr>\n",
		      out);
	end_table(out, 0);
}

static void print_switches(const struct inc_page *page, FILE *out)
{
	static const char *const titles[] = {"Switch", "State",          "#Since",
					     "Mode",   "#Communicators", "#Connections",
					     "#Slots", "#Rows",          NULL};
	const struct inc_ctl *ctl = page->ctl;
	const unsigned int n = ctl->topo->n_switches;
	char age[32];

	begin_table(out, "switches", "Switches", titles);
	for (unsigned int s = 0; s < n && s < MAX_SWITCHES; s++) {
		const struct inc_core_switch *sw = ctl->core.switches[s];
		const struct inc_msg_limits *limits = inc_routes_limits(ctl->core.routes, s);
		struct inc_load load = {};

		inc_switch_load(sw, &load);
		fputs("<tr>", out);
		cell(out, "", inc_switch_name(sw));
		cell(out, sw->connected ? "" : "wrong", sw->connected ? "connected" : "absent");
		number(out, "%s", age_text(inc_now_ms() - sw->since_at_ms, age, sizeof(age)));
		cell(out, "", inc_mode_settings[inc_switch_setting(sw)]);
		usage(out, load.communicators, limits->communicators);
		usage(out, load.connections, limits->connections);
		number(out, "%llu", (unsigned long long)load.slots);
		usage(out, load.rows, limits->rows);
		fputs("</tr>\n", out);
	}
	end_table(out, n > MAX_SWITCHES ? n - MAX_SWITCHES : 0);
}

static void print_link(const struct inc_page *page, const struct inc_topo_link *link, FILE *out)
{
	const struct inc_topology *topo = page->ctl->topo;
	struct inc_page_rates rates;
	char gbit[24];

	inc_page_link_rates(page, link, 1, &rates);
	fputs("<tr>", out);
	for (unsigned int e = 2; e--;) {
		cell(out, "", inc_page_end_name(topo, &link->end[e]));
		cell(out, "", inc_page_port_name(topo, &link->end[e]));
	}
	number(out, "%g", link->rate_mbit / 1e3);
	number(out, "%s", rates.known ? inc_page_gbit(rates.up_mbit, gbit, sizeof(gbit)) : "–");
	number(out, "%s", rates.known ? inc_page_gbit(rates.down_mbit, gbit, sizeof(gbit)) : "–");
	cell(out, rates.down ? "wrong" : "", rates.down ? "down" : rates.known ? "up" : "–");
	cell(out, "text", rates.reason);
	fputs("</tr>\n", out);
}

static void print_links(const struct inc_page *page, FILE *out)
{
	static const char *const titles[] = {"Switch or bridge",
					     "Port",
					     "Peer",
					     "Its port",
					     "#Rate Gbit/s",
					     "#From peer Gbit/s",
					     "#To peer Gbit/s",
					     "Link",
					     "Reason",
					     NULL};
	const struct inc_topology *topo = page->ctl->topo;
	unsigned int n = 0;

	fputs("<details><summary>Links as a table</summary>\n", out);
	begin_table(out, "links", "Links", titles);
	for (unsigned int i = 0; i < topo->n_live_links; i++) {
		const struct inc_topo_link *link = &topo->links[i];

		/* a subnet has many addresses without a host, and no figures of a host's own cable
		 */
		if (link->end[0].kind == INC_TOPO_HOST &&
		    !inc_topology_is_listed(topo, link->end[0].index))
			continue;
		if (n++ < MAX_LINKS)
			print_link(page, link, out);
	}
	end_table(out, n > MAX_LINKS ? n - MAX_LINKS : 0);
	fprintf(out, "</details>\n</main>\n<script>%s</script>\n</body>\n</html>\n",
		inc_page_script);
}

bool inc_page_print(const struct inc_page *page, struct inc_scrape_at *at, FILE *out)
{
	static void (*const sections[])(const struct inc_page *page, FILE *out) = {
		print_head,   inc_page_picture, print_jobs, print_waits,
		print_events, print_switches,   print_links};

	sections[at->section++](page, out);
	return at->section < sizeof(sections) / sizeof(sections[0]);
}
