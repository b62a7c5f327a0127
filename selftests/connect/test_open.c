/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Client and service together (inc_connect_open() and the other requests), over TCP and fake
 * devices. Any step may fail, any message may be lost, and either side may be closed at any time.
 * Every request must be answered exactly once, and no resource may be left.
 */
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
#include "selftests/fakes/connect_socket.h"
#include "selftests/connect/harness_service.h"

/* a timeout that may expire at any step */
#define EXPIRES_MS 60

/* The results that a request's callback has received. */
static struct outcome {
	unsigned int times;
	int error;
	char why[512];
	struct inc_connect_socket *sockets[128];
	unsigned int opened;
	uint64_t counter;
	unsigned int pairs;
	uint8_t local_dev; /* device of this side in the chosen pair */
	unsigned int devices;
	bool inside; /* the program is inside a call of the library, in which no callback may run */
	void (*then)(void);
} outcome;

static void hear(int error, const char *why)
{
	assert_false(outcome.inside);
	outcome.times++;
	outcome.error = error;
	assert_int_equal(!error, !why);
	snprintf(outcome.why, sizeof(outcome.why), "%s", why ?: "");
	if (outcome.then)
		outcome.then();
}

static void on_opened(void *arg, int error, const char *why, struct inc_connect_socket *socket,
		      const struct inc_connect_choice *choice)
{
	uint32_t i;

	assert_int_equal(!error, !!socket);
	if (socket)
		outcome.sockets[outcome.opened++] = socket;
	outcome.pairs = choice ? choice->n_pairs : 0;
	for (i = 0; i < outcome.pairs; i++) {
		outcome.counter = choice->counter;
		if (choice->pairs[i].reason == INC_CONNECT_CHOSEN)
			outcome.local_dev = choice->pairs[i].local_dev;
	}
	hear(error, why);
}

static void on_queried(void *arg, int error, const char *why,
		       const struct inc_connect_devices *devices)
{
	assert_int_equal(!error, !!devices);
	outcome.devices = devices ? devices->n_devices : 0;
	hear(error, why);
}

static void on_told(void *arg, int error, const char *why, const char *figures)
{
	assert_int_equal(!error, !!figures);
	if (figures)
		assert_non_null(strstr(figures, "\ninc_connect_accepting 0\n"));
	hear(error, why);
}

static void begin(unsigned int devices, unsigned int accept_timeout_ms)
{
	service_begin(devices, accept_timeout_ms);
	memset(&outcome, 0, sizeof(outcome));
}

static void end(void)
{
	unsigned int i;

	for (i = 0; i < outcome.opened; i++)
		inc_connect_socket_destroy(outcome.sockets[i]);
	service_end();
}

static struct inc_connect_request *open_to(const char *address, unsigned int timeout_ms)
{
	INC_CONNECT_OPTS(inc_connect_request_opts, opts, .timeout_ms = timeout_ms);
	struct inc_connect_request *request;

	outcome.inside = true;
	assert_int_equal(inc_connect_open(service_harness.ctx, address, &opts, on_opened, &request),
			 0);
	outcome.inside = false;
	return request;
}

static struct inc_connect_request *open_here(void)
{
	return open_to(service_harness.address, LONG_MS);
}

/* Runs the loop until no connection is being made. Then each socket must have an owner, at the
 * client or at the service. */
static void until_quiet(void)
{
	while (service_figure("inc_connect_connecting") ||
	       service_figure("inc_connect_accepting") || service_rtr_under_way())
		event_base_loop(service_harness.base, EVLOOP_ONCE);
	assert_int_equal(fake_sockets.alive, outcome.opened + service_harness.accepted);
}

static void both_get_a_socket(void **state)
{
	begin(1, LONG_MS);
	open_here();
	assert_int_equal(service_figure("inc_connect_connecting"), 1);
	service_until(&outcome.opened, 1);
	service_until(&service_harness.accepted, 1);
	assert_int_equal(outcome.times, 1);
	assert_int_equal(fake_sockets.handed[0], 2);
	assert_string_equal(service_harness.peer, "127.0.0.1");
	assert_int_equal(outcome.pairs, 1);
	until_quiet();
	assert_int_equal(service_figure("inc_connect_connect_latency_seconds_count"), 1);
	assert_int_equal(service_figure("inc_connect_accept_latency_seconds_count"), 1);
	assert_int_equal(service_figure("inc_connect_connect_failed_total"), 0);
	end();
}

