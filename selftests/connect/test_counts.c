/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checks the metrics of libinc_connect over TCP and fake devices. Each requested connection
 * increments one counter of each side. Gauges return to 0. Peers have histograms if the settings
 * ask for them. A client that queries a service gets the service's metrics.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "selftests/fakes/connect_socket.h"
#include "selftests/connect/harness_service.h"

/* timeout of a client, which shall expire after that of its service */
#define LATER_MS (5 * SHORT_MS)

static unsigned int callbacks; /* number of callbacks of requests */

static void on_opened(void *arg, int error, const char *why, struct inc_connect_socket *socket,
		      const struct inc_connect_choice *choice)
{
	inc_connect_socket_destroy(socket);
	callbacks++;
}

static void open_from(struct inc_connect *ctx, unsigned int timeout_ms)
{
	INC_CONNECT_OPTS(inc_connect_request_opts, opts, .timeout_ms = timeout_ms);
	struct inc_connect_request *request;

	assert_int_equal(inc_connect_open(ctx, service_harness.address, &opts, on_opened, &request),
			 0);
}

static void begin(unsigned int devices, unsigned int accept_timeout_ms)
{
	service_begin(devices, accept_timeout_ms);
	callbacks = 0;
}

static void until_over(unsigned int requests)
{
	service_until(&callbacks, requests);
	while (service_figure("inc_connect_accepting"))
		event_base_loop(service_harness.base, EVLOOP_ONCE);
	assert_int_equal(service_figure("inc_connect_connecting"), 0);
}

/* Checks the counters of the harness's context, which has both the client and the service. */
static void expect(unsigned int connects, unsigned int connects_failed, unsigned int accepts,
		   unsigned int accepts_failed, unsigned int timeouts)
{
	assert_int_equal(service_figure("inc_connect_connect_latency_seconds_count"), connects);
	assert_int_equal(service_figure("inc_connect_connect_failed_total"), connects_failed);
	assert_int_equal(service_figure("inc_connect_accept_latency_seconds_count"), accepts);
	assert_int_equal(service_figure("inc_connect_accept_failed_total"), accepts_failed);
	assert_int_equal(service_figure("inc_connect_accept_timeout_total"), timeouts);
}

static void success(void **state)
{
	begin(1, LONG_MS);
	open_from(service_harness.ctx, LONG_MS);
	open_from(service_harness.ctx, LONG_MS);
	assert_int_equal(service_figure("inc_connect_connecting"), 2);
	until_over(2);
	expect(2, 0, 2, 0, 0);
	service_end();
}

static void no_device(void **state)
{
	begin(0, LONG_MS);
	open_from(service_harness.ctx, LONG_MS);
	until_over(1);
	expect(0, 1, 0, 0, 0);
	service_end();
}

static void first_message_is_lost(void **state)
{
	begin(1, SHORT_MS);
	fake_sockets.lose_probe = true;
	open_from(service_harness.ctx, LATER_MS);
	until_over(1);
	expect(0, 1, 0, 1, 1);
	service_end();
}

/* Lets a step of the client or of the service fail, and checks that the peer fails, too. */
static void a_step_fails(void **state)
{
	static const struct {
		enum fake_socket_call call;
		unsigned int n;
		unsigned int connects, connects_failed, accepts_failed, timeouts;
	} rows[] = {
		/* a step of the client, of which the service never gets to know */
		{FAKE_SOCKET_MAKE, 1, 0, 1, 0, 0},
		{FAKE_SOCKET_MAKE, 2, 0, 1, 1, 0},      /* a step of the service fails */
		{FAKE_SOCKET_ENTER_RTR, 1, 0, 1, 1, 0}, /* a step of the service fails */
		/* a step of the client fails, and the service times out */
		{FAKE_SOCKET_ENTER_RTR, 2, 0, 1, 1, 1},
		{FAKE_SOCKET_POST_RECEIVES, 1, 0, 1, 1, 0}, /* a step of the service fails */
		/* a step of the client fails, and the service times out */
		{FAKE_SOCKET_PROBE, 1, 0, 1, 1, 1},
		/* a step of the service fails, when the client is already ready */
		{FAKE_SOCKET_TO_RTS, 2, 1, 0, 1, 0},
	};
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		begin(1, rows[i].timeouts ? SHORT_MS : LONG_MS);
		fake_sockets.fail_in[rows[i].call] = rows[i].n;
		fake_sockets.error = ENOSPC;
		open_from(service_harness.ctx, LONG_MS);
		until_over(1);
		expect(rows[i].connects, rows[i].connects_failed, 0, rows[i].accepts_failed,
		       rows[i].timeouts);
		service_end();
	}
}

