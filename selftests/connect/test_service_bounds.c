/* SPDX-License-Identifier: BSD-2-Clause */
/* Limits of the resources that clients can make a service allocate. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include "hostlib/connect/protocol.h"
#include "hostlib/connect/service.h"
#include "selftests/fakes/connect_socket.h"
#include "selftests/connect/harness_service.h"

/* Sends a request and returns the first line of the answer. The connection stays open. */
static char *ask_line(const char *text, int *fd)
{
	*fd = tcp_open();
	tcp_send(*fd, text, strlen(text));
	return tcp_read_line(*fd);
}

/* Clients can make a service allocate memory before they have sent anything over their queue pairs.
 * For each kind of request the service accepts only a limited number of clients. */
static void memory_is_bounded(void **state)
{
	static const struct {
		const char *text;
		size_t fit;
		bool full; /* after these clients even a small request is rejected */
	} rows[] = {
		/* 39 buffers of 16 MiB: 16 to send from and 23 receives, of which 6 are for ACKs */
		{CONNECT_TO("0", "fake0", "1", "\"buf_size\":16777216,\"send_buf_cnt\":16"), 1,
		 false},
		/* one send buffer has receives for 5 ACKs, each with a buffer of this size */
		{CONNECT_TO("0", "fake0", "1",
			    "\"buf_size\":16777216,\"send_buf_cnt\":1,\"buf_ack_batch\":1,"
			    "\"buf_signal_batch\":1"),
		 7, false},
		/* a queue of 256 MiB with hardly any buffers */
		{CONNECT_TO("0", "fake0", "1",
			    "\"buf_size\":64,\"max_rdma_wr\":65536,\"max_sge\":256"),
		 3, false},
		/* this request exceeds the limit of memory, but a single connection may have it */
		{CONNECT_TO("0", "fake0", "1",
			    "\"buf_size\":16384,\"send_buf_cnt\":16384,\"buf_ack_batch\":1,"
			    "\"max_rdma_wr\":65536,\"max_sge\":256"),
		 1, true},
	};
	int fd[8];
	char *said;
	size_t i, k;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		service_begin(1, LONG_MS);
		for (k = 0; k < rows[i].fit; k++) {
			said = ask_line(rows[i].text, &fd[k]);
			assert_non_null(strstr(said, "connected"));
			free(said);
		}
		expect_said(rows[i].text, "ENOBUFS");
		said = ask_line(CONNECT, &fd[k]);
		assert_non_null(strstr(said, rows[i].full ? "ENOBUFS" : "connected"));
		free(said);
		inc_connect_service_close(service_harness.service);
		for (k = 0; k <= rows[i].fit; k++)
			close(fd[k]);
		service_end();
	}
}

static void allow_descriptors(rlim_t n)
{
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur >= n)
		return;
	limit.rlim_cur = n < limit.rlim_max ? n : limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

/* A client that hangs up while the kernel resolves its address leaves a thread and a queue pair
 * until the kernel answers. Their number and their bytes are limited. */
static void unresolved_clients_are_bounded(void **state)
{
	static const char big[] =
		CONNECT_TO("0", "fake0", "1", "\"buf_size\":16777216,\"send_buf_cnt\":16");
	static const struct {
		const char *text, *next;
		unsigned int fit;
	} rows[] = {
		{CONNECT, CONNECT, CONNECT_MAX_CLIENTS},
		{big, big, 1},
	};
	unsigned int k;
	size_t i;
	int fd;

	allow_descriptors(4 * CONNECT_MAX_CLIENTS);
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		service_begin(1, LONG_MS);
		fake_sockets.hold_rtr = true;
		for (k = 0; k < rows[i].fit; k++) {
			fd = tcp_open();
			tcp_send(fd, rows[i].text, strlen(rows[i].text));
			service_until_waiting(k + 1);
			close(fd);
			while (service_figure("inc_connect_accepting"))
				event_base_loop(service_harness.base, EVLOOP_ONCE);
		}
		assert_int_equal(fake_sockets.alive, rows[i].fit);
		expect_said(rows[i].next, "ENOBUFS");
		expect_said(QUERY, "fake0");
		fake_sockets.hold_rtr = false;
		fake_sockets_rtr_go_on(rows[i].fit);
		nothing_is_made();
		fd = tcp_connected(rows[i].next);
		close(fd);
		service_end();
	}
}

