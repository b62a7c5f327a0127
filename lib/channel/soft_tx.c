/* SPDX-License-Identifier: BSD-2-Clause */
/* Soft channels: messages are segmented into packets, sent, and reported when they are
 * acknowledged. */
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/channel/soft_priv.h"
#include "lib/net/netdev.h"
#include "lib/proto/roce.h"

/* ---- content that several channels send ---- */

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

_Static_assert(INC_OP_SEND_FIRST == 0 &&
		       INC_OP_WRITE_ONLY_IMM == INC_OP_WRITE_FIRST + INC_OP_SEND_ONLY_IMM,
	       "the opcodes of WRITE stand in the order of SEND's");

uint8_t inc_soft_opcode(bool write, bool has_imm, bool first, bool last)
{
	/* the first opcode of the group of SEND or of WRITE; in both groups the opcodes stand in
	 * the same order */
	const uint8_t base = write ? INC_OP_WRITE_FIRST : INC_OP_SEND_FIRST;

	if (first && last)
		return base + (has_imm ? INC_OP_SEND_ONLY_IMM : INC_OP_SEND_ONLY);
	if (first)
		return base;
	if (!last)
		return base + INC_OP_SEND_MIDDLE;
	return base + (has_imm ? INC_OP_SEND_LAST_IMM : INC_OP_SEND_LAST);
}

/* Describes the next packet of a message in the requester's ring. Returns whether it was the
 * message's last packet. */
static bool describe_packet(struct soft_channel *ch, const struct soft_send *s)
{
	struct inc_tx_packet *p = inc_requester_packet(&ch->tx, ch->tx.posted);
	uint32_t left = s->length - ch->described_bytes;
	bool last = left <= ch->payload;

	*p = (struct inc_tx_packet){
		.len = last ? left : ch->payload,
		.imm = s->imm,
		.opcode = inc_soft_opcode(false, s->has_imm, !ch->described_bytes, last),
	};
	if (s->content) {
		p->payload = s->content->buffer + ch->described_bytes;
		if (p->len == ch->payload) {
			p->crc = s->content->crc[ch->described_bytes / ch->payload];
			p->flags = INC_TX_HAS_CRC;
		}
	}
	ch->tx.posted++;
	ch->described_bytes = last ? 0 : ch->described_bytes + ch->payload;
	return last;
}

/* Describes the packets of queued messages, as far as the requester's ring has room. */
static void describe(struct soft_channel *ch)
{
	struct soft_send *s;

	while (ch->described < ch->queued && ch->tx.posted - ch->tx.acked < ch->tx.slots) {
		s = send_of(ch, ch->described);
		if (describe_packet(ch, s)) {
			s->end = ch->tx.posted;
			ch->described++;
		}
	}
}

