/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The step to RTR (hostlib/connect/rtr.h) over TCP and fake devices. The step takes as long as the
 * kernel needs to resolve the peer's address. The tests check that other work goes on during the
 * step, and that the request, service or context may end during it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include "hostlib/connect/context.h"
#include "selftests/belongings.h"
#include "selftests/fakes/connect_socket.h"
#include "selftests/connect/harness_service.h"

/* A timeout that shall expire, but only after the steps to RTR, which pass through several threads.
 */
#define STEPS_MS 1000

/* The results that callbacks have received. */
static struct {
	unsigned int times, opened;
	int error;
	char why[512];
	uint32_t devices;
} outcome;

static void hear(int error, const char *why)
{
	outcome.times++;
	outcome.error = error;
	snprintf(outcome.why, sizeof(outcome.why), "%s", why ?: "");
}

static void on_opened(void *arg, int error, const char *why, struct inc_connect_socket *socket,
		      const struct inc_connect_choice *choice)
{
	outcome.opened += !error;
	inc_connect_socket_destroy(socket);
	hear(error, why);
}

static void on_queried(void *arg, int error, const char *why,
		       const struct inc_connect_devices *devices)
{
	outcome.devices = devices ? devices->n_devices : 0;
	hear(error, why);
}

static void begin(unsigned int accept_timeout_ms)
{
	service_begin(1, accept_timeout_ms);
	memset(&outcome, 0, sizeof(outcome));
	fake_sockets.hold_rtr = true;
}

static struct inc_connect_request *open_for(unsigned int timeout_ms)
{
	INC_CONNECT_OPTS(inc_connect_request_opts, opts, .timeout_ms = timeout_ms);
	struct inc_connect_request *request;

	assert_int_equal(inc_connect_open(service_harness.ctx, service_harness.address, &opts,
					  on_opened, &request),
			 0);
	return request;
}

/* Runs the loop until no connection is being made. Then each socket must have an owner, at the
 * client or at the service. */
static void until_quiet(void)
{
	while (service_figure("inc_connect_connecting") ||
	       service_figure("inc_connect_accepting") || service_rtr_under_way())
		event_base_loop(service_harness.base, EVLOOP_ONCE);
	assert_int_equal(fake_sockets.alive, service_harness.accepted);
}

/* The steps to RTR of both sides take long, one after the other. Meanwhile the loop goes on and
 * answers other clients. */
static void a_slow_step_blocks_no_other_client(void **state)
{
	struct inc_connect_request *request;
	unsigned int i;

	begin(LONG_MS);
	open_for(LONG_MS);
	for (i = 0; i < 2; i++) {
		service_until_waiting(1);
		assert_int_equal(inc_connect_query(service_harness.ctx, service_harness.address,
						   NULL, on_queried, &request),
				 0);
		service_until(&outcome.times, i + 1);
		assert_int_equal(outcome.error, 0);
		assert_int_equal(outcome.devices, 1);
		assert_int_equal(fake_sockets_rtr_waiting(), 1);
		fake_sockets_rtr_go_on(1);
	}
	service_until(&outcome.opened, 1);
	service_until(&service_harness.accepted, 1);
	until_quiet();
	service_end();
}

/* Makes a connection up to the point where one side's step to RTR is held back. */
static struct inc_connect_request *open_to_rtr(bool client, unsigned int timeout_ms)
{
	struct inc_connect_request *request;

	request = open_for(timeout_ms);
	service_until_waiting(1);
	if (client) {
		fake_sockets_rtr_go_on(1);
		service_until_waiting(1);
	}
	return request;
}

/* Lets the held step continue after its request has ended. The socket must be freed, whatever the
 * kernel's answer is, and no callback may run. */
static void release_after_the_end(void)
{
	const unsigned int times = outcome.times;

	assert_true(service_rtr_under_way());
	assert_true(fake_sockets.alive);
	fake_sockets_rtr_go_on(2);
	until_quiet();
	assert_int_equal(outcome.times, times);
	assert_int_equal(service_harness.accepted, 0);
	assert_int_equal(service_harness.ctx->rtrs.n_abandoned, 0);
	assert_int_equal(service_harness.ctx->rtrs.abandoned_bytes, 0);
}

static void cancelled_during_rtr(void **state)
{
	int client;

	for (client = 0; client < 2; client++) {
		begin(STEPS_MS);
		inc_connect_cancel(open_to_rtr(client, LONG_MS));
		release_after_the_end();
		assert_int_equal(outcome.times, 0);
		service_end();
	}
}

static void timeout_during_rtr(void **state)
{
	begin(LONG_MS);
	open_to_rtr(true, STEPS_MS);
	service_until(&outcome.times, 1);
	assert_int_equal(outcome.error, -ETIMEDOUT);
	assert_non_null(strstr(outcome.why, "looks for the service's port"));
	inc_connect_service_close(service_harness.service);
	release_after_the_end();
	service_end();

	begin(STEPS_MS);
	open_to_rtr(false, LONG_MS);
	service_until(&outcome.times, 1);
	assert_int_equal(outcome.error, -ETIMEDOUT);
	assert_non_null(strstr(outcome.why, "no way to the client's port within"));
	release_after_the_end();
	service_end();
}

static void device_fails_during_rtr(void **state)
{
	begin(STEPS_MS);
	open_to_rtr(true, LONG_MS);
	fake_sockets.error = ENETDOWN;
	fake_sockets_break();
	service_until(&outcome.times, 1);
	assert_int_equal(outcome.error, -ENETDOWN);
	release_after_the_end();
	service_end();
}

/* When the service or the context ends, no thread may still use a destroyed queue pair. */
static void service_ends_during_rtr(void **state)
{
	begin(LONG_MS);
	open_to_rtr(false, LONG_MS);
	inc_connect_service_close(service_harness.service);
	service_until(&outcome.times, 1);
	assert_int_equal(outcome.error, -ECONNRESET);
	release_after_the_end();
	service_end();
}

/* A thread that lets the step to RTR continue while the context ends. The end of the context must
 * wait for that step. The test cannot prove that the wait begins before the step continues. But it
 * proves that the socket exists until the step is done. */
static void *go_on(void *arg)
{
	sched_yield();
	fake_sockets_rtr_go_on(2);
	return NULL;
}

static void context_ends_during_rtr(void **state)
{
	pthread_t thread;
	int client;

	for (client = 0; client < 2; client++) {
		begin(LONG_MS);
		open_to_rtr(client, LONG_MS);
		assert_int_equal(pthread_create(&thread, NULL, go_on, NULL), 0);
		service_end();
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_int_equal(outcome.times, 0);
	}
}

/* The thread of the caller's loop runs under SCHED_FIFO on one CPU. The threads for steps to RTR
 * must inherit neither. */
static void thread_inherits_nothing(void **state)
{
	cpu_set_t before;
	bool inherit = false;

	begin(LONG_MS);
	before = become_busy();
	inc_connect_cancel(open_to_rtr(true, LONG_MS));
	assert_true(become_idle(&before, &inherit));
	assert_false(inherit);
	release_after_the_end();
	service_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_slow_step_blocks_no_other_client),
		cmocka_unit_test(cancelled_during_rtr),
		cmocka_unit_test(timeout_during_rtr),
		cmocka_unit_test(device_fails_during_rtr),
		cmocka_unit_test(service_ends_during_rtr),
		cmocka_unit_test(context_ends_during_rtr),
		cmocka_unit_test(thread_inherits_nothing),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("rtr", tests, NULL, NULL);
}
