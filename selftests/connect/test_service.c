/* SPDX-License-Identifier: BSD-2-Clause */
/* The answers of a service to its clients, line by line over TCP, with fake devices
 * (fakes/inventory.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "hostlib/connect/protocol.h"
#include "hostlib/connect/service.h"
#include "selftests/fakes/inventory.h"
#include "selftests/connect/harness_service.h"

static void answers_queries(void **state)
{
	service_begin(0, LONG_MS);
	expect_said(QUERY, "\"devices\":[]");
	expect_said(QUERY, "\"hostname\":\"");
	service_end();
	service_begin(2, LONG_MS);
	expect_said(QUERY, "{\"dev\":1,\"dev_name\":\"fake1\",\"ports\":"
			   "[{\"port\":1,\"link_layer\":2,\"zones\":[]}]}");
	expect_said(FIGURES, "\"name\":\"inc_connect_accepting\"");
	/* two requests that follow each other on one connection */
	expect_said(QUERY FIGURES, "\"families\":[");
	service_end();
}

static void ports_come_and_go(void **state)
{
	unsigned int lines;

	service_begin(1, LONG_MS);
	fake_inventory.state = INC_RDMA_PORT_DOWN;
	expect_said(QUERY, "fake0");
	fake_inventory_changed();
	service_until(&service_harness.lines, 1);
	assert_string_equal(service_harness.line, "fake0/1: down");
	expect_said(QUERY, "\"devices\":[]");
	expect_said(CONNECT, "\"errno\":\"ENETDOWN\"");
	fake_inventory.state = INC_RDMA_PORT_ACTIVE;
	lines = service_harness.lines;
	fake_inventory_changed();
	service_until(&service_harness.lines, lines + 1);
	assert_string_equal(service_harness.line, "fake0/1: active");
	expect_said(QUERY, "fake0");
	service_end();
}

static void refuses_what_is_wrong(void **state)
{
	static const struct {
		const char *text, *want;
	} rows[] = {
		{"\n", ""},
		{"x\n", "EBADMSG"},
		{"[]\n", "EBADMSG"},
		{"{}\n", "EPROTO"},
		{"GET / HTTP/1.1\r\n", "EBADMSG"},
		{"{\"type\":7}\n", "EPROTO"},
		{"{\"type\":\"devices\",\"devices\":[]}\n", "unknown type 'devices'"},
		{"{\"type\":\"query\"}\n", "version"},
		{"{\"type\":\"query\",\"version\":2}\n", "EPROTONOSUPPORT"},
		{"{\"type\":\"stats\",\"version\":2}\n", "EPROTONOSUPPORT"},
		{"{\"type\":\"connect\",\"version\":2}\n", "EPROTONOSUPPORT"},
		{"{\"type\":\"connect\",\"version\":1}\n", "EINVAL"},
		{QUERY QUERY, "'query' after 'query'"},
		{FIGURES QUERY FIGURES, "'stats' after 'stats'"},
		{CONNECT QUERY, "'query' after 'connect'"},
		{CONNECT CONNECT, "'connect' after 'connect'"},
		{CONNECT_TO("1", "fake0", "1", ""), "ENODEV"},
		{CONNECT_TO("0", "fake1", "1", ""), "no RDMA device 'fake1' with the number 0"},
		{CONNECT_TO("0", "fake0", "2", ""), "fake0 has no port 2"},
		{CONNECT_TO("0", "fake0", "0", ""), "target_port"},
		{CONNECT_TO("0", "fake0", "1", "\"buf_ack_batch\":33"), "config.buf_ack_batch"},
		{CONNECT_TO("0", "fake0", "1", "\"max_rdma_wr\":0"), "config.max_rdma_wr"},
	};
	size_t i;

	service_begin(1, LONG_MS);
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		expect_said(rows[i].text, rows[i].want);
		expect_said(QUERY, "fake0");
		nothing_is_made();
	}
	fake_inventory.shut = true;
	expect_said(CONNECT, "fake0 is gone");
	service_end();
}

static void refuses_long_lines(void **state)
{
	const size_t size = 64 << 10;
	char *text = malloc(size + 1);

	assert_non_null(text);
	memset(text, ' ', size);
	text[size] = '\0';
	service_begin(1, LONG_MS);
	expect_said(text, "EMSGSIZE");
	expect_said(QUERY, "fake0");
	service_end();
	free(text);
}

/* Each request that a client may send, as the protocol's table lists them, and the expected
 * answer. */
