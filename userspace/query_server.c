/* SPDX-License-Identifier: BSD-2-Clause */
/* The local socket, by which a user who may open the socket queries the switch without a
 * controller. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <event2/listener.h>
#include "lib/net/lines.h"
#include "lib/net/listen.h"
#include "lib/base/log.h"
#include "userspace/switchd.h"

#define MAX_CLIENTS 16
#define BACKLOG     128
#define MAX_WRITE   (8 << 20)
#define TIMEOUT_MS  5000

struct query_client {
	struct inc_query_server *server;
	struct inc_ndjson *conn;
	LIST_ENTRY(query_client) entry;
};

struct inc_query_server {
	struct inc_daemon *d;
	struct evconnlistener *listener;
	LIST_HEAD(, query_client) clients;
	unsigned int n_clients;
	char path[PATH_MAX];
};

static void client_free(struct query_client *c)
{
	LIST_REMOVE(c, entry);
	c->server->n_clients--;
	inc_ndjson_free(c->conn);
	free(c);
}

static void on_message(struct inc_ndjson *conn, json_t *object, void *arg)
{
	const char *type = inc_message_type(object);
	struct query_client *c = arg;

	if (inc_message_is(type, INC_MSG_QUERY))
		inc_query_answer(c->server->d, conn, object);
	else if (inc_message_is(type, INC_MSG_PING))
		inc_ndjson_send_new(conn, inc_message_new(INC_MSG_PONG, NULL));
	else
		inc_ndjson_send_error(conn, EPROTO, NULL, "unknown type '%.32s'", type);
}

static void on_closed(struct inc_ndjson *conn, int code, const char *reason, void *arg)
{
	client_free(arg);
}

static void on_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *addr, int len,
		      void *arg)
{
	static const struct inc_ndjson_ops ops = {.message = on_message, .closed = on_closed};
	static const struct inc_ndjson_limits limits = {.max_line = INC_MEMBER_LINE_MAX,
							.max_write = MAX_WRITE,
							.message_timeout_ms = TIMEOUT_MS};
	struct inc_query_server *s = arg;
	struct query_client *c, *oldest = NULL;
	struct inc_err err;

	/* close the oldest connection for the new one, so that idle clients cannot keep others
	 * out */
	if (s->n_clients >= MAX_CLIENTS) {
		LIST_FOREACH (c, &s->clients, entry)
			oldest = c;
		client_free(oldest);
	}
	c = calloc(1, sizeof(*c));
	if (!c) {
		close(fd);
		return;
	}
	c->server = s;
	c->conn = inc_ndjson_new(s->d->base, fd, &limits, &ops, c, &err);
	if (!c->conn) {
		inc_warn("local socket: %s", err.msg);
		free(c);
		return;
	}
	LIST_INSERT_HEAD(&s->clients, c, entry);
	s->n_clients++;
}

int inc_query_server_start(struct inc_daemon *d, struct inc_query_server **out, struct inc_err *err)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	const char *dir = inc_run_dir(err);
	struct inc_query_server *s;
	int fd, ret;

	if (!dir)
		return -EACCES;
	s = calloc(1, sizeof(*s));
	if (!s)
		return inc_err_set(err, ENOMEM, "no memory for the local socket");
	s->d = d;
	LIST_INIT(&s->clients);
	if ((size_t)snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/%s.sock", dir,
			     d->instance) >= sizeof(addr.sun_path)) {
		ret = inc_err_set(err, ENAMETOOLONG, "local socket %s/%s.sock", dir, d->instance);
		goto fail;
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		ret = inc_err_set(err, errno, "local socket: %s", strerror(errno));
		goto fail;
	}
	/* remove a socket that exists already, which a daemon has left that died, because this
	 * daemon holds the instance's lock */
	unlink(addr.sun_path);
	if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) || chmod(addr.sun_path, 0660)) {
		ret = inc_err_set(err, errno, "local socket %s: %s", addr.sun_path,
				  strerror(errno));
		goto fail_fd;
	}
	strcpy(s->path, addr.sun_path);
	s->listener = evconnlistener_new(d->base, on_accept, s, LEV_OPT_CLOSE_ON_FREE, BACKLOG, fd);
	if (!s->listener) {
		ret = inc_err_set(err, errno, "local socket %s: %s", s->path, strerror(errno));
		unlink(s->path);
		goto fail_fd;
	}
	ret = inc_listener_guard(s->listener);
	if (ret) {
		inc_err_set(err, -ret, "local socket %s: %s", s->path, strerror(-ret));
		evconnlistener_free(s->listener);
		unlink(s->path);
		goto fail;
	}
	if (strcmp(dir, INC_RUN_DIR))
		inc_info("local socket: %s", s->path);
	*out = s;
	return 0;

fail_fd:
	close(fd);
fail:
	free(s);
	return ret;
}

void inc_query_server_stop(struct inc_query_server *s)
{
	if (!s)
		return;
	while (!LIST_EMPTY(&s->clients))
		client_free(LIST_FIRST(&s->clients));
	evconnlistener_free(s->listener);
	unlink(s->path);
	free(s);
}
