/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/*
 * The acknowledgements of the soft endpoint: for which packets it requests ACKs, how it counts
 * messages, and how it treats late ACKs and ACKs after a retransmission.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <poll.h>
#include <stdlib.h>
#include "lib/base/clock.h"
#include "lib/channel/soft_priv.h"
#include "selftests/hostlib/soft_endpoint.h"

#define PAYLOAD    256
#define SLOTS      128
#define RECEIVE_MS 10000 /* time limit for a packet; only a failing test waits that long */

struct fixture {
	struct rc_peer peer;
	struct inccl_endpoint *ep;
	uint8_t send[SLOTS * PAYLOAD], recv[SLOTS * PAYLOAD];
	struct inc_channel_region region;
	struct inc_roce_packet received[SLOTS]; /* their payload pointers are not valid later */
	uint64_t now_ns; /* simulated clock for the decision when to acknowledge results */
};

/* Uses this endpoint, whose last collective seems to have just ended. */
static int use(struct fixture *w, struct inccl_endpoint *ep)
{
	w->ep = ep;
	endpoint_channel(ep)->tx.rto.rto_ns = INCCL_RTO_MAX_NS;
	w->now_ns = endpoint_channel(ep)->mirror->ended_at_ns = INC_NSEC_PER_SEC;
	return inccl_endpoint_map(ep, w->recv, sizeof(w->recv), true, &w->region);
}

static int setup(void **state)
{
	struct fixture *w = calloc(1, sizeof(*w));

	*state = w;
	if (!w)
		return -1;
	return use(w, endpoint_pair(&w->peer, PAYLOAD, SLOTS, 0xfffff0, 0xfffffe));
}

static int teardown(void **state)
{
	struct fixture *w = *state;

	endpoint_pair_close(&w->peer, w->ep);
	free(w);
	return 0;
}

/* Posts messages [first, end) of one packet each. If `last`, the final one ends a collective. */
static void post(struct fixture *w, unsigned int first, unsigned int end, bool last)
{
	const struct endpoint_vectors v = {w->send, w->recv, &w->region, PAYLOAD};

	endpoint_post_packets(w->ep, &v, first, end, last);
}

static void receive(struct fixture *w, unsigned int first, unsigned int end)
{
	struct inc_roce_packet pkt;
	unsigned int i;

	for (i = first; i < end; i++) {
		assert_true(rc_peer_receive(&w->peer, &pkt, RECEIVE_MS));
		assert_int_equal(pkt.psn, (w->peer.channel_psn + i) & INC_PSN_MASK);
		w->received[i] = pkt;
	}
}

static void serve(struct fixture *w)
{
	endpoint_serve(w->ep);
}

static void serve_until_resent(struct fixture *w, uint64_t packets)
{
	STEP_WHILE(endpoint_stats(w->ep).packets_resent < packets, serve(w); poll(NULL, 0, 1));
}

static void ack(struct fixture *w, uint8_t syndrome, unsigned int r)
{
	uint64_t before = endpoint_stats(w->ep).acks_received + endpoint_stats(w->ep).naks_received;

	rc_peer_ack(&w->peer, syndrome, w->peer.channel_psn + r);
	STEP_WHILE(endpoint_stats(w->ep).acks_received + endpoint_stats(w->ep).naks_received ==
			   before,
		   serve(w));
}

/* The endpoint requests an ACK with every 32nd packet, the last of a collective, and the last that
 * the window allows. Otherwise the window could be full of packets that are never acknowledged. */
static void where_acks_are_asked(void **state)
{
	struct fixture *w = *state;
	unsigned int i;

	post(w, 0, 40, true);
	post(w, 40, 100, false);
	assert_int_equal(inccl_endpoint_flush(w->ep), 0);
	receive(w, 0, 100);
	for (i = 0; i < 100; i++)
		assert_int_equal(w->received[i].ackreq,
				 i % INC_ACK_EVERY == INC_ACK_EVERY - 1 || i == 39 || i == 99);
}

