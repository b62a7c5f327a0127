/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* Tests each row of the receiver's table in docs/nccl-failover.md. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "hostlib/nccl/receiver.h"

#define NONCE 5u
#define RTO   1000u
#define BEAT  100u

static const struct ha_times times = {RTO, BEAT};
static struct ha_receiver r;
static struct ha_todo todo;
static uint64_t now;

static void begin_as(bool dual)
{
	now = 10000;
	ha_receiver_init(&r, &times, NONCE, dual, now);
	todo = (struct ha_todo){0};
}

static void done_all(void)
{
	todo = (struct ha_todo){0};
}

static int irecv(unsigned int n)
{
	struct ha_recv_buffer buffers[HA_GROUP];
	unsigned int i;

	for (i = 0; i < HA_GROUP; i++)
		buffers[i] = (struct ha_recv_buffer){.bytes = 64, .tag = 10 + i};
	done_all();
	return ha_receiver_irecv(&r, buffers, n, &todo);
}

static void land(uint32_t epoch, uint32_t sequence)
{
	ha_receiver_landed(&r, epoch, sequence, 20 + sequence % 16, now, &todo);
}

static void receive(enum ha_control_msg_type type, uint32_t epoch)
{
	const struct ha_control_msg msg = {.type = type, .nonce = NONCE, .epoch = epoch};

	done_all();
	ha_receiver_msg(&r, &msg, now, &todo);
}

static void expect_sent(enum ha_control_msg_type type, uint32_t epoch)
{
	assert_int_equal(todo.msgs, 1);
	assert_int_equal(todo.msg[0].type, type);
	assert_int_equal(todo.msg[0].epoch, epoch);
}

static void is(enum ha_state state, uint32_t epoch)
{
	assert_string_equal(ha_state_text(r.end.state), ha_state_text(state));
	assert_int_equal(r.end.epoch, epoch);
}

/* Begins with a group of three receives and a single receive. The second receive is complete, and
 * the standby path is ready. */
static void begin(void)
{
	begin_as(true);
	assert_int_equal(irecv(3), 0);
	assert_int_equal(todo.posts, 3);
	assert_int_equal(irecv(1), 1);
	land(0, 1);
	ha_receiver_path(&r, 1, true, now, &todo);
	done_all();
}

static void switching(void)
{
	begin();
	ha_receiver_trigger(&r, HA_CAUSE_PORT, now, &todo);
	is(HA_SWITCHING, 1);
	assert_true(todo.fence && todo.fence_epoch == 0 && !todo.msgs);
	land(0, 3);
	ha_receiver_drained(&r, 0, now, &todo);
	expect_sent(HA_MSG_REPORT, 1);
	assert_int_equal(todo.msg[0].report.next, 0);
	assert_int_equal(todo.msg[0].report.received[0], 0xa);
	done_all();
}

static void groups(void **state)
{
	uint32_t sizes[HA_GROUP];
	struct ha_slot slot;

	begin();
	ha_receiver_describe(&r, 2, &slot);
	assert_true(slot.sequence == 2 && slot.index == 2 && slot.slots == 3 && slot.tag == 12);
	land(0, 2);
	assert_int_equal(ha_receiver_test(&r, 0, sizes), 0);
	land(0, 0);
	assert_int_equal(ha_receiver_test(&r, 0, sizes), 1);
	assert_true(sizes[0] == 20 && sizes[1] == 21 && sizes[2] == 22);
	assert_int_equal(r.first_open, 3);
	ha_receiver_release(&r, 0);
	assert_int_equal(irecv(1), 0);
	assert_int_equal(irecv(0), -EINVAL);
	assert_int_equal(irecv(HA_GROUP + 1), -EINVAL);
}

static void all_slots(void **state)
{
	unsigned int i;

	begin_as(true);
	for (i = 0; i < HA_REQUESTS; i++)
		assert_int_equal(irecv(HA_GROUP), (int)i);
	assert_int_equal(irecv(1), -EAGAIN);
	for (i = 1; i < HA_SLOTS; i++)
		land(0, i);
	ha_receiver_release(&r, 1);
	assert_int_equal(irecv(1), -EAGAIN); /* a report has no room for a further slot */
	land(0, 0);
	assert_int_equal(irecv(1), 1);
}

/* Each request has its own sizes, although its entry in the ring is reused many times. */
static void untested(void **state)
{
	uint32_t sizes[HA_GROUP];
	uint32_t sequence;

	begin_as(true);
	irecv(1);
	land(0, 0);
	for (sequence = 1; sequence < 3 * HA_SLOTS; sequence++) {
		assert_int_equal(irecv(1), 1);
		land(0, sequence);
		ha_receiver_release(&r, 1);
	}
	assert_int_equal(ha_receiver_test(&r, 0, sizes), 1);
	assert_int_equal(sizes[0], 20);
}

