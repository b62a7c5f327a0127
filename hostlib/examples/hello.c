/* SPDX-License-Identifier: BSD-2-Clause */
/* hello waits for a peer, and hello HOST connects to the peer on HOST. Each greets the other by
 * RDMA. */
#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <inc_connect.h>

static struct event_base *base;
static struct inc_connect_socket *peer;

static void accepted(void *arg, struct inc_connect_socket *socket, const char *address)
{
	peer = socket;
	event_base_loopbreak(base);
}

static void opened(void *arg, int error, const char *why, struct inc_connect_socket *socket,
		   const struct inc_connect_choice *choice)
{
	if (error)
		fprintf(stderr, "%s\n", why);
	peer = socket;
	event_base_loopbreak(base);
}

/* Waits until the socket has done something. An error is not handled here, because the caller's
 * next call on the socket returns it. A program with an event loop would watch the socket's
 * descriptor instead. */
static int more(void)
{
	return inc_connect_socket_progress(peer) ? 0 : inc_connect_socket_wait(peer, 5000);
}

int main(int argc, char **argv)
{
	char error[256] = "";
	INC_CONNECT_OPTS(inc_connect_opts, opts, .error = error, .error_size = sizeof(error));
	INC_CONNECT_OPTS(inc_connect_serve_opts, serve, .accepted = accepted, .error = error,
			 .error_size = sizeof(error));
	INC_CONNECT_OPTS(inc_connect_request_opts, ask, .error = error,
			 .error_size = sizeof(error));
	struct inc_connect_service *service = NULL;
	struct inc_connect_request *request;
	struct inc_connect *ctx = NULL;
	const void *text;
	size_t size;
	int err;

	base = event_base_new();
	err = inc_connect_create(base, &opts, &ctx);
	if (!err && argc > 1)
		err = inc_connect_open(ctx, argv[1], &ask, opened, &request);
	else if (!err)
		err = inc_connect_serve(ctx, &serve, &service);
	if (!err)
		event_base_dispatch(base);
	else
		fprintf(stderr, "%s\n", error);
	err = peer ? inc_connect_socket_send(peer, "hello", 5) : -1;
	while (!err && (err = inc_connect_socket_receive(peer, &text, &size)) == -EAGAIN)
		err = more();
	if (!err)
		printf("%.*s\n", (int)size, (const char *)text);
	while (!err && inc_connect_socket_close(peer) == -EAGAIN && !more())
		;
	inc_connect_socket_destroy(peer);
	inc_connect_service_close(service);
	inc_connect_destroy(ctx);
	event_base_free(base);
	return err ? 1 : 0;
}
