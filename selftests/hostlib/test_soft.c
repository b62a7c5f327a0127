/* SPDX-License-Identifier: BSD-2-Clause */
/* The soft endpoint against a fake peer that each test controls. SIZE: check */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/clock.h"
#include "lib/channel/soft_priv.h"
#include "selftests/hostlib/soft_endpoint.h"

#define PAYLOAD    256
#define SLOTS      16
#define MAX        64
#define IMM        0x1234567
#define RECEIVE_MS 2000

struct fixture {
	struct rc_peer peer;
	struct inccl_endpoint *ep;
	uint8_t send[MAX * PAYLOAD], recv[MAX * PAYLOAD], want[MAX * PAYLOAD];
	struct inc_channel_region region;
	struct inc_roce_packet received[MAX]; /* their payload pointers are not valid later */
	uint8_t mode;
};

static int setup_psn(struct fixture *w, uint32_t host_psn, uint32_t peer_psn)
{
	size_t i;

	memset(w, 0, sizeof(*w));
	for (i = 0; i < sizeof(w->send); i++) {
		w->send[i] = i * 7 + i / 256;
		w->want[i] = i * 13 + i / 256 * 3;
		w->recv[i] = 0xee;
	}
	w->mode = INCCL_MODE_SENDRECV;
	w->ep = endpoint_pair(&w->peer, PAYLOAD, SLOTS, host_psn, peer_psn);
	/* a busy machine must not cause timeouts in cases about something else */
	endpoint_channel(w->ep)->tx.rto.rto_ns = INCCL_RTO_MAX_NS;
	return inccl_endpoint_map(w->ep, w->recv, sizeof(w->recv), true, &w->region);
}

static int setup(void **state)
{
	struct fixture *w = malloc(sizeof(*w));

	*state = w;
	return w ? setup_psn(w, 1000, 70000) : -1;
}

static int teardown(void **state)
{
	struct fixture *w = *state;

	endpoint_pair_close(&w->peer, w->ep);
	free(w);
	return 0;
}

/* Posts packets [first, first + n) as one message. */
static void post(struct fixture *w, unsigned int first, unsigned int n, bool imm, bool last)
{
	struct inc_channel_exchange msg = {
		.send = w->send + first * PAYLOAD,
		.recv = w->recv + first * PAYLOAD,
		.send_len = n * PAYLOAD,
		.recv_len = n * PAYLOAD,
		.send_region = &w->region,
		.recv_region = &w->region,
		.imm = IMM,
		.write = w->mode == INCCL_MODE_WRITE,
		.has_imm = imm,
		.last = last,
	};

	assert_int_equal(inccl_endpoint_post(w->ep, &msg), 0);
}

static void post_all(struct fixture *w, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		post(w, i, 1, i == 0 || w->mode == INCCL_MODE_WRITE, i + 1 == n);
	assert_int_equal(inccl_endpoint_flush(w->ep), 0);
}

static void impatient(struct fixture *w)
{
	endpoint_channel(w->ep)->tx.rto.rto_ns = INC_RTO_FIRST_NS;
}

static void receive(struct fixture *w, unsigned int first, unsigned int n)
{
	struct inc_roce_packet pkt;
	unsigned int i;

	for (i = first; i < first + n; i++) {
		assert_true(rc_peer_receive(&w->peer, &pkt, RECEIVE_MS));
		assert_int_equal(pkt.psn, (w->peer.channel_psn + i) & INC_PSN_MASK);
		assert_int_equal(pkt.len, PAYLOAD);
		assert_memory_equal(pkt.payload, w->send + i * PAYLOAD, PAYLOAD);
		w->received[i] = pkt;
	}
}

static void result(struct fixture *w, unsigned int r)
{
	rc_peer_mirror(&w->peer, &w->received[r], r, w->want + r * PAYLOAD);
}

/* Serves the endpoint as its communicator does, for `ms` milliseconds or until it has failed. */
static int serve(struct fixture *w, unsigned int ms)
{
	uint64_t end = deadline_after_ms(ms), at, now;
	struct pollfd pfd;
	int ret;

	do {
		do {
			ret = inccl_endpoint_progress(w->ep);
			if (ret >= 0 && inccl_endpoint_flush(w->ep) < 0)
				ret = inccl_endpoint_progress(w->ep);
		} while (ret > 0);
		if (ret < 0 || inccl_endpoint_arm(w->ep, &pfd.fd, &pfd.events, &at) < 0)
			return ret;
		now = inc_now_ns();
		if (at > end)
			at = end;
		poll(&pfd, 1, inc_ms_until(at, now));
	} while (inc_now_ns() < end);
	return 0;
}

