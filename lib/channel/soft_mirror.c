/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Mirrored soft channels. When the owner sends a contribution, the channel describes the packets of
 * the contribution and those of its result. It compares packets of results with these descriptions,
 * and copies them to their places in whatever order they arrive. A result also acknowledges its
 * contribution.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/clock.h"
#include "lib/channel/soft_priv.h"
#include "lib/roce/wire.h"

static struct soft_result *result_of(const struct soft_channel *ch, uint64_t r)
{
	return &ch->mirror->results[r & (ch->tx.slots - 1)];
}

/* ---- life ---- */

int inc_soft_mirror_new(struct soft_channel *ch)
{
	ch->mirror = calloc(1, sizeof(*ch->mirror));
	if (!ch->mirror)
		return -ENOMEM;
	ch->mirror->gap_r = UINT64_MAX;
	ch->mirror->took_ns = INC_ACK_HOLD_NS;
	return 0;
}

/* Returns how long the ACK of results may wait for further results, from the least retransmission
 * timeout of the peer. */
static uint64_t ack_hold_ns(uint64_t rto_min_ns)
{
	const uint64_t most_ns = rto_min_ns / 5 * 3;

	if (most_ns < INC_ACK_HOLD_NS)
		return INC_ACK_HOLD_NS;
	return most_ns < SOFT_ACK_HOLD_MAX_NS ? most_ns : SOFT_ACK_HOLD_MAX_NS;
}

int inc_soft_mirror_connect(struct soft_channel *ch, const struct inc_channel_peer *peer)
{
	const unsigned int wire = peer->payload + INC_MAX_HEAD_LEN + INC_ICRC_LEN;
	struct soft_mirror *m = ch->mirror;

	ch->payload = peer->payload;
	/* limit of queued messages, because each message has at least one packet */
	ch->messages = peer->packets;
	ch->tx.slots = peer->packets;
	ch->tx.ring = calloc(peer->packets, sizeof(*ch->tx.ring));
	ch->sends = calloc(peer->packets, sizeof(*ch->sends));
	m->results = calloc(peer->packets, sizeof(*m->results));
	if (!ch->tx.ring || !ch->sends || !m->results)
		return -ENOMEM;
	m->by_message = peer->by_message;
	ch->tx.quiet = peer->answers_probes;
	ch->tx.selective = peer->reorder;
	m->ack_hold_ns = ack_hold_ns(peer->rto_min_ns);
	/* After how many completed messages an ACK is sent. A switch in termination mode stores
	 * each result until it is acknowledged, and has memory for `messages` of them. So the ACK
	 * is sent after a quarter of that. In passthrough mode slots bound packets, and the
	 * channel's ack_every is enough. */
	m->ack_every_messages = peer->by_message ? peer->messages / 4 ?: 1 : UINT32_MAX;
	m->hold_packets = 2 * inc_segments_most(wire);
	if (m->hold_packets > peer->packets / 4)
		m->hold_packets = peer->packets / 4;
	return 0;
}

void inc_soft_mirror_free(struct soft_channel *ch)
{
	if (ch->mirror)
		free(ch->mirror->results);
	free(ch->mirror);
	ch->mirror = NULL;
}

/* ---- contributions ---- */

static uint32_t part(uint32_t len, uint32_t offset, uint32_t payload)
{
	uint32_t left = len > offset ? len - offset : 0;

	return left < payload ? left : payload;
}

static uint32_t packets_of(const struct soft_channel *ch, uint32_t len)
{
	return len ? (len + ch->payload - 1) / ch->payload : 1;
}

/* Describes the n packets of a contribution in the requester's ring. */
static void describe_sends(struct soft_channel *ch, const struct inc_channel_exchange *x,
			   uint32_t n)
{
	const struct inc_channel_region *region = x->recv_region;
	const uint64_t va =
		region ? region->va + ((uint8_t *)x->recv - (uint8_t *)region->addr) : 0;
	uint32_t i, offset;

	for (i = 0; i < n; i++) {
		struct inc_tx_packet *p = inc_requester_packet(&ch->tx, ch->tx.posted++);

		offset = i * ch->payload;
		p->payload = (const uint8_t *)x->send + offset;
		p->len = part(x->send_len, offset, ch->payload);
		p->va = va;
		p->rkey = region ? region->rkey : 0;
		p->dmalen = x->recv_len;
		p->imm = x->imm;
		p->opcode = inc_soft_opcode(x->write, x->has_imm, i == 0, i + 1 == n);
		p->flags = i + 1 == n && x->last ? INC_TX_ASK : 0;
		p->round = 0;
	}
}