/* The ACK of results carries the number of complete messages (MSN). */
static void messages_are_counted(void **state)
{
	struct fixture *w = *state;
	struct inc_roce_packet pkt;
	unsigned int r;

	post(w, 0, 7, true);
	assert_int_equal(inccl_endpoint_flush(w->ep), 0);
	receive(w, 0, 7);
	for (r = 0; r < 7; r++)
		rc_peer_mirror(&w->peer, &w->received[r], r, w->send);
	STEP_WHILE(w->ep->completed < 7 || endpoint_channel(w->ep)->ack_at_ns != UINT64_MAX,
		   serve(w));
	do
		assert_true(rc_peer_receive(&w->peer, &pkt, RECEIVE_MS));
	while (pkt.psn != ((w->peer.own_psn + 6) & INC_PSN_MASK));
	assert_int_equal(pkt.opcode, INC_OP_ACK);
	assert_int_equal(pkt.syndrome, INC_AETH_ACK);
	assert_int_equal(pkt.msn, 7);
}

/* A NAK acknowledges all packets before the one that it names, which a timeout retransmits. */
static void nak_acknowledges(void **state)
{
	struct fixture *w = *state;

	post(w, 0, 8, true);
	assert_int_equal(inccl_endpoint_flush(w->ep), 0);
	receive(w, 0, 8);
	endpoint_channel(w->ep)->tx.rto.rto_ns = INC_RTO_FIRST_NS;
	ack(w, INC_AETH_NAK_SEQ, 3);
	serve_until_resent(w, 5);
	receive(w, 3, 8);
	serve_until_resent(w, 6);
	receive(w, 3, 4);
	assert_true(w->received[3].ackreq);
}

/* A packet gives a sample of the round-trip time only if it was sent once. */
static void round_trip_samples(void **state)
{
	struct fixture *w = *state;
	struct soft_channel *s = endpoint_channel(w->ep);
	uint64_t first, sent_ns;

	post(w, 0, 4, true);
	assert_int_equal(inccl_endpoint_flush(w->ep), 0);
	receive(w, 0, 4);
	ack(w, INC_AETH_NAK_SEQ, 0);
	serve_until_resent(w, 4);
	receive(w, 0, 4);
	ack(w, INC_AETH_ACK, 3);
	assert_int_equal(s->tx.rto.srtt_ns, 0);

	sent_ns = inc_now_ns();
	post(w, 4, 8, true);
	assert_int_equal(inccl_endpoint_flush(w->ep), 0);
	receive(w, 4, 8);
	/* the sample is that of the last packet sent, and not of the first one acknowledged */
	ack(w, INC_AETH_ACK, 4);
	assert_int_equal(s->tx.rto.srtt_ns, 0);
	poll(NULL, 0, 30);
	ack(w, INC_AETH_ACK, 7);
	first = s->tx.rto.srtt_ns;
	assert_true(first >= 30 * INC_NSEC_PER_MSEC && first <= inc_now_ns() - sent_ns);
	/* the timeout includes room for the variance */
	assert_true(s->tx.rto.rto_ns >= 3 * first - 1000 || s->tx.rto.rto_ns == INCCL_RTO_MAX_NS);

	/* one fast round trip does not outweigh the slow one, and many do not push the timeout
	 * below its bound */
	post(w, 8, 9, true);
	assert_int_equal(inccl_endpoint_flush(w->ep), 0);
	receive(w, 8, 9);
	ack(w, INC_AETH_ACK, 8);
	assert_true(s->tx.rto.srtt_ns >= first * 3 / 4);
	s->tx.rto.srtt_ns = s->tx.rto.rttvar_ns = 1000;
	post(w, 9, 10, true);
	assert_int_equal(inccl_endpoint_flush(w->ep), 0);
	receive(w, 9, 10);
	ack(w, INC_AETH_ACK, 9);
	assert_true(s->tx.rto.rto_ns >= INCCL_RTO_MIN_NS);
}

