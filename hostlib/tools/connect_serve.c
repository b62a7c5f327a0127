/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inc-connect serve: a service that carries out the commands of connect_tool.h on each socket,
 * in one event loop. It handles the messages of a client in order. If an answer finds no room in
 * the send queue, this message and all behind it wait.
 */
#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include "hostlib/tools/connect_tool.h"
#include "lib/base/log.h"
#include "lib/net/scrape.h"

/* interval in s at which clients are checked; one whose device has not answered is dropped */
#define CHECK_S 10
/* most messages of one client that are handled before other clients have their turn */
#define MAX_PER_TURN 64

struct server {
	const struct connect_tool *tool;
	/* The service that accepts clients. It is NULL after the first signal, while clients are
	 * being closed. */
	struct inc_connect_service *service;
	struct inc_scrape *scrape;
	struct event *interrupt, *term, *check;
	LIST_HEAD(, client) clients;
	uint64_t memory_bytes; /* bytes of the memory that all clients together have requested */
};

struct client {
	struct server *server;
	struct inc_connect_socket *socket;
	struct event *event;
	char peer[INC_CONNECT_HOST_SIZE]; /* IP address of the client */
	bool closing;
	void *memory;
	uint32_t memory_bytes;
	struct inc_connect_region *region;
	LIST_ENTRY(client) entry;
};

static void drop_memory(struct client *c)
{
	inc_connect_region_release(c->region);
	free(c->memory);
	c->server->memory_bytes -= c->memory_bytes;
	c->region = NULL;
	c->memory = NULL;
	c->memory_bytes = 0;
}

static void end_client(struct client *c, const char *why)
{
	struct server *s = c->server;

	inc_info("%s: %s", c->peer, why);
	LIST_REMOVE(c, entry);
	if (c->event)
		event_free(c->event);
	drop_memory(c);
	inc_connect_socket_destroy(c->socket);
	free(c);
	if (!s->service && LIST_EMPTY(&s->clients))
		event_base_loopbreak(s->tool->base);
}

/* Replaces the memory that a client has requested. If there is none, the answer has size 0. */
static void make_memory(struct client *c, struct connect_memory *memory)
{
	const uint32_t size = be32toh(memory->size);

	drop_memory(c);
	*memory = (struct connect_memory){.kind = CONNECT_COMMAND_MEMORY};
	if (!size || size > CONNECT_MEMORY_MAX - c->server->memory_bytes)
		return;
	c->memory = calloc(1, size);
	if (!c->memory)
		return;
	c->memory_bytes = size;
	c->server->memory_bytes += size;
	if (inc_connect_socket_register(c->socket, c->memory, size, true, &c->region)) {
		drop_memory(c);
		return;
	}
	memory->size = htobe32(size);
	memory->key = htobe32(inc_connect_region_key(c->region));
	memory->address = htobe64(inc_connect_region_address(c->region));
}

static int answer_memory(struct client *c, const void *data, size_t size)
{
	struct connect_memory memory;

	if (size != sizeof(memory))
		return -EPROTO;
	memcpy(&memory, data, sizeof(memory));
	make_memory(c, &memory);
	return inc_connect_socket_send(c->socket, &memory, sizeof(memory));
}

/* Carries out the command in a client's message. Returns 0; -EAGAIN: the send queue has no room for
 * the answer; -EPROTO: an unknown command; or the socket's error. */
static int handle_message(struct client *c, const void *data, size_t size)
{
	switch (size ? *(const uint8_t *)data : 0) {
	case CONNECT_COMMAND_ECHO:
		return inc_connect_socket_send(c->socket, data, size);
	case CONNECT_COMMAND_DROP:
		return 0;
	case CONNECT_COMMAND_MEMORY:
		return answer_memory(c, data, size);
	default:
		return -EPROTO;
	}
}

/* Handles a client's messages until there are none. If the send queue has no room for an answer, it
 * stops and returns -EAGAIN. */
static int handle_messages(struct client *c)
{
	const void *data;
	size_t size;
	int err = 0;

	for (unsigned int i = 0; i < MAX_PER_TURN && !err; i++) {
		err = inc_connect_socket_receive(c->socket, &data, &size)
			      ?: handle_message(c, data, size);
		if (!err)
			err = inc_connect_socket_release(c->socket);
	}
	return err;
}

static void end_with_error(struct client *c, int err)
{
	const char *story = inc_connect_socket_error(c->socket);

	if (err == -ESHUTDOWN)
		end_client(c, "has closed");
	else if (err == -EPROTO && !story)
		end_client(c, "has sent an unknown message");
	else
		end_client(c, story ? story : strerror(-err));
}

