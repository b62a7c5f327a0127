/* SPDX-License-Identifier: BSD-2-Clause */
/* Soft endpoints: messages are cut into packets, sent, and reported when they are acknowledged. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "userspace/term/soft_priv.h"

/* ---- what the messages of several channels share ---- */

static struct soft_content *make_content(struct soft_channel *ch, const void *buffer,
					 uint32_t length)
{
	uint32_t full = length / ch->payload, i;
	struct soft_content *content = malloc(sizeof(*content) + full * sizeof(content->crc[0]));

	if (!content)
		return NULL;
	content->buffer = buffer;
	content->length = length;
	content->payload = ch->payload;
	content->users = 0;
	for (i = 0; i < full; i++)
		content->crc[i] =
			inc_crc32_update(0, content->buffer + i * ch->payload, ch->payload);
	return content;
}

static struct soft_content *use_content(struct soft_channel *ch, const void *buffer,
					uint32_t length)
{
	struct soft_device *dev = soft_device_of(ch);
	struct soft_content *content = dev->latest;

	if (!content || content->buffer != buffer || content->length != length ||
	    content->payload != ch->payload) {
		content = make_content(ch, buffer, length);
		dev->latest = content;
	}
	if (content)
		content->users++;
	return content;
}

static void leave_content(struct soft_device *dev, struct soft_content *content)
{
	if (!content || --content->users)
		return;
	if (dev->latest == content)
		dev->latest = NULL;
	free(content);
}

/* ---- messages ---- */

static struct soft_send *send_of(const struct soft_channel *ch, uint64_t number)
{
	return &ch->sends[number % ch->messages];
}

static uint8_t opcode_of(const struct soft_send *s, bool first, bool last)
{
	if (first && last)
		return s->has_imm ? INC_OP_SEND_ONLY_IMM : INC_OP_SEND_ONLY;
	if (first)
		return INC_OP_SEND_FIRST;
	if (!last)
		return INC_OP_SEND_MIDDLE;
	return s->has_imm ? INC_OP_SEND_LAST_IMM : INC_OP_SEND_LAST;
}

/* Describes the next packet of a message, and returns whether that was its last. */
static bool cut_packet(struct soft_channel *ch, const struct soft_send *s)
{
	struct inc_tx_packet *p = inc_requester_packet(&ch->tx, ch->tx.posted);
	uint32_t left = s->length - ch->cut_bytes;
	bool last = left <= ch->payload;

	*p = (struct inc_tx_packet){
		.len = last ? left : ch->payload,
		.imm = s->imm,
		.opcode = opcode_of(s, !ch->cut_bytes, last),
	};
	if (s->content) {
		p->payload = s->content->buffer + ch->cut_bytes;
		if (p->len == ch->payload) {
			p->crc = s->content->crc[ch->cut_bytes / ch->payload];
			p->flags = INC_TX_HAS_CRC;
		}
	}
	ch->tx.posted++;
	ch->cut_bytes = last ? 0 : ch->cut_bytes + ch->payload;
	return last;
}

/* Describes what there is room for. */
static void cut(struct soft_channel *ch)
{
	struct soft_send *s;

	while (ch->cut < ch->queued && ch->tx.posted - ch->tx.acked < ch->tx.slots) {
		s = send_of(ch, ch->cut);
		if (cut_packet(ch, s)) {
			s->end = ch->tx.posted;
			ch->cut++;
		}
	}
}

int inc_soft_send(struct inc_term_channel *c, const void *buffer, uint32_t length, bool has_imm,
		  uint32_t imm)
{
	struct soft_channel *ch = SOFT_CH(c);
	struct soft_content *content = NULL;

	if (ch->life == SOFT_BROKEN)
		return -ENOTCONN;
	if (ch->queued - ch->sent == ch->messages || length > ch->max_message_bytes) {
		inc_soft_lose(ch, INC_TERM_CUT, "is sent more than was said");
		return -ENOBUFS;
	}
	if (length) {
		content = use_content(ch, buffer, length);
		if (!content) {
			inc_soft_lose(ch, INC_TERM_CUT, "%s", strerror(ENOMEM));
			return -ENOMEM;
		}
	}
	*send_of(ch, ch->queued++) = (struct soft_send){
		.content = content,
		.length = length,
		.imm = imm,
		.has_imm = has_imm,
	};
	soft_activate(ch);
	return 0;
}

