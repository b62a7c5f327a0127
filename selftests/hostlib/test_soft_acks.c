/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/*
 * What the soft endpoint asks of its peer and tells it: where it wants ACKs, which messages it
 * counts, and what it concludes from acknowledgements that come late, or after a resend.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <poll.h>
#include <stdlib.h>
#include "lib/base/clock.h"
#include "hostlib/src/soft.h"
#include "selftests/hostlib/peer.h"

#define PAYLOAD 256
#define SLOTS   128
#define HEAR_MS 10000 /* only a failing test waits so long */

struct world {
	struct peer peer;
	struct inccl_endpoint *ep;
	uint8_t send[SLOTS * PAYLOAD], recv[SLOTS * PAYLOAD];
	struct inccl_region region;
	struct inc_roce_packet heard[SLOTS]; /* payload pointers are not kept */
	uint64_t now_ns; /* when answers are thought of: the case's affair, not the machine's */
};

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	*state = w;
	if (!w)
		return -1;
	w->ep = peer_pair(&w->peer, PAYLOAD, SLOTS, 0xfffff0, 0xfffffe);
	SOFT_EP(w->ep)->tx.rto.rto_ns = SOFT_RTO_MAX_NS;
	/* a collective has just ended */
	w->now_ns = SOFT_EP(w->ep)->ended_at_ns = INC_NSEC_PER_SEC;
	return w->ep->ops->map(w->ep, w->recv, sizeof(w->recv), true, &w->region);
}

static int teardown(void **state)
{
	struct world *w = *state;

	peer_close(&w->peer, w->ep);
	free(w);
	return 0;
}

/* Messages [first, end) of one packet each; the last one ends a collective where told so. */
static void post(struct world *w, unsigned int first, unsigned int end, bool last)
{
	unsigned int i;

	for (i = first; i < end; i++) {
		struct inccl_message msg = {
			.send = w->send + i * PAYLOAD,
			.recv = w->recv + i * PAYLOAD,
			.send_len = PAYLOAD,
			.recv_len = PAYLOAD,
			.send_region = &w->region,
			.recv_region = &w->region,
			.mode = INCCL_MODE_SENDRECV,
			.has_imm = i == first,
			.last = last && i + 1 == end,
		};

		assert_int_equal(w->ep->ops->post(w->ep, &msg), 0);
	}
}

static void hear(struct world *w, unsigned int first, unsigned int end)
{
	struct inc_roce_packet pkt;
	unsigned int i;

	for (i = first; i < end; i++) {
		assert_true(peer_hear(&w->peer, &pkt, HEAR_MS));
		assert_int_equal(pkt.psn, (w->peer.host_psn + i) & INC_PSN_MASK);
		w->heard[i] = pkt;
	}
}

static void serve(struct world *w)
{
	assert_true(w->ep->ops->progress(w->ep) >= 0);
	assert_int_equal(w->ep->ops->flush(w->ep), 0);
}

static void serve_until_resent(struct world *w, uint64_t packets)
{
	uint64_t end = deadline_after_ms(HEAR_MS);

	while (w->ep->stats.packets_resent < packets) {
		serve(w);
		assert_true(inc_now_ns() < end);
		poll(NULL, 0, 1);
	}
}

static void ack(struct world *w, uint8_t syndrome, unsigned int r)
{
	uint64_t before = w->ep->stats.acks_received + w->ep->stats.naks_received;
	uint64_t end = deadline_after_ms(HEAR_MS);

	peer_ack(&w->peer, syndrome, w->peer.host_psn + r);
	while (w->ep->stats.acks_received + w->ep->stats.naks_received == before) {
		serve(w);
		assert_true(inc_now_ns() < end);
	}
}

/* ACKs are asked for with every 32nd packet, with the last of a collective, and with the last
 * that may be sent: the window is never full of packets that nobody will acknowledge. */
static void where_acks_are_asked(void **state)
{
	struct world *w = *state;
	unsigned int i;

	post(w, 0, 40, true);
	post(w, 40, 100, false);
	assert_int_equal(w->ep->ops->flush(w->ep), 0);
	hear(w, 0, 100);
	for (i = 0; i < 100; i++)
		assert_int_equal(w->heard[i].ackreq,
				 i % INC_ACK_EVERY == INC_ACK_EVERY - 1 || i == 39 || i == 99);
}

