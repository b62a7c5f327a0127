/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections on the switch port. A hello makes a connection that of a switch. Called by the event
 * loop and by carry.c. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/resource.h>
#include "controller/core/core.h"
#include "controller/core/event.h"
#include "controller/core/switch.h"
#include "controller/net/address_limit.h"
#include "controller/net/authorization.h"
#include "controller/net/link.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/machine.h"
#include "lib/net/lines.h"

/* A switch replaces its connection within this time after it has announced that by a ping, or not
 * at all. It waits 5 s for the answer. */
#define RENEWAL_NS (10 * INC_NSEC_PER_SEC)

int inc_links_share_descriptors(struct inc_ctl *ctl, unsigned int n_switches, struct inc_err *err)
{
	const rlim_t own = CTL_OWN_DESCRIPTORS + n_switches +
			   (ctl->opt.metrics ? INC_SCRAPE_DESCRIPTORS : 0) +
			   (ctl->opt.http ? INC_SCRAPE_DESCRIPTORS : 0);
	const rlim_t want = own + ctl->opt.max_clients + CTL_SPARE_LINKS + CTL_SPARE_CLOSING;
	struct rlimit limit;
	rlim_t rest;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return inc_err_set(err, errno, "limit of descriptors: %s", strerror(errno));
	if (limit.rlim_cur >= want) {
		ctl->max_links = n_switches + CTL_SPARE_LINKS;
		return 0;
	}
	limit.rlim_cur = limit.rlim_max < want ? limit.rlim_max : want;
	if (setrlimit(RLIMIT_NOFILE, &limit))
		return inc_err_set(err, errno, "limit of descriptors: %s", strerror(errno));
	if (limit.rlim_cur < own + 8)
		return inc_err_set(err, EMFILE,
				   "%llu descriptors (ulimit -n) are too few: %llu at "
				   "least",
				   (unsigned long long)limit.rlim_cur, (unsigned long long)own + 8);
	ctl->max_links = n_switches + CTL_SPARE_LINKS;
	if (limit.rlim_cur >= want)
		return 0;
	rest = limit.rlim_cur - own;
	if (ctl->opt.max_clients > rest * 3 / 4)
		ctl->opt.max_clients = rest * 3 / 4;
	if (CTL_SPARE_LINKS > rest / 8)
		ctl->max_links = n_switches + rest / 8;
	inc_warn("%llu descriptors (ulimit -n) are too few: --max-clients is %u",
		 (unsigned long long)limit.rlim_cur, ctl->opt.max_clients);
	return 0;
}

int inc_links_init(struct inc_ctl *ctl)
{
	ctl->switches = calloc(ctl->topo->n_switches, sizeof(*ctl->switches));
	return ctl->switches ? 0 : -ENOMEM;
}

/* A connection of a switch changes its state only here. A new connection steps from LINK_GREETING
 * to itself. */
static void link_set_state(struct inc_switch_link *link, enum inc_link_state to)
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
	else
		inc_timeout_stop(link->silence);
}

static void link_free(struct inc_switch_link *link)
{
	struct inc_core_switch *sw = link->sw;

	link_set_state(link, LINK_CLOSED);
	LIST_REMOVE(link, entry);
	link->ctl->n_links--;
	if (sw) {
		struct inc_ctl_switch *side = &link->ctl->switches[sw->index];
		const struct inc_core_event lost = {.kind = CORE_EVENT_SWITCH_LOST,
						    .sw = sw,
						    .peer_closed = link->peer_closed,
						    .renews = inc_now_ns() <
							      side->renewal_ends_at_ns};

		side->link = NULL;
		inc_ctl_step(link->ctl, &lost);
		inc_requests_fail(link, sw);
	}
	inc_timeout_free(link->silence);
	inc_ndjson_free(link->conn);
	inc_address_limit_release(link->address_limit);
	free(link);
}

void inc_links_free(struct inc_ctl *ctl)
{
	while (!LIST_EMPTY(&ctl->links))
		link_free(LIST_FIRST(&ctl->links));
	for (unsigned int i = 0; ctl->switches && i < ctl->topo->n_switches; i++) {
		json_decref(ctl->switches[i].ports);
		json_decref(ctl->switches[i].engines);
	}
	free(ctl->switches);
}

void inc_switch_drop(struct inc_ctl *ctl, const struct inc_core_switch *sw, const char *reason)
{
	struct inc_switch_link *link = ctl->switches[sw->index].link;

	if (!link)
		return;
	inc_warn("switch %s: connection closed: %s", inc_switch_name(sw), reason);
	link_free(link);
}

