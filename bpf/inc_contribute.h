/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Decides the fate of a data packet, stores the packet in its row, and counts a child's
 * contribution.
 */
#ifndef INC_CONTRIBUTE_H
#define INC_CONTRIBUTE_H

#include "lib/proto/desc.h"
#include "bpf/inc_answer.h"
#include "bpf/inc_maps.h"
#include "bpf/inc_match.h"
#include "bpf/inc_parse.h"

enum inc_fate {
	/* the packet is the expected one of a child, so it is stored and counted */
	INC_FATE_CONTRIBUTION,
	/* the packet is the expected one of a child, but its slot still has an older chunk */
	INC_FATE_EARLY,
	INC_FATE_RESULT, /* the packet is the expected one of the parent */
	/* the packet is the expected one, but the switch cannot store it: its opcode, length,
	 * descriptor or byte order is wrong, or the parent cannot have the partial sum yet */
	INC_FATE_INVALID,
	INC_FATE_BEHIND, /* the switch has received the packet before */
	INC_FATE_AHEAD,  /* packets before this one are missing */
	INC_FATE_CONN_ENDED,
	INC_FATE_COMM_ENDED,
};

/*
 * The fate of a data packet, and the slot and row where the expected packet is stored. Both are
 * decided once, from one read of each word that other CPUs change. So the decision to copy the
 * packet into the row and the decision to count it cannot differ.
 */
struct inc_place {
	__u64 r;
	enum inc_fate fate;
	__u32 syndrome; /* AETH syndrome of the connection or communicator that has ended */
	__u32 slot;
	__u32 generation;
	__u32 desc; /* the packet's descriptor, from its immediate or from the packet before it */
	struct inc_slot *state;
	struct inc_buf *row; /* the row for a contribution or a result; NULL for any other fate */
};

/* Whether the packet's opcode may follow that of the packet before, and the length fits the
 * opcode. */
static __always_inline bool inc_sequence_ok(const struct inc_packet *pkt, const struct inc_match *m)
{
	__u8 now = inc_op_in(pkt->opcode, INC_OPS_WRITE) ? INC_OPEN_WRITE : INC_OPEN_SEND;
	__u32 payload = m->comm->payload;

	if (inc_op_in(pkt->opcode, INC_OPS_BEGIN) ? m->st->open_message != INC_OPEN_NONE
						  : m->st->open_message != now)
		return false;
	if (pkt->len > payload)
		return false;
	if (!inc_op_in(pkt->opcode, INC_OPS_END))
		return pkt->len == payload;
	return pkt->len || inc_op_in(pkt->opcode, INC_OPS_ONLY);
}

/* Whether a child switch's elements have the byte order of this communicator. Hosts need no check,
 * because the controller has set their order. */
static __always_inline bool inc_order_ok(const struct inc_packet *pkt, const struct inc_match *m)
{
	return !(m->cfg->flags & INC_CONN_F_SWITCH) || !pkt->se == !inc_comm_order(m->comm);
}

/* Whether the parent's packet is a valid answer to this partial sum. Its message must mirror that
 * of the partial sum. Its length follows from which ranks send and receive data. */
static __always_inline bool inc_answers(const struct inc_packet *pkt, const struct inc_match *m,
					const struct inc_buf *partial)
{
	__u32 desc = partial->desc;
	bool root_below = inc_root_child_plus_1(m->comm, desc);

	if (pkt->opcode != INC_OP_SEND_ONLY_IMM || pkt->imm != desc)
		return false;
	return inc_answer_fits(desc, pkt->len, partial->len, root_below, m->cfg->ranks);
}

/* Whether the parent's packet is the result of a partial sum that it can have. */
static __always_inline bool inc_is_result(const struct inc_packet *pkt, const struct inc_match *m,
					  const struct inc_place *at, const struct inc_buf *partial)
{
	return at->r < *(volatile __u64 *)&m->comm_st->up_next && inc_sequence_ok(pkt, m) &&
	       inc_answers(pkt, m, partial);
}

/* Whether the child's packet may be a contribution. desc: the packet's descriptor. */
static __always_inline bool inc_is_contribution(const struct inc_packet *pkt,
						const struct inc_match *m, __u32 desc)
{
	return inc_sequence_ok(pkt, m) && inc_order_ok(pkt, m) && inc_desc_known(desc, pkt->len) &&
	       (m->st->desc_valid || inc_op_in(pkt->opcode, INC_OPS_IMM));
}

/*
 * Decides the fate of the expected packet. While the connection is busy with this packet, its slot
 * cannot leave the generation that is read here. A slot moves to the next generation when all
 * children's bits are set, and this child's bit is not set yet. Below the root a slot moves when
 * the parent's result is accepted. Either that is this packet, or it cannot come yet, because the
 * partial sum still lacks this child's contribution.
 */
