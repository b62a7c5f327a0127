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
#include "selftests/term/harness_device_pair.h"

static uint64_t mix(uint64_t v)
{
	v = (v ^ v >> 31) * 0x7fb5d329728ea185ull;
	v = (v ^ v >> 27) * 0x81dadef4bc2dd44dull;
	return v ^ v >> 33;
}

static uint64_t seed_of(const struct device_pair_end *e, uint64_t number)
{
	return mix(e->seed * 1000003 + number);
}

/* Draws the length of a message. Many messages are empty, short, of whole packets, or of the
 * greatest length. */
static uint32_t length_of(const struct device_pair_end *e, uint64_t number)
{
	uint64_t v = seed_of(e, number);

	switch (v % 6) {
	case 0:
		return v >> 8 & 1 ? 0 : 4;
	case 1:
		return (v >> 8) % DEVICE_PAIR_PAYLOAD;
	case 2:
		return ((v >> 8) % 16 + 1) * DEVICE_PAIR_PAYLOAD;
	case 3:
		return DEVICE_PAIR_MAX_MESSAGE;
	}
	return (v >> 8) % (DEVICE_PAIR_MAX_MESSAGE + 1);
}

static void fill(const struct device_pair_end *e, uint64_t number, uint8_t *out, uint32_t length)
{
	uint64_t v = seed_of(e, number) | 1;
	uint32_t i;

	for (i = 0; i < length; i++) {
		v = v * 6364136223846793005ull + 1442695040888963407ull;
		out[i] = v >> 56;
	}
}

void device_pair_post(struct device_pair_end *e, unsigned int m)
{
	assert_false(e->posted & 1u << m);
	e->posted |= 1u << m;
	assert_int_equal(e->ch->dev->ops->post(e->ch, e->in + m * DEVICE_PAIR_MAX_MESSAGE), 0);
}

static void on_message(void *ctx, const struct inc_channel_message *m)
{
	struct device_pair_end *e = ctx;
	const uint64_t number = e->n_got++, v = seed_of(e->peer, number);
	const size_t at = (uint8_t *)m->buffer - e->in;
	const unsigned int which = at / DEVICE_PAIR_MAX_MESSAGE;
	uint8_t want[DEVICE_PAIR_MAX_MESSAGE];

	assert_true(number < e->peer->n_sent);
	assert_int_equal(m->length, length_of(e->peer, number));
	assert_int_equal(m->has_imm, v >> 60 & 1);
	if (m->has_imm)
		assert_int_equal(m->imm, (uint32_t)v);
	fill(e->peer, number, want, m->length);
	assert_memory_equal(m->buffer, want, m->length);
	assert_true(which < DEVICE_PAIR_MESSAGES && at == which * DEVICE_PAIR_MAX_MESSAGE);
	assert_true(e->posted & 1u << which);
	e->posted &= ~(1u << which);
	e->used |= 1u << which;
	if (!e->stingy)
		device_pair_post(e, which);
}

static void on_sent(void *ctx)
{
	struct device_pair_end *e = ctx;

	assert_true(e->n_done < e->n_sent);
	/* Soft endpoints report a message before its acknowledgement; other kinds may report it
	 * later.
	 */
	if (e->peer->ch && e->peer->ch->dev->ops == &inc_channel_soft)
		assert_true(e->n_done < e->peer->n_got);
	/* overwrites the buffer, because no device may read it after its message was acknowledged
	 * */
	memset(e->out + e->n_done % DEVICE_PAIR_MESSAGES * DEVICE_PAIR_MAX_MESSAGE, 0xee,
	       DEVICE_PAIR_MAX_MESSAGE);
	e->n_done++;
}

static void on_lost(void *ctx, const struct inc_channel_loss *loss)
{
	struct device_pair_end *e = ctx;

	assert_false(e->lost);
	e->lost = true;
	e->reason = loss->reason;
	snprintf(e->text, sizeof(e->text), "%s", loss->text);
}

static const struct inc_channel_handler handler = {on_message, on_sent, on_lost};

