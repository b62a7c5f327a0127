/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/clock.h"
#include "lib/proto/roce.h"
#include "selftests/term/soft_pair.h"

static uint64_t mix(uint64_t v)
{
	v = (v ^ v >> 31) * 0x7fb5d329728ea185ull;
	v = (v ^ v >> 27) * 0x81dadef4bc2dd44dull;
	return v ^ v >> 33;
}

static uint64_t seed_of(const struct pair_end *e, uint64_t number)
{
	return mix(e->seed * 1000003 + number);
}

/* Many are empty, short, of whole packets, or the longest. */
static uint32_t length_of(const struct pair_end *e, uint64_t number)
{
	uint64_t v = seed_of(e, number);

	switch (v % 6) {
	case 0:
		return v >> 8 & 1 ? 0 : 4;
	case 1:
		return (v >> 8) % PAIR_PAYLOAD;
	case 2:
		return ((v >> 8) % 16 + 1) * PAIR_PAYLOAD;
	case 3:
		return PAIR_MAX_MESSAGE;
	}
	return (v >> 8) % (PAIR_MAX_MESSAGE + 1);
}

static void fill(const struct pair_end *e, uint64_t number, uint8_t *out, uint32_t length)
{
	uint64_t v = seed_of(e, number) | 1;
	uint32_t i;

	for (i = 0; i < length; i++) {
		v = v * 6364136223846793005ull + 1442695040888963407ull;
		out[i] = v >> 56;
	}
}

static void on_message(void *ctx, const struct inc_term_message *m)
{
	struct pair_end *e = ctx;
	const uint64_t number = e->n_got++, v = seed_of(e->peer, number);
	uint8_t want[PAIR_MAX_MESSAGE];

	assert_true(number < e->peer->n_sent);
	assert_int_equal(m->length, length_of(e->peer, number));
	assert_int_equal(m->has_desc, v >> 60 & 1);
	if (m->has_desc)
		assert_int_equal(m->desc, (uint32_t)v);
	fill(e->peer, number, want, m->length);
	assert_memory_equal(m->buffer, want, m->length);
	assert_ptr_equal(m->buffer, e->in + number % PAIR_MESSAGES * PAIR_MAX_MESSAGE);
	if (!e->stingy)
		assert_int_equal(e->ch->dev->ops->post(e->ch, m->buffer), 0);
}

static void on_sent(void *ctx)
{
	struct pair_end *e = ctx;

	assert_true(e->n_done < e->n_sent);
	/* an acknowledgement comes after the message */
	assert_true(e->n_done < e->peer->n_got);
	/* its buffer is not read any more */
	memset(e->out + e->n_done % PAIR_MESSAGES * PAIR_MAX_MESSAGE, 0xee, PAIR_MAX_MESSAGE);
	e->n_done++;
}

static void on_lost(void *ctx, enum inc_term_reason reason, const char *text)
{
	struct pair_end *e = ctx;

	assert_false(e->lost);
	e->lost = true;
	e->reason = reason;
	snprintf(e->text, sizeof(e->text), "%s", text);
}

static const struct inc_term_handler handler = {on_message, on_sent, on_lost};

static void open_end(struct pair *p, unsigned int d, unsigned int i, uint64_t seed)
{
	struct pair_end *e = &p->end[d][i];
	const struct inc_term_channel_opts opts = {
		/* numbers wrap within the first messages */
		.psn = INC_PSN_MASK - mix(seed) % 50,
		.pkey = INC_PKEY_DEFAULT,
		.payload = PAIR_PAYLOAD,
		.max_message = PAIR_MAX_MESSAGE,
		.messages = PAIR_MESSAGES,
		.what = "the pair's",
		.ctx = e,
	};
	struct inc_err err;
	unsigned int m;

	e->seed = mix(seed);
	e->peer = &p->end[!d][i];
	e->in = malloc(PAIR_MESSAGES * PAIR_MAX_MESSAGE);
	e->out = malloc(PAIR_MESSAGES * PAIR_MAX_MESSAGE);
	assert_non_null(e->in);
	assert_non_null(e->out);
	if (inc_term_soft.make(p->dev[d], &opts, &e->ch, &e->own, &err))
		fail_msg("make: %s", err.msg);
	for (m = 0; m < PAIR_MESSAGES; m++)
		assert_int_equal(inc_term_soft.post(e->ch, e->in + m * PAIR_MAX_MESSAGE), 0);
	assert_int_equal(inc_term_soft.post(e->ch, e->in), -ENOBUFS);
}

