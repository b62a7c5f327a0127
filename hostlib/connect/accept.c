/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A client of a service. The client may ask each question once, and then ask for a connection. The
 * service's side of the connection follows the table of state.h, and this file carries out its
 * actions. Any client can make the service allocate a struct, and a queue pair with its memory. So
 * the number, the bytes and the lifetime of clients are limited.
 */
#include <jansson.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "hostlib/connect/protocol.h"
#include "hostlib/connect/rtr.h"
#include "hostlib/connect/service.h"
#include "hostlib/connect/state.h"
#include "lib/base/clock.h"
#include "lib/conf/messages.h"
#include "lib/net/hostport.h"

/* bytes that may wait to be sent to a client: one answer and one error */
#define MAX_WRITE (CONNECT_ANSWER_MAX + CONNECT_REQUEST_MAX)

struct connect_accept {
	struct inc_connect_service *service;
	LIST_ENTRY(connect_accept) entry;
	char peer[INC_CONNECT_HOST_SIZE]; /* IP address of the client */
	struct inc_ndjson *conn;
	/* Time limit of the client. It holds for the client's next line, and after the answer for
	 * its first message. */
	struct event *clock;
	enum connect_state state;
	unsigned int asked; /* set of requests received: one bit for each enum connect_message_id */
	uint64_t asked_at_ns;
	/* bytes of this client's socket, as counted in the service's making_bytes */
	uint64_t bytes;
	struct connect_connect request;
	struct inc_connect_socket *socket;
	struct event *socket_event;
	struct connect_rtr *rtr; /* the call that moves the socket to RTR; NULL if none runs */
	/* -errno with which the client's connection ends; why has the reason */
	int error;
	struct inc_err why;
};

static int act(void *arg, enum connect_action_bit action);

/* Passes an event to the client's state machine. Returns true if that has freed the client. */
static bool step(struct connect_accept *client, enum connect_event event)
{
	return connect_follow(&client->state, event, act, client);
}

static struct connect_figures *figures_of(const struct connect_accept *client)
{
	return connect_counters_figures(client->service->ctx->counters);
}

/* Frees the client, but returns its socket, which lives on. */
static struct inc_connect_socket *detach_socket(struct connect_accept *client)
{
	struct inc_connect_service *service = client->service;
	struct inc_connect_socket *socket = client->socket;

	LIST_REMOVE(client, entry);
	service->n_clients--;
	service->making_bytes -= client->bytes;
	if (client->asked & 1u << CONNECT_MSG_CONNECT)
		connect_uncount(&figures_of(client)->accepting, 1);
	if (client->socket_event)
		event_free(client->socket_event);
	if (client->clock)
		event_free(client->clock);
	inc_ndjson_free(client->conn);
	connect_service_client_ended(service);
	free(client);
	return socket;
}

void connect_accept_end(struct connect_accept *client)
{
	step(client, CONNECT_EVENT_CLOSE);
	inc_connect_socket_destroy(detach_socket(client));
}

/* Ends the client, which receives this error as the last message. A connection that is being made
 * fails with the error. */
