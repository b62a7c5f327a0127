/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections on the switch port, and the switches behind them. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "controller/core/comm_config.h"
#include "controller/net/remote.h"
#include "controller/net/rights.h"
#include "controller/net/switch_priv.h"
#include "controller/core/orphan.h"
#include "lib/base/log.h"
#include "lib/base/machine.h"
#include "lib/base/random.h"
#include "lib/net/lines.h"

#define AVOID_MS 10000 /* a switch that has refused for want of room */

const char *inc_switch_name(const struct inc_ctl_switch *sw)
{
	return sw->ctl->topo->switches[sw->index].name;
}

/* What a port has where its switch has said nothing: what an earlier hello said is forgotten. */
static void clear_ports(struct inc_ctl_switch *sw)
{
	const struct inc_topo_switch *topo = &sw->ctl->topo->switches[sw->index];

	for (unsigned int p = 0; p < topo->n_ports; p++)
		sw->has[p] =
			(struct inc_ctl_port){.mtu = sw->ctl->topo->links[topo->ports[p].link].mtu};
}

static int init_ports(struct inc_ctl_switch *sw)
{
	sw->has = calloc(sw->ctl->topo->switches[sw->index].n_ports, sizeof(*sw->has));
	if (!sw->has)
		return -ENOMEM;
	clear_ports(sw);
	return 0;
}

static void on_avoided(evutil_socket_t fd, short what, void *arg)
{
	const struct inc_ctl_switch *sw = arg;

	inc_routes_avoid(sw->ctl->routes, sw->index, false);
}

void inc_switch_avoid(struct inc_ctl_switch *sw)
{
	inc_routes_avoid(sw->ctl->routes, sw->index, true);
	inc_ctl_arm(sw->avoided, AVOID_MS);
}

int inc_switches_init(struct inc_ctl *ctl)
{
	ctl->routes = inc_routes_new(ctl->topo);
	ctl->switches = calloc(ctl->topo->n_switches, sizeof(*ctl->switches));
	if (!ctl->routes || !ctl->switches)
		return -ENOMEM;
	for (unsigned int i = 0; i < ctl->topo->n_switches; i++) {
		ctl->switches[i].ctl = ctl;
		ctl->switches[i].index = i;
		ctl->switches[i].since_at_ms = inc_now_ms();
		ctl->switches[i].avoided = evtimer_new(ctl->base, on_avoided, &ctl->switches[i]);
		if (!ctl->switches[i].avoided || init_ports(&ctl->switches[i]))
			return -ENOMEM;
		inc_switch_offer(&ctl->switches[i]);
	}
	return 0;
}

/* LINK_GREETING is entered twice: a connection begins there. */
static void link_go(struct inc_switch_link *link, enum inc_link_state to)
{
	static const char *const names[] = {"greeting", "a switch", "asked", "closed"};
	static const uint32_t steps[] = {
		[LINK_GREETING] =
			INC_STEP(LINK_GREETING) | INC_STEP(LINK_SWITCH) | INC_STEP(LINK_CLOSED),
		[LINK_SWITCH] = INC_STEP(LINK_ASKED) | INC_STEP(LINK_CLOSED),
		[LINK_ASKED] = INC_STEP(LINK_SWITCH) | INC_STEP(LINK_CLOSED),
		[LINK_CLOSED] = 0,
	};
	static const struct inc_machine machine = {"link", LINK_CLOSED + 1, names, steps};

	link->state = inc_machine_step(&machine, inc_ndjson_peer(link->conn), link->state, to);
	if (to == LINK_GREETING || to == LINK_ASKED)
		inc_timeout_arm(link->silence, link->ctl->opt.client_timeout_ms);
	else if (!link->to_close)
		inc_timeout_stop(link->silence);
}

static void link_free(struct inc_switch_link *link)
{
	struct inc_ctl_switch *sw = link->sw;

	link_go(link, LINK_CLOSED);
	LIST_REMOVE(link, entry);
	link->ctl->n_links--;
	if (sw) {
		sw->link = NULL;
		sw->since_at_ms = inc_now_ms();
		inc_switch_offer(sw);
		inc_orphans_forget(sw);
		inc_requests_fail(link, sw);
	}
	inc_timeout_free(link->silence);
	inc_ndjson_free(link->conn);
	inc_remote_gone(link->remote);
	free(link);
}

