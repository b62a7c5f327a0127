/* SPDX-License-Identifier: BSD-2-Clause */
/* Soft channels in the mirrored form, in which hosts use them: each message comes back from the
 * peer as its result. Their owner does what lib/channel/channel.h allows and hosts do not do. It
 * shuts a channel from within a report, and has several channels on a device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <string.h>
#include "lib/base/clock.h"
#include "lib/channel/soft_priv.h"
#include "selftests/fakes/rc_peer.h"

#define PAYLOAD  256
#define MESSAGES 4
#define SLOTS    256 /* number of results for which the channel has room */

struct fixture {
	struct inc_channel_device *dev;
	struct inc_channel *ch;
	struct inc_channel_region region;
	struct rc_peer peer;
	struct inc_roce_packet sent[MESSAGES];
	uint8_t data[MESSAGES * PAYLOAD];
	unsigned int n_messages, n_sent;
	bool shut_at_message, shut_at_sent;
	uint8_t syndrome; /* AETH syndrome with which the handler shuts the channel */
};

static void shut(struct fixture *w)
{
	if (w->ch)
		inc_channel_soft.shut(w->ch, w->syndrome);
	w->ch = NULL;
}

static void on_message(void *ctx, const struct inc_channel_message *m)
{
	struct fixture *w = ctx;

	w->n_messages++;
	if (w->shut_at_message)
		shut(w);
}

static void on_sent(void *ctx)
{
	struct fixture *w = ctx;

	w->n_sent++;
	if (w->shut_at_sent)
		shut(w);
}

static void on_lost(void *ctx, const struct inc_channel_loss *loss)
{
	fail_msg("lost: %s", loss->text);
}

static const struct inc_channel_handler handler = {on_message, on_sent, on_lost};

static void make(struct fixture *w)
{
	const struct inc_channel_opts opts = {.pkey = INC_PKEY_DEFAULT,
					      .payload = PAYLOAD,
					      .messages = MESSAGES,
					      .mirrored = true,
					      .what = "the mirrored one",
					      .ctx = w};
	const struct inc_channel_peer peer = {.end.ip = inc_addr_of_ipv4(htonl(RC_PEER_ADDR)),
					      .end.udp_port = rc_peer_open(&w->peer),
					      .end.qpn = RC_PEER_QPN,
					      .payload = PAYLOAD,
					      .packets = SLOTS};
	struct inc_channel_own own;
	struct inc_err err;

	if (inc_channel_soft.make(w->dev, &opts, &w->ch, &own, &err) ||
	    inc_channel_soft.connect(w->ch, &peer, &err))
		fail_msg("%s", err.msg);
	rc_peer_connect(&w->peer, own.end.udp_port, own.end.qpn, 0, 0);
}

static void begin(struct fixture *w)
{
	const struct inc_channel_device_opts opts = {
		.own_ip = inc_addr_of_ipv4(htonl(RC_PEER_ADDR)),
		.rto_min_ns = INC_NSEC_PER_SEC,
		.rto_max_ns = INC_NSEC_PER_SEC,
		.handler = &handler,
	};
	struct inc_err err;

	if (inc_channel_soft.open(&opts, &w->dev, &err))
		fail_msg("open: %s", err.msg);
	make(w);
}

static void end(struct fixture *w)
{
	shut(w);
	rc_peer_close(&w->peer);
	inc_channel_soft.close(w->dev);
}

/* Sends all messages, which have one packet each, and lets the peer receive them. */
static void exchange(struct fixture *w)
{
	unsigned int i;

	assert_int_equal(inc_channel_soft.map(w->dev, w->data, sizeof(w->data), INC_CHANNEL_WRITE,
					      &w->region, NULL),
			 0);
	for (i = 0; i < MESSAGES; i++) {
		const struct inc_channel_exchange x = {.send = w->data + i * PAYLOAD,
						       .recv = w->data + i * PAYLOAD,
						       .send_len = PAYLOAD,
						       .recv_len = PAYLOAD,
						       .send_region = &w->region,
						       .recv_region = &w->region,
						       .last = i + 1 == MESSAGES};

		assert_int_equal(inc_channel_soft.exchange(w->ch, &x), 0);
	}
	inc_channel_soft.flush(w->dev);
	for (i = 0; i < MESSAGES; i++)
		assert_true(rc_peer_receive(&w->peer, &w->sent[i], 0));
}

