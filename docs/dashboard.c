// SPDX-License-Identifier: BSD-2-Clause
/*
 * Prints the dashboard for Grafana: a row of panels for each subject, and a query for each line
 * that a panel draws. One panel has a query for each counter of dropped packets
 * (lib/proto/counters.h). The queries name metrics of inc-switchd and inc-controller, and
 * selftests/control/test_figures checks that both have them. The build writes the output to
 * build/docs/dashboard.json.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include "lib/proto/maps.h"

#define MAX_QUERIES  3
#define PANEL_HEIGHT 8
#define COLUMNS      24
/* Grafana asks for this data source when it imports the file */
#define PROMETHEUS    "${DS_PROMETHEUS}"
#define DROP_COUNTERS "inc_counter_drop_*_total"

#define OF(metric)    metric "{switch=~\"$switch\"}"
#define RATE(metric)  "rate(" metric "[$__rate_interval])"
#define USED(kind)    OF("inc_switch_" kind) " / " OF("inc_switch_" kind "_limit")
#define RESULTS       RATE(OF("inc_communicator_results_total"))
#define BY(labels, x) "sum by (" labels ") (" x ")"

/* A panel of the dashboard. An entry with only a title is the heading of the panels that follow. */
struct panel {
	const char *title;
	unsigned int width; /* width in columns, of which a row has COLUMNS */
	const char *unit;
	const char *text;
	struct {
		const char *expr, *legend;
		/* queries of the panel; one without a legend stands for all DROP_COUNTERS */
	} queries[MAX_QUERIES];
};

/* clang-format off */
static const struct panel panels[] = {
	{.title = "What is in use"},
	{"Slots", 6, "percentunit", "Part of a switch's slots that communicators hold.",
	 {{USED("slots"), "{{switch}}"}}},
	{"Rows of contributions", 6, "percentunit",
	 "Part of a switch's rows that communicators hold: connections times slots.",
	 {{USED("rows"), "{{switch}}"}}},
	{"Connections", 6, "percentunit", "Part of a switch's connections that are in use.",
	 {{USED("connections"), "{{switch}}"}}},
	{"Communicators and rows of ranks", 6, "percentunit",
	 "Parts of the places for communicators, and of the rows that say which ranks are below a child.",
	 {{USED("communicators"), "{{switch}} communicators"}, {USED("root_rows"), "{{switch}} rows of ranks"}}},
	{"Slots by job", 12, "short", "Slots that the controller has given to each job.",
	 {{BY("job", "inc_controller_job_slots"), "{{job}}"}}},
	{"Communicators by job", 12, "short", "",
	 {{BY("job", "inc_controller_job_communicators"), "{{job}}"}}},

	{.title = "Work"},
	{"Results by job", 8, "pps", "Packets of results that the switches make, by job.",
	 {{BY("job", RESULTS " * on (communicator) group_left (job) inc_controller_communicator_info"), "{{job}}"}}},
	{"Results by communicator", 8, "pps", "", {{RESULTS, "{{switch}} {{communicator}}"}}},
	{"Bytes of results by communicator", 8, "Bps", "Bytes of the numbers in results, which each host receives.",
	 {{RESULTS " * " OF("inc_communicator_payload_bytes"), "{{switch}} {{communicator}}"}}},
	{"Port, received", 8, "Bps", "", {{RATE(OF("inc_port_rx_bytes_total")), "{{switch}} {{port}}"}}},
	{"Port, sent", 8, "Bps", "", {{RATE(OF("inc_port_tx_bytes_total")), "{{switch}} {{port}}"}}},
	{"Lost ports", 8, "none",
	 "1: the switch cannot work on the port, or the port is down. incctl status has the reason and a remedy.",
	 {{OF("inc_port_lost") " > 0", "{{switch}} {{port}}"}}},

	{.title = "Trouble"},
	{"Retransmissions", 8, "pps", "Packets that a switch sent again, by communicator.",
	 {{BY("switch, communicator", RATE(OF("inc_connection_retransmits_total"))), "{{switch}} {{communicator}}"}}},
	{"NAKs", 8, "pps", "NAKs that a switch sent for missing packets, and NAKs that it received.",
	 {{BY("switch", RATE(OF("inc_connection_naks_sent_total"))), "{{switch}} sent"},
	  {BY("switch", RATE(OF("inc_connection_naks_received_total"))), "{{switch}} received"}}},
	{"Silent peers", 8, "cps", "Timeouts of the retransmission timer, because a peer did not acknowledge.",
	 {{BY("switch, communicator, rank", RATE(OF("inc_connection_timeouts_total"))) " > 0",
	   "{{switch}} {{communicator}} rank {{rank}}"}}},
	{"Lost on the way to peers", 8, "none",
	 "1: nearly nothing that the switch sends to the peer arrives at once. incctl events has the causes and a remedy.",
	 {{OF("inc_connection_undelivered") " > 0", "{{switch}} {{communicator}} rank {{rank}}"}}},
	{"Round trip", 8, "s", "The longest round trip of each communicator's connections.",
	 {{"max by (switch, communicator) (" OF("inc_connection_rtt_seconds") ")", "{{switch}} {{communicator}}"}}},
	{"Ended communicators", 8, "short", "Communicators that an error has ended.",
	 {{BY("switch", OF("inc_communicator_ended")), "{{switch}}"}}},
	{"Dropped packets", 8, "pps", "By reason: each counter of class D.",
	 {{DROP_COUNTERS, NULL},
	  {BY("switch", RATE(OF("inc_counter_term_wrong_port_total"))) " > 0", "{{switch}} wrong port (termination)"}}},

	{.title = "Controller"},
	{"Switches", 8, "short", "All switches of the topology, and those that are connected.",
	 {{"inc_controller_switches", "in all"}, {"inc_controller_switches_connected", "connected"}}},
	{"Communicators", 8, "short", "By state.",
	 {{"inc_controller_communicators", "{{state}}"}, {"inc_controller_unclaimed", "unclaimed"}}},
	{"Communicators made, refused, failed", 8, "cps", "",
	 {{RATE("inc_controller_configured_total"), "made"}, {RATE("inc_controller_refused_total"), "refused"},
	  {RATE("inc_controller_failed_total"), "failed"}}},
	{"Events", 8, "cps", "Events that switches have reported, by kind.",
	 {{RATE("inc_controller_events_total"), "{{event}}"}}},
	{"Time to configure", 8, "s", "Mean time from the first configure to the last switch's answer.",
	 {{RATE("inc_controller_configure_seconds_total") " / " RATE("inc_controller_configured_total"), "mean"}}},
	{"Clients and messages", 8, "short", "",
	 {{"inc_controller_clients", "clients"},
	  {RATE("inc_controller_member_messages_total"), "messages of members a second"},
	  {RATE("inc_controller_switch_messages_total"), "messages of switches a second"}}},
};
/* clang-format on */

