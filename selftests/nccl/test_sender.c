/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* Tests each row of the sender's table in docs/nccl-failover.md. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "hostlib/nccl/sender.h"

#define NONCE 5u
#define RTO   1000u
#define BEAT  100u

static const struct ha_times times = {RTO, BEAT};
static _Alignas(64) struct ha_slot_wire ring[HA_SLOTS];
static struct ha_sender s;
static struct ha_todo todo;
static uint64_t now;

static void begin_as(bool dual)
{
	memset(ring, 0, sizeof(ring));
	now = 10000;
	ha_sender_init(&s, &times, NONCE, dual, ring, now);
	todo = (struct ha_todo){0};
}

static void done_all(void)
{
	todo = (struct ha_todo){0};
}

static void describe(uint32_t sequence, uint32_t tag, uint32_t epoch)
{
	const struct ha_slot slot = {.address = 0x1000 + sequence,
				     .rkey = epoch + 1,
				     .bytes = 64,
				     .tag = tag,
				     .epoch = epoch,
				     .sequence = sequence,
				     .slots = 1};

	ha_slot_encode(&slot, &ring[sequence % HA_SLOTS]);
	ha_sender_look(&s, now, &todo);
}

static int isend(uint32_t tag)
{
	done_all();
	return ha_sender_isend(&s, "", NULL, 10, tag, now, &todo);
}

static void receive(enum ha_control_msg_type type, uint32_t epoch, uint32_t next, uint64_t bits)
{
	struct ha_control_msg msg = {.type = type, .nonce = NONCE, .epoch = epoch};

	msg.report.next = next;
	msg.report.received[0] = bits;
	done_all();
	ha_sender_msg(&s, &msg, now, &todo);
}

static void expect_sent(enum ha_control_msg_type type, uint32_t epoch)
{
	assert_int_equal(todo.msgs, 1);
	assert_int_equal(todo.msg[0].type, type);
	assert_int_equal(todo.msg[0].epoch, epoch);
	assert_int_equal(todo.msg[0].nonce, NONCE);
}

static void is(enum ha_state state, uint32_t epoch)
{
	assert_string_equal(ha_state_text(s.end.state), ha_state_text(state));
	assert_int_equal(s.end.epoch, epoch);
}

/* Begins with two sends in flight, a free slot of another tag, and a standby path that is ready. */
static void begin(void)
{
	begin_as(true);
	describe(0, 1, 0);
	describe(1, 1, 0);
	describe(2, 9, 0);
	assert_int_equal(isend(1), 0);
	assert_int_equal(todo.posts, 1);
	assert_int_equal(isend(1), 1);
	ha_sender_path(&s, 1, true, now, &todo);
	done_all();
}

static void switching(void)
{
	begin();
	ha_sender_completed(&s, ha_wr_id(0, 0), false, now, &todo);
	assert_true(todo.fence && todo.fence_epoch == 0);
	expect_sent(HA_MSG_OPEN, 1);
	is(HA_SWITCHING, 1);
	done_all();
}

static void broken(void)
{
	begin();
	ha_sender_path(&s, 1, false, now, &todo);
	ha_sender_trigger(&s, HA_CAUSE_PORT, now, &todo);
	assert_true(todo.fence && !todo.msgs);
	is(HA_BROKEN, 0);
	done_all();
}

static void sends(void **state)
{
	begin_as(true);
	assert_int_equal(isend(1), -EAGAIN);
	describe(0, 1, 0);
	describe(1, 2, 0);
	describe(2, 1, 0);
	assert_int_equal(isend(2), 0);
	assert_int_equal(s.send[0].sequence, 1);
	assert_int_equal(isend(1), 1);
	assert_int_equal(s.send[1].sequence, 0);
	assert_int_equal(isend(2), -EAGAIN);
	ha_sender_completed(&s, ha_wr_id(0, 1), true, now, &todo);
	assert_int_equal(s.send[1].state, HA_SEND_COMPLETE);
	assert_int_equal(s.first, 1);
	ha_sender_release(&s, 1);
	assert_int_equal(ha_sender_isend(&s, "", NULL, 1000, 1, now, &todo), 1);
	assert_int_equal(s.send[1].bytes, 64);
	assert_int_equal(s.send[1].sequence, 2);
}

