/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Contribute: a data packet in order is kept in its row, and what a child gave is counted. */
#ifndef INC_CONTRIBUTE_H
#define INC_CONTRIBUTE_H

#include "lib/proto/desc.h"
#include "bpf/inc_answer.h"

enum inc_fate {
	INC_FATE_CONTRIBUTION, /* the packet expected, and its slot waits for it */
	INC_FATE_EARLY,        /* the packet expected, but its slot is in an older generation */
	INC_FATE_RESULT,       /* the parent's packet expected, of a partial sum that it can have */
	INC_FATE_UNASKED,      /* the same of one that it cannot have */
	INC_FATE_BEHIND,       /* kept already */
	INC_FATE_AHEAD,        /* packets before it are missing */
	INC_FATE_CONN_ENDED,
	INC_FATE_COMM_ENDED,
};

/*
 * What a data packet is, and the place of the packet expected next: its slot, and its row
 * there. Decided once, from one reading of each word that others change: whether the packet is
 * copied into the row and whether it is counted must not be two answers.
 */
struct inc_place {
	__u64 r;
	enum inc_fate fate;
	__u32 syndrome; /* of what has ended */
	__u32 slot;
	__u32 generation;
	struct inc_slot *state;
	struct inc_buf *row;
};

static __always_inline struct inc_buf *inc_kept_row(const struct inc_comm_cfg *comm, __u32 child,
						    __u32 slot)
{
	__u32 row = comm->kept_base + (child << (comm->log2_slots & 15)) + slot;

	return bpf_map_lookup_elem(&inc_kept, &row);
}

static __always_inline struct inc_buf *inc_sum_row(const struct inc_comm_cfg *comm, __u32 slot)
{
	__u32 row = comm->sum_base + slot;

	return bpf_map_lookup_elem(&inc_sum, &row);
}

/* The child that has this collective's root behind it, plus 1; 0: none has, or it has no root. */
static __always_inline __u32 inc_root_child_plus_1(const struct inc_comm_cfg *comm, __u32 desc)
{
	__u32 root = INC_DESC_ROOT(desc), row;
	struct inc_root_row *children;

	if (!inc_has_root(desc) || !inc_root_row(comm, root, &row))
		return 0;
	children = bpf_map_lookup_elem(&inc_root_child, &row);
	return children ? *inc_root_place(children, root) : 0;
}

/*
 * While the connection is busy with this packet its slot cannot leave the generation found here.
 * A slot moves on when all children's bits are set, and this child's is not set yet; below the root
 * it moves on when the parent's result is taken: that is the packet at hand, or it cannot come
 * before the partial sum, in which this child's part is still missing.
 */
static __always_inline enum inc_counter_id
inc_decide(const struct inc_packet *pkt, const struct inc_match *m, struct inc_place *at)
{
	__u32 log2_slots = m->comm->log2_slots & 15;
	__s32 ahead;
	__u32 row;

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
	ahead = inc_psn_diff(pkt->psn, m->cfg->rx_start_psn + (__u32)at->r);
	if (ahead) {
		at->fate = ahead < 0 ? INC_FATE_BEHIND : INC_FATE_AHEAD;
		return INC_CONTINUE;
	}
	at->slot = at->r & ((1u << log2_slots) - 1);
	at->generation = at->r >> log2_slots;
	row = m->comm->sum_base + at->slot;
	at->state = bpf_map_lookup_elem(&inc_slot, &row);
	at->row = inc_kept_row(m->comm, m->cfg->child, at->slot);
	if (!at->state || !at->row)
		return INC_CTR_DROP_CONFIG;
	if (inc_is_up(m)) {
		at->fate = at->r < *(volatile __u64 *)&m->comm_st->up_next ? INC_FATE_RESULT
									   : INC_FATE_UNASKED;
		return INC_CONTINUE;
	}
	at->fate = INC_SLOT_GENERATION(*(volatile __u64 *)&at->state->word) == at->generation
			   ? INC_FATE_CONTRIBUTION
			   : INC_FATE_EARLY;
	return INC_CONTINUE;
}

/* Is the opcode one that may come next, and does the length fit it? */
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

/* Are a switch's numbers in the byte order that they have here? A host's are, it was told. */
static __always_inline bool inc_order_ok(const struct inc_packet *pkt, const struct inc_match *m)
{
	return !(m->cfg->flags & INC_CONN_F_SWITCH) || !pkt->se == !inc_comm_order(m->comm);
}

/* Ends the connection: the packet, and every one after it, is answered with the syndrome. */
static __always_inline enum inc_counter_id inc_refuse(struct xdp_md *ctx,
						      const struct inc_packet *pkt,
						      const struct inc_match *m, __u8 syndrome)
{
	m->st->error = syndrome;
	inc_emit(INC_EVENT_CONN_ERROR, m->cfg->comm, m->conn, syndrome, m->st->rx_next,
		 inc_child_bit(m));
	return inc_answer_nak(ctx, pkt, m, syndrome, INC_CTR_ANS_NAK_INVALID);
}

/* Stores what the row must tell about the packet besides the payload. desc: explicit or
 * inherited. The chunk number goes first: who still reads of an earlier chunk sees that. */
static __always_inline void inc_describe(struct inc_buf *row, const struct inc_packet *pkt, __u64 r,
					 __u32 desc)
{
	inc_publish64(&row->r, r);
	row->len = pkt->len;
	row->desc = desc;
	row->opcode = pkt->opcode;
	row->flags = (pkt->ackreq ? INC_BUF_F_ACKREQ : 0) | (pkt->se ? INC_BUF_F_SE : 0);
	row->va = pkt->va;
	row->rkey = pkt->rkey;
	row->dmalen = pkt->dmalen;
}

/* The packet is kept, and the connection moves on: from here it is a duplicate where it comes
 * again. */
static __always_inline void inc_advance(const struct inc_packet *pkt, const struct inc_match *m,
					const struct inc_place *at, __u32 desc)
{
	struct inc_conn_state *st = m->st;

	st->desc = desc;
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
	/* the slow path must not see it before rx_next */
	if (pkt->ackreq)
		inc_publish64(&st->ack_asked, at->r + 1);
}

/* Counts the contribution in at->row. True for the last arriver, which alone goes on to reduce: no
 * bit is set twice in a generation, as what comes again is behind rx_next, and below the root all
 * bits stay set until the result has come, while what is next for the slot is early. */
static __always_inline bool inc_arrive(const struct inc_match *m, const struct inc_place *at)
{
	__u64 bit = 1ull << (m->cfg->child & 31), before;

	before = __sync_fetch_and_or(&at->state->word, bit);
	return ((__u32)(before | bit) & m->comm->full_mask) == m->comm->full_mask;
}

#endif
