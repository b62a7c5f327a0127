/* SPDX-License-Identifier: BSD-2-Clause */
/* A soft endpoint of a switch and a peer that says what nobody should. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "lib/proto/maps.h"
#include "selftests/hostlib/peer.h"
#include "userspace/term/endpoint.h"

#define PAYLOAD     256
#define MAX_MESSAGE (4 * PAYLOAD)
#define MESSAGES    4
#define PEER_PSN    0xfffffe
#define OWN_PSN     500
#define HEAR_MS     2000

struct world {
	struct inc_term_device *dev;
	struct inc_term_channel *ch;
	struct peer peer;
	uint8_t in[MESSAGES][MAX_MESSAGE], out[MAX_MESSAGE], bytes[2 * INC_MAX_PAYLOAD];
	unsigned int n_got, n_sent, n_lost;
	void *last; /* message */
	uint32_t length;
	bool has_imm;
	uint32_t imm;
	enum inc_term_reason reason;
	uint32_t psn; /* the peer's next */
};

static void on_message(void *ctx, const struct inc_term_message *m)
{
	struct world *w = ctx;

	assert_in_range((uint8_t *)m->buffer - w->in[0], 0, sizeof(w->in) - MAX_MESSAGE);
	w->n_got++;
	w->last = m->buffer;
	w->length = m->length;
	w->has_imm = m->has_desc;
	w->imm = m->desc;
}

static void on_sent(void *ctx)
{
	((struct world *)ctx)->n_sent++;
}

static void on_lost(void *ctx, enum inc_term_reason reason, const char *text)
{
	struct world *w = ctx;

	w->n_lost++;
	w->reason = reason;
	assert_true(*text);
}

static const struct inc_term_handler handler = {on_message, on_sent, on_lost};

static void make_channel(struct world *w, bool connect, bool any_ip_id)
{
	const struct inc_term_channel_opts opts = {
		.psn = OWN_PSN,
		.pkey = INC_PKEY_DEFAULT,
		.payload = PAYLOAD,
		.max_message = MAX_MESSAGE,
		.messages = MESSAGES,
		.what = "the wrong one",
		.ctx = w,
	};
	struct inc_term_peer_addr peer = {.ip = {htonl(PEER_ADDR)},
					  .udp_port = peer_listen(&w->peer),
					  .qpn = PEER_QPN,
					  .psn = PEER_PSN,
					  .any_ip_id = any_ip_id};
	struct inc_term_numbers own;
	struct inc_err err;
	unsigned int i;

	if (inc_term_soft.make(w->dev, &opts, &w->ch, &own, &err))
		fail_msg("make: %s", err.msg);
	if (connect && inc_term_soft.connect(w->ch, &peer, &err))
		fail_msg("connect: %s", err.msg);
	for (i = 0; i < MESSAGES; i++)
		assert_int_equal(inc_term_soft.post(w->ch, w->in[i]), 0);
	peer_meet(&w->peer, own.udp_port, own.qpn, OWN_PSN, PEER_PSN);
	w->psn = PEER_PSN;
	w->n_got = w->n_sent = w->n_lost = 0;
}

static void end_channel(struct world *w)
{
	inc_term_soft.shut(w->ch, 0);
	close(w->peer.fd);
}

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	const struct inc_term_device_opts opts = {
		.ifname = "lo",
		.own_ip = {htonl(PEER_ADDR)},
		.rto_min_ns = INC_NSEC_PER_SEC,
		.rto_max_ns = INC_NSEC_PER_SEC,
		.handler = &handler,
	};
	struct inc_err err;
	size_t i;

	*state = w;
	assert_non_null(w);
	for (i = 0; i < sizeof(w->bytes); i++)
		w->bytes[i] = i * 11 + i / 256;
	if (inc_term_soft.open(&opts, &w->dev, &err))
		fail_msg("open: %s", err.msg);
	make_channel(w, true, false);
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	end_channel(w);
	inc_term_soft.close(w->dev);
	free(w);
	return 0;
}

/* Until nothing is there that loopback has brought. */
static void turn(struct world *w)
{
	int i;

	for (i = 0; i < 3; i++)
		while (inc_term_soft.progress(w->dev))
			;
}

/* Lets time pass until the channel has something to say by itself. */
static bool hear(struct world *w, struct inc_roce_packet *pkt)
{
	uint64_t end_ns = inc_now_ns() + HEAR_MS * INC_NSEC_PER_MSEC;

	do {
		turn(w);
		if (peer_hear(&w->peer, pkt, 0))
			return true;
	} while (inc_now_ns() < end_ns);
	return false;
}

