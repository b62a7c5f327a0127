/* SPDX-License-Identifier: BSD-2-Clause */
/* inc_connect_open(): the client's side of a connection. It follows the table of state.h and
 * carries out its actions. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/connect/request.h"
#include "hostlib/connect/rtr.h"
#include "hostlib/connect/select.h"
#include "hostlib/connect/state.h"
#include "lib/base/clock.h"

struct connect_client {
	struct inc_connect_request request; /* must be the first member */
	enum connect_state state;
	inc_connect_opened opened;
	uint64_t began_at_ns, latency_ns;
	struct connect_counters *counters;
	/* list of the service's devices; freed as soon as a pair of ports is chosen */
	struct inc_connect_devices *devices;
	/* The choice of a pair of ports. Its array of pairs is NULL before the choice. */
	struct connect_selected selected;
	struct connect_info peer;
	struct inc_connect_socket *socket;
	struct event *socket_event;
	struct connect_rtr *rtr; /* the call that moves the socket to RTR; NULL if none runs */
};

static int act(void *arg, enum connect_action_bit action);

static void step(struct connect_client *client, enum connect_event event)
{
	connect_follow(&client->state, event, act, client);
}

static void fail(struct connect_client *client, int error)
{
	client->request.error = error;
	step(client, CONNECT_EVENT_FAILED);
}

static void on_socket(evutil_socket_t fd, short what, void *arg)
{
	struct connect_client *client = arg;
	struct inc_connect_request *request = &client->request;
	enum connect_event event;
	struct inc_err err;
	int ret;

	/* The loop ends when an action has freed socket_event, because the connection is ready or
	 * has failed. The state machine ignores events that mean nothing in its state. */
	while (client->socket_event) {
		ret = connect_socket_event(client->socket, &event, &err);
		if (!ret)
			return;
		if (ret > 0) {
			step(client, event);
			continue;
		}
		inc_err_set(&request->why, -ret, "%s: %s", request->address, err.msg);
		fail(client, ret);
	}
}

static void unwatch(struct connect_client *client)
{
	if (client->socket_event)
		event_free(client->socket_event);
	client->socket_event = NULL;
}

static int choose(struct connect_client *client, struct inc_err *err)
{
	struct inc_connect *ctx = client->request.ctx;
	const struct inc_rdma_list *local = inc_rdma_inventory_get(ctx->inventory);
	int ret = connect_select(client->devices, local, &ctx->config,
				 connect_peers_next(&ctx->peers, client->request.address),
				 &client->selected, err);

	inc_rdma_list_put(local);
	free(client->devices);
	client->devices = NULL;
	return ret;
}

static int make(struct connect_client *client, struct inc_err *err)
{
	struct inc_connect *ctx = client->request.ctx;
	struct connect_connect asked = {
		.version = CONNECT_VERSION,
		.config = ctx->config.queue_pair,
	};
	const struct inc_connect_pair *pair;
	int ret = choose(client, err);

	if (ret)
		return ret;
	pair = &client->selected.pairs[client->selected.chosen];
	ret = connect_make_on(ctx, pair->local_dev, pair->local_name, pair->local_port,
			      &asked.config, &client->socket, err);
	if (ret)
		return ret;
	connect_socket_describe(client->socket, &asked.info);
	asked.target_dev = pair->remote_dev;
	memcpy(asked.target_devname, pair->remote_name, sizeof(asked.target_devname));
	asked.target_port = pair->remote_port;
	/* The port's events are handled from now on, because the port can go down at any time. */
	client->socket_event = connect_watch(ctx, client->socket, on_socket, client);
	ret = client->socket_event ? connect_call_send(client->request.call,
						       connect_new(CONNECT_MSG_CONNECT, &asked))
				   : -ENOMEM;
	return ret ? inc_err_set(err, -ret, "%s", strerror(-ret)) : 0;
}

static void on_rtr(void *arg, int error, const char *why)
{
	struct connect_client *client = arg;
	struct inc_connect_request *request = arg;

	client->rtr = NULL;
	if (!error) {
		step(client, CONNECT_EVENT_CAN_RECEIVE);
		return;
	}
	inc_err_set(&request->why, -error, "%s: %s", request->address, why);
	fail(client, error);
}

static int enter_rtr(struct connect_client *client, struct inc_err *err)
{
	struct inc_connect *ctx = client->request.ctx;

	return connect_rtr_start(ctx, client->socket, &client->peer,
				 connect_socket_bytes(&ctx->config.queue_pair), on_rtr, client,
				 &client->rtr, err);
}

static int try_to(struct connect_client *client, enum connect_action_bit action,
		  struct inc_err *err)
{
	switch (action) {
	case CONNECT_ACTION_MAKE:
		return make(client, err);
	case CONNECT_ACTION_ENTER_RTR:
		return enter_rtr(client, err);
	case CONNECT_ACTION_POST_RECEIVES:
		return connect_socket_post_receives(client->socket, err);
	case CONNECT_ACTION_ENTER_RTS:
		return connect_socket_to_rts(client->socket, err);
	default: /* CONNECT_ACTION_POST_PROBE */
		return connect_socket_probe(client->socket, err);
	}
}

