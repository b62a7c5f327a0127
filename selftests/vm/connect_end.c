/* SPDX-License-Identifier: BSD-2-Clause */
/* The ends of connections: a close by one side or both, a peer that disappears, and a port that
 * goes down. */
#include <errno.h>
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

/* Opens both sides with enough buffers for SOME messages. */
static void open_for_some(struct connect_sides *s)
{
	struct inc_connect_settings settings;
	const struct connect_sides_opts opts = {.setting = &settings};

	test_settings(&settings);
	settings.buf_size = 100;
	settings.send_buf_cnt = 256;
	sides_open(s, &opts);
}

static void send_some(struct connect_sides *s, struct held *from, unsigned int seed)
{
	uint8_t data[100];
	unsigned int i;

	for (i = 0; i < SOME; i++) {
		fill(data, sizeof(data), seed + i);
		send_message(s, from, data, sizeof(data));
	}
}

static void expect_some(struct connect_sides *s, struct held *to, unsigned int seed)
{
	uint8_t data[100];
	unsigned int i;

	for (i = 0; i < SOME; i++) {
		fill(data, sizeof(data), seed + i);
		expect_message(s, to, data, sizeof(data));
	}
}

static void expect_shutdown(struct connect_sides *s, struct held *h)
{
	const void *got;
	size_t size;
	int ret;

	UNTIL(s, (ret = inc_connect_socket_receive(h->socket, &got, &size)) != -EAGAIN);
	assert_int_equal(ret, -ESHUTDOWN);
	assert_int_equal(inc_connect_socket_send(h->socket, "x", 1), -ESHUTDOWN);
	assert_int_equal(inc_connect_socket_progress(h->socket), -ESHUTDOWN);
}

/* One side closes. The other side reads all messages that were sent before, and then gets the
 * close. */
void test_one_closes(void **state)
{
	struct held held[SIDES];
	struct resources before;
	struct connect_sides s;
	int side, ret;

	open_for_some(&s);
	resources_now(&before);
	for (side = 0; side < SIDES; side++) {
		open_pair(&s, held);
		send_some(&s, &held[side], 1);
		UNTIL(&s, (ret = inc_connect_socket_close(held[side].socket)) != -EAGAIN);
		assert_int_equal(ret, 0);
		let_go(&held[side]);
		expect_some(&s, &held[!side], 1);
		expect_shutdown(&s, &held[!side]);
		let_go(&held[!side]);
	}
	resources_returned(&s, &before);
	sides_close(&s);
}

/* Checks that the messages that have arrived are in order. A side that got its peer's close must
 * have received all messages. */
static void expect_what_came(struct connect_sides *s, struct held *to, unsigned int seed)
{
	const void *got;
	uint8_t data[100];
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
	struct held held[SIDES];
	struct resources before;
	struct connect_sides s;
	int side, later, i, ret;

	open_for_some(&s);
	resources_now(&before);
	for (later = 0; later < 8; later++) {
		open_pair(&s, held);
		send_some(&s, &held[CLIENT], 1);
		send_some(&s, &held[SERVICE], 2);
		ret = inc_connect_socket_close(held[later % 2].socket);
		assert_true(ret == -EAGAIN || !ret);
		/* each turn of the loop handles one event or tick */
		for (i = 0; i < later / 2; i++)
			turn(&s, UINT64_MAX, "", __LINE__);
		for (side = 0; side < SIDES; side++) {
			UNTIL(&s, (ret = inc_connect_socket_close(held[side].socket)) != -EAGAIN);
			assert_int_equal(ret, 0);
		}
		expect_what_came(&s, &held[CLIENT], 2);
		expect_what_came(&s, &held[SERVICE], 1);
		let_go(&held[CLIENT]);
		let_go(&held[SERVICE]);
	}
	resources_returned(&s, &before);
	sides_close(&s);
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
	struct held held[SIDES], others[SIDES];
	struct resources before;
	struct connect_sides s;
	int side, i, ret;

	sides_open(&s, NULL);
	resources_now(&before);
	for (side = 0; side < SIDES; side++) {
		open_pair(&s, held);
		for (i = 0; i < 5; i++) {
			UNTIL(&s, (ret = inc_connect_socket_check(held[side].socket)) != -EAGAIN);
			assert_int_equal(ret, 0);
		}
		exchange(&s, held);
		UNTIL(&s, (ret = inc_connect_socket_flush(held[side].socket)) != -EAGAIN);
		assert_int_equal(ret, 0);
		let_go(&held[!side]);
		/* other connections on the same devices must work meanwhile */
		open_pair(&s, others);
		exchange(&s, others);
		close_pair(&s, others);
		assert_int_equal(held[side].error, 0);
		UNTIL(&s, (ret = inc_connect_socket_check(held[side].socket)) != -EAGAIN);
		assert_int_equal(ret, 0);
		UNTIL(&s, held[side].error);
		expect_failed(&held[side]);
		let_go(&held[side]);
	}
	resources_returned(&s, &before);
	sides_close(&s);
}

