/* SPDX-License-Identifier: BSD-2-Clause */
/* Questions of tools, which are answered here or passed to the switches. member.c calls this with
 * the message A. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/clock.h"
#include "controller/net/ctl.h"
#include "controller/core/admission.h"
#include "controller/core/comm.h"
#include "controller/core/comm_event.h"
#include "controller/core/core.h"
#include "controller/core/group.h"
#include "controller/core/orphan.h"
#include "controller/core/switch.h"

/* The number of ranks after which a page of an answer ends. Entries of so many ranks are 250 KB of
 * JSON, which the loop makes in some milliseconds. */
#define PAGE_RANKS 1024

/* The most bytes that the answers of all switches to one question may have, so that the client's
 * write buffer has room for another answer. */
#define ANSWER_BYTES (CTL_WRITE_MAX / 2)

struct inc_query {
	uint64_t number;
	uint32_t from;
	size_t bytes; /* size of data as JSON */
	struct inc_client *client;
	char what[sizeof(((struct inc_msg_query *)0)->what)];
	json_t *data; /* answers of the switches, in the order of the topology */
	unsigned int pending;
	LIST_ENTRY(inc_query) entry;
};

/* Makes a JSON object of the resources that a job uses, and of its quotas. */
static json_t *usage_json(const struct inc_group *group)
{
	const struct inc_core_options *opt = &group->core->opt;
	const struct inc_job_load load = inc_job_load(group);

	return json_pack("{s:I, s:i, s:I, s:o}", "communicators", (json_int_t)load.communicators,
			 "communicators_limit", (int)opt->job_communicators, "slots",
			 (json_int_t)load.slots, "slots_limit",
			 opt->job_slots ? json_integer(opt->job_slots) : json_null());
}

/* Lists the addresses of the NICs that a member does not use. */
static json_t *nics_out_json(const struct inc_member *m)
{
	const struct inc_topology *topo = m->group->core->topo;
	json_t *list = json_array();
	char ip[INC_ADDR_TEXT];

	/* a group from the database may have a host that the topology lacks */
	for (unsigned int rail = 0; rail < INC_MAX_RAILS && m->host < topo->n_hosts; rail++) {
		const int nic = inc_topology_nic(topo, m->host, rail);

		if (nic >= 0 && m->rails_out >> rail & 1)
			json_array_append_new(list,
					      json_string(inc_addr_text(topo->hosts[nic].ip, ip)));
	}
	return list;
}

static json_t *wait_json(struct inc_ctl *ctl, const struct inc_core_wait *wait, const char *of,
			 const char *reason)
{
	const uint64_t waited_ns = inc_timeouts_now_ns(&ctl->timeouts) - wait->began_at_ns;

	return json_pack("{s:s, s:I, s:s}", "for", of, "since_ms",
			 (json_int_t)(waited_ns / INC_NSEC_PER_MSEC), "reason", reason);
}

/* Lists what a group waits for to form, and its communicators to be created. */
static json_t *waits_json(struct inc_ctl *ctl, const struct inc_group *group)
{
	const struct inc_comm *comm;
	json_t *list = json_array(), *wait;
	char text[340], down[INC_DOWN_TEXT];

	if (group->phase == GROUP_FORMING) {
		inc_group_list_absent(group, text, sizeof(text));
		inc_group_print_down(group, down, sizeof(down));
		json_array_append_new(list, wait_json(ctl, &group->wait, text, down));
	}
	LIST_FOREACH (comm, &group->comms, entry) {
		if (!inc_comm_describe_wait(comm, text, sizeof(text)))
			continue;
		inc_comm_print_down(comm, down, sizeof(down));
		wait = wait_json(ctl, &comm->wait, text, down);
		json_object_set_new(wait, "comm", json_integer(inc_channel_comm(comm->index)));
		json_array_append_new(list, wait);
	}
	return list;
}

static json_t *member_json(const struct inc_member *m)
{
	const struct inc_topology *topo = m->group->core->topo;
	const struct inc_topo_host *host = m->host < topo->n_hosts ? &topo->hosts[m->host] : NULL;
	char ip[INC_ADDR_TEXT] = "";

	if (host)
		inc_addr_text(host->ip, ip);
	return json_pack("{s:i, s:i, s:s, s:s, s:s, s:s, s:b, s:o}", "rank", (int)m->rank, "leader",
			 (int)m->leader, "host", host ? host->name : "", "addr", ip, "node",
			 m->node, "state", m->client ? "connected" : "left", "draining",
			 m->host >= topo->n_live_hosts, "nics_out", nics_out_json(m));
}

