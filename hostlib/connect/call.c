/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/connect/call.h"
#include "hostlib/connect/protocol.h"
#include "lib/net/lookup.h"
#include "lib/net/racing.h"

struct connect_call {
	struct inc_connect *ctx;
	const char *address; /* address of the service as the caller wrote it */
	const struct connect_call_ops *ops;
	void *arg;
	uint64_t deadline_ns;
	struct inc_lookup *lookup; /* look-up of the service's name; NULL if none runs */
	struct event *answer;      /* event of the look-up's descriptor */
	struct addrinfo *list;
	struct inc_racing *racing; /* attempts to connect to the addresses; NULL if none run */
	struct inc_ndjson *conn;
};

static void on_message(struct inc_ndjson *conn, json_t *object, void *arg)
{
	struct connect_call *call = arg;

	call->ops->message(call->arg, object);
}

static void on_closed(struct inc_ndjson *conn, int code, const char *reason, void *arg)
{
	struct connect_call *call = arg;
	struct inc_err why;

	/* if a line is no JSON or is too long, the peer speaks another protocol */
	code = code == EBADMSG || code == EMSGSIZE ? EPROTO : code ?: ECONNRESET;
	inc_err_set(&why, code, "%s: %s", call->address, reason);
	call->ops->down(call->arg, -code, why.msg);
}

static void fail(struct connect_call *call, int error, const char *reason)
{
	struct inc_err why;

	inc_err_set(&why, -error, "%s: %s", call->address, reason);
	call->ops->down(call->arg, error, why.msg);
}

static void open_tcp(struct connect_call *call, int fd)
{
	static const struct inc_ndjson_ops ops = {.message = on_message, .closed = on_closed};
	const struct inc_ndjson_limits limits = {
		.max_line = CONNECT_ANSWER_MAX,
		.max_write = CONNECT_REQUEST_MAX,
		.draining = &call->ctx->draining,
	};
	struct inc_err err;

	call->conn = inc_ndjson_new(call->ctx->base, fd, &limits, &ops, call, &err);
	if (call->conn)
		call->ops->up(call->arg);
	else
		fail(call, -ENOMEM, err.msg);
}

static void on_reached(void *arg, int fd)
{
	struct connect_call *call = arg;

	call->racing = NULL;
	if (fd >= 0)
		open_tcp(call, fd);
	else
		fail(call, fd, strerror(-fd));
}

static int race(struct connect_call *call)
{
	return inc_racing_start(call->ctx->base, call->list, call->deadline_ns, on_reached, call,
				&call->racing);
}

static void stop_waiting(struct connect_call *call)
{
	if (call->answer)
		event_free(call->answer);
	call->answer = NULL;
}

static void on_answer(evutil_socket_t fd, short what, void *arg);

static int watch(struct connect_call *call)
{
	call->answer =
		event_new(call->ctx->base, inc_lookup_fd(call->lookup), EV_READ, on_answer, call);
	return call->answer && !event_add(call->answer, NULL) ? 0 : -ENOMEM;
}

/* Handles that the look-up of the service's name has ended. Its event is freed first, because the
 * end of the look-up closes the event's descriptor. */
static void on_answer(evutil_socket_t fd, short what, void *arg)
{
	struct connect_call *call = arg;
	struct inc_err why = {};
	int ret;

	stop_waiting(call);
	ret = inc_lookup_end(call->lookup, &call->list, &why);
	if (ret == -EINPROGRESS) {
		ret = watch(call);
		if (!ret)
			return;
	} else {
		call->lookup = NULL;
		ret = ret ?: race(call);
	}
	if (ret)
		fail(call, ret, *why.msg ? why.msg : strerror(-ret));
}

static int look_up(struct connect_call *call, const struct inc_hostport *at, struct inc_err *err)
{
	int ret = inc_lookup_start(at, &call->lookup, err);

	if (ret)
		return ret;
	ret = watch(call);
	return ret ? inc_err_set(err, -ret, "%s", strerror(-ret)) : 0;
}

/* a numeric address is used as it is, because there is nothing to look up */
static int begin(struct connect_call *call, const struct inc_hostport *at, struct inc_err *err)
{
	int ret = inc_lookup_number(at, &call->list, err);

	if (ret == -ENOENT)
		return look_up(call, at, err);
	if (!ret && race(call))
		ret = inc_err_set(err, ENOMEM, "%s", strerror(ENOMEM));
	return ret;
}

int connect_call_start(struct inc_connect *ctx, const char *address, const struct inc_hostport *at,
		       uint64_t deadline_ns, const struct connect_call_ops *ops, void *arg,
		       struct connect_call **out, struct inc_err *err)
{
	struct connect_call *call = calloc(1, sizeof(*call));
	struct inc_err why;
	int ret;

	if (!call)
		return inc_err_set(err, ENOMEM, "%s: %s", address, strerror(ENOMEM));
	*call = (struct connect_call){
		.ctx = ctx, .address = address, .deadline_ns = deadline_ns, .ops = ops, .arg = arg};
	ret = begin(call, at, &why);
	if (ret) {
		connect_call_end(call);
		return inc_err_set(err, -ret, "%s: %s", address, why.msg);
	}
	*out = call;
	return 0;
}

int connect_call_send(struct connect_call *call, json_t *object)
{
	return inc_ndjson_send_new(call->conn, object);
}

void connect_call_end(struct connect_call *call)
{
	if (!call)
		return;
	stop_waiting(call);
	inc_lookup_cancel(call->lookup);
	inc_racing_cancel(call->racing);
	inc_ndjson_free(call->conn);
	if (call->list)
		freeaddrinfo(call->list);
	free(call);
}
