/* SPDX-License-Identifier: BSD-2-Clause */
/* Answers to queries about the switch (docs/control.md, "What a query answers"). */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/clock.h"
#include "userspace/interface.h"
#include "userspace/neighbour.h"
#include "userspace/switchd.h"

/* Number of connections after which a page of an answer ends. They are about 250 KB of JSON, and a
 * line may have 1 MiB. */
#define PAGE_CONNECTIONS 512

/* One page of an answer, which is too long for one line. from and next are cursors of
 * inc_daemon_next_comm(), which stay valid while communicators come and go. */
struct inc_page {
	bool has_only;
	/* if has_only is set: number of the only communicator that the query asks for */
	uint32_t only;
	uint32_t from;
	uint32_t next; /* cursor of the next page; 0: this is the last page */
};

static json_t *count(uint64_t v)
{
	return json_integer((json_int_t)v);
}

static json_t *query_status(struct inc_daemon *d, struct inc_page *page, struct inc_err *err)
{
	struct inc_engine_usage u;
	json_t *usage = json_object(), *status;

	inc_engines_usage(d, &u);
	inc_figures_add_usage(&u, usage);
	status = json_pack("{s:s, s:i, s:I, s:s, s:I, s:o}", "switch", d->conf.name, "version",
			   INC_CONTROL_VERSION, "uptime_s", (json_int_t)inc_figures_uptime_s(d),
			   "controller", d->client ? inc_client_state(d->client) : "none",
			   "communicators", (json_int_t)u.communicators, "usage", usage);
	if (!status)
		return NULL;
	json_object_set_new(status, "mode",
			    json_string(inc_modes_of_switch[d->conf.settings.mode]));
	INC_FOR_ENGINES (d, e)
		e->ops->tell_status(e, status);
	return status;
}

static json_t *query_counters(struct inc_daemon *d, struct inc_page *page, struct inc_err *err)
{
	json_t *list = json_array();
	struct inc_engine_counters c;
	size_t i;

	if (inc_engines_counters(d, &c, err)) {
		json_decref(list);
		return NULL;
	}
	for (i = 0; i < c.n; i++)
		json_array_append_new(
			list, json_pack("{s:s, s:s%, s:o, s:s}", "name", c.counter[i].name, "class",
					&c.counter[i].class, (size_t)1, "value",
					count(c.counter[i].value), "text", c.counter[i].text));
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o}", "received", count(c.received),
			 "passed", count(c.passed), "dropped", count(c.dropped), "absorbed",
			 count(c.absorbed), "answered", count(c.answered), "multicast",
			 count(c.multicast), "balanced", (int)c.balanced, "counters", list);
}

json_t *inc_query_port_list(struct inc_daemon *d, bool given)
{
	json_t *list = json_array(), *object;
	struct ifaddrs *addrs;
	uint32_t i;

	if (getifaddrs(&addrs))
		addrs = NULL;
	for (i = 0; i < d->n_ports; i++) {
		object = inc_interface_json(d->port[i].name, addrs);
		if (given) {
			json_object_set_new(object, "name", json_string(d->port[i].given));
			json_object_set_new(object, "reason", json_string(d->port[i].reason));
		}
		json_array_append_new(list, object);
	}
	if (addrs)
		freeifaddrs(addrs);
	return list;
}

static const char *link_of(const struct inc_engine_port *port)
{
	if (port->gone)
		return "gone";
	if (port->condition == INC_PORT_DOWN)
		return "down";
	return port->no_carrier_at_ns ? "no_carrier" : "up";
}

/* Adds what the kernel and the driver report of a port. */
static void add_device(const struct inc_engine_port *port, json_t *object)
{
	const unsigned int speed_mbit = inc_interface_speed_mbit(port->name);
	char driver[INC_INTERFACE_DRIVER];

	inc_interface_driver(port->name, driver);
	json_object_set_new(object, "link", json_string(link_of(port)));
	json_object_set_new(object, "speed_mbit",
			    speed_mbit ? json_integer(speed_mbit) : json_null());
	json_object_set_new(object, "driver", json_string(driver));
}

