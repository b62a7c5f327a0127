/* SPDX-License-Identifier: BSD-2-Clause */
/* All figures of a switch: as JSON families for queries (query.c), and as Prometheus text, in
 * parts, for scrapes. Both forms have the same figures. */
#include <stdio.h>
#include "lib/base/clock.h"
#include "lib/metric/metric.h"
#include "userspace/interface.h"
#include "userspace/switchd.h"

/* After this number of lines a part of a scrape ends. They take the event loop a fraction of a
 * millisecond. */
#define PART_LINES 512

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static const struct inc_metric usage_metrics[] = {
	INC_USAGE_FIGURES(INC_METRIC_ROW, inc_engine_usage)};
static const struct inc_metric interface_metrics[] = {
	INC_INTERFACE_FIGURES(INC_METRIC_ROW, inc_interface_stats)};
static const struct inc_metric port_metrics[] = {INC_PORT_FIGURES(INC_METRIC_ROW, inc_engine_port)};
static const struct inc_metric comm_metrics[] = {INC_COMM_FIGURES(INC_METRIC_ROW, inc_engine_comm)};
static const struct inc_metric conn_metrics[] = {INC_CONN_FIGURES(INC_METRIC_ROW, inc_engine_conn)};

void inc_figures_add_usage(const struct inc_engine_usage *usage, json_t *object)
{
	inc_metric_json(INC_METRICS(usage_metrics), usage, object);
}

void inc_figures_add_port(const struct inc_engine_port *port,
			  const struct inc_interface_stats *stats, json_t *object)
{
	inc_metric_json(INC_METRICS(interface_metrics), stats, object);
	inc_metric_json(INC_METRICS(port_metrics), port, object);
}

void inc_figures_add_comm(const struct inc_engine_comm *comm, json_t *object)
{
	inc_metric_json(INC_METRICS(comm_metrics), comm, object);
}

void inc_figures_add_conn(const struct inc_engine_conn *conn, json_t *object)
{
	inc_metric_json(INC_METRICS(conn_metrics), conn, object);
}

uint64_t inc_figures_uptime_s(const struct inc_daemon *d)
{
	return (inc_now_ns() - d->started_at_ns) / INC_NSEC_PER_SEC;
}

static void sample_counters(const struct inc_daemon *d, json_t *families)
{
	struct inc_engine_counters c;
	size_t i;

	if (inc_engines_counters(d, &c, NULL))
		return;
	for (i = 0; i < c.n; i++) {
		const struct inc_metric m = {
			.name = c.counter[i].name,
			.unit = c.counter[i].class == 'X' ? "" : "packets",
			.kind = INC_METRIC_COUNTER,
			.text = c.counter[i].text,
		};

		inc_metric_sample(families, "counter", &m, 1, &c.counter[i].value,
				  json_pack("{s:s%}", "class", &c.counter[i].class, (size_t)1));
	}
}

void inc_figures_switch(const struct inc_daemon *d, json_t *families)
{
	static const struct inc_metric uptime = {"uptime_seconds", "seconds", INC_METRIC_GAUGE,
						 "since the switch was started", 0};
	const uint64_t up = inc_figures_uptime_s(d);
	struct inc_engine_usage usage;
	struct inc_interface_stats stats;
	uint32_t i;

	inc_engines_usage(d, &usage);
	inc_metric_sample(families, "switch", &uptime, 1, &up, NULL);
	inc_metric_sample(families, "switch", INC_METRICS(usage_metrics), &usage, NULL);
	sample_counters(d, families);
	INC_FOR_ENGINES (d, e)
		e->ops->tell_metrics(e, families);
	for (i = 0; i < d->n_ports; i++) {
		const struct inc_engine_port *port = &d->port[i];

		inc_interface_read_stats(port->name, &stats);
		inc_metric_sample(families, "port", INC_METRICS(interface_metrics), &stats,
				  json_pack("{s:s}", "port", port->name));
		inc_metric_sample(families, "port", INC_METRICS(port_metrics), port,
				  json_pack("{s:s}", "port", port->name));
	}
}

