/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the soft transport receives: results, which are compared with their contributions and
 * copied into the caller's buffer in whatever order they come; and the switch's ACKs and NAKs of
 * contributions, from which the requester draws its conclusions.
 */
#include <errno.h>
#include <string.h>
#include "lib/base/clock.h"
#include "hostlib/src/soft.h"

/* A NAK that ends the connection. */
static int take_nak(struct soft_endpoint *s, uint8_t syndrome, uint64_t r)
{
	switch (syndrome) {
	case INC_AETH_NAK_INVALID:
		return soft_fail(s, EREMOTEIO, "refused packet %llu: invalid request (NAK 61)",
				 (unsigned long long)r);
	case INC_AETH_NAK_ACCESS:
		return soft_fail(s, EREMOTEIO, "refused packet %llu: remote access (NAK 62)",
				 (unsigned long long)r);
	}
	s->ep.mismatch = true;
	return soft_fail(s, EREMOTEIO,
			 "chunk %llu: the communicator has failed, or its ranks called different "
			 "collectives (NAK 63)",
			 (unsigned long long)r);
}

static int take_aeth(struct soft_endpoint *s, const struct inc_roce_packet *pkt, uint64_t now)
{
	uint64_t r;

	switch (inc_requester_hear(&s->tx, pkt, now, &r)) {
	case INC_HEARD:
		break;
	case INC_HEARD_ODD:
		s->ep.stats.bad_packets++;
		break;
	case INC_HEARD_NAK:
		return take_nak(s, pkt->syndrome, r);
	}
	return 0;
}

static void advance(struct soft_endpoint *s)
{
	while (s->rx_done < s->rx_high) {
		const struct soft_result *p = soft_result(s, s->rx_done);

		if (!(p->flags & SOFT_F_GOT))
			break;
		s->rx_done++;
		s->tx_done = p->kept;
		if (p->flags & SOFT_F_LAST) {
			s->rx_msn++;
			s->ep.completed++;
		}
		if (p->flags & SOFT_F_FLUSH)
			s->ended = true;
	}
}

/* False: how says in what a result differs from what its contribution, whose last packet (in step
 * by packets, whose packet) is p, asked for. */
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

static int take_result(struct soft_endpoint *s, const struct inc_roce_packet *pkt, uint64_t now)
{
	int64_t at = inc_psn_to_r(pkt->psn, s->peer_psn + (uint32_t)s->rx_done, s->rx_done);
	const struct inc_tx_packet *sent;
	struct soft_result *p;
	struct inc_err how;
	uint64_t r = at;

	p = soft_result(s, r);
	/* nobody can have made it of what has not been sent */
	if (at < 0 || r >= s->rx_posted || (r >= s->rx_done && p->kept > s->tx.high)) {
		s->ep.stats.bad_packets++;
		return 0;
	}
	if (r < s->rx_done || p->flags & SOFT_F_GOT) {
		s->ep.stats.duplicates++;
		s->tell = true;
		return 0;
	}
	sent = inc_requester_packet(&s->tx, p->kept - 1);
	if (!mirrors(p, sent, pkt, &how)) {
		soft_send_aeth(s, INC_AETH_NAK_INVALID, pkt->psn);
		return soft_fail(s, EPROTO,
				 "result %llu is not the mirror of its contribution (%s)",
				 (unsigned long long)r, how.msg);
	}
	if (pkt->len)
		memcpy(p->recv, pkt->payload, pkt->len);
	p->flags |= SOFT_F_GOT;
	s->ep.stats.results++;
	/* The mirror of a question of ours can wait; one that the peer has added to a result that
	 * it sends again, or to one that closes a gap, cannot: it clocks the next ones. */
	if (pkt->ackreq && (!(sent->flags & INC_TX_ASKED) || r < s->rx_high))
		s->tell = true;
	if (r >= s->rx_high)
		s->rx_high = r + 1;
	else
		s->ep.stats.reordered++;
	inc_requester_kept(&s->tx, p->kept, now);
	advance(s);
	return 0;
}