static json_t *group_json(struct inc_ctl *ctl, const struct inc_group *group, uint64_t now_ms)
{
	json_t *members = json_array(), *comms = json_array();
	const struct inc_comm *comm;
	json_t *object;

	for (unsigned int rank = 0; rank < group->world_size; rank++) {
		if (group->members[rank].present)
			json_array_append_new(members, member_json(&group->members[rank]));
	}
	LIST_FOREACH (comm, &group->comms, entry) {
		if (comm->number)
			json_array_append_new(comms, json_integer(comm->number));
	}
	object = json_pack("{s:I, s:s, s:i, s:s, s:f, s:o, s:o, s:o, s:o}", "group",
			   (json_int_t)group->number, "job", group->job, "world_size",
			   (int)group->world_size, "state", inc_group_state_name(group), "age_s",
			   (now_ms - group->since_at_ms) / 1e3, "members", members, "communicators",
			   comms, "job_usage", usage_json(group), "waits", waits_json(ctl, group));
	if (group->of) {
		json_object_set_new(object, "how", json_string(inc_derive_hows[group->how]));
		json_object_set_new(object, "of", json_integer(group->of));
	}
	return object;
}

static json_t *groups_json(struct inc_ctl *ctl, const struct inc_msg_query *question,
			   uint32_t *next)
{
	const uint64_t now_ms = inc_now_ms();
	const struct inc_group *group;
	json_t *list = json_array();

	LIST_FOREACH (group, &ctl->core.groups, entry)
		json_array_insert_new(list, 0, group_json(ctl, group, now_ms));
	return list;
}

/* Returns a rank, with the ranks that it leads, as a text such as "0-3". */
static json_t *led_json(const struct inc_group *group, unsigned int leader)
{
	char text[INC_RANKS_TEXT];
	struct inc_ranks ranks = {};

	for (unsigned int rank = leader; rank < group->world_size; rank++) {
		if (group->members[rank].leader == leader)
			inc_ranks_add(&ranks, rank);
	}
	inc_ranks_print(&ranks, text, sizeof(text));
	return json_string(text);
}

static json_t *connection_json(const struct inc_comm *comm, unsigned int rank)
{
	const struct inc_topology *topo = comm->group->core->topo;
	const struct inc_comm_member *m = &comm->members[rank];
	const struct inc_topo_host *host = &topo->hosts[m->route.host];
	const struct inc_topo_switch *sw = &topo->switches[host->sw];
	char ip[INC_ADDR_TEXT], switch_ip[INC_ADDR_TEXT];
	json_t *object;

	inc_addr_text(host->ip, ip);
	inc_addr_text(inc_comm_host_port(comm, rank)->ip, switch_ip);
	object = json_pack(
		"{s:i, s:o, s:s, s:s, s:s, s:I, s:i, s:s, s:s, s:I, s:b}", "rank", (int)rank,
		"ranks", led_json(comm->group, rank), "host", host->name, "transport", m->transport,
		"ip", ip, "qp", (json_int_t)m->route.own.end.qpn, "udp_port",
		(int)m->route.own.end.udp_port, "switch", sw->name, "switch_ip", switch_ip,
		"switch_qp", (json_int_t)m->route.peer.end.qpn, "destroyed", (int)m->destroyed);
	return object;
}

static json_t *comm_json(const struct inc_comm *comm)
{
	const struct inc_group *group = comm->group;
	json_t *switches = json_array(), *connections = json_array();

	for (unsigned int i = 0; comm->tree && i < comm->tree->n; i++)
		json_array_append_new(switches,
				      json_string(inc_switch_name(
					      group->core->switches[comm->tree->nodes[i].sw])));
	for (unsigned int rank = 0; rank < group->world_size; rank++) {
		if (comm->phase != COMM_REFUSED && comm->members[rank].asked &&
		    !inc_group_is_led(group, rank))
			json_array_append_new(connections, connection_json(comm, rank));
	}
	return json_pack(
		"{s:I, s:I, s:s, s:i, s:i, s:i, s:s, s:i, s:i, s:s, s:s, s:s, s:s, s:i, s:i, "
		"s:o, s:o}",
		"communicator", (json_int_t)comm->number, "group", (json_int_t)group->number, "job",
		group->job, "comm", (int)inc_channel_comm(comm->index), "channel",
		(int)inc_channel_of(comm->index), "channels", (int)inc_comm_count_channels(comm),
		"state", inc_comm_state_name(comm), "payload", (int)comm->payload, "slots",
		(int)comm->slots, "byte_order", inc_byte_orders[comm->byte_order], "mode",
		inc_tree_modes[comm->mode], "choice", comm->choice, "floats",
		inc_float_forms[comm->floats], "message_packets", (int)comm->message_packets,
		"messages", (int)comm->messages, "switches", switches, "connections", connections);
}