static void silent(struct world *w)
{
	struct inc_roce_packet pkt;

	turn(w);
	assert_false(peer_hear(&w->peer, &pkt, 0));
}

/* The next thing it says is this, of the packet with that PSN. */
static void hears(struct world *w, uint8_t syndrome, uint32_t psn)
{
	struct inc_roce_packet pkt;

	assert_true(hear(w, &pkt));
	assert_int_equal(pkt.opcode, INC_OP_ACK);
	assert_int_equal(pkt.syndrome, syndrome);
	assert_int_equal(pkt.psn, psn & INC_PSN_MASK);
}

static void say(struct world *w, uint8_t opcode, size_t len)
{
	peer_say(&w->peer, &(struct say){.opcode = opcode,
					 .psn = w->psn++,
					 .imm = 0x1234567,
					 .payload = w->bytes,
					 .len = len});
}

static struct inc_term_device_figures device(struct world *w)
{
	struct inc_term_device_figures f;

	inc_term_soft.device_figures(w->dev, &f);
	return f;
}

static struct inc_term_channel_figures figures(struct world *w)
{
	struct inc_term_channel_figures f;

	inc_term_soft.figures(w->ch, &f);
	return f;
}

static void test_right(void **state)
{
	struct world *w = *state;
	unsigned int i;

	say(w, INC_OP_SEND_ONLY_IMM, 0);
	turn(w);
	assert_int_equal(w->n_got, 1);
	assert_int_equal(w->length, 0);
	assert_true(w->has_imm);
	assert_int_equal(w->imm, 0x1234567);
	say(w, INC_OP_SEND_FIRST, PAYLOAD);
	say(w, INC_OP_SEND_MIDDLE, PAYLOAD);
	say(w, INC_OP_SEND_LAST_IMM, 5);
	turn(w);
	assert_int_equal(w->n_got, 2);
	assert_ptr_equal(w->last, w->in[1]);
	assert_int_equal(w->length, 2 * PAYLOAD + 5);
	for (i = 0; i < 2; i++)
		assert_memory_equal(w->in[1] + i * PAYLOAD, w->bytes, PAYLOAD);
	assert_memory_equal(w->in[1] + 2 * PAYLOAD, w->bytes, 5);
	say(w, INC_OP_SEND_ONLY, PAYLOAD);
	turn(w);
	assert_int_equal(w->n_got, 3);
	assert_false(w->has_imm);
	/* nobody has asked: an ACK for all of it, when its time has come */
	hears(w, INC_AETH_ACK, PEER_PSN + 4);
	assert_int_equal(figures(w).acks_sent, 1);
}

static void test_asked(void **state)
{
	struct world *w = *state;

	/* one in the midst waits for the message's end */
	peer_say(&w->peer, &(struct say){.opcode = INC_OP_SEND_FIRST,
					 .psn = w->psn++,
					 .ackreq = true,
					 .payload = w->bytes,
					 .len = PAYLOAD});
	inc_term_soft.progress(w->dev);
	assert_int_equal(figures(w).acks_sent, 0);
	say(w, INC_OP_SEND_LAST, 4);
	inc_term_soft.progress(w->dev);
	assert_int_equal(figures(w).acks_sent, 1);
	hears(w, INC_AETH_ACK, PEER_PSN + 1);
}

static void test_order(void **state)
{
	struct world *w = *state;

	say(w, INC_OP_SEND_ONLY, 8);
	turn(w);
	hears(w, INC_AETH_ACK, PEER_PSN);
	/* one NAK per gap */
	w->psn++;
	say(w, INC_OP_SEND_ONLY, 8);
	hears(w, INC_AETH_NAK_SEQ, PEER_PSN + 1);
	say(w, INC_OP_SEND_ONLY, 8);
	silent(w);
	assert_int_equal(w->n_got, 1);
	w->psn = PEER_PSN + 1;
	say(w, INC_OP_SEND_ONLY, 8);
	turn(w);
	assert_int_equal(w->n_got, 2);
	/* ... and of the next gap */
	w->psn++;
	say(w, INC_OP_SEND_ONLY, 8);
	hears(w, INC_AETH_NAK_SEQ, PEER_PSN + 2);
	assert_int_equal(figures(w).naks_sent, 2);
	/* behind: again */
	w->psn = PEER_PSN;
	say(w, INC_OP_SEND_ONLY, 8);
	hears(w, INC_AETH_ACK, PEER_PSN + 1);
	assert_int_equal(w->n_got, 2);
	assert_int_equal(figures(w).duplicates, 1);
	assert_int_equal(w->n_lost, 0);
}