static void resumes(void **state)
{
	switching();
	/* the receive is accepted, and waits for the end of the failover */
	assert_int_equal(irecv(1), 2);
	assert_int_equal(todo.posts, 0);
	receive(HA_MSG_RESUME, 1);
	is(HA_FLOWING, 1);
	/* the posts are for sequences 0 and 2, and for the new receive */
	assert_int_equal(todo.posts, 3);
	assert_true(todo.post[0] == 0 && todo.post[1] == 2 && todo.post[2] == 4);
	assert_true(todo.failover_over && r.end.failover.replayed == 3 &&
		    r.end.failover.delivered == 1);
	land(1, 0);
	is(HA_FLOWING, 1);
	receive(HA_MSG_RESUME, 1);
	assert_int_equal(todo.posts, 0);
}

static void opened(void **state)
{
	begin();
	receive(HA_MSG_OPEN, 1);
	is(HA_SWITCHING, 1);
	assert_true(todo.fence && r.end.cause == HA_CAUSE_PEER);
	receive(HA_MSG_OPEN, 1); /* no answer is sent before the path is drained */
	assert_int_equal(todo.msgs, 0);
	ha_receiver_drained(&r, 0, now, &todo);
	expect_sent(HA_MSG_REPORT, 1);
	receive(HA_MSG_OPEN, 1);
	expect_sent(HA_MSG_REPORT, 1);
	receive(HA_MSG_RESUME, 1);
	receive(HA_MSG_OPEN, 1);
	expect_sent(HA_MSG_REPORT, 1);
	is(HA_FLOWING, 1);
	receive(HA_MSG_OPEN, 2);
	is(HA_SWITCHING, 2);
	receive(HA_MSG_OPEN, 1);
	assert_int_equal(todo.msgs, 0);
}

/* The message RESUME was lost, and the sender has already left the next path, too. */
static void opened_while_switching(void **state)
{
	switching();
	receive(HA_MSG_OPEN, 2);
	is(HA_SWITCHING, 2);
	assert_true(todo.fence && todo.fence_epoch == 1);
	ha_receiver_drained(&r, 1, now, &todo);
	expect_sent(HA_MSG_REPORT, 2);
	receive(HA_MSG_RESUME, 1);
	is(HA_SWITCHING, 2);
	receive(HA_MSG_RESUME, 2);
	is(HA_FLOWING, 2);
}

static void a_broken_path(void **state)
{
	begin();
	ha_receiver_path(&r, 1, false, now, &todo);
	ha_receiver_completed(&r, ha_wr_id(0, 0), false, now, &todo);
	is(HA_BROKEN, 0);
	assert_true(todo.fence && !todo.msgs);
	ha_receiver_drained(&r, 0, now, &todo);
	ha_receiver_path(&r, 1, true, now, &todo);
	is(HA_SWITCHING, 1);
	expect_sent(HA_MSG_REPORT, 1);
	begin();
	ha_receiver_path(&r, 1, false, now, &todo);
	ha_receiver_trigger(&r, HA_CAUSE_PORT, now, &todo);
	ha_receiver_drained(&r, 0, now, &todo);
	now += RTO;
	ha_receiver_tick(&r, now, &todo);
	is(HA_FAILED, 0);
	assert_int_equal(r.end.error, -ETIMEDOUT);
	expect_sent(HA_MSG_ABORT, 0);
	receive(HA_MSG_OPEN, 1);
	expect_sent(HA_MSG_ABORT, 0);
}

static void msgs_again(void **state)
{
	unsigned int sent = 0;

	switching();
	while (r.end.state == HA_SWITCHING) {
		now += BEAT / 2;
		done_all();
		ha_receiver_tick(&r, now, &todo);
		sent += todo.msgs && todo.msg[0].type == HA_MSG_REPORT;
	}
	is(HA_FAILED, 1);
	assert_int_equal(sent, RTO / BEAT - 1);
	assert_int_equal(ha_receiver_test(&r, 0, NULL), -ETIMEDOUT);
	assert_int_equal(ha_receiver_test(&r, 1, NULL), 1);
	assert_int_equal(irecv(1), -ETIMEDOUT);
}

static void no_drain(void **state)
{
	begin();
	ha_receiver_trigger(&r, HA_CAUSE_PORT, now, &todo);
	now += RTO;
	done_all();
	ha_receiver_tick(&r, now, &todo);
	is(HA_FAILED, 1);
	expect_sent(HA_MSG_ABORT, 1);
}

static void impossible_payloads(void **state)
{
	begin();
	land(0, 1);
	is(HA_FAILED, 0);
	assert_int_equal(r.duplicates, 1);
	assert_int_equal(r.end.error, -EPROTO);
	begin();
	land(0, 77);
	is(HA_FAILED, 0);
	begin();
	ha_receiver_landed(&r, 0, 0, 65, now, &todo);
	is(HA_FAILED, 0);
	switching();
	land(0, 0); /* a payload that arrives after the report is an error */
	is(HA_FAILED, 1);
}

