/* SPDX-License-Identifier: BSD-2-Clause */
/* A service: the address on which it listens, and how many clients it accepts at once. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <event2/listener.h>
#include "hostlib/connect/service.h"
#include "lib/base/caller.h"
#include "lib/base/fd.h"
#include "lib/net/hostport.h"

#define BACKLOG  512
#define PAUSE_MS 100

static void on_client(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *addr,
		      int len, void *arg)
{
	struct inc_connect_service *service = arg;

	service->shortage_logged = false;
	fd = inc_fd_high(fd);
	if (fd < 0)
		connect_log(service->ctx, "a client was rejected: %s", strerror(errno));
	else
		connect_accept_start(service, fd, addr, len);
	if (service->n_clients >= CONNECT_MAX_CLIENTS)
		evconnlistener_disable(listener);
}

void connect_service_client_ended(struct inc_connect_service *service)
{
	if (!event_pending(service->pause, EV_TIMEOUT, NULL))
		evconnlistener_enable(service->listener);
}

static void on_pause_over(evutil_socket_t fd, short what, void *arg)
{
	struct inc_connect_service *service = arg;

	if (service->n_clients < CONNECT_MAX_CLIENTS)
		evconnlistener_enable(service->listener);
}

/* Stops accepting clients for a while, because accept() has failed for want of descriptors. Clients
 * wait in the kernel's queue. Without the pause libevent would retry accept() at once, and use all
 * CPU time. */
static void on_shortage(struct evconnlistener *listener, void *arg)
{
	struct inc_connect_service *service = arg;
	const char *why = strerror(EVUTIL_SOCKET_ERROR());

	evconnlistener_disable(listener);
	connect_arm(service->pause, PAUSE_MS);
	if (!service->shortage_logged)
		connect_log(service->ctx, "clients have to wait: %s", why);
	service->shortage_logged = true;
}

/* Makes a TCP socket that is bound to this address. Returns its descriptor, or -errno. */
static int bind_at(const struct addrinfo *at)
{
	const int fd = inc_fd_high(
			  socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)),
		  on = 1;
	int ret;

	if (fd < 0)
		return -errno;
	/* Accepted connections inherit SO_KEEPALIVE, which detects clients that vanish silently. */
	if (setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)) ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    bind(fd, at->ai_addr, at->ai_addrlen)) {
		ret = -errno;
		close(fd);
		return ret;
	}
	return fd;
}

static int make_listener(struct inc_connect_service *service, const struct addrinfo *at)
{
	const int fd = bind_at(at);
	int ret;

	if (fd < 0)
		return fd;
	service->listener =
		evconnlistener_new(service->ctx->base, on_client, service,
				   LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, BACKLOG, fd);
	if (!service->listener) {
		ret = -errno;
		close(fd);
		return ret;
	}
	/* evconnlistener_new() does not report that enabling has failed, so a second call checks
	 * that */
	return evconnlistener_enable(service->listener) ? -ENOMEM : 0;
}

static int listen_at(struct inc_connect_service *service, const char *where, struct inc_err *err)
{
	struct sockaddr_storage bound;
	socklen_t len = sizeof(bound);
	struct addrinfo *at;
	int ret = inc_hostport_listen("listen", where, INC_CONNECT_PORT, &at, err);

	if (ret)
		return ret;
	ret = make_listener(service, at);
	freeaddrinfo(at);
	if (!ret &&
	    getsockname(evconnlistener_get_fd(service->listener), (struct sockaddr *)&bound, &len))
		ret = -errno;
	if (ret)
		return inc_err_set(err, -ret, "listen '%.300s': %s", where, strerror(-ret));
	/* sin_port is at the same offset as sin6_port, so this is right for IPv6, too */
	service->port = ntohs(((const struct sockaddr_in *)&bound)->sin_port);
	evconnlistener_set_error_cb(service->listener, on_shortage);
	return 0;
}

/* Listens on all addresses of the machine: at "::", which includes IPv4, or at those of IPv4 if
 * there is no IPv6. */
static int listen_everywhere(struct inc_connect_service *service, struct inc_err *err)
{
	int ret = listen_at(service, "::", err);

	if (ret == -EAFNOSUPPORT || ret == -EADDRNOTAVAIL)
		ret = listen_at(service, "0.0.0.0", err);
	return ret;
}

static int open_service(struct inc_connect *ctx, const struct inc_connect_serve_opts *opts,
			struct inc_connect_service **out, struct inc_err *err)
{
	struct inc_connect_service *service;
	int ret;

	if (!opts->accepted)
		return inc_err_set(err, EINVAL, "accepted: the callback is missing");
	service = calloc(1, sizeof(*service));
	if (!service)
		return inc_err_set(err, ENOMEM, "%s", strerror(ENOMEM));
	service->ctx = ctx;
	service->accepted = opts->accepted;
	service->arg = opts->arg;
	service->accept_timeout_ms = opts->accept_timeout_ms ?: ctx->config.accept_timeout_ms;
	LIST_INSERT_HEAD(&ctx->services, service, entry);
	service->pause = evtimer_new(ctx->base, on_pause_over, service);
	if (!service->pause)
		ret = inc_err_set(err, ENOMEM, "%s", strerror(ENOMEM));
	else
		ret = opts->listen ? listen_at(service, opts->listen, err)
				   : listen_everywhere(service, err);
	if (ret)
		inc_connect_service_close(service);
	else
		*out = service;
	return ret;
}

int inc_connect_serve(struct inc_connect *ctx, const struct inc_connect_serve_opts *given,
		      struct inc_connect_service **out)
{
	struct inc_connect_serve_opts opts;
	struct inc_err err;
	int ret = inc_caller_opts(&opts, sizeof(opts), given);

	if (ret)
		inc_err_set(&err, -ret, INC_CALLER_OPTS_REFUSED);
	else
		ret = open_service(ctx, &opts, out, &err);
	if (ret)
		inc_caller_explain(opts.error, opts.error_size, &err);
	return ret;
}

unsigned int inc_connect_service_port(const struct inc_connect_service *service)
{
	return service->port;
}

void inc_connect_service_close(struct inc_connect_service *service)
{
	if (!service)
		return;
	LIST_REMOVE(service, entry);
	while (!LIST_EMPTY(&service->clients))
		connect_accept_end(LIST_FIRST(&service->clients));
	if (service->listener)
		evconnlistener_free(service->listener);
	if (service->pause)
		event_free(service->pause);
	free(service);
}