static const struct {
	enum connect_message_id id;
	const char *text, *answer;
	unsigned int device_calls; /* number of device calls that can fail during this request */
} requests[] = {
	{CONNECT_MSG_QUERY, QUERY, "\"type\":\"devices\"", 0},
	{CONNECT_MSG_ASK_FIGURES, FIGURES, "\"type\":\"figures\"", 0},
	{CONNECT_MSG_CONNECT, CONNECT, "\"type\":\"connected\"", FAKE_SOCKET_POST_RECEIVES + 1},
};
#define N_REQUESTS (sizeof(requests) / sizeof(requests[0]))

/* Checks that the answer is exactly one line, which contains `want`, while the service also answers
 * other clients. The service closes the connection after an error, and does not close it after
 * another answer. */
static void expect_one_line(const char *text, const char *want, bool is_error)
{
	const int fd = tcp_open();
	char *said, *end;

	tcp_send(fd, text, strlen(text));
	said = is_error ? tcp_read_to_end(fd) : tcp_read_line(fd);
	end = strchr(said, '\n');
	if (!end || end[1] || !strstr(said, want) || !strstr(said, "\"error\"") != !is_error)
		fail_msg("%.100s: '%.300s' is not one line with '%s'", text, said, want);
	free(said);
	expect_said(QUERY, "\"devices\":[");
	assert_true(recv(fd, &(char){0}, 1, 0) <= 0);
	close(fd);
	inc_connect_service_close(service_harness.service);
}

static void every_message_is_answered_once(void **state)
{
	static const char *const wrong[] = {"\"version\":1", "\"version\":2"};
	unsigned int id, call;
	char text[1024];
	size_t i, known = 0;

	for (id = 0; id < CONNECT_MSG_ERROR; id++)
		known += !strcmp(connect_messages[id].from, "client");
	assert_int_equal(known, N_REQUESTS);
	for (i = 0; i < N_REQUESTS; i++) {
		assert_string_equal(connect_messages[requests[i].id].from, "client");
		service_begin(1, LONG_MS);
		expect_one_line(requests[i].text, requests[i].answer, false);
		service_end();
		snprintf(text, sizeof(text), "%s", requests[i].text);
		memcpy(strstr(text, wrong[0]), wrong[1], strlen(wrong[1]));
		service_begin(1, LONG_MS);
		expect_one_line(text, "version 2, this service speaks 1", true);
		service_end();
		snprintf(text, sizeof(text), "{\"type\":\"%s\"}\n",
			 connect_messages[requests[i].id].type);
		service_begin(1, LONG_MS);
		expect_one_line(text, "EINVAL", true);
		service_end();
		for (call = 0; call < requests[i].device_calls; call++) {
			service_begin(1, LONG_MS);
			fake_sockets.fail_in[call] = 1;
			fake_sockets.error = EIO;
			expect_one_line(requests[i].text, "EIO", true);
			service_end();
		}
	}
}

/* A client hangs up after any byte of its request. The service must keep no resource of it. */
static void cut_at_every_byte(void **state)
{
	static const char text[] = QUERY CONNECT;
	size_t len;
	int fd;

	service_begin(1, SHORT_MS);
	for (len = 0; len < sizeof(text); len++) {
		fd = tcp_open();
		tcp_send(fd, text, len);
		close(fd);
		service_turn();
	}
	/* the last clients have received their answers, so their sockets end by timeout */
	while (fake_sockets.alive || service_figure("inc_connect_accepting"))
		expect_said(QUERY, "fake0");
	assert_int_equal(service_harness.accepted, 0);
	service_end();
}

static void silent_clients_are_ended(void **state)
{
	static const char *const texts[] = {"", "{\"type\":", QUERY, QUERY "{", CONNECT};
	char *said;
	size_t i;
	int fd;

	service_begin(1, SHORT_MS);
	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		fd = tcp_open();
		tcp_send(fd, texts[i], strlen(texts[i]));
		said = tcp_read_to_end(fd);
		assert_non_null(strstr(said, "ETIMEDOUT"));
		free(said);
		close(fd);
		assert_int_equal(fake_sockets.alive, 0);
	}
	assert_int_equal(service_figure("inc_connect_accepting"), 0);
	assert_int_equal(service_figure("inc_connect_accept_failed_total"), 1);
	assert_int_equal(service_figure("inc_connect_accept_timeout_total"), 1);
	assert_non_null(strstr(service_harness.line,
			       "127.0.0.1: not accepted: no first message within 300 ms"));
	service_end();
}

/* If a client hangs up before its answer is sent, the service drops its socket. If it hangs up
 * later, the service keeps the socket. */