static void add_orphan(const struct inc_core_switch *sw, uint32_t number, void *list)
{
	json_array_append_new(
		list,
		json_pack("{s:I, s:i, s:s, s:i, s:i, s:i, s:s, s:i, s:i, s:s, s:s, s:s, s:s, s:i, "
			  "s:i, s:[s], s:[]}",
			  "communicator", (json_int_t)number, "group", 0, "job", "", "comm", 0,
			  "channel", 0, "channels", 1, "state", "UNCLAIMED", "payload", 0, "slots",
			  0, "byte_order", "", "mode", "", "choice", "", "floats", "",
			  "message_packets", 0, "messages", 0, "switches", inc_switch_name(sw),
			  "connections"));
}

static int compare_places(const void *a, const void *b)
{
	const struct inc_comm *const *x = a, *const *y = b;

	return (*x)->place < (*y)->place ? -1 : (*x)->place > (*y)->place;
}

/* Lists the communicators of a tool's question in the order of their places. Returns NULL if there
 * is no memory. */
static const struct inc_comm **list_comms(const struct inc_ctl *ctl,
					  const struct inc_msg_query *question, size_t *n)
{
	const struct inc_group *group;
	const struct inc_comm **list, *comm;
	size_t most = 0;

	*n = 0;
	LIST_FOREACH (group, &ctl->core.groups, entry)
		most += group->n_comms + group->n_refused;
	list = calloc(most + 1, sizeof(*list));
	if (!list)
		return NULL;
	LIST_FOREACH (group, &ctl->core.groups, entry) {
		LIST_FOREACH (comm, &group->comms, entry) {
			if (comm->place >= question->from &&
			    (!question->has_communicator || comm->number == question->communicator))
				list[(*n)++] = comm;
		}
	}
	qsort(list, *n, sizeof(*list), compare_places);
	return list;
}

/* Makes one page of the entries of communicators. Pages are in the order of inc_comm.place, so that
 * no communicator is listed twice or left out when others begin or end meanwhile. */
static json_t *page_json(struct inc_ctl *ctl, const struct inc_msg_query *question,
			 json_t *(*one)(const struct inc_comm *comm), uint32_t *next)
{
	json_t *list = json_array(), *object;
	const struct inc_comm **comms;
	size_t n, ranks = 0;

	comms = list_comms(ctl, question, &n);
	for (size_t i = 0; i < n; i++) {
		if (ranks >= PAGE_RANKS) {
			*next = comms[i]->place;
			break;
		}
		object = one(comms[i]);
		if (!object)
			continue;
		json_array_append_new(list, object);
		ranks += comms[i]->group->world_size;
	}
	free(comms);
	return list;
}

static json_t *communicators_json(struct inc_ctl *ctl, const struct inc_msg_query *question,
				  uint32_t *next)
{
	json_t *list = page_json(ctl, question, comm_json, next);

	if (!*next && !question->has_communicator)
		inc_orphans_each(&ctl->core, add_orphan, list);
	return list;
}

static json_t *trees_json(struct inc_ctl *ctl, const struct inc_msg_query *question, uint32_t *next)
{
	return page_json(ctl, question, inc_query_tree, next);
}

/* Makes a list of the ports that the topology gives to a connected switch, and the switch lacks. */
static json_t *lacks_json(const struct inc_core_switch *sw)
{
	const struct inc_topo_switch *topo = &sw->core->topo->switches[sw->index];
	char ip[INC_ADDR_TEXT], reason[INC_SWITCH_LACK];
	json_t *list = json_array();

	for (unsigned int p = 0; p < topo->n_live_ports; p++) {
		if (!sw->connected || !sw->ports[p].lacking)
			continue;
		inc_addr_text(topo->ports[p].ip, ip);
		inc_switch_print_lack(sw, p, reason, sizeof(reason));
		json_array_append_new(list,
				      json_pack("{s:s, s:s, s:s}", "port", topo->ports[p].name,
						"ip", ip, "reason", reason));
	}
	return list;
}