void inc_soft_sent(struct soft_channel *ch)
{
	struct soft_device *dev = soft_device_of(ch);

	while (ch->life == SOFT_CONNECTED && ch->sent < ch->cut &&
	       send_of(ch, ch->sent)->end <= ch->tx.acked) {
		leave_content(dev, send_of(ch, ch->sent++)->content);
		dev->handler->sent(ch->ctx);
	}
}

void inc_soft_shown(struct inc_term_channel *c, uint64_t n)
{
	struct soft_channel *ch = SOFT_CH(c);
	uint64_t message, r = 0;

	/* what has not gone out yet it cannot have */
	for (message = ch->sent; message < n && message < ch->cut; message++) {
		if (send_of(ch, message)->end > ch->tx.high)
			break;
		r = send_of(ch, message)->end;
	}
	if (ch->life != SOFT_CONNECTED || r <= ch->tx.acked)
		return;
	inc_rto_spoil(&ch->tx.rto); /* it has had them for long */
	inc_requester_kept(&ch->tx, r, inc_now_ns());
	inc_soft_sent(ch);
}

void inc_soft_drop_sends(struct soft_channel *ch)
{
	while (ch->sent < ch->queued)
		leave_content(soft_device_of(ch), send_of(ch, ch->sent++)->content);
}

/* ---- a turn's end ---- */

static void send_batch(struct soft_device *dev, uint64_t now_ns)
{
	if (dev->batch.n)
		inc_batch_send(&dev->batch, &dev->udp, now_ns);
}

/* An ACK, where one is due; else it is known when. One that the peer has asked
 * for waits as others do: mostly a result is sent there soon, and an ACK before that would wake the
 * peer for nothing. */
static void answer(struct soft_channel *ch, uint64_t now_ns)
{
	struct soft_device *dev = soft_device_of(ch);
	uint64_t untold = ch->rx_next - ch->rx_told;

	if (!ch->tell && untold < INC_ACK_EVERY && now_ns < ch->tell_at_ns) {
		if (untold && ch->tell_at_ns == UINT64_MAX)
			ch->tell_at_ns = now_ns + INC_ACK_HOLD_NS;
		return;
	}
	ch->tell = ch->owes = false;
	ch->tell_at_ns = UINT64_MAX;
	if (!ch->rx_next)
		return;
	if (dev->batch.n == INC_BATCH_SENDS)
		send_batch(dev, now_ns);
	inc_batch_ack(&dev->batch, &ch->tx.to, INC_AETH_ACK,
		      ch->peer_psn + (uint32_t)ch->rx_next - 1, ch->rx_msn);
	ch->acks_sent++;
	ch->rx_told = ch->rx_next;
}

/* Puts what a channel may send into batches, the last of which is not sent yet. */
static void fill(struct soft_channel *ch, uint64_t now_ns)
{
	struct soft_device *dev = soft_device_of(ch);
	struct inc_requester *q = &ch->tx;
	uint64_t limit;

	cut(ch);
	limit = inc_requester_limit(q);
	ch->tell |= ch->owes && ch->ack_behind && q->next < limit;
	while (q->next < limit && !dev->udp.blocked && !q->failed &&
	       !inc_requester_fill(q, &dev->udp, &dev->batch, limit, now_ns))
		send_batch(dev, now_ns);
}

/* Its share of the turn is done. Something to send may be left: the socket is full, or has just
 * turned out not to cut sends. */
