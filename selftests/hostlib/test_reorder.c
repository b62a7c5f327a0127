/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/*
 * A peer that keeps contributions and sends results in any order. A result acknowledges its own
 * contribution alone. Only what a NAK or the answer to a probe names is sent again, and each result
 * that is lost is named.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "lib/base/clock.h"
#include "lib/channel/soft_priv.h"
#include "selftests/hostlib/soft_endpoint.h"

#define PAYLOAD    MIRROR_PAYLOAD
#define RECEIVE_MS 10000 /* time limit for a packet; only a failing test waits that long */

static int setup(void **state)
{
	const int ret = mirror_setup(state, true);
	const struct mirror_fixture *w = *state;

	/* no probe counts as lost, and silence brings none */
	if (!ret) {
		w->tx->sel.probe_rtt_ns = INCCL_RTO_MAX_NS;
		w->tx->sel.tries = 100;
	}
	return ret;
}

enum kind { DATA, PROBE, NAK, ACK };

static enum kind kind_of(const struct inc_roce_packet *pkt)
{
	if (pkt->opcode != INC_OP_ACK)
		return DATA;
	return pkt->ackreq ? PROBE : pkt->syndrome == INC_AETH_NAK_SEQ ? NAK : ACK;
}

/* Receives the next packet that is no ordinary ACK, which must be of this kind. */
static void expect(struct mirror_fixture *w, enum kind kind, struct inc_roce_packet *pkt)
{
	do {
		STEP_WHILE(!rc_peer_receive(&w->peer, pkt, 0), endpoint_serve(w->ep));
	} while (kind_of(pkt) == ACK);
	assert_int_equal(kind_of(pkt), kind);
	if (kind == PROBE)
		w->probe = pkt->msn;
}

static void expect_psn(struct mirror_fixture *w, enum kind kind, uint32_t psn)
{
	struct inc_roce_packet pkt;

	expect(w, kind, &pkt);
	assert_int_equal(pkt.psn, psn & INC_PSN_MASK);
}

static void expect_nak(struct mirror_fixture *w, uint32_t psn, uint32_t gap)
{
	struct inc_roce_packet pkt;

	expect(w, NAK, &pkt);
	assert_int_equal(pkt.psn, psn);
	assert_int_equal(pkt.msn, gap);
}

/* Nothing has come for so long that a probe is due. */
static void expect_probe_after_silence(struct mirror_fixture *w, uint32_t psn)
{
	assert_int_not_equal(w->tx->probe_at_ns, UINT64_MAX);
	w->tx->probe_at_ns = inc_now_ns();
	soft_due(SOFT_DEV(w->ep->dev), w->tx->probe_at_ns);
	expect_psn(w, PROBE, psn);
}

/* Posts contributions [first, end) as one collective, and sends those that may be sent. */
static void post(struct mirror_fixture *w, unsigned int first, unsigned int end)
{
	const struct endpoint_vectors v = {w->send, w->recv, &w->region, PAYLOAD};

	endpoint_post_packets(w->ep, &v, first, end, true);
	assert_int_equal(inccl_endpoint_flush(w->ep), 0);
}

/* Sends contributions [first, end) as one collective, which the peer receives. */
static void contribute(struct mirror_fixture *w, unsigned int first, unsigned int end)
{
	unsigned int i;

	post(w, first, end);
	for (i = first; i < end; i++) {
		expect(w, DATA, &w->received[i]);
		assert_int_equal(w->received[i].psn, i);
	}
}

static void give_result(struct mirror_fixture *w, unsigned int r)
{
	const uint64_t packets = endpoint_channel(w->ep)->rx_packets;

	rc_peer_mirror(&w->peer, &w->received[r], r, w->send);
	STEP_WHILE(endpoint_channel(w->ep)->rx_packets == packets, endpoint_serve(w->ep));
}