static int take_packet(struct soft_endpoint *s, const uint8_t *data, size_t size, bool first,
		       uint64_t now)
{
	struct inc_roce_packet pkt;

	if (inc_roce_parse(data, size, &pkt) || pkt.qpn != s->own_qpn ||
	    pkt.pkey != s->tx.to.pkey ||
	    !inc_ip_ids_check(&s->ids, &s->from_peer, first, data, size)) {
		s->ep.stats.bad_packets++;
		return 0;
	}
	if (pkt.opcode == INC_OP_ACK)
		return take_aeth(s, &pkt, now);
	return take_result(s, &pkt, now);
}

/* What GRO has glued together, or one packet. */
static int take_datagram(struct soft_endpoint *s, const struct inc_datagram *d, uint64_t now)
{
	size_t at, n;
	int ret;

	if (!d->size || d->from.sin_addr.s_addr != s->tx.to.addr.sin_addr.s_addr ||
	    d->from.sin_port != s->tx.to.addr.sin_port) {
		s->ep.stats.bad_packets++;
		return 0;
	}
	for (at = 0; at < d->size; at += n) {
		n = d->size - at < d->step ? d->size - at : d->step;
		ret = take_packet(s, d->data + at, n, at == 0, now);
		if (ret)
			return ret;
	}
	return 0;
}

int soft_receive(struct soft_endpoint *s)
{
	unsigned int i, n = inc_udp_receive(&s->udp, &s->inbox);
	uint64_t now = inc_now_ns();
	int ret;

	for (i = 0; i < n; i++) {
		ret = take_datagram(s, &s->inbox.datagram[i], now);
		if (ret)
			return ret;
	}
	return n == INC_UDP_RECVS;
}

/* A result that stays away while later ones come was lost, or overtaken: wait a little. */
static void answer_gap(struct soft_endpoint *s, uint64_t now)
{
	if (s->rx_high == s->rx_done) {
		s->gap_r = UINT64_MAX;
		return;
	}
	if (s->gap_r != s->rx_done) {
		s->gap_r = s->rx_done;
		s->gap_at_ns = now;
		s->gap_told = false;
	}
	if (s->gap_told ||
	    (s->rx_high - s->rx_done <= SOFT_GAP_PACKETS && now - s->gap_at_ns < SOFT_GAP_NS))
		return;
	soft_send_aeth(s, INC_AETH_NAK_SEQ, s->peer_psn + (uint32_t)s->rx_done);
	s->gap_told = true;
	s->rx_told = s->rx_done;
	s->told_msn = s->rx_msn;
	s->tell = false;
}

/* A collective has ended, and the next one could end too late for the ACK to wait for it: somebody
 * would have to be woken to send it. The quicker of the last two is the pace, for one slow
 * collective among quick ones says little. */
static bool last_in_time(const struct soft_endpoint *s, uint64_t now)
{
	uint64_t took_ns = now - s->ended_at_ns;

	if (took_ns > s->took_ns)
		took_ns = s->took_ns;
	return s->ended && now + SOFT_ACK_PATIENCE * took_ns > s->ep.tell_at_ns;
}

/* Is it time for an ACK of the results that the peer has not been told of? */
static bool ack_due(struct soft_endpoint *s, uint64_t now)
{
	uint64_t untold = s->rx_done - s->rx_told;

	if (s->tell)
		return s->rx_done;
	if (!untold)
		return false;
	if (s->ep.tell_at_ns == UINT64_MAX)
		s->ep.tell_at_ns = now + INC_ACK_HOLD_NS;
	return untold >= INC_ACK_EVERY || s->rx_msn - s->told_msn >= s->ack_every ||
	       now >= s->ep.tell_at_ns || last_in_time(s, now) ||
	       (s->ep.unattended && s->rx_done == s->rx_posted);
}

void soft_answer(struct soft_endpoint *s, uint64_t now)
{
	answer_gap(s, now);
	if (ack_due(s, now)) {
		soft_send_aeth(s, INC_AETH_ACK, s->peer_psn + (uint32_t)s->rx_done - 1);
		s->rx_told = s->rx_done;
		s->told_msn = s->rx_msn;
	}
	if (s->ended) {
		s->took_ns = now - s->ended_at_ns;
		s->ended_at_ns = now;
	}
	s->tell = s->ended = false;
	if (s->rx_told == s->rx_done)
		s->ep.tell_at_ns = UINT64_MAX;
}
