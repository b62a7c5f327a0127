/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the soft transport receives: results, which are compared with their contributions and
 * copied into the caller's buffer in whatever order they come; and the switch's ACKs and NAKs of
 * contributions, from which soft_timer.c draws its conclusions.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/udp.h>
#include <string.h>
#include "lib/base/clock.h"
#include "hostlib/src/soft.h"
#include "lib/roce/wire.h"

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

static bool icrc_ok(const struct soft_endpoint *s, const uint8_t *data, size_t size)
{
	uint32_t crc;

	memcpy(&crc, data + size - INC_ICRC_LEN, sizeof(crc));
	/* results carry IP ID 0 (docs/protocol.md) */
	return le32toh(crc) == inc_icrc_udp(&s->from_peer, 0, data, size - INC_ICRC_LEN);
}

static int take_nak(struct soft_endpoint *s, const struct inccl_packet *pkt, uint64_t r,
		    uint64_t now)
{
	s->ep.stats.naks_received++;
	switch (pkt->syndrome) {
	case INC_AETH_NAK_SEQ:
		soft_kept(s, r, now);
		soft_asked_again(s, r, now);
		return 0;
	case INC_AETH_NAK_INVALID:
		return soft_fail(s, EREMOTEIO, "refused packet %llu: invalid request (NAK 61)",
				 (unsigned long long)r);
	case INC_AETH_NAK_ACCESS:
		return soft_fail(s, EREMOTEIO, "refused packet %llu: remote access (NAK 62)",
				 (unsigned long long)r);
	case INC_AETH_NAK_OPERATION:
		s->ep.mismatch = true;
		return soft_fail(s, EREMOTEIO,
				 "chunk %llu: the group has failed, or its ranks called different "
				 "collectives (NAK 63)",
				 (unsigned long long)r);
	}
	s->ep.stats.bad_packets++;
	return 0;
}

static int take_aeth(struct soft_endpoint *s, const struct inccl_packet *pkt, uint64_t now)
{
	/* the packet number nearest to what is acknowledged so far */
	int64_t r = inccl_psn_to_r(pkt->psn, s->own_psn + (uint32_t)s->tx_acked, s->tx_acked);

	if (r < 0 || (uint64_t)r >= s->tx_high + (pkt->syndrome == INC_AETH_NAK_SEQ)) {
		if (r >= 0)
			s->ep.stats.bad_packets++;
		return 0;
	}
	switch (pkt->syndrome & INC_AETH_TYPE_MASK) {
	case INC_AETH_TYPE_ACK:
		s->ep.stats.acks_received++;
		soft_kept(s, r + 1, now);
		return 0;
	case INC_AETH_TYPE_RNR:
		s->ep.stats.rnrs_received++;
		if ((uint64_t)r < s->tx_acked)
			return 0;
		soft_kept(s, r, now);
		s->rnr_over_at_ns = now + inc_rnr_timeout_ns(pkt->syndrome);
		soft_asked_again(s, r, now);
		return 0;
	case INC_AETH_TYPE_NAK:
		if ((uint64_t)r < s->tx_acked && pkt->syndrome == INC_AETH_NAK_SEQ)
			return 0;
		return take_nak(s, pkt, r, now);
	}
	s->ep.stats.bad_packets++;
	return 0;
}

static void advance(struct soft_endpoint *s)
{
	while (s->rx_done < s->rx_high) {
		struct soft_packet *p = soft_packet(s, s->rx_done);

		if (!(p->flags & SOFT_F_GOT))
			break;
		s->rx_done++;
		if (p->flags & SOFT_F_LAST) {
			s->rx_msn++;
			s->ep.completed++;
		}
		if (p->flags & SOFT_F_FLUSH)
			s->ended = true;
	}
}

/* False: how says in what a result differs from what its contribution asked for. */
static bool mirrors(const struct soft_packet *p, const struct inccl_packet *pkt,
		    struct inc_err *how)
{
	if (pkt->opcode != p->opcode || pkt->len != p->recv_len)
		inc_err_set(how, EPROTO, "opcode %u, length %zu; want %u, %u", pkt->opcode,
			    pkt->len, p->opcode, p->recv_len);
	else if (inc_roce_has_imm(p->opcode) && pkt->imm != p->imm)
		inc_err_set(how, EPROTO, "immediate 0x%x; want 0x%x", pkt->imm, p->imm);
	else if (inc_roce_has_reth(p->opcode) &&
		 (pkt->va != p->va || pkt->rkey != p->rkey || pkt->dmalen != p->dmalen))
		inc_err_set(how, EPROTO,
			    "RETH: address 0x%llx, key 0x%x, %u bytes; want 0x%llx, 0x%x, %u",
			    (unsigned long long)pkt->va, pkt->rkey, pkt->dmalen,
			    (unsigned long long)p->va, p->rkey, p->dmalen);
	else
		return true;
	return false;
}

