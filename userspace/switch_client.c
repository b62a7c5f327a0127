/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connection to the controller. When it is lost, traffic goes on. When it is back, the switch
 * reports its communicators and failures to the controller. renewal.c tries the connection that
 * shall take the place of one that works.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/clock.h"
#include "lib/net/hostport.h"
#include "lib/net/lines.h"
#include "lib/net/loop.h"
#include "lib/net/racing.h"
#include "lib/base/log.h"
#include "lib/base/machine.h"
#include "userspace/addresses.h"
#include "userspace/switchd.h"

#define RETRY_MIN_MS 100
#define RETRY_MAX_MS 1000
/* time limit for connecting to the controller, and then for its answer to "hello" */
#define CONNECT_MS 5000
/*
 * Of several controllers one leads, and the others do not listen. So the switch tries one after the
 * other, each for TRY_MS. It asks the one that leads for a sign of life every PING_MS. If
 * SILENT_PINGS go unanswered, the machine of that controller may have died without a word.
 */
#define NEXT_MS      100
#define TRY_MS       1500
#define PING_MS      500
#define SILENT_PINGS 5
#define MAX_WRITE    (16 << 20)
#define MESSAGE_MS   10000

enum state { WAITING, CONNECTING, GREETING, CONNECTED, STATES };

/* One of the controllers. */
struct controller {
	char text[INC_HOSTPORT_TEXT_BYTES]; /* HOST[:PORT], as the user gave it */
	struct inc_addresses *addresses;
	/* the reason that was last logged in the present outage; "": none yet */
	char said[sizeof(((struct inc_err *)0)->msg)];
};

struct inc_client {
	struct inc_daemon *d;
	enum state state;
	struct controller controllers[INC_HOSTPORTS_MAX];
	unsigned int n;  /* number of controllers */
	unsigned int at; /* number of the controller that is tried, or connected */
	/* pings since the last message of the connected controller, if there are several */
	unsigned int silent_pings;
	/* timer of the state: expires when the next attempt is due, or when an answer is overdue */
	struct inc_timer *timer;
	struct inc_racing *racing; /* the race for a connection, while the state is CONNECTING */
	struct inc_ndjson *conn;
	struct inc_tls *tls; /* TLS of the connection; NULL: without TLS */
	struct inc_renewal *renewal;
	/* The ports as they were when "hello" was sent. It may lack the endpoints of those that
	 * were lost or could not be read, and the RDMA devices of those that were down. */
	struct inc_engine_port told[INC_MAX_PORTS];
	uint32_t n_endpoints; /* number of endpoints in that "hello" */
	/* the last "hello" may lack endpoints, because memory or descriptors were short when they
	 * were looked for */
	bool incomplete;
	unsigned int retry_ms;
};

static const char *name_of(const struct inc_client *c)
{
	return c->controllers[c->at].text;
}

/* Changes the client's state, which no other function does. It also starts the state's timer.
 * WAITING lasts for retry_ms, which grows with each attempt, and GREETING for CONNECT_MS. With
 * several controllers both are short. CONNECTING has the limit of its race. CONNECTED has none, but
 * pings if there are several controllers. */
static void go(struct inc_client *c, enum state to)
{
	static const char *const names[] = {"waiting", "connecting", "greeting", "connected"};
	static const uint32_t steps[] = {
		/* the client goes from WAITING to WAITING if an attempt fails at once */
		[WAITING] = INC_STEP(WAITING) | INC_STEP(CONNECTING),
		[CONNECTING] = INC_STEP(WAITING) | INC_STEP(GREETING),
		[GREETING] = INC_STEP(WAITING) | INC_STEP(CONNECTED),
		[CONNECTED] = INC_STEP(WAITING),
	};
	static const struct inc_machine machine = {"controller", STATES, names, steps};

	c->state = inc_machine_step(&machine, name_of(c), c->state, to);
	if (to == WAITING)
		inc_timer_arm(c->timer, c->n > 1 ? NEXT_MS : c->retry_ms);
	else if (to == GREETING)
		inc_timer_arm(c->timer, c->n > 1 ? TRY_MS : CONNECT_MS);
	else if (to == CONNECTED && c->n > 1)
		inc_timer_arm(c->timer, PING_MS);
	else
		inc_timer_stop(c->timer);
}

const char *inc_client_state(const struct inc_client *c)
{
	return c->state == CONNECTED ? "connected" : c->state == WAITING ? "lost" : "connecting";
}

/* Closes the connection and schedules the next attempt, after a wait that grows with each attempt.
 * Logs the reason as a warning if the connection was up, or if the reason differs from the last
 * one. For example, a controller that could not be reached may now reject our key. */