/* Each timeout doubles the next one, until an acknowledgement arrives. After a timeout the endpoint
 * sends few packets at a time until everything that was in flight is acknowledged. */
static void backoff(void **state)
{
	struct fixture *w = *state;
	struct soft_channel *s = endpoint_channel(w->ep);
	uint64_t begin;

	s->tx.rto.rto_ns = INC_RTO_FIRST_NS;
	post(w, 0, 4, true);
	begin = inc_now_ns();
	assert_int_equal(inccl_endpoint_flush(w->ep), 0);
	receive(w, 0, 4);
	serve_until_resent(w, 3);
	/* the three timeouts last 1 + 2 + 4 times the first one */
	assert_true(inc_now_ns() - begin >= 7 * INC_RTO_FIRST_NS);
	assert_int_equal(endpoint_stats(w->ep).timeouts, 3);
	receive(w, 0, 1);
	receive(w, 0, 1);
	receive(w, 0, 1);
	s->tx.rto.rto_ns = INCCL_RTO_MAX_NS;
	ack(w, INC_AETH_ACK, 3);
	assert_int_equal(s->tx.rto.backoff, 0);
	post(w, 4, 68, true);
	assert_int_equal(inccl_endpoint_flush(w->ep), 0);
	receive(w, 4, 68);
	assert_int_equal(endpoint_stats(w->ep).packets_resent, 3);
}

/* Many frames are lost in a row. After three unanswered timeouts each further timeout retransmits
 * twice as many packets, one by one. The endpoint must not infer that the path loses sends of
 * several packets. */
static void silence(void **state)
{
	static const unsigned int again[] = {1, 1, 1, 2, 4, 8, 16, 32};
	struct fixture *w = *state;
	struct soft_channel *s = endpoint_channel(w->ep);
	uint64_t calls, total = 0;

	s->tx.rto.rto_ns = 2 * INC_NSEC_PER_MSEC;
	post(w, 0, 64, true);
	assert_int_equal(inccl_endpoint_flush(w->ep), 0);
	receive(w, 0, 64);
	for (size_t i = 0; i < sizeof(again) / sizeof(again[0]); i++) {
		total += again[i];
		serve_until_resent(w, total);
		receive(w, 0, again[i]);
	}
	assert_int_equal(endpoint_stats(w->ep).timeouts, 8);
	assert_int_equal(endpoint_stats(w->ep).packets_resent, total);
	assert_true(s->tx.uncut <= 1);
	/* after an answer the endpoint sends the remaining packets without further timeouts */
	calls = endpoint_stats(w->ep).timeouts;
	ack(w, INC_AETH_ACK, 31);
	serve(w);
	receive(w, 32, 64);
	ack(w, INC_AETH_ACK, 63);
	assert_int_equal(endpoint_stats(w->ep).timeouts, calls);
}

/* A result that arrives out of order, and then again, is a duplicate and not a second result. */
static void early_duplicates(void **state)
{
	struct fixture *w = *state;

	post(w, 0, 4, true);
	assert_int_equal(inccl_endpoint_flush(w->ep), 0);
	receive(w, 0, 4);
	rc_peer_mirror(&w->peer, &w->received[2], 2, w->send);
	rc_peer_mirror(&w->peer, &w->received[2], 2, w->send);
	STEP_WHILE(endpoint_stats(w->ep).results + endpoint_stats(w->ep).duplicates < 2, serve(w));
	assert_int_equal(endpoint_stats(w->ep).results, 1);
	assert_int_equal(endpoint_stats(w->ep).duplicates, 1);
	assert_int_equal(w->ep->completed, 0);
}

/* Posts collectives [first, end) of one packet each. The switch's results come later. */
static void collectives(struct fixture *w, unsigned int first, unsigned int end)
{
	unsigned int i;

	for (i = first; i < end; i++) {
		post(w, i, i + 1, true);
		assert_int_equal(inccl_endpoint_flush(w->ep), 0);
	}
	receive(w, first, end);
}