/* Makes the buffers of both directions in one block, because a channel has only one region. */
static void make_buffers(struct inc_channel_device *dev, struct device_pair_end *e)
{
	const size_t bytes = DEVICE_PAIR_MESSAGES * DEVICE_PAIR_MAX_MESSAGE;
	struct inc_err err;

	e->in = malloc(2 * bytes);
	assert_non_null(e->in);
	e->out = e->in + bytes;
	if (dev->ops->map(dev, e->in, 2 * bytes, INC_CHANNEL_RECEIVE, &e->memory, &err))
		fail_msg("map: %s", err.msg);
}

static void open_end(struct device_pair *p, unsigned int d, unsigned int i, uint64_t seed)
{
	struct device_pair_end *e = &p->end[d][i];
	const struct inc_channel_opts opts = {
		/* PSNs wrap within the first messages */
		.own.psn = INC_PSN_MASK - mix(seed) % 50,
		.own.ip = p->place[d].ip,
		.ifname = p->place[d].ifname,
		.pkey = INC_PKEY_DEFAULT,
		.payload = p->payload ?: DEVICE_PAIR_PAYLOAD,
		.max_message_bytes = p->max_message_bytes[d] ?: DEVICE_PAIR_MAX_MESSAGE,
		.messages = DEVICE_PAIR_MESSAGES,
		.memory = &e->memory,
		.what = "the pair's",
		.ctx = e,
	};
	struct inc_err err;
	unsigned int m;

	e->seed = mix(seed);
	e->peer = &p->end[!d][i];
	make_buffers(p->dev[d], e);
	if (p->place[d].ops->make(p->dev[d], &opts, &e->ch, &e->own, &err))
		fail_msg("make: %s", err.msg);
	for (m = 0; m < DEVICE_PAIR_MESSAGES; m++)
		device_pair_post(e, m);
	assert_int_equal(e->ch->dev->ops->post(e->ch, e->in), -ENOBUFS);
}

struct inc_addr device_pair_address = {.byte = {[10] = 0xff, 0xff, 127, 0, 0, 1}};

void device_pair_open_device(struct device_pair *p, unsigned int d,
			     const struct device_pair_place *place)
{
	const struct inc_channel_device_opts opts = {
		.ifname = place->ifname,
		.own_ip = place->everywhere ? inc_addr_any(place->ip) : place->ip,
		.udp_port = place->udp_port,
		.rto_min_ns = 5 * INC_NSEC_PER_MSEC,
		.rto_max_ns = 100 * INC_NSEC_PER_MSEC,
		.handler = &handler,
		.beside = d && p->place[0].ops == place->ops ? p->dev[0] : NULL,
	};
	struct inc_err err;

	p->place[d] = *place;
	if (place->ops->open(&opts, &p->dev[d], &err))
		fail_msg("open: %s", err.msg);
	assert_ptr_equal(p->dev[d]->ops, place->ops);
}

void device_pair_make(struct device_pair *p, unsigned int n_channels, uint64_t seed)
{
	unsigned int d, i;

	p->n_channels = n_channels;
	for (d = 0; d < 2; d++)
		for (i = 0; i < n_channels; i++)
			open_end(p, d, i, seed * 16 + d * 8 + i);
}

void device_pair_open_with(struct device_pair *p, uint32_t payload, unsigned int n_channels,
			   uint64_t seed)
{
	const struct device_pair_place place = {
		.ops = &inc_channel_soft, .ifname = "lo", .ip = device_pair_address};

	memset(p, 0, sizeof(*p));
	p->payload = payload;
	device_pair_open_device(p, 0, &place);
	device_pair_open_device(p, 1, &place);
	device_pair_make(p, n_channels, seed);
}

void device_pair_open(struct device_pair *p, unsigned int n_channels, uint64_t seed)
{
	device_pair_open_with(p, DEVICE_PAIR_PAYLOAD, n_channels, seed);
}

struct inc_channel_peer device_pair_peer(const struct device_pair *p, unsigned int d,
					 unsigned int i)
{
	const struct inc_channel_own *to = &p->end[!d][i].own;

	return (struct inc_channel_peer){
		.end.ip = p->place[!d].ip,
		.end.udp_port = to->end.udp_port,
		.end.qpn = to->end.qpn,
		.end.psn = to->end.psn,
		.any_ip_id = p->place[!d].ops != &inc_channel_soft,
	};
}