/* Lets the results arrive in the reverse order, so that the last one completes all messages. */
static void results(struct fixture *w)
{
	static const uint8_t payload[PAYLOAD];
	unsigned int i;

	for (i = MESSAGES; i--;)
		rc_peer_mirror(&w->peer, &w->sent[i], i, payload);
	while (inc_channel_soft.progress(w->dev))
		;
	inc_channel_soft.flush(w->dev);
}

/* After a report in which the handler shuts its channel, nothing more of that channel is reported,
 * although more has arrived. */
static void test_shut_by_report(void **state)
{
	static const uint8_t syndromes[] = {0, INC_AETH_NAK_OPERATION};
	unsigned int i;

	for (i = 0; i < 2; i++) {
		struct fixture at_message = {.syndrome = syndromes[i], .shut_at_message = true};
		struct fixture at_sent = {.syndrome = syndromes[i], .shut_at_sent = true};

		begin(&at_message);
		exchange(&at_message);
		results(&at_message);
		assert_int_equal(at_message.n_messages, 1);
		assert_int_equal(at_message.n_sent, MESSAGES);
		end(&at_message);

		begin(&at_sent);
		exchange(&at_sent);
		rc_peer_mirror(&at_sent.peer, &at_sent.sent[0], 0, at_sent.data);
		inc_channel_soft.progress(at_sent.dev);
		assert_int_equal(at_sent.n_sent, 1);
		assert_int_equal(at_sent.n_messages, 0);
		end(&at_sent);
	}
}

/* If channels of a device were shut, the device's deadline includes their closing NAKs, also beside
 * a mirrored channel. */
static void test_closing_beside(void **state)
{
	struct fixture w = {.syndrome = INC_AETH_NAK_OPERATION};
	struct inc_channel *other;

	begin(&w);
	other = w.ch;
	rc_peer_close(&w.peer);
	make(&w);
	inc_channel_soft.flush(w.dev);
	assert_true(inc_channel_soft.deadline_ns(w.dev) == UINT64_MAX);
	inc_channel_soft.shut(other, INC_AETH_NAK_OPERATION);
	assert_true(inc_channel_soft.deadline_ns(w.dev) <= inc_now_ns() + SOFT_CLOSING_NS);
	end(&w);
}

/* A call of the sanitizers, with which this test is always built. */
size_t __sanitizer_get_current_allocated_bytes(void);

/* The device remembers a channel that has ended, but has freed the places of its results. */
static void test_ended(void **state)
{
	struct fixture w = {.syndrome = INC_AETH_NAK_OPERATION};
	size_t before;
	unsigned int i;

	begin(&w);
	before = __sanitizer_get_current_allocated_bytes();
	for (i = 0; i < 20; i++) {
		shut(&w);
		rc_peer_close(&w.peer);
		make(&w);
	}
	assert_in_range(__sanitizer_get_current_allocated_bytes() - before, 1, 20 * 4096);
	end(&w);
}

/* Lets a result arrive whose ICRC is wrong, and checks that it does not count. */
static void damaged_result(struct fixture *w, const void *payload)
{
	struct inc_channel_device_figures before, after;

	inc_channel_soft.device_figures(w->dev, &before);
	rc_peer_send(&w->peer, &(struct rc_packet){.opcode = w->sent[0].opcode,
						   .psn = 0,
						   .payload = payload,
						   .len = PAYLOAD,
						   .flip_icrc = 0x10});
	inc_channel_soft.progress(w->dev);
	inc_channel_soft.device_figures(w->dev, &after);
	assert_int_equal(after.damaged, before.damaged + 1);
	assert_int_equal(w->n_messages, 0);
}