/* The ACK of results says how many messages are complete. */
static void messages_are_counted(void **state)
{
	struct world *w = *state;
	struct inc_roce_packet pkt;
	uint64_t end = deadline_after_ms(HEAR_MS);
	unsigned int r;

	post(w, 0, 7, true);
	assert_int_equal(w->ep->ops->flush(w->ep), 0);
	hear(w, 0, 7);
	for (r = 0; r < 7; r++)
		peer_mirror(&w->peer, &w->heard[r], r, w->send);
	while (w->ep->completed < 7 || w->ep->tell_at_ns != UINT64_MAX) {
		serve(w);
		assert_true(inc_now_ns() < end);
	}
	do
		assert_true(peer_hear(&w->peer, &pkt, HEAR_MS));
	while (pkt.psn != ((w->peer.own_psn + 6) & INC_PSN_MASK));
	assert_int_equal(pkt.opcode, INC_OP_ACK);
	/* the AETH behind the BTH: syndrome, 24 bits of MSN */
	assert_int_equal(w->peer.buf[INC_BTH_LEN], INC_AETH_ACK);
	assert_int_equal(w->peer.buf[INC_BTH_LEN + 1] << 16 | w->peer.buf[INC_BTH_LEN + 2] << 8 |
				 w->peer.buf[INC_BTH_LEN + 3],
			 7);
}

/* A NAK acknowledges what is before the packet that it names: the timer's probe is that one. */
static void nak_acknowledges(void **state)
{
	struct world *w = *state;

	post(w, 0, 8, true);
	assert_int_equal(w->ep->ops->flush(w->ep), 0);
	hear(w, 0, 8);
	SOFT_EP(w->ep)->tx.rto.rto_ns = INC_RTO_FIRST_NS;
	ack(w, INC_AETH_NAK_SEQ, 3);
	serve_until_resent(w, 5);
	hear(w, 3, 8);
	serve_until_resent(w, 6);
	hear(w, 3, 4);
	assert_true(w->heard[3].ackreq);
}

/* What was sent again tells nothing about the time of a round trip; what was not does. */
static void samples(void **state)
{
	struct world *w = *state;
	struct soft_endpoint *s = SOFT_EP(w->ep);
	uint64_t first, sent_ns;

	post(w, 0, 4, true);
	assert_int_equal(w->ep->ops->flush(w->ep), 0);
	hear(w, 0, 4);
	ack(w, INC_AETH_NAK_SEQ, 0);
	serve_until_resent(w, 4);
	hear(w, 0, 4);
	ack(w, INC_AETH_ACK, 3);
	assert_int_equal(s->tx.rto.srtt_ns, 0);

	sent_ns = inc_now_ns();
	post(w, 4, 8, true);
	assert_int_equal(w->ep->ops->flush(w->ep), 0);
	hear(w, 4, 8);
	/* of the last one sent, not of the first one acknowledged */
	ack(w, INC_AETH_ACK, 4);
	assert_int_equal(s->tx.rto.srtt_ns, 0);
	poll(NULL, 0, 30);
	ack(w, INC_AETH_ACK, 7);
	first = s->tx.rto.srtt_ns;
	assert_true(first >= 30 * INC_NSEC_PER_MSEC && first <= inc_now_ns() - sent_ns);
	/* the timeout leaves room for its variance */
	assert_true(s->tx.rto.rto_ns >= 3 * first - 1000 || s->tx.rto.rto_ns == SOFT_RTO_MAX_NS);

	/* a fast one does not outweigh it, and many do not undercut the bound */
	post(w, 8, 9, true);
	assert_int_equal(w->ep->ops->flush(w->ep), 0);
	hear(w, 8, 9);
	ack(w, INC_AETH_ACK, 8);
	assert_true(s->tx.rto.srtt_ns >= first * 3 / 4);
	s->tx.rto.srtt_ns = s->tx.rto.rttvar_ns = 1000;
	post(w, 9, 10, true);
	assert_int_equal(w->ep->ops->flush(w->ep), 0);
	hear(w, 9, 10);
	ack(w, INC_AETH_ACK, 9);
	assert_true(s->tx.rto.rto_ns >= SOFT_RTO_MIN_NS);
}

/* Timeouts double the time to the next; an acknowledgement ends that, and the caution after a
 * timeout ends when all that was under way then is acknowledged. */