static void many_at_once(void **state)
{
	enum { N = CONNECT_MAX_CLIENTS_PER_PEER, MORE = 8 };
	int fd[N + MORE];
	char *said;
	size_t i;

	service_begin(1, LONG_MS);
	for (i = 0; i < N + MORE; i++) {
		fd[i] = tcp_open();
		service_turn();
	}
	for (i = N; i < N + MORE; i++) {
		said = tcp_read_to_end(fd[i]);
		assert_non_null(strstr(said, "EBUSY"));
		free(said);
		close(fd[i]);
	}
	for (i = 0; i < N; i++)
		tcp_send(fd[i], QUERY, strlen(QUERY));
	for (i = 0; i < N; i++) {
		said = tcp_read_line(fd[i]);
		assert_non_null(strstr(said, "fake0"));
		free(said);
		close(fd[i]);
	}
	expect_said(QUERY, "fake0");
	service_end();
}

/* options without a callback are rejected */
static void clients_that_never_close_are_bounded(void **state)
{
	enum { N = 1000, KEPT = 256, OWN = 16 };
	int fd[N];
	char *said;
	size_t i;

	allow_descriptors(4 * N);
	service_begin(1, LONG_MS);
	for (i = 0; i < N; i++) {
		fd[i] = tcp_open();
		tcp_send(fd[i], "x\n", 2);
		said = tcp_read_line(fd[i]);
		assert_non_null(strstr(said, "EBADMSG"));
		free(said);
		service_turn();
		assert_true(service_descriptors() <= i + 1 + KEPT + OWN);
	}
	for (i = 0; i < N; i++)
		close(fd[i]);
	service_end();
}

static bool has_heard(int fd)
{
	return recv(fd, &(char){0}, 1, MSG_DONTWAIT | MSG_PEEK) == 1;
}

/* Of many clients with several addresses, the service serves a limited number at once. The others
 * wait until some of these have left. */
static void more_than_fit_wait(void **state)
{
	enum { N = CONNECT_MAX_CLIENTS + 88, PER_ADDRESS = 150 };
	struct sockaddr_in to = {.sin_family = AF_INET}, from = to;
	int fd[N];
	char *said;
	size_t i;

	allow_descriptors(4 * N);
	service_begin(1, LONG_MS);
	to.sin_port = htons(inc_connect_service_port(service_harness.service));
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	for (i = 0; i < N; i++) {
		from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + i / PER_ADDRESS);
		fd[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_true(fd[i] >= 0);
		assert_int_equal(bind(fd[i], (struct sockaddr *)&from, sizeof(from)), 0);
		assert_int_equal(connect(fd[i], (struct sockaddr *)&to, sizeof(to)), 0);
		tcp_send(fd[i], QUERY, strlen(QUERY));
		service_turn();
	}
	for (i = 0; i < 100; i++)
		service_turn();
	for (i = 0; i < N; i++)
		assert_int_equal(has_heard(fd[i]), i < CONNECT_MAX_CLIENTS);
	for (i = 0; i < N / 2; i++)
		close(fd[i]);
	for (; i < N; i++) {
		evutil_make_socket_nonblocking(fd[i]);
		said = tcp_read_line(fd[i]);
		assert_non_null(strstr(said, "fake0"));
		free(said);
		close(fd[i]);
	}
	service_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_is_bounded),
		cmocka_unit_test(unresolved_clients_are_bounded),
		cmocka_unit_test(many_at_once),
		cmocka_unit_test(clients_that_never_close_are_bounded),
		cmocka_unit_test(more_than_fit_wait),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("service_bounds", tests, NULL, NULL);
}