static void hanging_up(void **state)
{
	int fd;

	service_begin(1, LONG_MS);
	fd = tcp_connected(CONNECT);
	service_turn(); /* in this turn the service sends the answer */
	close(fd);
	expect_said(QUERY, "fake0");
	assert_int_equal(fake_sockets.alive, 1);
	assert_int_equal(service_figure("inc_connect_accepting"), 1);
	inc_connect_service_close(service_harness.service);
	assert_int_equal(fake_sockets.alive, 0);
	assert_int_equal(service_figure("inc_connect_accepting"), 0);
	service_end();
}

/* A connection that is reset before the service accepts it, so that getpeername() fails. */
static void reset_before_it_is_accepted(void **state)
{
	const struct linger reset = {1, 0};
	int fd;

	service_begin(1, LONG_MS);
	fd = tcp_open();
	tcp_send(fd, CONNECT, strlen(CONNECT));
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
	close(fd);
	service_until(&service_harness.lines, 1);
	assert_string_equal(service_harness.line,
			    "127.0.0.1: not accepted: Connection reset by peer");
	nothing_is_made();
	service_end();
}

static void device_fails_meanwhile(void **state)
{
	char *said;
	int fd;

	service_begin(1, LONG_MS);
	fd = tcp_connected(CONNECT);
	fake_sockets.error = ENETDOWN;
	fake_sockets_break();
	said = tcp_read_to_end(fd);
	assert_non_null(strstr(said, "ENETDOWN"));
	free(said);
	close(fd);
	assert_int_equal(fake_sockets.alive, 0);
	assert_int_equal(service_figure("inc_connect_accept_failed_total"), 1);
	service_end();
}

