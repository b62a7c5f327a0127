/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* Messages of any number of bytes over the soft endpoint: the padding of packets, and the end of
 * received data. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/clock.h"
#include "lib/channel/soft_priv.h"
#include "selftests/hostlib/soft_endpoint.h"

#define PAYLOAD   256
#define SLOTS     64
#define MESSAGES  3 /* number of messages in one send */
#define ROOM      (5 * PAYLOAD)
#define IMM       0x1234567
#define WAIT_MS   5000
#define UNTOUCHED 0xee

struct fixture {
	struct rc_peer peer;
	struct inccl_endpoint *ep;
	struct inc_channel_region region;
	uint8_t send[MESSAGES][ROOM], recv[MESSAGES][ROOM], want[MESSAGES][ROOM];
	uint64_t received; /* number of packets that were received, all of which were answered */
	uint64_t posted;   /* number of messages that were posted */
};

static int setup(void **state)
{
	struct fixture *w = calloc(1, sizeof(*w));
	size_t i;

	*state = w;
	if (!w)
		return -1;
	for (i = 0; i < sizeof(w->send); i++) {
		w->send[i / ROOM][i % ROOM] = i * 7 + i / 251 + 1;
		w->want[i / ROOM][i % ROOM] = i * 13 + i / 241 + 1;
	}
	w->ep = endpoint_pair(&w->peer, PAYLOAD, SLOTS, 1000, 0xfffff0);
	/* a busy machine must not cause timeouts in cases about something else */
	endpoint_channel(w->ep)->tx.rto.rto_ns = INCCL_RTO_MAX_NS;
	return inccl_endpoint_map(w->ep, w->recv, sizeof(w->recv), true, &w->region);
}

static int teardown(void **state)
{
	struct fixture *w = *state;

	endpoint_pair_close(&w->peer, w->ep);
	free(w);
	return 0;
}

static void post(struct fixture *w, unsigned int i, uint32_t len, uint8_t mode)
{
	struct inc_channel_exchange msg = {
		.send = w->send[i],
		.recv = w->recv[i],
		.send_len = len,
		.recv_len = len,
		.recv_region = len ? &w->region : NULL,
		.imm = IMM,
		.write = mode == INCCL_MODE_WRITE,
		.has_imm = true,
		.last = i == MESSAGES - 1,
	};

	assert_int_equal(inccl_endpoint_post(w->ep, &msg), 0);
	w->posted++;
}

/* Receives the packets of message i, and answers each of them. */
static void answer(struct fixture *w, unsigned int i, uint32_t len)
{
	static const uint8_t zeros[3];
	struct inc_roce_packet pkt;
	uint32_t at = 0, n;

	do {
		n = len - at < PAYLOAD ? len - at : PAYLOAD;
		do
			assert_true(rc_peer_receive(&w->peer, &pkt, WAIT_MS));
		while (pkt.opcode == INC_OP_ACK);
		assert_int_equal(pkt.psn, (w->peer.channel_psn + w->received) & INC_PSN_MASK);
		assert_int_equal(pkt.len, n);
		assert_memory_equal(pkt.payload, w->send[i] + at, n);
		assert_memory_equal(pkt.payload + n, zeros, -n & 3);
		if (inc_roce_has_reth(pkt.opcode))
			assert_int_equal(pkt.dmalen, len);
		rc_peer_mirror(&w->peer, &pkt, w->received++, w->want[i] + at);
		at += n;
	} while (at < len);
}

/* Serves until the endpoint has all results. */
static void serve(struct fixture *w)
{
	uint64_t end = deadline_after_ms(WAIT_MS);

	while (w->ep->completed < w->posted) {
		assert_true(inccl_endpoint_progress(w->ep) >= 0);
		assert_int_equal(inccl_endpoint_flush(w->ep), 0);
		assert_true(inc_now_ns() < end);
	}
}

static void one_send(struct fixture *w, const uint32_t len[MESSAGES], uint8_t mode)
{
	unsigned int i;

	memset(w->recv, UNTOUCHED, sizeof(w->recv));
	for (i = 0; i < MESSAGES; i++)
		post(w, i, len[i], mode);
	assert_int_equal(inccl_endpoint_flush(w->ep), 0);
	for (i = 0; i < MESSAGES; i++)
		answer(w, i, len[i]);
	serve(w);
	for (i = 0; i < MESSAGES; i++) {
		assert_memory_equal(w->recv[i], w->want[i], len[i]);
		assert_int_equal(w->recv[i][len[i]], UNTOUCHED);
	}
}

static void odd_lengths(void **state)
{
	static const uint32_t lens[][MESSAGES] = {
		{7, 0, 1},
		{1, 2, 3},
		{PAYLOAD - 1, PAYLOAD + 2, 5},
		{PAYLOAD - 3, PAYLOAD - 3, PAYLOAD - 3},
		{2 * PAYLOAD + 1, 3 * PAYLOAD - 2, 4 * PAYLOAD + 3},
	};
	size_t i;

	for (i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		one_send(*state, lens[i], INCCL_MODE_SENDRECV);
		one_send(*state, lens[i], INCCL_MODE_WRITE);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(odd_lengths, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