static void backoff(void **state)
{
	struct world *w = *state;
	struct soft_endpoint *s = SOFT_EP(w->ep);
	uint64_t begin;

	s->tx.rto.rto_ns = INC_RTO_FIRST_NS;
	post(w, 0, 4, true);
	begin = inc_now_ns();
	assert_int_equal(w->ep->ops->flush(w->ep), 0);
	hear(w, 0, 4);
	serve_until_resent(w, 3);
	/* 1 + 2 + 4 times the first */
	assert_true(inc_now_ns() - begin >= 7 * INC_RTO_FIRST_NS);
	assert_int_equal(w->ep->stats.timeouts, 3);
	hear(w, 0, 1);
	hear(w, 0, 1);
	hear(w, 0, 1);
	s->tx.rto.rto_ns = SOFT_RTO_MAX_NS;
	ack(w, INC_AETH_ACK, 3);
	assert_int_equal(s->tx.rto.backoff, 0);
	post(w, 4, 68, true);
	assert_int_equal(w->ep->ops->flush(w->ep), 0);
	hear(w, 4, 68);
	assert_int_equal(w->ep->stats.packets_resent, 3);
}

/* Many frames lost in a row: after three timeouts that nobody has answered, each sends twice as
 * many, one by one, and is no sign of a path that loses what goes together. */
static void silence(void **state)
{
	static const unsigned int again[] = {1, 1, 1, 2, 4, 8, 16, 32};
	struct world *w = *state;
	struct soft_endpoint *s = SOFT_EP(w->ep);
	uint64_t calls, total = 0;

	s->tx.rto.rto_ns = 2 * INC_NSEC_PER_MSEC;
	post(w, 0, 64, true);
	assert_int_equal(w->ep->ops->flush(w->ep), 0);
	hear(w, 0, 64);
	for (size_t i = 0; i < sizeof(again) / sizeof(again[0]); i++) {
		total += again[i];
		serve_until_resent(w, total);
		hear(w, 0, again[i]);
	}
	assert_int_equal(w->ep->stats.timeouts, 8);
	assert_int_equal(w->ep->stats.packets_resent, total);
	assert_true(s->tx.uncut <= 1);
	/* the rest goes as soon as there is an answer */
	calls = w->ep->stats.timeouts;
	ack(w, INC_AETH_ACK, 31);
	serve(w);
	hear(w, 32, 64);
	ack(w, INC_AETH_ACK, 63);
	assert_int_equal(w->ep->stats.timeouts, calls);
}

/* A result that is there and not yet in order is no second result when it comes again. */
static void early_duplicates(void **state)
{
	struct world *w = *state;
	uint64_t end = deadline_after_ms(HEAR_MS);

	post(w, 0, 4, true);
	assert_int_equal(w->ep->ops->flush(w->ep), 0);
	hear(w, 0, 4);
	peer_mirror(&w->peer, &w->heard[2], 2, w->send);
	peer_mirror(&w->peer, &w->heard[2], 2, w->send);
	while (w->ep->stats.results + w->ep->stats.duplicates < 2) {
		serve(w);
		assert_true(inc_now_ns() < end);
	}
	assert_int_equal(w->ep->stats.results, 1);
	assert_int_equal(w->ep->stats.duplicates, 1);
	assert_int_equal(w->ep->completed, 0);
}

/* Collectives [first, end) of one packet each; the switch's results come later. */
static void collectives(struct world *w, unsigned int first, unsigned int end)
{
	unsigned int i;

	for (i = first; i < end; i++) {
		post(w, i, i + 1, true);
		assert_int_equal(w->ep->ops->flush(w->ep), 0);
	}
	hear(w, first, end);
}

/* Takes in what has come. */
static void take_in(struct world *w)
{
	assert_true(soft_receive(SOFT_EP(w->ep)) >= 0);
	soft_answer(SOFT_EP(w->ep), w->now_ns);
}

/* All at the same time. */
static void take_results(struct world *w, unsigned int first, unsigned int end)
{
	uint64_t results = w->ep->stats.results + end - first, until = deadline_after_ms(HEAR_MS);
	unsigned int r;

	for (r = first; r < end; r++)
		peer_mirror(&w->peer, &w->heard[r], r, w->send);
	while (w->ep->stats.results < results) {
		assert_true(soft_receive(SOFT_EP(w->ep)) >= 0);
		assert_true(inc_now_ns() < until);
	}
	soft_answer(SOFT_EP(w->ep), w->now_ns);
}

/* A response; what the endpoint sends again meanwhile, on a busy machine, is none. */
static bool hear_response(struct world *w, struct inc_roce_packet *pkt, int timeout_ms)
{
	while (peer_hear(&w->peer, pkt, timeout_ms))
		if (pkt->opcode == INC_OP_ACK)
			return true;
	return false;
}

static void hear_no_ack(struct world *w)
{
	struct inc_roce_packet pkt;

	take_in(w);
	assert_false(hear_response(w, &pkt, 0));
}