/* Handles a client's messages, or continues to close its socket. May free the client. */
static void serve_client(struct client *c)
{
	int err = c->closing ? inc_connect_socket_close(c->socket) : handle_messages(c);

	if (err && err != -EAGAIN) {
		end_with_error(c, err);
	} else if (c->closing && !err) {
		end_client(c, "closed");
	} else if (inc_connect_socket_progress(c->socket) || !err) {
		/* the client is served again soon, because messages that arrived before an error
		 * are handled before it */
		event_active(c->event, EV_READ, 0);
	}
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	serve_client(arg);
}

static void accepted(void *arg, struct inc_connect_socket *socket, const char *peer)
{
	struct client *c = calloc(1, sizeof(*c));
	struct server *s = arg;

	if (!c) {
		inc_error("%s: %s", peer, strerror(ENOMEM));
		inc_connect_socket_destroy(socket);
		return;
	}
	c->server = s;
	c->socket = socket;
	snprintf(c->peer, sizeof(c->peer), "%s", peer);
	LIST_INSERT_HEAD(&s->clients, c, entry);
	inc_info("%s: connected", c->peer);
	c->event = event_new(s->tool->base, inc_connect_socket_fd(socket), EV_READ | EV_PERSIST,
			     on_readable, c);
	if (!c->event || event_add(c->event, NULL))
		end_client(c, strerror(ENOMEM));
	else
		/* the client is served now, because messages that have arrived already do not make
		 * the descriptor readable */
		event_active(c->event, EV_READ, 0);
}

/* Drops clients whose device has not answered the last check. Nothing else detects that a client's
 * machine has failed. */
static void on_check(evutil_socket_t fd, short what, void *arg)
{
	struct server *s = arg;
	struct client *c, *next;

	for (c = LIST_FIRST(&s->clients); c; c = next) {
		next = LIST_NEXT(c, entry);
		if (inc_connect_socket_check(c->socket) == -EAGAIN)
			end_client(c, "does not answer");
	}
}

/* Handles a signal. The first one closes all connections, each within its time limit. A second one
 * ends the program at once. */
static void on_signal(evutil_socket_t number, short what, void *arg)
{
	struct server *s = arg;
	struct client *c, *next;

	inc_info("signal %d, leaving", (int)number);
	if (!s->service || LIST_EMPTY(&s->clients))
		event_base_loopbreak(s->tool->base);
	inc_connect_service_close(s->service);
	s->service = NULL;
	for (c = LIST_FIRST(&s->clients); c; c = next) {
		next = LIST_NEXT(c, entry);
		c->closing = true;
		serve_client(c);
	}
}

static bool print_figures(void *arg, struct inc_scrape_at *at, FILE *out)
{
	const struct server *s = arg;
	char *text = inc_connect_figures_part(s->tool->ctx, at->section++);

	if (!text)
		return false;
	fputs(text, out);
	free(text);
	return true;
}

static int start(struct server *s)
{
	const struct timeval every = {.tv_sec = CHECK_S};
	struct event_base *base = s->tool->base;
	struct inc_err why = {};
	INC_CONNECT_OPTS(inc_connect_serve_opts, opts, .listen = s->tool->listen,
			 .accepted = accepted, .arg = s, .error = why.msg,
			 .error_size = sizeof(why.msg));
	int err;

	s->interrupt = evsignal_new(base, SIGINT, on_signal, s);
	s->term = evsignal_new(base, SIGTERM, on_signal, s);
	s->check = event_new(base, -1, EV_PERSIST, on_check, s);
	if (!s->interrupt || !s->term || !s->check || event_add(s->interrupt, NULL) ||
	    event_add(s->term, NULL) || event_add(s->check, &every))
		err = inc_err_set(&why, ENOMEM, "starting: %s", strerror(ENOMEM));
	else
		err = inc_connect_serve(s->tool->ctx, &opts, &s->service);
	if (!err && s->tool->figures_at)
		err = inc_scrape_start(base, s->tool->figures_at, print_figures, s, &s->scrape,
				       &why);
	if (err)
		inc_error("%s", why.msg);
	return err;
}

int connect_serve(struct connect_tool *tool)
{
	struct server s = {.tool = tool};
	int ret = 1;

	LIST_INIT(&s.clients);
	inc_log_sink(inc_log_unblocked);
	if (!start(&s)) {
		printf("ready port %u\n", inc_connect_service_port(s.service));
		/* if this fails, main() reports that stdout has an error */
		ret = fflush(stdout) || event_base_dispatch(tool->base) < 0;
	}
	inc_scrape_stop(s.scrape);
	inc_connect_service_close(s.service);
	while (!LIST_EMPTY(&s.clients))
		end_client(LIST_FIRST(&s.clients), "given up");
	if (s.check)
		event_free(s.check);
	if (s.term)
		event_free(s.term);
	if (s.interrupt)
		event_free(s.interrupt);
	return ret;
}
