/* SPDX-License-Identifier: BSD-2-Clause */
/* The ends of connections: a close by one side or both, a peer that disappears, and a port that
 * goes down. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "lib/base/clock.h"
#include "selftests/vm/connect_live.h"

/* Number of messages before a close. These are more packets than may be in flight without an
 * acknowledgement (128). */
#define SOME 200
#define SIZE 100 /* bytes of each of them */

/* Opens both sides with enough buffers for SOME messages. */
static void open_for_some(void)
{
	struct inc_connect_settings settings;
	const struct connect_sides_opts opts = {.setting = &settings};

	test_settings(&settings);
	settings.buf_size = SIZE;
	settings.send_buf_cnt = 256;
	sides_open(&opts);
}

static void expect_shutdown(struct held *h)
{
	const void *got;
	size_t size;

	assert_int_equal(DONE(inc_connect_socket_receive(h->socket, &got, &size)), -ESHUTDOWN);
	assert_int_equal(inc_connect_socket_send(h->socket, "x", 1), -ESHUTDOWN);
	assert_int_equal(inc_connect_socket_progress(h->socket), -ESHUTDOWN);
}

/* One side closes. The other side reads all messages that were sent before, and then gets the
 * close. */
void test_one_closes(void **state)
{
	int side;

	open_for_some();
	for (side = 0; side < SIDES; side++) {
		open_pair(held);
		send_messages(&held[side], SOME, SIZE, 1);
		assert_int_equal(DONE(inc_connect_socket_close(held[side].socket)), 0);
		let_go(&held[side], 1);
		expect_messages(&held[!side], SOME, SIZE, 1);
		expect_shutdown(&held[!side]);
		let_go(&held[!side], 1);
	}
	sides_close();
}

/* Checks that the messages that have arrived are in order. A side that got its peer's close must
 * have received all messages. */
static void expect_what_came(struct held *to, unsigned int seed)
{
	const void *got;
	uint8_t data[SIZE];
	unsigned int n;
	size_t size;

	for (n = 0; !inc_connect_socket_receive(to->socket, &got, &size); n++) {
		fill(data, sizeof(data), seed + n);
		assert_int_equal(size, sizeof(data));
		assert_memory_equal(got, data, size);
		assert_int_equal(inc_connect_socket_release(to->socket), 0);
	}
	assert_true(n <= SOME);
	if (strstr(inc_connect_socket_error(to->socket), "the peer has closed"))
		assert_int_equal(n, SOME);
}

/* Both sides close, at the same time or with a short delay. */
void test_both_close(void **state)
{
	int side, later, i, ret;

	open_for_some();
	for (later = 0; later < 8; later++) {
		open_pair(held);
		send_messages(&held[CLIENT], SOME, SIZE, 1);
		send_messages(&held[SERVICE], SOME, SIZE, 2);
		ret = inc_connect_socket_close(held[later % 2].socket);
		assert_true(ret == -EAGAIN || !ret);
		/* each turn of the loop handles one event or tick */
		for (i = 0; i < later / 2; i++)
			turn(UINT64_MAX, "", __LINE__);
		for (side = 0; side < SIDES; side++)
			assert_int_equal(DONE(inc_connect_socket_close(held[side].socket)), 0);
		expect_what_came(&held[CLIENT], 2);
		expect_what_came(&held[SERVICE], 1);
		let_go(held, SIDES);
	}
	sides_close();
}

/* Checks that a socket has failed: every later call returns its error, and there is an
 * explanation. */
static void expect_failed(struct held *h)
{
	const void *got;
	const char *story = inc_connect_socket_error(h->socket);
	size_t size;

	assert_true(h->error < 0 && h->error != -EAGAIN && h->error != -ESHUTDOWN);
	assert_non_null(story);
	assert_null(strchr(story, '\n'));
	assert_int_equal(inc_connect_socket_send(h->socket, "x", 1), h->error);
	assert_int_equal(inc_connect_socket_receive(h->socket, &got, &size), h->error);
	assert_int_equal(inc_connect_socket_flush(h->socket), h->error);
	assert_int_equal(inc_connect_socket_check(h->socket), h->error);
	assert_int_equal(inc_connect_socket_wait(h->socket, 0), h->error);
	printf("# %s\n", story);
}