/* Whether the memory of the result is not that of its contribution. */
static bool is_apart(const struct inc_channel_exchange *x)
{
	const uintptr_t send = (uintptr_t)x->send, recv = (uintptr_t)x->recv;

	return send + x->send_len <= recv || recv + x->recv_len <= send;
}

/* Describes the n packets of a contribution's result. first: the number of the contribution's first
 * packet. */
static void describe_results(struct soft_channel *ch, const struct inc_channel_exchange *x,
			     uint32_t n, uint64_t first)
{
	const uint8_t apart = is_apart(x) ? SOFT_F_APART : 0;
	struct soft_mirror *m = ch->mirror;
	uint32_t i, offset;

	for (i = 0; i < n; i++) {
		struct soft_result *result = result_of(ch, m->rx_posted++);
		bool last = i + 1 == n;

		offset = i * ch->payload;
		result->recv = (uint8_t *)x->recv + offset;
		result->recv_len = part(x->recv_len, offset, ch->payload);
		result->kept = m->by_message ? ch->tx.posted : first + i + 1;
		result->imm = x->imm;
		result->opcode = inc_soft_opcode(x->write, x->has_imm, i == 0, last);
		result->flags = apart;
		result->round = 0;
		if (last)
			result->flags |= SOFT_F_LAST | (x->last ? SOFT_F_FLUSH : 0);
	}
}

int inc_soft_exchange(struct inc_channel *c, const struct inc_channel_exchange *x)
{
	struct soft_channel *ch = SOFT_CH(c);
	struct soft_mirror *m = ch->mirror;
	uint32_t sends = packets_of(ch, x->send_len), results = packets_of(ch, x->recv_len);
	const uint64_t first = ch->tx.posted;

	if (ch->life != SOFT_CONNECTED)
		return -ENOTCONN;
	/* if packets correspond to each other, a contribution and its result have the same number
	 * of packets, so an empty result still has one packet */
	if (!m->by_message)
		sends = results = sends > results ? sends : results;
	if (first + sends - m->tx_done > ch->tx.slots ||
	    m->rx_posted + results - ch->rx_next > ch->tx.slots)
		return -EAGAIN;
	describe_sends(ch, x, sends);
	describe_results(ch, x, results, first);
	ch->sends[ch->queued++ & (ch->messages - 1)].end = ch->tx.posted;
	ch->described = ch->queued;
	if (x->last)
		m->tx_flush = ch->tx.posted;
	soft_activate(ch);
	return 0;
}

/* Whether a result of the packets sent so far is still to come. None is if only a part of its
 * contribution was sent, because the socket's send buffer was full in between. */
static bool result_is_due(const struct soft_channel *ch)
{
	const struct soft_mirror *m = ch->mirror;

	return ch->tx.next > m->tx_done && ch->rx_next < m->rx_posted &&
	       result_of(ch, ch->rx_next)->kept <= ch->tx.next;
}

bool inc_soft_mirror_holds(const struct soft_channel *ch, uint64_t limit)
{
	const struct inc_requester *q = &ch->tx;
	const uint64_t half = (inc_requester_window(q) + 1) / 2;
	uint64_t few = ch->mirror->hold_packets;

	if (few > inc_requester_burst(q))
		few = inc_requester_burst(q);
	if (few > half)
		few = half;
	/* Whether flush() waits until more packets may be sent. It waits if too few may be sent now
	 * to be worth a system call, and results are still to come, which will open the window
	 * further. Half of a congestion window is enough. */
	return q->next < limit && result_is_due(ch) && q->next >= q->high &&
	       q->next >= ch->mirror->tx_flush && limit - q->next < few;
}

/* ---- results ---- */

/* Reports the messages whose results are complete to the handler, which may shut the channel. */
static void advance(struct soft_channel *ch)
{
	const struct inc_channel_handler *handler = soft_device_of(ch)->handler;
	struct soft_mirror *m = ch->mirror;

	while (ch->life == SOFT_CONNECTED && ch->rx_next < m->rx_high) {
		const struct soft_result *p = result_of(ch, ch->rx_next);

		if (!(p->flags & SOFT_F_GOT))
			break;
		ch->rx_next++;
		m->tx_done = p->kept;
		if (p->flags & SOFT_F_FLUSH)
			m->ended = true;
		if (p->flags & SOFT_F_LAST) {
			ch->rx_msn++;
			handler->message(ch->ctx, &(struct inc_channel_message){});
		}
	}
}

/* Whether a packet is the result that is expected. If it is not, how becomes a text that says in
 * what the packet differs from what its contribution requested. p: the contribution's last packet.
 * If packets correspond to each other, it is the contribution's packet of the same number. */
