/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connection service's socket (hostlib/connect/socket.h) on rxe. The cases are those of
 * test_socket in which a real device matters. Two sockets on two devices are in one process.
 * Arguments: as for rdma_live.
 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/connect/figures.h"
#include "hostlib/connect/select.h"
#include "hostlib/connect/socket.h"
#include "lib/base/clock.h"
#include "selftests/belongings.h"
#include "selftests/vm/rdma_ends.h"

#define DEADLINE_S 60
#define AREA       200000 /* bytes of a side's region; the peer writes into the second half */

static struct inc_rdma_inventory *inventory;
static struct connect_counters *counters;
static struct inc_connect_settings settings;

struct socket_side {
	struct inc_connect_socket *socket;
	struct inc_connect_region *region;
	uint8_t memory[AREA];
	uint32_t sent, taken;
	int error; /* the error that progress() has returned */
};
static struct socket_side sides[ENDS];

/* ---- the two sockets ------------------------------------------------------------------------ */

static void make(int i)
{
	const struct inc_rdma_list *list = inc_rdma_inventory_get(inventory);
	const struct inc_rdma_device_info *info = described(list, ends[i].device);
	struct connect_socket_opts opts = {
		.device = inc_rdma_inventory_device(inventory, info->index, info->name),
		.dev = info->index,
		.port = &info->port[0],
		.settings = &settings,
		.hostname = "here",
		.counters = counters,
	};
	struct inc_err err = {""};

	assert_non_null(opts.device);
	if (connect_socket_make(&opts, &sides[i].socket, &err))
		fail_msg("%s", err.msg);
	inc_rdma_device_put(opts.device);
	inc_rdma_list_put(list);
}

/* Waits for an event of either socket or of the devices. Fails after the deadline. */
static void wait_a_moment(uint64_t by_ns, const char *what)
{
	struct pollfd pfd[ENDS + 1] = {{.fd = inc_rdma_inventory_fd(inventory), .events = POLLIN}};
	int i;

	if (inc_now_ns() >= by_ns)
		fail_msg("%s: not within %d s", what, DEADLINE_S);
	for (i = 0; i < ENDS; i++)
		pfd[1 + i] = (struct pollfd){.fd = sides[i].socket && !sides[i].error
							   ? inc_connect_socket_fd(sides[i].socket)
							   : -1,
					     .events = POLLIN};
	poll(pfd, ENDS + 1, DEADLINE_S * 1000);
	inc_rdma_inventory_take(inventory);
}

