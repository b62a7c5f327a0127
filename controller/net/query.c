/* SPDX-License-Identifier: BSD-2-Clause */
/* Questions of tools: answered here, or passed to every connected switch. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/clock.h"
#include "controller/ctl.h"

struct inc_query {
	uint64_t number;
	struct inc_client *client;
	char what[sizeof(((struct inc_msg_query *)0)->what)];
	json_t *data; /* by switch, in the topology's order */
	unsigned int pending;
	LIST_ENTRY(inc_query) entry;
};

static json_t *group_json(const struct inc_group *group, uint64_t now_ms)
{
	json_t *members = json_array(), *comms = json_array();
	const struct inc_comm *comm;
	json_t *object;

	for (unsigned int rank = 0; rank < group->world_size; rank++) {
		const struct inc_member *m = &group->members[rank];
		const struct inc_topo_host *host = &group->ctl->topo->hosts[m->host];
		char ip[INET_ADDRSTRLEN];

		if (!m->present)
			continue;
		inet_ntop(AF_INET, &host->ip, ip, sizeof(ip));
		json_array_append_new(members,
				      json_pack("{s:i, s:s, s:s, s:s, s:s}", "rank", (int)rank,
						"host", host->name, "addr", ip, "node", m->node,
						"state", m->client ? "connected" : "left"));
	}
	LIST_FOREACH(comm, &group->comms, entry)
	{
		if (comm->number)
			json_array_append_new(comms, json_integer(comm->number));
	}
	object =
		json_pack("{s:I, s:s, s:i, s:s, s:f, s:o, s:o}", "group", (json_int_t)group->number,
			  "job", group->job, "world_size", (int)group->world_size, "state",
			  inc_group_state_name(group), "age_s", (now_ms - group->since_at_ms) / 1e3,
			  "members", members, "communicators", comms);
	if (group->of) {
		json_object_set_new(object, "how", json_string(inc_derive_hows[group->how]));
		json_object_set_new(object, "of", json_integer(group->of));
	}
	return object;
}

static json_t *groups_json(struct inc_ctl *ctl)
{
	const uint64_t now_ms = inc_now_ms();
	const struct inc_group *group;
	json_t *list = json_array();

	LIST_FOREACH(group, &ctl->groups, entry)
	json_array_insert_new(list, 0, group_json(group, now_ms));
	return list;
}

static json_t *connection_json(const struct inc_comm *comm, unsigned int rank)
{
	const struct inc_topology *topo = comm->group->ctl->topo;
	const struct inc_comm_member *m = &comm->members[rank];
	const struct inc_topo_host *host = &topo->hosts[m->route.host];
	const struct inc_topo_switch *sw = &topo->switches[host->sw];
	char ip[INET_ADDRSTRLEN], switch_ip[INET_ADDRSTRLEN];
	json_t *object;

	inet_ntop(AF_INET, &host->ip, ip, sizeof(ip));
	inet_ntop(AF_INET, &sw->ports[host->port].ip, switch_ip, sizeof(switch_ip));
	object = json_pack("{s:i, s:s, s:s, s:s, s:I, s:i, s:s, s:s, s:I, s:b}", "rank", (int)rank,
			   "host", host->name, "transport", m->transport, "ip", ip, "qp",
			   (json_int_t)m->route.own.qpn, "udp_port", (int)m->route.udp_port,
			   "switch", sw->name, "switch_ip", switch_ip, "switch_qp",
			   (json_int_t)m->route.sw.qpn, "destroyed", (int)m->destroyed);
	return object;
}

static json_t *comm_json(const struct inc_comm *comm)
{
	const struct inc_group *group = comm->group;
	json_t *switches = json_array(), *connections = json_array();

	for (unsigned int i = 0; comm->tree && i < comm->tree->n; i++)
		json_array_append_new(switches,
				      json_string(inc_switch_name(
					      &group->ctl->switches[comm->tree->nodes[i].sw])));
	for (unsigned int rank = 0; rank < group->world_size; rank++) {
		if (comm->phase != COMM_REFUSED && comm->members[rank].asked)
			json_array_append_new(connections, connection_json(comm, rank));
	}
	return json_pack("{s:I, s:I, s:s, s:i, s:s, s:i, s:i, s:s, s:o, s:o}", "communicator",
			 (json_int_t)comm->number, "group", (json_int_t)group->number, "job",
			 group->job, "comm", (int)comm->index, "state", inc_comm_state_name(comm),
			 "payload", (int)comm->payload, "slots", (int)comm->slots, "byte_order",
			 inc_byte_orders[comm->byte_order], "switches", switches, "connections",
			 connections);
}