static bool mirrors(const struct soft_result *want, const struct inc_tx_packet *p,
		    const struct inc_roce_packet *pkt, struct inc_err *how)
{
	if (pkt->opcode != want->opcode || pkt->len != want->recv_len)
		inc_err_set(how, EPROTO, "opcode %u, length %zu; want %u, %u", pkt->opcode,
			    pkt->len, want->opcode, want->recv_len);
	else if (inc_roce_has_imm(want->opcode) && pkt->imm != want->imm)
		inc_err_set(how, EPROTO, "immediate 0x%x; want 0x%x", pkt->imm, want->imm);
	else if (inc_roce_has_reth(want->opcode) &&
		 (pkt->va != p->va || pkt->rkey != p->rkey || pkt->dmalen != p->dmalen))
		inc_err_set(how, EPROTO,
			    "RETH: address 0x%llx, key 0x%x, %u bytes; want 0x%llx, 0x%x, %u",
			    (unsigned long long)pkt->va, pkt->rkey, pkt->dmalen,
			    (unsigned long long)p->va, p->rkey, p->dmalen);
	else
		return true;
	return false;
}

static void store(struct soft_channel *ch, const struct inc_roce_packet *pkt, uint64_t r,
		  uint64_t now_ns)
{
	struct soft_result *p = result_of(ch, r);
	const struct inc_tx_packet *sent = inc_requester_packet(&ch->tx, p->kept - 1);
	struct soft_mirror *m = ch->mirror;

	if (pkt->len && pkt->payload != p->recv)
		memcpy(p->recv, pkt->payload, pkt->len);
	p->flags |= SOFT_F_GOT;
	ch->rx_packets++;
	/* The ACK that a result requests may wait if the contribution requested an ACK as well,
	 * because the peer has only mirrored that. Otherwise the peer has added the request, as it
	 * does to a result that it retransmits or that closes a gap. The ACK cannot wait then,
	 * because the peer sends its next packets only after it. */
	ch->ack_now |= pkt->ackreq && ch->rx_tos & INC_ECN_MASK; /* as in soft_rx.c */
	if (pkt->ackreq && (!(sent->flags & INC_TX_ASKED) || r < m->rx_high)) {
		ch->ack_now = true;
		m->unsure = ch->tx.selective;
	}
	if (r >= m->rx_high)
		m->rx_high = r + 1;
	else
		m->reordered++;
	if (ch->tx.selective)
		inc_requester_kept_alone(&ch->tx, p->kept - 1, now_ns);
	else
		inc_requester_kept(&ch->tx, p->kept, now_ns);
	inc_soft_sent(ch);
	advance(ch);
}

/* Returns the number of a packet of a result from its PSN. Returns -1 if the peer cannot have sent
 * it, because a switch makes no result of packets that were not sent to it. */
static int64_t number_of(const struct soft_channel *ch, const struct inc_roce_packet *pkt)
{
	int64_t at = inc_psn_to_r(pkt->psn, ch->peer_psn + (uint32_t)ch->rx_next, ch->rx_next);
	const uint64_t r = at;

	if (at < 0 || r >= ch->mirror->rx_posted ||
	    (r >= ch->rx_next && result_of(ch, r)->kept > ch->tx.high))
		return -1;
	return at;
}

static bool is_duplicate(const struct soft_channel *ch, uint64_t r)
{
	return r < ch->rx_next || result_of(ch, r)->flags & SOFT_F_GOT;
}

uint8_t *inc_soft_mirror_place(const struct soft_channel *ch, const struct inc_roce_packet *pkt)
{
	const int64_t at = number_of(ch, pkt);
	const struct soft_result *p;
	struct inc_err how;

	if (at < 0 || is_duplicate(ch, at))
		return NULL;
	p = result_of(ch, at);
	/* The payload is stored before its ICRC is known to be right. If it is wrong, the memory
	 * has wrong bytes until the result comes again. So a contribution in the same memory must
	 * be acknowledged before. */
	if (!(p->flags & SOFT_F_APART) && p->kept > ch->tx.acked)
		return NULL;
	return mirrors(p, inc_requester_packet(&ch->tx, p->kept - 1), pkt, &how) ? p->recv : NULL;
}

