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
	INC_FATE_AHEAD,  /* packets before this one are missing, so the packet is dropped */
	/* packets before this one are missing, but it is stored and counted all the same */
	INC_FATE_KEEP,
	/* The packet could be kept, but it is the first behind a gap and the last one of its chunk.
	 * Its frame cannot become both the NAK and the result. So it becomes the NAK, which names
	 * the packet itself, too. */
	INC_FATE_NAME,
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
	/* the gap that this packet shows, in the form of a NAK's MSN (INC_GAP); 0: none */
	__u32 gap;
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

/* Whether the parent's packet is a valid result for this partial sum. It must be one whole message
 * that repeats the partial sum's descriptor. Its length follows from which ranks send and receive
 * data. */
static __always_inline bool inc_answers(const struct inc_packet *pkt, const struct inc_match *m,
					const struct inc_buf *partial)
{
	__u32 desc = partial->desc;
	bool root_below = inc_root_child_plus_1(m->comm, desc);

	if (pkt->opcode != INC_OP_SEND_ONLY_IMM || pkt->imm != desc)
		return false;
	return inc_answer_fits(desc, pkt->len, partial->len, root_below, m->cfg->ranks);
}

/* Whether the parent's packet is the result of a partial sum that this switch has completed. The
 * parent cannot have any other partial sum. */
static __always_inline bool inc_is_result(const struct inc_packet *pkt, const struct inc_match *m,
					  const struct inc_place *at, const struct inc_buf *partial)
{
	return at->r < *(volatile __u64 *)&m->comm_st->up_next && inc_sequence_ok(pkt, m) &&
	       inc_answers(pkt, m, partial);
}

/* Whether the child's packet is fit to be a contribution: its opcode, byte order and length are
 * valid, and its descriptor is known. desc: the packet's descriptor. */
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

/* Whether a packet ahead of the expected one may be kept. The packet must be a whole message with
 * its own descriptor, because a missing packet between may have another descriptor. After an RNR
 * NAK, or a NAK 60 that names no gap, no packet is kept, because the peer sends all of them
 * again. */
static __always_inline bool inc_may_keep(const struct inc_packet *pkt, const struct inc_match *m,
					 __s32 ahead)
{
	return m->comm->flags & INC_COMM_F_REORDER && !m->st->nak_sent &&
	       m->st->open_message == INC_OPEN_NONE && ahead < 1 << (m->comm->log2_slots & 15) &&
	       inc_op_in(pkt->opcode, INC_OPS_ONLY) && inc_op_in(pkt->opcode, INC_OPS_IMM);
}

/*
 * Decides the fate of a packet that is ahead of the expected one and may be kept. While this
 * child's bit is not set, the packet's slot cannot leave the generation that is read here. The
 * child sends the packet only after it has received the result of the slot's previous chunk. So the
 * row for this packet is free.
 */
static __always_inline enum inc_counter_id inc_decide_ahead(const struct inc_packet *pkt,
							    const struct inc_match *m,
							    struct inc_place *at, __u32 ahead)
{
	__u32 log2_slots = m->comm->log2_slots & 15, key, seen = m->st->ahead;
	__u64 word, bit = 1ull << (m->cfg->child & 31);
	struct inc_buf *row;

	at->r += ahead;
	at->slot = at->r & ((1u << log2_slots) - 1);
	at->generation = at->r >> log2_slots;
	at->desc = pkt->imm;
	at->fate = INC_FATE_AHEAD;
	key = m->comm->sum_base + at->slot;
	at->state = bpf_map_lookup_elem(&inc_slot, &key);
	row = inc_kept_row(m->comm, m->cfg->child, at->slot);
	if (!at->state || !row)
		return INC_CTR_DROP_CONFIG;
	word = *(volatile __u64 *)&at->state->word;
	if (INC_SLOT_GENERATION(word) == at->generation + 1 ||
	    (INC_SLOT_GENERATION(word) == at->generation && word & bit)) {
		at->fate = INC_FATE_BEHIND;
	} else if (INC_SLOT_GENERATION(word) == at->generation &&
		   inc_is_contribution(pkt, m, at->desc)) {
		at->gap = ahead > seen ? INC_GAP(seen, ahead - seen) : 0;
		at->fate = INC_FATE_KEEP;
		at->row = row;
		if (at->gap && ((__u32)(word | bit) & m->comm->full_mask) == m->comm->full_mask) {
			at->gap++;
			at->fate = INC_FATE_NAME;
			at->row = NULL;
		}
	}
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
		if (ahead > 0 && inc_may_keep(pkt, m, ahead))
			return inc_decide_ahead(pkt, m, at, ahead);
		at->fate = ahead < 0 ? INC_FATE_BEHIND : INC_FATE_AHEAD;
		return INC_CONTINUE;
	}
	return inc_decide_expected(pkt, m, at);
}