/* A result in the memory of its contribution is written before its ICRC is checked only if the
 * contribution is acknowledged, because the contribution may be retransmitted until then. */
static void test_damaged_in_place(void **state)
{
	static uint8_t wrong[PAYLOAD], right[PAYLOAD];
	struct inc_roce_packet again;
	struct fixture w = {};
	unsigned int i;

	memset(wrong, 0xee, sizeof(wrong));
	memset(right, 0x77, sizeof(right));
	for (i = 0; i < sizeof(w.data); i++)
		w.data[i] = i * 7;
	begin(&w);
	exchange(&w);
	damaged_result(&w, wrong);
	rc_peer_ack(&w.peer, INC_AETH_NAK_SEQ, 0);
	inc_channel_soft.progress(w.dev);
	inc_channel_soft.flush(w.dev);
	for (i = 0; i < MESSAGES; i++) {
		assert_true(rc_peer_receive(&w.peer, &again, 0));
		assert_memory_equal(again.payload, w.data + i * PAYLOAD, PAYLOAD);
		assert_int_equal(again.payload[1], (i * PAYLOAD + 1) * 7 % 256);
	}
	rc_peer_ack(&w.peer, INC_AETH_ACK, MESSAGES - 1);
	inc_channel_soft.progress(w.dev);
	assert_int_equal(w.n_sent, MESSAGES);
	damaged_result(&w, wrong);
	assert_memory_equal(w.data, wrong, PAYLOAD);
	for (i = 0; i < MESSAGES; i++)
		rc_peer_mirror(&w.peer, &w.sent[i], i, right);
	inc_channel_soft.progress(w.dev);
	assert_int_equal(w.n_messages, MESSAGES);
	for (i = 0; i < MESSAGES; i++)
		assert_memory_equal(w.data + i * PAYLOAD, right, PAYLOAD);
	end(&w);
}

/* A switch may have an RDMA device at the port of RoCEv2. A device sends no more until it has an
 * ACK, so ACKs to that port are as frequent as to any device. */
static void test_acks_of_a_device(void **state)
{
	const struct inc_channel_opts opts = {.pkey = INC_PKEY_DEFAULT,
					      .payload = PAYLOAD,
					      .messages = MESSAGES,
					      .mirrored = true,
					      .what = "the mirrored one"};
	struct inc_channel_peer peer = {.end.ip = inc_addr_of_ipv4(htonl(RC_PEER_ADDR)),
					.end.udp_port = INC_ROCE_UDP_PORT,
					.end.qpn = RC_PEER_QPN,
					.payload = PAYLOAD,
					.packets = SLOTS,
					.by_message = true,
					.messages = MESSAGES};
	struct inc_channel_own own;
	struct fixture w = {};
	struct inc_channel *ch;
	struct inc_err err;
	unsigned int i;

	begin(&w);
	for (i = 0; i < 2; i++) {
		assert_int_equal(inc_channel_soft.make(w.dev, &opts, &ch, &own, &err), 0);
		assert_int_equal(inc_channel_soft.connect(ch, &peer, &err), 0);
		assert_int_equal(SOFT_CH(ch)->ack_every, i ? SOFT_ACK_MOST : INC_ACK_EVERY);
		inc_channel_soft.shut(ch, 0);
		peer.end.udp_port++;
	}
	end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shut_by_report),
		cmocka_unit_test(test_closing_beside),
		cmocka_unit_test(test_ended),
		cmocka_unit_test(test_damaged_in_place),
		cmocka_unit_test(test_acks_of_a_device),
	};

	return cmocka_run_group_tests_name("soft mirror", tests, NULL, NULL);
}