static json_t *query_ports(struct inc_daemon *d, struct inc_page *page, struct inc_err *err)
{
	static const char *const states[] = {
		[INC_PORT_UP] = "up", [INC_PORT_DOWN] = "down", [INC_PORT_LOST] = "lost"};
	json_t *list, *v;
	const char *troubles[INC_MAX_PORTS], *reason;
	struct inc_interface_stats stats;
	size_t i;

	/* check the ports now, so that the answer has their present condition */
	inc_ports_check(d);
	list = inc_query_port_list(d, false);
	inc_events_by_port(d, troubles);
	inc_configured_by_port(d, troubles);
	json_array_foreach (list, i, v) {
		const struct inc_engine_port *port = &d->port[i];

		inc_interface_read_stats(port->name, &stats);
		json_object_set_new(v, "ifindex", json_integer(port->ifindex));
		json_object_set_new(v, "state", json_string(states[port->condition]));
		reason = *port->reason ? port->reason : troubles[i];
		json_object_set_new(v, "reason", json_string(reason ?: ""));
		add_device(port, v);
		INC_FOR_ENGINES (d, e)
			if (e->ops->tell_port)
				e->ops->tell_port(e, i, v);
		inc_figures_add_port(port, &stats, v);
	}
	return list;
}

/* Adds to each port of the list what its network looks like from here. */
static void add_neighbours(const struct inc_daemon *d, json_t *list)
{
	unsigned int room = INC_NEIGHBOURS_SHOWN;
	struct inc_neighbour *table;
	struct ifaddrs *addrs;
	json_t *object;
	size_t i;
	int n;

	n = inc_neighbour_list(&table);
	if (getifaddrs(&addrs))
		addrs = NULL;
	json_array_foreach (list, i, object) {
		const struct inc_engine_port *port = &d->port[i];

		inc_lldp_introduce(d->lldp, port->ifindex, d->conf.name, port->given);
		add_device(port, object);
		json_object_set_new(object, "prefix",
				    json_integer(inc_interface_prefix(port->name, addrs)));
		json_object_set_new(object, "neighbours",
				    inc_neighbour_json(table, n, port->ifindex, &room));
		json_object_set_new(object, "lldp", json_boolean(d->lldp));
		json_object_set_new(object, "introduced", inc_lldp_json(d->lldp, port->ifindex));
	}
	if (addrs)
		freeifaddrs(addrs);
	free(table);
}

/* Answers with what is seen at the other ends of the ports' cables. Each port also introduces
 * itself there by an LLDP frame, because a switch at the other end may be asked next. */
static json_t *query_neighbours(struct inc_daemon *d, struct inc_page *page, struct inc_err *err)
{
	json_t *list;

	inc_ports_check(d);
	list = inc_query_port_list(d, true);
	add_neighbours(d, list);
	return list;
}

static json_t *conn_json(const struct inc_engine_comm *comm, const struct inc_engine_conn *c)
{
	static const char *const health[] = {
		[INC_CONN_IDLE] = "idle",
		[INC_CONN_ACTIVE] = "active",
		[INC_CONN_UNDELIVERED] = "undelivered",
		[INC_CONN_UNRESPONSIVE] = "unresponsive",
		[INC_CONN_ENDED] = "ended",
	};
	char own_ip[INC_ADDR_TEXT], peer_ip[INC_ADDR_TEXT];
	json_t *object;

	object = json_pack("{s:I, s:b, s:I, s:s, s:s, s:s, s:i, s:I, s:s, s:I, s:i, s:s}",
			   "communicator", (json_int_t)comm->communicator, "up", c->up, "rank",
			   (json_int_t)c->rank, "host", "", "port", c->port, "peer_ip",
			   inc_addr_text(c->peer.ip, peer_ip), "peer_port", (int)c->peer.udp_port,
			   "peer_qp", (json_int_t)c->peer.qpn, "own_ip",
			   inc_addr_text(c->own.ip, own_ip), "own_qp", (json_int_t)c->own.qpn,
			   "error", (int)c->error, "state", health[c->health]);
	json_object_set_new(object, "reason", json_string(c->reason ?: ""));
	if (inc_verbs_conf_any(&c->verbs))
		json_object_set_new(object, "verbs",
				    inc_schema_print(&inc_verbs_schema, INC_FILE_ONLY, &c->verbs));
	inc_figures_add_conn(c, object);
	return object;
}

