/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* The socket (hostlib/connect/socket.h, and its promises in inc_connect.h), with its operations in
 * random orders. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include "selftests/connect/harness_socket_sides.h"

static void both_are_connected(void **state)
{
	struct inc_connect_socket_info info = {.sz = sizeof(info)};
	struct connect_info own;

	connected();
	assert_int_equal(connect_counters_figures(counters)->connections, 2);
	assert_true(connect_counters_figures(counters)->registered_bytes > 0);
	connect_socket_describe(sides[CLIENT].socket, &own);
	assert_int_equal(inc_connect_socket_info(sides[SERVICE].socket, &info), 0);
	assert_string_equal(info.peer, "client");
	assert_string_equal(info.local_name, "fake1");
	assert_string_equal(info.remote_name, "fake0");
	assert_true(info.local_port == 1 && info.remote_port == 1 && info.link_layer == 2 &&
		    info.mtu_bytes == 1024 && info.latency_ns == 2);
	assert_int_equal(info.remote_qpn, own.qp_num);
	assert_int_equal(info.settings->send_buf_cnt, 8);
	assert_int_equal(inc_connect_socket_progress(sides[CLIENT].socket), 0);
	assert_int_equal(inc_connect_socket_progress(sides[SERVICE].socket), 0);
	assert_false(readable(CLIENT, 0) || readable(SERVICE, 0));
	assert_null(inc_connect_socket_error(sides[CLIENT].socket));
	nothing_is_left();
}

static void info_of_any_size(void **state)
{
	struct {
		struct inc_connect_socket_info info;
		uint8_t more[16];
	} out;

	connected();
	memset(&out, 0xff, sizeof(out));
	out.info.sz = sizeof(out);
	assert_int_equal(inc_connect_socket_info(sides[CLIENT].socket, &out.info), 0);
	assert_int_equal(out.info.sz, sizeof(out));
	assert_int_equal(out.more[0] | out.more[15], 0);
	memset(&out, 0xff, sizeof(out));
	out.info.sz = offsetof(struct inc_connect_socket_info, local_name);
	assert_int_equal(inc_connect_socket_info(sides[CLIENT].socket, &out.info), 0);
	assert_string_equal(out.info.peer, "service");
	assert_int_equal((uint8_t)out.info.local_name[0], 0xff);
	/* settings is the last member, so growing settings move no other member */
	assert_int_equal(offsetof(struct inc_connect_socket_info, settings) + sizeof(void *),
			 sizeof(struct inc_connect_socket_info));
	out.info.sz = sizeof(out.info);
	assert_int_equal(inc_connect_socket_info(sides[CLIENT].socket, &out.info), 0);
	assert_int_equal(out.info.settings->sz, sizeof(struct inc_connect_settings));
	out.info.sz = 1;
	assert_int_equal(inc_connect_socket_info(sides[CLIENT].socket, &out.info), -EINVAL);
	nothing_is_left();
}

static void any_order_of_work(void **state)
{
	unsigned int seed, random;
	size_t k;
	int i;

	for (k = 0; k < N_SIZES; k++)
		for (seed = 1; seed <= 16; seed++) {
			random = seed;
			set_sizes_of_kind(k);
			fake_verbs_notify_late(seed % 2);
			connected();
			registered();
			walk(&random, 3000);
			settle();
			for (i = 0; i < SIDES; i++) {
				assert_null(inc_connect_socket_error(sides[i].socket));
				assert_int_equal(sides[i].taken, sides[!i].sent);
				assert_true(sides[i].taken > 0);
				assert_int_equal(sides[i].ticket, 0);
			}
			while (inc_connect_socket_flush(sides[CLIENT].socket))
				settle();
			nothing_is_left();
		}
}

static void figures_are_counted(void **state)
{
	const struct connect_figures before = *connect_counters_figures(counters);
	const struct connect_figures *after = connect_counters_figures(counters);
	struct inc_connect_socket_info info = {.sz = sizeof(info)};
	uint8_t bytes[256];
	uint64_t sent = 0;
	uint32_t n;

	connected();
	registered();
	for (n = 0; n < 4; n++) {
		sent += message_of(CLIENT, n, bytes);
		assert_int_equal(send_one(CLIENT), 0);
	}
	begin_transfer(CLIENT, 0x100);
	settle();
	begin_transfer(CLIENT, 0x001);
	settle();
	assert_int_equal(inc_connect_socket_info(sides[CLIENT].socket, &info), 0);
	assert_int_equal(info.messages_sent, 4);
	assert_int_equal(info.bytes_sent, sent);
	assert_int_equal(info.credits_received, 4);
	assert_int_equal(info.bytes_read, AREA);
	assert_int_equal(info.bytes_written, AREA);
	assert_int_equal(inc_connect_socket_info(sides[SERVICE].socket, &info), 0);
	assert_int_equal(info.messages_received, 4);
	assert_int_equal(info.bytes_received, sent);
	assert_int_equal(info.credits_sent, 4);
	assert_int_equal(after->sent_bytes - before.sent_bytes, sent);
	assert_int_equal(after->received_bytes - before.received_bytes, sent);
	assert_int_equal(after->read_bytes - before.read_bytes, AREA);
	assert_int_equal(after->written_bytes - before.written_bytes, AREA);
	nothing_is_left();
}