static void on_silence(void *arg)
{
	struct inc_switch_link *link = arg;

	if (link->state == LINK_ASKED) {
		inc_switch_drop(link->ctl, link->sw, "does not answer");
		return;
	}
	inc_info("%s: no hello, closed", inc_ndjson_peer(link->conn));
	inc_ndjson_send_error(link->conn, ETIMEDOUT, NULL, "no hello within %u ms",
			      link->ctl->opt.client_timeout_ms);
	link_free(link);
}

/* Pings a switch, because a second connection has sent a hello for it. The second one is refused,
 * but the old connection may be dead. */
static void probe(struct inc_switch_link *link)
{
	if (link->state == LINK_ASKED)
		return;
	link_set_state(link, LINK_ASKED);
	inc_ndjson_send_new(link->conn, inc_message_new(INC_MSG_PING, NULL));
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

/* Finds the switch of this name in the topology, and checks whether the peer may be that switch.
 * Returns the index of the switch or -errno. */
static int find_switch(const struct inc_switch_link *link, const char *name, struct inc_err *err)
{
	const struct inc_topology *topo = link->ctl->topo;
	const int ret = inc_authorize_switch(inc_ndjson_identity(link->conn), name, err);
	const int index = ret ?: inc_topology_switch_by_name(topo, name);

	if (ret || index >= 0)
		return index;
	return inc_err_set(err, ENOENT, "the topology %s has no switch '%.32s'", topo->name, name);
}

static int parse_hello(struct inc_switch_link *link, json_t *object, struct inc_msg_hello *said,
		       struct inc_core_switch **out, struct inc_err *err)
{
	struct inc_switch_link *other;
	int index;

	index = inc_first_message_read(link->conn, INC_MSG_HELLO, object, said, &said->version,
				       err);
	index = index ?: find_switch(link, said->node, err);
	if (index < 0)
		return index;
	other = link->ctl->switches[index].link;
	if (other) {
		probe(other);
		return inc_err_set(err, EADDRINUSE, "switch %s is connected already, from %s",
				   said->node, inc_ndjson_peer(other->conn));
	}
	*out = link->ctl->core.switches[index];
	return check_lists(object, err);
}

/* The parts of a switch's hello that the core uses. free_hello() frees them. */
struct hello {
	struct inc_msg_hello said;
	struct inc_msg_port *ports;
	uint32_t *listed;
	struct inc_msg_event *failures;
	struct inc_msg_notice *notices;
	struct inc_core_event event;
};

static void free_hello(struct hello *h)
{
	free(h->ports);
	free(h->listed);
	free(h->failures);
	free(h->notices);
}

/* Reads the ports of a switch's hello. If an entry cannot be read, the MTU of the port's cable
 * counts. An error is logged only if the topology has the port. */
static void read_ports(const struct inc_core_switch *sw, const json_t *ports, struct hello *h)
{
	const struct inc_topo_switch *topo = &sw->core->topo->switches[sw->index];
	const json_t *object;
	struct inc_err err;
	size_t i;

	json_array_foreach (ports, i, object) {
		struct inc_msg_port *port = &h->ports[h->event.n_ports];

		*port = (struct inc_msg_port){0};
		if (inc_schema_read_json(&inc_port_schema, object, port, &err) &&
		    inc_topology_port_by_name(topo, port->name) >= 0)
			inc_warn("switch %s: port %s: %s", inc_switch_name(sw), port->name,
				 err.msg);
		h->event.n_ports++;
	}
}

static void read_listed(const struct inc_core_switch *sw, const json_t *listed, struct hello *h)
{
	const json_t *v;
	size_t i;

	json_array_foreach (listed, i, v) {
		json_int_t number = json_integer_value(v);

		if (number < 1 || number > UINT32_MAX)
			h->event.n_wrong++;
		else
			h->listed[h->event.n_listed++] = number;
	}
	if (h->event.n_wrong)
		inc_warn("switch %s: %u entries of 'communicators' are not valid numbers",
			 inc_switch_name(sw), h->event.n_wrong);
}

/* Reads a switch's message "event". Returns 0, or -EINVAL after logging that the message is
 * ignored. */
static int read_notice(const struct inc_core_switch *sw, const json_t *object,
		       struct inc_msg_event *out)
{
	struct inc_err err;

	*out = (struct inc_msg_event){0};
	if (!inc_message_read(INC_MSG_EVENT, object, out, &err)) {
		/* an unknown kind of event is logged here, because the core receives kinds as
		 * numbers */
		if (out->kind == INC_EVENT_KIND_OTHER)
			inc_warn("switch %s: event '%.32s' is unknown", inc_switch_name(sw),
				 json_string_value(json_object_get(object, "event")));
		return 0;
	}
	inc_warn("switch %s: event of communicator %u ignored: %s", inc_switch_name(sw),
		 out->communicator, err.msg);
	return -EINVAL;
}

/* Reads what the switch finds wrong with its communicators now. */
static void read_standing(const struct inc_core_switch *sw, const json_t *notices, struct hello *h)
{
	struct inc_err err;
	const json_t *v;
	size_t i;

	json_array_foreach (notices, i, v) {
		struct inc_msg_notice *notice = &h->notices[h->event.n_notices];

		if (!inc_message_read(INC_MSG_NOTICE, v, notice, &err))
			h->event.n_notices++;
		else
			inc_warn("switch %s: an entry of 'notices' is ignored: %s",
				 inc_switch_name(sw), err.msg);
	}
}

static int read_hello(const struct inc_switch_link *link, struct inc_core_switch *sw,
		      const json_t *object, struct hello *h)
{
	const json_t *ports = json_object_get(object, "ports"),
		     *listed = json_object_get(object, "communicators");
	const json_t *failures = json_object_get(object, "failures"),
		     *notices = json_object_get(object, "notices"), *v;
	size_t i;

	h->ports = calloc(json_array_size(ports) + 1, sizeof(*h->ports));
	h->listed = calloc(json_array_size(listed) + 1, sizeof(*h->listed));
	h->failures = calloc(json_array_size(failures) + 1, sizeof(*h->failures));
	h->notices = calloc(json_array_size(notices) + 1, sizeof(*h->notices));
	if (!h->ports || !h->listed || !h->failures || !h->notices)
		return -ENOMEM;
	h->event = (struct inc_core_event){.kind = CORE_EVENT_HELLO,
					   .sw = sw,
					   .hello = &h->said,
					   .from = inc_ndjson_peer(link->conn),
					   .ports = h->ports,
					   .listed = h->listed,
					   .failures = h->failures,
					   .notices = h->notices};
	read_ports(sw, ports, h);
	read_listed(sw, listed, h);
	json_array_foreach (failures, i, v)
		h->event.n_failures += !read_notice(sw, v, &h->failures[h->event.n_failures]);
	read_standing(sw, notices, h);
	return 0;
}

static void take_event(struct inc_switch_link *link, const json_t *object)
{
	struct inc_msg_event said;

	if (read_notice(link->sw, object, &said))
		return;
	inc_page_event(link->ctl, link->sw, &said);
	inc_ctl_step(link->ctl, &(struct inc_core_event){.kind = CORE_EVENT_NOTICE,
							 .sw = link->sw,
							 .notice = &said});
}

int inc_switch_welcome(struct inc_ctl *ctl, const struct inc_core_switch *sw, const uint32_t *keep,
		       uint32_t n)
{
	struct inc_switch_link *link = ctl->switches[sw->index].link;
	json_t *list;

	if (!link)
		return 0;
	list = json_array();
	for (uint32_t i = 0; i < n; i++) {
		if (json_array_append_new(list, json_integer(keep[i]))) {
			/* an incomplete list would make the switch remove communicators that run */
			json_decref(list);
			return -ENOMEM;
		}
	}
	inc_persist_before_send(ctl->persist);
	return inc_ndjson_send_new(
		link->conn, json_pack("{s:s, s:s, s:o}", "type", inc_messages[INC_MSG_WELCOME].type,
				      "switch", inc_switch_name(sw), "keep", list));
}

/* Keeps the lists of ports and engines of a switch's hello, because tools can ask for them. The
 * connection is that of the hello, so the switch has no other one to announce. */
static void keep_lists(struct inc_ctl_switch *side, const json_t *object)
{
	json_decref(side->ports);
	side->ports = json_incref(json_object_get(object, "ports"));
	json_decref(side->engines);
	side->engines = json_incref(json_object_get(object, "engines"));
	side->renewal_ends_at_ns = 0;
}

static void take_hello(struct inc_switch_link *link, json_t *object)
{
	struct hello h = {
		.said = {.limits = {.children = INC_MAX_CHILDREN, .slots = INC_MAX_SLOTS}}};
	struct inc_core_switch *sw = NULL;
	struct inc_ctl *ctl = link->ctl;
	struct inc_err err;
	int ret;

	if (link->sw) {
		inc_ndjson_send_error(link->conn, EISCONN, NULL, "hello twice");
		return;
	}
	ret = parse_hello(link, object, &h.said, &sw, &err);
	if (!ret && read_hello(link, sw, object, &h))
		ret = inc_err_set(&err, ENOMEM, "the controller is out of memory");
	if (ret) {
		inc_warn("%s: hello refused: %s", inc_ndjson_peer(link->conn), err.msg);
		inc_ndjson_send_error(link->conn, -ret, NULL, "%s", err.msg);
		free_hello(&h);
		link_free(link);
		return;
	}
	link_set_state(link, LINK_SWITCH);
	link->sw = sw;
	ctl->switches[sw->index].link = link;
	keep_lists(&ctl->switches[sw->index], object);
	inc_ctl_step(ctl, &h.event);
	free_hello(&h);
}

/* Answers a ping. A switch that has to replace its connection first names itself in a ping on
 * another one. Such a ping is refused if the hello of that switch would be refused here. Otherwise
 * it is remembered, so that communicators that are being made outlive the loss of the connection.
 */
static void take_ping(struct inc_switch_link *link, const json_t *object)
{
	struct inc_msg_query said = {};
	struct inc_err err;
	int ret = inc_message_read(INC_MSG_TRIAL, object, &said, &err);

	if (!ret && said.has_node)
		ret = find_switch(link, said.node, &err);
	if (ret >= 0) {
		if (said.has_node)
			link->ctl->switches[ret].renewal_ends_at_ns = inc_now_ns() + RENEWAL_NS;
		inc_ndjson_send_new(link->conn, inc_message_new(INC_MSG_PONG, NULL));
		return;
	}
	inc_warn("%s: ping refused: %s", inc_ndjson_peer(link->conn), err.msg);
	inc_ndjson_send_error(link->conn, -ret, NULL, "%s", err.msg);
}

/* Handles a message on the switch port. The call that may free the link comes last. */
static void take(struct inc_switch_link *link, json_t *object)
{
	const char *type = inc_message_type(object);
	struct inc_ndjson *conn = link->conn;

	link->ctl->figures.switch_messages++;
	if (link->state == LINK_ASKED)
		link_set_state(link, LINK_SWITCH);
	if (inc_message_is(type, INC_MSG_PING)) {
		take_ping(link, object);
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
		take_event(link, object);
	} else {
		inc_ndjson_send_error(conn, EPROTO, NULL, "unknown type '%.32s'", type);
	}
}

static void on_message(struct inc_ndjson *conn, json_t *object, void *arg)
{
	struct inc_switch_link *link = arg;
	struct inc_log_account *before = inc_log_on(&link->address_limit->log);

	take(link, object);
	inc_log_on(before);
}

static unsigned int waits(struct inc_ndjson *conn, void *arg)
{
	const struct inc_switch_link *link = arg;

	return inc_address_limit_wait_ms(link->address_limit);
}

static void on_closed(struct inc_ndjson *conn, int code, const char *reason, void *arg)
{
	struct inc_switch_link *link = arg;
	struct inc_log_account *before = inc_log_on(&link->address_limit->log);

	/* the kernel of the switch's machine may have closed the connection in the middle of a
	 * line, or while this controller was about to write */
	link->peer_closed = !code || code == ECONNRESET || code == EPIPE ||
			    inc_ndjson_check_open(conn, NULL) == -ECONNRESET;
	if (link->sw)
		inc_warn("switch %s: connection lost: %s", inc_switch_name(link->sw), reason);
	else if (code)
		inc_info("%s: %s", inc_ndjson_peer(conn), reason);
	link_free(link);
	inc_log_on(before);
}

/* Closes the oldest connection on the switch port that has not sent a hello, because there are too
 * many connections. Returns false if there is none. */
static bool make_room(struct inc_ctl *ctl)
{
	struct inc_switch_link *link, *oldest = NULL;

	LIST_FOREACH (link, &ctl->links, entry) {
		if (!link->sw)
			/* connections are inserted at the head, so the last one is the oldest */
			oldest = link;
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
		.before_write = inc_ctl_before_write,
		.before_write_arg = ctl,
	};
	struct inc_switch_link *link = calloc(1, sizeof(*link));
	struct inc_err err;

	if (!link) {
		close(fd);
		return;
	}
	link->ctl = ctl;
	/* The limit of the peer's address is checked first. So a peer whose address is above its
	 * limit makes no connection of other addresses close. */
	link->address_limit = inc_address_limit_admit(ctl, fd, addr);
	if (link->address_limit && (ctl->n_links < ctl->max_links || make_room(ctl)))
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
	link_set_state(link, LINK_GREETING);
	return;

err:
	inc_ndjson_free(link->conn);
	inc_timeout_free(link->silence);
	inc_address_limit_release(link->address_limit);
	free(link);
}