static __always_inline enum inc_counter_id
inc_decide_expected(const struct inc_packet *pkt, const struct inc_match *m, struct inc_place *at)
{
	__u32 log2_slots = m->comm->log2_slots & 15, key;
	struct inc_buf *row, *partial;

	at->slot = at->r & ((1u << log2_slots) - 1);
	at->generation = at->r >> log2_slots;
	at->desc = inc_op_in(pkt->opcode, INC_OPS_IMM) ? pkt->imm : m->st->desc;
	key = m->comm->sum_base + at->slot;
	at->state = bpf_map_lookup_elem(&inc_slot, &key);
	row = inc_kept_row(m->comm, m->cfg->child, at->slot);
	if (!at->state || !row)
		return INC_CTR_DROP_CONFIG;
	if (inc_is_up(m)) {
		partial = inc_sum_row(m->comm, at->slot);
		if (!partial)
			return INC_CTR_DROP_CONFIG;
		at->fate = inc_is_result(pkt, m, at, partial) ? INC_FATE_RESULT : INC_FATE_INVALID;
	} else if (!inc_is_contribution(pkt, m, at->desc)) {
		at->fate = INC_FATE_INVALID;
	} else if (INC_SLOT_GENERATION(*(volatile __u64 *)&at->state->word) != at->generation) {
		at->fate = INC_FATE_EARLY;
	} else {
		at->fate = INC_FATE_CONTRIBUTION;
	}
	if (at->fate == INC_FATE_RESULT || at->fate == INC_FATE_CONTRIBUTION)
		at->row = row;
	return INC_CONTINUE;
}

/* Decides the fate of a data packet. */
static __always_inline enum inc_counter_id
inc_decide(const struct inc_packet *pkt, const struct inc_match *m, struct inc_place *at)
{
	__s32 ahead;

	at->r = m->st->rx_next;
	at->syndrome = m->st->error;
	if (at->syndrome) {
		at->fate = INC_FATE_CONN_ENDED;
		return INC_CONTINUE;
	}
	at->syndrome = *(volatile __u32 *)&m->comm_st->error;
	if (at->syndrome) {
		at->fate = INC_FATE_COMM_ENDED;
		return INC_CONTINUE;
	}
	ahead = inc_psn_diff(pkt->psn, m->cfg->peer.psn + (__u32)at->r);
	if (ahead) {
		at->fate = ahead < 0 ? INC_FATE_BEHIND : INC_FATE_AHEAD;
		return INC_CONTINUE;
	}
	return inc_decide_expected(pkt, m, at);
}

/*
 * Whether the packet has a slot and a row. For a contribution and a result inc_decide() has found
 * both. verifier 6.1: it does not relate its knowledge of the pointers to the fate. Without this
 * check it treats them as NULL and rejects the program.
 */
static __always_inline bool inc_has_place(struct inc_place *at)
{
	inc_opaque(at->state);
	inc_opaque(at->row);
	return at->state && at->row;
}

/* Ends the connection. This packet and every later one of it is answered with a NAK. */
static __always_inline enum inc_counter_id
inc_refuse(struct xdp_md *ctx, const struct inc_packet *pkt, const struct inc_match *m)
{
	m->st->error = INC_AETH_NAK_INVALID;
	inc_emit(INC_EVENT_CONN_ERROR, m->cfg->comm, m->conn, INC_AETH_NAK_INVALID, m->st->rx_next,
		 inc_child_bit(m));
	return inc_answer_nak(ctx, pkt, m, INC_AETH_NAK_INVALID, INC_CTR_ANS_NAK_INVALID);
}

/* Stores the packet's properties in its row, which has the payload already. The chunk number is
 * written first, so that a reader of the previous chunk notices that the row is being reused. */
static __always_inline void inc_describe(const struct inc_packet *pkt, const struct inc_place *at)
{
	struct inc_buf *row = at->row;

	inc_publish64(&row->r, at->r);
	row->len = pkt->len;
	row->desc = at->desc;
	row->opcode = pkt->opcode;
	row->flags = (pkt->ackreq ? INC_BUF_F_ACKREQ : 0) | (pkt->se ? INC_BUF_F_SE : 0);
	row->va = pkt->va;
	row->rkey = pkt->rkey;
	row->dmalen = pkt->dmalen;
}

/* Advances the connection's state over the packet that was just stored. If the peer sends the
 * packet again, it is a duplicate from here on. */
static __always_inline void inc_advance(const struct inc_packet *pkt, const struct inc_match *m,
					const struct inc_place *at)
{
	struct inc_conn_state *st = m->st;

	st->desc = at->desc;
	st->desc_valid = 1;
	st->nak_sent = 0;
	if (inc_op_in(pkt->opcode, INC_OPS_END)) {
		st->open_message = INC_OPEN_NONE;
		st->msn = (st->msn + 1) & INC_PSN_MASK;
	} else {
		st->open_message =
			inc_op_in(pkt->opcode, INC_OPS_WRITE) ? INC_OPEN_WRITE : INC_OPEN_SEND;
	}
	st->rx_next = at->r + 1;
	/* ack_asked is written after rx_next, because the slow path must not see it earlier */
	if (pkt->ackreq)
		inc_publish64(&st->ack_asked, at->r + 1);
}

/*
 * Counts the contribution in at->row. Returns true for the last contribution of the chunk, whose
 * CPU then reduces. Exactly one contribution is the last one, because no arrival bit is set twice
 * in a generation. A repeated packet is behind rx_next. Below the root all bits stay set until the
 * parent's result has come, and until then the next packet for the slot is early.
 */
static __always_inline bool inc_arrive(const struct inc_match *m, const struct inc_place *at)
{
	__u64 bit = 1ull << (m->cfg->child & 31), before;

	before = __sync_fetch_and_or(&at->state->word, bit);
	return ((__u32)(before | bit) & m->comm->full_mask) == m->comm->full_mask;
}

#endif