static void another_epochs_slot(void **state)
{
	begin_as(true);
	describe(0, 1, 1);
	assert_int_equal(isend(1), -EAGAIN);
}

static void all_requests(void **state)
{
	unsigned int i;

	begin_as(true);
	for (i = 0; i < HA_SLOTS; i++)
		describe(i, 1, 0);
	for (i = 0; i < HA_REQUESTS; i++)
		assert_int_equal(isend(1), (int)i);
	assert_int_equal(isend(1), -EAGAIN);
}

/* REPORT lists one of the sends as received, so that send is complete. The other send waits until
 * its slot is described again, and is then written again. */
static void takes_a_report(void **state)
{
	switching();
	assert_int_equal(isend(9), -EAGAIN);
	receive(HA_MSG_REPORT, 1, 0, 2);
	is(HA_FLOWING, 1);
	expect_sent(HA_MSG_RESUME, 1);
	assert_true(todo.failover_over);
	assert_int_equal(s.end.failover.delivered, 1);
	assert_int_equal(s.end.failover.replayed, 1);
	assert_int_equal(s.send[1].state, HA_SEND_COMPLETE);
	assert_int_equal(s.send[0].state, HA_SEND_BOUND);
	assert_int_equal(todo.posts, 0);
	assert_int_equal(isend(9), -EAGAIN);
	describe(0, 1, 1);
	assert_int_equal(todo.posts, 1);
	assert_int_equal(todo.post[0], 0);
	assert_int_equal(s.send[0].rkey, 2);
	describe(2, 9, 1);
	assert_int_equal(isend(9), 2);
	/* the sender answers a repeated REPORT, which has no other effect */
	receive(HA_MSG_REPORT, 1, 0, 2);
	expect_sent(HA_MSG_RESUME, 1);
	assert_int_equal(s.send[0].state, HA_SEND_IN_FLIGHT);
}

static void late_completions(void **state)
{
	switching();
	ha_sender_completed(&s, ha_wr_id(0, 1), false, now, &todo);
	ha_sender_completed(&s, ha_wr_id(0, 0), true, now, &todo);
	assert_int_equal(s.send[0].state, HA_SEND_COMPLETE);
	assert_int_equal(s.send[1].state, HA_SEND_BOUND);
	is(HA_SWITCHING, 1);
	receive(HA_MSG_REPORT, 1, 1, 0);
	is(HA_FLOWING, 1);
	done_all();
	ha_sender_completed(&s, ha_wr_id(0, 1), true, now, &todo);
	ha_sender_completed(&s, ha_wr_id(0, 1), false, now, &todo);
	assert_int_equal(s.send[1].state, HA_SEND_BOUND);
	is(HA_FLOWING, 1);
	assert_true(!todo.msgs && !todo.posts);
}

static void the_receiver_first(void **state)
{
	begin();
	receive(HA_MSG_REPORT, 1, 2, 0);
	is(HA_FLOWING, 1);
	assert_true(todo.fence && todo.fence_epoch == 0);
	expect_sent(HA_MSG_RESUME, 1);
	assert_int_equal(s.end.cause, HA_CAUSE_PEER);
	assert_int_equal(s.send[1].state, HA_SEND_COMPLETE);
	receive(HA_MSG_REPORT, 1, 0, 0);
	is(HA_FLOWING, 1);
}

static void impossible_reports(void **state)
{
	switching();
	receive(HA_MSG_REPORT, 1, 0, 4); /* the message reports slot 2, which was not written */
	is(HA_FAILED, 1);
	assert_int_equal(s.end.error, -EPROTO);
	expect_sent(HA_MSG_ABORT, 1);
	switching();
	receive(HA_MSG_REPORT, 1, 4, 0);
	assert_int_equal(s.end.error, -EPROTO);
	begin();
	ha_sender_completed(&s, ha_wr_id(0, 0), true, now, &todo);
	receive(HA_MSG_REPORT, 1, 0, 0); /* the message omits a send that was acknowledged */
	assert_int_equal(s.end.error, -EPROTO);
	assert_int_equal(s.send[1].state, HA_SEND_FAILED);
	begin();
	receive(HA_MSG_REPORT, 2, 0, 0);
	assert_int_equal(s.end.error, -EPROTO);
	begin();
	receive(HA_MSG_OPEN, 1, 0, 0);
	assert_int_equal(s.end.error, -EPROTO);
}