void device_pair_connect_end(struct device_pair *p, unsigned int d, unsigned int i,
			     const struct inc_channel_peer *peer)
{
	struct inc_channel *ch = p->end[d][i].ch;
	struct inc_err err;

	if (p->place[d].ops->connect(ch, peer, &err))
		fail_msg("connect: %s", err.msg);
	assert_int_equal(p->place[d].ops->connect(ch, peer, &err), -EALREADY);
}

void device_pair_connect(struct device_pair *p)
{
	struct inc_channel_peer peer;
	unsigned int d, i;

	for (d = 0; d < 2; d++)
		for (i = 0; i < p->n_channels; i++) {
			peer = device_pair_peer(p, d, i);
			device_pair_connect_end(p, d, i, &peer);
		}
}

static void close_end(struct inc_channel_device *dev, struct device_pair_end *e)
{
	if (e->ch)
		dev->ops->shut(e->ch, 0);
	dev->ops->unmap(dev, &e->memory);
	free(e->in);
}

void device_pair_close(struct device_pair *p)
{
	unsigned int d, i;

	for (d = 0; d < 2; d++) {
		for (i = 0; i < p->n_channels; i++)
			close_end(p->dev[d], &p->end[d][i]);
		p->place[d].ops->close(p->dev[d]);
	}
}

void device_pair_want(struct device_pair *p, uint64_t messages)
{
	unsigned int d, i;

	for (d = 0; d < 2; d++)
		for (i = 0; i < p->n_channels; i++)
			p->end[d][i].total += messages;
}

static void send_more(struct device_pair_end *e)
{
	while (e->ch && !e->lost && e->n_sent < e->total &&
	       e->n_sent - e->n_done < DEVICE_PAIR_MESSAGES) {
		const uint64_t number = e->n_sent++, v = seed_of(e, number);
		uint8_t *out = e->out + number % DEVICE_PAIR_MESSAGES * DEVICE_PAIR_MAX_MESSAGE;
		uint32_t length = length_of(e, number);

		fill(e, number, out, length);
		assert_int_equal(e->ch->dev->ops->send(e->ch, length ? out : NULL, length,
						       v >> 60 & 1, (uint32_t)v),
				 0);
	}
}

void device_pair_turn(struct device_pair *p)
{
	unsigned int d, i;

	for (d = 0; d < 2; d++) {
		for (i = 0; i < p->n_channels; i++)
			send_more(&p->end[d][i]);
		p->place[d].ops->flush(p->dev[d]);
		p->place[d].ops->arm(p->dev[d]);
		p->place[d].ops->progress(p->dev[d]);
		p->place[d].ops->flush(p->dev[d]);
	}
}

static bool all_done(struct device_pair *p)
{
	unsigned int d, i;

	for (d = 0; d < 2; d++)
		for (i = 0; i < p->n_channels; i++)
			if (p->end[d][i].n_done < p->end[d][i].total ||
			    p->end[d][i].n_got < p->end[!d][i].total)
				return false;
	return true;
}

static void turn_until(struct device_pair *p, bool (*what)(struct device_pair *p),
		       unsigned int limit_s)
{
	uint64_t end_ns = inc_now_ns() + limit_s * INC_NSEC_PER_SEC;

	while (!what(p)) {
		if (inc_now_ns() > end_ns)
			fail_msg("not within %u s: %llu of %llu messages done", limit_s,
				 (unsigned long long)p->end[0][0].n_done,
				 (unsigned long long)p->end[0][0].total);
		device_pair_turn(p);
	}
}

void device_pair_run(struct device_pair *p, unsigned int limit_s)
{
	unsigned int d, i;

	turn_until(p, all_done, limit_s);
	for (d = 0; d < 2; d++)
		for (i = 0; i < p->n_channels; i++) {
			assert_int_equal(p->end[d][i].n_got, p->end[!d][i].total);
			assert_false(p->end[d][i].lost);
		}
}

void device_pair_until(struct device_pair *p, bool (*what)(struct device_pair *p))
{
	turn_until(p, what, 20);
}

struct inc_channel_figures device_pair_figures(struct device_pair *p, unsigned int d,
					       unsigned int i)
{
	struct inc_channel_figures f;

	p->place[d].ops->figures(p->end[d][i].ch, &f);
	return f;
}

struct inc_channel_device_figures device_pair_device_figures(struct device_pair *p, unsigned int d)
{
	struct inc_channel_device_figures f;

	p->place[d].ops->device_figures(p->dev[d], &f);
	return f;
}
