/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The hosts' soft transport against a soft endpoint of a switch, which sends each message back as
 * its result. Both implementations must work together on a good network and on bad ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/src/endpoint.h"
#include "lib/base/clock.h"
#include "lib/proto/roce.h"
#include "selftests/fakes/memory_os.h"
#include "selftests/hostlib/soft_endpoint.h"

#define PAYLOAD  1024
#define PACKETS  64 /* packets of the longest message */
#define BYTES    (PACKETS * PAYLOAD)
#define MESSAGES 4 /* messages in the window */
#define HOST_PSN 0xfffff0
#define OWN_PSN  77

struct fixture {
	struct inc_channel_device *dev;
	struct inc_channel *ch;
	struct inccl_endpoint *ep;
	struct inc_channel_region region;
	uint8_t in[MESSAGES][BYTES]; /* the switch's buffers */
	uint64_t n_got, n_given;
	/* buffers of messages that were sent back and are not acknowledged yet: numbers n_given to
	 * n_got */
	void *under_way[MESSAGES];
	uint8_t *send, *recv;
};

static void on_message(void *ctx, const struct inc_channel_message *m)
{
	struct fixture *w = ctx;
	uint32_t i;

	for (i = 0; i < m->length; i++)
		((uint8_t *)m->buffer)[i] ^= 0x5a;
	w->under_way[w->n_got++ % MESSAGES] = m->buffer;
	assert_int_equal(inc_channel_soft.send(w->ch, m->length ? m->buffer : NULL, m->length,
					       m->has_imm, m->imm),
			 0);
}

static void on_sent(void *ctx)
{
	struct fixture *w = ctx;

	assert_int_equal(inc_channel_soft.post(w->ch, w->under_way[w->n_given++ % MESSAGES]), 0);
}

static void on_lost(void *ctx, const struct inc_channel_loss *loss)
{
	fail_msg("lost: %s", loss->text);
}

static const struct inc_channel_handler handler = {on_message, on_sent, on_lost};

static void no_log(void *ctx, const char *fmt, ...)
{
}

static void open_switch(struct fixture *w, struct inc_channel_own *own)
{
	const struct inc_channel_device_opts opts = {
		.own_ip = inc_addr_of_ipv4(htonl(INADDR_LOOPBACK)),
		.rto_min_ns = 5 * INC_NSEC_PER_MSEC,
		.rto_max_ns = 100 * INC_NSEC_PER_MSEC,
		.handler = &handler,
	};
	const struct inc_channel_opts channel = {
		.own.psn = OWN_PSN,
		.ifname = "lo",
		.pkey = INC_PKEY_DEFAULT,
		.payload = PAYLOAD,
		.max_message_bytes = BYTES,
		.messages = MESSAGES,
		.what = "the switch's",
		.ctx = w,
	};
	struct inc_err err;
	unsigned int i;

	if (inc_channel_soft.open(&opts, &w->dev, &err) ||
	    inc_channel_soft.make(w->dev, &channel, &w->ch, own, &err))
		fail_msg("%s", err.msg);
	for (i = 0; i < MESSAGES; i++)
		assert_int_equal(inc_channel_soft.post(w->ch, w->in[i]), 0);
}

static void open_host(struct fixture *w, const struct inc_channel_own *to)
{
	const struct inccl_open_opts opts = {
		.addr = inc_addr_of_ipv4(htonl(INADDR_LOOPBACK)),
		.payload = PAYLOAD,
		.message_packets = PACKETS,
		.window_messages = MESSAGES,
		.start_psn = HOST_PSN,
		.log = no_log,
	};
	const struct inc_channel_peer remote = {
		.end.ip = inc_addr_of_ipv4(htonl(INADDR_LOOPBACK)),
		.end.udp_port = to->end.udp_port,
		.end.qpn = to->end.qpn,
		.end.psn = to->end.psn,
		.payload = PAYLOAD,
		.packets = PACKETS * MESSAGES,
		.by_message = true,
		.messages = MESSAGES,
		.name = "the switch",
	};
	struct inc_channel_peer peer = {.end.ip = inc_addr_of_ipv4(htonl(INADDR_LOOPBACK))};
	struct inccl_own local;
	struct inc_err err;

	if (inccl_endpoint_open(&endpoint_soft, &opts, &w->ep, &local, &err) ||
	    inccl_endpoint_connect(w->ep, &remote, &err))
		fail_msg("%s", err.msg);
	peer.end.udp_port = local.end.udp_port;
	peer.end.qpn = local.end.qpn;
	peer.end.psn = local.end.psn;
	if (inc_channel_soft.connect(w->ch, &peer, &err))
		fail_msg("%s", err.msg);
}

static uint32_t length_of(uint64_t m)
{
	static const uint32_t lengths[] = {4, 0, BYTES, 1024, 1028, 60 * PAYLOAD, 2048, 3001 * 4};

	/* the first message of a block is one packet; an empty message is a packet, too */
	return m % 5 ? lengths[m % 8] : 4 * (m % 200);
}

