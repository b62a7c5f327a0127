/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "hostlib/connect/context.h"
#include "lib/base/clock.h"
#include "selftests/fakes/connect_socket.h"
#include "selftests/fakes/inventory.h"
#include "selftests/connect/loop.h"
#include "selftests/belongings.h"

struct loop loop;
static unsigned int descriptors_before;

unsigned int loop_descriptors(void)
{
	return open_descriptors() - descriptors_before;
}

static void on_accepted(void *arg, struct inc_connect_socket *socket, const char *peer)
{
	snprintf(loop.peer, sizeof(loop.peer), "%s", peer);
	assert_true(loop.accepted < sizeof(loop.sockets) / sizeof(loop.sockets[0]));
	loop.sockets[loop.accepted++] = socket;
	if (loop.then)
		loop.then();
}

static void on_log(void *ctx, const char *line)
{
	loop.lines++;
	snprintf(loop.line, sizeof(loop.line), "%s", line);
}

void loop_begin(unsigned int devices, unsigned int accept_timeout_ms)
{
	char error[512] = "";
	INC_CONNECT_OPTS(inc_connect_opts, opts, .allow_no_usable_devices = true, .error = error,
			 .error_size = sizeof(error), .log = on_log);
	INC_CONNECT_OPTS(inc_connect_serve_opts, serve, .listen = "127.0.0.1:0",
			 .accepted = on_accepted, .accept_timeout_ms = accept_timeout_ms,
			 .error = error, .error_size = sizeof(error));

	descriptors_before = open_descriptors();
	fake_inventory_reset();
	fake_sockets_reset();
	fake_inventory.n = devices;
	memset(&loop, 0, sizeof(loop));
	loop.base = event_base_new();
	assert_non_null(loop.base);
	assert_int_equal(inc_connect_create(loop.base, &opts, &loop.ctx), 0);
	assert_int_equal(inc_connect_serve(loop.ctx, &serve, &loop.service), 0);
	assert_string_equal(error, "");
	snprintf(loop.address, sizeof(loop.address), "127.0.0.1:%u",
		 inc_connect_service_port(loop.service));
}

void loop_end(void)
{
	const uint64_t late_at_ms = inc_now_ms() + LOOP_PATIENCE_MS;
	unsigned int i;

	inc_connect_destroy(loop.ctx);
	for (i = 0; i < loop.accepted; i++)
		inc_connect_socket_destroy(loop.sockets[i]);
	event_base_free(loop.base);
	assert_int_equal(fake_sockets.alive, 0);
	/* the lookup of a name for which no request waits any more keeps its descriptor until the
	 * resolver answers */
	while (open_descriptors() != descriptors_before)
		assert_true(inc_now_ms() < late_at_ms);
}

void loop_turn(void)
{
	event_base_loop(loop.base, EVLOOP_NONBLOCK);
}

/* Runs one turn of the loop, which lasts until something happens, or for a moment. */
static void turn_slowly(void)
{
	const struct timeval moment = {.tv_usec = 10000};

	event_base_loopexit(loop.base, &moment);
	event_base_loop(loop.base, EVLOOP_ONCE);
}

void loop_until(const unsigned int *there, unsigned int n)
{
	const uint64_t late_at_ms = inc_now_ms() + LOOP_PATIENCE_MS;

	while (*there < n) {
		assert_true(inc_now_ms() < late_at_ms);
		turn_slowly();
	}
}

bool loop_on_the_way(void)
{
	return !LIST_EMPTY(&loop.ctx->rtrs.list);
}

void loop_until_no_rtr(void)
{
	while (loop_on_the_way())
		event_base_loop(loop.base, EVLOOP_ONCE);
}

void loop_until_waiting(unsigned int n)
{
	const uint64_t late_at_ms = inc_now_ms() + LOOP_PATIENCE_MS;

	while (fake_sockets_rtr_waiting() < n) {
		assert_true(inc_now_ms() < late_at_ms);
		turn_slowly();
	}
}

unsigned long loop_figure(const char *name)
{
	char *text = inc_connect_figures(loop.ctx), *at, want[80];
	unsigned long value;

	assert_non_null(text);
	snprintf(want, sizeof(want), "\n%s ", name);
	at = strstr(text, want);
	assert_non_null(at);
	value = strtoul(at + strlen(want), NULL, 10);
	free(text);
	return value;
}

int tcp_open(void)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons(inc_connect_service_port(loop.service)),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

void tcp_send(int fd, const char *text, size_t len)
{
	ssize_t n = send(fd, text, len, MSG_NOSIGNAL);

	/* a send fails if the service has already closed the connection */
	assert_true(n == (ssize_t)len || (n < 0 && (errno == EPIPE || errno == ECONNRESET)));
}

static char *read_text(int fd, bool line)
{
	const uint64_t late_at_ms = inc_now_ms() + LOOP_PATIENCE_MS;
	size_t len = 0, room = 1 << 20;
	char *text = malloc(room);
	ssize_t n;

	assert_non_null(text);
	for (;;) {
		text[len] = '\0';
		if (line && strchr(text, '\n'))
			return text;
		n = recv(fd, text + len, room - 1 - len, 0);
		if (n > 0) {
			len += n;
			continue;
		}
		if (!n || errno == ECONNRESET)
			return text;
		assert_int_equal(errno, EAGAIN);
		assert_true(inc_now_ms() < late_at_ms);
		turn_slowly();
	}
}

char *tcp_read_to_end(int fd)
{
	return read_text(fd, false);
}

char *tcp_read_line(int fd)
{
	return read_text(fd, true);
}

char *tcp_ask(const char *text)
{
	const int fd = tcp_open();
	char *said;

	tcp_send(fd, text, strlen(text));
	shutdown(fd, SHUT_WR);
	said = tcp_read_to_end(fd);
	close(fd);
	return said;
}
