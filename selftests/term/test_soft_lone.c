/* SPDX-License-Identifier: BSD-2-Clause */
/* A soft channel of a switch, whose peer the test plays: when it acknowledges the peer's messages,
 * and how it bears arbitrary packets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include "lib/base/clock.h"
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

static uint32_t draw(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return *state >> 33;
}

/* Plays a peer that sends nearly valid packets with right checksums, and random bytes. */
static void test_fuzz(void **state)
{
	struct lone *w = *state;
	uint64_t seed = 42;
	unsigned int i, j, lost = 0, got = 0;

	for (i = 0; i < 40000; i++) {
		struct rc_packet what = {
			.opcode = draw(&seed) % 8 ? draw(&seed) % 6 : draw(&seed) % 0x20,
			.psn = w->psn + (draw(&seed) % 8 ? 0 : draw(&seed) % 7 - 3),
			.ackreq = draw(&seed) & 1,
			.imm = draw(&seed),
			.payload = w->bytes,
			.len = draw(&seed) % 2 ? PAYLOAD : draw(&seed) % (PAYLOAD + 8),
			.flip_icrc = draw(&seed) % 50 == 0,
			.cut = draw(&seed) % 50 ? 0 : draw(&seed) % 16,
		};
		struct inc_roce_packet pkt;
		uint8_t garbage[64];

		if (draw(&seed) % 16 == 0) {
			what.opcode = INC_OP_ACK;
			what.len = 0;
			what.psn = OWN_PSN + draw(&seed) % 4;
		}
		rc_peer_send(&w->peer, &what);
		for (j = 0; j < sizeof(garbage); j++)
			garbage[j] = draw(&seed);
		if (draw(&seed) % 8 == 0)
			rc_peer_send_bytes(&w->peer, garbage, draw(&seed) % sizeof(garbage));
		if (draw(&seed) % 4 == 0)
			inc_channel_soft.send(w->ch, w->out, draw(&seed) % MAX_MESSAGE, false, 0);
		memory_os_pass_ns(draw(&seed) % 20 * INC_NSEC_PER_USEC);
		got -= w->n_got;
		inc_channel_soft.progress(w->dev);
		inc_channel_soft.flush(w->dev);
		got += w->n_got;
		assert_true(w->length <= MAX_MESSAGE);
		w->psn = PEER_PSN + lone_figures(w).rx_packets - lone_figures(w).duplicates;
		while (rc_peer_receive(&w->peer, &pkt, 0))
			;
		for (j = w->n_got; j-- && draw(&seed) % 2;)
			inc_channel_soft.post(w->ch, w->in[draw(&seed) % MESSAGES]);
		if (w->n_lost || draw(&seed) % 64 == 0) {
			lost += w->n_lost;
			inc_channel_soft.shut(w->ch, draw(&seed) % 2 ? INC_AETH_NAK_OPERATION : 0);
			rc_peer_close(&w->peer);
			lone_make(w, true, draw(&seed) % 2);
		}
	}
	assert_true(lost > 1000);
	assert_true(got > 1000);
}

/* --- two devices whose handlers close any channel at any time --- */

#define PAIRS  4
#define ROUNDS 60000

struct end {
	struct soft_side *side;
	struct inc_channel *ch; /* the channel; NULL: a handler has closed it */
	uint8_t in[MESSAGES][MAX_MESSAGE], out[MAX_MESSAGE];
};

struct soft_side {
	struct inc_channel_device *dev;
	struct end end[PAIRS];
	uint64_t seed;
	unsigned int n_got, n_sent, n_lost, n_shut;
};

static void end_some(struct soft_side *s)
{
	struct end *end = &s->end[draw(&s->seed) % PAIRS];

	if (draw(&s->seed) % 64 || !end->ch)
		return;
	inc_channel_soft.shut(end->ch, draw(&s->seed) % 2 ? INC_AETH_NAK_OPERATION : 0);
	end->ch = NULL;
	s->n_shut++;
}

static void send_some(struct end *end)
{
	if (end->ch && draw(&end->side->seed) % 2)
		inc_channel_soft.send(end->ch, end->out, 1 + draw(&end->side->seed) % MAX_MESSAGE,
				      draw(&end->side->seed) % 2, 7);
}

static void fuzz_message(void *ctx, const struct inc_channel_message *m)
{
	struct end *end = ctx;

	assert_non_null(end->ch);
	end->side->n_got++;
	/* sometimes a handler posts no receive, so that the peer gets an RNR NAK */
	if (draw(&end->side->seed) % 16)
		inc_channel_soft.post(end->ch, m->buffer);
	send_some(end);
	end_some(end->side);
}