static void send_aeth(struct mirror_fixture *w, uint8_t syndrome, uint32_t psn, uint32_t msn,
		      bool ackreq)
{
	rc_peer_send(&w->peer, &(struct rc_packet){.opcode = INC_OP_ACK,
						   .psn = psn & INC_PSN_MASK,
						   .ackreq = ackreq,
						   .imm = (uint32_t)syndrome << 24 | msn});
}

/* Answers a probe. kept: the peer has so many contributions in order. */
static void answer(struct mirror_fixture *w, uint32_t probe, uint32_t kept, uint32_t missing,
		   uint32_t complete)
{
	const uint64_t acks = endpoint_stats(w->ep).acks_received;

	send_aeth(w, INC_AETH_ACK, kept - 1, INC_STATUS(probe, missing, complete), true);
	if (!kept)
		return; /* names no packet, and counts as no ACK */
	STEP_WHILE(endpoint_stats(w->ep).acks_received == acks, endpoint_serve(w->ep));
}

#define ECT 2 /* TOS byte of packets whose sender reacts to congestion */

/* The endpoint has sent contributions [first, end) and no others. */
static void expect_sent(struct mirror_fixture *w, unsigned int first, unsigned int end)
{
	for (unsigned int i = first; i < end; i++) {
		expect(w, DATA, &w->received[i]);
		assert_int_equal(w->received[i].psn, i);
		assert_int_equal(w->peer.from_tos, ECT);
	}
	assert_int_equal(w->tx->high, end);
}

/* An endpoint whose packets may be marked begins with a small window, which grows by the results.
 * Results with marks make it smaller, because this end's contributions have caused them. A CNP of
 * the peer does the same. */
static void marked_results(void **state)
{
	struct mirror_fixture *w = *state;
	unsigned int r, sent = INC_WINDOW_FIRST;
	uint64_t window;

	w->tx->to.tos = w->peer.tos = ECT;
	post(w, 0, MIRROR_SLOTS);
	expect_sent(w, 0, sent);
	for (r = 0; r < INC_WINDOW_FIRST; r++)
		give_result(w, r);
	assert_int_equal(inc_requester_window(w->tx), 2 * INC_WINDOW_FIRST);
	expect_sent(w, sent, r + 2 * INC_WINDOW_FIRST);
	sent = r + 2 * INC_WINDOW_FIRST;
	window = inc_requester_window(w->tx);
	w->peer.tos = INC_ECN_CE;
	for (; r < 2 * INC_WINDOW_FIRST; r++)
		give_result(w, r);
	assert_in_range(inc_requester_window(w->tx), window / 2, window * 6 / 10);
	assert_int_equal(endpoint_channel(w->ep)->cnps_sent, 0);
	/* the rest comes, although the window is small, and each result is right */
	w->peer.tos = ECT;
	for (; r < MIRROR_SLOTS; r++) {
		for (; sent < w->tx->high; sent++)
			expect(w, DATA, &w->received[sent]);
		give_result(w, r);
	}
	assert_int_equal(w->ep->completed, MIRROR_SLOTS);
	window = inc_requester_window(w->tx);
	rc_peer_send(&w->peer, &(struct rc_packet){.opcode = INC_OP_CNP});
	STEP_WHILE(inc_requester_window(w->tx) == window, endpoint_serve(w->ep));
	assert_true(inc_requester_window(w->tx) < window);
}

/* Results that report congestion make the window smaller, once in a round trip. The ICRC does not
 * cover the report, so the results count. */
static void results_with_becn(void **state)
{
	struct mirror_fixture *w = *state;
	unsigned int r;

	w->tx->to.tos = w->peer.tos = ECT;
	post(w, 0, MIRROR_SLOTS);
	expect_sent(w, 0, INC_WINDOW_FIRST);
	w->peer.becn = true;
	for (r = 0; r < INC_WINDOW_FIRST; r++)
		give_result(w, r);
	assert_int_equal(w->tx->figures.congested, INC_WINDOW_FIRST);
	assert_int_equal(inc_requester_window(w->tx), INC_WINDOW_FIRST / 2);
	w->peer.becn = false;
	for (; r < MIRROR_SLOTS; r++) {
		expect(w, DATA, &w->received[r]);
		give_result(w, r);
	}
	assert_int_equal(w->ep->completed, MIRROR_SLOTS);
	assert_true(inc_requester_window(w->tx) > INC_WINDOW_FIRST / 2);
}

