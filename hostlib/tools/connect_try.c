/* SPDX-License-Identifier: BSD-2-Clause */
/* inc-connect connect: opens a socket, shows how its ports were chosen, and measures it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/tools/connect_tool.h"
#include "lib/base/log.h"
#include "lib/base/printable.h"

#define CLOSE_MS 1000 /* time limit in ms of a close, which is longer than a close may last */

struct attempt {
	struct connect_tool *tool;
	struct inc_connect_socket *socket;
	struct connect_found found;
	struct inc_connect_socket_info info;
	struct connect_measured measured;
	struct connect_outcome outcome;
	char why[512];
};

static void fail(struct attempt *a, int error, const char *why)
{
	a->outcome.error = error;
	snprintf(a->why, sizeof(a->why), "%s", why);
	/* the text goes into JSON, and jansson rejects text that is not UTF-8 */
	inc_printable(a->why);
	a->outcome.why = a->why;
}

/* Stores the result of inc_connect_open(). choice and why are copied, because they are valid only
 * during this callback. */
static void opened(void *arg, int error, const char *why, struct inc_connect_socket *socket,
		   const struct inc_connect_choice *choice)
{
	struct attempt *a = arg;

	a->socket = socket;
	if (error)
		fail(a, error, why);
	if (choice) {
		a->found.pairs = calloc(choice->n_pairs ?: 1, sizeof(*a->found.pairs));
		a->found.zones_ignored = choice->zones_ignored;
	}
	if (a->found.pairs) {
		a->found.n_pairs = choice->n_pairs;
		memcpy(a->found.pairs, choice->pairs, choice->n_pairs * sizeof(*a->found.pairs));
		a->outcome.found = &a->found;
	}
	event_base_loopbreak(a->tool->base);
}

static void open_socket(struct attempt *a)
{
	INC_CONNECT_OPTS(inc_connect_request_opts, opts, .timeout_ms = a->tool->timeout_ms,
			 .arg = a, .error = a->why, .error_size = sizeof(a->why));
	struct inc_connect_request *request;
	int err;

	err = inc_connect_open(a->tool->ctx, a->tool->host, &opts, opened, &request);
	if (!err) {
		connect_wait(a->tool);
		return;
	}
	a->outcome.error = err;
	a->outcome.why = a->why;
}

static void explain(struct attempt *a, int error)
{
	const struct connect_tool *tool = a->tool;
	const char *story = inc_connect_socket_error(a->socket);
	char why[sizeof(a->why)];

	if (story)
		snprintf(why, sizeof(why), "%s: %s", tool->host, story);
	else if (error == -EMSGSIZE && tool->mode != CONNECT_SEND)
		snprintf(why, sizeof(why),
			 "%s: --bytes %llu is more than %s port %u can do at once: %u", tool->host,
			 (unsigned long long)tool->bytes, a->info.local_name, a->info.local_port,
			 a->info.max_transfer_bytes);
	else if (error == -EMSGSIZE)
		snprintf(why, sizeof(why),
			 "%s: --bytes %llu is more than a message holds: %u, queue_pair.buf_size",
			 tool->config, (unsigned long long)tool->bytes, a->info.settings->buf_size);
	else if (error == -EBADMSG)
		snprintf(why, sizeof(why), "%s: what came back is not what was sent", tool->host);
	else if (error == -EPROTO)
		snprintf(why, sizeof(why), "%s does not run inc-connect serve", tool->host);
	else if (error == -ETIMEDOUT)
		snprintf(why, sizeof(why),
			 "%s: nothing has moved for %u ms, though %s on %s answers", tool->host,
			 tool->timeout_ms, a->info.remote_name, a->info.peer);
	else if (error == -EHOSTDOWN)
		snprintf(why, sizeof(why),
			 "%s: %s on %s has not answered for %u ms: the service or the network "
			 "is down",
			 tool->host, a->info.remote_name, a->info.peer, tool->timeout_ms);
	else
		snprintf(why, sizeof(why), "%s: %s", tool->host, strerror(-error));
	fail(a, error, why);
}

static void use_socket(struct attempt *a)
{
	int err;

	a->info.sz = sizeof(a->info);
	err = inc_connect_socket_info(a->socket, &a->info);
	if (!err) {
		a->outcome.info = &a->info;
		if (!a->tool->json)
			connect_print_info(&a->info);
		err = connect_measure(a->tool, a->socket, &a->measured);
	}
	if (err) {
		explain(a, err);
		return;
	}
	a->outcome.measured = &a->measured;
	if (!a->tool->json)
		connect_print_measured(a->tool, &a->measured);
}

/* Closes the socket in order, so that the service notices the end at once. */
static void close_socket(struct inc_connect_socket *socket)
{
	while (inc_connect_socket_close(socket) == -EAGAIN)
		if (inc_connect_socket_progress(socket) == 0 &&
		    inc_connect_socket_wait(socket, CLOSE_MS))
			break;
	inc_connect_socket_destroy(socket);
}

int connect_try(struct connect_tool *tool)
{
	struct attempt a = {.tool = tool};

	open_socket(&a);
	if (a.found.n_pairs && !tool->json)
		connect_print_found(&a.found);
	if (a.socket) {
		use_socket(&a);
		close_socket(a.socket);
	}
	if (tool->json)
		connect_print_json(tool, &a.outcome);
	if (a.outcome.error)
		inc_error("%s", a.outcome.why);
	free(a.found.pairs);
	return a.outcome.error ? 1 : 0;
}