static void a_hundred_at_once(void **state)
{
	unsigned int i;

	begin(3, LONG_MS);
	for (i = 0; i < 100; i++)
		open_here();
	service_until(&outcome.opened, 100);
	service_until(&service_harness.accepted, 100);
	until_quiet();
	assert_int_equal(outcome.times, 100);
	end();
}

static void ports_take_turns(void **state)
{
	uint64_t last = 0;
	unsigned int i;

	begin(3, LONG_MS);
	for (i = 0; i < 9; i++) {
		open_here();
		service_until(&outcome.opened, i + 1);
		assert_int_equal(outcome.pairs, 9);
		assert_true(!i || outcome.counter == last + 1);
		assert_int_equal(outcome.local_dev, outcome.counter % 9 % 3);
		last = outcome.counter;
	}
	service_until(&service_harness.accepted, 9);
	end();
}

static void without_devices(void **state)
{
	begin(0, LONG_MS);
	open_here();
	service_until(&outcome.times, 1);
	assert_int_equal(outcome.error, -ENODEV);
	assert_non_null(strstr(outcome.why, "no RDMA device here"));
	assert_int_equal(service_figure("inc_connect_connect_failed_total"), 1);
	end();
}

static void questions(void **state)
{
	INC_CONNECT_OPTS(inc_connect_request_opts, opts);
	struct inc_connect_request *request;

	begin(2, LONG_MS);
	outcome.inside = true;
	assert_int_equal(inc_connect_query(service_harness.ctx, service_harness.address, NULL,
					   on_queried, &request),
			 0);
	outcome.inside = false;
	service_until(&outcome.times, 1);
	assert_int_equal(outcome.error, 0);
	assert_int_equal(outcome.devices, 2);
	assert_int_equal(inc_connect_ask_figures(service_harness.ctx, service_harness.address,
						 &opts, on_told, &request),
			 0);
	service_until(&outcome.times, 2);
	assert_int_equal(outcome.error, 0);
	/* the query is cancelled at once, so its answer may not arrive */
	assert_int_equal(inc_connect_query(service_harness.ctx, service_harness.address, NULL,
					   on_queried, &request),
			 0);
	inc_connect_cancel(request);
	inc_connect_cancel(NULL);
	service_turn();
	assert_int_equal(outcome.times, 2);
	end();
}

static void addresses(void **state)
{
	static const struct {
		const char *address; /* address of the service; %u stands for its port */
		int error;
	} rows[] = {
		{"localhost:%u", 0},
		{"[::ffff:127.0.0.1]:%u", 0},
		{"127.0.0.1:1", -ECONNREFUSED},
		{"a..b:%u", -EHOSTUNREACH},
	};
	static const char *const wrong[] = {NULL, "", ":7", "h:0", "h:65536", "h:x"};
	char error[512], address[64];
	INC_CONNECT_OPTS(inc_connect_request_opts, opts, .error = error,
			 .error_size = sizeof(error));
	struct inc_connect_request *request;
	size_t i;

	begin(1, LONG_MS);
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		error[0] = '\0';
		assert_int_equal(
			inc_connect_open(service_harness.ctx, wrong[i], &opts, on_opened, &request),
			-EINVAL);
		assert_true(error[0]);
	}
	assert_int_equal(inc_connect_query(service_harness.ctx, service_harness.address, &opts,
					   NULL, &request),
			 -EINVAL);
	opts.sz = 3;
	assert_int_equal(inc_connect_query(service_harness.ctx, service_harness.address, &opts,
					   on_queried, &request),
			 -EINVAL);
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		snprintf(address, sizeof(address), rows[i].address,
			 inc_connect_service_port(service_harness.service));
		open_to(address, LONG_MS);
		service_until(&outcome.times, i + 1);
		if (outcome.error != rows[i].error)
			fail_msg("%s: %s", address, outcome.why);
		if (rows[i].error)
			assert_int_equal(strncmp(outcome.why, address, strlen(address)), 0);
	}
	until_quiet();
	end();
}