void inc_soft_mirror_receive(struct soft_channel *ch, const struct inc_roce_packet *pkt,
			     uint64_t now_ns)
{
	const int64_t at = number_of(ch, pkt);
	const uint64_t r = at;
	const struct soft_result *p = result_of(ch, r);
	struct inc_err how;

	soft_activate(ch);
	if (at < 0) {
		soft_device_of(ch)->damaged++;
		return;
	}
	if (is_duplicate(ch, r)) {
		ch->duplicates++;
		ch->ack_now = true;
		return;
	}
	if (mirrors(p, inc_requester_packet(&ch->tx, p->kept - 1), pkt, &how)) {
		store(ch, pkt, r, now_ns);
		return;
	}
	inc_soft_send_aeth(ch, INC_AETH_NAK_INVALID, pkt->psn);
	inc_soft_lose(ch, INC_CHANNEL_INVALID, EPROTO,
		      "result %llu is not the mirror of its contribution (%.180s)",
		      (unsigned long long)r, how.msg);
}

/* ---- answers ---- */

/* Stores that the channel has acknowledged all results before rx_next. */
static void note_acked(struct soft_channel *ch)
{
	ch->rx_acked = ch->rx_next;
	ch->mirror->acked_msn = ch->rx_msn;
}

/* Whether result r, which the peer has completed, is missing here and must be named in a NAK. A
 * result that a NAK has named already is named again only if that was before the probe that is
 * answered now. In that case the NAK was lost, or the result was lost again. */
static bool is_lost(const struct soft_channel *ch, uint64_t r)
{
	const struct soft_result *p = result_of(ch, r);

	return !(p->flags & SOFT_F_GOT) && p->round <= ch->tx.sel.answered;
}

/* Called when a NAK names a result that was lost. Where the peer sends results as fast as
 * contributions come, that is a report of congestion, as a mark is (inc_soft_congested()). */
static void result_lost(struct soft_channel *ch)
{
	if (!ch->mirror->by_message)
		inc_congestion_lost(&ch->tx.congestion, ch->tx.high);
}

/* Sends NAKs for the results that the peer has completed and that are missing here, one NAK for
 * each gap. */
static void name_gaps(struct soft_channel *ch)
{
	const uint64_t end = ch->mirror->complete;
	uint64_t r = ch->rx_next, from;

	while (r < end) {
		from = r;
		while (r < end && r - from < INC_GAP_COUNT(~0u) && is_lost(ch, r))
			result_of(ch, r++)->round = ch->tx.sel.round;
		if (r == from) {
			r++;
			continue;
		}
		inc_soft_send_nak(ch, INC_GAP(from - ch->rx_next, r - from));
		result_lost(ch);
	}
}

/* Sets whether the requester sends probes, which ask the peer for missing results. It does as long
 * as a result is missing, or may be. */
static void update_hunger(struct soft_channel *ch, uint64_t now_ns)
{
	const struct soft_mirror *m = ch->mirror;

	inc_requester_hunger(&ch->tx,
			     m->unsure || m->complete > ch->rx_next || m->rx_high > ch->rx_next,
			     now_ns);
}

void inc_soft_mirror_status(struct soft_channel *ch, uint32_t status, uint64_t now_ns)
{
	struct soft_mirror *m = ch->mirror;
	/* how many results the peer has completed beyond rx_next, from the low bits in its answer;
	 * the peer completes no more than `slots` beyond the result that this end awaits */
	const uint64_t more =
		(INC_STATUS_COMPLETE(status) - ch->rx_next) & INC_STATUS_COMPLETE(~0u);

	if (!m || !ch->tx.selective || more > ch->tx.slots || ch->rx_next + more > m->rx_posted)
		return;
	if (m->complete < ch->rx_next + more)
		m->complete = ch->rx_next + more;
	name_gaps(ch);
	m->unsure = false;
	update_hunger(ch, now_ns);
}

/* Sends a NAK for a missing result if later results are here. The result was lost or only
 * overtaken, so this function waits a little before it sends the NAK. Where NAKs name gaps, probes
 * are sent instead. */
static void answer_gap(struct soft_channel *ch, uint64_t now_ns)
{
	struct soft_mirror *m = ch->mirror;

	if (ch->tx.selective) {
		update_hunger(ch, now_ns);
		return;
	}
	if (m->rx_high <= ch->rx_next) {
		m->gap_r = UINT64_MAX;
		return;
	}
	if (m->gap_r != ch->rx_next) {
		m->gap_r = ch->rx_next;
		m->gap_at_ns = now_ns;
		m->gap_nak_sent = false;
	}
	if (m->gap_nak_sent ||
	    (m->rx_high - ch->rx_next <= SOFT_GAP_PACKETS && now_ns - m->gap_at_ns < SOFT_GAP_NS))
		return;
	inc_soft_send_aeth(ch, INC_AETH_NAK_SEQ, ch->peer_psn + (uint32_t)ch->rx_next);
	m->gap_nak_sent = true;
	result_lost(ch);
	note_acked(ch);
	ch->ack_now = false;
}

