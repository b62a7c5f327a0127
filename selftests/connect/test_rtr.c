/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The step to RTR (hostlib/connect/rtr.h), which takes as long as the kernel looks for an address:
 * what goes on meanwhile, and what ends meanwhile, over TCP and made-up devices.
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
#include "selftests/connect/fake_devices.h"
#include "selftests/connect/loop.h"

#define LONG_MS 15000
/* Where it is to end, and the steps before must find it running: on a slow machine, too. */
#define STEPS_MS 300

/* What callbacks have heard. */
static struct {
	unsigned int times, opened;
	int error;
	char why[512];
	uint32_t devices;
} heard;

static void hear(int error, const char *why)
{
	heard.times++;
	heard.error = error;
	snprintf(heard.why, sizeof(heard.why), "%s", why ?: "");
}

static void on_opened(void *arg, int error, const char *why, struct inc_connect_socket *socket,
		      const struct inc_connect_choice *choice)
{
	heard.opened += !error;
	inc_connect_socket_destroy(socket);
	hear(error, why);
}

static void on_queried(void *arg, int error, const char *why,
		       const struct inc_connect_devices *devices)
{
	heard.devices = devices ? devices->n_devices : 0;
	hear(error, why);
}

static void begin(unsigned int accept_timeout_ms)
{
	loop_begin(1, accept_timeout_ms);
	memset(&heard, 0, sizeof(heard));
	fake_sockets.hold_rtr = true;
}

static struct inc_connect_request *open_for(unsigned int timeout_ms)
{
	INC_CONNECT_OPTS(inc_connect_request_opts, opts, .timeout_ms = timeout_ms);
	struct inc_connect_request *request;

	assert_int_equal(inc_connect_open(loop.ctx, loop.address, &opts, on_opened, &request), 0);
	return request;
}

/* Runs the loop until no connection is being made, and those that are belong to somebody. */
static void until_quiet(void)
{
	while (loop_figure("inc_connect_connecting") || loop_figure("inc_connect_accepting") ||
	       loop_on_the_way())
		event_base_loop(loop.base, EVLOOP_ONCE);
	assert_int_equal(fake_sockets.alive, loop.accepted);
}

/* Both sides' in turn: the loop goes on meanwhile, and answers others. */
static void a_long_way_holds_up_nobody(void **state)
{
	struct inc_connect_request *request;
	unsigned int i;

	begin(LONG_MS);
	open_for(LONG_MS);
	for (i = 0; i < 2; i++) {
		loop_until_waiting(1);
		assert_int_equal(
			inc_connect_query(loop.ctx, loop.address, NULL, on_queried, &request), 0);
		loop_until(&heard.times, i + 1);
		assert_int_equal(heard.error, 0);
		assert_int_equal(heard.devices, 1);
		assert_int_equal(fake_rtr_waiting(), 1);
		fake_rtr_go_on(1);
	}
	loop_until(&heard.opened, 1);
	loop_until(&loop.accepted, 1);
	until_quiet();
	loop_end();
}

/* Takes the connection to where a side's step to RTR waits. */
static struct inc_connect_request *open_to_rtr(bool client, unsigned int timeout_ms)
{
	struct inc_connect_request *request;

	request = open_for(timeout_ms);
	loop_until_waiting(1);
	if (client) {
		fake_rtr_go_on(1);
		loop_until_waiting(1);
	}
	return request;
}

/* What is left goes once the kernel has its answer, whatever that is; nobody hears of it. */
static void gone_on_the_way(void)
{
	const unsigned int times = heard.times;

	assert_true(loop_on_the_way());
	assert_true(fake_sockets.alive);
	fake_rtr_go_on(2);
	until_quiet();
	assert_int_equal(heard.times, times);
	assert_int_equal(loop.accepted, 0);
	assert_int_equal(loop.ctx->rtrs.n_abandoned, 0);
	assert_int_equal(loop.ctx->rtrs.abandoned_bytes, 0);
}

static void cancelled_on_the_way(void **state)
{
	int client;

	for (client = 0; client < 2; client++) {
		begin(STEPS_MS);
		inc_connect_cancel(open_to_rtr(client, LONG_MS));
		gone_on_the_way();
		assert_int_equal(heard.times, 0);
		loop_end();
	}
}

static void late_on_the_way(void **state)
{
	begin(LONG_MS);
	open_to_rtr(true, STEPS_MS);
	loop_until(&heard.times, 1);
	assert_int_equal(heard.error, -ETIMEDOUT);
	assert_non_null(strstr(heard.why, "looks for the service's port"));
	inc_connect_service_close(loop.service);
	gone_on_the_way();
	loop_end();

	begin(STEPS_MS);
	open_to_rtr(false, LONG_MS);
	loop_until(&heard.times, 1);
	assert_int_equal(heard.error, -ETIMEDOUT);
	assert_non_null(strstr(heard.why, "no way to the client's port within"));
	gone_on_the_way();
	loop_end();
}

static void device_breaks_on_the_way(void **state)
{
	begin(STEPS_MS);
	open_to_rtr(true, LONG_MS);
	fake_sockets.error = ENETDOWN;
	fake_sockets_break();
	loop_until(&heard.times, 1);
	assert_int_equal(heard.error, -ENETDOWN);
	gone_on_the_way();
	loop_end();
}

/* Neither the service's end nor the context's leaves a thread at a queue pair that is gone. */
static void service_ends_on_the_way(void **state)
{
	begin(LONG_MS);
	open_to_rtr(false, LONG_MS);
	inc_connect_service_close(loop.service);
	loop_until(&heard.times, 1);
	assert_int_equal(heard.error, -ECONNRESET);
	gone_on_the_way();
	loop_end();
}

/* The end of a context waits. That it does before the thread goes on is not for certain here, as
 * nothing tells of it; that the socket is there until the thread is done is. */
static void *go_on(void *arg)
{
	sched_yield();
	fake_rtr_go_on(2);
	return NULL;
}

static void context_ends_on_the_way(void **state)
{
	pthread_t thread;
	int client;

	for (client = 0; client < 2; client++) {
		begin(LONG_MS);
		open_to_rtr(client, LONG_MS);
		assert_int_equal(pthread_create(&thread, NULL, go_on, NULL), 0);
		loop_end();
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_int_equal(heard.times, 0);
	}
}

/* The caller's loop runs under SCHED_FIFO on one CPU. */
static void thread_inherits_nothing(void **state)
{
	cpu_set_t before;
	bool inherit = false;

	begin(LONG_MS);
	before = become_busy();
	inc_connect_cancel(open_to_rtr(true, LONG_MS));
	assert_true(become_idle(&before, &inherit));
	assert_false(inherit);
	gone_on_the_way();
	loop_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_long_way_holds_up_nobody),
		cmocka_unit_test(cancelled_on_the_way),
		cmocka_unit_test(late_on_the_way),
		cmocka_unit_test(device_breaks_on_the_way),
		cmocka_unit_test(service_ends_on_the_way),
		cmocka_unit_test(context_ends_on_the_way),
		cmocka_unit_test(thread_inherits_nothing),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("rtr", tests, NULL, NULL);
}
