/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/*
 * Contributions to a peer that answers probes request no ACK. A soft endpoint sends a probe if no
 * result comes for long, and resends a contribution only if the probe gets no answer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <poll.h>
#include "lib/base/clock.h"
#include "lib/channel/soft_priv.h"
#include "selftests/hostlib/soft_endpoint.h"

#define PAYLOAD    MIRROR_PAYLOAD
#define RECEIVE_MS 10000 /* time limit for a packet; only a failing test waits that long */

static int setup(void **state)
{
	return mirror_setup(state, false);
}

/* Receives the next packet that is no ordinary ACK of results. */
static bool receive(struct mirror_fixture *w, struct inc_roce_packet *pkt, int timeout_ms)
{
	while (rc_peer_receive(&w->peer, pkt, timeout_ms))
		if (pkt->opcode != INC_OP_ACK || pkt->ackreq)
			return true;
	return false;
}

/* Sends contributions [first, end) as one collective, which the peer receives. */
static void contribute(struct mirror_fixture *w, unsigned int first, unsigned int end)
{
	const struct endpoint_vectors v = {w->send, w->recv, &w->region, PAYLOAD};
	unsigned int i;

	endpoint_post_packets(w->ep, &v, first, end, true);
	assert_int_equal(inccl_endpoint_flush(w->ep), 0);
	for (i = first; i < end; i++) {
		assert_true(receive(w, &w->received[i], RECEIVE_MS));
		assert_int_equal(w->received[i].psn, i);
		assert_false(w->received[i].ackreq);
	}
}

static void serve(struct mirror_fixture *w)
{
	endpoint_serve(w->ep);
}

/* The endpoint sends a packet when its next timer expires, and no sooner. Time passes by setting
 * the timers, which a busy machine does not reach otherwise. */
static void expect_at_timer(struct mirror_fixture *w, struct inc_roce_packet *pkt)
{
	uint64_t *timer =
		w->tx->probe_at_ns < w->tx->rto_at_ns ? &w->tx->probe_at_ns : &w->tx->rto_at_ns;

	assert_int_not_equal(*timer, UINT64_MAX);
	assert_false(receive(w, pkt, 0));
	*timer = inc_now_ns();
	soft_due(SOFT_DEV(w->ep->dev), *timer);
	serve(w);
	assert_true(receive(w, pkt, RECEIVE_MS));
}

/* The next packet is a probe, which names the last result that is here. */
static void expect_probe(struct mirror_fixture *w, unsigned int results)
{
	struct inc_roce_packet pkt;

	expect_at_timer(w, &pkt);
	assert_int_equal(pkt.opcode, INC_OP_ACK);
	assert_int_equal(pkt.syndrome, INC_AETH_ACK);
	assert_int_equal(pkt.psn, (results - 1) & INC_PSN_MASK);
	assert_true(pkt.ackreq);
}

static void answer(struct mirror_fixture *w, uint32_t psn)
{
	const uint64_t acks = endpoint_stats(w->ep).acks_received;

	rc_peer_ack(&w->peer, INC_AETH_ACK, psn);
	STEP_WHILE(endpoint_stats(w->ep).acks_received == acks, serve(w));
}

static void give_results(struct mirror_fixture *w, unsigned int first, unsigned int end)
{
	for (unsigned int r = first; r < end; r++)
		rc_peer_mirror(&w->peer, &w->received[r], r, w->send);
	STEP_WHILE(w->ep->completed < end, serve(w));
}

static void expect_no_timer(const struct mirror_fixture *w)
{
	assert_int_equal(w->tx->rto_at_ns, UINT64_MAX);
	assert_int_equal(w->tx->probe_at_ns, UINT64_MAX);
	assert_int_equal(endpoint_stats(w->ep).packets_resent, 0);
}

/* Neither the last packet of a collective nor every 32nd requests an ACK, and results end the
 * timers. */
static void results_acknowledge(void **state)
{
	struct mirror_fixture *w = *state;

	contribute(w, 0, 100);
	assert_true(w->tx->probe_at_ns < w->tx->rto_at_ns);
	give_results(w, 0, 100);
	expect_no_timer(w);
	assert_int_equal(endpoint_stats(w->ep).acks_received, 0);
}

/* A rank is late: one probe and its answer, and nothing is sent again, however late it is. */
static void a_rank_is_late(void **state)
{
	struct mirror_fixture *w = *state;

	contribute(w, 0, 3);
	give_results(w, 0, 3);
	contribute(w, 3, 4);
	expect_probe(w, 3);
	answer(w, 3);
	expect_no_timer(w);
	give_results(w, 3, 4);
	contribute(w, 4, 5);
	expect_probe(w, 4);
}

/* The first collective has no result that the probe could acknowledge. */
static void first_collective(void **state)
{
	struct mirror_fixture *w = *state;

	contribute(w, 0, 2);
	expect_probe(w, 0);
	answer(w, 1);
	expect_no_timer(w);
}

