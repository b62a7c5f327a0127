/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* A soft endpoint of a switch whose peer breaks the rules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "lib/base/clock.h"
#include "lib/roce/requester.h"
#include "selftests/term/soft_lone.h"

static void test_right(void **state)
{
	struct lone *w = *state;
	unsigned int i;

	lone_send(w, INC_OP_SEND_ONLY_IMM, 0);
	lone_turn(w);
	assert_int_equal(w->n_got, 1);
	assert_int_equal(w->length, 0);
	assert_true(w->has_imm);
	assert_int_equal(w->imm, 0x1234567);
	lone_send(w, INC_OP_SEND_FIRST, PAYLOAD);
	lone_send(w, INC_OP_SEND_MIDDLE, PAYLOAD);
	lone_send(w, INC_OP_SEND_LAST_IMM, 5);
	lone_turn(w);
	assert_int_equal(w->n_got, 2);
	assert_ptr_equal(w->last, w->in[MESSAGES - 2]);
	assert_int_equal(w->length, 2 * PAYLOAD + 5);
	for (i = 0; i < 2; i++)
		assert_memory_equal(w->in[MESSAGES - 2] + i * PAYLOAD, w->bytes, PAYLOAD);
	assert_memory_equal(w->in[MESSAGES - 2] + 2 * PAYLOAD, w->bytes, 5);
	lone_send(w, INC_OP_SEND_ONLY, PAYLOAD);
	lone_turn(w);
	assert_int_equal(w->n_got, 3);
	assert_false(w->has_imm);
	/* no packet requested an ACK, so the endpoint sends one ACK for all of them after a while
	 */
	lone_expect(w, INC_AETH_ACK, PEER_PSN + 4);
	assert_int_equal(lone_figures(w).acks_sent, 1);
}

static void test_order(void **state)
{
	struct lone *w = *state;

	lone_send(w, INC_OP_SEND_ONLY, 8);
	lone_turn(w);
	lone_expect(w, INC_AETH_ACK, PEER_PSN);
	/* the endpoint sends one NAK per gap */
	w->psn++;
	lone_send(w, INC_OP_SEND_ONLY, 8);
	lone_expect(w, INC_AETH_NAK_SEQ, PEER_PSN + 1);
	lone_send(w, INC_OP_SEND_ONLY, 8);
	lone_silent(w);
	assert_int_equal(w->n_got, 1);
	w->psn = PEER_PSN + 1;
	lone_send(w, INC_OP_SEND_ONLY, 8);
	lone_turn(w);
	assert_int_equal(w->n_got, 2);
	/* the next gap causes another NAK */
	w->psn++;
	lone_send(w, INC_OP_SEND_ONLY, 8);
	lone_expect(w, INC_AETH_NAK_SEQ, PEER_PSN + 2);
	assert_int_equal(lone_figures(w).naks_sent, 2);
	/* the endpoint acknowledges a duplicate again */
	w->psn = PEER_PSN;
	lone_send(w, INC_OP_SEND_ONLY, 8);
	lone_expect(w, INC_AETH_ACK, PEER_PSN + 1);
	assert_int_equal(w->n_got, 2);
	assert_int_equal(lone_figures(w).duplicates, 1);
	assert_int_equal(w->n_lost, 0);
}

static void test_room(void **state)
{
	struct lone *w = *state;
	unsigned int i;

	for (i = 0; i < MESSAGES; i++)
		lone_send(w, INC_OP_SEND_ONLY, 8);
	lone_turn(w);
	lone_expect(w, INC_AETH_ACK, PEER_PSN + MESSAGES - 1);
	lone_send(w, INC_OP_SEND_ONLY, 8);
	lone_expect(w, INC_AETH_RNR | INC_CHANNEL_RNR_TIMER, PEER_PSN + MESSAGES);
	/* a packet after an RNR NAK counts as no gap */
	lone_send(w, INC_OP_SEND_ONLY, 8);
	lone_silent(w);
	w->psn = PEER_PSN + MESSAGES;
	lone_send(w, INC_OP_SEND_ONLY, 8);
	lone_expect(w, INC_AETH_RNR | INC_CHANNEL_RNR_TIMER, PEER_PSN + MESSAGES);
	assert_int_equal(lone_figures(w).rnrs_sent, 2);
	inc_channel_soft.post(w->ch, w->in[0]);
	w->psn = PEER_PSN + MESSAGES;
	lone_send(w, INC_OP_SEND_ONLY, 8);
	lone_turn(w);
	assert_int_equal(w->n_got, MESSAGES + 1);
	assert_int_equal(w->n_lost, 0);
}