static void impossible_messages(void **state)
{
	begin();
	receive(HA_MSG_OPEN, 2);
	assert_int_equal(r.end.error, -EPROTO);
	begin();
	receive(HA_MSG_RESUME, 1);
	assert_int_equal(r.end.error, -EPROTO);
	begin();
	receive(HA_MSG_REPORT, 1);
	assert_int_equal(r.end.error, -EPROTO);
	begin();
	receive(HA_MSG_OPEN, 1);
	receive(HA_MSG_RESUME, 1); /* a RESUME that arrives before the report is an error */
	assert_int_equal(r.end.error, -EPROTO);
}

/* With only one path, payloads that arrived before the failure are delivered, because the sender
 * may rely on that. */
static void one_path(void **state)
{
	begin_as(false);
	irecv(1);
	irecv(1);
	done_all();
	ha_receiver_trigger(&r, HA_CAUSE_PORT, now, &todo);
	assert_true(todo.fence && !todo.ended);
	land(0, 0);
	ha_receiver_drained(&r, 0, now, &todo);
	is(HA_FAILED, 0);
	expect_sent(HA_MSG_ABORT, 0);
	assert_int_equal(ha_receiver_test(&r, 0, NULL), 1);
	assert_int_equal(ha_receiver_test(&r, 1, NULL), -EIO);
}

static void the_peer_ends(void **state)
{
	begin();
	receive(HA_MSG_CLOSE, 0);
	assert_true(todo.fence && !todo.ended);
	land(0, 0);
	land(0, 2);
	ha_receiver_drained(&r, 0, now, &todo);
	is(HA_FAILED, 0);
	assert_int_equal(ha_receiver_test(&r, 0, NULL), 1);
	assert_int_equal(ha_receiver_test(&r, 1, NULL), -ECONNRESET);
	begin_as(true);
	receive(HA_MSG_CLOSE, 0);
	ha_receiver_drained(&r, 0, now, &todo);
	is(HA_DONE, 0);
	assert_false(ha_receiver_lingers(&r, now));
	begin_as(true);
	receive(HA_MSG_ABORT, 0);
	ha_receiver_drained(&r, 0, now, &todo);
	is(HA_FAILED, 0);
}

static void closes(void **state)
{
	begin_as(true);
	irecv(1);
	land(0, 0);
	ha_receiver_close(&r, now, &todo);
	is(HA_DONE, 0);
	expect_sent(HA_MSG_CLOSE, 0);
	assert_int_equal(todo.msg[0].report.next, 1);
	assert_true(ha_receiver_lingers(&r, now));
	receive(HA_MSG_OPEN, 1);
	expect_sent(HA_MSG_REPORT, 1);
	done_all();
	now += BEAT;
	ha_receiver_tick(&r, now, &todo);
	expect_sent(HA_MSG_CLOSE, 0);
	now += 2 * RTO;
	assert_false(ha_receiver_lingers(&r, now));
	done_all();
	ha_receiver_tick(&r, now, &todo);
	assert_int_equal(todo.msgs, 0);
	begin();
	ha_receiver_close(&r, now, &todo);
	is(HA_FAILED, 0);
	assert_int_equal(r.end.error, -ECANCELED);
	assert_true(todo.fence);
}

static void probes(void **state)
{
	begin();
	ha_receiver_channel(&r, false, now, &todo);
	assert_true(todo.probe);
	ha_receiver_completed(&r, ha_wr_id(0, HA_WR_PROBE), true, now, &todo);
	is(HA_FLOWING, 0);
	ha_receiver_completed(&r, ha_wr_id(0, HA_WR_PROBE), false, now, &todo);
	is(HA_SWITCHING, 1);
	assert_int_equal(r.end.cause, HA_CAUSE_PROBE);
	/* a failed completion that belongs to the previous epoch is ignored */
	switching();
	receive(HA_MSG_RESUME, 1);
	ha_receiver_completed(&r, ha_wr_id(0, 0), false, now, &todo);
	is(HA_FLOWING, 1);
}

static void another_comms_msg(void **state)
{
	const struct ha_control_msg msg = {.type = HA_MSG_ABORT, .nonce = NONCE + 1};

	begin();
	ha_receiver_msg(&r, &msg, now, &todo);
	is(HA_FLOWING, 0);
	assert_false(r.peer_ended);
	receive(HA_MSG_ABORT, 0); /* a message that belongs to this comm ends it */
	assert_true(r.peer_ended);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(groups),
		cmocka_unit_test(all_slots),
		cmocka_unit_test(untested),
		cmocka_unit_test(resumes),
		cmocka_unit_test(opened),
		cmocka_unit_test(opened_while_switching),
		cmocka_unit_test(a_broken_path),
		cmocka_unit_test(msgs_again),
		cmocka_unit_test(no_drain),
		cmocka_unit_test(impossible_payloads),
		cmocka_unit_test(impossible_messages),
		cmocka_unit_test(one_path),
		cmocka_unit_test(the_peer_ends),
		cmocka_unit_test(closes),
		cmocka_unit_test(probes),
		cmocka_unit_test(another_comms_msg),
	};

	return cmocka_run_group_tests_name("nccl receiver", tests, NULL, NULL);
}