static void every_step_may_fail(void **state)
{
	enum fake_socket_call call;
	unsigned int n;

	for (call = 0; call < FAKE_SOCKET_N_CALLS; call++)
		for (n = 1; n <= 1u + (call != FAKE_SOCKET_PROBE); n++) {
			begin(1, SHORT_MS);
			fake_sockets.fail_in[call] = n;
			fake_sockets.error = ENOSPC;
			open_here();
			service_until(&outcome.times, 1);
			until_quiet();
			/* the service makes the last step to RTS, so its client notices no
			 * failure */
			if (call == FAKE_SOCKET_TO_RTS && n == 2) {
				assert_int_equal(outcome.error, 0);
				assert_int_equal(service_harness.accepted, 0);
			} else {
				assert_int_equal(outcome.error, -ENOSPC);
			}
			assert_int_equal(outcome.times, 1);
			end();
		}
}

static void first_message_is_lost(void **state)
{
	begin(1, SHORT_MS);
	fake_sockets.lose_probe = true;
	open_to(service_harness.address, 5 * SHORT_MS);
	until_quiet();
	service_until(&outcome.times, 1);
	assert_int_equal(outcome.error, -ETIMEDOUT);
	assert_non_null(strstr(outcome.why, "sends its first message"));
	assert_int_equal(fake_sockets.alive, 0);
	assert_int_equal(service_figure("inc_connect_accept_timeout_total"), 1);
	end();
}

static void its_completion_is_lost(void **state)
{
	begin(1, LONG_MS);
	fake_sockets.lose_completion = true;
	open_to(service_harness.address, 1000);
	service_until(&outcome.times, 1);
	assert_int_equal(outcome.error, -ETIMEDOUT);
	assert_int_equal(service_harness.accepted, 1);
	until_quiet();
	end();
}

static void closed_before_it_was_ready(void **state)
{
	begin(1, LONG_MS);
	fake_sockets.lose_completion = true;
	open_here();
	service_until(&service_harness.accepted, 1);
	fake_socket_close(service_harness.sockets[0]);
	service_until(&outcome.opened, 1);
	/* the client got a socket that is already closed, from which it can still read messages */
	assert_int_equal(fake_sockets.handed[1], 1);
	end();
}

/* Greatest number of turns of the loop for making a connection. A turn also waits for threads that
 * are in progress. */
#define TURNS 30

static void turn(unsigned int n)
{
	while (n--)
		event_base_loop(service_harness.base,
				EVLOOP_ONCE | (service_rtr_under_way() ? 0 : EVLOOP_NONBLOCK));
}

static void cancelled_at_any_time(void **state)
{
	struct inc_connect_request *request;
	unsigned int turns, cancelled = 0;

	for (turns = 0; turns < TURNS; turns++) {
		begin(1, EXPIRES_MS);
		request = open_here();
		turn(turns);
		if (!outcome.times) {
			inc_connect_cancel(request);
			cancelled++;
			until_quiet();
			assert_int_equal(outcome.times, 0);
		}
		end();
	}
	assert_true(cancelled > 3 && cancelled < TURNS);
}

static void context_ends_at_any_time(void **state)
{
	unsigned int turns;

	for (turns = 0; turns < TURNS; turns++) {
		begin(1, LONG_MS);
		open_here();
		open_here();
		turn(turns);
		end();
	}
}

static void service_ends_at_any_time(void **state)
{
	unsigned int turns, lost = 0;

	for (turns = 0; turns < TURNS; turns++) {
		begin(1, LONG_MS);
		open_to(service_harness.address, EXPIRES_MS);
		turn(turns);
		inc_connect_service_close(service_harness.service);
		service_until(&outcome.times, 1);
		lost += outcome.error != 0;
		until_quiet();
		end();
	}
	assert_true(lost > 3 && lost < TURNS);
}

static void device_breaks_at_any_time(void **state)
{
	unsigned int turns, broken = 0;

	for (turns = 0; turns < TURNS; turns++) {
		begin(1, EXPIRES_MS);
		fake_sockets.error = ENETDOWN;
		open_here();
		turn(turns);
		fake_sockets_break();
		service_until(&outcome.times, 1);
		broken += outcome.error == -ENETDOWN;
		until_quiet();
		end();
	}
	assert_true(broken > 0 && broken < TURNS);
}

static void destroy_context(void)
{
	inc_connect_destroy(service_harness.ctx);
	service_harness.ctx = NULL;
}