void inc_switches_free(struct inc_ctl *ctl)
{
	while (!LIST_EMPTY(&ctl->links))
		link_free(LIST_FIRST(&ctl->links));
	for (unsigned int i = 0; ctl->switches && i < ctl->topo->n_switches; i++) {
		json_decref(ctl->switches[i].ports);
		json_decref(ctl->switches[i].engines);
		if (ctl->switches[i].avoided)
			event_free(ctl->switches[i].avoided);
		free(ctl->switches[i].qpns);
		free(ctl->switches[i].has);
	}
	free(ctl->switches);
	inc_routes_free(ctl->routes);
}

void inc_switch_drop(struct inc_ctl_switch *sw, const char *reason)
{
	if (!sw->link)
		return;
	inc_warn("switch %s: connection closed: %s", inc_switch_name(sw), reason);
	link_free(sw->link);
}

void inc_switch_drop_soon(struct inc_ctl_switch *sw)
{
	if (!sw->link)
		return;
	sw->link->to_close = true;
	inc_timeout_arm(sw->link->silence, 0);
}

static void on_silence(void *arg)
{
	struct inc_switch_link *link = arg;

	if (link->to_close || link->state == LINK_ASKED) {
		inc_switch_drop(link->sw,
				link->to_close ? "it could not be told all" : "does not answer");
		return;
	}
	inc_info("%s: no hello, closed", inc_ndjson_peer(link->conn));
	inc_ndjson_send_error(link->conn, ETIMEDOUT, NULL, "no hello within %u ms",
			      link->ctl->opt.client_timeout_ms);
	link_free(link);
}

/* For one more number. */
static int make_qpn_room(struct inc_ctl_switch *sw)
{
	size_t room = sw->qpns_room ? sw->qpns_room * 2 : 64;
	uint32_t *more;

	if (sw->n_qpns < sw->qpns_room)
		return 0;
	/* leaves the search for a free one nearly always right at the first try */
	if (room > INC_QPN_MASK / 16)
		return -ENOSPC;
	more = realloc(sw->qpns, room * sizeof(*more));
	if (!more)
		return -ENOMEM;
	sw->qpns = more;
	sw->qpns_room = room;
	return 0;
}

int inc_switch_qpn_take(struct inc_ctl_switch *sw, uint32_t qpn)
{
	int ret = make_qpn_room(sw);

	if (!ret)
		sw->qpns[sw->n_qpns++] = qpn;
	return ret;
}

int inc_switch_qpn_get(struct inc_ctl_switch *sw, uint32_t *out)
{
	int ret = make_qpn_room(sw);
	uint32_t qpn;
	size_t i;

	if (ret)
		return ret;
	do {
		ret = inc_random_qpn(CTL_MIN_QPN, &qpn, NULL);
		if (ret)
			return ret;
		for (i = 0; i < sw->n_qpns && sw->qpns[i] != qpn; i++)
			;
	} while (i < sw->n_qpns);
	sw->qpns[sw->n_qpns++] = qpn;
	*out = qpn;
	return 0;
}

void inc_switch_qpn_put(struct inc_ctl_switch *sw, uint32_t qpn)
{
	for (size_t i = 0; i < sw->n_qpns; i++) {
		if (sw->qpns[i] != qpn)
			continue;
		sw->qpns[i] = sw->qpns[--sw->n_qpns];
		return;
	}
}

/* A hello that is about to be refused because the name is connected: perhaps that
 * connection is dead, and its peer forgot it. Ask. */
static void probe(struct inc_ctl_switch *sw)
{
	struct inc_switch_link *link = sw->link;

	if (link->state == LINK_ASKED || link->to_close)
		return;
	link_go(link, LINK_ASKED);
	inc_ndjson_send_new(link->conn, inc_message_new(INC_MSG_PING, NULL));
}

