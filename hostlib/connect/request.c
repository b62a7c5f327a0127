/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/connect/request.h"
#include "lib/base/caller.h"
#include "lib/base/clock.h"

void connect_request_hang_up(struct inc_connect_request *request)
{
	connect_call_end(request->call);
	request->call = NULL;
}

void connect_request_stop_clock(struct inc_connect_request *request)
{
	event_del(request->clock);
}

/* Releases everything of the context that the request uses, because the context may be destroyed
 * next. */
static void detach(struct inc_connect_request *request)
{
	LIST_REMOVE(request, entry);
	connect_request_hang_up(request);
	event_free(request->clock);
	event_free(request->finish);
	request->kind->detach(request);
}

static void release(struct inc_connect_request *request)
{
	request->kind->release(request);
	free(request->address);
	free(request);
}

static void on_finish(evutil_socket_t fd, short what, void *arg)
{
	struct inc_connect_request *request = arg;

	detach(request);
	request->kind->report(request);
	release(request);
}

static void on_clock(evutil_socket_t fd, short what, void *arg)
{
	struct inc_connect_request *request = arg;

	request->error = inc_err_set(&request->why, ETIMEDOUT, "%s: %s", request->address,
				     strerror(ETIMEDOUT));
	request->kind->time_out(request);
}

/* Allocates a client's request, and starts its time limit. After an error nothing needs to be
 * freed. */
static int make(struct inc_connect *ctx, const char *address, const struct inc_hostport *at,
		const struct inc_connect_request_opts *opts,
		const struct connect_request_kind *kind, struct inc_connect_request **out)
{
	const unsigned int timeout_ms = opts->timeout_ms ?: INC_CONNECT_TIMEOUT_MS;
	struct inc_connect_request *request = calloc(1, kind->size);

	if (!request)
		return -ENOMEM;
	request->kind = kind;
	request->ctx = ctx;
	request->arg = opts->arg;
	request->address = strdup(address);
	request->at = *at;
	request->clock = evtimer_new(ctx->base, on_clock, request);
	request->finish = evtimer_new(ctx->base, on_finish, request);
	if (!request->address || !request->clock || !request->finish) {
		if (request->clock)
			event_free(request->clock);
		if (request->finish)
			event_free(request->finish);
		free(request->address);
		free(request);
		return -ENOMEM;
	}
	LIST_INSERT_HEAD(&ctx->requests, request, entry);
	request->deadline_ns = inc_now_ns() + timeout_ms * INC_NSEC_PER_MSEC;
	connect_arm(request->clock, timeout_ms);
	*out = request;
	return 0;
}

int connect_request_make(struct inc_connect *ctx, const char *address,
			 const struct inc_connect_request_opts *given, bool called,
			 const struct connect_request_kind *kind, struct inc_connect_request **out)
{
	struct inc_connect_request_opts opts;
	struct inc_hostport at;
	struct inc_err err;
	int ret = inc_caller_opts(&opts, sizeof(opts), given);

	if (ret)
		inc_err_set(&err, -ret, INC_CALLER_OPTS_REFUSED);
	else if (!called)
		ret = inc_err_set(&err, EINVAL, "the callback is missing");
	else
		ret = inc_hostport_parse("address", address ?: "", INC_CONNECT_PORT, &at, &err);
	if (!ret && make(ctx, address, &at, &opts, kind, out))
		ret = inc_err_set(&err, ENOMEM, "%s: %s", address, strerror(ENOMEM));
	if (ret)
		inc_caller_explain(opts.error, opts.error_size, &err);
	return ret;
}

int connect_request_call(struct inc_connect_request *request)
{
	return connect_call_start(request->ctx, request->address, &request->at,
				  request->deadline_ns, &request->kind->call, request,
				  &request->call, &request->why);
}

int connect_request_no_memory(struct inc_connect_request *request)
{
	return inc_err_set(&request->why, ENOMEM, "%s: %s", request->address, strerror(ENOMEM));
}

int connect_request_ask(struct inc_connect_request *request, enum connect_message_id id)
{
	const struct connect_query query = {.version = CONNECT_VERSION};
	int ret = connect_call_send(request->call, connect_new(id, &query));

	return ret ? inc_err_set(&request->why, -ret, "%s: %s", request->address, strerror(-ret))
		   : 0;
}

int connect_request_answer(struct inc_connect_request *request, json_t *object,
			   enum connect_message_id id, void *out)
{
	const char *type = inc_message_type(object), *want = connect_messages[id].type;
	struct inc_msg_error refusal;
	struct inc_err err;
	int ret;

	if (!strcmp(type, inc_messages[INC_MSG_ERROR].type)) {
		ret = connect_read(CONNECT_MSG_ERROR, object, &refusal, &err);
		if (ret || !refusal.code)
			return inc_err_set(&request->why, EPROTO,
					   "%s: the service has sent an error without a reason",
					   request->address);
		return inc_err_set(&request->why, refusal.code, "%s: %s", request->address,
				   refusal.message[0] ? refusal.message : strerror(refusal.code));
	}
	if (strcmp(type, want))
		return inc_err_set(&request->why, EPROTO, "%s: '%.32s' instead of '%s'",
				   request->address, type, want);
	if (connect_read(id, object, out, &err))
		return inc_err_set(&request->why, EPROTO, "%s: %s: %s", request->address, want,
				   err.msg);
	return 0;
}

int connect_request_devices(struct inc_connect_request *request, json_t *object,
			    struct inc_connect_devices **devices)
{
	*devices = malloc(sizeof(**devices));
	if (!*devices)
		return connect_request_no_memory(request);
	return connect_request_answer(request, object, CONNECT_MSG_DEVICES, *devices);
}

void connect_request_finish(struct inc_connect_request *request, int error)
{
	request->error = error;
	connect_request_hang_up(request);
	connect_request_stop_clock(request);
	event_active(request->finish, EV_TIMEOUT, 0);
}

void inc_connect_cancel(struct inc_connect_request *request)
{
	if (!request)
		return;
	detach(request);
	release(request);
}