static void ends_with_clients_in_every_state(void **state)
{
	static const char *const texts[] = {"", "{", QUERY, CONNECT, "x\n"};
	size_t n = sizeof(texts) / sizeof(texts[0]), i, turns;
	int fd[sizeof(texts) / sizeof(texts[0])];

	for (turns = 0; turns < 12; turns++) {
		service_begin(1, LONG_MS);
		for (i = 0; i < n; i++) {
			fd[i] = tcp_open();
			tcp_send(fd[i], texts[i], strlen(texts[i]));
		}
		for (i = 0; i < turns; i++)
			event_base_loop(service_harness.base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
		if (turns % 2)
			inc_connect_service_close(service_harness.service);
		for (i = 0; i < n; i++)
			close(fd[i]);
		service_end();
	}
}

static void listens_where_it_is_told(void **state)
{
	char error[512], *said, address[32];
	INC_CONNECT_OPTS(inc_connect_serve_opts, opts, .listen = "[::]:0", .error = error,
			 .error_size = sizeof(error));
	struct inc_connect_service *one, *two;

	service_begin(1, LONG_MS);
	/* options without an accept callback are rejected */
	assert_int_equal(inc_connect_serve(service_harness.ctx, &opts, &one), -EINVAL);
	opts.accepted = (void (*)(void *, struct inc_connect_socket *, const char *))abort;
	if (!inc_connect_serve(service_harness.ctx, &opts, &one)) {
		/* a client that connects by IPv4 is named by its IPv4 address */
		inc_connect_service_close(service_harness.service);
		service_harness.service = one;
		said = tcp_ask(CONNECT_TO("0", "fake0", "1", "") QUERY);
		free(said);
		assert_non_null(strstr(service_harness.line, "127.0.0.1: not accepted"));
	}
	snprintf(address, sizeof(address), "127.0.0.1:%u",
		 inc_connect_service_port(service_harness.service));
	opts.listen = address;
	assert_int_equal(inc_connect_serve(service_harness.ctx, &opts, &two), -EADDRINUSE);
	assert_non_null(strstr(error, address));
	opts.listen = "localhost";
	assert_int_equal(inc_connect_serve(service_harness.ctx, &opts, &two), -EINVAL);
	assert_non_null(strstr(error, "listen 'localhost'"));
	service_end();
}

/* Settings of callers that were compiled with an older or a newer version of the struct. */
static void settings_of_any_size(void **state)
{
	struct {
		struct inc_connect_settings known;
		uint8_t more[16];
	} given;
	char error[512] = "";
	INC_CONNECT_OPTS(inc_connect_opts, opts, .settings = &given.known, .error = error,
			 .error_size = sizeof(error));
	struct event_base *base = event_base_new();
	struct inc_connect *ctx;

	fake_inventory_reset();
	fake_inventory.n = 1;
	/* an older caller's struct is shorter, and bytes after it must not be used */
	memset(&given, 0xff, sizeof(given));
	inc_connect_settings_init(&given.known,
				  offsetof(struct inc_connect_settings, buf_signal_batch));
	assert_int_equal(given.known.buf_signal_batch, 0xffffffff);
	given.known.buf_size = 1000;
	assert_int_equal(inc_connect_create(base, &opts, &ctx), 0);
	assert_int_equal(ctx->config.queue_pair.buf_size, 1000);
	assert_int_equal(ctx->config.queue_pair.buf_signal_batch, 8);
	assert_int_equal(ctx->config.queue_pair.event_ack_batch, 128);
	assert_int_equal(ctx->config.queue_pair.sz, sizeof(given.known));
	inc_connect_destroy(ctx);
	/* a newer caller's struct is longer; its unknown settings may be zero, but nothing else */
	memset(&given, 0xff, sizeof(given));
	inc_connect_settings_init(&given.known, sizeof(given));
	assert_int_equal(given.more[0] | given.more[15], 0);
	assert_int_equal(inc_connect_create(base, &opts, &ctx), 0);
	assert_int_equal(ctx->config.queue_pair.event_ack_batch, 128);
	inc_connect_destroy(ctx);
	given.more[15] = 1;
	assert_int_equal(inc_connect_create(base, &opts, &ctx), -E2BIG);
	assert_string_equal(
		error, "settings: 80 bytes, but this library knows only 64, and the rest is not 0");
	/* a struct that is too short even for its size member */
	memset(&given, 0, sizeof(given));
	inc_connect_settings_init(&given.known, sizeof(size_t) - 1);
	assert_int_equal(given.known.sz, 0);
	assert_int_equal(inc_connect_create(base, &opts, &ctx), -EINVAL);
	assert_string_equal(error, "settings: sz: 0 is no size");
	event_base_free(base);
}

static void refuses_wrong_options(void **state)
{
	struct inc_connect_settings settings;
	char error[512] = "";
	INC_CONNECT_OPTS(inc_connect_opts, opts, .error = error, .error_size = sizeof(error));
	struct event_base *base = event_base_new();
	struct inc_connect *ctx;
	char big[sizeof(opts) + 8] = {0};

	fake_inventory_reset();
	assert_int_equal(inc_connect_create(base, &opts, &ctx), -ENODEV);
	assert_string_equal(error, "no RDMA device here");
	assert_int_equal(inc_connect_create(base, NULL, &ctx), -ENODEV);
	fake_inventory.n = 2;
	fake_inventory.state = INC_RDMA_PORT_DOWN;
	assert_int_equal(inc_connect_create(base, &opts, &ctx), -ENODEV);
	assert_string_equal(error, "no RDMA port that can be used; fake0/1: down; fake1/1: down");
	fake_inventory.state = INC_RDMA_PORT_ACTIVE;
	assert_int_equal(inc_connect_create(NULL, &opts, &ctx), -EINVAL);
	inc_connect_settings_init(&settings, sizeof(settings));
	opts.settings = &settings;
	assert_int_equal(inc_connect_create(base, &opts, &ctx), 0);
	inc_connect_destroy(ctx);
	settings.buf_size = 63;
	assert_int_equal(inc_connect_create(base, &opts, &ctx), -EINVAL);
	assert_string_equal(error, "buf_size: 63 is not 64 to 16777216");
	settings.buf_size = 64;
	settings.buf_signal_batch = 33;
	assert_int_equal(inc_connect_create(base, &opts, &ctx), -EINVAL);
	assert_string_equal(error, "buf_signal_batch: 33 is more than send_buf_cnt, 32");
	opts.settings = NULL;
	opts.config = "/nowhere/connect.yaml";
	assert_int_equal(inc_connect_create(base, &opts, &ctx), -ENOENT);
	assert_non_null(strstr(error, "/nowhere/connect.yaml"));
	opts.config = NULL;
	opts.sz = sizeof(big);
	memcpy(big, &opts, sizeof(opts));
	assert_int_equal(inc_connect_create(base, (void *)big, &ctx), 0);
	inc_connect_destroy(ctx);
	big[sizeof(opts)] = 1;
	assert_int_equal(inc_connect_create(base, (void *)big, &ctx), -E2BIG);
	inc_connect_destroy(NULL);
	event_base_free(base);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers_queries),
		cmocka_unit_test(ports_come_and_go),
		cmocka_unit_test(refuses_what_is_wrong),
		cmocka_unit_test(refuses_long_lines),
		cmocka_unit_test(every_message_is_answered_once),
		cmocka_unit_test(cut_at_every_byte),
		cmocka_unit_test(silent_clients_are_ended),
		cmocka_unit_test(hanging_up),
		cmocka_unit_test(reset_before_it_is_accepted),
		cmocka_unit_test(device_fails_meanwhile),
		cmocka_unit_test(ends_with_clients_in_every_state),
		cmocka_unit_test(listens_where_it_is_told),
		cmocka_unit_test(settings_of_any_size),
		cmocka_unit_test(refuses_wrong_options),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("service", tests, NULL, NULL);
}