static void test_room(void **state)
{
	struct world *w = *state;
	unsigned int i;

	for (i = 0; i < MESSAGES; i++)
		say(w, INC_OP_SEND_ONLY, 8);
	turn(w);
	hears(w, INC_AETH_ACK, PEER_PSN + MESSAGES - 1);
	say(w, INC_OP_SEND_ONLY, 8);
	hears(w, INC_AETH_RNR | INC_RNR_TIMER, PEER_PSN + MESSAGES);
	/* what follows is no gap */
	say(w, INC_OP_SEND_ONLY, 8);
	silent(w);
	w->psn = PEER_PSN + MESSAGES;
	say(w, INC_OP_SEND_ONLY, 8);
	hears(w, INC_AETH_RNR | INC_RNR_TIMER, PEER_PSN + MESSAGES);
	assert_int_equal(figures(w).rnrs_sent, 2);
	inc_term_soft.post(w->ch, w->in[0]);
	w->psn = PEER_PSN + MESSAGES;
	say(w, INC_OP_SEND_ONLY, 8);
	turn(w);
	assert_int_equal(w->n_got, MESSAGES + 1);
	assert_int_equal(w->n_lost, 0);
}

/* What comes before the wrong one: whole packets of a message, up to MAX_MESSAGE of them. */
static void invalid(struct world *w, unsigned int before, uint8_t opcode, size_t len)
{
	unsigned int i;

	for (i = 0; i < before; i++)
		say(w, i ? INC_OP_SEND_MIDDLE : INC_OP_SEND_FIRST, PAYLOAD);
	say(w, opcode, len);
	hears(w, INC_AETH_NAK_INVALID, PEER_PSN + before);
	assert_int_equal(w->n_lost, 1);
	assert_int_equal(w->reason, INC_TERM_INVALID);
	assert_int_equal(w->n_got, 0);
	/* it is over: nothing more is taken or said */
	w->psn = PEER_PSN + before;
	say(w, INC_OP_SEND_ONLY, 4);
	silent(w);
	assert_int_equal(w->n_got, 0);
	assert_int_equal(w->n_lost, 1);
	end_channel(w);
	make_channel(w, true, false);
}

