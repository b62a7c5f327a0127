/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The path of a packet through the switch. The program parses the packet, finds its connection and
 * checks it. Then the packet is a contribution, a result of the parent, or a response to packets
 * that the switch has sent. A contribution is stored. The last one of a chunk is followed by the
 * reduction, and the sum is multicast or sent to the parent. Every packet ends on exactly one
 * counter, which determines its verdict. If the communicator has a CPU, the packet may go there
 * first.
 */
#ifndef INC_HANDLE_H
#define INC_HANDLE_H

#include "lib/proto/counters.h"
#include "lib/proto/maps.h"
#include "bpf/inc_answer.h"
#include "bpf/inc_conn.h"
#include "bpf/inc_contribute.h"
#include "bpf/inc_crc.h"
#include "bpf/inc_maps.h"
#include "bpf/inc_match.h"
#include "bpf/inc_multicast.h"
#include "bpf/inc_parse.h"
#include "bpf/inc_reduce.h"
#include "bpf/inc_response.h"
#include "bpf/inc_result.h"
#include "bpf/inc_steer.h"

/* Completes a chunk to which all children have contributed: the slot's sum is the result, or the
 * partial sum for the parent. */
static __always_inline enum inc_counter_id
inc_complete(struct xdp_md *ctx, const struct inc_packet *pkt, const struct inc_match *m,
	     const struct inc_place *at, struct inc_answer *answer)
{
	__u32 differ = inc_reduce(m->cfg->comm, at->slot, at->r);

	if (differ) {
		m->comm_st->error_r = at->r;
		inc_publish32(&m->comm_st->error, INC_AETH_NAK_OPERATION);
		inc_count(INC_CTR_X_MISMATCH);
		inc_emit(INC_EVENT_MISMATCH, m->cfg->comm, m->conn, INC_AETH_NAK_OPERATION, at->r,
			 differ);
		return inc_answer_nak(pkt, m, answer, INC_AETH_NAK_OPERATION,
				      INC_CTR_ANS_NAK_FATAL);
	}
	if (m->comm->flags & INC_COMM_F_UP) {
		inc_publish64(&m->comm_st->up_next, at->r + 1);
		return inc_send_up(ctx, pkt, m, at);
	}
	/* the sum, which is the result, is in its row, so the slot may be filled again and the
	 * result may be sent */
	__sync_lock_test_and_set(&at->state->word, (__u64)(at->generation + 1) << 32);
	inc_result_done(m, at);
	return inc_multicast(ctx, pkt, m, at);
}

/* Stores and counts a contribution, whose ICRC is right. The ACK of one that is kept ahead of a gap
 * must wait until the gap is closed. If the packet shows a new gap, the answer names it. */
static __always_inline enum inc_counter_id
inc_contribute(struct xdp_md *ctx, const struct inc_packet *pkt, const struct inc_match *m,
	       struct inc_place *at, struct inc_answer *answer)
{
	bool kept = at->fate == INC_FATE_KEEP;

	if (!inc_has_place(at))
		return INC_CTR_DROP_CONFIG;
	inc_describe(pkt, at);
	if (kept) {
		inc_note_ahead(m, at);
		if (pkt->ackreq)
			m->st->ahead_asks = 1;
	} else {
		inc_advance(pkt, m, at);
		if (m->st->ahead)
			inc_pass_kept(m->st, m->comm, m->cfg->child);
	}
	if (inc_arrive(m, at))
		return inc_complete(ctx, pkt, m, at, answer);
	if (kept)
		return at->gap ? inc_answer_gap(m, answer, at->gap) : INC_CTR_ABS_AHEAD;
	if (pkt->ackreq)
		return inc_answer_ack(m, answer, INC_CTR_ANS_ACK);
	return INC_CTR_ABS_STORED;
}

static __always_inline enum inc_counter_id inc_data(struct xdp_md *ctx,
						    const struct inc_packet *pkt,
						    const struct inc_match *m, struct inc_place *at,
						    struct inc_answer *answer)
{
	struct inc_conn_state *st = m->st;

	switch (at->fate) {
	case INC_FATE_CONTRIBUTION:
	case INC_FATE_KEEP:
		return inc_contribute(ctx, pkt, m, at, answer);
	case INC_FATE_EARLY:
		/* the peer resends from this packet on after the RNR NAK, so the packets that are
		 * already in flight behind it get no NAK of their own */
		st->nak_sent = 1;
		return inc_answer_nak(pkt, m, answer, INC_AETH_RNR | INC_RNR_TIMER,
				      INC_CTR_ANS_RNR);
	case INC_FATE_RESULT:
		return inc_accept_result(ctx, pkt, m, at);
	case INC_FATE_INVALID:
		return inc_refuse(pkt, m, answer);
	case INC_FATE_BEHIND:
		st->duplicates++;
		return inc_answer_ack(m, answer, INC_CTR_ANS_DUPLICATE);
	case INC_FATE_NAME:
		inc_note_ahead(m, at);
		return inc_answer_gap(m, answer, at->gap);
	case INC_FATE_AHEAD:
		if (st->nak_sent)
			return INC_CTR_DROP_AHEAD;
		st->nak_sent = 1;
		return inc_answer_nak(pkt, m, answer, INC_AETH_NAK_SEQ, INC_CTR_ANS_NAK_SEQ);
	case INC_FATE_CONN_ENDED:
		return inc_answer_nak(pkt, m, answer, at->syndrome, INC_CTR_ANS_NAK_INVALID);
	case INC_FATE_COMM_ENDED:
		return inc_answer_nak(pkt, m, answer, at->syndrome, INC_CTR_ANS_NAK_FATAL);
	}
	return INC_CTR_DROP_CONFIG;
}