static void expect_event(int i, enum connect_event wanted)
{
	const uint64_t by_ns = inc_now_ns() + DEADLINE_S * INC_NSEC_PER_SEC;
	enum connect_event event = CONNECT_N_EVENTS;
	struct inc_err err = {""};
	int ret;

	while (!(ret = connect_socket_event(sides[i].socket, &event, &err)))
		wait_a_moment(by_ns, connect_event_text(wanted));
	if (ret < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(event, wanted);
}

#define FINE(call)                               \
	do {                                     \
		struct inc_err err = {""};       \
		if (call)                        \
			fail_msg("%s", err.msg); \
	} while (0)

static int to_rtr(int i, const struct connect_info *peer, struct inc_err *err)
{
	struct inc_connect_socket *s = sides[i].socket;
	int ret = connect_socket_aim(s, peer, err);

	return ret ?: connect_socket_entered_rtr(s, connect_socket_enter_rtr(s), err);
}

static void connected(void)
{
	struct connect_info info[ENDS];
	int i;

	for (i = 0; i < ENDS; i++) {
		make(i);
		connect_socket_describe(sides[i].socket, &info[i]);
	}
	FINE(to_rtr(1, &info[0], &err));
	FINE(connect_socket_post_receives(sides[1].socket, &err));
	FINE(to_rtr(0, &info[1], &err));
	FINE(connect_socket_post_receives(sides[0].socket, &err));
	FINE(connect_socket_to_rts(sides[0].socket, &err));
	FINE(connect_socket_probe(sides[0].socket, &err));
	expect_event(1, CONNECT_EVENT_MESSAGE);
	FINE(connect_socket_to_rts(sides[1].socket, &err));
	connect_socket_hand_over(sides[1].socket, CONNECT_READY, 0);
	expect_event(0, CONNECT_EVENT_PROBED);
	connect_socket_hand_over(sides[0].socket, CONNECT_READY, 0);
}

static void registered(void)
{
	int i;

	for (i = 0; i < ENDS; i++)
		assert_int_equal(inc_connect_socket_register(sides[i].socket, sides[i].memory, AREA,
							     true, &sides[i].region),
				 0);
}

static void progress(int i)
{
	int ret = 1;

	while (sides[i].socket && !sides[i].error && ret) {
		ret = inc_connect_socket_progress(sides[i].socket);
		sides[i].error = ret < 0 ? ret : 0;
	}
}

#define UNTIL(condition)                                                                      \
	for (uint64_t by_ns_ = inc_now_ns() + DEADLINE_S * INC_NSEC_PER_SEC; !(condition);) { \
		progress(0);                                                                  \
		progress(1);                                                                  \
		if (!(condition))                                                             \
			wait_a_moment(by_ns_, #condition);                                    \
	}

static void destroy(int i)
{
	inc_connect_region_release(sides[i].region);
	inc_connect_socket_destroy(sides[i].socket);
	memset(&sides[i], 0, sizeof(sides[i]));
}

static unsigned int descriptors;

/* An emulated machine is slow, so ACK timeouts are long unless a test needs short ones. */
static int setup(void **state)
{
	inc_connect_settings_init(&settings, sizeof(settings));
	settings.buf_size = 4096;
	settings.timeout = 17;
	settings.start_psn = 0xfffff0; /* PSNs wrap during the test */
	descriptors = open_descriptors();
	return 0;
}

static int teardown(void **state)
{
	destroy(0);
	destroy(1);
	return open_descriptors() != descriptors ||
	       connect_counters_figures(counters)->registered_bytes ||
	       connect_counters_figures(counters)->connections;
}

/* ---- messages ------------------------------------------------------------------------------- */

#define MESSAGES 2000

static uint32_t message(int i, uint32_t n, uint8_t bytes[4096])
{
	static const uint32_t sizes[] = {1, 2048, 64, 2049, 4096, 3};
	const uint32_t size = sizes[(n + i) % 6];
	uint32_t k;

	for (k = 0; k < size; k++)
		bytes[k] = n + k * 3 + i * 99;
	return size;
}

/* Sends as many messages as the socket has credits for. */
static void send_some(int i, uint32_t up_to)
{
	uint8_t bytes[4096];
	uint32_t size;
	int ret = 0;

	while (sides[i].sent < up_to && !ret) {
		size = message(i, sides[i].sent, bytes);
		ret = inc_connect_socket_send(sides[i].socket, bytes, size);
		sides[i].sent += !ret;
	}
	assert_true(!ret || ret == -EAGAIN);
}

static int take_some(int i)
{
	uint8_t wanted[4096];
	uint32_t wanted_size;
	const void *data;
	size_t size;
	int ret;

	while (!(ret = inc_connect_socket_receive(sides[i].socket, &data, &size))) {
		wanted_size = message(!i, sides[i].taken++, wanted);
		assert_int_equal(size, wanted_size);
		assert_memory_equal(data, wanted, size);
		assert_int_equal(inc_connect_socket_release(sides[i].socket), 0);
	}
	return ret;
}

/* Makes progress on both sockets. Returns true when all messages have arrived. */
static bool exchanged(uint32_t n)
{
	int i;

	for (i = 0; i < ENDS; i++) {
		send_some(i, n);
		take_some(i);
	}
	return sides[0].taken == n && sides[1].taken == n;
}

static uint64_t given_back(int i)
{
	struct inc_connect_socket_info info = {.sz = sizeof(info)};

	assert_int_equal(inc_connect_socket_info(sides[i].socket, &info), 0);
	return info.credits_received;
}

static void messages(uint32_t buffers, uint32_t acks, uint32_t signals)
{
	struct inc_connect_socket_info info = {.sz = sizeof(info)};
	int i;

	settings.send_buf_cnt = buffers;
	settings.buf_ack_batch = acks;
	settings.buf_signal_batch = signals;
	settings.event_ack_batch = 5;
	connected();
	UNTIL(exchanged(MESSAGES));
	for (i = 0; i < ENDS; i++) {
		assert_int_equal(sides[i].error, 0);
		UNTIL(!inc_connect_socket_flush(sides[i].socket));
		assert_int_equal(inc_connect_socket_info(sides[i].socket, &info), 0);
		assert_int_equal(info.messages_sent, MESSAGES);
		assert_int_equal(info.messages_received, MESSAGES);
		UNTIL(given_back(i) + acks > MESSAGES);
		assert_int_equal(info.mtu_bytes, 2048);
	}
	destroy(0);
	destroy(1);
}

static void test_messages(void **state)
{
	messages(32, 8, 8);
	messages(7, 3, 5);
	messages(1, 1, 1);
}

/* If a receiver releases no messages, the sender must wait, and neither socket may fail. */
static void test_credits(void **state)
{
	connected();
	send_some(0, 100);
	assert_int_equal(sides[0].sent, settings.send_buf_cnt);
	UNTIL(!inc_connect_socket_flush(sides[0].socket));
	assert_int_equal(inc_connect_socket_send(sides[0].socket, "x", 1), -EAGAIN);
	UNTIL(exchanged(100));
	assert_int_equal(sides[0].error | sides[1].error, 0);
}

/* ---- transfers ------------------------------------------------------------------------------ */

#define BATCH 32
#define EACH  3100 /* the data of several packets */

static void transfer(int i, enum inc_connect_direction direction)
{
	struct inc_connect_transfer t[BATCH];
	uint64_t ticket;
	uint32_t k;

	for (k = 0; k < BATCH; k++)
		t[k] = (struct inc_connect_transfer){
			.region = sides[i].region,
			.local = sides[i].memory + k * EACH,
			.size = EACH,
			.remote_key = inc_connect_region_key(sides[!i].region),
			.remote_address =
				inc_connect_region_address(sides[!i].region) + AREA / 2 + k * EACH,
		};
	assert_int_equal(inc_connect_socket_transfer(sides[i].socket, direction, t, BATCH, &ticket),
			 0);
	UNTIL(!inc_connect_socket_transferred(sides[i].socket, ticket));
	assert_memory_equal(sides[i].memory, sides[!i].memory + AREA / 2, BATCH * EACH);
}

static void fill(uint8_t *bytes, unsigned int seed)
{
	uint32_t k;

	for (k = 0; k < AREA; k++)
		bytes[k] = rand_r(&seed) >> 8;
}

static void test_transfers(void **state)
{
	struct inc_connect_socket_info info = {.sz = sizeof(info)};
	bool again;
	int i;

	connected();
	registered();
	for (i = 0; i < ENDS; i++) {
		fill(sides[0].memory, 1 + i);
		fill(sides[1].memory, 3 + i);
		transfer(i, INC_CONNECT_WRITE);
		fill(sides[0].memory, 5 + i);
		fill(sides[1].memory, 7 + i);
		transfer(i, INC_CONNECT_READ);
		assert_int_equal(inc_connect_socket_check(sides[i].socket), 0);
		again = false; /* each answer makes the socket check its peer again */
		UNTIL(again || (again = !inc_connect_socket_check(sides[i].socket)));
		assert_int_equal(inc_connect_socket_info(sides[i].socket, &info), 0);
		assert_int_equal(info.bytes_written, BATCH * EACH);
		assert_int_equal(info.bytes_read, BATCH * EACH);
	}
	assert_int_equal(sides[0].error | sides[1].error, 0);
}

static void test_what_a_peer_may_not(void **state)
{
	struct inc_connect_transfer t;
	uint64_t ticket;

	connected();
	registered();
	t = (struct inc_connect_transfer){
		.region = sides[0].region,
		.local = sides[0].memory,
		.size = 2,
		.remote_key = inc_connect_region_key(sides[1].region),
		.remote_address = inc_connect_region_address(sides[1].region) + AREA - 1,
	};
	assert_int_equal(
		inc_connect_socket_transfer(sides[0].socket, INC_CONNECT_WRITE, &t, 1, &ticket), 0);
	UNTIL(sides[0].error);
	assert_int_equal(sides[0].error, -EACCES);
	assert_int_equal(inc_connect_socket_transferred(sides[0].socket, ticket), -EACCES);
}

/* ---- ends ----------------------------------------------------------------------------------- */

static void test_close(void **state)
{
	connected();
	send_some(0, 20);
	assert_int_equal(inc_connect_socket_close(sides[0].socket), -EAGAIN);
	UNTIL(sides[0].error && sides[1].error);
	assert_int_equal(sides[0].error, -ESHUTDOWN);
	assert_int_equal(sides[1].error, -ESHUTDOWN);
	assert_int_equal(inc_connect_socket_close(sides[0].socket), 0);
	assert_int_equal(take_some(1), -ESHUTDOWN);
	assert_int_equal(sides[1].taken, 20);
}

static void test_both_close(void **state)
{
	int n;

	for (n = 0; n < 20; n++) {
		connected();
		send_some(0, n);
		send_some(1, n);
		assert_int_equal(inc_connect_socket_close(sides[0].socket), -EAGAIN);
		assert_int_equal(inc_connect_socket_close(sides[1].socket), -EAGAIN);
		UNTIL(sides[0].error && sides[1].error);
		assert_int_equal(inc_connect_socket_close(sides[0].socket), 0);
		assert_int_equal(inc_connect_socket_close(sides[1].socket), 0);
		destroy(0);
		destroy(1);
	}
}

/* The peer's queue pair disappears without a close. Messages to it must fail. */
static void test_gone(void **state)
{
	settings.timeout = 14;
	settings.retry_cnt = 2;
	connected();
	destroy(1);
	assert_int_equal(inc_connect_socket_check(sides[0].socket), 0);
	UNTIL(sides[0].error);
	assert_int_equal(sides[0].error, -ETIMEDOUT);
}

/* Unplugs the cable of an end, or plugs it in. The address and routes of the end remain. One
 * command makes both changes, because on a slow machine two commands could be far apart. */
static void at_cable(int i, const char *first, const char *then)
{
	const char *port = ends[i].ifname + 1;

	shell("printf 'link set p%s %s\\nlink set p%s %s\\n' | ip -n sw -batch -", port, first,
	      port, then);
}

/* The port goes down for a moment, which messages survive. Then it goes down for longer than the
 * limit. */
static void test_port_down(void **state)
{
	uint64_t start_ns;

	connected();
	at_cable(0, "down", "up");
	UNTIL(exchanged(50));
	assert_int_equal(sides[0].error | sides[1].error, 0);
	start_ns = inc_now_ns();
	at_cable(0, "down", "down");
	UNTIL(sides[0].error);
	at_cable(0, "up", "up");
	assert_int_equal(sides[0].error, -ENETDOWN);
	assert_true(inc_now_ns() - start_ns >= 2 * INC_NSEC_PER_SEC);
	assert_int_equal(sides[1].error, 0);
}

static int open_devices(void **state)
{
	counters = connect_counters_new();
	assert_non_null(counters);
	inventory = open_all();
	return 0;
}

static int close_devices(void **state)
{
	inc_rdma_inventory_close(inventory);
	connect_counters_release(counters);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_messages, setup, teardown),
		cmocka_unit_test_setup_teardown(test_credits, setup, teardown),
		cmocka_unit_test_setup_teardown(test_transfers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_what_a_peer_may_not, setup, teardown),
		cmocka_unit_test_setup_teardown(test_close, setup, teardown),
		cmocka_unit_test_setup_teardown(test_both_close, setup, teardown),
		cmocka_unit_test_setup_teardown(test_gone, setup, teardown),
		cmocka_unit_test_setup_teardown(test_port_down, setup, teardown),
	};

	if (!read_ends(argc, argv, "connect_socket"))
		return 2;
	return cmocka_run_group_tests_name("socket", tests, open_devices, close_devices) ? 1 : 0;
}
