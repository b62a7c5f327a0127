/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/clock.h"
#include "selftests/term/soft_lone.h"

static void on_message(void *ctx, const struct inc_channel_message *m)
{
	struct lone *w = ctx;

	assert_in_range((uint8_t *)m->buffer - w->in[0], 0, sizeof(w->in) - MAX_MESSAGE);
	w->n_got++;
	w->last = m->buffer;
	w->length = m->length;
	w->has_imm = m->has_imm;
	w->imm = m->imm;
	if (w->replies)
		assert_int_equal(inc_channel_soft.send(w->ch, m->buffer, m->length, false, 0), 0);
}

static void on_sent(void *ctx)
{
	((struct lone *)ctx)->n_sent++;
}

static void on_lost(void *ctx, const struct inc_channel_loss *loss)
{
	struct lone *w = ctx;

	w->n_lost++;
	w->reason = loss->reason;
	strcpy(w->text, loss->text);
	assert_true(*w->text);
}

static const struct inc_channel_handler handler = {on_message, on_sent, on_lost};

void lone_make(struct lone *w, bool connect, bool any_ip_id)
{
	const struct inc_channel_opts opts = {
		.own.psn = OWN_PSN,
		.ifname = "lo",
		.pkey = INC_PKEY_DEFAULT,
		.payload = PAYLOAD,
		.max_message_bytes = MAX_MESSAGE,
		.messages = MESSAGES,
		.se = w->se,
		.peer_se = w->peer_se,
		.what = "the wrong one",
		.ctx = w,
	};
	struct inc_channel_peer peer = {.end.ip = inc_addr_of_ipv4(htonl(RC_PEER_ADDR)),
					.end.udp_port = rc_peer_open(&w->peer),
					.end.qpn = RC_PEER_QPN,
					.end.psn = PEER_PSN,
					.is_switch = w->is_switch,
					.any_ip_id = any_ip_id,
					.results_acknowledge = w->results_acknowledge};
	struct inc_channel_own own;
	struct inc_err err;
	unsigned int i;

	if (inc_channel_soft.make(w->dev, &opts, &w->ch, &own, &err))
		fail_msg("make: %s", err.msg);
	if (connect && inc_channel_soft.connect(w->ch, &peer, &err))
		fail_msg("connect: %s", err.msg);
	for (i = 0; i < MESSAGES; i++)
		assert_int_equal(inc_channel_soft.post(w->ch, w->in[i]), 0);
	rc_peer_connect(&w->peer, own.end.udp_port, own.end.qpn, OWN_PSN, PEER_PSN);
	w->psn = PEER_PSN;
	w->n_got = w->n_sent = w->n_lost = 0;
}

void lone_end(struct lone *w)
{
	inc_channel_soft.shut(w->ch, 0);
	rc_peer_close(&w->peer);
}

static void open_device(struct lone *w)
{
	const struct inc_channel_device_opts opts = {
		.own_ip = inc_addr_of_ipv4(htonl(RC_PEER_ADDR)),
		.rto_min_ns = w->rto_max_ns,
		.rto_max_ns = w->rto_max_ns,
		.handler = &handler,
	};
	struct inc_err err;

	if (inc_channel_soft.open(&opts, &w->dev, &err))
		fail_msg("open: %s", err.msg);
	lone_make(w, true, false);
}

void lone_reopen(struct lone *w)
{
	lone_end(w);
	inc_channel_soft.close(w->dev);
	open_device(w);
}

int lone_setup_kernel(void **state)
{
	struct lone *w = calloc(1, sizeof(*w));
	size_t i;

	*state = w;
	assert_non_null(w);
	for (i = 0; i < sizeof(w->bytes); i++)
		w->bytes[i] = i * 11 + i / 256;
	w->rto_max_ns = INC_NSEC_PER_SEC;
	open_device(w);
	return 0;
}

int lone_setup(void **state)
{
	memory_os_begin();
	return lone_setup_kernel(state);
}

int lone_teardown(void **state)
{
	struct lone *w = *state;

	lone_end(w);
	inc_channel_soft.close(w->dev);
	inc_os = inc_os_kernel;
	free(w);
	return 0;
}

void lone_turn(struct lone *w)
{
	int i;

	for (i = 0; i < 3; i++) {
		while (inc_channel_soft.progress(w->dev))
			;
		inc_channel_soft.flush(w->dev);
	}
}

bool lone_receive(struct lone *w, struct inc_roce_packet *pkt)
{
	unsigned int ms;

	for (ms = 0; ms < RECEIVE_MS; ms++) {
		lone_turn(w);
		if (rc_peer_receive(&w->peer, pkt, 0))
			return true;
		memory_os_pass_ns(INC_NSEC_PER_MSEC);
	}
	return false;
}

void lone_silent(struct lone *w)
{
	struct inc_roce_packet pkt;

	lone_turn(w);
	assert_false(rc_peer_receive(&w->peer, &pkt, 0));
}

void lone_expect(struct lone *w, uint8_t syndrome, uint32_t psn)
{
	struct inc_roce_packet pkt;

	assert_true(lone_receive(w, &pkt));
	assert_int_equal(pkt.opcode, INC_OP_ACK);
	assert_int_equal(pkt.syndrome, syndrome);
	assert_int_equal(pkt.psn, psn & INC_PSN_MASK);
}

void lone_send(struct lone *w, uint8_t opcode, size_t len)
{
	rc_peer_send(&w->peer, &(struct rc_packet){.opcode = opcode,
						   .psn = w->psn++,
						   .imm = 0x1234567,
						   .payload = w->bytes,
						   .len = len});
}

struct inc_channel_device_figures lone_device(struct lone *w)
{
	struct inc_channel_device_figures f;

	inc_channel_soft.device_figures(w->dev, &f);
	return f;
}

struct inc_channel_figures lone_figures(struct lone *w)
{
	struct inc_channel_figures f;

	inc_channel_soft.figures(w->ch, &f);
	return f;
}