static void impossible_slots(void **state)
{
	switching();
	receive(HA_MSG_REPORT, 1, 0, 0);
	done_all();
	describe(0, 3, 1); /* the slot had another tag before, so this is an error */
	is(HA_FAILED, 1);
	assert_int_equal(s.end.error, -EPROTO);
}

static void another_comms_msg(void **state)
{
	struct ha_control_msg msg = {.type = HA_MSG_ABORT, .nonce = NONCE + 1};

	begin();
	ha_sender_msg(&s, &msg, now, &todo);
	is(HA_FLOWING, 0);
}

static void a_broken_path(void **state)
{
	broken();
	assert_int_equal(isend(9), -EAGAIN);
	ha_sender_completed(&s, ha_wr_id(0, 0), true, now, &todo);
	assert_int_equal(s.send[0].state, HA_SEND_COMPLETE);
	ha_sender_path(&s, 1, true, now, &todo);
	is(HA_SWITCHING, 1);
	expect_sent(HA_MSG_OPEN, 1);
	broken();
	receive(HA_MSG_REPORT, 1, 0, 0);
	is(HA_FLOWING, 1);
	broken();
	now += RTO;
	ha_sender_tick(&s, now, &todo);
	is(HA_FAILED, 0);
	assert_int_equal(s.end.error, -ETIMEDOUT);
	expect_sent(HA_MSG_ABORT, 0);
}

static void msgs_again(void **state)
{
	unsigned int i, sent = 0;

	switching();
	for (i = 0; s.end.state == HA_SWITCHING; i++) {
		now += BEAT / 2;
		done_all();
		ha_sender_tick(&s, now, &todo);
		sent += todo.msgs && todo.msg[0].type == HA_MSG_OPEN;
	}
	is(HA_FAILED, 1);
	assert_int_equal(sent, RTO / BEAT - 1);
	expect_sent(HA_MSG_ABORT, 1);
	receive(HA_MSG_REPORT, 1, 0, 0);
	expect_sent(HA_MSG_ABORT, 1);
	assert_int_equal(isend(1), -ETIMEDOUT);
}

static void no_progress(void **state)
{
	begin();
	now += RTO - 1;
	ha_sender_tick(&s, now, &todo);
	ha_sender_completed(&s, ha_wr_id(0, 0), true, now, &todo);
	now += RTO - 1;
	ha_sender_tick(&s, now, &todo);
	is(HA_FLOWING, 0);
	now += 1;
	ha_sender_tick(&s, now, &todo);
	is(HA_SWITCHING, 1);
	assert_int_equal(s.end.cause, HA_CAUSE_TIMEOUT);
	/* a send that waits for its slot is not in flight, so it cannot time out */
	switching();
	receive(HA_MSG_REPORT, 1, 0, 0);
	now += 5 * RTO;
	ha_sender_tick(&s, now, &todo);
	is(HA_FLOWING, 1);
}

/* A slot is described at the moment when its path is abandoned. The send for this slot must not be
 * written on the next path, because no report for that path has come. */
static void a_slot_of_the_path_that_is_left(void **state)
{
	const struct ha_slot slot = {.bytes = 64, .tag = 1, .epoch = 1, .sequence = 1, .slots = 1};

	switching();
	receive(HA_MSG_REPORT, 1, 0, 0);
	describe(0, 1, 1);
	ha_sender_path(&s, 2, true, now, &todo);
	done_all();
	now += RTO;
	ha_slot_encode(&slot, &ring[1]);
	ha_sender_tick(&s, now, &todo);
	is(HA_SWITCHING, 2);
	assert_true(todo.fence && todo.fence_epoch == 1);
	assert_int_equal(todo.posts, 0);
	assert_int_equal(s.send[1].state, HA_SEND_BOUND);
}

static void requested(void **state)
{
	begin();
	ha_sender_path(&s, 1, false, now, &todo);
	ha_sender_trigger(&s, HA_CAUSE_REQUEST, now, &todo);
	is(HA_FLOWING, 0);
	ha_sender_path(&s, 1, true, now, &todo);
	ha_sender_trigger(&s, HA_CAUSE_REQUEST, now, &todo);
	is(HA_SWITCHING, 1);
}