typedef void (*comm_fn)(const struct inc_daemon *d, const struct inc_comm_at *at, json_t *list);

/* Calls fn for each communicator from page->from on, until the page is full. A page has all
 * connections of each of its communicators. */
static json_t *each_comm(const struct inc_daemon *d, struct inc_page *page, comm_fn fn,
			 json_t *list)
{
	uint32_t cursor = page->from, n = 0;
	struct inc_comm_at at;

	while (inc_daemon_next_comm(d, &cursor, &at)) {
		if (page->has_only && at.comm.communicator != page->only)
			continue;
		if (n >= PAGE_CONNECTIONS) {
			page->next = cursor - 1;
			break;
		}
		fn(d, &at, list);
		n += at.comm.connections;
	}
	return list;
}

static void add_connections(const struct inc_daemon *d, const struct inc_comm_at *at, json_t *list)
{
	struct inc_engine_conn conn;
	uint32_t c;

	for (c = 0; c < at->comm.connections; c++) {
		at->engine->ops->conn(at->engine, at->place, c, &conn);
		json_array_append_new(list, conn_json(&at->comm, &conn));
	}
}

static json_t *query_connections(struct inc_daemon *d, struct inc_page *page, struct inc_err *err)
{
	return each_comm(d, page, add_connections, json_array());
}

static void add_communicator(const struct inc_daemon *d, const struct inc_comm_at *at, json_t *list)
{
	const struct inc_engine_comm *comm = &at->comm;
	json_t *object = json_pack(
		"{s:I, s:i, s:s, s:s, s:i, s:s}", "communicator", (json_int_t)comm->communicator,
		"payload",
		/* the key "payload" has the old name of payload_bytes, for scripts */
		(int)comm->payload_bytes, "role", inc_configured_role(d, comm->communicator),
		"byte_order", inc_byte_orders[comm->byte_order], "error", (int)comm->error,
		"reason", comm->reason ?: "");

	json_object_set_new(object, "cpu", comm->cpu >= 0 ? json_integer(comm->cpu) : json_null());
	inc_figures_add_comm(comm, object);
	json_array_append_new(list, object);
}

static json_t *query_communicators(struct inc_daemon *d, struct inc_page *page, struct inc_err *err)
{
	return each_comm(d, page, add_communicator, json_array());
}

/* Returns a text that names what is wrong with the port of a connection, for its communicator, or
 * "". */
static const char *trouble_of(const struct inc_daemon *d, uint32_t communicator,
			      const struct inc_engine_conn *conn)
{
	const struct inc_engine_port *port = inc_ports_find(d, conn->port);
	const char *trouble;

	if (!port || *port->reason)
		return port ? port->reason : "";
	trouble = inc_event_of_loss(d, communicator, conn);
	return trouble ?: inc_configured_lacks_at(d, communicator, port);
}

/* A peer whose packets are missing, and what is wrong with the port that leads to it. */
static json_t *missing_json(const struct inc_daemon *d, uint32_t communicator,
			    const struct inc_engine_conn *conn, uint64_t waited_ms)
{
	json_t *object = conn->up ? json_pack("{s:b}", "up", true)
				  : json_pack("{s:I}", "rank", (json_int_t)conn->rank);

	json_object_set_new(object, "since_ms", count(waited_ms));
	json_object_set_new(object, "port", json_string(conn->port));
	json_object_set_new(object, "reason", json_string(trouble_of(d, communicator, conn)));
	return object;
}

/* Adds to the answer the oldest incomplete chunk of a communicator, with the children that have
 * contributed to it and those that have not. */