/* One ACK, of all results before end, and none is pending after it. */
static void hear_one_ack(struct world *w, unsigned int end)
{
	struct inc_roce_packet pkt;

	assert_true(hear_response(w, &pkt, HEAR_MS));
	assert_int_equal(pkt.syndrome, INC_AETH_ACK);
	assert_int_equal(pkt.psn, (w->peer.own_psn + end - 1) & INC_PSN_MASK);
	assert_true(w->ep->tell_at_ns == UINT64_MAX);
	hear_no_ack(w);
}

/* Results of small collectives share an ACK: 32 make one, though each asks. PSNs wrap. */
static void acks_are_grouped(void **state)
{
	struct world *w = *state;

	collectives(w, 0, INC_ACK_EVERY + 2);
	assert_true(w->heard[0].ackreq && w->heard[1].ackreq);
	take_results(w, 0, 1);
	take_results(w, 1, INC_ACK_EVERY - 1);
	hear_no_ack(w);
	take_results(w, INC_ACK_EVERY - 1, INC_ACK_EVERY);
	hear_one_ack(w, INC_ACK_EVERY);
	assert_int_equal(w->ep->stats.acks_sent, 1);
	/* the next group begins with the next result */
	take_results(w, INC_ACK_EVERY, INC_ACK_EVERY + 1);
	assert_true(w->ep->tell_at_ns == w->now_ns + INC_ACK_HOLD_NS);
	hear_no_ack(w);
}

/* Fewer wait for others no longer than the hold after the first of them. */
static void hold_ends(void **state)
{
	struct world *w = *state;
	const uint64_t end_ns = w->now_ns + INC_ACK_HOLD_NS;
	uint64_t at_ns;
	short events;
	int fd;

	collectives(w, 0, 3);
	take_results(w, 0, 1);
	assert_true(w->ep->tell_at_ns == end_ns);
	/* what comes later does not put it off; whoever sleeps wakes for it */
	w->now_ns += INC_ACK_HOLD_NS / 10;
	take_results(w, 1, 2);
	assert_true(w->ep->tell_at_ns == end_ns);
	assert_int_equal(w->ep->ops->arm(w->ep, &fd, &events, &at_ns), 0);
	assert_true(at_ns == end_ns);
	w->now_ns = end_ns - 1;
	hear_no_ack(w);
	w->now_ns = end_ns;
	take_in(w);
	hear_one_ack(w, 2);
}

/* Collectives that end at intervals of pace_ns have so many results to an ACK, and none of them
 * waits for the end of its hold, for which somebody would be woken. */
static void at_pace(struct world *w, unsigned int first, uint64_t pace_ns, unsigned int group)
{
	const unsigned int end = first + 2 * group;
	struct inc_roce_packet pkt;
	unsigned int r;

	collectives(w, first, end);
	SOFT_EP(w->ep)->took_ns = pace_ns;
	for (r = first; r < end; r++) {
		w->now_ns += pace_ns;
		assert_true(w->now_ns + INC_ACK_HOLD_NS / 10 < w->ep->tell_at_ns);
		take_results(w, r, r + 1);
	}
	assert_true(hear_response(w, &pkt, HEAR_MS));
	assert_int_equal(pkt.psn, (w->peer.own_psn + first + group - 1) & INC_PSN_MASK);
	hear_one_ack(w, end);
}

static void groups_of_the_pace(void **state)
{
	struct world *w = *state;

	at_pace(w, 0, 10000, INC_ACK_EVERY);
	at_pace(w, 64, 100000, 8);
	at_pace(w, 80, 200000, 3);
	at_pace(w, 86, 300000, 1);
	assert_int_equal(w->ep->stats.acks_sent, 8);
}

/* One slow collective among quick ones does not end a group, two running do. */
static void slow_ones(void **state)
{
	const uint64_t quick_ns = INC_ACK_HOLD_NS / 100, slow_ns = INC_ACK_HOLD_NS / 5;
	const uint64_t took_ns[] = {quick_ns, quick_ns, slow_ns, quick_ns, slow_ns, slow_ns};
	struct world *w = *state;
	unsigned int r;

	collectives(w, 0, 6);
	for (r = 0; r < 6; r++) {
		assert_true(r == 0 || w->ep->tell_at_ns != UINT64_MAX);
		hear_no_ack(w);
		w->now_ns += took_ns[r];
		take_results(w, r, r + 1);
	}
	hear_one_ack(w, 6);
}