/* Lets the endpoint process all packets that have arrived. */
static void take_in(struct fixture *w)
{
	inc_soft_receive(soft_device_of(endpoint_channel(w->ep)));
	inc_soft_mirror_answer(endpoint_channel(w->ep), w->now_ns);
}

/* Lets the endpoint process the results [first, end), all at the same simulated time. */
static void take_results(struct fixture *w, unsigned int first, unsigned int end)
{
	uint64_t results = endpoint_stats(w->ep).results + end - first;
	unsigned int r;

	for (r = first; r < end; r++)
		rc_peer_mirror(&w->peer, &w->received[r], r, w->send);
	STEP_WHILE(endpoint_stats(w->ep).results < results,
		   inc_soft_receive(soft_device_of(endpoint_channel(w->ep))));
	inc_soft_mirror_answer(endpoint_channel(w->ep), w->now_ns);
}

/* Receives the endpoint's next ACK or NAK. Skips retransmissions of a busy machine. */
static bool receive_response(struct fixture *w, struct inc_roce_packet *pkt, int timeout_ms)
{
	while (rc_peer_receive(&w->peer, pkt, timeout_ms))
		if (pkt->opcode == INC_OP_ACK)
			return true;
	return false;
}

static void expect_no_ack(struct fixture *w)
{
	struct inc_roce_packet pkt;

	take_in(w);
	assert_false(receive_response(w, &pkt, 0));
}

/* Expects one ACK for all results before `end`. After it no ACK may be pending. */
static void expect_one_ack(struct fixture *w, unsigned int end)
{
	struct inc_roce_packet pkt;

	assert_true(receive_response(w, &pkt, RECEIVE_MS));
	assert_int_equal(pkt.syndrome, INC_AETH_ACK);
	assert_int_equal(pkt.psn, (w->peer.own_psn + end - 1) & INC_PSN_MASK);
	assert_true(endpoint_channel(w->ep)->ack_at_ns == UINT64_MAX);
	expect_no_ack(w);
}

/* Results of small collectives share an ACK. 32 results make one ACK, although each of them
 * requests one. PSNs wrap. */
static void acks_are_grouped(void **state)
{
	struct fixture *w = *state;

	collectives(w, 0, INC_ACK_EVERY + 2);
	assert_true(w->received[0].ackreq && w->received[1].ackreq);
	take_results(w, 0, 1);
	take_results(w, 1, INC_ACK_EVERY - 1);
	expect_no_ack(w);
	take_results(w, INC_ACK_EVERY - 1, INC_ACK_EVERY);
	expect_one_ack(w, INC_ACK_EVERY);
	assert_int_equal(endpoint_stats(w->ep).acks_sent, 1);
	/* the next group begins with the next result */
	take_results(w, INC_ACK_EVERY, INC_ACK_EVERY + 1);
	assert_true(endpoint_channel(w->ep)->ack_at_ns == w->now_ns + INC_ACK_HOLD_NS);
	expect_no_ack(w);
}

/* Fewer results are acknowledged when the hold time after the first of them is over. */
static void hold_time_ends(void **state)
{
	struct fixture *w = *state;
	const uint64_t end_ns = w->now_ns + INC_ACK_HOLD_NS;
	uint64_t at_ns;
	short events;
	int fd;

	collectives(w, 0, 3);
	take_results(w, 0, 1);
	assert_true(endpoint_channel(w->ep)->ack_at_ns == end_ns);
	/* later results do not postpone the ACK, whose time wakes a sleeping thread */
	w->now_ns += INC_ACK_HOLD_NS / 10;
	take_results(w, 1, 2);
	assert_true(endpoint_channel(w->ep)->ack_at_ns == end_ns);
	assert_int_equal(inccl_endpoint_arm(w->ep, &fd, &events, &at_ns), 0);
	assert_true(at_ns == end_ns);
	w->now_ns = end_ns - 1;
	expect_no_ack(w);
	w->now_ns = end_ns;
	take_in(w);
	expect_one_ack(w, 2);
}