static void add_waiting(const struct inc_daemon *d, const struct inc_comm_at *at, json_t *list)
{
	const struct inc_engine *e = at->engine;
	json_t *arrived = json_array(), *missing = json_array();
	struct inc_engine_waiting w;
	struct inc_engine_conn conn;
	uint32_t c;

	if (!e->ops->waiting(e, at->place, &w))
		goto none;
	for (c = 0; c < at->comm.connections; c++) {
		e->ops->conn(e, at->place, c, &conn);
		if (!conn.up && w.arrived >> c & 1)
			json_array_append_new(arrived, json_integer(conn.rank));
		else if (!conn.up || w.up)
			json_array_append_new(missing, missing_json(d, at->comm.communicator, &conn,
								    w.waited_ms));
	}
	json_array_append_new(list,
			      json_pack("{s:I, s:o, s:O, s:O}", "communicator",
					(json_int_t)at->comm.communicator, "chunk", count(w.chunk),
					"arrived", arrived, "missing", missing));
none:
	json_decref(arrived);
	json_decref(missing);
}

static void add_config(const struct inc_daemon *d, const struct inc_comm_at *at, json_t *list)
{
	inc_configured_append(d, at->comm.communicator, json_array_get(list, 0));
}

/* Answers with the switch in the form of its file. Each page describes the switch with those
 * communicators that the page has room for. */
static json_t *query_config(struct inc_daemon *d, struct inc_page *page, struct inc_err *err)
{
	json_t *list = json_array();

	json_array_append_new(list, inc_configured_switch(d));
	return each_comm(d, page, add_config, list);
}

static json_t *query_waiting(struct inc_daemon *d, struct inc_page *page, struct inc_err *err)
{
	/* the controller asks about one communicator after the other */
	if (!page->has_only)
		inc_ports_check(d);
	return each_comm(d, page, add_waiting, json_array());
}

/* Answers with metrics. The first page also has the figures of the switch itself. */
static json_t *query_metrics(struct inc_daemon *d, struct inc_page *page, struct inc_err *err)
{
	json_t *families = json_array();

	if (!page->from)
		inc_figures_switch(d, families);
	return each_comm(d, page, inc_figures_comm, families);
}

static json_t *query_events(struct inc_daemon *d, struct inc_page *page, struct inc_err *err)
{
	json_t *list = json_array();
	uint32_t i;

	for (i = 0; i < d->events->n_kept; i++)
		json_array_append_new(list, inc_message_new(INC_MSG_EVENT, &d->events->kept[i]));
	return list;
}

static json_t *query(struct inc_daemon *d, const char *what, struct inc_page *page,
		     struct inc_err *err)
{
	static const struct {
		const char *what;
		json_t *(*fn)(struct inc_daemon *d, struct inc_page *page, struct inc_err *err);
	} queries[] = {
		{"status", query_status},
		{"counters", query_counters},
		{"ports", query_ports},
		{"connections", query_connections},
		{"communicators", query_communicators},
		{"events", query_events},
		{"waiting", query_waiting},
		{"neighbours", query_neighbours},
		{"metrics", query_metrics},
		{"config", query_config},
	};
	json_t *data;
	size_t i;

	for (i = 0; i < sizeof(queries) / sizeof(queries[0]); i++) {
		if (strcmp(queries[i].what, what))
			continue;
		err->msg[0] = 0;
		data = queries[i].fn(d, page, err);
		if (!data && !err->msg[0])
			inc_err_set(err, ENOMEM, "no memory for the answer");
		return data;
	}
	inc_err_set(err, EINVAL, "unknown question '%.32s'", what);
	return NULL;
}

void inc_query_answer(struct inc_daemon *d, struct inc_ndjson *conn, json_t *request)
{
	json_t *seq = json_object_get(request, "seq"), *data = NULL, *answer;
	struct inc_msg_query said = {};
	struct inc_page page = {};
	struct inc_err err = {};

	if (!inc_message_read(INC_MSG_QUERY, request, &said, &err)) {
		page.has_only = said.has_communicator;
		page.only = said.communicator;
		page.from = said.from;
		data = query(d, said.what, &page, &err);
	}
	if (!data) {
		inc_ndjson_send_error(conn, EINVAL, seq, "%s", err.msg);
		return;
	}
	answer = json_pack("{s:s, s:s, s:o}", "type", inc_messages[INC_MSG_ANSWER].type, "what",
			   said.what, "data", data);
	if (answer && seq)
		json_object_set(answer, "seq", seq);
	if (answer && page.next)
		json_object_set_new(answer, "next", json_integer(page.next));
	inc_ndjson_send_new(conn, answer);
}
