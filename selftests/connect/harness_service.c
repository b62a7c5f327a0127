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
#include "selftests/connect/harness_service.h"
#include "selftests/belongings.h"

struct service_harness service_harness;
static unsigned int descriptors_before;

unsigned int service_descriptors(void)
{
	return open_descriptors() - descriptors_before;
}

static void on_accepted(void *arg, struct inc_connect_socket *socket, const char *peer)
{
	snprintf(service_harness.peer, sizeof(service_harness.peer), "%s", peer);
	assert_true(service_harness.accepted <
		    sizeof(service_harness.sockets) / sizeof(service_harness.sockets[0]));
	service_harness.sockets[service_harness.accepted++] = socket;
	if (service_harness.then)
		service_harness.then();
}

static void on_log(void *ctx, const char *line)
{
	service_harness.lines++;
	snprintf(service_harness.line, sizeof(service_harness.line), "%s", line);
}

void service_begin(unsigned int devices, unsigned int accept_timeout_ms)
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
	memset(&service_harness, 0, sizeof(service_harness));
	service_harness.base = event_base_new();
	assert_non_null(service_harness.base);
	assert_int_equal(inc_connect_create(service_harness.base, &opts, &service_harness.ctx), 0);
	assert_int_equal(inc_connect_serve(service_harness.ctx, &serve, &service_harness.service),
			 0);
	assert_string_equal(error, "");
	snprintf(service_harness.address, sizeof(service_harness.address), "127.0.0.1:%u",
		 inc_connect_service_port(service_harness.service));
}

void service_end(void)
{
	const uint64_t late_at_ms = inc_now_ms() + SERVICE_PATIENCE_MS;
	unsigned int i;

	inc_connect_destroy(service_harness.ctx);
	for (i = 0; i < service_harness.accepted; i++)
		inc_connect_socket_destroy(service_harness.sockets[i]);
	event_base_free(service_harness.base);
	assert_int_equal(fake_sockets.alive, 0);
	/* the lookup of a name for which no request waits any more keeps its descriptor until the
	 * resolver answers */
	while (open_descriptors() != descriptors_before)
		assert_true(inc_now_ms() < late_at_ms);
}

void service_turn(void)
{
	event_base_loop(service_harness.base, EVLOOP_NONBLOCK);
}

/* Runs one turn of the loop, which lasts until something happens, or for a moment. */
static void turn_slowly(void)
{
	const struct timeval moment = {.tv_usec = 10000};

	event_base_loopexit(service_harness.base, &moment);
	event_base_loop(service_harness.base, EVLOOP_ONCE);
}

void service_until(const unsigned int *there, unsigned int n)
{
	const uint64_t late_at_ms = inc_now_ms() + SERVICE_PATIENCE_MS;

	while (*there < n) {
		assert_true(inc_now_ms() < late_at_ms);
		turn_slowly();
	}
}

bool service_rtr_under_way(void)
{
	return !LIST_EMPTY(&service_harness.ctx->rtrs.list);
}

void service_until_no_rtr(void)
{
	while (service_rtr_under_way())
		event_base_loop(service_harness.base, EVLOOP_ONCE);
}

void service_until_waiting(unsigned int n)
{
	const uint64_t late_at_ms = inc_now_ms() + SERVICE_PATIENCE_MS;

	while (fake_sockets_rtr_waiting() < n) {
		assert_true(inc_now_ms() < late_at_ms);
		turn_slowly();
	}
}

unsigned long service_figure(const char *name)
{
	char *text = inc_connect_figures(service_harness.ctx), *at, want[80];
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
				 .sin_port =
					 htons(inc_connect_service_port(service_harness.service)),
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
	const uint64_t late_at_ms = inc_now_ms() + SERVICE_PATIENCE_MS;
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