/* A CNP with a wrong ICRC has no effect. A right one, and marks on results, have none where packets
 * cannot be marked. */
static void cnps_without_marks(void **state)
{
	struct mirror_fixture *w = *state;
	const struct inc_congestion before = w->tx->congestion;
	const uint64_t bad = endpoint_stats(w->ep).bad_packets;

	rc_peer_send(&w->peer, &(struct rc_packet){.opcode = INC_OP_CNP, .flip_icrc = 1});
	STEP_WHILE(endpoint_stats(w->ep).bad_packets == bad, endpoint_serve(w->ep));
	assert_memory_equal(&w->tx->congestion, &before, sizeof(before));
	rc_peer_send(&w->peer, &(struct rc_packet){.opcode = INC_OP_CNP});
	STEP_WHILE(!w->tx->figures.congested, endpoint_serve(w->ep));
	w->peer.tos = INC_ECN_CE;
	contribute(w, 0, 100);
	for (unsigned int r = 0; r < 100; r++)
		give_result(w, r);
	contribute(w, 100, MIRROR_SLOTS);
}

/* Results that come together allow only a part of a large window, so that no burst fills a queue.
 * The next part is allowed a quarter of a round trip later. */
static void bursts(void **state)
{
	struct mirror_fixture *w = *state;
	unsigned int r;

	w->tx->to.tos = w->peer.tos = ECT;
	w->tx->congestion.window = 100 * INC_WINDOW_UNIT;
	post(w, 0, MIRROR_SLOTS);
	expect_sent(w, 0, INC_BURST_LEAST);
	w->tx->rto.srtt_ns = 0;
	give_result(w, 0);
	expect_sent(w, INC_BURST_LEAST, 2 * INC_BURST_LEAST);
	w->tx->rto.srtt_ns = 1000 * INC_NSEC_PER_SEC;
	w->tx->rto.sample_end = UINT64_MAX;
	for (r = 1; r < INC_BURST_LEAST; r++)
		give_result(w, r);
	assert_int_equal(w->tx->high, 2 * INC_BURST_LEAST);
	w->tx->rto.srtt_ns = 0;
	give_result(w, r);
	expect_sent(w, 2 * INC_BURST_LEAST, MIRROR_SLOTS);
}

/* Lost packets halve the window, and no more of them than the window has are sent again before the
 * answer to a probe. */
static void losses_and_the_window(void **state)
{
	struct mirror_fixture *w = *state;
	unsigned int r;

	w->tx->to.tos = w->peer.tos = ECT;
	w->tx->congestion.window = 64 * INC_WINDOW_UNIT;
	w->tx->congestion.burst_end = 64;
	post(w, 0, 64);
	expect_sent(w, 0, 64);
	for (r = 0; r < 24; r++)
		give_result(w, r);
	w->tx->congestion.window = 20 * INC_WINDOW_UNIT;
	send_aeth(w, INC_AETH_NAK_SEQ, 24, INC_GAP(0, 40), false);
	for (; r < 34; r++)
		expect_psn(w, DATA, r);
	expect_psn(w, PROBE, 23);
	assert_int_equal(inc_requester_window(w->tx), 10);
	answer(w, w->probe, 34, 0, 24);
	for (; r < 44; r++)
		expect_psn(w, DATA, r);
	expect_psn(w, PROBE, 23);
}

/* A NAK that names a packet whose result has come was overtaken, so nothing is lost. */
static void overtaken_nak(void **state)
{
	struct mirror_fixture *w = *state;
	const uint64_t naks = endpoint_stats(w->ep).naks_received;
	uint64_t window;

	w->tx->to.tos = w->peer.tos = ECT;
	post(w, 0, 10);
	expect_sent(w, 0, 10);
	give_result(w, 3);
	window = inc_requester_window(w->tx);
	send_aeth(w, INC_AETH_NAK_SEQ, 0, INC_GAP(3, 1), false);
	STEP_WHILE(endpoint_stats(w->ep).naks_received == naks, endpoint_serve(w->ep));
	assert_int_equal(inc_requester_window(w->tx), window);
	assert_int_equal(endpoint_stats(w->ep).packets_resent, 0);
}

