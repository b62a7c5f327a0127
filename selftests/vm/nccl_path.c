/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A path of the NCCL plugin (hostlib/nccl/path.h) between two rxe devices, in one process. The
 * sender is on the first device. Arguments: for each of the two devices its name, interface and
 * address; then optionally the name of one test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include "selftests/nccl/harness_two_paths.h"
#include "selftests/vm/rdma_ends.h"

#define DEADLINE_S 60

static struct two_paths two;

/* Makes a path whose devices fail a request after about half a second. Until then they retransmit
 * lost packets. */
static void begin(uint32_t epoch)
{
	make_two(&two, 0, 1, epoch);
	memset(target, 0, sizeof(target));
}

static int end(void **state)
{
	destroy_two(&two);
	return 0;
}

static void expect_error(int side, uint32_t index)
{
	const struct ha_path_event event = next_event(two.path[side]);

	assert_int_equal(event.kind, HA_PATH_COMPLETED);
	assert_int_equal(event.wr_id, ha_wr_id(two.path[side]->epoch, index));
	assert_false(event.ok);
	assert_false(event.flushed);
	print_message("# %s\n", event.why);
}

static void test_payloads(void **state)
{
	uint32_t i, bytes;

	begin(0);
	for (i = 0; i < 1000; i++) {
		bytes = i * 37 % (PAYLOAD_BYTES + 1);
		memset(source, i, sizeof(source));
		assert_int_equal(write_payload(&two, i % 32, bytes, i), 0);
		expect_landed(&two, i, bytes);
		assert_memory_equal(target, source, bytes);
		expect_written(&two, i % 32);
	}
}

static void test_descriptions_and_probe(void **state)
{
	const struct ha_path_event none = {0};
	struct ha_path_event event = none;
	struct ha_slot slot = {.rkey = 3, .bytes = 4, .tag = 5, .epoch = 1, .slots = 1}, seen;
	uint32_t i;

	begin(1);
	for (i = 0; i < 2 * HA_SLOTS; i++) {
		slot.sequence = i;
		slot.address = (uint64_t)i << 33;
		assert_int_equal(
			ha_path_describe(two.path[RECEIVER], ha_wr_id(1, i % HA_SLOTS), &slot), 0);
		event = next_event(two.path[RECEIVER]);
		assert_true(event.kind == HA_PATH_COMPLETED && event.ok);
		assert_int_equal(ha_slot_read(&ring[i % HA_SLOTS], i, 1, &seen, NULL), 1);
		assert_int_equal(seen.address, slot.address);
	}
	for (i = 0; i < N_ENDS; i++) {
		assert_int_equal(ha_path_probe(two.path[i], ha_wr_id(1, HA_WR_PROBE)), 0);
		event = next_event(two.path[i]);
		assert_true(event.kind == HA_PATH_COMPLETED && event.ok);
		assert_int_equal(event.wr_id, ha_wr_id(1, HA_WR_PROBE));
	}
}

static void test_msgs(void **state)
{
	uint8_t msg[HA_MSG_BYTES];
	struct ha_path_event event;
	unsigned int i;

	begin(0);
	for (i = 0; i < 2 * HA_RECEIVES; i++) {
		memset(msg, i, sizeof(msg));
		assert_int_equal(ha_path_send(two.path[i % 2], msg), 0);
		event = next_event(two.path[!(i % 2)]);
		assert_int_equal(event.kind, HA_PATH_MSG);
		assert_int_equal(event.bytes, HA_MSG_BYTES);
		assert_memory_equal(event.msg, msg, sizeof(msg));
		while (two.path[i % 2]->msgs)
			assert_int_equal(ha_path_poll(two.path[i % 2], &event, 1), 0);
	}
}

/* The drain reports everything that the device has acknowledged. A payload that arrives later must
 * not be placed. */
static void test_fence_and_drain(void **state)
{
	begin(2);
	memset(source, 1, sizeof(source));
	assert_int_equal(write_payload(&two, 0, 100, 7), 0);
	expect_written(&two, 0);
	fence(two.path[RECEIVER]);
	memset(source, 2, sizeof(source));
	assert_int_equal(write_payload(&two, 1, 100, 8), 0);
	expect_error(SENDER, 1);
	assert_int_equal(drain(two.path[RECEIVER]), 1);
	assert_int_equal(target[0], 1);
	fence(two.path[SENDER]);
	assert_int_equal(drain(two.path[SENDER]), 0);
}

/* The receiver's interface drops every packet that the receiver sends. A payload arrives, but its
 * sender gets an error. */
static void test_only_acks_are_lost(void **state)
{
	begin(3);
	shell("tc qdisc add dev %s root netem loss 100%%", ends[RECEIVER].ifname);
	assert_int_equal(write_payload(&two, 5, 100, 9), 0);
	expect_landed(&two, 9, 100);
	expect_error(SENDER, 5);
	shell("tc qdisc del dev %s root", ends[RECEIVER].ifname);
	fence(two.path[RECEIVER]);
	assert_int_equal(drain(two.path[RECEIVER]), 0);
}

static void wait_for_event(void)
{
	struct pollfd pfd = {.fd = inc_rdma_inventory_fd(devices.inventory), .events = POLLIN};

	assert_int_equal(poll(&pfd, 1, DEADLINE_S * 1000), 1);
	refresh_rails();
}

/* Sets a link down, which removes the lab's routes. So this test must be the last one. */
static void test_link_goes_down(void **state)
{
	struct two_paths other = {0};
	struct inc_err err = {""};

	begin(4);
	shell("ip link set %s down", ends[SENDER].ifname);
	assert_int_equal(write_payload(&two, 6, 100, 10), 0);
	expect_error(SENDER, 6);
	wait_for_event();
	assert_int_equal(make_end(&other, SENDER, 0, 5, &err), -ENETDOWN);
	print_message("# %s\n", err.msg);
	fence(two.path[SENDER]);
	assert_int_equal(drain(two.path[SENDER]), 0);
	fence(two.path[RECEIVER]);
	assert_int_equal(drain(two.path[RECEIVER]), 0);
}

static int open_devices(void **state)
{
	config.qp_timeout = 15; /* ACK timeout of 134 ms */
	config.qp_retry_cnt = 3;
	open_rails(ENDS);
	return 0;
}

static int close_devices(void **state)
{
	close_rails();
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_payloads, end),
		cmocka_unit_test_teardown(test_descriptions_and_probe, end),
		cmocka_unit_test_teardown(test_msgs, end),
		cmocka_unit_test_teardown(test_fence_and_drain, end),
		cmocka_unit_test_teardown(test_only_acks_are_lost, end),
		cmocka_unit_test_teardown(test_link_goes_down, end),
	};

	if (!read_ends(argc, argv, "nccl_path"))
		return 2;
	return cmocka_run_group_tests_name("nccl_path", tests, open_devices, close_devices) ? 1 : 0;
}