static void settle(struct soft_channel *ch, uint64_t now_ns)
{
	struct soft_device *dev = soft_device_of(ch);
	uint64_t at_ns = inc_requester_deadline_ns(&ch->tx);

	soft_due(dev, at_ns < ch->tell_at_ns ? at_ns : ch->tell_at_ns);
	if (ch->tx.failed) {
		inc_soft_lose(ch, INC_TERM_CUT, "cannot be sent to: %s", strerror(ch->tx.failed));
	} else if (ch->tx.next < inc_requester_limit(&ch->tx)) {
		soft_activate(ch);
		soft_due(dev, now_ns + SOFT_BLOCKED_NS);
	}
}

void inc_soft_flush(struct inc_term_device *d)
{
	struct soft_device *dev = SOFT_DEV(d);
	struct soft_channel *ch, *next;
	uint64_t now_ns;

	if (SLIST_EMPTY(&dev->active))
		return;
	now_ns = inc_now_ns();
	if (!inc_udp_writable(&dev->udp)) {
		soft_due(dev, now_ns + SOFT_BLOCKED_NS);
		return;
	}
	SLIST_FOREACH(ch, &dev->active, next_active)
	if (ch->life == SOFT_CONNECTED) {
		fill(ch, now_ns);
		answer(ch, now_ns);
	}
	send_batch(dev, now_ns);
	ch = SLIST_FIRST(&dev->active);
	SLIST_INIT(&dev->active);
	for (; ch; ch = next) {
		next = SLIST_NEXT(ch, next_active);
		ch->active = false;
		if (ch->life == SOFT_CONNECTED)
			settle(ch, now_ns);
	}
}

/* ---- time ---- */

void inc_soft_farewell(struct soft_channel *ch, uint32_t psn, uint64_t now_ns)
{
	struct soft_device *dev = soft_device_of(ch);
	uint8_t packet[INC_ACK_PACKET_LEN];

	inc_put_ack_packet(packet, &ch->tx.to, ch->syndrome, psn, ch->rx_msn);
	inc_udp_send_one(&dev->udp, &ch->tx.to.addr, packet, sizeof(packet));
	ch->told_at_ns = now_ns;
}

static void run_farewells(struct soft_device *dev, uint64_t now_ns)
{
	struct soft_channel *ch;

	TAILQ_FOREACH (ch, &dev->ended, in_all) {
		if (now_ns >= ch->farewell_at_ns) {
			inc_soft_farewell(ch, inc_soft_kept(ch), now_ns);
			ch->farewell_wait_ns *= 2;
			if (ch->to_switch && ch->farewell_wait_ns > dev->rto_max_ns)
				ch->farewell_wait_ns = dev->rto_max_ns;
			ch->farewell_at_ns =
				--ch->farewells ? now_ns + ch->farewell_wait_ns : UINT64_MAX;
		}
		soft_due(dev, ch->farewell_at_ns);
	}
}

static void report_broken(struct soft_device *dev)
{
	struct soft_channel *ch;

	/* a handler may end any channel, so each look begins anew */
	do {
		TAILQ_FOREACH (ch, &dev->channels, in_all)
			if (ch->report)
				break;
		if (ch) {
			ch->report = false;
			dev->handler->lost(ch->ctx, ch->reason, ch->text);
		}
	} while (ch);
}

void inc_soft_timers(struct soft_device *dev, uint64_t now_ns)
{
	struct soft_channel *ch;
	uint64_t at_ns;

	if (now_ns < dev->due_at_ns)
		return;
	dev->due_at_ns = UINT64_MAX;
	TAILQ_FOREACH (ch, &dev->channels, in_all) {
		at_ns = inc_requester_deadline_ns(&ch->tx);
		if (ch->tell_at_ns < at_ns)
			at_ns = ch->tell_at_ns;
		if (ch->life != SOFT_CONNECTED)
			continue;
		if (now_ns < at_ns) {
			soft_due(dev, at_ns);
			continue;
		}
		inc_requester_timers(&ch->tx, now_ns);
		soft_activate(ch);
	}
	run_farewells(dev, now_ns);
	report_broken(dev);
}