/* A result that the peer has completed and that is missing here was lost on a path that only
 * contributions can relieve. */
static void lost_result(void **state)
{
	struct mirror_fixture *w = *state;
	uint64_t window;

	w->tx->to.tos = w->peer.tos = ECT;
	post(w, 0, 10);
	expect_sent(w, 0, 10);
	give_result(w, 0);
	give_result(w, 2);
	window = inc_requester_window(w->tx);
	expect_probe_after_silence(w, 0);
	answer(w, w->probe, 10, 0, 3);
	expect_nak(w, 1, INC_GAP(0, 1));
	/* the answer has acknowledged nine contributions, by which the window has grown */
	assert_int_equal(inc_requester_window(w->tx), (window + 9) / 2);
}

/* Nothing is sent again but what a NAK names. A probe follows, and its answer has what is lost once
 * more sent again. */
static void gap_of_contributions(void **state)
{
	struct mirror_fixture *w = *state;

	contribute(w, 0, 10);
	send_aeth(w, INC_AETH_NAK_SEQ, 2, INC_GAP(3, 2), false);
	expect_psn(w, DATA, 5);
	expect_psn(w, DATA, 6);
	expect_psn(w, PROBE, -1);
	assert_int_equal(w->tx->acked, 2);
	answer(w, w->probe, 5, 1, 0);
	expect_psn(w, DATA, 5);
	expect_psn(w, PROBE, -1);
	answer(w, w->probe, 10, 0, 0);
	assert_int_equal(endpoint_stats(w->ep).packets_resent, 3);
	assert_int_equal(w->tx->acked, 10);
}

/* A result acknowledges its contribution, and none before it. A contribution whose result is here
 * is not sent again, because its memory may have the result. */
static void results_acknowledge_themselves(void **state)
{
	struct mirror_fixture *w = *state;

	contribute(w, 0, 6);
	give_result(w, 3);
	give_result(w, 1);
	assert_int_equal(w->tx->acked, 0);
	send_aeth(w, INC_AETH_NAK_SEQ, 0, 0, false);
	expect_psn(w, DATA, 0);
	expect_psn(w, DATA, 2);
	expect_psn(w, DATA, 4);
	expect_psn(w, DATA, 5);
	give_result(w, 0);
	assert_int_equal(w->tx->acked, 2);
	give_result(w, 2);
	assert_int_equal(w->tx->acked, 4);
	assert_int_equal(w->ep->completed, 4);
}

/* An ACK that was made before the peer had the later contributions comes behind their results. */
static void results_overtake_an_ack(void **state)
{
	struct mirror_fixture *w = *state;
	const uint64_t acks = endpoint_stats(w->ep).acks_received;

	contribute(w, 0, 3);
	give_result(w, 1);
	give_result(w, 2);
	assert_int_equal(w->tx->acked, 0);
	send_aeth(w, INC_AETH_ACK, 0, 0, false);
	STEP_WHILE(endpoint_stats(w->ep).acks_received == acks, endpoint_serve(w->ep));
	assert_int_equal(w->tx->acked, 3);
	give_result(w, 0);
	assert_int_equal(w->ep->completed, 3);
}

/* A packet that was sent again after a probe is not lost because the probe's answer names it. */
static void answers_find_their_probe(void **state)
{
	struct mirror_fixture *w = *state;
	uint32_t first;

	contribute(w, 0, 4);
	expect_probe_after_silence(w, -1);
	first = w->probe;
	send_aeth(w, INC_AETH_NAK_SEQ, 0, INC_GAP(0, 1), false);
	expect_psn(w, DATA, 0);
	answer(w, first, 0, 1, 0);
	expect_psn(w, PROBE, -1);
	assert_int_not_equal(w->probe, first);
	answer(w, first, 0, 1, 0);
	answer(w, w->probe, 4, 0, 0);
	assert_int_equal(endpoint_stats(w->ep).packets_resent, 1);
}