static void destroyed_inside_callbacks(void **state)
{
	struct inc_connect_request *request;
	int kind;

	for (kind = 0; kind < 4; kind++) {
		begin(1, LONG_MS);
		outcome.then = destroy_context;
		if (kind == 0)
			open_here();
		if (kind == 1)
			open_to("127.0.0.1:1", LONG_MS);
		if (kind == 2)
			inc_connect_query(service_harness.ctx, service_harness.address, NULL,
					  on_queried, &request);
		if (kind == 3)
			inc_connect_ask_figures(service_harness.ctx, service_harness.address, NULL,
						on_told, &request);
		open_here(); /* this request is cancelled, so its callback must never run */
		service_until(&outcome.times, 1);
		service_turn();
		assert_int_equal(outcome.times, 1);
		end();
	}
}

static void destroyed_inside_accepted(void **state)
{
	begin(1, LONG_MS);
	service_harness.then = destroy_context;
	open_here();
	open_here();
	service_until(&service_harness.accepted, 1);
	service_turn();
	end();
}

/* Opens a TCP listener, whose service the test plays. */
static int serve_by_hand(char address[32])
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	snprintf(address, 32, "127.0.0.1:%u", ntohs(at.sin_port));
	return fd;
}

#define DEVICES                                                                        \
	"{\"type\":\"devices\",\"devices\":[{\"dev\":0,\"dev_name\":\"x\",\"ports\":[" \
	"{\"port\":1,\"link_layer\":2,\"zones\":[]}]}]}\n"

static void strange_services(void **state)
{
	static const struct {
		const char *text;
		int error;
		const char *why;
	} rows[] = {
		{"", -ECONNRESET, "closed by peer"},
		{"SSH-2.0-x\r\n", -EPROTO, ""},
		{"{}\n", -EPROTO, "'' instead of 'devices'"},
		{"{\"type\":\"devices\"", -EPROTO, "in the middle of a line"},
		{"{\"type\":\"devices\"}\n", -EPROTO, "devices: "},
		{"{\"type\":\"error\",\"errno\":\"ENOTTY\",\"message\":\"no\"}\n", -ENOTTY, ": no"},
		/* the answer of a service of another version, which describes the mismatch */
		{"{\"type\":\"error\",\"errno\":\"EPROTONOSUPPORT\",\"message\":\"version 1, this "
		 "service speaks 2\"}\n",
		 -EPROTONOSUPPORT, ": version 1, this service speaks 2"},
		{"{\"type\":\"error\",\"errno\":\"EWHAT\"}\n", -EPROTO, "without a reason"},
		{"{\"type\":\"error\"}\n", -EPROTO, "without a reason"},
		{DEVICES, -ECONNRESET, "closed by peer"},
		{DEVICES DEVICES, -EPROTO, "'devices' instead of 'connected'"},
		{DEVICES "{\"type\":\"connected\"}\n", -EPROTO, "connected: "},
		{DEVICES "{\"type\":\"error\",\"errno\":\"EBUSY\",\"message\":\"later\"}\n", -EBUSY,
		 ": later"},
	};
	char address[32];
	int listener, fd;
	size_t i;

	begin(1, LONG_MS);
	listener = serve_by_hand(address);
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		open_to(address, LONG_MS);
		while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) < 0)
			service_turn();
		tcp_send(fd, rows[i].text, strlen(rows[i].text));
		shutdown(fd, SHUT_WR);
		service_until(&outcome.times, i + 1);
		close(fd);
		if (outcome.error != rows[i].error || !strstr(outcome.why, rows[i].why))
			fail_msg("%s: %s", rows[i].text, outcome.why);
		assert_int_equal(fake_sockets.alive, 0);
	}
	/* a service that sends nothing */
	open_to(address, EXPIRES_MS);
	service_until(&outcome.times, i + 1);
	assert_int_equal(outcome.error, -ETIMEDOUT);
	close(listener);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_get_a_socket),
		cmocka_unit_test(a_hundred_at_once),
		cmocka_unit_test(ports_take_turns),
		cmocka_unit_test(without_devices),
		cmocka_unit_test(questions),
		cmocka_unit_test(addresses),
		cmocka_unit_test(every_step_may_fail),
		cmocka_unit_test(first_message_is_lost),
		cmocka_unit_test(its_completion_is_lost),
		cmocka_unit_test(closed_before_it_was_ready),
		cmocka_unit_test(cancelled_at_any_time),
		cmocka_unit_test(context_ends_at_any_time),
		cmocka_unit_test(service_ends_at_any_time),
		cmocka_unit_test(device_breaks_at_any_time),
		cmocka_unit_test(destroyed_inside_callbacks),
		cmocka_unit_test(destroyed_inside_accepted),
		cmocka_unit_test(strange_services),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("open", tests, NULL, NULL);
}