static json_t *datasource(void)
{
	return json_pack("{s:s, s:s}", "type", "prometheus", "uid", PROMETHEUS);
}

static void add_query(json_t *queries, const char *expr, const char *legend)
{
	const char id[2] = {'A' + (char)json_array_size(queries)};

	json_array_append_new(queries,
			      json_pack("{s:s, s:o, s:s, s:s}", "refId", id, "datasource",
					datasource(), "expr", expr, "legendFormat", legend));
}

/* Adds the query of a counter of drops. The panel shows drop_bad_icrc as "bad icrc", and only while
 * packets are dropped. */
static void add_drop(json_t *queries, const char *counter)
{
	char expr[200], legend[80];

	snprintf(expr, sizeof(expr), BY("switch", RATE("inc_counter_%s_total%s")) " > 0", counter,
		 OF(""));
	snprintf(legend, sizeof(legend), "{{switch}} %s", strchr(counter, '_') + 1);
	for (char *c = legend; (c = strchr(c, '_'));)
		*c = ' ';
	add_query(queries, expr, legend);
}

static void add_drops(json_t *queries)
{
#define ADD_DROP(ID, name, class, text) \
	if ((class) == 'D')             \
		add_drop(queries, #name);
	INC_COUNTERS(ADD_DROP)
#undef ADD_DROP
}

static json_t *queries_of(const struct panel *p)
{
	json_t *queries = json_array();

	for (size_t i = 0; i < MAX_QUERIES && p->queries[i].expr; i++)
		if (p->queries[i].legend)
			add_query(queries, p->queries[i].expr, p->queries[i].legend);
		else
			add_drops(queries);
	return queries;
}

static json_t *panel_json(const struct panel *p, size_t id, unsigned int x, unsigned int y)
{
	const int width = p->unit ? (int)p->width : COLUMNS, height = p->unit ? PANEL_HEIGHT : 1;
	json_t *place = json_pack("{s:i, s:i, s:i, s:i}", "h", height, "w", width, "x", (int)x, "y",
				  (int)y);

	if (!p->unit)
		return json_pack("{s:i, s:s, s:s, s:b, s:[], s:o}", "id", (int)id, "type", "row",
				 "title", p->title, "collapsed", 0, "panels", "gridPos", place);
	return json_pack("{s:i, s:s, s:s, s:s, s:o, s:o, s:{s:{s:s, s:i}, s:[]}, "
			 "s:{s:{s:s, s:s, s:b}, s:{s:s, s:s}}, s:o}",
			 "id", (int)id, "type", "timeseries", "title", p->title, "description",
			 p->text, "datasource", datasource(), "gridPos", place, "fieldConfig",
			 "defaults", "unit", p->unit, "min", 0, "overrides", "options", "legend",
			 "displayMode", "list", "placement", "bottom", "showLegend", 1, "tooltip",
			 "mode", "multi", "sort", "desc", "targets", queries_of(p));
}

/* Puts panels side by side as long as there are columns. */
static json_t *all_panels(void)
{
	json_t *list = json_array();
	unsigned int x = 0, y = 0, height = 0;

	for (size_t i = 0; i < sizeof(panels) / sizeof(panels[0]); i++) {
		const struct panel *p = &panels[i];
		const unsigned int width = p->unit ? p->width : COLUMNS;

		if (x + width > COLUMNS) {
			x = 0;
			y += height;
		}
		json_array_append_new(list, panel_json(p, i + 1, x, y));
		x += width;
		height = p->unit ? PANEL_HEIGHT : 1;
	}
	return list;
}

/* Prints the variable of the dashboard that chooses switches. */
static json_t *switch_variable(void)
{
	return json_pack(
		"{s:s, s:s, s:s, s:o, s:{s:s, s:s}, s:i, s:b, s:b, s:{s:s, s:s, s:b}, s:i}", "name",
		"switch", "label", "Switch", "type", "query", "datasource", datasource(), "query",
		"query", "label_values(inc_switch_uptime_seconds, switch)", "refId", "switch",
		"refresh", 2, "includeAll", 1, "multi", 1, "current", "text", "All", "value",
		"$__all", "selected", 1, "sort", 1);
}

static json_t *requirement(const char *type, const char *id, const char *name, const char *version)
{
	return json_pack("{s:s, s:s, s:s, s:s}", "type", type, "id", id, "name", name, "version",
			 version);
}

static json_t *dashboard(void)
{
	json_t *board = json_pack(
		"{s:[{s:s, s:s, s:s, s:s, s:s, s:s}], s:[o, o, o]}", "__inputs", "name",
		"DS_PROMETHEUS", "label", "Prometheus", "description",
		"Prometheus that scrapes inc-switchd and inc-controller --metrics", "type",
		"datasource", "pluginId", "prometheus", "pluginName", "Prometheus", "__requires",
		requirement("grafana", "grafana", "Grafana", "9.0.0"),
		requirement("datasource", "prometheus", "Prometheus", "1.0.0"),
		requirement("panel", "timeseries", "Time series", ""));
	json_t *rest = json_pack(
		"{s:s, s:s, s:s, s:[s], s:b, s:i, s:i, s:s, s:{s:s, s:s}, s:s, s:{s:[o]}, "
		"s:{s:[]}, s:o}",
		"title", "In-network collectives", "description",
		"Switches, jobs and controller. The panels show metrics of inc-switchd and "
		"inc-controller (docs/control.md, \"Figures over HTTP\"). The variable chooses "
		"switches. The controller's communicator_info has the job of each communicator.",
		"uid", "inc-collectives", "tags", "inc", "editable", 1, "schemaVersion", 37,
		"version", 1, "refresh", "5s", "time", "from", "now-15m", "to", "now", "timezone",
		"browser", "templating", "list", switch_variable(), "annotations", "list", "panels",
		all_panels());

	json_object_update(board, rest);
	json_decref(rest);
	return board;
}

int main(void)
{
	json_t *board = dashboard();
	const int failed = !board || json_dumpf(board, stdout, JSON_INDENT(1)) || putchar('\n') < 0;

	json_decref(board);
	return failed || fflush(stdout) ? 1 : 0;
}