static void add_orphan(const struct inc_switch *sw, uint32_t number, void *list)
{
	json_array_append_new(
		list, json_pack("{s:I, s:i, s:s, s:i, s:s, s:i, s:i, s:s, s:[s], s:[]}",
				"communicator", (json_int_t)number, "group", 0, "job", "", "comm",
				0, "state", "UNCLAIMED", "payload", 0, "slots", 0, "byte_order", "",
				"switches", inc_switch_name(sw), "connections"));
}

static json_t *communicators_json(struct inc_ctl *ctl)
{
	const struct inc_group *group;
	const struct inc_comm *comm;
	json_t *list = json_array();

	LIST_FOREACH(group, &ctl->groups, entry)
	{
		LIST_FOREACH(comm, &group->comms, entry)
		json_array_insert_new(list, 0, comm_json(comm));
	}
	inc_orphans_each(ctl, add_orphan, list);
	return list;
}

static json_t *switches_json(struct inc_ctl *ctl)
{
	const uint64_t now_ms = inc_now_ms();
	json_t *list = json_array();

	for (unsigned int i = 0; i < ctl->topo->n_switches; i++) {
		const struct inc_switch *sw = &ctl->switches[i];
		json_t *ports = sw->ports ? json_incref(sw->ports) : json_array();

		json_array_append_new(
			list, json_pack("{s:s, s:s, s:f, s:b, s:o}", "switch", inc_switch_name(sw),
					"state", sw->link ? "connected" : "absent", "since_s",
					(now_ms - sw->since_at_ms) / 1e3, "root",
					(int)ctl->topo->switches[i].root, "ports", ports));
	}
	return list;
}

static void answer(struct inc_client *client, const char *what, json_t *data)
{
	inc_ndjson_send_new(client->conn,
			    json_pack("{s:s, s:s, s:o}", "type", "A", "what", what, "data", data));
}

static void query_free(struct inc_query *query)
{
	LIST_REMOVE(query, entry);
	query->client->queries--;
	json_decref(query->data);
	free(query);
}

static void query_done(struct inc_query *query)
{
	answer(query->client, query->what, json_incref(query->data));
	query_free(query);
}

void inc_query_client_gone(struct inc_client *client)
{
	struct inc_query *query = LIST_FIRST(&client->ctl->queries), *next;

	for (; query; query = next) {
		next = LIST_NEXT(query, entry);
		if (query->client == client)
			query_free(query);
	}
}

void inc_queries_free(struct inc_ctl *ctl)
{
	while (!LIST_EMPTY(&ctl->queries))
		query_free(LIST_FIRST(&ctl->queries));
}

/* Another switch that is meant: its name, and the ranks behind it. */
static void name_switch(const struct inc_comm *comm, int node, json_t *object)
{
	char text[INC_RANKS_TEXT];
	struct inc_ranks ranks;

	if (node < 0)
		return;
	json_object_set_new(
		object, "peer",
		json_string(comm->group->ctl->topo->switches[comm->tree->nodes[node].sw].name));
	if (json_is_true(json_object_get(object, "up")))
		return;
	inc_tree_ranks(comm->tree, node, &ranks);
	inc_ranks_print(&ranks, text, sizeof(text));
	json_object_set_new(object, "ranks", json_string(text));
}

/* Switches know ranks; which host, job or other switch that is, is known here. */
static void name_peer(const struct inc_switch *sw, const struct inc_comm *comm, json_t *object)
{
	const json_t *named = json_object_get(object, "rank");
	const json_int_t rank = json_integer_value(named);
	const int node = comm->tree ? inc_tree_find(comm->tree, sw->index) : -1;
	const struct inc_tree_child *child;

	if (json_is_true(json_object_get(object, "up"))) {
		name_switch(comm, node < 0 ? -1 : comm->tree->nodes[node].parent, object);
		return;
	}
	if (!json_is_integer(named) || rank < 0 || rank >= comm->group->world_size)
		return;
	child = node < 0 ? NULL : inc_tree_child_of(comm->tree, node, rank);
	if (child && child->to_switch)
		name_switch(comm, child->index, object);
	else if (comm->members[rank].asked && !*inc_ctl_text(object, "host"))
		json_object_set_new(
			object, "host",
			json_string(sw->ctl->topo->hosts[comm->members[rank].route.host].name));
}