/* The peer's queue pair disappears, as if its process was killed. A side that only receives does
 * not notice that. A side that checks its peer does. */
void test_peer_is_gone(void **state)
{
	int side, i;

	sides_open(NULL);
	for (side = 0; side < SIDES; side++) {
		open_pair(held);
		for (i = 0; i < 5; i++)
			assert_int_equal(DONE(inc_connect_socket_check(held[side].socket)), 0);
		exchange(held);
		assert_int_equal(DONE(inc_connect_socket_flush(held[side].socket)), 0);
		let_go(&held[!side], 1);
		/* other connections on the same devices must work meanwhile */
		connect_and_close();
		assert_int_equal(held[side].error, 0);
		assert_int_equal(DONE(inc_connect_socket_check(held[side].socket)), 0);
		UNTIL(held[side].error);
		expect_failed(&held[side]);
		let_go(&held[side], 1);
	}
	sides_close();
}

/* ---- ports ---------------------------------------------------------------------------------- */

/* If a port comes up again soon, its going down has no effect. Otherwise the port's socket fails,
 * and the peer's socket fails when it checks its peer. */
void test_port_down_while_connected(void **state)
{
	uint64_t since_ns;
	int side;

	sides_open(NULL);
	for (side = 0; side < SIDES; side++) {
		open_pair(held);
		cable(side, false);
		cable(side, true);
		let_pass(2500); /* a time that exceeds the limit for a port that is down */
		assert_int_equal(held[CLIENT].error, 0);
		assert_int_equal(held[SERVICE].error, 0);
		exchange(held);

		since_ns = inc_now_ns();
		cable(side, false);
		UNTIL(held[side].error);
		printf("# %.1f s after the cable was pulled:\n", (inc_now_ns() - since_ns) / 1e9);
		expect_failed(&held[side]);
		assert_non_null(strstr(inc_connect_socket_error(held[side].socket), "port"));
		assert_int_equal(held[!side].error, 0);
		assert_int_equal(inc_connect_socket_check(held[!side].socket), 0);
		UNTIL(held[!side].error);
		expect_failed(&held[!side]);
		let_go(held, SIDES);
		cable(side, true);
	}
	connect_and_close();
	sides_close();
}

/* The client's port goes down after the service has answered, so the first message is lost. */
void test_port_down_while_connecting(void **state)
{
	const struct connect_sides_opts opts = {.accept_timeout_ms = 3000};
	const size_t answer = relay_open(&opts);
	int side;

	for (side = 0; side < SIDES; side++) {
		relay_reset();
		relay.limit[DOWN] = answer;
		open_begin(relay.address, 4000, &opened);
		UNTIL(figure(SERVICE, "inc_connect_accepting") == 1);
		cable(side, false);
		relay_release();
		UNTIL(opened.done);
		assert_true(opened.error);
		printf("# %s\n", opened.why);
		UNTIL(figure(SERVICE, "inc_connect_accepting") == 0);
		assert_int_equal(sides.n_accepted, 0);
		cable(side, true);
		relay_reset();
		resources_returned(&sides.before);
	}
	connect_and_close();
	sides_close();
}

/* The port goes down before the request, so it is not one of the client's ports. */
void test_port_down_before(void **state)
{
	sides_open(NULL);
	cable(CLIENT, false);
	open_fails(sides.address, 0, -ENODEV, "");
	cable(CLIENT, true);

	cable(SERVICE, false);
	query_address();
	assert_int_equal(queried.devices, 0);
	open_fails(sides.address, 0, -ENODEV, "");
	cable(SERVICE, true);
	connect_and_close();
	sides_close();
}