/* ---- ports ---------------------------------------------------------------------------------- */

/* If a port comes up again soon, its going down has no effect. Otherwise the port's socket fails,
 * and the peer's socket fails when it checks its peer. */
void test_port_down_while_connected(void **state)
{
	struct held held[SIDES];
	struct resources before;
	struct connect_sides s;
	uint64_t since_ns;
	int side, ret;

	sides_open(&s, NULL);
	resources_now(&before);
	for (side = 0; side < SIDES; side++) {
		open_pair(&s, held);
		cable_known(&s, side, false);
		cable_known(&s, side, true);
		let_pass(&s, 2500); /* a time that exceeds the limit for a port that is down */
		assert_int_equal(held[CLIENT].error, 0);
		assert_int_equal(held[SERVICE].error, 0);
		exchange(&s, held);

		since_ns = inc_now_ns();
		cable_known(&s, side, false);
		UNTIL(&s, held[side].error);
		printf("# %.1f s after the cable was pulled:\n", (inc_now_ns() - since_ns) / 1e9);
		expect_failed(&held[side]);
		assert_non_null(strstr(inc_connect_socket_error(held[side].socket), "port"));
		assert_int_equal(held[!side].error, 0);
		ret = inc_connect_socket_check(held[!side].socket);
		assert_int_equal(ret, 0);
		UNTIL(&s, held[!side].error);
		expect_failed(&held[!side]);
		let_go(&held[CLIENT]);
		let_go(&held[SERVICE]);
		cable_known(&s, side, true);
	}
	resources_returned(&s, &before);
	open_pair(&s, held);
	close_pair(&s, held);
	sides_close(&s);
}

/* The client's port goes down after the service has answered, so the first message is lost. */
void test_port_down_while_connecting(void **state)
{
	const struct connect_sides_opts opts = {.accept_timeout_ms = 3000};
	struct held held[SIDES];
	struct outcome out;
	struct resources before;
	struct connect_sides s;
	struct relay r;
	size_t answer;
	int side;

	sides_open(&s, &opts);
	relay_open(&r, &s);
	resources_now(&before);
	answer = relay_learn(&r);
	for (side = 0; side < SIDES; side++) {
		relay_reset(&r);
		r.limit[DOWN] = answer;
		open_begin(&s, r.address, 4000, &out);
		UNTIL(&s, figure(&s, SERVICE, "inc_connect_accepting") == 1);
		cable_known(&s, side, false);
		relay_release(&r);
		UNTIL(&s, out.done);
		assert_true(out.error);
		printf("# %s\n", out.why);
		UNTIL(&s, figure(&s, SERVICE, "inc_connect_accepting") == 0);
		assert_int_equal(s.n_accepted, 0);
		cable_known(&s, side, true);
		relay_reset(&r);
		resources_returned(&s, &before);
	}
	open_pair(&s, held);
	close_pair(&s, held);
	relay_close(&r);
	sides_close(&s);
}

/* The port goes down before the request, so it is not one of the client's ports. */
void test_port_down_before(void **state)
{
	struct held held[SIDES];
	struct outcome out;
	struct connect_sides s;

	sides_open(&s, NULL);
	cable_known(&s, CLIENT, false);
	open_address(&s, s.address, 0, &out);
	assert_int_equal(out.error, -ENODEV);
	printf("# %s\n", out.why);
	cable_known(&s, CLIENT, true);

	cable_known(&s, SERVICE, false);
	query_address(&s, s.address, &out);
	assert_int_equal(out.error, 0);
	assert_int_equal(out.devices, 0);
	open_address(&s, s.address, 0, &out);
	assert_int_equal(out.error, -ENODEV);
	printf("# %s\n", out.why);
	cable_known(&s, SERVICE, true);
	open_pair(&s, held);
	exchange(&s, held);
	close_pair(&s, held);
	sides_close(&s);
}