/* Serves the endpoint as long as the condition holds. */
#define SERVE_WHILE(w, condition) STEP_WHILE(condition, assert_int_equal(serve(w, 1), 0))
/* Serves the endpoint until a counter of its figures has reached n. */
#define SERVE_UNTIL(w, counter, n) SERVE_WHILE(w, endpoint_stats((w)->ep).counter < (n))

/* Serves the endpoint until it has completed this number of messages. */
static void serve_until(struct fixture *w, uint64_t completed)
{
	SERVE_WHILE(w, w->ep->completed < completed);
}

static void expect_ack(struct fixture *w, uint8_t syndrome, unsigned int r)
{
	struct inc_roce_packet pkt;

	SERVE_WHILE(w, !rc_peer_receive(&w->peer, &pkt, 0));
	assert_int_equal(pkt.opcode, INC_OP_ACK);
	assert_int_equal(pkt.syndrome, syndrome);
	assert_int_equal(pkt.psn, (w->peer.own_psn + r) & INC_PSN_MASK);
}

/* Checks that no packet is in flight, and that no timer could send one later. */
static void expect_nothing(struct fixture *w)
{
	struct inc_roce_packet pkt;
	uint64_t at;
	short events;
	int fd;

	assert_int_equal(serve(w, 1), 0);
	assert_int_equal(inccl_endpoint_arm(w->ep, &fd, &events, &at), 0);
	/* a look at the interface's MTU sends nothing */
	assert_true(at == UINT64_MAX || at == w->ep->look_at_ns);
	assert_false(rc_peer_receive(&w->peer, &pkt, 0));
}

static void shapes(void **state)
{
	static const uint8_t want[2][6] = {
		{INC_OP_SEND_ONLY_IMM, INC_OP_SEND_FIRST, INC_OP_SEND_MIDDLE, INC_OP_SEND_LAST,
		 INC_OP_SEND_ONLY, INC_OP_SEND_ONLY},
		{INC_OP_WRITE_ONLY_IMM, INC_OP_WRITE_FIRST, INC_OP_WRITE_MIDDLE,
		 INC_OP_WRITE_LAST_IMM, INC_OP_WRITE_ONLY_IMM, INC_OP_WRITE_ONLY_IMM},
	};
	struct fixture *w = *state;
	unsigned int i, round;
	const struct inc_roce_packet *p;

	for (round = 0; round < 2; round++) {
		w->mode = round ? INCCL_MODE_WRITE : INCCL_MODE_SENDRECV;
		post(w, 6 * round, 1, true, false);
		post(w, 6 * round + 1, 3, round, false);
		post(w, 6 * round + 4, 1, round, false);
		post(w, 6 * round + 5, 1, round, true);
		assert_int_equal(inccl_endpoint_flush(w->ep), 0);
		receive(w, 6 * round, 6);
		for (i = 0; i < 6; i++) {
			p = &w->received[6 * round + i];
			assert_int_equal(p->opcode, want[round][i]);
			if (inc_roce_has_imm(p->opcode))
				assert_int_equal(p->imm, IMM);
			if (inc_roce_has_reth(p->opcode)) {
				assert_true(p->va == (6 * round + i) * PAYLOAD);
				assert_int_equal(p->rkey, w->region.rkey);
				assert_int_equal(p->dmalen, i == 1 ? 3 * PAYLOAD : PAYLOAD);
			}
			assert_int_equal(p->ackreq, i == 5);
			result(w, 6 * round + i);
		}
		serve_until(w, 4 * (round + 1));
		expect_ack(w, INC_AETH_ACK, 6 * round + 5);
	}
	assert_memory_equal(w->recv, w->want, 12 * PAYLOAD);
	assert_true(inccl_endpoint_quiet(w->ep));
}

static void any_order(void **state)
{
	struct fixture *w = *state;
	int r;

	post_all(w, SLOTS);
	receive(w, 0, SLOTS);
	for (r = SLOTS - 1; r > 0; r--)
		result(w, r);
	assert_int_equal(serve(w, 0), 0);
	assert_int_equal(w->ep->completed, 0);
	result(w, 0);
	serve_until(w, SLOTS);
	assert_memory_equal(w->recv, w->want, SLOTS * PAYLOAD);
	assert_int_equal(endpoint_stats(w->ep).reordered, SLOTS - 1);
}

static void ring_is_full(void **state)
{
	struct fixture *w = *state;
	const struct inc_channel_exchange msg = {
		.send = w->send, .recv = w->recv, .send_len = PAYLOAD, .recv_len = PAYLOAD};

	post_all(w, SLOTS);
	assert_int_equal(inccl_endpoint_post(w->ep, &msg), -EAGAIN);
	receive(w, 0, SLOTS);
	result(w, 0);
	serve_until(w, 1);
	assert_int_equal(inccl_endpoint_post(w->ep, &msg), 0);
}