static void the_ports_limit_of_a_message(void **state)
{
	struct inc_connect_socket_info info = {.sz = sizeof(info)};
	struct inc_err err = {""};

	settings.buf_size = FAKE_VERBS_MAX_MESSAGE_BYTES;
	connected();
	assert_int_equal(inc_connect_socket_info(sides[CLIENT].socket, &info), 0);
	assert_int_equal(info.max_transfer_bytes, FAKE_VERBS_MAX_MESSAGE_BYTES);
	nothing_is_left();
	settings.buf_size = FAKE_VERBS_MAX_MESSAGE_BYTES + 1;
	assert_int_equal(begin_pair(&err), -EINVAL);
	assert_string_equal(err.msg, "fake0/1: buf_size: 3001, the port can do 3000");
	nothing_is_left();
}

/* Requests that exceed a socket's limits are rejected, or have to wait. */
static void limits(void **state)
{
	struct inc_connect_socket *s;
	struct inc_connect_transfer t[9] = {{.size = 1}};
	struct inc_connect_region *none;
	uint8_t bytes[300] = {0};
	uint64_t ticket;
	int i;

	connected();
	registered();
	s = sides[CLIENT].socket;
	assert_int_equal(inc_connect_socket_send(s, bytes, 0), -EMSGSIZE);
	assert_int_equal(inc_connect_socket_send(s, bytes, 257), -EMSGSIZE);
	assert_int_equal(inc_connect_socket_release(s), -EINVAL);
	assert_int_equal(take_one(CLIENT), -EAGAIN);
	for (i = 0; i < 8; i++)
		assert_int_equal(send_one(CLIENT), 0);
	assert_int_equal(send_one(CLIENT), -EAGAIN);
	assert_int_equal(inc_connect_socket_flush(s), -EAGAIN);
	assert_int_equal(inc_connect_socket_register(s, bytes, 0, true, &none), -EINVAL);
	for (i = 0; i < 9; i++)
		t[i] = (struct inc_connect_transfer){
			.region = sides[CLIENT].region,
			.local = sides[CLIENT].memory,
			.size = 1,
			.remote_key = inc_connect_region_key(sides[SERVICE].region),
			.remote_address = inc_connect_region_address(sides[SERVICE].region)};
	assert_int_equal(inc_connect_socket_transfer(s, INC_CONNECT_READ, t, 0, &ticket), -EINVAL);
	assert_int_equal(inc_connect_socket_transfer(s, INC_CONNECT_READ, t, 9, &ticket), -EINVAL);
	t[0].size = 0;
	assert_int_equal(inc_connect_socket_transfer(s, INC_CONNECT_READ, t, 1, &ticket), -EINVAL);
	t[0].size = sizeof(sides[CLIENT].memory) + 1;
	assert_int_equal(inc_connect_socket_transfer(s, INC_CONNECT_READ, t, 1, &ticket), -EINVAL);
	t[0].size = 2;
	t[0].local = sides[CLIENT].memory[PARTS] - 1;
	assert_int_equal(inc_connect_socket_transfer(s, INC_CONNECT_READ, t, 1, &ticket), -EINVAL);
	t[0].local = (uint8_t *)sides[CLIENT].memory - 1;
	assert_int_equal(inc_connect_socket_transfer(s, INC_CONNECT_READ, t, 1, &ticket), -EINVAL);
	t[0].local = sides[CLIENT].memory;
	t[0].size = FAKE_VERBS_MAX_MESSAGE_BYTES + 1;
	assert_int_equal(inc_connect_socket_transfer(s, INC_CONNECT_READ, t, 1, &ticket),
			 -EMSGSIZE);
	t[0].local = sides[SERVICE].memory;
	t[0].region = sides[SERVICE].region;
	assert_int_equal(inc_connect_socket_transfer(s, INC_CONNECT_READ, t, 1, &ticket), -EINVAL);
	assert_int_equal(inc_connect_socket_check(s), 0);
	assert_int_equal(inc_connect_socket_check(s), -EAGAIN);
	assert_int_equal(inc_connect_socket_transfer(s, INC_CONNECT_READ, t + 1, 8, &ticket),
			 -EAGAIN);
	settle();
	assert_int_equal(inc_connect_socket_transfer(s, INC_CONNECT_READ, t + 1, 8, &ticket), 0);
	assert_int_equal(inc_connect_socket_check(s), -EAGAIN);
	settle();
	assert_int_equal(inc_connect_socket_check(s), 0);
	assert_null(inc_connect_socket_error(s));
	nothing_is_left();
}