static void retry(struct inc_client *c, const char *why)
{
	struct controller *at = &c->controllers[c->at];
	/* a connection that broke may work again at once, but a silent controller may be dead */
	const bool same = c->state == CONNECTED && c->silent_pings <= SILENT_PINGS;

	if (c->state == CONNECTED || strncmp(at->said, why, sizeof(at->said) - 1) != 0)
		inc_warn("controller %s: %s; traffic goes on, trying %s", at->text, why,
			 c->n > 1 && !same ? "the next" : "again");
	else
		inc_debug("controller %s: %s", at->text, why);
	snprintf(at->said, sizeof(at->said), "%s", why);
	/* a connection that could not begin TLS must send nothing */
	inc_renewal_end(c->renewal, c->state >= GREETING ? c->conn : NULL);
	inc_ndjson_free(c->conn);
	c->conn = NULL;
	c->at = same ? c->at : (c->at + 1) % c->n;
	go(c, WAITING);
	/* look the controller's name up again, because it may have another address by now */
	inc_addresses_refresh(at->addresses);
	c->retry_ms = c->retry_ms * 2 > RETRY_MAX_MS ? RETRY_MAX_MS : c->retry_ms * 2;
}

/* Replaces the present names of ports in an offer by the names with which the switch was started,
 * because the controller's topology has these. */
static void call_given(const struct inc_client *c, struct inc_msg_engine *engine)
{
	const struct inc_daemon *d = c->d;
	uint32_t k, i;

	for (k = 0; k < engine->n_endpoints; k++) {
		for (i = 0; i < d->n_ports; i++)
			if (!strcmp(d->port[i].name, engine->endpoints[k].port))
				break;
		if (i < d->n_ports)
			strcpy(engine->endpoints[k].port, d->port[i].given);
	}
}

/* Reads the capabilities in one mode. Returns whether the switch has that mode. */
static bool read_engine(struct inc_client *c, uint32_t mode, struct inc_msg_engine *engine,
			struct inc_err *err)
{
	const int ret = inc_engines_offer(c->d, mode, engine, err);

	if (mode == INC_TERMINATION)
		c->incomplete = ret > 0 || ret == -ENOMEM;
	return ret >= 0;
}

/* Adds the capabilities in one mode to hello. Returns NULL if the switch lacks that mode. */
static const struct inc_msg_engine *say_engine(struct inc_client *c, uint32_t mode,
					       struct inc_msg_hello *said)
{
	struct inc_msg_engine *engine = &said->engines[said->n_engines];
	struct inc_err err;

	if (read_engine(c, mode, engine, &err)) {
		said->n_engines++;
		call_given(c, engine);
		return engine;
	}
	if (mode == said->mode)
		inc_warn("no communicator can be made here in the switch's own mode, %s: %s",
			 inc_modes_of_switch[mode], err.msg);
	else
		inc_debug("no %s mode here: %s", inc_modes_of_switch[mode], err.msg);
	return NULL;
}

/* Adds the switch's capabilities in both modes to "hello". The limits of passthrough mode stand
 * outside the list of modes as well, for controllers that read only those. */
static void say_engines(struct inc_client *c, struct inc_msg_hello *said)
{
	const struct inc_msg_engine *passes, *ends;

	said->mode = c->d->conf.settings.mode;
	passes = say_engine(c, INC_PASSTHROUGH, said);
	if (passes) {
		said->has_limits = true;
		said->limits = passes->limits;
	}
	ends = say_engine(c, INC_TERMINATION, said);
	c->n_endpoints = ends ? ends->n_endpoints : 0;
}

static void send_hello(struct inc_client *c)
{
	struct inc_msg_hello said = {.version = INC_CONTROL_VERSION};
	json_t *numbers = json_array(), *hello;
	struct inc_comm_at at;
	uint32_t i;

	inc_ports_check(c->d);
	for (i = 0; i < c->d->n_ports; i++) {
		c->told[i] = c->d->port[i];
		if (c->d->ports_unread)
			c->told[i].condition = INC_PORT_LOST;
	}
	INC_FOR_COMMS (c->d, &at)
		json_array_append_new(numbers, json_integer(at.comm.communicator));
	say_engines(c, &said);
	strcpy(said.node, c->d->conf.name);
	hello = inc_message_new(INC_MSG_HELLO, &said);
	json_object_set_new(hello, "ports", inc_query_port_list(c->d, true));
	json_object_set_new(hello, "communicators", numbers);
	json_object_set_new(hello, "failures", inc_event_first_failures(c->d));
	json_object_set_new(hello, "notices", inc_event_notices(c->d));
	inc_ndjson_send_new(c->conn, hello);
}

