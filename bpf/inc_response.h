/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Processes the ACKs, NAKs and CNPs that a child sends for results, and the parent for partial
 * sums. */
#ifndef INC_RESPONSE_H
#define INC_RESPONSE_H

#include "lib/proto/counters.h"
#include "bpf/inc_answer.h"
#include "bpf/inc_contribute.h"
#include "bpf/inc_maps.h"
#include "bpf/inc_match.h"
#include "bpf/inc_parse.h"

/* Redirects the packet to the AF_XDP socket of the receiving port and queue. */
static __always_inline enum inc_counter_id inc_to_slowpath(struct xdp_md *ctx)
{
	__u32 ifindex = ctx->ingress_ifindex;
	struct inc_port *port = bpf_map_lookup_elem(&inc_port, &ifindex);
	__u32 key;

	if (!port || ctx->rx_queue_index >= INC_PORT_QUEUES)
		return INC_CTR_DROP_NO_SLOWPATH;
	key = port->index * INC_PORT_QUEUES + ctx->rx_queue_index;
	if (bpf_redirect_map(&inc_xsk, key, XDP_DROP) != XDP_REDIRECT)
		return INC_CTR_DROP_NO_SLOWPATH;
	return INC_CTR_ABS_SLOWPATH;
}

/*
 * Advances tx_acked over results that the peer must have, as its own later packets show. Results
 * request an ACK only if contributions do, so a peer that never requests an ACK sends none. Without
 * this, tx_acked would stay behind. The program finds the number of a PSN by its distance to
 * tx_acked, which must be below 2^23.
 */
static __always_inline void inc_take_implied(const struct inc_match *m, __u64 sent)
{
	__u64 implied = inc_implied(m->comm, m->cfg, m->st->rx_next + m->st->ahead);

	/* tx_acked must not pass `sent`, because a slot moves to its next generation a moment
	 * before tx_next is written */
	if (implied > m->st->tx_acked)
		m->st->tx_acked = implied < sent ? implied : sent;
}

/* Answers a probe of a child in a communicator with INC_COMM_F_REORDER. INC_STATUS describes the
 * numbers in the answer. */
static __always_inline enum inc_counter_id inc_answer_probe(const struct inc_packet *pkt,
							    const struct inc_match *m,
							    struct inc_answer *answer, __u64 sent)
{
	__u32 missing = 0;

	if (m->st->ahead)
		missing = inc_first_gap(m->st, m->comm, m->cfg->child);
	m->st->ack_sent = m->st->rx_next;
	return inc_fill_answer(answer, INC_AETH_ACK, inc_kept_psn(m) | INC_BTH_ACKREQ,
			       INC_STATUS(pkt->imm, missing, (__u32)sent), INC_CTR_ANS_OWED);
}

/*
 * Processes an ACK or NAK of a peer. An ACK acknowledges all packets up to its PSN. If the switch
 * owes the peer an ACK, or the ACK is a probe, which requests one, this decides an ACK
 * of the peer's packets. A NAK of a sequence error and an RNR
 * NAK acknowledge the packets before their PSN; the slow path does the rest.
 */
static __always_inline enum inc_counter_id inc_response(struct xdp_md *ctx,
							const struct inc_packet *pkt,
							const struct inc_match *m,
							struct inc_answer *answer)
{
	__u8 syndrome = pkt->imm >> 24, type = syndrome & INC_AETH_TYPE_MASK;
	__u64 sent = inc_is_up(m) ? *(volatile __u64 *)&m->comm_st->up_next
				  : *(volatile __u64 *)&m->comm_st->tx_next;
	struct inc_conn_state *st = m->st;
	__u64 kept, room;
	__s32 ahead;

	if (st->error || m->comm_st->error)
		return INC_CTR_DROP_CONN_ERROR;
	inc_take_implied(m, sent);
	room = sent - st->tx_acked;
	/* the number of packets that this ACK or NAK acknowledges for the first time: an ACK has
	 * the PSN of the last packet received, a NAK that of the first one missing */
	ahead = inc_psn_diff(pkt->psn, m->cfg->own.psn + (__u32)st->tx_acked);
	if (type == INC_AETH_TYPE_ACK)
		ahead++;
	if (ahead > 0 && (__u64)ahead > room)
		return INC_CTR_DROP_ACK_RANGE;
	kept = st->tx_acked + (ahead > 0 ? ahead : 0);

	if (type == INC_AETH_TYPE_ACK) {
		st->tx_acked = kept;
		st->ack_named = kept + (ahead < 0 ? ahead : 0);
		st->acks_received++;
		if (pkt->ackreq && m->comm->flags & INC_COMM_F_REORDER)
			return inc_answer_probe(pkt, m, answer, sent);
		if (pkt->ackreq || st->ack_asked > st->ack_sent)
			return inc_answer_ack(m, answer, INC_CTR_ANS_OWED);
		return INC_CTR_ABS_ACK;
	}
	if (type != INC_AETH_TYPE_RNR && type != INC_AETH_TYPE_NAK)
		return INC_CTR_DROP_OPCODE;
	st->naks_received++;
	if (type == INC_AETH_TYPE_RNR || syndrome == INC_AETH_NAK_SEQ) {
		st->tx_acked = kept;
	} else {
		st->refusal = syndrome;
		inc_emit(INC_EVENT_PEER_NAK, m->cfg->comm, m->conn, syndrome, kept,
			 inc_child_bit(m));
	}
	return inc_to_slowpath(ctx);
}

/* Processes a CNP of a connection that this CPU has taken. The peer asks the switch to send less.
 */
static __always_inline enum inc_counter_id inc_cnp(struct xdp_md *ctx, const struct inc_match *m)
{
	__u32 zero = 0;

	if (!inc_load_checked(ctx, bpf_map_lookup_elem(&inc_scratch, &zero), INC_IP_TO_BTH_LEN,
			      INC_CNP_LEN))
		return INC_CTR_DROP_ICRC;
	if (m->st->error || m->comm_st->error)
		return INC_CTR_DROP_CONN_ERROR;
	m->st->cnps++;
	inc_report(m->comm, m->cfg, m->st);
	return m->st->cnp_due ? inc_answer_cnp(ctx, m, INC_CTR_ABS_CNP) : INC_CTR_ABS_CNP;
}

/* Processes a packet of a connection that is neither a data packet nor an ACK packet. It may be a
 * CNP. It is handled on this CPU, because it changes no sum. The function is not inline, because
 * such packets are rare. */
static __attribute__((noinline)) enum inc_counter_id
inc_other_opcode(struct xdp_md *ctx, const struct inc_packet *pkt, const struct inc_match *m)
{
	enum inc_counter_id c = INC_CTR_DROP_BUSY;

	if (pkt->opcode != INC_OP_CNP)
		return INC_CTR_DROP_OPCODE;
	if (pkt->ip_len != INC_CNP_IP_LEN || pkt->pad)
		return INC_CTR_DROP_LENGTH;
	if (pkt->pkey != m->cfg->pkey)
		return INC_CTR_DROP_PKEY;
	if (inc_enter(m->st)) {
		c = inc_cnp(ctx, m);
		inc_leave(m->st);
	}
	return c;
}

#endif