/* The last contributions are lost, so no later one shows it. */
static void last_contributions(void **state)
{
	struct mirror_fixture *w = *state;

	contribute(w, 0, 4);
	expect_probe_after_silence(w, -1);
	answer(w, w->probe, 2, 0, 0);
	/* the probe may have overtaken the packets */
	assert_int_equal(w->tx->sel.lost, 0);
	w->tx->sel.probe[w->probe % INC_STATUS_PROBES].at_ns -= INC_PROBE_TAIL_NS;
	expect_probe_after_silence(w, -1);
	answer(w, w->probe, 2, 0, 0);
	expect_psn(w, DATA, 2);
	expect_psn(w, DATA, 3);
	expect_psn(w, PROBE, -1);
	answer(w, w->probe, 4, 0, 0);
	assert_int_equal(endpoint_stats(w->ep).packets_resent, 2);
}

/* Results that are complete and not here are named, each gap in a NAK, and again if the next answer
 * finds them still missing. Results of other ranks' missing contributions are not. */
static void gaps_of_results(void **state)
{
	struct mirror_fixture *w = *state;

	contribute(w, 0, 9);
	give_result(w, 0);
	give_result(w, 3);
	give_result(w, 5);
	give_result(w, 8);
	expect_psn(w, PROBE, 0);
	answer(w, w->probe, 9, 0, 6);
	expect_nak(w, 1, INC_GAP(0, 2));
	expect_nak(w, 1, INC_GAP(3, 1));
	expect_psn(w, PROBE, 0);
	give_result(w, 1);
	give_result(w, 2);
	answer(w, w->probe, 9, 0, 6);
	expect_nak(w, 4, INC_GAP(0, 1));
	give_result(w, 4);
	expect_psn(w, PROBE, 5);
	answer(w, w->probe, 9, 0, 9);
	expect_nak(w, 6, INC_GAP(0, 2));
	give_result(w, 6);
	give_result(w, 7);
	assert_int_equal(w->ep->completed, 9);
	assert_int_equal(endpoint_stats(w->ep).packets_resent, 0);
	assert_false(w->tx->sel.hungry);
}

/* The endpoint was not served until both timers were over. The probe's answer gets its time. */
static void served_late(void **state)
{
	struct mirror_fixture *w = *state;

	contribute(w, 0, 1);
	w->tx->rto_at_ns = w->tx->probe_at_ns = inc_now_ns();
	soft_due(SOFT_DEV(w->ep->dev), w->tx->rto_at_ns);
	expect_psn(w, PROBE, -1);
	answer(w, w->probe, 1, 0, 0);
	assert_int_equal(endpoint_stats(w->ep).timeouts, 0);
	assert_int_equal(endpoint_stats(w->ep).packets_resent, 0);
}

/* An answer with more results than were asked for names nothing. */
static void impossible_answers(void **state)
{
	struct mirror_fixture *w = *state;

	contribute(w, 0, 2);
	expect_probe_after_silence(w, -1);
	answer(w, w->probe, 2, 0, 3);
	answer(w, w->probe + 5, 2, 7, 0);
	assert_false(w->tx->sel.hungry);
	assert_int_equal(endpoint_channel(w->ep)->naks_sent, 0);
	assert_int_equal(endpoint_stats(w->ep).packets_resent, 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, mirror_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(marked_results),
		CASE(results_with_becn),
		CASE(cnps_without_marks),
		CASE(bursts),
		CASE(losses_and_the_window),
		CASE(overtaken_nak),
		CASE(lost_result),
		CASE(gap_of_contributions),
		CASE(results_acknowledge_themselves),
		CASE(results_overtake_an_ack),
		CASE(answers_find_their_probe),
		CASE(last_contributions),
		CASE(gaps_of_results),
		CASE(served_late),
		CASE(impossible_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