/* Handles a packet of a connection that this CPU has taken. */
static __always_inline enum inc_counter_id
inc_handle_own(struct xdp_md *ctx, const struct inc_packet *pkt, const struct inc_match *m)
{
	struct inc_answer answer = {};
	struct inc_place at = {};
	enum inc_counter_id c;
	__u32 zero = 0;
	int intact;

	if (pkt->opcode != INC_OP_ACK) {
		c = inc_decide(pkt, m, &at);
		if (c != INC_CONTINUE)
			return c;
		/* The parent's new result overwrites an older result in the parent's row. All
		 * children have received the older one, because they have contributed to the new
		 * chunk. The row's chunk number becomes invalid first, so that the slow path, which
		 * resends from the row, does not read it half written. */
		if (at.row && inc_is_up(m))
			inc_publish64(&at.row->r, ~0ull);
	}
	if (at.row)
		intact = inc_load_checked(ctx, at.row, INC_IP_TO_BTH_LEN + pkt->ext_len,
					  pkt->len + pkt->pad);
	/* a packet that will not be stored is checked in the scratch row, because its own row, if
	 * it has one, may have a contribution that counts */
	else
		intact = inc_load_checked(ctx, bpf_map_lookup_elem(&inc_scratch, &zero),
					  INC_IP_TO_BTH_LEN + pkt->ext_len, pkt->len + pkt->pad);
	if (!intact)
		return INC_CTR_DROP_ICRC;
	inc_learn_mac(m, pkt);
	inc_learn_class(ctx, m);
	inc_learn_tag(m, pkt);
	c = pkt->opcode == INC_OP_ACK ? inc_response(ctx, pkt, m, &answer)
				      : inc_data(ctx, pkt, m, &at, &answer);
	/* each counter of class 'W' comes from inc_fill_answer(), which has filled in the answer */
	if (inc_counter_is(c, 'W'))
		return inc_put_answer(ctx, pkt, m, &answer, c);
	return *(volatile __u8 *)&m->st->cnp_due ? inc_answer_cnp(ctx, m, c) : c;
}

/* Returns the counter for a packet that belongs to no connection. It is c, with two exceptions. A
 * packet which would go on to the kernel is dropped if its source is an address of this switch, and
 * an echo request to the port is answered. */
static __always_inline enum inc_counter_id
inc_end_early(struct xdp_md *ctx, const struct inc_packet *pkt, enum inc_counter_id c)
{
	if (inc_counter_is(c, 'P') && inc_from_own_addr(ctx, pkt))
		return INC_CTR_DROP_OWN_ADDR;
	if (c == INC_CTR_PASS_NO_CONN && inc_is_echo(ctx, pkt))
		return inc_answer_echo(ctx, pkt);
	return c;
}

static __always_inline enum inc_counter_id
inc_handle_packet(struct xdp_md *ctx, enum inc_where where, struct inc_packet *pkt)
{
	struct inc_route *route = NULL;
	struct inc_match m = {};
	enum inc_counter_id c;

	c = inc_parse(ctx, pkt);
	if (c != INC_CONTINUE)
		return inc_end_early(ctx, pkt, c);
	c = inc_match(ctx, pkt, &m);
	if (c != INC_CONTINUE)
		return inc_end_early(ctx, pkt, c);
	if (pkt->tver)
		return INC_CTR_DROP_TVER;
	c = inc_parse_ext(ctx, pkt);
	if (c != INC_CONTINUE)
		return c == INC_CTR_DROP_OPCODE ? inc_other_opcode(ctx, pkt, &m) : c;
	if (pkt->pkey != m.cfg->pkey)
		return INC_CTR_DROP_PKEY;
	if (inc_steers) {
		c = inc_steer(pkt, &m, where, &route);
		if (c != INC_CONTINUE)
			return c;
	}
	c = INC_CTR_DROP_BUSY;
	if (inc_enter(m.st)) {
		c = inc_handle_own(ctx, pkt, &m);
		inc_leave(m.st);
	}
	if (route)
		inc_route_done(route);
	return c;
}

/* Whether a frame leaves the program as it came, or as the echo reply to its sender. */
static __always_inline bool inc_keeps_tag(enum inc_counter_id c)
{
	return inc_counter_is(c, 'P') || c == INC_CTR_ANS_ECHO || c == INC_CTR_X_STEERED;
}

static __always_inline enum inc_counter_id inc_handle(struct xdp_md *ctx, enum inc_where where)
{
	struct inc_packet pkt = {};
	enum inc_counter_id c = inc_handle_packet(ctx, where, &pkt);

	if (pkt.tag && inc_keeps_tag(c) && inc_tag_again(ctx, &pkt))
		return INC_CTR_DROP_NO_ROOM;
	return c;
}

/* The verdict of a packet that ended on this counter, or that goes to another CPU. */
static __always_inline int inc_verdict(struct xdp_md *ctx, enum inc_counter_id c,
				       enum inc_where where)
{
	if (inc_counter_is(c, 'P'))
		return XDP_PASS;
	if (inc_counter_is(c, 'M') || c == INC_CTR_ABS_SLOWPATH || c == INC_CTR_X_STEERED)
		return XDP_REDIRECT;
	/* An answer is redirected to its own port instead of returning XDP_TX. After XDP_TX a veth
	 * wakes its peer only if the peer has an XDP program, so the answer could wait for other
	 * traffic. A program of a CPU cannot send by XDP_TX at all. */
	if (inc_counter_is(c, 'W'))
		return bpf_redirect_map(&inc_answer_port, ctx->ingress_ifindex,
					where == INC_AT_PORT ? XDP_TX : XDP_DROP);
	return XDP_DROP;
}

#endif