/* Sends `before` whole packets of a message, at most MAX_MESSAGE bytes, and then an invalid
 * packet. */
static void invalid(struct lone *w, unsigned int before, uint8_t opcode, size_t len)
{
	unsigned int i;

	for (i = 0; i < before; i++)
		lone_send(w, i ? INC_OP_SEND_MIDDLE : INC_OP_SEND_FIRST, PAYLOAD);
	lone_send(w, opcode, len);
	lone_expect(w, INC_AETH_NAK_INVALID, PEER_PSN + before);
	assert_int_equal(w->n_lost, 1);
	assert_int_equal(w->reason, INC_CHANNEL_INVALID);
	assert_int_equal(w->n_got, 0);
	/* the channel has ended, so it accepts no more packets and sends none */
	w->psn = PEER_PSN + before;
	lone_send(w, INC_OP_SEND_ONLY, 4);
	lone_silent(w);
	assert_int_equal(w->n_got, 0);
	assert_int_equal(w->n_lost, 1);
	lone_end(w);
	lone_make(w, true, false);
}

static void test_invalid(void **state)
{
	struct lone *w = *state;

	invalid(w, 0, INC_OP_SEND_MIDDLE, PAYLOAD);
	invalid(w, 0, INC_OP_SEND_LAST, PAYLOAD);
	invalid(w, 0, INC_OP_SEND_LAST_IMM, 4);
	invalid(w, 1, INC_OP_SEND_FIRST, PAYLOAD);
	invalid(w, 2, INC_OP_SEND_ONLY, PAYLOAD);
	invalid(w, 1, INC_OP_SEND_ONLY_IMM, 0);
	invalid(w, 0, INC_OP_SEND_FIRST, PAYLOAD - 4);
	invalid(w, 0, INC_OP_SEND_FIRST, PAYLOAD + 4);
	invalid(w, 0, INC_OP_SEND_FIRST, 0);
	invalid(w, 1, INC_OP_SEND_MIDDLE, 4);
	invalid(w, 1, INC_OP_SEND_MIDDLE, PAYLOAD + 4);
	invalid(w, 1, INC_OP_SEND_LAST, 0);
	invalid(w, 1, INC_OP_SEND_LAST, PAYLOAD + 1);
	invalid(w, 0, INC_OP_SEND_ONLY, PAYLOAD + 1);
	/* the longest message has 4 packets */
	invalid(w, 4, INC_OP_SEND_MIDDLE, PAYLOAD);
	invalid(w, 4, INC_OP_SEND_LAST, 1);
	invalid(w, 0, INC_OP_WRITE_ONLY, 4);
	invalid(w, 0, INC_OP_WRITE_ONLY_IMM, 4);
	invalid(w, 0, INC_OP_WRITE_FIRST, PAYLOAD);
	invalid(w, 1, INC_OP_WRITE_LAST, 4);
}

/* Sends a message as a peer whose last packet must have the solicited event bit, or must lack
 * it. */
static void send_solicited(struct lone *w, bool se)
{
	lone_send(w, INC_OP_SEND_FIRST, PAYLOAD);
	rc_peer_send(&w->peer, &(struct rc_packet){.opcode = INC_OP_SEND_LAST_IMM,
						   .psn = w->psn++,
						   .se = se,
						   .payload = w->bytes,
						   .len = 8});
}

static void solicited(struct lone *w, enum inc_channel_se want, bool se, bool right)
{
	lone_end(w);
	w->peer_se = want;
	lone_make(w, true, false);
	send_solicited(w, se);
	if (right) {
		lone_expect(w, INC_AETH_ACK, PEER_PSN + 1);
	} else {
		lone_expect(w, INC_AETH_NAK_INVALID, PEER_PSN + 1);
		assert_int_equal(w->reason, INC_CHANNEL_INVALID);
	}
	assert_int_equal(w->n_got, right);
	assert_int_equal(w->n_lost, !right);
}

static void test_solicited(void **state)
{
	struct lone *w = *state;
	struct inc_roce_packet pkt;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		solicited(w, INC_CHANNEL_SE_ANY, i, true);
		solicited(w, INC_CHANNEL_SE_LACKS, i, !i);
		solicited(w, INC_CHANNEL_SE_HAS, i, i);
	}
	/* the endpoint sets the bit as its options demand, in every packet */
	for (i = 0; i < 2; i++) {
		lone_end(w);
		w->se = i;
		lone_make(w, true, false);
		assert_int_equal(inc_channel_soft.send(w->ch, w->out, PAYLOAD + 1, true, 7), 0);
		inc_channel_soft.flush(w->dev);
		assert_true(lone_receive(w, &pkt));
		assert_int_equal(pkt.opcode, INC_OP_SEND_FIRST);
		assert_int_equal(pkt.se, i);
		assert_true(lone_receive(w, &pkt));
		assert_int_equal(pkt.opcode, INC_OP_SEND_LAST_IMM);
		assert_int_equal(pkt.se, i);
	}
}