/* What the switch says of a port; false: it has none of that name and address. */
static bool take_port(struct inc_ctl_switch *sw, unsigned int p)
{
	const struct inc_topo_port *port = &sw->ctl->topo->switches[sw->index].ports[p];
	struct inc_ctl_port *has = &sw->has[p];
	char ip[INET_ADDRSTRLEN];
	const json_t *object;
	bool found = false;
	size_t i;

	inet_ntop(AF_INET, &port->ip, ip, sizeof(ip));
	json_array_foreach (sw->ports, i, object) {
		struct inc_msg_port said = {.mtu = has->mtu};
		struct inc_err err;
		int ret = inc_schema_read_json(&inc_port_schema, object, &said, &err);

		if (strcmp(said.name, port->name) != 0)
			continue;
		if (ret)
			inc_warn("switch %s: port %s: %s", inc_switch_name(sw), port->name,
				 err.msg);
		has->mtu = said.mtu;
		has->has_mac = said.has_mac;
		memcpy(has->mac, said.mac, sizeof(has->mac));
		found = strcmp(said.ip, ip) == 0;
	}
	return found;
}

/* Jobs that need a port which the topology has and the switch does not will fail. */
static void take_ports(struct inc_ctl_switch *sw)
{
	const struct inc_topo_switch *topo = &sw->ctl->topo->switches[sw->index];
	char ip[INET_ADDRSTRLEN];

	for (unsigned int p = 0; p < topo->n_ports; p++) {
		if (take_port(sw, p))
			continue;
		inet_ntop(AF_INET, &topo->ports[p].ip, ip, sizeof(ip));
		inc_warn("switch %s: has no port %s with address %s", inc_switch_name(sw),
			 topo->ports[p].name, ip);
	}
}

static int check_lists(const json_t *object, struct inc_err *err)
{
	const json_t *ports = json_object_get(object, "ports");
	const json_t *listed = json_object_get(object, "communicators");

	if (ports && (!json_is_array(ports) || json_array_size(ports) > INC_MAX_PORTS))
		return inc_err_set(err, EINVAL, "'ports' is not a list of at most %d ports",
				   INC_MAX_PORTS);
	if (listed && (!json_is_array(listed) || json_array_size(listed) > CTL_MAX_LISTED))
		return inc_err_set(err, EINVAL,
				   "'communicators' is not a list of at most %d numbers",
				   CTL_MAX_LISTED);
	return 0;
}

static int parse_hello(struct inc_switch_link *link, json_t *object, struct inc_msg_hello *said,
		       struct inc_ctl_switch **out, struct inc_err *err)
{
	struct inc_ctl_switch *sw;
	int index, ret;

	ret = inc_right_begin(link->conn, INC_MSG_HELLO, object, said, &said->version, err);
	ret = ret ?: inc_right_serve(inc_ndjson_identity(link->conn), said->node, err);
	if (ret)
		return ret;
	index = inc_topology_switch_by_name(link->ctl->topo, said->node);
	if (index < 0)
		return inc_err_set(err, ENOENT, "the topology %s has no switch '%.32s'",
				   link->ctl->topo->name, said->node);
	sw = &link->ctl->switches[index];
	if (sw->link) {
		probe(sw);
		return inc_err_set(err, EADDRINUSE, "switch %s is connected already, from %s",
				   said->node, inc_ndjson_peer(sw->link->conn));
	}
	*out = sw;
	return check_lists(object, err);
}

/* What was not handed out by this controller, nor by one whose database it has, is an earlier
 * one's, and may run. */
static bool shall_keep(struct inc_ctl_switch *sw, uint32_t number)
{
	struct inc_comm *comm = inc_comm_find(sw->ctl, number);

	if (comm)
		return inc_comm_takes(comm, sw);
	if (inc_number_given(&sw->ctl->comm_numbers, number) || inc_keep_knows_all(sw->ctl))
		return false;
	return inc_orphan_add(sw, number);
}

/* The numbers that the switch has; those it shall keep are added to keep. How many there are, -1:
 * no memory. */