static bool listed(const json_t *list, uint32_t number)
{
	const json_t *v;
	size_t i;

	json_array_foreach (list, i, v)
		if (json_integer_value(v) == number)
			return true;
	return false;
}

/* Whether the switch has more endpoints now than its last "hello" has, as when the port of an RDMA
 * device has come up. */
static bool offers_more(struct inc_client *c)
{
	struct inc_msg_engine engine = {};
	struct inc_err err;

	return read_engine(c, INC_TERMINATION, &engine, &err) &&
	       engine.n_endpoints > c->n_endpoints;
}

/* Sends a new hello because the last one lacks something, on a new connection. This closes the
 * present connection as soon as the controller has accepted another one. */
static void renew(struct inc_client *c, const char *why)
{
	struct controller *at = &c->controllers[c->at];

	inc_renewal_try(c->renewal, at->text, at->addresses, &c->tls, why);
}

static void check_port(struct inc_client *c, uint32_t i)
{
	const struct inc_engine_port *now = &c->d->port[i];
	struct inc_engine_port *told = &c->told[i];

	if (told->condition == INC_PORT_LOST && now->condition != INC_PORT_LOST) {
		renew(c, "a port is back that was lost at the last hello");
	} else if (now->addresses && now->addresses != told->addresses) {
		renew(c, "a port has other addresses than in the last hello");
	} else if (told->mtu && now->mtu > told->mtu) {
		renew(c, "a port has a larger MTU than at the last hello");
	} else if (told->condition == INC_PORT_DOWN && now->condition == INC_PORT_UP) {
		if (offers_more(c))
			renew(c, "a port is up whose RDMA device the last hello lacks");
		else
			told->condition = INC_PORT_UP;
	}
}

void inc_client_check_ports(struct inc_client *c)
{
	const struct inc_daemon *d = c->d;
	uint32_t i;

	/* While the interfaces cannot be read, a new "hello" would lack the same endpoints, and the
	 * switch would connect again and again. */
	if (d->ports_unread)
		return;
	for (i = 0; c->state == CONNECTED && i < d->n_ports; i++)
		check_port(c, i);
	if (c->state == CONNECTED && c->incomplete && offers_more(c))
		renew(c, "an endpoint is found that the last hello lacks for want of memory or "
			 "descriptors");
}

static void on_welcome(struct inc_client *c, const json_t *object)
{
	const json_t *keep = json_object_get(object, "keep");
	struct inc_failure *f;
	struct inc_comm_at at;
	struct inc_err err;

	go(c, CONNECTED);
	c->retry_ms = RETRY_MIN_MS;
	for (unsigned int i = 0; i < c->n; i++)
		c->controllers[i].said[0] = '\0';
	inc_info("controller %s: connected as switch %s", name_of(c), c->d->conf.name);
	INC_FOR_COMMS (c->d, &at)
		if (!listed(keep, at.comm.communicator) &&
		    inc_daemon_remove(c->d, at.comm.communicator, &err))
			inc_error("%s", err.msg);
	/* send the failures that "hello" did not contain: further ones of a communicator, and those
	 * that have come since */
	TAILQ_FOREACH (f, &c->d->events->failures, entry) {
		if (f->told || !inc_event_stands(c->d, &f->event))
			continue;
		if (inc_event_is_notice(f->event.kind))
			inc_event_standing(c->d, f->event.communicator, f->event.stands);
		inc_client_event(c, &f->event);
	}
	/* a port may have gone or come back since "hello" */
	inc_event_tell_ports(c->d, c->told);
	inc_client_check_ports(c);
}

/* Sends an answer whose only content is the number of a communicator. */
static void confirm(struct inc_client *c, const json_t *object, enum inc_message_id id,
		    uint32_t communicator)
{
	json_t *answer = inc_message_new(id, &(struct inc_msg_number){communicator});

	json_object_set(answer, "seq", json_object_get(object, "seq"));
	inc_ndjson_send_new(c->conn, answer);
}

static void refuse(struct inc_client *c, const json_t *object, int code, const char *text)
{
	inc_ndjson_send_error(c->conn, code, json_object_get(object, "seq"), "%s", text);
}