static void strange(struct lone *w, const struct rc_packet *what)
{
	const uint64_t before = lone_device(w).strangers;

	rc_peer_send(&w->peer, what);
	lone_silent(w);
	assert_int_equal(lone_device(w).strangers, before + 1);
	assert_int_equal(w->n_got, 0);
}

static void bad(struct lone *w, const struct rc_packet *what)
{
	const uint64_t before = lone_device(w).damaged;

	rc_peer_send(&w->peer, what);
	lone_silent(w);
	assert_int_equal(lone_device(w).damaged, before + 1);
	assert_int_equal(w->n_got, 0);
}

static void test_strangers(void **state)
{
	struct rc_packet what = {.opcode = INC_OP_SEND_ONLY, .psn = PEER_PSN, .len = 8};
	struct lone *w = *state;
	struct rc_peer other;
	uint16_t port;

	what.payload = w->bytes;
	what.flip_qpn = 1024;
	strange(w, &what);
	what.flip_qpn = 0;
	what.flip_pkey = 0x8000;
	strange(w, &what);
	what.flip_pkey = 0;
	/* a packet from another port of the peer's address, with a matching checksum */
	port = rc_peer_open(&other);
	rc_peer_connect(&other, w->peer.from_channel.sport, w->peer.channel_qpn, OWN_PSN, PEER_PSN);
	assert_int_not_equal(port, w->peer.from_channel.dport);
	rc_peer_send(&other, &what);
	lone_silent(w);
	assert_int_equal(lone_device(w).strangers, 3);
	rc_peer_close(&other);
	/* a packet that has the peer's port number but another address, with the ICRC of the peer's
	 * packets */
	rc_peer_send_from(&w->peer, RC_PEER_ADDR + 1, w->peer.to_channel.sport, &what);
	lone_silent(w);
	assert_int_equal(lone_device(w).strangers, 4);
	assert_int_equal(w->n_got, 0);
	/* a channel whose peer's address is not set yet */
	lone_end(w);
	lone_make(w, false, false);
	strange(w, &what);
}

static void test_damage(void **state)
{
	struct rc_packet what = {.opcode = INC_OP_SEND_ONLY, .psn = PEER_PSN, .len = 8};
	struct lone *w = *state;

	what.payload = w->bytes;
	what.flip_icrc = 1;
	bad(w, &what);
	what.flip_icrc = 0;
	what.cut = 1;
	bad(w, &what);
	what.cut = 4;
	bad(w, &what);
	what.cut = 22;
	bad(w, &what);
	what.cut = 0;
	/* an RC opcode that the endpoint does not use */
	what.opcode = 0x0c;
	bad(w, &what);
	/* responses to packets that the endpoint never sent */
	what.len = 0;
	what.opcode = INC_OP_ACK;
	what.psn = OWN_PSN;
	bad(w, &what);
	what.imm = (uint32_t)INC_AETH_NAK_OPERATION << 24;
	bad(w, &what);
	what.imm = 0x80000000;
	bad(w, &what);
	assert_int_equal(w->n_lost, 0);
}

static void nak(struct lone *w, uint8_t syndrome, enum inc_channel_reason reason)
{
	struct inc_roce_packet pkt;

	assert_int_equal(inc_channel_soft.send(w->ch, w->out, 8, true, 7), 0);
	inc_channel_soft.flush(w->dev);
	assert_true(lone_receive(w, &pkt));
	assert_int_equal(pkt.opcode, INC_OP_SEND_ONLY_IMM);
	assert_true(pkt.ackreq);
	assert_int_equal(pkt.psn, OWN_PSN);
	rc_peer_ack(&w->peer, syndrome, OWN_PSN);
	lone_silent(w);
	assert_int_equal(w->n_lost, 1);
	assert_int_equal(w->reason, reason);
	assert_int_equal(w->n_sent, 0);
	assert_int_not_equal(inc_channel_soft.send(w->ch, w->out, 8, true, 7), 0);
	lone_end(w);
	lone_make(w, true, false);
}