/*
 * Whether inc_decide() has found a slot and a row for the packet. That is true for every
 * contribution and result.
 *
 * verifier 6.1: the verifier does not infer from the packet's fate that both pointers are set, so
 * it rejects the program without this check.
 */
static __always_inline bool inc_has_place(struct inc_place *at)
{
	inc_opaque(at->state);
	inc_opaque(at->row);
	return at->state && at->row;
}

/* Ends the connection. This packet and every later one of it is answered with a NAK. */
static __always_inline enum inc_counter_id
inc_refuse(const struct inc_packet *pkt, const struct inc_match *m, struct inc_answer *answer)
{
	m->st->error = INC_AETH_NAK_INVALID;
	inc_emit(INC_EVENT_CONN_ERROR, m->cfg->comm, m->conn, INC_AETH_NAK_INVALID, m->st->rx_next,
		 inc_child_bit(m));
	return inc_answer_nak(pkt, m, answer, INC_AETH_NAK_INVALID, INC_CTR_ANS_NAK_INVALID);
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
	if (st->ahead)
		st->ahead--;
	/* ack_asked is written after rx_next, because the slow path must not see it earlier */
	if (pkt->ackreq)
		inc_publish64(&st->ack_asked, at->r + 1);
}

/* Extends `ahead` in the connection's state to this packet. `ahead` counts the packets from the
 * next expected one to the last one behind the gap. The last one was kept there, or a NAK has
 * requested it again. */
static __always_inline void inc_note_ahead(const struct inc_match *m, const struct inc_place *at)
{
	__u64 end = at->r + 1 - m->st->rx_next;

	if (end > m->st->ahead)
		m->st->ahead = end;
}

/* The position of a walk over the chunks of a communicator, which begins at chunk r. bit: the
 * arrival bit of the child whose contributions count; 0: only complete chunks count. */
struct inc_walk {
	__u64 r;
	__u32 sum_base;
	__u32 log2_slots;
	__u32 bit;
};

/* Whether the chunk at the walk's position is complete, or has the contribution of the walk's
 * child. */
static __always_inline bool inc_walk_has(const struct inc_walk *w)
{
	__u32 key = w->sum_base + (w->r & ((1u << (w->log2_slots & 15)) - 1));
	struct inc_slot *slot = bpf_map_lookup_elem(&inc_slot, &key);
	__s32 later;
	__u64 word;

	if (!slot)
		return false;
	word = *(volatile __u64 *)&slot->word;
	later = INC_SLOT_GENERATION(word) - (__u32)(w->r >> (w->log2_slots & 15));
	return later > 0 || (!later && word & w->bit);
}

/* Begins a walk over chunks (struct inc_walk) at chunk r. */
static __always_inline struct inc_walk inc_walk_from(const struct inc_comm_cfg *comm, __u64 r,
						     __u32 bit)
{
	return (struct inc_walk){
		.r = r, .sum_base = comm->sum_base, .log2_slots = comm->log2_slots, .bit = bit};
}

/* One step of a walk over chunks, as a callback of bpf_loop(). over: pass the chunks for which
 * inc_walk_has() is true; otherwise pass the others. Returns 1 at the first chunk of the other
 * kind, which ends the walk. */
static __always_inline long inc_walk_step(struct inc_walk *w, bool over)
{
	if (inc_walk_has(w) != over)
		return 1;
	w->r++;
	return 0;
}

static long inc_walk_over(__u32 round, struct inc_walk *w)
{
	return inc_walk_step(w, true);
}