/* Answers "configure" with the numbers that the switch's own ends have got. */
static void confirm_ends(struct inc_client *c, const json_t *object,
			 const struct inc_comm_conf *conf)
{
	struct inc_msg_configured said = {.communicator = conf->communicator,
					  .n_conns = conf->n_conns};
	json_t *answer;
	uint32_t i;

	for (i = 0; i < conf->n_conns; i++) {
		const struct inc_conn_conf *conn = &conf->conn[i];

		said.conn[i] = (struct inc_msg_own){
			.rank = conn->rank, .up = conn->up, .own = conn->own, .pkey = conn->pkey};
	}
	answer = inc_message_new(INC_MSG_CONFIGURED, &said);
	json_object_set(answer, "seq", json_object_get(object, "seq"));
	inc_ndjson_send_new(c->conn, answer);
}

static void on_configure(struct inc_client *c, const json_t *object)
{
	struct inc_comm_conf conf;
	struct inc_err err;
	uint32_t i;
	int ret;

	ret = inc_config_json(object, &conf, &err);
	/* if the peer is another switch's port, its MAC address comes from that switch's hello and
	 * may have changed since, so this switch only begins with the address */
	for (i = 0; !ret && i < conf.n_conns; i++)
		conf.conn[i].has_peer_mac = false;
	ret = ret ?: inc_daemon_configure(c->d, &conf, &err);
	if (!ret) {
		confirm_ends(c, object, &conf);
		return;
	}
	inc_warn("configuration refused: %s", err.msg);
	refuse(c, object, -ret, err.msg);
}

static void on_connect(struct inc_client *c, const json_t *object)
{
	struct inc_msg_connect said = {};
	struct inc_err err;
	int ret;

	ret = inc_message_read(INC_MSG_CONNECT, object, &said, &err);
	ret = ret ?: inc_daemon_connect(c->d, said.communicator, said.conn, said.n_conns, &err);
	if (ret)
		refuse(c, object, -ret, err.msg);
	else
		confirm(c, object, INC_MSG_CONNECTED, said.communicator);
}

static void on_remove(struct inc_client *c, const json_t *object)
{
	struct inc_msg_number said;
	struct inc_err err;
	int ret;

	ret = inc_message_read(INC_MSG_REMOVE, object, &said, &err);
	ret = ret ?: inc_daemon_remove(c->d, said.communicator, &err);
	if (ret)
		refuse(c, object, -ret, err.msg);
	else
		confirm(c, object, INC_MSG_REMOVED, said.communicator);
}

static void on_error(struct inc_client *c, const json_t *object)
{
	struct inc_msg_error said = {.message = "refused"};

	inc_message_read(INC_MSG_ERROR, object, &said, NULL);
	if (c->state == GREETING)
		retry(c, said.message);
	else
		inc_warn("controller %s: %s", name_of(c), said.message);
}

static void on_message(struct inc_ndjson *conn, json_t *object, void *arg)
{
	const char *type = inc_message_type(object);
	struct inc_client *c = arg;
	char what[64];

	c->silent_pings = 0;
	if (inc_message_is(type, INC_MSG_PING)) {
		inc_ndjson_send_new(conn, inc_message_new(INC_MSG_PONG, NULL));
	} else if (inc_message_is(type, INC_MSG_ERROR)) {
		on_error(c, object);
	} else if (inc_message_is(type, INC_MSG_WELCOME) && c->state == GREETING) {
		on_welcome(c, object);
	} else if (inc_message_is(type, INC_MSG_CONFIGURE) && c->state == CONNECTED) {
		on_configure(c, object);
	} else if (inc_message_is(type, INC_MSG_CONNECT) && c->state == CONNECTED) {
		on_connect(c, object);
	} else if (inc_message_is(type, INC_MSG_REMOVE) && c->state == CONNECTED) {
		on_remove(c, object);
	} else if (inc_message_is(type, INC_MSG_QUERY)) {
		inc_query_answer(c->d, conn, object);
	} else if (!inc_message_is(type, INC_MSG_PONG)) {
		snprintf(what, sizeof(what), "unexpected type '%.32s'", type);
		refuse(c, object, EPROTO, what);
	}
}

static void on_closed(struct inc_ndjson *conn, int code, const char *reason, void *arg)
{
	retry(arg, reason);
}

static void take_up(struct inc_client *c, int fd)
{
	static const struct inc_ndjson_ops ops = {.message = on_message, .closed = on_closed};
	static const struct inc_ndjson_limits limits = {.max_line = INC_SWITCH_LINE_MAX,
							.max_write = MAX_WRITE,
							.message_timeout_ms = MESSAGE_MS};
	const char *host = inc_addresses_host(c->controllers[c->at].addresses);
	struct inc_err err = {};

	c->conn = inc_ndjson_new(c->d->base, fd, &limits, &ops, c, &err);
	if (!c->conn || (c->tls && inc_ndjson_secure(c->conn, c->tls, host, &err))) {
		retry(c, err.msg);
		return;
	}
	go(c, GREETING);
	send_hello(c);
}

