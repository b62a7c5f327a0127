/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "hostlib/connect/call.h"
#include "hostlib/connect/lookup.h"
#include "hostlib/connect/protocol.h"

struct connect_call {
	struct inc_connect *ctx;
	const char *address; /* as the caller has it */
	const struct connect_call_ops *ops;
	void *arg;
	struct connect_lookup *lookup;
	struct addrinfo *list;
	const struct addrinfo *at; /* which is tried */
	int fd;                    /* of the attempt, -1: none */
	struct event *attempt;
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

	/* what cannot be read is not of our protocol */
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

static void end_attempt(struct connect_call *call)
{
	if (call->attempt)
		event_free(call->attempt);
	call->attempt = NULL;
	if (call->fd >= 0)
		close(call->fd);
	call->fd = -1;
}

static void take_up(struct connect_call *call)
{
	static const struct inc_ndjson_ops ops = {.message = on_message, .closed = on_closed};
	const struct inc_ndjson_limits limits = {
		.max_line = CONNECT_ANSWER_MAX,
		.max_write = CONNECT_REQUEST_MAX,
		.draining = &call->ctx->draining,
	};
	const int fd = call->fd;
	struct inc_err err;

	call->fd = -1;
	end_attempt(call);
	call->conn = inc_ndjson_new(call->ctx->base, fd, &limits, &ops, call, &err);
	if (call->conn)
		call->ops->up(call->arg);
	else
		fail(call, -ENOMEM, err.msg);
}

static void on_attempt(evutil_socket_t fd, short what, void *arg);

/* 0: it is under way, or -errno. */
static int attempt(struct connect_call *call)
{
	const struct addrinfo *at = call->at;

	call->fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (call->fd < 0)
		return -errno;
	if (connect(call->fd, at->ai_addr, at->ai_addrlen) && errno != EINPROGRESS)
		return -errno;
	call->attempt = event_new(call->ctx->base, call->fd, EV_WRITE, on_attempt, call);
	return call->attempt && !event_add(call->attempt, NULL) ? 0 : -ENOMEM;
}

/* The first of the addresses from call->at on that can be tried. error: of the one before. */
static void attempt_next(struct connect_call *call, int error)
{
	for (; call->at; call->at = call->at->ai_next) {
		error = attempt(call);
		if (!error)
			return;
		end_attempt(call);
	}
	fail(call, error, strerror(-error));
}

static void on_attempt(evutil_socket_t fd, short what, void *arg)
{
	struct connect_call *call = arg;
	socklen_t len = sizeof(int);
	int error = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len))
		error = errno;
	if (!error) {
		take_up(call);
		return;
	}
	end_attempt(call);
	call->at = call->at->ai_next;
	attempt_next(call, -error);
}

static void on_found(void *arg, struct addrinfo *list, int error, const char *why)
{
	struct connect_call *call = arg;

	call->lookup = NULL;
	if (!list) {
		fail(call, error, why);
		return;
	}
	call->list = list;
	call->at = list;
	attempt_next(call, -EHOSTUNREACH);
}

int connect_call_start(struct inc_connect *ctx, const char *address, const struct inc_hostport *at,
		       const struct connect_call_ops *ops, void *arg, struct connect_call **out,
		       struct inc_err *err)
{
	struct connect_call *call = calloc(1, sizeof(*call));
	int ret;

	if (!call)
		return inc_err_set(err, ENOMEM, "%s: %s", address, strerror(ENOMEM));
	*call = (struct connect_call){
		.ctx = ctx, .address = address, .ops = ops, .arg = arg, .fd = -1};
	ret = connect_lookup_start(ctx->base, at, on_found, call, &call->lookup, err);
	if (ret)
		free(call);
	else
		*out = call;
	return ret;
}

int connect_call_send(struct connect_call *call, json_t *object)
{
	return inc_ndjson_send_new(call->conn, object);
}

void connect_call_end(struct connect_call *call)
{
	if (!call)
		return;
	connect_lookup_cancel(call->lookup);
	end_attempt(call);
	inc_ndjson_free(call->conn);
	if (call->list)
		freeaddrinfo(call->list);
	free(call);
}