static long inc_walk_to(__u32 round, struct inc_walk *w)
{
	return inc_walk_step(w, false);
}

/* Advances the connection's state over packets that were kept behind a gap, because the gap has
 * just been closed. Afterwards the expected packet is the first one of the next gap, or one that
 * was not sent before. */
__noinline int inc_pass_kept(struct inc_conn_state *st, const struct inc_comm_cfg *comm,
			     __u32 child)
{
	struct inc_walk w;
	struct inc_buf *row;
	__u32 kept;

	if (!st || !comm)
		return 0;
	w = inc_walk_from(comm, st->rx_next, 1u << (child & 31));
	bpf_loop(st->ahead, inc_walk_over, &w, 0);
	kept = w.r - st->rx_next;
	if (!kept)
		return 0;
	row = inc_kept_row(comm, child, (w.r - 1) & ((1u << (comm->log2_slots & 15)) - 1));
	if (row)
		st->desc = row->desc;
	st->ahead -= kept;
	st->msn = (st->msn + kept) & INC_PSN_MASK;
	st->rx_next = w.r;
	if (st->ahead_asks)
		inc_publish64(&st->ack_asked, w.r);
	if (!st->ahead)
		st->ahead_asks = 0;
	return 0;
}

/* Returns the length of the first gap: how many packets from the expected one on are missing. The
 * count stops at INC_GAP_MOST. */
#define INC_GAP_MOST 64
__noinline int inc_first_gap(const struct inc_conn_state *st, const struct inc_comm_cfg *comm,
			     __u32 child)
{
	struct inc_walk w;

	if (!st || !comm)
		return 0;
	w = inc_walk_from(comm, st->rx_next, 1u << (child & 31));
	bpf_loop(st->ahead < INC_GAP_MOST ? st->ahead : INC_GAP_MOST, inc_walk_to, &w, 0);
	return w.r - st->rx_next;
}

/*
 * Advances tx_next over complete chunks. Chunks complete in any order, on several CPUs at a time.
 * Each CPU moves the slot of its chunk first, and tries then to advance tx_next from this chunk on.
 * If it cannot, an earlier chunk is incomplete, or another CPU is about to advance tx_next. Every
 * CPU that has advanced it looks at the slot there afterwards, so it finds the chunk complete. All
 * these writes are full barriers.
 */
#define INC_FRONTIER_TRIES 64

/* The communicator whose tx_next is advanced. */
struct inc_frontier {
	struct inc_comm_state *st;
	const struct inc_comm_cfg *comm;
};

/* One attempt to advance tx_next, as a callback of bpf_loop(). Returns 1 to end the attempts,
 * because the chunk at tx_next is incomplete. */
static long inc_frontier_try(__u32 round, struct inc_frontier *f)
{
	__u64 from = *(volatile __u64 *)&f->st->tx_next;
	struct inc_walk w = inc_walk_from(f->comm, from, 0);

	bpf_loop(1u << (f->comm->log2_slots & 15), inc_walk_over, &w, 0);
	if (w.r == from)
		return 1;
	__sync_val_compare_and_swap(&f->st->tx_next, from, w.r);
	return 0;
}

__noinline int inc_advance_results(struct inc_comm_state *comm_st, const struct inc_comm_cfg *comm)
{
	struct inc_frontier f = {.st = comm_st, .comm = comm};

	if (!comm_st || !comm)
		return 0;
	bpf_loop(INC_FRONTIER_TRIES, inc_frontier_try, &f, 0);
	return 0;
}

/* Advances tx_next over the chunk at->r, whose result is complete, if tx_next is at this chunk. */
static __always_inline void inc_result_done(const struct inc_match *m, const struct inc_place *at)
{
	struct inc_walk next = inc_walk_from(m->comm, at->r + 1, 0);

	if (!(m->comm->flags & INC_COMM_F_REORDER))
		inc_publish64(&m->comm_st->tx_next, at->r + 1);
	else if (__sync_val_compare_and_swap(&m->comm_st->tx_next, at->r, at->r + 1) == at->r &&
		 inc_walk_has(&next))
		inc_advance_results(m->comm_st, m->comm);
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