static ssize_t take_listed(struct inc_ctl_switch *sw, const json_t *listed, uint32_t **out,
			   json_t *keep)
{
	uint32_t *numbers = calloc(json_array_size(listed) + 1, sizeof(*numbers));
	size_t n = 0, i, wrong = 0;
	const json_t *v;

	if (!numbers)
		return -1;
	json_array_foreach (listed, i, v) {
		json_int_t number = json_integer_value(v);

		if (number < 1 || number > UINT32_MAX) {
			wrong++;
			continue;
		}
		numbers[n++] = number;
		if (shall_keep(sw, number) && json_array_append_new(keep, json_integer(number))) {
			free(numbers); /* it would remove what runs */
			return -1;
		}
	}
	if (wrong)
		inc_warn("switch %s: %zu of 'communicators' are no numbers of any",
			 inc_switch_name(sw), wrong);
	*out = numbers;
	return n;
}

static void take_event(struct inc_ctl_switch *sw, const json_t *object)
{
	struct inc_msg_event said = {0};
	struct inc_err err;

	if (inc_message_read(INC_MSG_EVENT, object, &said, &err))
		inc_warn("switch %s: event of communicator %u ignored: %s", inc_switch_name(sw),
			 said.communicator, err.msg);
	else
		inc_comm_event(sw, &said);
}

/* keep is stolen. One that has not heard it does nothing that it is asked. */
static int welcome(struct inc_switch_link *link, json_t *keep)
{
	inc_keep_before_telling(link->ctl);
	return inc_ndjson_send_new(
		link->conn, json_pack("{s:s, s:s, s:o}", "type", inc_messages[INC_MSG_WELCOME].type,
				      "switch", inc_switch_name(link->sw), "keep", keep));
}

static void take_hello(struct inc_switch_link *link, json_t *object)
{
	json_t *listed = json_object_get(object, "communicators");
	json_t *failures = json_object_get(object, "failures");
	struct inc_msg_hello said = {
		.limits = {.children = INC_MAX_CHILDREN, .slots = INC_MAX_SLOTS}};
	struct inc_ctl_switch *sw = NULL;
	struct inc_err err;
	uint32_t *numbers;
	json_t *keep, *v;
	ssize_t n;
	size_t i;
	int ret;

	if (link->sw) {
		inc_ndjson_send_error(link->conn, EISCONN, NULL, "hello twice");
		return;
	}
	ret = parse_hello(link, object, &said, &sw, &err);
	if (ret) {
		inc_warn("%s: hello refused: %s", inc_ndjson_peer(link->conn), err.msg);
		inc_ndjson_send_error(link->conn, -ret, NULL, "%s", err.msg);
		link_free(link);
		return;
	}
	link_go(link, LINK_SWITCH);
	link->sw = sw;
	sw->link = link;
	sw->since_at_ms = inc_now_ms();
	json_decref(sw->ports);
	sw->ports = json_incref(json_object_get(object, "ports"));
	json_decref(sw->engines);
	sw->engines = json_incref(json_object_get(object, "engines"));
	clear_ports(sw);
	take_ports(sw);
	inc_switch_take_engines(sw, &said);
	inc_switch_offer(sw);
	keep = json_array();
	n = take_listed(sw, listed, &numbers, keep);
	if (n < 0) {
		json_decref(keep);
		inc_switch_drop(sw, "no memory for its communicators");
		return;
	}
	inc_info("switch %s is connected from %s: keeps %zu of %zu communicators",
		 inc_switch_name(sw), inc_ndjson_peer(link->conn), json_array_size(keep),
		 json_array_size(listed));
	if (welcome(link, keep)) {
		free(numbers);
		inc_switch_drop(sw, "no memory for its welcome");
		return;
	}
	inc_comm_check_kept(sw, numbers, n);
	free(numbers);
	/* what failed while the switch had no controller */
	json_array_foreach (failures, i, v)
		take_event(sw, v);
	inc_comms_ask_waiting(sw);
	inc_comm_switch_connected(sw);
}