/* Runs collectives that end at intervals of pace_ns, of which `group` results share an ACK. No ACK
 * may wait for the end of its hold time, because a thread would have to wake up for that. */
static void at_pace(struct fixture *w, unsigned int first, uint64_t pace_ns, unsigned int group)
{
	const unsigned int end = first + 2 * group;
	struct inc_roce_packet pkt;
	unsigned int r;

	collectives(w, first, end);
	endpoint_channel(w->ep)->mirror->took_ns = pace_ns;
	for (r = first; r < end; r++) {
		w->now_ns += pace_ns;
		assert_true(w->now_ns + INC_ACK_HOLD_NS / 10 < endpoint_channel(w->ep)->ack_at_ns);
		take_results(w, r, r + 1);
	}
	assert_true(receive_response(w, &pkt, RECEIVE_MS));
	assert_int_equal(pkt.psn, (w->peer.own_psn + first + group - 1) & INC_PSN_MASK);
	expect_one_ack(w, end);
}

static void group_size_by_pace(void **state)
{
	struct fixture *w = *state;

	at_pace(w, 0, 10000, INC_ACK_EVERY);
	at_pace(w, 64, 100000, 8);
	at_pace(w, 80, 200000, 3);
	at_pace(w, 86, 300000, 1);
	assert_int_equal(endpoint_stats(w->ep).acks_sent, 8);
}

/* One slow collective among fast ones does not end a group of results. Two in a row do. */
static void slow_collectives(void **state)
{
	const uint64_t quick_ns = INC_ACK_HOLD_NS / 100, slow_ns = INC_ACK_HOLD_NS / 5;
	const uint64_t took_ns[] = {quick_ns, quick_ns, slow_ns, quick_ns, slow_ns, slow_ns};
	struct fixture *w = *state;
	unsigned int r;

	collectives(w, 0, 6);
	for (r = 0; r < 6; r++) {
		assert_true(r == 0 || endpoint_channel(w->ep)->ack_at_ns != UINT64_MAX);
		expect_no_ack(w);
		w->now_ns += took_ns[r];
		take_results(w, r, r + 1);
	}
	expect_one_ack(w, 6);
}

/* The results of a long collective are acknowledged when it ends, and before that with every 32nd
 * result. */
static void long_collective_is_acknowledged(void **state)
{
	struct fixture *w = *state;

	post(w, 0, INC_ACK_EVERY + 2, true);
	assert_int_equal(inccl_endpoint_flush(w->ep), 0);
	receive(w, 0, INC_ACK_EVERY + 2);
	w->now_ns += INC_ACK_HOLD_NS;
	take_results(w, 0, INC_ACK_EVERY);
	expect_one_ack(w, INC_ACK_EVERY);
	take_results(w, INC_ACK_EVERY, INC_ACK_EVERY + 1);
	expect_no_ack(w);
	take_results(w, INC_ACK_EVERY + 1, INC_ACK_EVERY + 2);
	expect_one_ack(w, INC_ACK_EVERY + 2);
}

/* A switch that receives whole messages stores each result until it is acknowledged, and has
 * room for a window of results. So a quarter of the window causes an ACK, be it more or fewer than
 * 32 results. */
static void quarter_of_the_window_is_acknowledged(void **state)
{
	struct endpoint_form form = {.payload = PAYLOAD, .slots = SLOTS, .message_packets = 1};
	struct fixture *w = *state;
	unsigned int quarter;

	for (quarter = 4; quarter <= 64; quarter *= 16) {
		form.messages = 4 * quarter;
		endpoint_pair_close(&w->peer, w->ep);
		assert_int_equal(use(w, endpoint_pair_of(&w->peer, &form)), 0);
		post(w, 0, 2 * quarter, true);
		assert_int_equal(inccl_endpoint_flush(w->ep), 0);
		receive(w, 0, 2 * quarter);
		take_results(w, 0, quarter - 1);
		expect_no_ack(w);
		take_results(w, quarter - 1, quarter);
		expect_one_ack(w, quarter);
		assert_int_equal(endpoint_stats(w->ep).acks_sent, 1);
	}
}