void pair_open(struct pair *p, unsigned int n_channels, uint64_t seed)
{
	const struct inc_term_device_opts opts = {
		.ifname = "lo",
		.own_ip = {htonl(INADDR_LOOPBACK)},
		.rto_min_ns = 5 * INC_NSEC_PER_MSEC,
		.rto_max_ns = 100 * INC_NSEC_PER_MSEC,
		.handler = &handler,
	};
	struct inc_err err;
	unsigned int d, i;

	memset(p, 0, sizeof(*p));
	p->n_channels = n_channels;
	for (d = 0; d < 2; d++) {
		if (inc_term_soft.open(&opts, &p->dev[d], &err))
			fail_msg("open: %s", err.msg);
		assert_ptr_equal(p->dev[d]->ops, &inc_term_soft);
	}
	for (d = 0; d < 2; d++)
		for (i = 0; i < n_channels; i++)
			open_end(p, d, i, seed * 16 + d * 8 + i);
}

void pair_connect(struct pair *p)
{
	unsigned int d, i;
	struct inc_err err;

	for (d = 0; d < 2; d++)
		for (i = 0; i < p->n_channels; i++) {
			const struct inc_term_numbers *to = &p->end[!d][i].own;
			const struct inc_term_peer_addr peer = {
				.ip = {htonl(INADDR_LOOPBACK)},
				.udp_port = to->udp_port,
				.qpn = to->qpn,
				.psn = to->psn,
			};

			if (inc_term_soft.connect(p->end[d][i].ch, &peer, &err))
				fail_msg("connect: %s", err.msg);
			assert_int_equal(inc_term_soft.connect(p->end[d][i].ch, &peer, &err),
					 -EALREADY);
		}
}

void pair_close(struct pair *p)
{
	unsigned int d, i;

	for (d = 0; d < 2; d++) {
		for (i = 0; i < p->n_channels; i++) {
			if (p->end[d][i].ch)
				inc_term_soft.shut(p->end[d][i].ch, 0);
			free(p->end[d][i].in);
			free(p->end[d][i].out);
		}
		inc_term_soft.close(p->dev[d]);
	}
}

void pair_want(struct pair *p, uint64_t messages)
{
	unsigned int d, i;

	for (d = 0; d < 2; d++)
		for (i = 0; i < p->n_channels; i++)
			p->end[d][i].total += messages;
}

static void send_more(struct pair_end *e)
{
	while (e->ch && !e->lost && e->n_sent < e->total && e->n_sent - e->n_done < PAIR_MESSAGES) {
		const uint64_t number = e->n_sent++, v = seed_of(e, number);
		uint8_t *out = e->out + number % PAIR_MESSAGES * PAIR_MAX_MESSAGE;
		uint32_t length = length_of(e, number);

		fill(e, number, out, length);
		assert_int_equal(inc_term_soft.send(e->ch, length ? out : NULL, length, v >> 60 & 1,
						    (uint32_t)v),
				 0);
	}
}

void pair_turn(struct pair *p)
{
	unsigned int d, i;

	for (d = 0; d < 2; d++) {
		for (i = 0; i < p->n_channels; i++)
			send_more(&p->end[d][i]);
		inc_term_soft.flush(p->dev[d]);
		inc_term_soft.progress(p->dev[d]);
	}
}

static bool all_done(struct pair *p)
{
	unsigned int d, i;

	for (d = 0; d < 2; d++)
		for (i = 0; i < p->n_channels; i++)
			if (p->end[d][i].n_done < p->end[d][i].total)
				return false;
	return true;
}

static void turn_until(struct pair *p, bool (*what)(struct pair *p), unsigned int limit_s)
{
	uint64_t end_ns = inc_now_ns() + limit_s * INC_NSEC_PER_SEC;

	while (!what(p)) {
		if (inc_now_ns() > end_ns)
			fail_msg("not within %u s: %llu of %llu messages done", limit_s,
				 (unsigned long long)p->end[0][0].n_done,
				 (unsigned long long)p->end[0][0].total);
		pair_turn(p);
	}
}

void pair_run(struct pair *p, unsigned int limit_s)
{
	unsigned int d, i;

	turn_until(p, all_done, limit_s);
	for (d = 0; d < 2; d++)
		for (i = 0; i < p->n_channels; i++) {
			assert_int_equal(p->end[d][i].n_got, p->end[!d][i].total);
			assert_false(p->end[d][i].lost);
		}
}

void pair_until(struct pair *p, bool (*what)(struct pair *p))
{
	turn_until(p, what, 20);
}

struct inc_term_channel_figures pair_figures(struct pair *p, unsigned int d, unsigned int i)
{
	struct inc_term_channel_figures f;

	inc_term_soft.figures(p->end[d][i].ch, &f);
	return f;
}

struct inc_term_device_figures pair_device_figures(struct pair *p, unsigned int d)
{
	struct inc_term_device_figures f;

	inc_term_soft.device_figures(p->dev[d], &f);
	return f;
}