static void test_naks(void **state)
{
	struct lone *w = *state;

	nak(w, INC_AETH_NAK_INVALID, INC_CHANNEL_REFUSED);
	nak(w, INC_AETH_NAK_ACCESS, INC_CHANNEL_REFUSED);
	nak(w, INC_AETH_NAK_OPERATION, INC_CHANNEL_ENDED);
}

/* An error of the switch's own host is not blamed on the peer. */
static void test_own_fault(void **state)
{
	const struct inc_channel_opts opts = {.pkey = INC_PKEY_DEFAULT,
					      .payload = PAYLOAD,
					      .max_message_bytes = MAX_MESSAGE,
					      .messages = 1,
					      .what = "one that cannot be sent to",
					      .ctx = *state};
	/* an address to which the kernel refuses to send */
	const struct inc_channel_peer nowhere = {.end.ip = inc_addr_of_ipv4(htonl(RC_PEER_ADDR)),
						 .end.qpn = RC_PEER_QPN};
	struct lone *w = *state;
	struct inc_channel *ch;
	struct inc_channel_own own;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		assert_int_equal(inc_channel_soft.make(w->dev, &opts, &ch, &own, NULL), 0);
		assert_int_equal(inc_channel_soft.connect(ch, &nowhere, NULL), 0);
		assert_int_equal(inc_channel_soft.send(ch, w->out, 8, true, 7), 0);
		/* after the error the message is sent a second time */
		if (i)
			assert_int_not_equal(inc_channel_soft.send(ch, w->out, 8, true, 7), 0);
		lone_turn(w);
		assert_int_equal(w->n_lost, i + 1);
		assert_int_equal(w->reason, INC_CHANNEL_CUT);
		inc_channel_soft.shut(ch, 0);
	}
}

/* A call of the sanitizers, with which this test is always built. */
size_t __sanitizer_get_current_allocated_bytes(void);

/* The endpoint remembers a channel that has ended, but has freed its memory. */
static void test_ended(void **state)
{
	struct inc_channel_opts opts = {.pkey = INC_PKEY_DEFAULT,
					.payload = PAYLOAD,
					.max_message_bytes = 1024 * PAYLOAD,
					.messages = 64,
					.what = "one that ends",
					.ctx = *state};
	const struct inc_channel_peer peer = {.end.ip = inc_addr_of_ipv4(htonl(RC_PEER_ADDR)),
					      .end.udp_port = 9,
					      .end.qpn = RC_PEER_QPN};
	const size_t before = __sanitizer_get_current_allocated_bytes();
	struct lone *w = *state;
	struct inc_channel *ch;
	struct inc_channel_own own;
	unsigned int i;

	for (i = 0; i < 100; i++) {
		assert_int_equal(inc_channel_soft.make(w->dev, &opts, &ch, &own, NULL), 0);
		assert_int_equal(inc_channel_soft.connect(ch, &peer, NULL), 0);
		assert_int_equal(inc_channel_soft.send(ch, w->out, 8, true, 7), 0);
		lone_turn(w);
		inc_channel_soft.shut(ch, INC_AETH_NAK_OPERATION);
	}
	assert_in_range(__sanitizer_get_current_allocated_bytes() - before, 1, 100 * 4096);
}

/* A switch has ended the communicator before it has received or sent anything. Its closing NAK,
 * with any PSN, is accepted, because no other packet would report the end. */
static void test_switch_has_ended(void **state)
{
	struct lone *w = *state;
	unsigned int i;

	w->is_switch = true;
	for (i = 0; i < 3; i++) {
		lone_end(w);
		lone_make(w, true, false);
		rc_peer_ack(&w->peer, INC_AETH_NAK_OPERATION, OWN_PSN - 1 + i);
		lone_silent(w);
		assert_int_equal(w->n_lost, 1);
		assert_int_equal(w->reason, INC_CHANNEL_ENDED);
		assert_string_equal(w->text, "remote operational error (NAK 63)");
	}
}

/* A closed channel repeats its closing NAK longer for a switch that sends nothing than for a
 * host. */
static void test_switch_is_informed(void **state)
{
	struct lone *w = *state;
	unsigned int i;

	w->is_switch = true;
	w->rto_max_ns = 20 * INC_NSEC_PER_MSEC;
	lone_reopen(w);
	inc_channel_soft.shut(w->ch, INC_AETH_NAK_OPERATION);
	for (i = 0; i < 20; i++)
		lone_expect(w, INC_AETH_NAK_OPERATION, PEER_PSN);
	rc_peer_close(&w->peer);
	lone_make(w, true, false);
}