/* The values of the labels that identify a connection: its communicator and rank. */
struct conn_name {
	char communicator[16];
	char rank[16];
};

static void name_comm(struct conn_name *name, const struct inc_engine_comm *comm)
{
	snprintf(name->communicator, sizeof(name->communicator), "%u", comm->communicator);
}

static void name_conn(struct conn_name *name, const struct inc_engine_conn *conn)
{
	if (conn->up)
		snprintf(name->rank, sizeof(name->rank), "parent");
	else
		snprintf(name->rank, sizeof(name->rank), "%u", conn->rank);
}

void inc_figures_comm(const struct inc_daemon *d, const struct inc_comm_at *at, json_t *families)
{
	const struct inc_engine_comm *comm = &at->comm;
	struct inc_engine_conn conn;
	struct conn_name name;
	uint32_t c;

	name_comm(&name, comm);
	inc_metric_sample(families, "communicator", INC_METRICS(comm_metrics), comm,
			  json_pack("{s:s}", "communicator", name.communicator));
	for (c = 0; c < comm->connections; c++) {
		at->engine->ops->conn(at->engine, at->place, c, &conn);
		name_conn(&name, &conn);
		inc_metric_sample(families, "connection", INC_METRICS(conn_metrics), &conn,
				  json_pack("{s:s, s:s}", "communicator", name.communicator, "rank",
					    name.rank));
	}
}

static void print_switch(const struct inc_daemon *d, FILE *out)
{
	const char *const from[] = {"switch", d->conf.name};
	json_t *own = json_array(), *families = json_array();

	inc_figures_switch(d, own);
	inc_metric_merge(families, own, from);
	inc_metric_print(out, families);
	json_decref(families);
	json_decref(own);
}

/* Prints one figure of a communicator, or of each of its connections. m: the figure, which is one
 * of comm_metrics or conn_metrics. Returns the number of lines. */
static uint32_t print_comm(const struct inc_daemon *d, const struct inc_comm_at *at,
			   const struct inc_metric *m, bool of_connections, FILE *out)
{
	const struct inc_engine_comm *comm = &at->comm;
	struct inc_engine_conn conn;
	struct conn_name name;
	const struct inc_label labels[] = {
		{"switch", d->conf.name},
		{"communicator", name.communicator},
		{of_connections ? "rank" : NULL, name.rank},
		{},
	};
	uint32_t c;

	name_comm(&name, comm);
	if (!of_connections) {
		inc_metric_print_sample(out, "communicator", m, comm, labels);
		return 1;
	}
	for (c = 0; c < comm->connections; c++) {
		at->engine->ops->conn(at->engine, at->place, c, &conn);
		name_conn(&name, &conn);
		inc_metric_print_sample(out, "connection", m, &conn, labels);
	}
	return c;
}

/* Prints one part of a scrape. Section 0 has the figures of the switch itself. Each figure of
 * communicators, and then of connections, has a section, because the samples of a family must be
 * consecutive. The position within a section is a cursor of inc_daemon_next_comm(), because
 * communicators may come and go between two parts. */
bool inc_figures_part(void *arg, struct inc_scrape_at *part, FILE *out)
{
	const struct inc_daemon *d = arg;
	const bool of_connections = part->section > COUNT(comm_metrics);
	const struct inc_metric *m;
	struct inc_comm_at at;
	uint32_t lines = 0;

	if (!part->section) {
		print_switch(d, out);
		part->section++;
		return true;
	}
	m = of_connections ? &conn_metrics[part->section - 1 - COUNT(comm_metrics)]
			   : &comm_metrics[part->section - 1];
	if (!part->place)
		inc_metric_print_head(out, of_connections ? "connection" : "communicator", m);
	while (inc_daemon_next_comm(d, &part->place, &at)) {
		lines += print_comm(d, &at, m, of_connections, out);
		if (lines >= PART_LINES)
			return true;
	}
	part->place = 0;
	part->section++;
	return part->section <= COUNT(comm_metrics) + COUNT(conn_metrics);
}