static json_t *switches_json(struct inc_ctl *ctl, const struct inc_msg_query *question,
			     uint32_t *next)
{
	const uint64_t now_ms = inc_now_ms();
	json_t *list = json_array();

	for (unsigned int i = 0; i < ctl->topo->n_switches; i++) {
		const struct inc_core_switch *sw = ctl->core.switches[i];
		const struct inc_ctl_switch *side = &ctl->switches[i];
		json_t *ports = side->ports ? json_incref(side->ports) : json_array();
		json_t *engines = side->engines ? json_incref(side->engines) : json_array();

		json_array_append_new(
			list, json_pack("{s:s, s:s, s:b, s:f, s:b, s:s, s:o, s:o, s:o}", "switch",
					inc_switch_name(sw), "state",
					sw->connected ? "connected" : "absent", "draining",
					i >= ctl->topo->n_live_switches, "since_s",
					(now_ms - sw->since_at_ms) / 1e3, "root",
					(int)ctl->topo->switches[i].root, "mode",
					inc_mode_settings[inc_switch_setting(sw)], "ports", ports,
					"engines", engines, "lacks", lacks_json(sw)));
	}
	return list;
}

/* Sends a tool the answer to its question. next is where the next page of data begins, or 0 if this
 * is the last page. */
static void answer(struct inc_client *client, const char *what, json_t *data, uint32_t next)
{
	json_t *object = json_pack("{s:s, s:s, s:o}", "type", inc_messages[INC_MSG_TOLD].type,
				   "what", what, "data", data);

	if (object && next)
		json_object_set_new(object, "next", json_integer(next));
	inc_ndjson_send_new(client->conn, object);
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
	answer(query->client, query->what, json_incref(query->data), 0);
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

/* Adds the names of a peer to its object in a switch's answer. The switch knows only the rank, but
 * the controller also knows the host, job or peer switch. */
static void name_peer(const struct inc_core_switch *sw, const struct inc_comm *comm, json_t *object)
{
	const bool up = json_is_true(json_object_get(object, "up"));
	const json_t *named = json_object_get(object, "rank");
	const json_int_t rank = json_integer_value(named);
	char ranks[INC_RANKS_TEXT];
	struct inc_peer peer;

	if (!up && (!json_is_integer(named) || rank < 0 || rank >= comm->group->world_size))
		return;
	peer = inc_comm_peer(comm, sw, up ? -1 : rank);
	if (peer.sw)
		json_object_set_new(object, "peer", json_string(peer.sw));
	if (inc_ranks_count(&peer.below) > (peer.node < 0)) {
		inc_ranks_print(&peer.below, ranks, sizeof(ranks));
		json_object_set_new(object, "ranks", json_string(ranks));
	}
	if (peer.rank >= 0 && comm->members[rank].asked && !*inc_ctl_text(object, "host"))
		json_object_set_new(
			object, "host",
			json_string(sw->core->topo->hosts[comm->members[rank].route.host].name));
}

void inc_query_add_names(const struct inc_core_switch *sw, json_t *data)
{
	json_t *entry, *missing;
	size_t i, k;

	json_array_foreach (data, i, entry) {
		json_t *number = json_object_get(entry, "communicator");
		struct inc_comm *comm;

		if (!json_is_integer(number))
			continue;
		comm = inc_comm_find(sw->core, json_integer_value(number));
		if (!comm)
			continue;
		name_peer(sw, comm, entry);
		json_array_foreach (json_object_get(entry, "missing"), k, missing)
			name_peer(sw, comm, missing);
		json_object_set_new(entry, "job", json_string(comm->group->job));
	}
}

/* Puts a switch's answer into its place in the answer to the tool. If the message has no room for
 * it, the place only says that the tool must ask this switch alone, from the same page on. */
static void fill_slot(struct inc_query *query, json_t *slot, json_t *data, json_t *next)
{
	const size_t bytes = json_dumpb(data, NULL, 0, JSON_COMPACT);

	if (query->bytes && query->bytes + bytes > ANSWER_BYTES && json_is_array(data)) {
		json_object_set_new(slot, "data", json_array());
		json_object_set_new(slot, "next", json_integer(query->from));
		return;
	}
	query->bytes += bytes;
	json_object_set(slot, "data", data);
	if (next)
		json_object_set(slot, "next", next);
}

static void on_answer(struct inc_ctl *ctl, struct inc_core_switch *sw, int code, const char *text,
		      json_t *reply, uint64_t number)
{
	json_t *slot, *data = json_object_get(reply, "data");
	struct inc_query *query;
	size_t i;

	LIST_FOREACH (query, &ctl->queries, entry) {
		if (query->number == number)
			break;
	}
	if (!query)
		return;
	json_array_foreach (query->data, i, slot) {
		if (strcmp(inc_ctl_text(slot, "switch"), inc_switch_name(sw)) != 0)
			continue;
		if (!code && data) {
			inc_query_add_names(sw, data);
			fill_slot(query, slot, data, json_object_get(reply, "next"));
		} else {
			json_object_set_new(slot, "error",
					    json_string(code ? text : "an answer without data"));
		}
	}
	if (--query->pending == 0)
		query_done(query);
}

/* Whether a question is passed to the switch. It is not if the controller knows that the question
 * is about other switches or communicators. */
static bool concerns(const struct inc_msg_query *question, const struct inc_core_switch *sw)
{
	const struct inc_comm *comm;

	if (question->has_node && strcmp(question->node, inc_switch_name(sw)) != 0)
		return false;
	comm = question->has_communicator ? inc_comm_find(sw->core, question->communicator) : NULL;
	return !comm || !comm->tree || inc_tree_find(comm->tree, sw->index) >= 0;
}

/* Makes the controller's own entry in the answer to "events", beside those of the switches. */
static json_t *records_json(const struct inc_ctl *ctl, const struct inc_msg_query *question)
{
	const struct inc_records *records = &ctl->core.records;
	json_t *list = json_array();

	for (unsigned int i = 0; i < records->n_kept; i++) {
		const struct inc_record *r = &records->kept[i];

		if (question->has_communicator && r->communicator != question->communicator)
			continue;
		json_array_append_new(
			list, json_pack("{s:I, s:s, s:I, s:s}", "time_ns", (json_int_t)r->time_ns,
					"event", inc_record_kinds[r->kind], "communicator",
					(json_int_t)r->communicator, "message", r->message));
	}
	return json_pack("{s:b, s:o}", "controller", 1, "data", list);
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
	query->from = question->from;
	query->client = client;
	client->queries++;
	strcpy(query->what, question->what);
	query->data = json_array();
	LIST_INSERT_HEAD(&ctl->queries, query, entry);
	for (unsigned int i = 0; i < ctl->topo->n_switches; i++) {
		struct inc_core_switch *sw = ctl->core.switches[i];
		json_t *slot;
		int ret;

		if (!concerns(question, sw))
			continue;
		slot = json_pack("{s:s}", "switch", inc_switch_name(sw));
		if (json_array_append_new(query->data, slot))
			slot = NULL; /* without memory the array has freed the slot */
		ret = inc_switch_request(ctl, sw, INC_MSG_QUERY, question, on_answer,
					 query->number);
		if (ret)
			json_object_set_new(
				slot, "error",
				json_string(ret == -ENOTCONN ? "not connected" : strerror(-ret)));
		else
			query->pending++;
	}
	if (!strcmp(question->what, "events") && !question->has_node)
		json_array_append_new(query->data, records_json(ctl, question));
	if (!query->pending)
		query_done(query);
}

void inc_query_ask(struct inc_client *client, json_t *object)
{
	static const struct {
		const char *what;
		/* function that answers the question in the controller; NULL: switches must be
		 * asked */
		json_t *(*here)(struct inc_ctl *ctl, const struct inc_msg_query *question,
				uint32_t *next);
	} questions[] = {
		{"groups", groups_json},
		{"communicators", communicators_json},
		{"switches", switches_json},
		{"tree", trees_json},
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
	uint32_t next = 0;
	struct inc_err err;

	if (inc_message_read(INC_MSG_QUESTION, object, &query, &err)) {
		inc_ndjson_send_error(client->conn, EINVAL, NULL, "%s", err.msg);
		return;
	}
	if (query.has_node && inc_client_find_switch(client, query.node, &err) < 0) {
		inc_ndjson_send_error(client->conn, ENOENT, NULL, "%s", err.msg);
		return;
	}
	for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
		if (strcmp(questions[i].what, query.what) != 0)
			continue;
		if (questions[i].here) {
			json_t *data = questions[i].here(client->ctl, &query, &next);

			answer(client, query.what, data, next);
		} else {
			pass(client, &query);
		}
		return;
	}
	inc_ndjson_send_error(client->conn, EINVAL, NULL, "no such question: '%.32s'", query.what);
}