/* Messages that arrive before the socket is handed over belong to its owner. progress() reports
 * them once. */
static void messages_before_the_hand_over(void **state)
{
	struct inc_err err = {""};

	assert_int_equal(begin_pair(&err), 0);
	fake_verbs_settle(qp_of(CLIENT));
	service_is_ready();
	assert_int_equal(send_one(SERVICE), 0);
	assert_int_equal(send_one(SERVICE), 0);
	fake_verbs_settle(qp_of(SERVICE));
	expect_event(CLIENT, CONNECT_EVENT_MESSAGE);
	expect_event(CLIENT, CONNECT_EVENT_PROBED);
	expect_no_event(CLIENT);
	connect_socket_hand_over(sides[CLIENT].socket, CONNECT_READY, 1);
	assert_int_equal(inc_connect_socket_progress(sides[CLIENT].socket), 2);
	assert_int_equal(inc_connect_socket_progress(sides[CLIENT].socket), 0);
	assert_int_equal(take_one(CLIENT), 0);
	assert_int_equal(take_one(CLIENT), 0);
	assert_int_equal(take_one(CLIENT), -EAGAIN);
	nothing_is_left();
}

/* The peer sends two messages and closes before this side polls its first completion. */
static void a_close_before_the_hand_over(void **state)
{
	struct inc_err err = {""};

	assert_int_equal(begin_pair(&err), 0);
	fake_verbs_execute(qp_of(CLIENT));
	service_is_ready();
	assert_int_equal(send_one(SERVICE), 0);
	assert_int_equal(send_one(SERVICE), 0);
	assert_int_equal(inc_connect_socket_close(sides[SERVICE].socket), -EAGAIN);
	fake_verbs_settle(qp_of(SERVICE));
	expect_event(CLIENT, CONNECT_EVENT_MESSAGE);
	expect_event(CLIENT, CONNECT_EVENT_PEER_CLOSED);
	expect_no_event(CLIENT);
	connect_socket_stop(sides[CLIENT].socket);
	connect_socket_hand_over(sides[CLIENT].socket, CONNECT_CLOSED, 1);
	assert_int_equal(take_one(CLIENT), 0);
	assert_int_equal(take_one(CLIENT), 0);
	assert_int_equal(take_one(CLIENT), -ESHUTDOWN);
	check_over(CLIENT);
	assert_int_equal(inc_connect_socket_close(sides[CLIENT].socket), 0);
	nothing_is_left();
}

/* The peer's last message and the end of its queue pair are polled together. The socket must report
 * a close and no failure. */
static void a_close_and_a_failure_at_once(void **state)
{
	connected();
	assert_int_equal(send_one(SERVICE), 0);
	assert_int_equal(inc_connect_socket_close(sides[SERVICE].socket), -EAGAIN);
	assert_int_equal(send_one(CLIENT), 0);
	while (fake_verbs_execute(qp_of(SERVICE)))
		;
	fake_verbs_give_up(qp_of(CLIENT), IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(inc_connect_socket_progress(sides[CLIENT].socket), -ESHUTDOWN);
	assert_int_equal(take_one(CLIENT), 0);
	assert_int_equal(take_one(CLIENT), -ESHUTDOWN);
	check_over(CLIENT);
	nothing_is_left();
}

static void one_comes(void)
{
	assert_int_equal(send_one(SERVICE), 0);
	fake_verbs_execute(qp_of(SERVICE));
}

/* A message arrives between the last poll and the request for a notification, so no event reports
 * the message. */
static void a_message_before_it_is_asked_for(void **state)
{
	connected();
	assert_int_equal(inc_connect_socket_progress(sides[CLIENT].socket), 0);
	one_comes();
	assert_int_equal(inc_connect_socket_progress(sides[CLIENT].socket), 1);
	fake_verbs_before_arming(one_comes);
	assert_int_equal(inc_connect_socket_progress(sides[CLIENT].socket), 1);
	assert_int_equal(take_one(CLIENT), 0);
	assert_int_equal(take_one(CLIENT), 0);
	nothing_is_left();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(both_are_connected, reset_fakes),
		cmocka_unit_test_setup(info_of_any_size, reset_fakes),
		cmocka_unit_test_setup(figures_are_counted, reset_fakes),
		cmocka_unit_test_setup(the_ports_limit_of_a_message, reset_fakes),
		cmocka_unit_test_setup(limits, reset_fakes),
		cmocka_unit_test_setup(messages_before_the_hand_over, reset_fakes),
		cmocka_unit_test_setup(a_close_before_the_hand_over, reset_fakes),
		cmocka_unit_test_setup(a_close_and_a_failure_at_once, reset_fakes),
		cmocka_unit_test_setup(a_message_before_it_is_asked_for, reset_fakes),
		cmocka_unit_test_setup(any_order_of_work, reset_fakes),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("socket", tests, open_fakes, close_fakes);
}