static void nak_goes_back(void **state)
{
	struct fixture *w = *state;

	post_all(w, 8);
	receive(w, 0, 8);
	rc_peer_ack(&w->peer, INC_AETH_NAK_SEQ, w->peer.channel_psn + 3);
	assert_int_equal(serve(w, 1), 0);
	receive(w, 3, 5);
	/* a repeated NAK has no effect once later packets are acknowledged */
	rc_peer_ack(&w->peer, INC_AETH_ACK, w->peer.channel_psn + 7);
	rc_peer_ack(&w->peer, INC_AETH_NAK_SEQ, w->peer.channel_psn + 3);
	expect_nothing(w);
	assert_int_equal(endpoint_stats(w->ep).packets_resent, 5);
}

/* A NAK for the packet after the last one acknowledges all packets, so the timer must stop. */
static void nak_of_the_next(void **state)
{
	struct fixture *w = *state;

	post_all(w, 8);
	receive(w, 0, 8);
	rc_peer_ack(&w->peer, INC_AETH_NAK_SEQ, w->peer.channel_psn + 8);
	SERVE_UNTIL(w, naks_received, 1);
	expect_nothing(w);
	assert_int_equal(endpoint_stats(w->ep).packets_resent, 0);
}

static void timeout_probes(void **state)
{
	struct fixture *w = *state;
	struct inc_roce_packet pkt;

	impatient(w);
	post_all(w, 8);
	receive(w, 0, 8);
	rc_peer_ack(&w->peer, INC_AETH_ACK, w->peer.channel_psn + 1);
	SERVE_UNTIL(w, packets_resent, 1);
	receive(w, 2, 1);
	assert_true(w->received[2].ackreq);
	/* the other packets had arrived, and only their ACK was lost; nothing is retransmitted,
	 * however long the other ranks take */
	rc_peer_ack(&w->peer, INC_AETH_ACK, w->peer.channel_psn + 7);
	assert_int_equal(serve(w, 1), 0);
	while (rc_peer_receive(&w->peer, &pkt, 0))
		assert_int_equal(pkt.psn, w->peer.channel_psn + 2);
	expect_nothing(w);
}

/* If packets are late and not lost, a timeout must not retransmit all packets in flight. */
static void timeout_recovers_gently(void **state)
{
	struct fixture *w = *state;
	struct inc_roce_packet pkt;

	impatient(w);
	post_all(w, SLOTS);
	receive(w, 0, SLOTS);
	SERVE_UNTIL(w, packets_resent, 1);
	receive(w, 0, 1);
	rc_peer_ack(&w->peer, INC_AETH_ACK, w->peer.channel_psn);
	assert_int_equal(serve(w, 0), 0);
	receive(w, 1, 2);
	assert_true(w->received[2].ackreq);
	assert_false(rc_peer_receive(&w->peer, &pkt, 0));
	rc_peer_ack(&w->peer, INC_AETH_ACK, w->peer.channel_psn + 2);
	assert_int_equal(serve(w, 0), 0);
	receive(w, 3, 4);
	assert_false(rc_peer_receive(&w->peer, &pkt, 0));
	/* the late acknowledgement of all packets arrives */
	rc_peer_ack(&w->peer, INC_AETH_ACK, w->peer.channel_psn + SLOTS - 1);
	expect_nothing(w);
	assert_int_equal(endpoint_stats(w->ep).packets_resent, 7);
	assert_int_equal(endpoint_stats(w->ep).timeouts, 1);
}

static void result_implies_ack(void **state)
{
	struct fixture *w = *state;

	post_all(w, 8);
	receive(w, 0, 8);
	result(w, 7);
	/* results 0 to 6 are missing, so only the contribution of 7 may be overwritten */
	SERVE_UNTIL(w, naks_sent, 1);
	expect_ack(w, INC_AETH_NAK_SEQ, 0);
	expect_nothing(w);
	assert_int_equal(endpoint_stats(w->ep).packets_resent, 0);
	assert_int_equal(endpoint_stats(w->ep).timeouts, 0);
}

static void rnr_waits(void **state)
{
	struct fixture *w = *state;
	uint64_t begin;

	post_all(w, 4);
	receive(w, 0, 4);
	begin = inc_now_ns();
	rc_peer_ack(&w->peer, INC_AETH_RNR | 20, w->peer.channel_psn + 1); /* a wait of 10.24 ms */
	SERVE_UNTIL(w, packets_resent, 3);
	receive(w, 1, 3);
	assert_true(inc_now_ns() - begin > 10 * INC_NSEC_PER_MSEC);
	assert_int_equal(endpoint_stats(w->ep).rnrs_received, 1);
	assert_int_equal(endpoint_stats(w->ep).timeouts, 0);
}

