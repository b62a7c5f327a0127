/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/clock.h"
#include "selftests/nccl/harness_two_paths.h"

#undef ibv_reg_mr

#define DEADLINE_S 20

struct ha_devices devices;
struct ha_config config = {
	.qp_timeout = 20,
	.qp_retry_cnt = 2, /* the device gives up after 13 s */
	.gid_index = -1,
	.enable_backup = true,
	.expected_channels = 16,
	.wr_per_conn = 64,
	.max_recvs = 8,
};
struct ha_rail rails[4];
struct ha_slot_wire *ring;
uint8_t source[PAYLOAD_BYTES], target[PAYLOAD_BYTES];

void open_rails(unsigned int n)
{
	struct inc_err err = {""};
	unsigned int i;

	if (ha_devices_open(&devices, &config, &err))
		fail_msg("%s", err.msg);
	assert_true(devices.n == n && n <= sizeof(rails) / sizeof(rails[0]));
	for (i = 0; i < n; i++)
		rails[i] = devices.device[i].rail[0];
	ring = aligned_alloc(64, HA_SLOTS * sizeof(*ring));
	memset(ring, 0, HA_SLOTS * sizeof(*ring));
}

void close_rails(void)
{
	ha_devices_close(&devices);
	free(ring);
}

void refresh_rails(void)
{
	struct inc_err err = {""};

	inc_rdma_inventory_take(devices.inventory);
	if (inc_rdma_inventory_refresh(devices.inventory, &err) < 0)
		fail_msg("%s", err.msg);
}

int make_end(struct two_paths *two, int end, unsigned int rail, uint32_t epoch, struct inc_err *err)
{
	const struct ha_path_opts opts = {
		.devices = &devices,
		.rail = &rails[rail],
		.rail_number = rail,
		.epoch = epoch,
		.attempt = epoch + 7,
		.ring = end == SENDER ? ring : NULL,
		.what = end == SENDER ? "the sender" : "the receiver",
	};

	return ha_path_make(&two->path[end], &opts, err);
}

static int register_payload(struct two_paths *two)
{
	two->source_mr = ibv_reg_mr(two->path[SENDER]->device->pd, source, sizeof(source), 0);
	if (!two->source_mr)
		return -ENOMEM;
	two->target_mr = ibv_reg_mr(two->path[RECEIVER]->device->pd, target, sizeof(target),
				    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	return two->target_mr ? 0 : -ENOMEM;
}

int try_two(struct two_paths *two, const unsigned int rail[N_ENDS], uint32_t epoch,
	    struct inc_err *err)
{
	int end, ret = 0;

	*two = (struct two_paths){0};
	for (end = 0; end < N_ENDS && !ret; end++)
		ret = make_end(two, end, rail[end], epoch, err);
	for (end = 0; end < N_ENDS && !ret; end++)
		ret = ha_path_enter(two->path[end], &two->path[!end]->own, &config, err);
	if (!ret)
		ret = register_payload(two);
	if (ret)
		destroy_two(two);
	return ret;
}

void make_two(struct two_paths *two, unsigned int sender_rail, unsigned int receiver_rail,
	      uint32_t epoch)
{
	struct inc_err err = {""};

	if (try_two(two, (unsigned int[N_ENDS]){sender_rail, receiver_rail}, epoch, &err))
		fail_msg("%s", err.msg);
}

void destroy_two(struct two_paths *two)
{
	int end;

	for (end = 0; end < N_ENDS; end++)
		ha_path_destroy(two->path[end]);
	if (two->source_mr)
		ibv_dereg_mr(two->source_mr);
	if (two->target_mr)
		ibv_dereg_mr(two->target_mr);
	*two = (struct two_paths){0};
}

struct ha_path_event next_event(struct ha_path *path)
{
	const uint64_t deadline_at_ns = inc_now_ns() + DEADLINE_S * INC_NSEC_PER_SEC;
	struct ha_path_event event;

	while (!ha_path_poll(path, &event, 1)) {
		if (inc_now_ns() > deadline_at_ns)
			fail_msg("%s: no event comes", path->what);
		sched_yield();
	}
	return event;
}

void expect_nothing(struct ha_path *path)
{
	struct ha_path_event event;

	assert_int_equal(ha_path_poll(path, &event, 1), 0);
}

void fence(struct ha_path *path)
{
	struct inc_err err = {""};

	if (ha_path_fence(path, &err))
		fail_msg("%s", err.msg);
}

unsigned int drain(struct ha_path *path)
{
	const uint64_t deadline_at_ns = inc_now_ns() + DEADLINE_S * INC_NSEC_PER_SEC;
	struct ha_path_event events[5];
	unsigned int landed = 0, i, n;

	while (!ha_path_drained(path)) {
		assert_true(inc_now_ns() < deadline_at_ns);
		n = ha_path_poll(path, events, 5);
		for (i = 0; i < n; i++) {
			assert_true(events[i].kind != HA_PATH_COMPLETED || !events[i].ok);
			assert_int_not_equal(events[i].kind, HA_PATH_DEAD);
			landed += events[i].kind == HA_PATH_LANDED;
		}
	}
	return landed;
}

void send_short(struct ha_path *path, uint32_t bytes)
{
	struct ibv_sge sge = {(uintptr_t)path->memory, bytes, path->mr->lkey};
	struct ibv_send_wr *bad, wr = {.wr_id = ha_wr_id(path->epoch, HA_WR_MSG),
				       .sg_list = &sge,
				       .num_sge = bytes > 0,
				       .opcode = IBV_WR_SEND,
				       .send_flags = IBV_SEND_SIGNALED};

	assert_int_equal(ibv_post_send(path->qp.ibv, &wr, &bad), 0);
	path->msgs++;
}

int write_payload(const struct two_paths *two, uint32_t index, uint32_t bytes, uint32_t sequence)
{
	struct ha_path *path = two->path[SENDER];

	return ha_path_write(path, ha_wr_id(path->epoch, index), source, two->source_mr->lkey,
			     bytes, (uintptr_t)target, two->target_mr->rkey, sequence);
}

void expect_written(const struct two_paths *two, uint32_t index)
{
	const struct ha_path_event event = next_event(two->path[SENDER]);

	assert_int_equal(event.kind, HA_PATH_COMPLETED);
	assert_true(event.ok && !event.flushed);
	assert_null(event.why);
	assert_int_equal(event.wr_id, ha_wr_id(two->path[SENDER]->epoch, index));
}

void expect_landed(const struct two_paths *two, uint32_t sequence, uint32_t bytes)
{
	const struct ha_path_event event = next_event(two->path[RECEIVER]);

	assert_int_equal(event.kind, HA_PATH_LANDED);
	assert_int_equal(event.sequence, sequence);
	assert_int_equal(event.bytes, bytes);
}