static void test_invalid(void **state)
{
	struct world *w = *state;

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

static void strange(struct world *w, const struct say *what)
{
	const uint64_t before = device(w).strangers;

	peer_say(&w->peer, what);
	silent(w);
	assert_int_equal(device(w).strangers, before + 1);
	assert_int_equal(w->n_got, 0);
}

static void bad(struct world *w, const struct say *what)
{
	const uint64_t before = device(w).damaged;

	peer_say(&w->peer, what);
	silent(w);
	assert_int_equal(device(w).damaged, before + 1);
	assert_int_equal(w->n_got, 0);
}

static void test_strangers(void **state)
{
	struct say what = {.opcode = INC_OP_SEND_ONLY, .psn = PEER_PSN, .len = 8};
	struct world *w = *state;
	struct peer other;
	uint16_t port;

	what.payload = w->bytes;
	what.qpn = w->peer.host_qpn ^ 1024;
	strange(w, &what);
	what.qpn = 0;
	what.pkey = 0x7fff;
	strange(w, &what);
	what.pkey = 0;
	/* another port of the peer's address, and a checksum to match */
	port = peer_listen(&other);
	peer_meet(&other, w->peer.from_host.sport, w->peer.host_qpn, OWN_PSN, PEER_PSN);
	assert_int_not_equal(port, w->peer.from_host.dport);
	peer_say(&other, &what);
	silent(w);
	assert_int_equal(device(w).strangers, 3);
	close(other.fd);
	/* a channel that knows no peer */
	end_channel(w);
	make_channel(w, false, false);
	strange(w, &what);
}

static void test_damage(void **state)
{
	struct say what = {.opcode = INC_OP_SEND_ONLY, .psn = PEER_PSN, .len = 8};
	struct world *w = *state;

	what.payload = w->bytes;
	what.bad_icrc = true;
	bad(w, &what);
	what.bad_icrc = false;
	what.cut = 1;
	bad(w, &what);
	what.cut = 4;
	bad(w, &what);
	what.cut = 22;
	bad(w, &what);
	what.cut = 0;
	/* no RC opcode of ours */
	what.opcode = 0x0c;
	bad(w, &what);
	/* answers to nothing */
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

static void nak(struct world *w, uint8_t syndrome, enum inc_term_reason reason)
{
	struct inc_roce_packet pkt;

	assert_int_equal(inc_term_soft.send(w->ch, w->out, 8, true, 7), 0);
	inc_term_soft.flush(w->dev);
	assert_true(hear(w, &pkt));
	assert_int_equal(pkt.opcode, INC_OP_SEND_ONLY_IMM);
	assert_true(pkt.ackreq);
	assert_int_equal(pkt.psn, OWN_PSN);
	peer_ack(&w->peer, syndrome, OWN_PSN);
	silent(w);
	assert_int_equal(w->n_lost, 1);
	assert_int_equal(w->reason, reason);
	assert_int_equal(w->n_sent, 0);
	assert_int_not_equal(inc_term_soft.send(w->ch, w->out, 8, true, 7), 0);
	end_channel(w);
	make_channel(w, true, false);
}

static void test_naks(void **state)
{
	struct world *w = *state;

	nak(w, INC_AETH_NAK_INVALID, INC_TERM_REFUSED);
	nak(w, INC_AETH_NAK_ACCESS, INC_TERM_REFUSED);
	nak(w, INC_AETH_NAK_OPERATION, INC_TERM_ENDED_THERE);
}

/* Who goes on after the end hears so, but one that floods gets no flood. */
static void test_late(void **state)
{
	struct world *w = *state;
	struct inc_roce_packet pkt;
	unsigned int i, heard = 0;
	uint64_t begin_ns;

	say(w, INC_OP_SEND_ONLY, 8);
	say(w, INC_OP_SEND_ONLY, 8);
	turn(w);
	inc_term_soft.shut(w->ch, INC_AETH_NAK_OPERATION);
	/* it names the packet kept last */
	hears(w, INC_AETH_NAK_OPERATION, PEER_PSN + 1);
	begin_ns = inc_now_ns();
	for (i = 0; i < 300; i++) {
		say(w, INC_OP_SEND_ONLY, 8);
		turn(w);
		heard += peer_hear(&w->peer, &pkt, 0);
	}
	assert_int_equal(w->n_got, 2);
	/* and the farewells that come anyway */
	assert_in_range(heard, 0, (inc_now_ns() - begin_ns) / (10 * INC_NSEC_PER_MSEC) + 8);
	/* a switch that has ended the communicator, too, is not answered for ever */
	peer_ack(&w->peer, INC_AETH_NAK_OPERATION, OWN_PSN);
	make_channel(w, true, false);
}

/* Packets of one send, whose ICRCs are made for these IP IDs, whatever the kernel gives them. */
static void say_run(struct world *w, const uint16_t *ids, unsigned int n)
{
	const size_t size = INC_BTH_LEN + PAYLOAD + INC_ICRC_LEN;
	char control[CMSG_SPACE(sizeof(uint16_t))] __attribute__((aligned(8))) = {0};
	uint8_t bytes[16 * (INC_BTH_LEN + PAYLOAD + INC_ICRC_LEN)], *at = bytes;
	struct iovec iov = {bytes, n * size};
	struct msghdr msg = {.msg_name = &w->peer.host,
			     .msg_namelen = sizeof(w->peer.host),
			     .msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control,
			     .msg_controllen = sizeof(control)};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
	uint16_t step = size;
	unsigned int i;

	cmsg->cmsg_level = IPPROTO_UDP;
	cmsg->cmsg_type = UDP_SEGMENT;
	cmsg->cmsg_len = CMSG_LEN(sizeof(step));
	memcpy(CMSG_DATA(cmsg), &step, sizeof(step));
	for (i = 0; i < n; i++, at += size) {
		inc_put_bth(at, INC_OP_SEND_ONLY, 0, INC_PKEY_DEFAULT, w->peer.host_qpn, w->psn++);
		memcpy(at + INC_BTH_LEN, w->bytes, PAYLOAD);
		inc_put_icrc(at + size - INC_ICRC_LEN,
			     inc_icrc_udp(&w->peer.to_host, ids[i], at, size - INC_ICRC_LEN));
	}
	assert_int_equal(sendmsg(w->peer.fd, &msg, 0), (int)(n * size));
	turn(w);
}

/* A merged datagram's packets have the IDs of a run, or 0; behind a hole nothing is believed. */
static void test_ids(void **state)
{
	struct world *w = *state;

	say_run(w, (uint16_t[]){0, 1, 2, 3}, 4);
	assert_int_equal(w->n_got, 4);
	end_channel(w);
	make_channel(w, true, false);
	say_run(w, (uint16_t[]){0, 0, 0, 0}, 4);
	assert_int_equal(w->n_got, 4);
	end_channel(w);
	make_channel(w, true, false);
	say_run(w, (uint16_t[]){0, 1}, 2);
	say_run(w, (uint16_t[]){2, 3}, 2);
	assert_int_equal(w->n_got, 4);
	end_channel(w);
	make_channel(w, true, false);
	assert_int_equal(device(w).damaged, 0);
	say_run(w, (uint16_t[]){0, 2, 3}, 3);
	assert_int_equal(w->n_got, 1);
	assert_int_equal(device(w).damaged, 2);
	end_channel(w);
	make_channel(w, true, false);
	say_run(w, (uint16_t[]){7, 8, 9}, 3);
	assert_int_equal(w->n_got, 0);
	/* an RDMA device's: as it likes */
	end_channel(w);
	make_channel(w, true, true);
	say_run(w, (uint16_t[]){7, 40000, 9, 0}, 4);
	assert_int_equal(w->n_got, 4);
}

static uint32_t draw(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return *state >> 33;
}

/* Anything: packets that are nearly right, whose checksums fit, and bytes that are not even that.
 */
static void test_fuzz(void **state)
{
	struct world *w = *state;
	uint64_t seed = 42;
	unsigned int i, j, lost = 0, got = 0;

	for (i = 0; i < 40000; i++) {
		struct say what = {
			.opcode = draw(&seed) % 8 ? draw(&seed) % 6 : draw(&seed) % 0x20,
			.psn = w->psn + (draw(&seed) % 8 ? 0 : draw(&seed) % 7 - 3),
			.ackreq = draw(&seed) & 1,
			.imm = draw(&seed),
			.payload = w->bytes,
			.len = draw(&seed) % 2 ? PAYLOAD : draw(&seed) % (PAYLOAD + 8),
			.bad_icrc = draw(&seed) % 50 == 0,
			.cut = draw(&seed) % 50 ? 0 : draw(&seed) % 16,
		};
		uint8_t garbage[64];

		if (draw(&seed) % 16 == 0) {
			what.opcode = INC_OP_ACK;
			what.len = 0;
			what.psn = OWN_PSN + draw(&seed) % 4;
		}
		peer_say(&w->peer, &what);
		for (j = 0; j < sizeof(garbage); j++)
			garbage[j] = draw(&seed);
		if (draw(&seed) % 8 == 0)
			sendto(w->peer.fd, garbage, draw(&seed) % sizeof(garbage), 0,
			       (struct sockaddr *)&w->peer.host, sizeof(w->peer.host));
		if (draw(&seed) % 4 == 0)
			inc_term_soft.send(w->ch, w->out, draw(&seed) % MAX_MESSAGE, false, 0);
		got -= w->n_got;
		inc_term_soft.progress(w->dev);
		got += w->n_got;
		assert_true(w->length <= MAX_MESSAGE);
		w->psn = PEER_PSN + figures(w).rx_packets - figures(w).duplicates;
		while (recv(w->peer.fd, w->peer.buf, sizeof(w->peer.buf), MSG_DONTWAIT) >= 0)
			;
		for (j = w->n_got; j-- && draw(&seed) % 2;)
			inc_term_soft.post(w->ch, w->in[draw(&seed) % MESSAGES]);
		if (w->n_lost || draw(&seed) % 64 == 0) {
			lost += w->n_lost;
			inc_term_soft.shut(w->ch, draw(&seed) % 2 ? INC_AETH_NAK_OPERATION : 0);
			close(w->peer.fd);
			make_channel(w, true, draw(&seed) % 2);
		}
	}
	assert_true(lost > 1000);
	assert_true(got > 1000);
}

#define CASE(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(right),  CASE(asked), CASE(order), CASE(room), CASE(invalid), CASE(strangers),
		CASE(damage), CASE(naks),  CASE(late),  CASE(ids),  CASE(fuzz),
	};

	return cmocka_run_group_tests_name("soft wrong", tests, NULL, NULL);
}
