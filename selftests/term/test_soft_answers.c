/* SPDX-License-Identifier: BSD-2-Clause */
/* When a soft channel of a switch acknowledges the messages of its peer, which the test plays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "lib/roce/requester.h"
#include "selftests/term/soft_lone.h"

static void test_asked(void **state)
{
	struct lone *w = *state;

	/* a packet within the message requests an ACK, which waits for the message's end */
	rc_peer_send(&w->peer, &(struct rc_packet){.opcode = INC_OP_SEND_FIRST,
						   .psn = w->psn++,
						   .ackreq = true,
						   .payload = w->bytes,
						   .len = PAYLOAD});
	inc_channel_soft.progress(w->dev);
	inc_channel_soft.flush(w->dev);
	assert_int_equal(lone_figures(w).acks_sent, 0);
	lone_send(w, INC_OP_SEND_LAST, 4);
	lone_expect(w, INC_AETH_ACK, PEER_PSN + 1);
	assert_int_equal(lone_figures(w).acks_sent, 1);
}

/* Expects the endpoint's reply to the first packet, and then the ACK. */
static void expect_reply_and_ack(struct lone *w)
{
	struct inc_roce_packet pkt;

	assert_true(lone_receive(w, &pkt));
	assert_int_equal(pkt.opcode, INC_OP_SEND_ONLY);
	lone_expect(w, INC_AETH_ACK, PEER_PSN);
}

/* A result is sent before the ACK of the message from which it was made. The result replaces that
 * ACK if the peer agreed to that. */
static void test_ack_and_result(void **state)
{
	struct lone *w = *state;
	const struct rc_packet asks = {.opcode = INC_OP_SEND_ONLY,
				       .psn = PEER_PSN,
				       .ackreq = true,
				       .payload = w->bytes,
				       .len = 8};

	w->replies = true;
	rc_peer_send(&w->peer, &asks);
	inc_channel_soft.progress(w->dev);
	inc_channel_soft.flush(w->dev);
	assert_int_equal(lone_figures(w).acks_sent, 1);
	expect_reply_and_ack(w);

	lone_end(w);
	w->results_acknowledge = true;
	lone_make(w, true, false);
	rc_peer_send(&w->peer, &asks);
	inc_channel_soft.progress(w->dev);
	inc_channel_soft.flush(w->dev);
	assert_int_equal(lone_figures(w).acks_sent, 0);
	expect_reply_and_ack(w);
}

/* A peer gets an ACK for 32 packets that have come. A peer that uses results as acknowledgements
 * gets one only after a while. */
static void test_acks_are_rare(void **state)
{
	struct lone *w = *state;
	unsigned int round, i;

	for (round = 0; round < 2; round++) {
		w->n_got = 0;
		for (i = 0; i < INC_ACK_EVERY; i++) {
			assert_int_equal(lone_figures(w).acks_sent, 0);
			lone_send(w, INC_OP_SEND_ONLY, 8);
			inc_channel_soft.progress(w->dev);
			inc_channel_soft.flush(w->dev);
			assert_int_equal(w->n_got, i + 1);
			assert_int_equal(inc_channel_soft.post(w->ch, w->last), 0);
		}
		assert_int_equal(lone_figures(w).acks_sent, !round);
		lone_expect(w, INC_AETH_ACK, PEER_PSN + INC_ACK_EVERY - 1);
		lone_end(w);
		w->results_acknowledge = true;
		lone_make(w, true, false);
	}
}

#define CASE(name) cmocka_unit_test_setup_teardown(test_##name, lone_setup, lone_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(asked),
		CASE(ack_and_result),
		CASE(acks_are_rare),
	};

	return cmocka_run_group_tests_name("soft answers", tests, NULL, NULL);
}
