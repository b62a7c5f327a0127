/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* Paths over fake devices (selftests/fakes/verbs.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include "selftests/fakes/verbs.h"
#include "selftests/nccl/harness_two_paths.h"

static struct two_paths two;
static struct inc_err err;

/* Lets devices give up after 3 ms, for tests in which they have to. */
static void give_up_soon(void)
{
	config.qp_timeout = 8;
}

static void send_msg(int end, uint8_t text)
{
	uint8_t msg[HA_MSG_BYTES];

	memset(msg, text, sizeof(msg));
	assert_int_equal(ha_path_send(two.path[end], msg), 0);
}

static void expect_msg(int end, uint8_t text)
{
	const struct ha_path_event event = next_event(two.path[end]);
	uint8_t msg[HA_MSG_BYTES];

	memset(msg, text, sizeof(msg));
	assert_int_equal(event.kind, HA_PATH_MSG);
	assert_int_equal(event.bytes, HA_MSG_BYTES);
	assert_memory_equal(event.msg, msg, sizeof(msg));
}

/* ---- transfers over a path ------------------------------------------------------------------ */

static void msgs(void **state)
{
	struct ha_path_event events[3];
	unsigned int i;

	make_two(&two, 0, 2, 0);
	send_msg(SENDER, 1);
	send_msg(SENDER, 2);
	send_msg(RECEIVER, 3);
	/* the events stay valid until the next poll */
	assert_int_equal(ha_path_poll(two.path[RECEIVER], events, 3), 2);
	assert_int_equal(events[0].msg[127], 1);
	assert_int_equal(events[1].msg[127], 2);
	assert_int_equal(two.path[RECEIVER]->receives, HA_RECEIVES - 2);
	expect_nothing(two.path[RECEIVER]);
	assert_int_equal(two.path[RECEIVER]->receives, HA_RECEIVES);
	expect_msg(SENDER, 3);
	expect_nothing(two.path[SENDER]);
	for (i = 0; i < 3 * HA_RECEIVES; i++) {
		send_msg(SENDER, i);
		expect_msg(RECEIVER, i);
		expect_nothing(two.path[SENDER]);
	}
	assert_int_equal(two.path[SENDER]->msgs, 0);
	destroy_two(&two);
}

static void as_many_msgs_as_may_be(void **state)
{
	uint8_t msg[HA_MSG_BYTES] = {0};
	unsigned int i;

	make_two(&two, 0, 2, 0);
	fake_verbs_faults(0, FAKE_VERBS_LOSE_ACKS_IN);
	for (i = 0; i < HA_MSGS_AHEAD; i++)
		send_msg(SENDER, i);
	assert_int_equal(ha_path_send(two.path[SENDER], msg), -EAGAIN);
	fake_verbs_faults(0, 0);
	expect_nothing(two.path[SENDER]);
	send_msg(SENDER, i);
	for (i = 0; i <= HA_MSGS_AHEAD; i++)
		expect_msg(RECEIVER, i);
	destroy_two(&two);
}

static void payloads(void **state)
{
	uint32_t i, sequence;

	make_two(&two, 0, 2, 3);
	for (i = 0; i < PAYLOAD_BYTES; i++)
		source[i] = i * 7 + i / 256;
	memset(target, 0, sizeof(target));
	for (i = 0; i < 2000; i++) {
		sequence = 0xfffffc00 + i; /* any sequence number is valid */
		assert_int_equal(write_payload(&two, i % 32, i % PAYLOAD_BYTES, sequence), 0);
		expect_landed(&two, sequence, i % PAYLOAD_BYTES);
		expect_written(&two, i % 32);
	}
	assert_memory_equal(target, source, 1999);
	assert_int_equal(target[1999], 0);
	assert_int_equal(two.path[SENDER]->writes, 0);
	assert_int_equal(two.path[RECEIVER]->receives, HA_RECEIVES);
	destroy_two(&two);
}

/* An end of the path does not poll for long, while its peer fills all slots. */
static void all_slots_at_once(void **state)
{
	uint32_t i;

	make_two(&two, 0, 2, 0);
	for (i = 0; i < HA_SLOTS; i++)
		assert_int_equal(write_payload(&two, i, 8, i), 0);
	for (i = 0; i < HA_MSGS_AHEAD; i++)
		send_msg(SENDER, i);
	for (i = 0; i < HA_SLOTS; i++) {
		expect_landed(&two, i, 8);
		expect_written(&two, i);
	}
	for (i = 0; i < HA_MSGS_AHEAD; i++)
		expect_msg(RECEIVER, i);
	destroy_two(&two);
}

static struct ha_slot slot_of(uint32_t sequence)
{
	return (struct ha_slot){.address = 0x1122334455667788 + sequence,
				.rkey = 11,
				.bytes = sequence * 3,
				.tag = 5,
				.epoch = 1,
				.sequence = sequence,
				.index = 1,
				.slots = 2};
}

static void expect_described(uint32_t sequence)
{
	const struct ha_slot wanted = slot_of(sequence);
	struct ha_slot slot = {0};

	assert_int_equal(ha_slot_read(&ring[sequence % HA_SLOTS], sequence, 1, &slot, &err), 1);
	assert_int_equal(slot.address, wanted.address);
	assert_int_equal(slot.rkey, wanted.rkey);
	assert_int_equal(slot.bytes, wanted.bytes);
	assert_int_equal(slot.tag, wanted.tag);
}

static void describe(uint32_t sequence)
{
	const struct ha_slot slot = slot_of(sequence);

	assert_int_equal(
		ha_path_describe(two.path[RECEIVER], ha_wr_id(1, sequence % HA_SLOTS), &slot), 0);
}

static void expect_description_sent(uint32_t sequence)
{
	const struct ha_path_event event = next_event(two.path[RECEIVER]);

	assert_int_equal(event.kind, HA_PATH_COMPLETED);
	assert_true(event.ok);
	assert_int_equal(event.wr_id, ha_wr_id(1, sequence % HA_SLOTS));
}

static void descriptions(void **state)
{
	uint32_t i;

	make_two(&two, 0, 2, 1);
	for (i = 1; i < 3 * HA_SLOTS; i++) {
		describe(i);
		expect_description_sent(i);
		expect_described(i);
	}
	destroy_two(&two);
}

/* More descriptions than the send queue can hold, because ACKs of earlier ones were lost. */
static void descriptions_wait_for_room(void **state)
{
	uint32_t i;

	make_two(&two, 0, 2, 1);
	fake_verbs_faults(2, FAKE_VERBS_LOSE_ACKS_IN);
	for (i = 1; i <= HA_WRITES + HA_SLOTS; i++)
		describe(i);
	expect_described(HA_WRITES);
	assert_int_equal(ha_path_describe(two.path[RECEIVER], 0, &(struct ha_slot){0}), -EAGAIN);
	assert_int_equal(ha_path_probe(two.path[RECEIVER], 0), -EAGAIN);
	fake_verbs_faults(2, 0);
	for (i = 1; i <= HA_WRITES + HA_SLOTS; i++)
		expect_description_sent(i);
	for (i = HA_WRITES + 1; i <= HA_WRITES + HA_SLOTS; i++)
		expect_described(i);
	expect_nothing(two.path[RECEIVER]);
	destroy_two(&two);
}

/* Descriptions are sent in order after those that wait, also after a temporary rejection. */
static void descriptions_wait_in_order(void **state)
{
	uint32_t i;

	make_two(&two, 0, 2, 1);
	fake_verbs_faults(2, FAKE_VERBS_LOSE_ACKS_IN);
	for (i = 1; i <= HA_WRITES + 2; i++)
		describe(i);
	fake_verbs_faults(2, 0);
	fake_verbs_refuse(FAKE_VERBS_POST_WRITE, ENOMEM, 1);
	expect_description_sent(1);
	assert_int_equal(two.path[RECEIVER]->waiting, 2);
	describe(HA_WRITES + 3);
	for (i = 2; i <= HA_WRITES + 3; i++)
		expect_description_sent(i);
	destroy_two(&two);
}

static void without_inline_data(void **state)
{
	fake_verbs_no_inline(true);
	msgs(NULL);
	descriptions(NULL);
	descriptions_wait_for_room(NULL);
	fake_verbs_no_inline(false);
}

static void probes(void **state)
{
	struct ha_path_event event;
	int end;

	give_up_soon();
	for (end = 0; end < N_ENDS; end++) {
		make_two(&two, 0, 2, 4);
		assert_int_equal(ha_path_probe(two.path[end], ha_wr_id(4, HA_WR_PROBE)), 0);
		event = next_event(two.path[end]);
		assert_true(event.kind == HA_PATH_COMPLETED && event.ok &&
			    event.wr_id == ha_wr_id(4, HA_WR_PROBE));
		expect_nothing(two.path[!end]);
		fake_verbs_faults(0, FAKE_VERBS_CUT);
		assert_int_equal(ha_path_probe(two.path[end], ha_wr_id(4, HA_WR_PROBE)), 0);
		event = next_event(two.path[end]);
		assert_true(event.kind == HA_PATH_COMPLETED && !event.ok && !event.flushed &&
			    event.wr_id == ha_wr_id(4, HA_WR_PROBE));
		assert_non_null(event.why);
		fake_verbs_faults(0, 0);
		destroy_two(&two);
	}
}

static void a_payload_that_is_too_long(void **state)
{
	make_two(&two, 0, 2, 0);
	assert_int_equal(write_payload(&two, 0, two.path[SENDER]->max_message_bytes + 1, 0),
			 -EMSGSIZE);
	assert_int_equal(two.path[SENDER]->writes, 0);
	destroy_two(&two);
}

/* ---- failures ------------------------------------------------------------------------------- */

/* The payloads arrive, but the sender's device gets no ACK. */
static void only_acks_are_lost(void **state)
{
	struct ha_path_event event;

	give_up_soon();
	make_two(&two, 0, 2, 2);
	assert_int_equal(write_payload(&two, 0, 9, 70), 0);
	expect_written(&two, 0);
	fake_verbs_faults(0, FAKE_VERBS_LOSE_ACKS_IN);
	assert_int_equal(write_payload(&two, 1, 10, 71), 0);
	assert_int_equal(write_payload(&two, 2, 11, 72), 0);
	event = next_event(two.path[SENDER]);
	assert_true(event.kind == HA_PATH_COMPLETED && !event.ok && !event.flushed &&
		    event.wr_id == ha_wr_id(2, 1));
	event = next_event(two.path[SENDER]);
	assert_true(event.kind == HA_PATH_COMPLETED && !event.ok && event.flushed &&
		    event.wr_id == ha_wr_id(2, 2));
	event = next_event(two.path[SENDER]); /* the event is the failed completion of a receive */
	assert_int_equal(event.kind, HA_PATH_DEAD);
	expect_nothing(two.path[SENDER]);
	expect_landed(&two, 70, 9);
	expect_landed(&two, 71, 10);
	expect_landed(&two, 72, 11);
	expect_nothing(two.path[RECEIVER]);
	fake_verbs_faults(0, 0);
	fence(two.path[SENDER]);
	assert_int_equal(drain(two.path[SENDER]), 0);
	destroy_two(&two);
}

static void a_short_loss(void **state)
{
	static const unsigned int faults[] = {FAKE_VERBS_LOSE_REQUESTS_OUT, FAKE_VERBS_LOSE_ACKS_IN,
					      FAKE_VERBS_CUT};

	for (unsigned int i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		make_two(&two, 0, 2, 2);
		fake_verbs_faults(0, faults[i]);
		assert_int_equal(write_payload(&two, 1, 10, 71), 0);
		send_msg(SENDER, 9);
		expect_nothing(two.path[SENDER]);
		fake_verbs_faults(0, 0);
		expect_written(&two, 1);
		expect_landed(&two, 71, 10);
		expect_msg(RECEIVER, 9);
		expect_nothing(two.path[RECEIVER]);
		expect_nothing(two.path[SENDER]);
		destroy_two(&two);
	}
}

/* A message of another length ends the path, because bytes of an older message follow it. */
static void a_msg_of_another_length(void **state)
{
	for (uint32_t bytes = 0; bytes < HA_MSG_BYTES; bytes += HA_MSG_BYTES - 1) {
		make_two(&two, 0, 2, 2);
		send_short(two.path[SENDER], bytes);
		assert_int_equal(next_event(two.path[RECEIVER]).kind, HA_PATH_DEAD);
		destroy_two(&two);
	}
}

static void a_msg_that_gets_nowhere(void **state)
{
	struct ha_path_event event;

	give_up_soon();
	make_two(&two, 0, 2, 0);
	fake_verbs_faults(2, FAKE_VERBS_LOSE_REQUESTS_IN);
	send_msg(SENDER, 1);
	send_msg(SENDER, 2);
	event = next_event(two.path[SENDER]);
	assert_int_equal(event.kind, HA_PATH_DEAD);
	assert_non_null(event.why);
	while (two.path[SENDER]->receives) /* the path reports the end only once */
		expect_nothing(two.path[SENDER]);
	assert_int_equal(two.path[SENDER]->msgs, 0);
	expect_nothing(two.path[RECEIVER]);
	fake_verbs_faults(2, 0);
	destroy_two(&two);
}

static void a_port_that_is_down(void **state)
{
	struct two_paths other = {0};
	struct ha_path_event event;

	give_up_soon();
	make_two(&two, 0, 2, 0);
	fake_verbs_port(2, false);
	refresh_rails();
	assert_int_equal(make_end(&other, RECEIVER, 2, 1, &err), -ENETDOWN);
	assert_int_equal(write_payload(&two, 0, 9, 70), 0);
	event = next_event(two.path[SENDER]);
	assert_true(event.kind == HA_PATH_COMPLETED && !event.ok);
	expect_nothing(two.path[RECEIVER]); /* the device does not flush the posted receives */
	fake_verbs_port(2, true);
	refresh_rails();
	make_two(&other, 0, 2, 1);
	destroy_two(&other);
	destroy_two(&two);
}

static void a_gid_that_has_moved(void **state)
{
	const unsigned int before = fake_verbs_move_gid(2), after = fake_verbs_move_gid(2);

	assert_int_not_equal(before, after);
	/* the inventory still has the old index of the GID */
	assert_int_equal(try_two(&two, (unsigned int[]){0, 2}, 0, &err), -EINVAL);
	refresh_rails();
	make_two(&two, 0, 2, 0);
	assert_int_equal(two.path[RECEIVER]->own_gid_index, after);
	send_msg(SENDER, 1);
	expect_msg(RECEIVER, 1);
	destroy_two(&two);
}

static void an_unusable_peer(void **state)
{
	struct ha_path_info peer;

	assert_int_equal(make_end(&two, SENDER, 0, 0, &err), 0);
	assert_int_equal(make_end(&two, RECEIVER, 2, 0, &err), 0);
	assert_int_equal(two.path[RECEIVER]->own.ring, 0);
	assert_int_equal(two.path[SENDER]->own.attempt, 7);
	peer = two.path[SENDER]->own;
	peer.link_layer = INC_RDMA_LINK_INFINIBAND;
	assert_int_equal(ha_path_enter(two.path[RECEIVER], &peer, &config, &err), -EPROTO);
	peer = two.path[SENDER]->own;
	peer.ring = 0;
	assert_int_equal(ha_path_enter(two.path[RECEIVER], &peer, &config, &err), -EPROTO);
	peer = two.path[SENDER]->own;
	peer.qpn = 1 << 24;
	assert_int_equal(ha_path_enter(two.path[RECEIVER], &peer, &config, &err), -EINVAL);
	peer.qpn = 99;
	peer.mtu_bytes = 0;
	assert_int_equal(ha_path_enter(two.path[RECEIVER], &peer, &config, &err), -EINVAL);
	assert_int_equal(ha_path_enter(two.path[RECEIVER], &two.path[SENDER]->own, &config, &err),
			 0);
	destroy_two(&two);
}

static void every_call_may_fail(void **state)
{
	unsigned int n = 0;

	do {
		fake_verbs_fail_call(++n);
		err.msg[0] = '\0';
		if (try_two(&two, (unsigned int[]){0, 2}, 0, &err))
			assert_true(err.msg[0] || n > 2 * HA_RECEIVES);
		else
			destroy_two(&two);
		assert_int_equal(fake_verbs_objects(), 0);
	} while (fake_verbs_has_failed());
	fake_verbs_fail_call(0);
	assert_true(n > 2 * HA_RECEIVES);
}

/* ---- the end of a path ---------------------------------------------------------------------- */

/* A drained path must report exactly what the receiver's device has acknowledged. */
static void a_fence_at_the_receiver(void **state)
{
	struct ha_path_event last;

	make_two(&two, 0, 2, 5);
	assert_false(ha_path_drained(two.path[RECEIVER]));
	assert_int_equal(write_payload(&two, 0, 9, 70), 0);
	assert_int_equal(write_payload(&two, 1, 9, 71), 0);
	send_msg(SENDER, 1);
	describe(3);
	fence(two.path[RECEIVER]);
	assert_false(ha_path_drained(two.path[RECEIVER]));
	source[0] = 1;
	target[0] = 2;
	assert_int_equal(write_payload(&two, 2, 9, 72), 0);
	expect_landed(&two, 70, 9);
	expect_landed(&two, 71, 9);
	expect_msg(RECEIVER, 1);
	expect_description_sent(3);
	assert_int_equal(two.path[RECEIVER]->receives,
			 HA_RECEIVES - 3); /* used ones are not posted again */
	assert_false(ha_path_drained(two.path[RECEIVER]));
	assert_int_equal(drain(two.path[RECEIVER]), 0);
	assert_int_equal(target[0], 2);
	fence(two.path[RECEIVER]); /* a second fence is allowed */
	assert_true(ha_path_drained(two.path[RECEIVER]));
	describe(4); /* a request that is posted after the fence completes, too */
	assert_false(ha_path_drained(two.path[RECEIVER]));
	last = next_event(two.path[RECEIVER]);
	assert_true(last.kind == HA_PATH_COMPLETED && last.flushed && !last.ok);
	assert_true(ha_path_drained(two.path[RECEIVER]));
	destroy_two(&two);
}

static void a_packet_that_comes_late(void **state)
{
	struct ha_path_event event;
	int fenced;

	give_up_soon();
	for (fenced = 0; fenced < 2; fenced++) {
		make_two(&two, 0, 2, 5);
		memset(target, 0, sizeof(target));
		source[3] = 77;
		fake_verbs_faults(0, FAKE_VERBS_HOLD_OUT);
		assert_int_equal(write_payload(&two, 0, 9, 70), 0);
		event = next_event(two.path[SENDER]);
		assert_true(event.kind == HA_PATH_COMPLETED && !event.ok);
		fence(two.path[SENDER]);
		if (fenced)
			fence(two.path[RECEIVER]);
		fake_verbs_faults(0, 0);
		assert_int_equal(fake_verbs_let_go(0), !fenced);
		assert_int_equal(target[3], fenced ? 0 : 77);
		if (fenced)
			assert_int_equal(drain(two.path[RECEIVER]), 0);
		else
			expect_landed(&two, 70, 9);
		destroy_two(&two);
	}
}

/* Requests in flight on an abandoned path have its epoch, and do not affect the next path. */
static void two_epochs(void **state)
{
	struct two_paths next;
	struct ha_path_event event;
	unsigned int failed = 0;

	make_two(&two, 0, 2, 8);
	make_two(&next, 1, 3, 9);
	fake_verbs_faults(0, FAKE_VERBS_CUT);
	assert_int_equal(write_payload(&two, 4, 9, 70), 0);
	assert_int_equal(write_payload(&two, 5, 9, 71), 0);
	fence(two.path[SENDER]);
	fence(two.path[RECEIVER]);
	assert_int_equal(write_payload(&next, 4, 9, 70), 0);
	expect_landed(&next, 70, 9);
	expect_written(&next, 4);
	while (!ha_path_drained(two.path[SENDER]))
		if (ha_path_poll(two.path[SENDER], &event, 1)) {
			assert_int_equal(event.kind, HA_PATH_COMPLETED);
			assert_true(event.flushed && !event.ok);
			assert_int_equal(ha_wr_epoch(event.wr_id), 8);
			assert_int_equal(ha_wr_index(event.wr_id), 4 + failed++);
		}
	assert_int_equal(failed, 2);
	assert_int_equal(drain(two.path[RECEIVER]), 0);
	fake_verbs_faults(0, 0);
	destroy_two(&next);
	destroy_two(&two);
}

/* A fence discards the descriptions that wait, because the next epoch cannot use them. */
static void a_fence_drops_what_waits(void **state)
{
	uint32_t i;

	make_two(&two, 0, 2, 1);
	fake_verbs_faults(2, FAKE_VERBS_CUT);
	for (i = 0; i < HA_WRITES + 5; i++)
		describe(i);
	fence(two.path[RECEIVER]);
	assert_int_equal(drain(two.path[RECEIVER]), 0);
	assert_int_equal(two.path[RECEIVER]->waiting, 0);
	fake_verbs_faults(2, 0);
	destroy_two(&two);
}

/* ---- main ----------------------------------------------------------------------------------- */

static int open_machine(void **state)
{
	fake_verbs_machine(4);
	open_rails(4);
	return 0;
}

static int close_machine(void **state)
{
	close_rails();
	return 0;
}

static int nothing_is_left(void **state)
{
	unsigned int i;

	config.qp_timeout = 20;
	fake_verbs_fail_call(0);
	fake_verbs_no_inline(false);
	for (i = 0; i < 4; i++)
		fake_verbs_faults(i, 0);
	destroy_two(&two); /* frees the paths that a failed test may have left */
	assert_int_equal(fake_verbs_objects(), 0);
	return 0;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, nothing_is_left)
	const struct CMUnitTest tests[] = {
		TEST(msgs),
		TEST(as_many_msgs_as_may_be),
		TEST(payloads),
		TEST(all_slots_at_once),
		TEST(descriptions),
		TEST(descriptions_wait_for_room),
		TEST(descriptions_wait_in_order),
		TEST(without_inline_data),
		TEST(probes),
		TEST(a_payload_that_is_too_long),
		TEST(only_acks_are_lost),
		TEST(a_short_loss),
		TEST(a_msg_of_another_length),
		TEST(a_msg_that_gets_nowhere),
		TEST(a_port_that_is_down),
		TEST(a_gid_that_has_moved),
		TEST(an_unusable_peer),
		TEST(every_call_may_fail),
		TEST(a_fence_at_the_receiver),
		TEST(a_packet_that_comes_late),
		TEST(two_epochs),
		TEST(a_fence_drops_what_waits),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("path", tests, open_machine, close_machine);
}