/* A peer that sends packets after the end gets a closing NAK, but a flood of packets does not get a
 * flood of NAKs. */
static void test_late(void **state)
{
	struct lone *w = *state;
	struct inc_roce_packet pkt;
	unsigned int i, received = 0, late = 0;
	uint64_t begin_ns;

	lone_send(w, INC_OP_SEND_ONLY, 8);
	lone_send(w, INC_OP_SEND_ONLY, 8);
	lone_turn(w);
	inc_channel_soft.shut(w->ch, INC_AETH_NAK_OPERATION);
	/* the closing NAK has the PSN of the last packet that was accepted */
	lone_expect(w, INC_AETH_NAK_OPERATION, PEER_PSN + 1);
	begin_ns = inc_now_ns();
	for (i = 0; i < 300 || !late; i++) {
		assert_true(inc_now_ns() - begin_ns < 10 * INC_NSEC_PER_SEC);
		memory_os_pass_ns(100 * INC_NSEC_PER_USEC);
		lone_send(w, INC_OP_SEND_ONLY, 8);
		lone_turn(w);
		if (!rc_peer_receive(&w->peer, &pkt, 0))
			continue;
		received++;
		/* the NAK that answers a late packet has the PSN of the first packet that was not
		 * accepted */
		late += pkt.psn == ((PEER_PSN + 2) & INC_PSN_MASK);
	}
	assert_int_equal(w->n_got, 2);
	/* the number includes the closing NAKs that are sent by timer */
	assert_in_range(received, 0, (inc_now_ns() - begin_ns) / (10 * INC_NSEC_PER_MSEC) + 8);
	/* a peer switch that has ended the communicator, too, is soon not answered any more */
	rc_peer_ack(&w->peer, INC_AETH_NAK_OPERATION, OWN_PSN);
	rc_peer_close(&w->peer);
	lone_make(w, true, false);
}

/* Sends packets in one call. Their ICRCs match these IP IDs, whatever IDs the kernel uses. */
static void send_run(struct lone *w, const uint16_t *ids, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		assert_true(
			rc_peer_append(&w->peer, &(struct rc_packet){.opcode = INC_OP_SEND_ONLY,
								     .psn = w->psn++,
								     .payload = w->bytes,
								     .len = PAYLOAD,
								     .flip_ip_id = i ^ ids[i]}));
	rc_peer_transmit(&w->peer);
	lone_turn(w);
}

/* The packets of a merged datagram have consecutive IDs, or 0. The first packet after a gap is not
 * accepted, but it shows the new position in the run. */
static void test_ids(void **state)
{
	struct lone *w = *state;

	send_run(w, (uint16_t[]){0, 1, 2, 3}, 4);
	assert_int_equal(w->n_got, 4);
	lone_end(w);
	lone_make(w, true, false);
	send_run(w, (uint16_t[]){0, 0, 0, 0}, 4);
	assert_int_equal(w->n_got, 4);
	lone_end(w);
	lone_make(w, true, false);
	send_run(w, (uint16_t[]){0, 1}, 2);
	send_run(w, (uint16_t[]){2, 3}, 2);
	assert_int_equal(w->n_got, 4);
	lone_end(w);
	lone_make(w, true, false);
	assert_int_equal(lone_device(w).damaged, 0);
	send_run(w, (uint16_t[]){0, 2, 3}, 3);
	assert_int_equal(w->n_got, 1);
	assert_int_equal(lone_device(w).damaged, 1);
	lone_end(w);
	lone_make(w, true, false);
	send_run(w, (uint16_t[]){7, 8, 9}, 3);
	assert_int_equal(w->n_got, 0);
	/* a peer with an RDMA device uses any IDs */
	lone_end(w);
	lone_make(w, true, true);
	send_run(w, (uint16_t[]){7, 40000, 9, 0}, 4);
	assert_int_equal(w->n_got, 4);
}

#define CASE(name) cmocka_unit_test_setup_teardown(test_##name, lone_setup, lone_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(right),
		CASE(order),
		CASE(room),
		CASE(invalid),
		CASE(solicited),
		cmocka_unit_test_setup_teardown(test_own_fault, lone_setup_kernel, lone_teardown),
		CASE(ended),
		CASE(switch_has_ended),
		CASE(switch_is_informed),
		CASE(strangers),
		CASE(damage),
		CASE(naks),
		CASE(late),
		CASE(ids),
	};

	return cmocka_run_group_tests_name("soft wrong", tests, NULL, NULL);
}