/* Ends with the call that may free the link. */
static void take(struct inc_switch_link *link, json_t *object)
{
	const char *type = inc_message_type(object);
	struct inc_ndjson *conn = link->conn;

	link->ctl->figures.switch_messages++;
	if (link->state == LINK_ASKED)
		link_go(link, LINK_SWITCH);
	if (inc_message_is(type, INC_MSG_PING)) {
		inc_ndjson_send_new(conn, inc_message_new(INC_MSG_PONG, NULL));
	} else if (inc_message_is(type, INC_MSG_PONG)) {
		return;
	} else if (inc_message_is(type, INC_MSG_HELLO)) {
		take_hello(link, object);
	} else if (!link->sw) {
		inc_ndjson_send_error(
			conn, ENOTCONN, NULL,
			"'%.32s' before hello: this port is for switches, and members "
			"use port %u",
			type, link->ctl->opt.member_port);
		link_free(link);
	} else if (inc_request_answers(type)) {
		inc_request_answered(link, object);
	} else if (inc_message_is(type, INC_MSG_EVENT)) {
		take_event(link->sw, object);
	} else {
		inc_ndjson_send_error(conn, EPROTO, NULL, "unknown type '%.32s'", type);
	}
}

static void on_message(struct inc_ndjson *conn, json_t *object, void *arg)
{
	struct inc_switch_link *link = arg;
	struct inc_log_account *before = inc_log_on(&link->remote->log);

	take(link, object);
	inc_log_on(before);
}

static unsigned int waits(struct inc_ndjson *conn, void *arg)
{
	const struct inc_switch_link *link = arg;

	return inc_remote_waits(link->remote);
}

static void on_closed(struct inc_ndjson *conn, int code, const char *reason, void *arg)
{
	struct inc_switch_link *link = arg;
	struct inc_log_account *before = inc_log_on(&link->remote->log);

	if (link->sw)
		inc_warn("switch %s: connection lost: %s", inc_switch_name(link->sw), reason);
	else if (code)
		inc_info("%s: %s", inc_ndjson_peer(conn), reason);
	link_free(link);
	inc_log_on(before);
}

/* Too many connections: the oldest that has not said hello makes room. */
static bool make_room(struct inc_ctl *ctl)
{
	struct inc_switch_link *link, *oldest = NULL;

	LIST_FOREACH (link, &ctl->links, entry) {
		if (!link->sw)
			oldest = link; /* new ones stand at the head */
	}
	if (oldest)
		link_free(oldest);
	return oldest;
}

void inc_switch_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *addr, int len,
		       void *arg)
{
	static const struct inc_ndjson_ops ops = {
		.message = on_message, .closed = on_closed, .waits = waits};
	struct inc_ctl *ctl = arg;
	const struct inc_ndjson_limits limits = {
		.max_line = INC_SWITCH_LINE_MAX,
		.max_write = CTL_WRITE_MAX,
		.message_timeout_ms = ctl->opt.client_timeout_ms,
	};
	struct inc_switch_link *link = calloc(1, sizeof(*link));
	struct inc_err err;

	if (!link) {
		close(fd);
		return;
	}
	link->ctl = ctl;
	/* who has had its share makes nobody else go */
	link->remote = inc_remote_connects(ctl, addr);
	if (link->remote && (ctl->n_links < ctl->max_links || make_room(ctl)))
		link->silence = inc_timeout_new(&ctl->timeouts, on_silence, link);
	if (!link->silence) {
		close(fd);
		goto err;
	}
	link->conn = inc_ndjson_new(ctl->base, fd, &limits, &ops, link, &err);
	if (!link->conn || (ctl->tls && inc_ndjson_secure(link->conn, ctl->tls, NULL, &err))) {
		inc_warn("%s", err.msg);
		goto err;
	}
	LIST_INSERT_HEAD(&ctl->links, link, entry);
	ctl->n_links++;
	link_go(link, LINK_GREETING);
	return;

err:
	inc_ndjson_free(link->conn);
	inc_timeout_free(link->silence);
	inc_remote_gone(link->remote);
	free(link);
}