static int act(void *arg, enum connect_action_bit action)
{
	struct connect_client *client = arg;
	struct inc_connect_request *request = arg;
	struct inc_err err;

	switch (action) {
	case CONNECT_ACTION_SEND_QUERY:
		request->error = connect_request_call(request);
		return request->error;
	case CONNECT_ACTION_STOP_CLOCK:
		connect_request_stop_clock(request);
		return 0;
	case CONNECT_ACTION_HANG_UP:
		connect_request_hang_up(request);
		return 0;
	case CONNECT_ACTION_STOP:
		unwatch(client);
		connect_rtr_stop(&client->rtr, &client->socket);
		return 0;
	case CONNECT_ACTION_REPORT_READY:
		unwatch(client);
		client->latency_ns = inc_now_ns() - client->began_at_ns;
		connect_request_finish(request, 0);
		return 0;
	case CONNECT_ACTION_REPORT_FAILED:
		connect_request_finish(request, request->error);
		return 0;
	default:
		request->error = try_to(client, action, &err);
		if (request->error)
			inc_err_set(&request->why, -request->error, "%s: %s", request->address,
				    err.msg);
		return request->error;
	}
}

static void on_up(void *arg)
{
	struct connect_client *client = arg;
	int ret = connect_request_ask(&client->request, CONNECT_MSG_QUERY);

	if (ret)
		fail(client, ret);
}

static void on_message(void *arg, json_t *object)
{
	struct connect_client *client = arg;
	enum connect_event event = CONNECT_EVENT_DEVICES;
	int ret;

	if (client->state == CONNECT_QUERYING) {
		ret = connect_request_devices(&client->request, object, &client->devices);
	} else if (client->state == CONNECT_ASKING) {
		event = CONNECT_EVENT_CONNECTED;
		ret = connect_request_answer(&client->request, object, CONNECT_MSG_CONNECTED,
					     &client->peer);
	} else {
		/* the client expects no more answers of the service, so it ignores this line */
		return;
	}
	if (ret)
		fail(client, ret);
	else
		step(client, event);
}

static void on_down(void *arg, int error, const char *why)
{
	struct connect_client *client = arg;
	struct inc_connect_request *request = arg;

	connect_request_hang_up(request);
	inc_err_set(&request->why, -error, "%s", why);
	request->error = error;
	step(client, CONNECT_EVENT_LOST);
}

static void time_out(struct inc_connect_request *request)
{
	struct connect_client *client = (struct connect_client *)request;

	inc_err_set(&request->why, ETIMEDOUT, "%s: %s: %s", request->address,
		    connect_state_text(client->state), strerror(ETIMEDOUT));
	step(client, CONNECT_EVENT_TIMEOUT);
}

static void detach(struct inc_connect_request *request)
{
	struct connect_client *client = (struct connect_client *)request;

	unwatch(client);
	if (client->rtr) /* the request was cancelled */
		connect_rtr_stop(&client->rtr, &client->socket);
	connect_uncount(&connect_counters_figures(client->counters)->connecting, 1);
}

static void report_ready(struct connect_client *client)
{
	struct inc_connect_request *request = &client->request;
	const struct connect_config *config = &request->ctx->config;
	const struct inc_connect_pair *pair = &client->selected.pairs[client->selected.chosen];
	struct inc_connect_socket *socket = client->socket;

	client->socket = NULL;
	connect_counters_latency(client->counters, CONNECT_LATENCY_CONNECT,
				 config->queue_pair.record_latency_per_peer ? request->address
									    : NULL,
				 client->latency_ns);
	connect_socket_hand_over(socket, client->state, client->latency_ns);
	connect_log(request->ctx, "%s: connected, %s/%u to its %s/%u", request->address,
		    pair->local_name, pair->local_port, pair->remote_name, pair->remote_port);
	client->opened(request->arg, 0, NULL, socket, &client->selected.choice);
}

static void report(struct inc_connect_request *request)
{
	struct connect_client *client = (struct connect_client *)request;

	if (!request->error) {
		report_ready(client);
		return;
	}
	connect_count(&connect_counters_figures(client->counters)->connect_failed, 1);
	connect_log(request->ctx, "%s", request->why.msg);
	client->opened(request->arg, request->error, request->why.msg, NULL,
		       client->selected.pairs ? &client->selected.choice : NULL);
}

static void release(struct inc_connect_request *request)
{
	struct connect_client *client = (struct connect_client *)request;

	inc_connect_socket_destroy(client->socket);
	free(client->selected.pairs);
	free(client->devices);
	connect_counters_release(client->counters);
}

int inc_connect_open(struct inc_connect *ctx, const char *address,
		     const struct inc_connect_request_opts *opts, inc_connect_opened done,
		     struct inc_connect_request **out)
{
	static const struct connect_request_kind kind = {
		.size = sizeof(struct connect_client),
		.call = {.up = on_up, .message = on_message, .down = on_down},
		.time_out = time_out,
		.detach = detach,
		.report = report,
		.release = release,
	};
	struct connect_client *client;
	int ret = connect_request_make(ctx, address, opts, done, &kind, out);

	if (ret)
		return ret;
	client = (struct connect_client *)*out;
	client->opened = done;
	client->began_at_ns = inc_now_ns();
	client->counters = connect_counters_hold(ctx->counters);
	connect_count(&connect_counters_figures(client->counters)->connecting, 1);
	step(client, CONNECT_EVENT_OPEN);
	return 0;
}