static void add_names(const struct inc_switch *sw, json_t *data)
{
	json_t *entry, *missing;
	size_t i, k;

	json_array_foreach (data, i, entry) {
		json_t *number = json_object_get(entry, "communicator");
		struct inc_comm *comm;

		if (!json_is_integer(number))
			continue;
		comm = inc_comm_find(sw->ctl, json_integer_value(number));
		if (!comm)
			continue;
		name_peer(sw, comm, entry);
		json_array_foreach (json_object_get(entry, "missing"), k, missing)
			name_peer(sw, comm, missing);
		json_object_set_new(entry, "job", json_string(comm->group->job));
	}
}

static void on_answer(struct inc_switch *sw, int code, const char *text, json_t *reply,
		      uint64_t number)
{
	json_t *slot, *data = json_object_get(reply, "data");
	struct inc_query *query;
	size_t i;

	LIST_FOREACH(query, &sw->ctl->queries, entry)
	{
		if (query->number == number)
			break;
	}
	if (!query)
		return;
	json_array_foreach (query->data, i, slot) {
		if (strcmp(inc_ctl_text(slot, "switch"), inc_switch_name(sw)) != 0)
			continue;
		if (!code && data) {
			add_names(sw, data);
			json_object_set(slot, "data", data);
			if (json_object_get(reply, "next"))
				json_object_set(slot, "next", json_object_get(reply, "next"));
		} else {
			json_object_set_new(slot, "error",
					    json_string(code ? text : "an answer without data"));
		}
	}
	if (--query->pending == 0)
		query_done(query);
}

static void pass(struct inc_client *client, const struct inc_msg_query *question)
{
	struct inc_ctl *ctl = client->ctl;
	struct inc_query *query;

	if (client->queries >= CTL_MAX_QUERIES) {
		inc_ndjson_send_error(client->conn, EBUSY, NULL,
				      "%u questions are under way already", client->queries);
		return;
	}
	query = calloc(1, sizeof(*query));
	if (!query)
		return;
	query->number = ++ctl->next_query;
	query->client = client;
	client->queries++;
	strcpy(query->what, question->what);
	query->data = json_array();
	LIST_INSERT_HEAD(&ctl->queries, query, entry);
	for (unsigned int i = 0; i < ctl->topo->n_switches; i++) {
		struct inc_switch *sw = &ctl->switches[i];
		json_t *slot;
		int ret;

		if (question->has_node && strcmp(question->node, inc_switch_name(sw)) != 0)
			continue;
		slot = json_pack("{s:s}", "switch", inc_switch_name(sw));
		json_array_append_new(query->data, slot);
		ret = inc_switch_request(sw, inc_message_new(INC_MSG_QUERY, question), on_answer,
					 query->number);
		if (ret)
			json_object_set_new(
				slot, "error",
				json_string(ret == -ENOTCONN ? "not connected" : strerror(-ret)));
		else
			query->pending++;
	}
	if (!query->pending)
		query_done(query);
}

void inc_query_ask(struct inc_client *client, json_t *object)
{
	static const struct {
		const char *what;
		json_t *(*here)(struct inc_ctl *ctl); /* NULL: ask the switches */
	} questions[] = {
		{"groups", groups_json},
		{"communicators", communicators_json},
		{"switches", switches_json},
		{"tree", inc_query_trees},
		{"status", NULL},
		{"counters", NULL},
		{"ports", NULL},
		{"connections", NULL},
		{"events", NULL},
		{"waiting", NULL},
		{"metrics", NULL},
		{"config", NULL},
	};
	struct inc_msg_query query = {0};
	struct inc_err err;

	if (inc_message_read(INC_MSG_QUESTION, object, &query, &err)) {
		inc_ndjson_send_error(client->conn, EINVAL, NULL, "%s", err.msg);
		return;
	}
	if (query.has_node && inc_topology_switch_by_name(client->ctl->topo, query.node) < 0) {
		inc_ndjson_send_error(client->conn, ENOENT, NULL, "no switch '%.32s'", query.node);
		return;
	}
	for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
		if (strcmp(questions[i].what, query.what) != 0)
			continue;
		if (questions[i].here)
			answer(client, query.what, questions[i].here(client->ctl));
		else
			pass(client, &query);
		return;
	}
	inc_ndjson_send_error(client->conn, EINVAL, NULL, "no such question: '%.32s'", query.what);
}