static void one_path(void **state)
{
	begin_as(false);
	describe(0, 1, 0);
	isend(1);
	done_all();
	ha_sender_completed(&s, ha_wr_id(0, 0), false, now, &todo);
	is(HA_FAILED, 0);
	assert_int_equal(s.end.error, -EIO);
	assert_true(s.end.why && todo.fence && todo.ended);
	expect_sent(HA_MSG_ABORT, 0);
}

static void epochs_without_data(void **state)
{
	uint32_t e;

	begin();
	for (e = 1; e <= HA_BARREN_EPOCHS; e++) {
		ha_sender_trigger(&s, HA_CAUSE_PORT, now, &todo);
		is(HA_SWITCHING, e);
		receive(HA_MSG_REPORT, e, 0, 0);
		is(HA_FLOWING, e);
		ha_sender_path(&s, e + 1, true, now, &todo);
	}
	ha_sender_trigger(&s, HA_CAUSE_PORT, now, &todo);
	is(HA_FAILED, HA_BARREN_EPOCHS);
	assert_int_equal(s.end.error, -EIO);
}

static void probes(void **state)
{
	begin();
	ha_sender_channel(&s, false, now, &todo);
	assert_true(todo.probe);
	done_all();
	now += 3 * BEAT;
	ha_sender_tick(&s, now, &todo);
	assert_false(todo.probe); /* another probe is already in flight */
	ha_sender_completed(&s, ha_wr_id(0, HA_WR_PROBE), true, now, &todo);
	ha_sender_tick(&s, now, &todo);
	assert_true(todo.probe);
	ha_sender_completed(&s, ha_wr_id(0, HA_WR_PROBE), false, now, &todo);
	is(HA_SWITCHING, 1);
	assert_int_equal(s.end.cause, HA_CAUSE_PROBE);
}

static void closes(void **state)
{
	begin();
	ha_sender_completed(&s, ha_wr_id(0, 0), true, now, &todo);
	ha_sender_completed(&s, ha_wr_id(0, 1), true, now, &todo);
	ha_sender_close(&s, now, &todo);
	is(HA_DONE, 0);
	expect_sent(HA_MSG_CLOSE, 0);
	assert_true(todo.ended && todo.fence);
	receive(HA_MSG_REPORT, 1, 2, 0);
	expect_sent(HA_MSG_CLOSE, 0);
	assert_int_equal(isend(9), -ESHUTDOWN);
	begin();
	ha_sender_close(&s, now, &todo);
	is(HA_FAILED, 0);
	assert_int_equal(s.end.error, -ECANCELED);
	expect_sent(HA_MSG_ABORT, 0);
}

static void the_peer_ends(void **state)
{
	begin();
	receive(HA_MSG_CLOSE, 0, 2, 0);
	is(HA_DONE, 0);
	assert_int_equal(s.send[0].state, HA_SEND_COMPLETE);
	expect_sent(HA_MSG_CLOSE, 0);
	switching();
	receive(HA_MSG_CLOSE, 0, 1, 0); /* a CLOSE of the previous epoch is final */
	is(HA_FAILED, 1);
	assert_int_equal(s.send[0].state, HA_SEND_COMPLETE);
	assert_int_equal(s.send[1].state, HA_SEND_FAILED);
	begin();
	receive(HA_MSG_ABORT, 0, 0, 0);
	is(HA_FAILED, 0);
	assert_int_equal(s.end.error, -ECONNRESET);
	assert_int_equal(todo.msgs, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sends),
		cmocka_unit_test(another_epochs_slot),
		cmocka_unit_test(all_requests),
		cmocka_unit_test(takes_a_report),
		cmocka_unit_test(late_completions),
		cmocka_unit_test(the_receiver_first),
		cmocka_unit_test(impossible_reports),
		cmocka_unit_test(impossible_slots),
		cmocka_unit_test(another_comms_msg),
		cmocka_unit_test(a_broken_path),
		cmocka_unit_test(msgs_again),
		cmocka_unit_test(no_progress),
		cmocka_unit_test(a_slot_of_the_path_that_is_left),
		cmocka_unit_test(requested),
		cmocka_unit_test(one_path),
		cmocka_unit_test(epochs_without_data),
		cmocka_unit_test(probes),
		cmocka_unit_test(closes),
		cmocka_unit_test(the_peer_ends),
	};

	return cmocka_run_group_tests_name("nccl sender", tests, NULL, NULL);
}