static void fatal_naks(void **state)
{
	static const uint8_t naks[] = {INC_AETH_NAK_INVALID, INC_AETH_NAK_ACCESS,
				       INC_AETH_NAK_OPERATION};
	struct fixture *w = *state;
	unsigned int i;

	for (i = 0; i < 3; i++) {
		if (i) {
			endpoint_pair_close(&w->peer, w->ep);
			assert_int_equal(setup_psn(w, 5, 6), 0);
		}
		post_all(w, 2);
		receive(w, 0, 2);
		rc_peer_ack(&w->peer, naks[i], w->peer.channel_psn + 1);
		assert_int_equal(serve(w, RECEIVE_MS), -EREMOTEIO);
		assert_int_equal(inccl_endpoint_progress(w->ep), -EREMOTEIO);
		assert_int_equal(w->ep->mismatch, naks[i] == INC_AETH_NAK_OPERATION);
		assert_non_null(strstr(w->ep->error, i < 2 ? "packet 1:" : "chunk 1:"));
	}
}

static void gap_is_named_once(void **state)
{
	struct fixture *w = *state;

	post_all(w, 8);
	receive(w, 0, 8);
	rc_peer_ack(&w->peer, INC_AETH_ACK, w->peer.channel_psn + 7);
	result(w, 0);
	serve_until(w, 1);
	endpoint_channel(w->ep)->ack_at_ns =
		UINT64_MAX - 1; /* the pending NAK carries this acknowledgement */
	result(w, 2);
	result(w, 3);
	SERVE_UNTIL(w, naks_sent, 1);
	expect_ack(w, INC_AETH_NAK_SEQ, 1);
	expect_nothing(w);
	assert_int_equal(endpoint_stats(w->ep).naks_sent, 1);
	result(w, 1);
	result(w, 2); /* go-back-N: the peer repeats this result, although it has already arrived */
	result(w, 3);
	serve_until(w, 4);
	assert_int_equal(serve(w, 1), 0);
	expect_ack(w, INC_AETH_ACK, 3);
	assert_int_equal(endpoint_stats(w->ep).duplicates, 2);
	assert_memory_equal(w->recv, w->want, 4 * PAYLOAD);
}

static void duplicates_are_answered(void **state)
{
	struct fixture *w = *state;

	post_all(w, 2);
	receive(w, 0, 2);
	result(w, 0);
	result(w, 1);
	serve_until(w, 2);
	expect_ack(w, INC_AETH_ACK, 1);
	result(w, 1);
	SERVE_UNTIL(w, duplicates, 1);
	expect_ack(w, INC_AETH_ACK, 1);
}

static void strangers(void **state)
{
	struct fixture *w = *state;
	struct rc_packet lie = {.opcode = INC_OP_SEND_ONLY_IMM,
				.psn = w->peer.own_psn,
				.imm = IMM,
				.payload = w->want,
				.len = PAYLOAD,
				.flip_icrc = 1};
	unsigned int n;

	post_all(w, 2);
	receive(w, 0, 2);
	/* the payload may be stored before the ICRC is checked */
	rc_peer_send(&w->peer, &lie);
	SERVE_UNTIL(w, bad_packets, 1);
	lie.flip_icrc = 0;
	w->recv[0] = 0xee;
	for (n = 1; n < 7; n++) {
		struct rc_packet packet = lie;

		packet.flip_qpn = n == 1;
		packet.flip_pkey = n == 2 ? 0x8000 : 0;
		packet.psn += n == 3 ? 2 : n == 4 ? -1 : 0; /* one not sent yet, and one too old */
		packet.cut = n == 5 ? 3 : n == 6 ? PAYLOAD + 8 : 0;
		rc_peer_send(&w->peer, &packet);
	}
	/* packets from another port or another address, with a valid ICRC of the peer's packets */
	rc_peer_send_from(&w->peer, RC_PEER_ADDR, 0, &lie);
	rc_peer_send_from(&w->peer, RC_PEER_ADDR + 1, w->peer.to_channel.sport, &lie);
	rc_peer_ack(&w->peer, INC_AETH_ACK,
		    w->peer.channel_psn + 2); /* a packet that was not sent yet */
	SERVE_UNTIL(w, bad_packets, 10);
	assert_int_equal(endpoint_stats(w->ep).bad_packets, 10);
	assert_int_equal(w->ep->completed, 0);
	assert_int_equal(w->recv[0], 0xee);
	result(w, 0);
	serve_until(w, 1);
}