/* If no caller is about to start the next collective, the endpoint acknowledges all results at
 * once, but not in the middle of a collective. */
static void acknowledged_at_once_without_a_caller(void **state)
{
	struct fixture *w = *state;

	collectives(w, 0, 2);
	endpoint_channel(w->ep)->mirror->unattended = true;
	take_results(w, 0, 1);
	expect_no_ack(w);
	assert_false(inccl_endpoint_quiet(w->ep));
	take_results(w, 1, 2);
	expect_one_ack(w, 2);
	assert_int_equal(endpoint_stats(w->ep).acks_sent, 1);
}

/* The ACK of a group is lost. The peer retransmits one result, and gets an ACK for all. */
static void grouped_ack_is_lost(void **state)
{
	struct fixture *w = *state;

	collectives(w, 0, INC_ACK_EVERY);
	take_results(w, 0, 1);
	take_results(w, 1, INC_ACK_EVERY);
	expect_one_ack(w, INC_ACK_EVERY);
	rc_peer_mirror(&w->peer, &w->received[0], 0, w->send);
	while (!endpoint_stats(w->ep).duplicates)
		take_in(w);
	expect_one_ack(w, INC_ACK_EVERY);
	assert_int_equal(endpoint_stats(w->ep).acks_sent, 2);
}

/* If a result requests an ACK although its contribution did not, it was retransmitted. It is
 * acknowledged at once, because the peer delays the next results until then. */
static void explicit_ack_requests(void **state)
{
	struct fixture *w = *state;

	post(w, 0, 8, true);
	assert_int_equal(inccl_endpoint_flush(w->ep), 0);
	receive(w, 0, 8);
	take_results(w, 0, 1);
	expect_no_ack(w);
	w->received[1].ackreq = true;
	take_results(w, 1, 2);
	expect_one_ack(w, 2);

	/* the last result requests an ACK as its contribution did, and here it arrives early */
	rc_peer_mirror(&w->peer, &w->received[7], 7, w->send);
	while (endpoint_stats(w->ep).results < 3)
		take_in(w);
	/* a retransmitted result fills the gap */
	take_results(w, 2, 3);
	expect_no_ack(w);
	w->received[6].ackreq = true;
	take_results(w, 3, 7);
	expect_one_ack(w, 8);
}

/* Each result requests an ACK as its contribution did. The result that fills a gap was
 * retransmitted, so it is acknowledged at once. */
static void gap_is_closed(void **state)
{
	struct fixture *w = *state;

	collectives(w, 0, 3);
	take_results(w, 0, 1);
	take_results(w, 2, 3);
	expect_no_ack(w);
	take_results(w, 1, 2);
	expect_one_ack(w, 3);
}

/* A peer whose packets have ECT may have used up a small congestion window. So the ACK that its
 * result requests is sent at once, although the contribution has requested one, too. */
static void small_window_is_acknowledged(void **state)
{
	struct fixture *w = *state;

	collectives(w, 0, 3);
	take_results(w, 0, 1);
	expect_no_ack(w);
	w->peer.tos = 2;
	take_results(w, 1, 2);
	expect_one_ack(w, 2);
	w->received[2].ackreq = false;
	take_results(w, 2, 3);
	expect_no_ack(w);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(where_acks_are_asked),
		CASE(messages_are_counted),
		CASE(nak_acknowledges),
		CASE(round_trip_samples),
		CASE(backoff),
		CASE(silence),
		CASE(early_duplicates),
		CASE(acks_are_grouped),
		CASE(hold_time_ends),
		CASE(group_size_by_pace),
		CASE(slow_collectives),
		CASE(long_collective_is_acknowledged),
		CASE(quarter_of_the_window_is_acknowledged),
		CASE(acknowledged_at_once_without_a_caller),
		CASE(grouped_ack_is_lost),
		CASE(explicit_ack_requests),
		CASE(gap_is_closed),
		CASE(small_window_is_acknowledged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