/* A long collective is told of as it ends, and before that with every 32nd result. */
static void long_one_is_told(void **state)
{
	struct world *w = *state;

	post(w, 0, INC_ACK_EVERY + 2, true);
	assert_int_equal(w->ep->ops->flush(w->ep), 0);
	hear(w, 0, INC_ACK_EVERY + 2);
	w->now_ns += INC_ACK_HOLD_NS;
	take_results(w, 0, INC_ACK_EVERY);
	hear_one_ack(w, INC_ACK_EVERY);
	take_results(w, INC_ACK_EVERY, INC_ACK_EVERY + 1);
	hear_no_ack(w);
	take_results(w, INC_ACK_EVERY + 1, INC_ACK_EVERY + 2);
	hear_one_ack(w, INC_ACK_EVERY + 2);
}

/* A switch that receives whole messages keeps each result until it is acknowledged, and has room
 * for a window of them. So a quarter of the window makes an ACK, long before 32 results do. */
static void quarter_is_told(void **state)
{
	const struct peer_form form = {
		.payload = PAYLOAD, .slots = SLOTS, .message_packets = 1, .messages = 16};
	struct world *w = *state;

	peer_close(&w->peer, w->ep);
	w->ep = peer_pair_by_message(&w->peer, &form);
	SOFT_EP(w->ep)->tx.rto.rto_ns = SOFT_RTO_MAX_NS;
	SOFT_EP(w->ep)->ended_at_ns = w->now_ns;
	assert_int_equal(w->ep->ops->map(w->ep, w->recv, sizeof(w->recv), true, &w->region), 0);
	post(w, 0, 8, true);
	assert_int_equal(w->ep->ops->flush(w->ep), 0);
	hear(w, 0, 8);
	take_results(w, 0, 3);
	hear_no_ack(w);
	take_results(w, 3, 4);
	hear_one_ack(w, 4);
	assert_int_equal(w->ep->stats.acks_sent, 1);
}

/* Nobody is about to go on: all that is there is told at once, but not in the middle. */
static void quiet_is_told(void **state)
{
	struct world *w = *state;

	collectives(w, 0, 2);
	w->ep->unattended = true;
	take_results(w, 0, 1);
	hear_no_ack(w);
	assert_false(w->ep->ops->quiet(w->ep));
	take_results(w, 1, 2);
	hear_one_ack(w, 2);
	assert_int_equal(w->ep->stats.acks_sent, 1);
}

/* The ACK of a group is lost: the peer sends one of its results again, and hears of all. */
static void grouped_ack_is_lost(void **state)
{
	struct world *w = *state;

	collectives(w, 0, INC_ACK_EVERY);
	take_results(w, 0, 1);
	take_results(w, 1, INC_ACK_EVERY);
	hear_one_ack(w, INC_ACK_EVERY);
	peer_mirror(&w->peer, &w->heard[0], 0, w->send);
	while (!w->ep->stats.duplicates)
		take_in(w);
	hear_one_ack(w, INC_ACK_EVERY);
	assert_int_equal(w->ep->stats.acks_sent, 2);
}

/* What the peer asks beyond the mirror of our own question is answered at once: it sends results
 * again and waits with the next ones. */
static void explicit_questions(void **state)
{
	struct world *w = *state;

	post(w, 0, 8, true);
	assert_int_equal(w->ep->ops->flush(w->ep), 0);
	hear(w, 0, 8);
	take_results(w, 0, 1);
	hear_no_ack(w);
	w->heard[1].ackreq = true;
	take_results(w, 1, 2);
	hear_one_ack(w, 2);

	/* the last one asks as its contribution did; here it comes before the others, */
	peer_mirror(&w->peer, &w->heard[7], 7, w->send);
	while (w->ep->stats.results < 3)
		take_in(w);
	/* and what closes the gap is a result sent again */
	take_results(w, 2, 3);
	hear_no_ack(w);
	w->heard[6].ackreq = true;
	take_results(w, 3, 7);
	hear_one_ack(w, 8);
}

/* Of results that each ask as their contributions did, the one that closes a gap was sent again. */
static void gap_is_closed(void **state)
{
	struct world *w = *state;

	collectives(w, 0, 3);
	take_results(w, 0, 1);
	take_results(w, 2, 3);
	hear_no_ack(w);
	take_results(w, 1, 2);
	hear_one_ack(w, 3);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(where_acks_are_asked),
		CASE(messages_are_counted),
		CASE(nak_acknowledges),
		CASE(samples),
		CASE(backoff),
		CASE(silence),
		CASE(early_duplicates),
		CASE(acks_are_grouped),
		CASE(hold_ends),
		CASE(groups_of_the_pace),
		CASE(slow_ones),
		CASE(long_one_is_told),
		CASE(quarter_is_told),
		CASE(quiet_is_told),
		CASE(grouped_ack_is_lost),
		CASE(explicit_questions),
		CASE(gap_is_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