static void false_mirrors(void **state)
{
	struct fixture *w = *state;
	struct inc_roce_packet pkt, as;
	unsigned int n;

	for (n = 0; n < 6; n++) {
		if (n) {
			endpoint_pair_close(&w->peer, w->ep);
			assert_int_equal(setup_psn(w, 5, 6), 0);
		}
		w->mode = INCCL_MODE_WRITE;
		post_all(w, 1);
		receive(w, 0, 1);
		as = w->received[0];
		as.opcode = n == 0 ? INC_OP_SEND_ONLY_IMM : as.opcode;
		as.len -= n == 1 ? 4 : 0;
		as.imm ^= n == 2;
		as.va += n == 3 ? 4 : 0;
		as.rkey ^= n == 4;
		as.dmalen -= n == 5 ? 4 : 0;
		rc_peer_mirror(&w->peer, &as, 0, w->want);
		assert_int_equal(serve(w, RECEIVE_MS), -EPROTO);
		assert_true(rc_peer_receive(&w->peer, &pkt, RECEIVE_MS));
		assert_int_equal(pkt.syndrome, INC_AETH_NAK_INVALID);
		assert_int_equal(w->recv[0], 0xee);
	}
}

static uint32_t seed = 777;

static uint32_t rnd(uint32_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 17;
	seed ^= seed << 5;
	return seed % below;
}

/* Plays a plain RC peer that returns another payload, over a wire that loses, duplicates and
 * reorders packets. The results must be correct, and the endpoint must finish. PSNs wrap. */
static void bad_wire(void **state)
{
	struct fixture *w = *state;
	unsigned int posted = 0, next = 0, acked = 0, r;
	uint64_t end = deadline_after_ms(30000), resend_ns = 0;
	struct inc_roce_packet pkt;
	bool nak = false;

	endpoint_pair_close(&w->peer, w->ep);
	assert_int_equal(setup_psn(w, INC_PSN_MASK - 20, INC_PSN_MASK - 9), 0);
	impatient(w);
	while (w->ep->completed < MAX || acked < MAX) {
		assert_true(inc_now_ns() < end);
		while (posted < MAX && posted - w->ep->completed < SLOTS) {
			post(w, posted, 1, posted == 0, posted == MAX - 1);
			posted++;
		}
		assert_int_equal(serve(w, 0), 0);
		while (rc_peer_receive(&w->peer, &pkt, 0)) {
			if (!rnd(5))
				continue;
			if (pkt.opcode == INC_OP_ACK) {
				r = (pkt.psn - w->peer.own_psn) & INC_PSN_MASK;
				if (pkt.syndrome == INC_AETH_ACK)
					r++;
				assert_true(r <= next);
				acked = r > acked ? r : acked;
				resend_ns = pkt.syndrome == INC_AETH_ACK ? resend_ns : 0;
				continue;
			}
			r = (pkt.psn - w->peer.channel_psn) & INC_PSN_MASK;
			if (r < next) {
				rc_peer_ack(&w->peer, INC_AETH_ACK, w->peer.channel_psn + next - 1);
			} else if (r > next) {
				if (!nak)
					rc_peer_ack(&w->peer, INC_AETH_NAK_SEQ,
						    w->peer.channel_psn + next);
				nak = true;
			} else {
				assert_memory_equal(pkt.payload, w->send + r * PAYLOAD, PAYLOAD);
				nak = false;
				w->received[next++] = pkt;
				if (rnd(3))
					result(w, r);
				if (!rnd(4))
					result(w, rnd(next));
			}
		}
		if (inc_now_ns() > resend_ns) {
			for (r = acked; r < next; r++)
				if (rnd(4))
					result(w, r);
			resend_ns = deadline_after_ms(5);
		}
	}
	assert_memory_equal(w->recv, w->want, MAX * PAYLOAD);
	assert_int_equal(endpoint_stats(w->ep).bad_packets, 0);
	assert_true(endpoint_stats(w->ep).packets_resent > 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(shapes),
		CASE(any_order),
		CASE(ring_is_full),
		CASE(nak_goes_back),
		CASE(nak_of_the_next),
		CASE(timeout_probes),
		CASE(timeout_recovers_gently),
		CASE(result_implies_ack),
		CASE(rnr_waits),
		CASE(fatal_naks),
		CASE(gap_is_named_once),
		CASE(duplicates_are_answered),
		CASE(strangers),
		CASE(false_mirrors),
		CASE(bad_wire),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