static void refuse(struct connect_accept *client, int error, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void refuse(struct connect_accept *client, int error, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	client->error = inc_err_vset(&client->why, error, "", fmt, ap);
	va_end(ap);
	if (client->asked & 1u << CONNECT_MSG_CONNECT)
		step(client, CONNECT_EVENT_FAILED);
	else
		connect_accept_end(client);
}

static void on_socket(evutil_socket_t fd, short what, void *arg)
{
	struct connect_accept *client = arg;
	enum connect_event event;
	bool gone = false;
	int ret;

	while (!gone) {
		ret = connect_socket_event(client->socket, &event, &client->why);
		if (!ret)
			return;
		client->error = ret < 0 ? ret : 0;
		gone = step(client, ret > 0 ? event : CONNECT_EVENT_FAILED);
	}
}

static int out_of_memory(struct connect_accept *client)
{
	return inc_err_set(&client->why, ENOMEM, "%s", strerror(ENOMEM));
}

static int make_for_peer(struct connect_accept *client)
{
	const struct connect_connect *asked = &client->request;
	struct inc_connect_service *service = client->service;
	const struct connect_rtrs *rtrs = &service->ctx->rtrs;
	const uint64_t bytes = connect_socket_bytes(&asked->config);
	const uint64_t others = service->making_bytes + rtrs->abandoned_bytes;

	/* One connection alone may use any amount of memory that its settings allow; only several
	 * together are limited. */
	if ((others && others + bytes > CONNECT_MAX_MAKING_BYTES) ||
	    rtrs->n_abandoned >= CONNECT_MAX_CLIENTS)
		return inc_err_set(&client->why, ENOBUFS,
				   "too many connections are being made: try again");
	service->making_bytes += bytes;
	client->bytes = bytes;
	connect_arm(client->clock, service->accept_timeout_ms);
	return connect_make_on(service->ctx, asked->target_dev, asked->target_devname,
			       asked->target_port, &asked->config, &client->socket, &client->why);
}

static void on_rtr(void *arg, int error, const char *why)
{
	struct connect_accept *client = arg;

	client->rtr = NULL;
	if (!error) {
		step(client, CONNECT_EVENT_CAN_RECEIVE);
		return;
	}
	client->error = inc_err_set(&client->why, -error, "%s", why);
	step(client, CONNECT_EVENT_FAILED);
}

static int enter_rtr(struct connect_accept *client)
{
	return connect_rtr_start(client->service->ctx, client->socket, &client->request.info,
				 client->bytes, on_rtr, client, &client->rtr, &client->why);
}

static int send_answer(struct connect_accept *client)
{
	struct connect_info info;
	int ret;

	client->socket_event =
		connect_watch(client->service->ctx, client->socket, on_socket, client);
	if (!client->socket_event)
		return out_of_memory(client);
	connect_socket_describe(client->socket, &info);
	/* on_written() ends the wait for the answer, when the kernel has accepted the whole
	 * answer */
	connect_arm(client->clock, client->service->accept_timeout_ms);
	ret = inc_ndjson_send_new(client->conn, connect_new(CONNECT_MSG_CONNECTED, &info));
	return ret ? inc_err_set(&client->why, -ret, "%s", strerror(-ret)) : 0;
}

static void report_ready(struct connect_accept *client)
{
	struct inc_connect_service *service = client->service;
	const struct connect_connect *asked = &client->request;
	struct inc_connect *ctx = service->ctx;
	const uint64_t latency_ns = inc_now_ns() - client->asked_at_ns;
	const bool per_peer = asked->config.record_latency_per_peer ||
			      ctx->config.queue_pair.record_latency_per_peer;
	const enum connect_state state = client->state;
	struct inc_connect_socket *socket;
	char peer[sizeof(client->peer)];

	memcpy(peer, client->peer, sizeof(peer));
	connect_log(ctx, "%s: accepted, its %s/%u to %s/%u", peer, asked->info.dev_name,
		    asked->info.port, asked->target_devname, asked->target_port);
	connect_counters_latency(ctx->counters, CONNECT_LATENCY_ACCEPT, per_peer ? peer : NULL,
				 latency_ns);
	socket = detach_socket(client);
	connect_socket_hand_over(socket, state, latency_ns);
	/* the service is not used after this callback, which may have closed the service */
	service->accepted(service->arg, socket, peer);
}

static void report_failed(struct connect_accept *client)
{
	connect_count(&figures_of(client)->accept_failed, 1);
	connect_log(client->service->ctx, "%s: not accepted: %s", client->peer, client->why.msg);
	inc_connect_socket_destroy(detach_socket(client));
}

static int try_to(struct connect_accept *client, enum connect_action_bit action)
{
	switch (action) {
	case CONNECT_ACTION_MAKE_FOR_PEER:
		return make_for_peer(client);
	case CONNECT_ACTION_ENTER_RTR:
		return enter_rtr(client);
	case CONNECT_ACTION_POST_RECEIVES:
		return connect_socket_post_receives(client->socket, &client->why);
	case CONNECT_ACTION_SEND_ANSWER:
		return send_answer(client);
	default: /* CONNECT_ACTION_ENTER_RTS */
		return connect_socket_to_rts(client->socket, &client->why);
	}
}

/* Sends the client the reason why there is no connection, and closes the TCP connection. A client
 * that has received the answer already ignores the error, because it reads no more lines. */
static void hang_up(struct connect_accept *client)
{
	if (client->conn && client->error)
		inc_ndjson_send_error(client->conn, -client->error, NULL, "%s", client->why.msg);
	inc_ndjson_free(client->conn);
	client->conn = NULL;
}

static int act(void *arg, enum connect_action_bit action)
{
	struct connect_accept *client = arg;

	switch (action) {
	case CONNECT_ACTION_STOP_CLOCK:
		if (client->clock)
			event_del(client->clock);
		break;
	case CONNECT_ACTION_HANG_UP:
		hang_up(client);
		break;
	case CONNECT_ACTION_STOP:
		connect_rtr_stop(&client->rtr, &client->socket);
		break;
	case CONNECT_ACTION_REPORT_READY:
		report_ready(client);
		break;
	case CONNECT_ACTION_REPORT_FAILED:
		report_failed(client);
		break;
	default:
		client->error = try_to(client, action);
		return client->error;
	}
	return 0;
}

/* Sends the client an answer, and releases the reference to object. Returns 0, or -errno with the
 * reason in client->why. */
static int answer(struct connect_accept *client, json_t *object)
{
	int ret = object ? inc_ndjson_send_new(client->conn, object) : -ENOMEM;

	connect_arm(client->clock, client->service->accept_timeout_ms);
	return ret ? inc_err_set(&client->why, -ret, "%s", strerror(-ret)) : 0;
}

static int answer_query(struct connect_accept *client, const json_t *object)
{
	struct inc_connect_devices *devices;
	struct connect_query query;
	json_t *message;
	int ret = connect_read(CONNECT_MSG_QUERY, object, &query, &client->why);

	if (ret)
		return ret;
	devices = malloc(sizeof(*devices));
	if (!devices)
		return out_of_memory(client);
	inc_connect_devices(client->service->ctx, devices);
	message = connect_new(CONNECT_MSG_DEVICES, devices);
	free(devices);
	return answer(client, message);
}

static int answer_figures(struct connect_accept *client, const json_t *object)
{
	struct connect_query query;
	json_t *message, *families;
	int ret = connect_read(CONNECT_MSG_ASK_FIGURES, object, &query, &client->why);

	if (ret)
		return ret;
	families = connect_figures_families(client->service->ctx->counters);
	message = connect_new(CONNECT_MSG_FIGURES, NULL);
	if (json_object_set_new(message, "families", families)) {
		json_decref(message);
		return out_of_memory(client);
	}
	return answer(client, message);
}

/* Begins to make a connection, as the client's message connect asks. Returns an error only for a
 * message that cannot be read, because the state machine's actions report later errors. */
static int begin_connection(struct connect_accept *client, const json_t *object)
{
	int ret = connect_read(CONNECT_MSG_CONNECT, object, &client->request, &client->why);

	if (ret)
		return ret;
	client->asked_at_ns = inc_now_ns();
	client->asked |= 1u << CONNECT_MSG_CONNECT;
	connect_count(&figures_of(client)->accepting, 1);
	step(client, CONNECT_EVENT_ASKED);
	return 0;
}

static void on_message(struct inc_ndjson *conn, json_t *object, void *arg)
{
	static const struct {
		enum connect_message_id id;
		int (*handle)(struct connect_accept *client, const json_t *object);
	} requests[] = {
		{CONNECT_MSG_QUERY, answer_query},
		{CONNECT_MSG_ASK_FIGURES, answer_figures},
		{CONNECT_MSG_CONNECT, begin_connection},
	};
	const char *type = inc_message_type(object);
	struct connect_accept *client = arg;
	size_t i;
	int ret;

	for (i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
		if (!strcmp(type, connect_messages[requests[i].id].type))
			break;
	if (i == sizeof(requests) / sizeof(requests[0])) {
		refuse(client, EPROTO, "unknown type '%.32s'", type);
		return;
	}
	if (client->asked & (1u << requests[i].id | 1u << CONNECT_MSG_CONNECT)) {
		refuse(client, EPROTO, "'%s' after '%s'", type,
		       client->asked & 1u << CONNECT_MSG_CONNECT ? "connect" : type);
		return;
	}
	/* A message connect counts as received only after it was read without error. Its failures
	 * are reported by the state machine from then on. */
	if (requests[i].id != CONNECT_MSG_CONNECT)
		client->asked |= 1u << requests[i].id;
	ret = requests[i].handle(client, object);
	if (ret) {
		client->error = ret;
		connect_accept_end(client);
	}
}

static void on_written(struct inc_ndjson *conn, void *arg)
{
	step(arg, CONNECT_EVENT_ANSWERED);
}

static void on_closed(struct inc_ndjson *conn, int code, const char *reason, void *arg)
{
	struct connect_accept *client = arg;

	inc_ndjson_free(client->conn);
	client->conn = NULL;
	if (!(client->asked & 1u << CONNECT_MSG_CONNECT)) {
		connect_accept_end(client);
		return;
	}
	client->error = inc_err_set(&client->why, code ?: ECONNRESET, "%s", reason);
	step(client, CONNECT_EVENT_LOST);
}

static void on_clock(evutil_socket_t fd, short what, void *arg)
{
	struct connect_accept *client = arg;

	if (!(client->asked & 1u << CONNECT_MSG_CONNECT)) {
		refuse(client, ETIMEDOUT, "no request within %u ms",
		       client->service->accept_timeout_ms);
		return;
	}
	client->error = inc_err_set(&client->why, ETIMEDOUT, "%s within %u ms",
				    client->state == CONNECT_SEEKING ? "no way to the client's port"
								     : "no first message",
				    client->service->accept_timeout_ms);
	connect_count(&figures_of(client)->accept_timeout, 1);
	step(client, CONNECT_EVENT_TIMEOUT);
}

static bool is_one_too_many(const struct connect_accept *client)
{
	const struct connect_accept *other;
	unsigned int n = 0;

	LIST_FOREACH (other, &client->service->clients, entry)
		n += !strcmp(other->peer, client->peer);
	return n > CONNECT_MAX_CLIENTS_PER_PEER;
}

/* Creates the client's line reader and its timer. Returns 0, or -ENOMEM; then connect_accept_end()
 * frees what exists. */
static int open_tcp(struct connect_accept *client, int fd)
{
	static const struct inc_ndjson_ops ops = {
		.message = on_message, .closed = on_closed, .written = on_written};
	struct inc_connect *ctx = client->service->ctx;
	const struct inc_ndjson_limits limits = {
		.max_line = CONNECT_REQUEST_MAX,
		.max_write = MAX_WRITE,
		.message_timeout_ms = client->service->accept_timeout_ms,
		.draining = &ctx->draining,
	};

	client->conn = inc_ndjson_new(ctx->base, fd, &limits, &ops, client, &client->why);
	client->clock = evtimer_new(ctx->base, on_clock, client);
	if (!client->conn || !client->clock)
		return -ENOMEM;
	connect_arm(client->clock, client->service->accept_timeout_ms);
	return 0;
}

void connect_accept_start(struct inc_connect_service *service, int fd, const struct sockaddr *peer,
			  size_t peer_size)
{
	struct connect_accept *client = calloc(1, sizeof(*client));
	struct inc_hostport at = {.host = "unknown"};

	if (!client) {
		close(fd);
		return;
	}
	client->service = service;
	inc_hostport_name(peer, peer_size, &at);
	snprintf(client->peer, sizeof(client->peer), "%.*s", (int)sizeof(client->peer) - 1,
		 at.host);
	LIST_INSERT_HEAD(&service->clients, client, entry);
	service->n_clients++;
	if (open_tcp(client, fd))
		connect_accept_end(client);
	else if (is_one_too_many(client))
		refuse(client, EBUSY, "more than %u clients at once", CONNECT_MAX_CLIENTS_PER_PEER);
}