static void post(struct fixture *w, uint64_t m, uint64_t n)
{
	uint32_t len = length_of(m);
	struct inc_channel_exchange msg = {
		.send = w->send + m * BYTES,
		.recv = w->recv + m * BYTES,
		.send_len = len,
		.recv_len = len,
		.send_region = len ? &w->region : NULL,
		.recv_region = len ? &w->region : NULL,
		.imm = 0x1000 + m,
		.has_imm = m % 5 == 0,
		.last = m + 1 == n || m % 7 == 6,
	};

	assert_int_equal(inccl_endpoint_post(w->ep, &msg), 0);
}

static void run(uint64_t n, unsigned int limit_s)
{
	struct fixture *w = calloc(1, sizeof(*w));
	uint64_t m = 0, end_ns = inc_now_ns() + limit_s * INC_NSEC_PER_SEC, i, at;
	struct inc_channel_own own;
	int ret = 0;

	assert_non_null(w);
	w->send = malloc(n * BYTES);
	w->recv = calloc(n, BYTES);
	assert_non_null(w->send);
	assert_non_null(w->recv);
	for (i = 0; i < n * BYTES; i++)
		w->send[i] = i * 7 ^ i >> 9;
	open_switch(w, &own);
	open_host(w, &own);
	inccl_endpoint_map(w->ep, w->recv, n * BYTES, true, &w->region);
	while (w->ep->completed < n || !inccl_endpoint_quiet(w->ep) || w->n_given < n) {
		if (inc_now_ns() > end_ns)
			fail_msg("%llu of %llu messages", (unsigned long long)w->ep->completed,
				 (unsigned long long)n);
		while (m < n && m - w->ep->completed < MESSAGES)
			post(w, m++, n);
		ret = inccl_endpoint_flush(w->ep);
		if (!ret)
			ret = inccl_endpoint_progress(w->ep);
		if (ret < 0)
			fail_msg("%s", w->ep->error);
		inc_channel_soft.progress(w->dev);
		inc_channel_soft.flush(w->dev);
	}
	assert_int_equal(w->n_got, n);
	for (i = 0; i < n; i++)
		for (at = 0; at < length_of(i); at++)
			if (w->recv[i * BYTES + at] != (w->send[i * BYTES + at] ^ 0x5a))
				fail_msg("message %llu, byte %llu", (unsigned long long)i,
					 (unsigned long long)at);
	inccl_endpoint_close(w->ep);
	inc_channel_soft.shut(w->ch, 0);
	inc_channel_soft.close(w->dev);
	free(w->send);
	free(w->recv);
	free(w);
}

static void test_good(void **state)
{
	lossy_set(&(struct lossy_faults){0}, 1);
	run(600, 60);
}

static void test_bad(void **state)
{
	static const struct lossy_faults faults[] = {
		{.lose = 10, .part = 1000},
		{.repeat = 30, .part = 500},
		{.delay = 10, .part = 500},
		{.damage = 5, .part = 1000},
		{.lose = 80, .repeat = 80, .delay = 20, .damage = 20, .part = 700},
	};
	unsigned int i;

	for (i = 0; i < sizeof(faults) / sizeof(*faults); i++) {
		lossy_set(&faults[i], 20 + i);
		run(60, 60);
		assert_true(lossy_done() > 0);
	}
}

/* The switch ends the communicator. A host that waits must get that error. */
static void test_ended(void **state)
{
	struct fixture *w = calloc(1, sizeof(*w));
	uint64_t end_ns = inc_now_ns() + 20 * INC_NSEC_PER_SEC;
	struct inc_channel_own own;

	assert_non_null(w);
	lossy_set(&(struct lossy_faults){0}, 1);
	w->send = calloc(1, BYTES);
	w->recv = calloc(1, BYTES);
	open_switch(w, &own);
	open_host(w, &own);
	inccl_endpoint_map(w->ep, w->recv, BYTES, true, &w->region);
	post(w, 0, 1);
	assert_int_equal(inccl_endpoint_flush(w->ep), 0);
	while (!w->n_got || !endpoint_stats(w->ep).acks_received) {
		inc_channel_soft.progress(w->dev);
		inc_channel_soft.flush(w->dev);
		assert_true(inccl_endpoint_progress(w->ep) >= 0);
		assert_true(inc_now_ns() < end_ns);
	}
	inc_channel_soft.shut(w->ch, INC_AETH_NAK_OPERATION);
	while (inccl_endpoint_progress(w->ep) >= 0)
		assert_true(inc_now_ns() < end_ns);
	assert_true(w->ep->mismatch);
	inccl_endpoint_close(w->ep);
	inc_channel_soft.close(w->dev);
	free(w->send);
	free(w->recv);
	free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_ended),
	};

	return cmocka_run_group_tests_name("soft host", tests, NULL, NULL);
}
