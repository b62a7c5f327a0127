/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/*
 * The soft endpoint on a path that loses sends of several packets (UDP_SEGMENT). An example is a
 * veth whose peer runs generic XDP, because the peer gets such a send as one frame and drops that
 * frame.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include "lib/base/clock.h"
#include "lib/channel/soft_priv.h"
#include "selftests/hostlib/soft_endpoint.h"

#define PAYLOAD 256
#define SLOTS   64
#define PACKETS 2048
#define END_MS  30000

struct fixture {
	struct rc_peer peer;
	struct inccl_endpoint *ep;
	struct inc_channel_region region;
	uint8_t send[PACKETS * PAYLOAD], recv[PACKETS * PAYLOAD];
	unsigned int posted;
	/* number of the next packet; the peer has accepted all packets before it */
	unsigned int next;
	/* number of accepted packets that arrived together with others of the same send */
	unsigned int together;
	unsigned int dropped;
	bool uncut; /* the peer drops packets that arrive together */
	bool cable; /* the cable is plugged in; false: the peer drops everything */
};

static int setup(void **state)
{
	struct fixture *w = calloc(1, sizeof(*w));
	size_t i;

	*state = w;
	if (!w)
		return -1;
	for (i = 0; i < sizeof(w->send); i++)
		w->send[i] = i * 7 + i / 251;
	w->ep = endpoint_pair(&w->peer, PAYLOAD, SLOTS, 1, 2);
	w->cable = true;
	return inccl_endpoint_map(w->ep, w->recv, sizeof(w->recv), true, &w->region);
}

static int teardown(void **state)
{
	struct fixture *w = *state;

	endpoint_pair_close(&w->peer, w->ep);
	free(w);
	return 0;
}

static void post(struct fixture *w, unsigned int until)
{
	for (; w->posted < until && w->posted - w->ep->completed < SLOTS; w->posted++) {
		struct inc_channel_exchange msg = {
			.send = w->send + w->posted * PAYLOAD,
			.recv = w->recv + w->posted * PAYLOAD,
			.send_len = PAYLOAD,
			.recv_len = PAYLOAD,
			.send_region = &w->region,
			.recv_region = &w->region,
			.last = w->posted + 1 == until,
		};

		assert_int_equal(inccl_endpoint_post(w->ep, &msg), 0);
	}
}

/* Plays a plain RC peer that returns each payload. */
static void answer(struct fixture *w, const struct inc_roce_packet *pkt)
{
	const unsigned int r = (pkt->psn - w->peer.channel_psn) & INC_PSN_MASK;
	const bool together = w->peer.together > 1;

	if (!w->cable || (w->uncut && together)) {
		w->dropped++;
	} else if (pkt->opcode == INC_OP_ACK || r > w->next) {
		/* the peer sends no NAK, so in this worst case only timeouts reveal the loss */
		return;
	} else if (r < w->next) {
		rc_peer_ack(&w->peer, INC_AETH_ACK, w->peer.channel_psn + w->next - 1);
	} else {
		w->together += together;
		w->next++;
		rc_peer_mirror(&w->peer, pkt, r, pkt->payload);
	}
}

static void step(struct fixture *w)
{
	struct inc_roce_packet pkt;

	while (inccl_endpoint_progress(w->ep) > 0)
		;
	assert_int_equal(inccl_endpoint_flush(w->ep), 0);
	while (rc_peer_receive(&w->peer, &pkt, 0))
		answer(w, &pkt);
}

/* Serves the endpoint until all packets before `until` have their results. */
static void run(struct fixture *w, unsigned int until)
{
	uint64_t end = deadline_after_ms(END_MS);

	while (w->ep->completed < until) {
		post(w, until);
		step(w);
		assert_true(inc_now_ns() < end);
	}
	assert_memory_equal(w->recv, w->send, until * PAYLOAD);
}

static void wait_timeouts(struct fixture *w, uint64_t more)
{
	uint64_t end = deadline_after_ms(END_MS), want = endpoint_stats(w->ep).timeouts + more;

	while (endpoint_stats(w->ep).timeouts < want) {
		step(w);
		assert_true(inc_now_ns() < end);
	}
}

static void together_where_it_works(void **state)
{
	struct fixture *w = *state;

	run(w, PACKETS);
	assert_true(w->together > PACKETS / 2);
}

static void one_by_one_where_it_does_not(void **state)
{
	struct fixture *w = *state;

	w->uncut = true;
	run(w, PACKETS);
	assert_true(w->dropped > 0);
	assert_int_equal(w->together, 0);
	/* three timeouts, and more on a busy machine; without the detection each packet would cost
	 * one timeout */
	assert_in_range(endpoint_stats(w->ep).timeouts, INC_UNCUT_TIMEOUTS, 40);
}

static void tries_again(void **state)
{
	struct fixture *w = *state;
	unsigned int dropped;
	uint64_t pause;

	w->uncut = true;
	run(w, PACKETS / 2);
	pause = endpoint_channel(w->ep)->tx.single_pause_ns;
	/* a failed attempt to send packets together costs one timeout, and the next pause between
	 * attempts is longer */
	dropped = w->dropped;
	endpoint_channel(w->ep)->tx.together_at_ns = inc_now_ns();
	run(w, PACKETS / 2 + 2 * SLOTS);
	assert_true(w->dropped > dropped);
	assert_true(endpoint_channel(w->ep)->tx.together_at_ns > inc_now_ns());
	assert_true(endpoint_channel(w->ep)->tx.single_pause_ns > pause);
	assert_int_equal(w->together, 0);
	/* now the path delivers sends of several packets */
	w->uncut = false;
	endpoint_channel(w->ep)->tx.together_at_ns = inc_now_ns();
	run(w, PACKETS);
	assert_true(w->together > PACKETS / 4);
	assert_int_equal(endpoint_channel(w->ep)->tx.together_at_ns, 0);
	assert_int_equal(endpoint_channel(w->ep)->tx.single_pause_ns, INC_SINGLE_PAUSE_NS);
}

static void an_outage_is_no_reason(void **state)
{
	struct fixture *w = *state;

	w->cable = false;
	post(w, PACKETS);
	wait_timeouts(w, INC_UNCUT_TIMEOUTS + 2);
	w->cable = true;
	run(w, PACKETS);
	assert_int_equal(endpoint_channel(w->ep)->tx.together_at_ns, 0);
	assert_true(w->together > PACKETS / 2);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(together_where_it_works),
		CASE(one_by_one_where_it_does_not),
		CASE(tries_again),
		CASE(an_outage_is_no_reason),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