static void fuzz_sent(void *ctx)
{
	struct end *end = ctx;

	assert_non_null(end->ch);
	end->side->n_sent++;
	send_some(end);
	end_some(end->side);
}

static void fuzz_lost(void *ctx, const struct inc_channel_loss *loss)
{
	struct end *end = ctx;

	assert_non_null(end->ch);
	end->side->n_lost++;
	inc_channel_soft.shut(end->ch, 0);
	end->ch = NULL;
	end_some(end->side);
}

static void make_end(struct soft_side *s, unsigned int i, struct inc_channel_own *own)
{
	const struct inc_channel_opts opts = {.own.psn = draw(&s->seed),
					      .pkey = INC_PKEY_DEFAULT,
					      .payload = PAYLOAD,
					      .max_message_bytes = MAX_MESSAGE,
					      .messages = MESSAGES,
					      .what = "one of many",
					      .ctx = &s->end[i]};
	unsigned int k;

	if (s->end[i].ch)
		inc_channel_soft.shut(s->end[i].ch, 0);
	assert_int_equal(inc_channel_soft.make(s->dev, &opts, &s->end[i].ch, own, NULL), 0);
	for (k = 0; k < MESSAGES; k++)
		assert_int_equal(inc_channel_soft.post(s->end[i].ch, s->end[i].in[k]), 0);
}

static void meet(struct soft_side *s, unsigned int i, const struct inc_channel_own *other)
{
	const struct inc_channel_peer peer = {.end.ip = inc_addr_of_ipv4(htonl(RC_PEER_ADDR)),
					      .end.udp_port = other->end.udp_port,
					      .end.qpn = other->end.qpn,
					      .end.psn = other->end.psn,
					      .any_ip_id = i % 2};

	assert_int_equal(inc_channel_soft.connect(s->end[i].ch, &peer, NULL), 0);
}

/* Makes a pair of channels again after one end was closed, sometimes before the other end has
 * noticed that. */
static void renew(struct soft_side side[2], unsigned int i)
{
	struct inc_channel_own own[2];
	unsigned int k;

	if ((side[0].end[i].ch && side[1].end[i].ch) || draw(&side[0].seed) % 8)
		return;
	for (k = 0; k < 2; k++)
		make_end(&side[k], i, &own[k]);
	for (k = 0; k < 2; k++)
		meet(&side[k], i, &own[!k]);
}

static void test_shut_inside(void **state)
{
	static const struct inc_channel_handler handler = {fuzz_message, fuzz_sent, fuzz_lost};
	const struct inc_channel_device_opts opts = {.own_ip =
							     inc_addr_of_ipv4(htonl(RC_PEER_ADDR)),
						     .rto_min_ns = INC_NSEC_PER_MSEC,
						     .rto_max_ns = 4 * INC_NSEC_PER_MSEC,
						     .handler = &handler};
	static struct soft_side side[2] = {{.seed = 1}, {.seed = 2}};
	unsigned int i, k;

	for (k = 0; k < 2; k++) {
		assert_int_equal(inc_channel_soft.open(&opts, &side[k].dev, NULL), 0);
		for (i = 0; i < PAIRS; i++)
			side[k].end[i].side = &side[k];
	}
	for (i = 0; i < ROUNDS; i++) {
		struct soft_side *s = &side[draw(&side[0].seed) % 2];

		renew(side, i % PAIRS);
		send_some(&s->end[draw(&s->seed) % PAIRS]);
		if (draw(&s->seed) % 4)
			inc_channel_soft.flush(s->dev);
		inc_channel_soft.progress(s->dev);
		inc_channel_soft.flush(s->dev);
	}
	for (k = 0; k < 2; k++) {
		assert_true(side[k].n_got > ROUNDS / 100);
		assert_true(side[k].n_sent > ROUNDS / 100);
		assert_true(side[k].n_lost > ROUNDS / 10000);
		assert_true(side[k].n_shut > ROUNDS / 1000);
		for (i = 0; i < PAIRS; i++)
			if (side[k].end[i].ch)
				inc_channel_soft.shut(side[k].end[i].ch, 0);
		inc_channel_soft.close(side[k].dev);
	}
}

#define CASE(name) cmocka_unit_test_setup_teardown(test_##name, lone_setup, lone_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(asked),
		CASE(ack_and_result),
		CASE(acks_are_rare),
		CASE(fuzz),
		cmocka_unit_test(test_shut_inside),
	};

	return cmocka_run_group_tests_name("soft lone", tests, NULL, NULL);
}