static void on_reached(void *arg, int fd)
{
	struct inc_client *c = arg;

	c->racing = NULL;
	if (fd >= 0)
		take_up(c, fd);
	else
		retry(c, fd == -ETIMEDOUT ? "no answer" : strerror(-fd));
}

static void start_connect(struct inc_client *c)
{
	const unsigned int limit_ms = c->n > 1 ? TRY_MS : CONNECT_MS;
	const char *why;
	const struct addrinfo *list = inc_addresses_take(c->controllers[c->at].addresses, &why);
	int ret;

	if (!list) {
		retry(c, why);
		return;
	}
	inc_renewal_read_key(c->renewal, &c->tls);
	ret = inc_racing_start(c->d->base, list, inc_now_ns() + limit_ms * INC_NSEC_PER_MSEC,
			       on_reached, c, &c->racing);
	if (ret)
		retry(c, strerror(-ret));
	else
		go(c, CONNECTING);
}

static void on_timer(void *arg)
{
	struct inc_client *c = arg;

	if (c->state == WAITING) {
		start_connect(c);
	} else if (c->state == GREETING) {
		retry(c, "no answer to hello");
	} else if (++c->silent_pings > SILENT_PINGS) {
		retry(c, "does not answer");
	} else {
		inc_ndjson_send_new(c->conn, inc_message_new(INC_MSG_PING, NULL));
		inc_timer_arm(c->timer, PING_MS);
	}
}

static void on_accepted(void *arg, const char *why)
{
	retry(arg, why);
}

static void on_due(void *arg)
{
	inc_client_check_ports(arg);
}

static void close_addresses(struct inc_client *c)
{
	for (unsigned int i = 0; i < c->n; i++)
		inc_addresses_close(c->controllers[i].addresses);
}

/* Splits the list of controllers, and looks up the addresses of each. */
static int open_addresses(struct inc_client *c, struct inc_err *err)
{
	const char *text = c->d->opt.controller;
	struct inc_hostports all;
	int ret = inc_hostports_parse("controller", text, INC_PORT_SWITCHES, &all, err);

	for (c->n = 0; !ret && c->n < all.n; c->n++) {
		struct controller *to = &c->controllers[c->n];
		const char *comma = strchrnul(text, ',');

		snprintf(to->text, sizeof(to->text), "%.*s", (int)(comma - text), text);
		text = comma + 1;
		ret = inc_addresses_open(c->d->base, to->text, &to->addresses, err);
	}
	return ret;
}

int inc_client_start(struct inc_daemon *d, struct inc_client **out, struct inc_err *err)
{
	struct inc_client *c = calloc(1, sizeof(*c));
	const struct inc_renewal_owner owner = {.accepted = on_accepted, .due = on_due, .arg = c};
	int ret;

	if (!c)
		return inc_err_set(err, ENOMEM, "no memory for the controller's connection");
	c->d = d;
	c->retry_ms = RETRY_MIN_MS;
	ret = open_addresses(c, err);
	if (!ret && inc_tls_wanted(&d->opt.tls)) {
		c->tls = inc_tls_client(&d->opt.tls, err);
		ret = c->tls ? 0 : -EINVAL;
	}
	if (ret)
		goto fail;
	c->timer = inc_timer_new(d->base, on_timer, c);
	c->renewal = inc_renewal_new(d, &owner);
	/* arm the timer, without which the client would make no first attempt */
	if (!c->timer || !c->renewal || inc_timer_arm(c->timer, 0)) {
		ret = inc_err_set(err, ENOMEM, "no memory for the controller's connection");
		goto fail;
	}
	*out = c;
	return 0;

fail:
	inc_renewal_free(c->renewal);
	inc_timer_free(c->timer);
	inc_tls_free(c->tls);
	close_addresses(c);
	free(c);
	return ret;
}

void inc_client_stop(struct inc_client *c)
{
	if (!c)
		return;
	inc_racing_cancel(c->racing);
	if (c->conn) {
		/* sends the last events now, because the event loop does not run again */
		inc_ndjson_flush(c->conn);
		inc_ndjson_free(c->conn);
	}
	inc_renewal_free(c->renewal);
	inc_timer_free(c->timer);
	inc_tls_free(c->tls);
	close_addresses(c);
	free(c);
}

void inc_client_event(struct inc_client *c, const struct inc_msg_event *event)
{
	if (c->state == CONNECTED)
		inc_ndjson_send_new(c->conn, inc_message_new(INC_MSG_EVENT, event));
}