/* The probe or its answer is lost: the timeout resends one packet, which requests an ACK. */
static void no_answer(void **state)
{
	struct mirror_fixture *w = *state;
	struct inc_roce_packet pkt;

	contribute(w, 0, 4);
	expect_probe(w, 0);
	expect_at_timer(w, &pkt);
	assert_int_equal(pkt.psn, 0);
	assert_true(pkt.ackreq);
	assert_int_equal(pkt.opcode, w->received[0].opcode);
	assert_int_equal(endpoint_stats(w->ep).packets_resent, 1);
	/* as long as the peer is silent, packets are resent without a probe */
	assert_int_equal(w->tx->probe_at_ns, UINT64_MAX);
	answer(w, 3);
	assert_int_equal(w->tx->rto_at_ns, UINT64_MAX);
}

/* The endpoint was not served until both timers were over. The probe's answer gets its time. */
static void served_late(void **state)
{
	struct mirror_fixture *w = *state;
	struct inc_roce_packet pkt;

	contribute(w, 0, 1);
	w->tx->rto_at_ns = w->tx->probe_at_ns = inc_now_ns();
	soft_due(SOFT_DEV(w->ep->dev), w->tx->rto_at_ns);
	serve(w);
	assert_true(receive(w, &pkt, RECEIVE_MS));
	assert_int_equal(pkt.opcode, INC_OP_ACK);
	assert_true(pkt.ackreq);
	assert_false(receive(w, &pkt, 0));
	assert_int_equal(endpoint_stats(w->ep).timeouts, 0);
	answer(w, 0);
	expect_no_timer(w);
}

/* If no call is about to follow, the probe is due at once. */
static void unattended(void **state)
{
	struct mirror_fixture *w = *state;
	struct inc_roce_packet pkt;

	contribute(w, 0, 1);
	w->ep->ops->attend(w->ep->ch, false);
	serve(w);
	assert_true(receive(w, &pkt, RECEIVE_MS));
	assert_true(pkt.ackreq);
}

/* Contributions are lost: the answer shows which, and the timeout resends the first one. */
static void contributions_are_lost(void **state)
{
	struct mirror_fixture *w = *state;
	struct inc_roce_packet pkt;

	contribute(w, 0, 8);
	expect_probe(w, 0);
	answer(w, 4);
	expect_probe(w, 0);
	answer(w, 4);
	expect_at_timer(w, &pkt);
	assert_int_equal(pkt.psn, 5);
	assert_true(pkt.ackreq);
}

/* The ACK of results waits longer if the peer resends them later. */
static void acks_wait(void **state)
{
	static const uint64_t us[][2] = {
		{0, 1000}, {1000, 1000}, {2000, 1200}, {5000, 3000}, {60000000, 3000}};
	struct endpoint_form form = {
		.payload = PAYLOAD, .slots = 8, .message_packets = 1, .answers_probes = true};
	struct mirror_fixture w = {0};
	unsigned int i;

	for (i = 0; i < sizeof(us) / sizeof(*us); i++) {
		uint64_t from_ns, at_ns;

		form.rto_min_ns = us[i][0] * INC_NSEC_PER_USEC;
		w.ep = endpoint_pair_of(&w.peer, &form);
		w.tx = &endpoint_channel(w.ep)->tx;
		/* the pace of the last collectives */
		endpoint_channel(w.ep)->mirror->took_ns = 0;
		assert_int_equal(inccl_endpoint_map(w.ep, w.recv, sizeof(w.recv), true, &w.region),
				 0);
		contribute(&w, 0, 1);
		from_ns = inc_now_ns();
		give_results(&w, 0, 1);
		at_ns = endpoint_channel(w.ep)->ack_at_ns;
		assert_in_range(at_ns, from_ns + us[i][1] * INC_NSEC_PER_USEC,
				inc_now_ns() + us[i][1] * INC_NSEC_PER_USEC);
		endpoint_pair_close(&w.peer, w.ep);
	}
}

/* An ordinary ACK is no probe, whatever the number of its packet is. */
static void acks_request_nothing(void **state)
{
	struct mirror_fixture *w = *state;
	struct inc_roce_packet pkt;

	inc_soft_send_aeth(endpoint_channel(w->ep), INC_AETH_ACK, 0x80000001);
	assert_true(rc_peer_receive(&w->peer, &pkt, RECEIVE_MS));
	assert_int_equal(pkt.psn, 1);
	assert_false(pkt.ackreq);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, mirror_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(results_acknowledge),
		CASE(a_rank_is_late),
		CASE(first_collective),
		CASE(no_answer),
		CASE(contributions_are_lost),
		CASE(acks_request_nothing),
		CASE(acks_wait),
		CASE(served_late),
		CASE(unattended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