/* Whether the ACK of a collective's last result must be sent now. The ACK could wait for the next
 * collective, but that could end after ack_at_ns, and a thread would have to be woken to send the
 * ACK. The expected time of a collective is that of the quicker of the last two, because one slow
 * collective among quick ones means little. */
static bool last_in_time(const struct soft_channel *ch, uint64_t now_ns)
{
	const struct soft_mirror *m = ch->mirror;
	uint64_t took_ns = now_ns - m->ended_at_ns;

	if (took_ns > m->took_ns)
		took_ns = m->took_ns;
	return m->ended && now_ns + SOFT_ACK_PATIENCE * took_ns > ch->ack_at_ns;
}

/* Whether the channel must now send the ACK of results that it has not acknowledged. */
static bool ack_due(struct soft_channel *ch, uint64_t now_ns)
{
	const struct soft_mirror *m = ch->mirror;
	const uint64_t unacked = ch->rx_next - ch->rx_acked;

	if (ch->ack_now)
		return ch->rx_next;
	if (!unacked)
		return false;
	if (ch->ack_at_ns == UINT64_MAX)
		ch->ack_at_ns = now_ns + m->ack_hold_ns;
	return unacked >= ch->ack_every || ch->rx_msn - m->acked_msn >= m->ack_every_messages ||
	       now_ns >= ch->ack_at_ns || last_in_time(ch, now_ns) ||
	       (m->unattended && ch->rx_next == m->rx_posted);
}

void inc_soft_mirror_answer(struct soft_channel *ch, uint64_t now_ns)
{
	struct soft_mirror *m = ch->mirror;

	answer_gap(ch, now_ns);
	if (ack_due(ch, now_ns)) {
		inc_soft_send_aeth(ch, INC_AETH_ACK, ch->peer_psn + (uint32_t)ch->rx_next - 1);
		note_acked(ch);
	}
	if (m->ended) {
		m->took_ns = now_ns - m->ended_at_ns;
		m->ended_at_ns = now_ns;
	}
	ch->ack_now = m->ended = false;
	if (ch->rx_acked == ch->rx_next)
		ch->ack_at_ns = UINT64_MAX;
}

/* ---- figures and states ---- */

uint64_t inc_soft_mirror_under_way(const struct inc_channel *c)
{
	const struct soft_channel *ch = (const struct soft_channel *)c;
	const struct soft_mirror *m = ch->mirror;
	const uint64_t sent = ch->tx.posted - m->tx_done, results = m->rx_posted - ch->rx_next;

	return sent > results ? sent : results;
}

uint64_t inc_soft_mirror_ack_at_ns(const struct inc_channel *c)
{
	return ((const struct soft_channel *)c)->ack_at_ns;
}

void inc_soft_mirror_attend(struct inc_channel *c, bool attended)
{
	struct soft_channel *ch = SOFT_CH(c);

	ch->mirror->unattended = !attended;
	if (attended)
		return;
	/* the owner may be waiting for nothing but the peer's acknowledgement of all contributions,
	 * so probe for it at once */
	inc_requester_hurry(&ch->tx);
	soft_due(soft_device_of(ch), inc_requester_deadline_ns(&ch->tx));
}

uint64_t inc_soft_mirror_moved(const struct inc_channel *c)
{
	const struct soft_channel *ch = (const struct soft_channel *)c;

	return ch->rx_packets + ch->tx.acked;
}

void inc_soft_mirror_describe(const struct inc_channel *c, char *buf, size_t size)
{
	const struct soft_channel *ch = (const struct soft_channel *)c;
	const int error = soft_device_of(ch)->udp.send_error;
	/* a firewall drops nothing of a peer that has answered before */
	const bool drops = !ch->rx_packets && !ch->tx.figures.acks && !error;

	if (ch->tx.acked < ch->tx.high)
		snprintf(buf, size,
			 "contribution %llu is not acknowledged (%llu sent, %llu timeouts%s%s)%s",
			 (unsigned long long)ch->tx.acked, (unsigned long long)ch->tx.high,
			 (unsigned long long)ch->tx.figures.timeouts, error ? ", " : "",
			 error ? strerrordesc_np(error) : "",
			 drops ? ", and nothing has arrived from there: does a firewall here or "
				 "there drop UDP? " INC_FIREWALL_COMMAND
			       : "");
	else
		snprintf(buf, size,
			 "contributions are kept, result %llu is missing (other ranks are late, "
			 "or it was lost)",
			 (unsigned long long)ch->rx_next);
}