static int take_result(struct soft_endpoint *s, const struct inccl_packet *pkt, uint64_t now)
{
	int64_t at = inccl_psn_to_r(pkt->psn, s->peer_psn + (uint32_t)s->rx_done, s->rx_done);
	struct soft_packet *p;
	struct inc_err how;
	uint64_t r = at;

	if (at < 0 || r >= s->tx_high) {
		s->ep.stats.bad_packets++;
		return 0;
	}
	p = soft_packet(s, r);
	if (r < s->rx_done || p->flags & SOFT_F_GOT) {
		s->ep.stats.duplicates++;
		s->tell = true;
		return 0;
	}
	if (!mirrors(p, pkt, &how)) {
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
	if (pkt->ackreq && (!(p->flags & SOFT_F_ASKED) || r < s->rx_high))
		s->tell = true;
	if (r >= s->rx_high)
		s->rx_high = r + 1;
	else
		s->ep.stats.reordered++;
	soft_kept(s, r + 1, now);
	advance(s);
	return 0;
}

static int take_packet(struct soft_endpoint *s, const uint8_t *data, size_t size, uint64_t now)
{
	struct inccl_packet pkt;

	if (inccl_packet_parse(data, size, &pkt) || pkt.qpn != s->own_qpn || pkt.pkey != s->pkey ||
	    !icrc_ok(s, data, size)) {
		s->ep.stats.bad_packets++;
		return 0;
	}
	if (pkt.opcode == INC_OP_ACK)
		return take_aeth(s, &pkt, now);
	return take_result(s, &pkt, now);
}

/* What GRO has glued together, or one packet. */
static int take_datagram(struct soft_endpoint *s, struct msghdr *msg, size_t size, uint64_t now)
{
	const struct sockaddr_in *from = msg->msg_name;
	const uint8_t *data = msg->msg_iov->iov_base;
	struct cmsghdr *cmsg;
	size_t step = size, n;
	int gso = 0, ret;

	if (msg->msg_flags & MSG_TRUNC || msg->msg_namelen < sizeof(*from) ||
	    from->sin_addr.s_addr != s->peer.sin_addr.s_addr ||
	    from->sin_port != s->peer.sin_port) {
		s->ep.stats.bad_packets++;
		return 0;
	}
	for (cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg))
		if (cmsg->cmsg_level == IPPROTO_UDP && cmsg->cmsg_type == UDP_GRO)
			memcpy(&gso, CMSG_DATA(cmsg), sizeof(gso));
	if (gso > 0)
		step = gso;
	for (; size; size -= n, data += n) {
		n = size < step ? size : step;
		ret = take_packet(s, data, n, now);
		if (ret)
			return ret;
	}
	return 0;
}

int soft_receive(struct soft_endpoint *s)
{
	char control[SOFT_RECVS][CMSG_SPACE(sizeof(int))] __attribute__((aligned(8)));
	struct sockaddr_in from[SOFT_RECVS];
	struct iovec iov[SOFT_RECVS];
	struct mmsghdr msg[SOFT_RECVS];
	uint64_t now;
	int i, n, ret;

	memset(msg, 0, sizeof(msg));
	for (i = 0; i < SOFT_RECVS; i++) {
		iov[i].iov_base = s->rx_buf + i * SOFT_RECV_BYTES;
		iov[i].iov_len = SOFT_RECV_BYTES;
		msg[i].msg_hdr.msg_iov = &iov[i];
		msg[i].msg_hdr.msg_iovlen = 1;
		msg[i].msg_hdr.msg_name = &from[i];
		msg[i].msg_hdr.msg_namelen = sizeof(from[i]);
		msg[i].msg_hdr.msg_control = control[i];
		msg[i].msg_hdr.msg_controllen = sizeof(control[i]);
	}
	s->ep.stats.recv_calls++;
	n = recvmmsg(s->fd, msg, SOFT_RECVS, MSG_DONTWAIT, NULL);
	if (n < 0) {
		/* errors of earlier sends come here too; they are the timer's business */
		if (errno != EAGAIN && errno != EINTR)
			s->send_error = errno;
		return 0;
	}
	now = inc_now_ns();
	for (i = 0; i < n; i++) {
		ret = take_datagram(s, &msg[i].msg_hdr, msg[i].msg_len, now);
		if (ret)
			return ret;
	}
	return n == SOFT_RECVS;
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
		s->ep.tell_at_ns = now + SOFT_ACK_HOLD_NS;
	return untold >= SOFT_ACK_EVERY || now >= s->ep.tell_at_ns || last_in_time(s, now) ||
	       (s->ep.unattended && s->rx_done == s->tx_posted);
}

void soft_answer(struct soft_endpoint *s, uint64_t now)
{
	answer_gap(s, now);
	if (ack_due(s, now)) {
		soft_send_aeth(s, INC_AETH_ACK, s->peer_psn + (uint32_t)s->rx_done - 1);
		s->rx_told = s->rx_done;
	}
	if (s->ended) {
		s->took_ns = now - s->ended_at_ns;
		s->ended_at_ns = now;
	}
	s->tell = s->ended = false;
	if (s->rx_told == s->rx_done)
		s->ep.tell_at_ns = UINT64_MAX;
}