/* A request that was cancelled counts as a failure on neither side. */
static void cancelled(void **state)
{
	struct inc_connect_request *request;

	begin(1, LONG_MS);
	assert_int_equal(inc_connect_open(service_harness.ctx, service_harness.address, NULL,
					  on_opened, &request),
			 0);
	assert_int_equal(service_figure("inc_connect_connecting"), 1);
	inc_connect_cancel(request);
	until_over(0);
	expect(0, 0, 0, 0, 0);
	service_end();
}

static void has(struct inc_connect *ctx, const char *name, const char *peer, unsigned int n)
{
	char *text = inc_connect_figures(ctx), line[300];

	assert_non_null(text);
	snprintf(line, sizeof(line), "\n%s{peer=\"%s\"} %u\n", name, peer, n);
	if (!strstr(text, line))
		fail_msg("no line%sin\n%s", line, text);
	free(text);
}

/* A client that asks for histograms gets them on both sides. */
static void histograms_by_the_clients_settings(void **state)
{
	INC_CONNECT_OPTS(inc_connect_opts, opts);
	struct inc_connect_settings settings;
	struct inc_connect *other;
	char *text;

	begin(1, LONG_MS);
	open_from(service_harness.ctx, LONG_MS);
	until_over(1);
	text = inc_connect_figures(service_harness.ctx);
	assert_null(strstr(text, "inc_connect_peer_"));
	free(text);
	inc_connect_settings_init(&settings, sizeof(settings));
	settings.record_latency_per_peer = true;
	opts.settings = &settings;
	assert_int_equal(inc_connect_create(service_harness.base, &opts, &other), 0);
	open_from(other, LONG_MS);
	open_from(other, LONG_MS);
	until_over(3);
	expect(1, 0, 3, 0, 0);
	has(service_harness.ctx, "inc_connect_peer_accept_latency_seconds_count", "127.0.0.1", 2);
	has(other, "inc_connect_peer_connect_latency_seconds_count", service_harness.address, 2);
	has(other, "inc_connect_peer_accept_latency_seconds_count", service_harness.address, 0);
	inc_connect_destroy(other);
	service_end();
}

static void on_accepted(void *arg, struct inc_connect_socket *socket, const char *peer)
{
	inc_connect_socket_destroy(socket);
	callbacks++;
}

/* A service that asks for histograms has them for all its clients. */
static void histograms_by_the_services_settings(void **state)
{
	INC_CONNECT_OPTS(inc_connect_opts, opts);
	INC_CONNECT_OPTS(inc_connect_serve_opts, serve, .listen = "127.0.0.1:0",
			 .accepted = on_accepted);
	struct inc_connect_settings settings;
	struct inc_connect_service *service;
	struct inc_connect *other;
	char *text;

	begin(1, LONG_MS);
	inc_connect_settings_init(&settings, sizeof(settings));
	settings.record_latency_per_peer = true;
	opts.settings = &settings;
	assert_int_equal(inc_connect_create(service_harness.base, &opts, &other), 0);
	assert_int_equal(inc_connect_serve(other, &serve, &service), 0);
	snprintf(service_harness.address, sizeof(service_harness.address), "127.0.0.1:%u",
		 inc_connect_service_port(service));
	open_from(service_harness.ctx, LONG_MS);
	service_until(&callbacks, 2);
	has(other, "inc_connect_peer_accept_latency_seconds_count", "127.0.0.1", 1);
	text = inc_connect_figures(service_harness.ctx);
	assert_null(strstr(text, "inc_connect_peer_"));
	free(text);
	inc_connect_destroy(other);
	service_end();
}

static char *told;

static void on_told(void *arg, int error, const char *why, const char *figures)
{
	assert_int_equal(error, 0);
	told = strdup(figures);
	callbacks++;
}

static void a_query_returns_the_same_figures(void **state)
{
	struct inc_connect_request *request;
	char *text;

	begin(1, LONG_MS);
	open_from(service_harness.ctx, LONG_MS);
	until_over(1);
	assert_int_equal(inc_connect_ask_figures(service_harness.ctx, service_harness.address, NULL,
						 on_told, &request),
			 0);
	service_until(&callbacks, 2);
	text = inc_connect_figures(service_harness.ctx);
	assert_string_equal(told, text);
	free(told);
	free(text);
	service_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(success),
		cmocka_unit_test(no_device),
		cmocka_unit_test(first_message_is_lost),
		cmocka_unit_test(a_step_fails),
		cmocka_unit_test(cancelled),
		cmocka_unit_test(histograms_by_the_clients_settings),
		cmocka_unit_test(histograms_by_the_services_settings),
		cmocka_unit_test(a_query_returns_the_same_figures),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("counts", tests, NULL, NULL);
}