int inc_soft_send(struct inc_channel *c, const void *buffer, uint32_t length, bool has_imm,
		  uint32_t imm)
{
	struct soft_channel *ch = SOFT_CH(c);
	struct soft_content *content = NULL;

	if (ch->life == SOFT_BROKEN)
		return -ENOTCONN;
	if (ch->queued - ch->sent == ch->messages || length > ch->max_message_bytes) {
		inc_soft_lose(ch, INC_CHANNEL_CUT, ENOBUFS, "is sent more than was said");
		return -ENOBUFS;
	}
	if (length) {
		content = use_content(ch, buffer, length);
		if (!content) {
			inc_soft_lose(ch, INC_CHANNEL_CUT, ENOMEM, "%s", strerror(ENOMEM));
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

	while (ch->life == SOFT_CONNECTED && ch->sent < ch->described &&
	       send_of(ch, ch->sent)->end <= ch->tx.acked) {
		leave_content(dev, send_of(ch, ch->sent++)->content);
		dev->handler->sent(ch->ctx);
	}
}

void inc_soft_shown(struct inc_channel *c, uint64_t n)
{
	struct soft_channel *ch = SOFT_CH(c);
	uint64_t message, r = 0;

	/* a message counts as received only if it was sent completely, because a peer cannot have
	 * what was not sent */
	for (message = ch->sent; message < n && message < ch->described; message++) {
		if (send_of(ch, message)->end > ch->tx.high)
			break;
		r = send_of(ch, message)->end;
	}
	if (ch->life != SOFT_CONNECTED || r <= ch->tx.acked)
		return;
	/* the peer may have received the packets long ago, so their acknowledgement must not count
	 * as a measured round trip */
	inc_rto_spoil(&ch->tx.rto);
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

/* Returns the PSN of the last packet of the peer that has arrived with all packets before it. If no
 * packet has arrived, it is the PSN before that of the first packet. */
static uint32_t last_psn(const struct soft_channel *ch)
{
	return (ch->peer_psn + (uint32_t)ch->rx_next - 1) & INC_PSN_MASK;
}

/* Adds an ACK to the batch. ackreq: INC_BTH_ACKREQ or 0 */
static void add_ack(struct soft_channel *ch, uint32_t ackreq, uint32_t msn, uint64_t now_ns)
{
	struct soft_device *dev = soft_device_of(ch);

	if (dev->batch.n == INC_UDP_SENDS)
		send_batch(dev, now_ns);
	inc_batch_ack(&dev->batch, &ch->tx.to, INC_AETH_ACK, last_psn(ch) | ackreq, msn);
	ch->acks_sent++;
}

/* Sends an ACK if one is due. Otherwise stores when an ACK will be due. An ACK that the peer has
 * requested waits as well, because mostly a result follows soon, and an ACK before it would wake
 * the peer for nothing. */
static void answer(struct soft_channel *ch, uint64_t now_ns)
{
	uint64_t unacked = ch->rx_next - ch->rx_acked;

	if (!ch->ack_now && unacked < ch->ack_every && now_ns < ch->ack_at_ns) {
		if (unacked && ch->ack_at_ns == UINT64_MAX)
			ch->ack_at_ns = now_ns + INC_ACK_HOLD_NS;
		return;
	}
	ch->ack_now = ch->owes = false;
	ch->ack_at_ns = UINT64_MAX;
	if (!ch->rx_next)
		return;
	add_ack(ch, 0, ch->rx_msn, now_ns);
	ch->rx_acked = ch->rx_next;
}

/* Sends an ACK packet at once. */
static void send_ack_packet(struct soft_channel *ch, uint8_t syndrome, uint32_t ackreq_psn,
			    uint32_t msn)
{
	const struct inc_tx_peer *to = &ch->tx.to;
	const struct inc_udp_send send = {
		.to = &to->addr, .source = to->source, .tos = to->tos, .priority = to->priority};
	uint8_t packet[INC_ACK_PACKET_LEN];

	inc_put_ack_packet(packet, to, syndrome, ackreq_psn, msn);
	inc_udp_send_one(&soft_device_of(ch)->udp, &send, packet, sizeof(packet));
}

void inc_soft_send_aeth(struct soft_channel *ch, uint8_t syndrome, uint32_t psn)
{
	send_ack_packet(ch, syndrome, psn & INC_PSN_MASK, ch->rx_msn);
	if (syndrome == INC_AETH_ACK)
		ch->acks_sent++;
	else if ((syndrome & INC_AETH_TYPE_MASK) == INC_AETH_TYPE_RNR)
		ch->rnrs_sent++;
	else
		ch->naks_sent++;
}

void inc_soft_send_nak(struct soft_channel *ch, uint32_t gap)
{
	send_ack_packet(ch, INC_AETH_NAK_SEQ, (ch->peer_psn + (uint32_t)ch->rx_next) & INC_PSN_MASK,
			gap);
	ch->naks_sent++;
}

void inc_soft_congested(struct soft_channel *ch, uint64_t now_ns)
{
	const struct inc_tx_peer *to = &ch->tx.to;
	const struct inc_udp_send send = {
		.to = &to->addr, .source = to->source, .tos = to->tos, .priority = to->priority};
	uint8_t packet[INC_CNP_PACKET_LEN];

	/* A switch in passthrough mode sends results as fast as contributions arrive, so only their
	 * senders can relieve the path. This end is one of them, and each result needs all. */
	if (ch->mirror && !ch->mirror->by_message) {
		inc_requester_congested(&ch->tx);
		return;
	}
	if (now_ns < ch->cnp_at_ns)
		return;
	ch->cnp_at_ns = now_ns + INC_CNP_PACE_NS;
	ch->cnps_sent++;
	inc_put_cnp_packet(packet, to);
	inc_udp_send_one(&soft_device_of(ch)->udp, &send, packet, sizeof(packet));
}

/* Puts the packets that must be sent again into batches, and a probe behind them, whose answer
 * shows whether they have arrived. */
static void fill_again(struct soft_channel *ch, uint64_t now_ns)
{
	struct soft_device *dev = soft_device_of(ch);
	struct inc_requester *q = &ch->tx;
	uint64_t r = 0;

	while (q->sel.lost && r != UINT64_MAX && !dev->udp.blocked) {
		if (dev->batch.n == INC_UDP_SENDS)
			send_batch(dev, now_ns);
		r = inc_requester_again(q, &dev->batch, r);
	}
	if (!q->sel.follow || q->sel.probing)
		return;
	add_ack(ch, INC_BTH_ACKREQ, q->sel.round, now_ns);
	inc_requester_probed(q, now_ns);
}

/* Adds the packets that a channel may send now to the device's batch, and sends each batch that is
 * full. The last batch stays unsent, because the next channel may add to it. */
static void fill(struct soft_channel *ch, uint64_t now_ns)
{
	struct soft_device *dev = soft_device_of(ch);
	struct inc_requester *q = &ch->tx;
	uint64_t limit;

	describe(ch);
	if (q->selective)
		fill_again(ch, now_ns);
	limit = inc_requester_limit(q);
	if (ch->mirror && inc_soft_mirror_holds(ch, limit))
		return;
	ch->ack_now |= ch->owes && ch->ack_behind && q->next < limit;
	while (q->next < limit && !dev->udp.blocked && !q->failed &&
	       !inc_requester_fill(q, &dev->udp, &dev->batch, limit, now_ns))
		send_batch(dev, now_ns);
}

/* Sends what active channels may send, and the ACKs that they owe. If a device on the way turns out
 * not to support UDP_SEGMENT, the packets to that peer are sent one by one. */
static void send_active(struct soft_device *dev, uint64_t now_ns)
{
	struct soft_channel *ch;
	uint64_t uncut;

	do {
		uncut = dev->udp.uncut;
		SLIST_FOREACH(ch, &dev->active, next_active)
		if (ch->life == SOFT_CONNECTED) {
			fill(ch, now_ns);
			if (!ch->mirror)
				answer(ch, now_ns);
		}
		send_batch(dev, now_ns);
	} while (uncut != dev->udp.uncut);
}

bool inc_channel_mtu_too_small(struct inc_addr ip, uint32_t payload, char *buf, size_t size)
{
	const unsigned int need = inc_roce_overhead(ip) + payload;
	char name[IF_NAMESIZE];
	unsigned int mtu = 0;

	if (!inc_interface_with(ip, name))
		mtu = inc_interface_mtu(name);
	if (!mtu || mtu >= need)
		return false;
	snprintf(buf, size,
		 "%s has MTU %u now, and payload %u needs %u (ip link set dev %s mtu %u)", name,
		 mtu, payload, need, name, need);
	return true;
}

/* Breaks a channel whose packets the kernel refuses to send. A packet is too long if the MTU of the
 * interface, or of the route, has become smaller. */
static void lose_unsent(struct soft_channel *ch)
{
	const int error = ch->tx.failed;
	char why[160];

	if (error != EMSGSIZE)
		snprintf(why, sizeof(why), "%s", strerrordesc_np(error));
	else if (!inc_channel_mtu_too_small(ch->own_ip, ch->payload, why, sizeof(why)))
		snprintf(why, sizeof(why),
			 "the route to it has a smaller MTU now than the %u that payload %u needs "
			 "(ip route get ADDRESS)",
			 inc_roce_overhead(ch->own_ip) + ch->payload, ch->payload);
	inc_soft_lose(ch, INC_CHANNEL_CUT, error, "cannot be sent to: %s", why);
}

/* Ends a channel's part of a turn (soft_priv.h). If packets could not be sent, because the socket
 * is full, the channel stays in the list of active channels. */
static void settle(struct soft_channel *ch, uint64_t now_ns)
{
	struct soft_device *dev = soft_device_of(ch);
	const uint64_t limit = inc_requester_limit(&ch->tx);

	soft_due(dev, soft_deadline_of(ch));
	if (ch->tx.failed) {
		lose_unsent(ch);
	} else if (ch->tx.sel.lost && !ch->tx.rnr_over_at_ns) {
		soft_activate(ch);
		soft_due(dev, now_ns + SOFT_BLOCKED_NS);
	} else if (ch->tx.next < limit && !(ch->mirror && inc_soft_mirror_holds(ch, limit))) {
		soft_activate(ch);
		soft_due(dev, now_ns + SOFT_BLOCKED_NS);
	}
}

void inc_soft_flush(struct inc_channel_device *d)
{
	struct soft_device *dev = SOFT_DEV(d);
	struct soft_channel *ch, *next;
	uint64_t now_ns;

	/* flush() clears `blocked` even if there is nothing to send, because an ACK may have
	 * emptied the socket's queue meanwhile. Otherwise a host would go on polling for room that
	 * is there. */
	if (SLIST_EMPTY(&dev->active) && !dev->udp.blocked)
		return;
	now_ns = inc_now_ns();
	if (!inc_udp_writable(&dev->udp)) {
		soft_due(dev, now_ns + SOFT_BLOCKED_NS);
		return;
	}
	send_active(dev, now_ns);
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

/* Sends a probe: an ACK of the results that are here, which requests an ACK from the peer. */
static void send_probe(struct soft_channel *ch)
{
	const struct inc_requester *q = &ch->tx;

	/* a probe carries its number in the MSN if the peer keeps packets in any order, because
	 * that peer's answer repeats the number */
	send_ack_packet(ch, INC_AETH_ACK, last_psn(ch) | INC_BTH_ACKREQ,
			q->selective ? q->sel.round - 1 : ch->rx_msn);
	ch->acks_sent++;
}

void inc_soft_closing_nak(struct soft_channel *ch, uint32_t psn, uint64_t now_ns)
{
	inc_soft_send_aeth(ch, ch->syndrome, psn);
	ch->closing_sent_at_ns = now_ns;
}

static void run_closing(struct soft_device *dev, uint64_t now_ns)
{
	struct soft_channel *ch;

	TAILQ_FOREACH (ch, &dev->ended, in_all) {
		if (now_ns >= ch->closing_at_ns) {
			inc_soft_closing_nak(ch, inc_soft_kept(ch), now_ns);
			ch->closing_wait_ns *= 2;
			if (ch->to_switch && ch->closing_wait_ns > dev->rto_max_ns)
				ch->closing_wait_ns = dev->rto_max_ns;
			ch->closing_at_ns =
				--ch->closing_naks ? now_ns + ch->closing_wait_ns : UINT64_MAX;
		}
		soft_due(dev, ch->closing_at_ns);
	}
}

static void report_broken(struct soft_device *dev)
{
	struct soft_channel *ch;

	/* a handler may shut any channel, so each search begins anew */
	do {
		TAILQ_FOREACH (ch, &dev->channels, in_all)
			if (ch->report)
				break;
		if (ch) {
			ch->report = false;
			dev->handler->lost(ch->ctx, &ch->loss);
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
		if (ch->life != SOFT_CONNECTED)
			continue;
		at_ns = soft_deadline_of(ch);
		if (now_ns < at_ns) {
			soft_due(dev, at_ns);
			continue;
		}
		if (inc_requester_probes(&ch->tx, now_ns))
			send_probe(ch);
		inc_requester_timers(&ch->tx, now_ns);
		soft_activate(ch);
	}
	run_closing(dev, now_ns);
	report_broken(dev);
}
