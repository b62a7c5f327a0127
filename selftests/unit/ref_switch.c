// SPDX-License-Identifier: BSD-2-Clause
#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <zlib.h>
#include "lib/proto/desc.h"
#include "ref_switch.h"

/* A frame that the reference is processing. */
struct walk {
	struct ref_switch *sw;
	const struct frame *in;
	struct ref_out *out;
	struct ref_comm *cm;
	struct ref_conn *c;
	uint16_t tag; /* the tag of the frame, as in struct inc_conn_state; 0: it had none */
	uint8_t opcode;
	uint32_t psn;
	bool ackreq;
	bool solicited;
	uint32_t pad;
	const uint8_t *bth;
	const uint8_t *ext;
	const uint8_t *payload;
	uint32_t len;
};

static bool is_first(uint8_t op)
{
	return op == INC_OP_SEND_FIRST || op == INC_OP_WRITE_FIRST;
}

static bool is_middle(uint8_t op)
{
	return op == INC_OP_SEND_MIDDLE || op == INC_OP_WRITE_MIDDLE;
}

static bool is_last(uint8_t op)
{
	return !is_first(op) && !is_middle(op) && !ref_is_only(op);
}

static void end(struct walk *w, int verdict, enum inc_counter_id counter)
{
	w->out->verdict = verdict;
	w->out->counter = counter;
	w->sw->counter[counter]++;
}

static void event(struct walk *w, enum inc_event_type type, uint32_t arg, uint64_t r, uint32_t mask)
{
	struct inc_event *e = &w->out->event[w->out->events++];

	memset(e, 0, sizeof(*e));
	e->type = type;
	e->comm = w->cm->index;
	e->conn = w->cm->cfg.conn_base + w->out->child;
	e->arg = arg;
	e->r = r;
	e->mask = mask;
}

/* Does the communicator keep contributions ahead of a gap? */
static bool reorders(const struct walk *w)
{
	return w->cm->cfg.flags & INC_COMM_F_REORDER;
}

/* Sends the frame back to its sender as a CNP that is due, if nothing else is made of it. */
static void become_cnp(struct walk *w)
{
	if (w->out->verdict != XDP_DROP || !inc_counter_is(w->out->counter, 'A') ||
	    !ref_take_cnp(w->c, &w->out->frame))
		return;
	w->sw->counter[w->out->counter]--;
	end(w, XDP_TX, INC_CTR_ANS_CNP);
}

/* Sends the frame back to its sender as an acknowledgement with this syndrome. */
static void answer_msn(struct walk *w, enum inc_counter_id counter, uint32_t psn, uint8_t syndrome,
		       uint32_t msn, bool ackreq)
{
	struct frame_spec s;

	if (!w->c->state.mac.known && !w->c->state.mac_hint.known) {
		end(w, XDP_DROP, INC_CTR_DROP_NO_MAC);
		return;
	}
	ref_peer_spec(w->c, 0, &s);
	s.opcode = INC_OP_ACK;
	s.psn = psn & INC_PSN_MASK;
	s.syndrome = syndrome;
	s.ack_byte = ackreq ? 0x80 : 0;
	s.msn = msn;
	if (counter == INC_CTR_ANS_DUPLICATE && !(w->in->data[6] & 1) &&
	    !(w->c->cfg.flags & INC_CONN_F_FIXED_MAC))
		memcpy(s.dst_mac, w->in->data + 6, 6);
	frame_build(&w->out->frame, &s);
	ref_tag(w->c, &w->out->frame);
	end(w, XDP_TX, counter);
}

static void answer(struct walk *w, enum inc_counter_id counter, uint32_t psn, uint8_t syndrome)
{
	bool names_gap = reorders(w) && syndrome != INC_AETH_ACK;

	answer_msn(w, counter, psn, syndrome, names_gap ? 0 : w->c->state.msn, false);
}

/* PSN of the last packet that was accepted in order. A cumulative ACK carries it. */
static uint32_t kept_psn(const struct ref_conn *c)
{
	return (c->cfg.peer.psn + c->state.rx_next - 1) & INC_PSN_MASK;
}

static void answer_ack(struct walk *w, enum inc_counter_id counter)
{
	w->c->state.ack_sent = w->c->state.rx_next;
	answer(w, counter, kept_psn(w->c), INC_AETH_ACK);
}

static void answer_nak(struct walk *w, uint32_t psn, uint8_t syndrome)
{
	static const enum inc_counter_id counter[] = {
		INC_CTR_ANS_NAK_SEQ,
		INC_CTR_ANS_NAK_INVALID,
		INC_CTR_ANS_NAK_INVALID,
		INC_CTR_ANS_NAK_FATAL,
	};

	w->c->state.naks_sent++;
	answer(w, counter[syndrome - INC_AETH_NAK_SEQ], psn, syndrome);
}

static bool is_up(const struct walk *w)
{
	return w->out->child == w->cm->cfg.children;
}

/* The bit of the frame's child in its slot; 0 if the frame is from the parent. */
static uint32_t child_bit(const struct walk *w)
{
	return is_up(w) ? 0 : 1u << w->out->child;
}

static void invalid(struct walk *w)
{
	w->c->state.error = INC_AETH_NAK_INVALID;
	event(w, INC_EVENT_CONN_ERROR, INC_AETH_NAK_INVALID, w->c->state.rx_next, child_bit(w));
	answer_nak(w, w->psn, INC_AETH_NAK_INVALID);
}

static bool shape_ok(const struct walk *w)
{
	const struct inc_conn_state *st = &w->c->state;
	uint8_t kind = w->opcode >= INC_OP_WRITE_FIRST ? INC_OPEN_WRITE : INC_OPEN_SEND;
	uint32_t full = w->cm->cfg.payload;

	if (is_first(w->opcode) || ref_is_only(w->opcode)) {
		if (st->open_message != INC_OPEN_NONE)
			return false;
	} else if (st->open_message != kind) {
		return false;
	}
	if (is_first(w->opcode) || is_middle(w->opcode)) {
		if (w->len != full)
			return false;
	} else if (w->len > full || (is_last(w->opcode) && w->len == 0)) {
		return false;
	}
	return true;
}

/* Does the partial sum have the communicator's byte order? A child switch shows the order in the SE
 * bit. */
static bool order_ok(const struct walk *w)
{
	bool big = w->cm->cfg.flags & INC_COMM_F_NET_ORDER;

	return !(w->c->cfg.flags & INC_CONN_F_SWITCH) || w->solicited == big;
}

/* Sends the frame on as a result or partial sum. If the frame cannot carry the row, an event makes
 * the slow path send it. */
static void send_on(struct walk *w, uint64_t r, bool cannot, enum inc_event_type pending,
		    enum inc_counter_id counter)
{
	if (cannot) {
		event(w, pending, 0, r, w->cm->cfg.full_mask);
		end(w, XDP_DROP, INC_CTR_ABS_PENDING);
		return;
	}
	end(w, XDP_REDIRECT, counter);
}

static void last_arrived(struct walk *w, uint64_t r)
{
	struct ref_comm *cm = w->cm;
	uint32_t odd = ref_odd_children(cm, r);
	bool stuck;

	if (odd) {
		cm->state.error = INC_AETH_NAK_OPERATION;
		cm->state.error_r = r;
		w->sw->counter[INC_CTR_X_MISMATCH]++;
		event(w, INC_EVENT_MISMATCH, INC_AETH_NAK_OPERATION, r, odd);
		answer_nak(w, w->psn, INC_AETH_NAK_OPERATION);
		return;
	}
	ref_reduce(w->sw, cm, r);
	w->out->reduced = true;
	w->out->bare = w->len < ref_result(cm, r)->len;
	stuck = w->out->bare && w->sw->generic;
	if (cm->up) {
		/* from now on the slot waits for the parent's result */
		cm->state.up_next = r + 1;
		send_on(w, r, stuck, INC_EVENT_PARTIAL_PENDING, INC_CTR_UP_PARTIAL);
		return;
	}
	ref_done(cm, r);
	send_on(w, r, w->sw->copies_shared || stuck, INC_EVENT_RESULT_PENDING, INC_CTR_MC_RESULT);
}

/* Accepts the packet: advances the state of its connection. */
static void advance(struct walk *w, uint64_t r)
{
	struct inc_conn_state *st = &w->c->state;

	st->rx_next = r + 1;
	st->nak_sent = 0;
	if (w->ackreq)
		st->ack_asked = r + 1;
	if (is_last(w->opcode) || ref_is_only(w->opcode)) {
		st->open_message = INC_OPEN_NONE;
		st->msn = (st->msn + 1) & 0xffffff;
	} else {
		st->open_message = w->opcode >= INC_OP_WRITE_FIRST ? INC_OPEN_WRITE : INC_OPEN_SEND;
	}
	if (st->ahead)
		ref_pass_kept(w->cm, w->out->child);
}

static void store(struct walk *w, uint64_t r, uint32_t desc)
{
	struct ref_comm *cm = w->cm;
	struct inc_buf *b = ref_contrib(cm, w->out->child, r);
	const uint8_t *p = w->ext;

	memset(b, 0, sizeof(*b));
	b->r = r;
	b->len = w->len;
	b->desc = desc;
	b->opcode = w->opcode;
	b->flags = (w->ackreq ? INC_BUF_F_ACKREQ : 0) | (w->solicited ? INC_BUF_F_SE : 0);
	if (frame_has_reth(w->opcode)) {
		memcpy(&b->va, p, 8);
		memcpy(&b->rkey, p + 8, 4);
		memcpy(&b->dmalen, p + 12, 4);
	}
	memcpy(b->payload, w->payload, w->len);
	cm->slot[r % cm->slots].word |= 1ull << w->out->child;
	w->out->stored = true;
	w->out->r = r;
}

/* Processes the parent's packet r, which brings the result of chunk r. It implies that the parent
 * has received partial sum r. */
static void from_parent(struct walk *w)
{
	struct ref_comm *cm = w->cm;
	uint64_t r = w->c->state.rx_next;
	const struct inc_buf *partial = ref_result(cm, r);
	struct inc_buf *b = ref_contrib(cm, cm->cfg.children, r);

	w->out->r = r;
	if (r >= cm->state.up_next || !shape_ok(w) || w->opcode != INC_OP_SEND_ONLY_IMM ||
	    get32(w->ext) != partial->desc || !ref_owed(cm, r, w->len)) {
		invalid(w);
		return;
	}
	if (w->bth[4] & 0x40)
		ref_report(cm, cm->cfg.children);
	memset(b, 0, sizeof(*b));
	b->r = r;
	b->len = w->len;
	b->desc = partial->desc;
	memcpy(b->payload, w->payload, w->len);
	ref_seal(b);
	w->c->state.desc = b->desc;
	w->c->state.desc_valid = 1;
	advance(w, r);
	w->out->passed = true;
	ref_done(cm, r);
	send_on(w, r, w->sw->copies_shared, INC_EVENT_RESULT_PENDING, INC_CTR_MC_DOWN);
}

static void expected(struct walk *w)
{
	struct inc_conn_state *st = &w->c->state;
	struct ref_comm *cm = w->cm;
	uint64_t r = st->rx_next;
	uint64_t word = cm->slot[r % cm->slots].word;
	uint32_t desc = st->desc;
	bool has_desc = st->desc_valid;

	w->out->r = r;
	if (!shape_ok(w) || !order_ok(w)) {
		invalid(w);
		return;
	}
	if (frame_has_imm(w->opcode)) {
		desc = get32(w->ext + (frame_has_reth(w->opcode) ? INC_RETH_LEN : 0));
		has_desc = ref_desc_known(desc);
	}
	if (!has_desc || w->len % ref_element_bytes(desc)) {
		invalid(w);
		return;
	}
	if (INC_SLOT_GENERATION(word) != (uint32_t)(r / cm->slots)) {
		st->rnrs_sent++;
		/* packets after the refused one need no NAK, because the peer resends them, too */
		st->nak_sent = 1;
		answer(w, INC_CTR_ANS_RNR, w->psn, INC_AETH_RNR | INC_RNR_TIMER);
		return;
	}
	st->desc = desc;
	st->desc_valid = 1;
	store(w, r, desc);
	advance(w, r);
	if (INC_SLOT_ARRIVED(cm->slot[r % cm->slots].word) == cm->cfg.full_mask)
		last_arrived(w, r);
	else if (w->ackreq)
		answer_ack(w, INC_CTR_ANS_ACK);
	else
		end(w, XDP_DROP, INC_CTR_ABS_STORED);
}

/* May a packet that is so far ahead of the expected one be kept? If it is a duplicate, or cannot be
 * kept, it is handled here, too. Returns false if it is to be handled as without such packets. */
static bool keep(struct walk *w, uint32_t ahead)
{
	struct inc_conn_state *st = &w->c->state;
	struct ref_comm *cm = w->cm;
	uint64_t r = st->rx_next + ahead, word = cm->slot[r % cm->slots].word;
	uint32_t desc, gap = ahead > st->ahead ? ahead - st->ahead : 0, begins = st->ahead, want;
	bool named;

	if (!reorders(w) || st->nak_sent || st->open_message != INC_OPEN_NONE ||
	    ahead >= cm->slots || !ref_is_only(w->opcode) || !frame_has_imm(w->opcode))
		return false;
	if (ref_has(w->cm, w->out->child, r) &&
	    INC_SLOT_GENERATION(word) - (uint32_t)(r / cm->slots) <= 1) {
		st->duplicates++;
		answer_ack(w, INC_CTR_ANS_DUPLICATE);
		return true;
	}
	desc = get32(w->ext + (frame_has_reth(w->opcode) ? INC_RETH_LEN : 0));
	if (!shape_ok(w) || !order_ok(w) || !ref_desc_known(desc) ||
	    w->len % ref_element_bytes(desc) ||
	    INC_SLOT_GENERATION(word) != (uint32_t)(r / cm->slots))
		return false;
	if (ahead >= st->ahead)
		st->ahead = ahead + 1;
	want = (w->c->cfg.peer.psn + st->rx_next) & INC_PSN_MASK;
	/* the frame cannot become both the NAK and the result */
	named = gap && (INC_SLOT_ARRIVED(word) | child_bit(w)) == cm->cfg.full_mask;
	if (!named) {
		store(w, r, desc);
		st->ahead_asks |= w->ackreq;
	}
	if (!named && INC_SLOT_ARRIVED(cm->slot[r % cm->slots].word) == cm->cfg.full_mask) {
		last_arrived(w, r);
	} else if (gap) {
		st->naks_sent++;
		answer_msn(w, INC_CTR_ANS_NAK_SEQ, want, INC_AETH_NAK_SEQ,
			   begins << 12 | (gap + named), false);
	} else {
		end(w, XDP_DROP, INC_CTR_ABS_AHEAD);
	}
	return true;
}

static void data(struct walk *w)
{
	struct inc_conn_state *st = &w->c->state;
	uint32_t want = (w->c->cfg.peer.psn + st->rx_next) & INC_PSN_MASK;
	uint32_t ahead = (w->psn - want) & INC_PSN_MASK;

	if (st->error || w->cm->state.error) {
		/* The NAK carries the PSN of the refused packet, but never one after a gap, because
		 * that would acknowledge the gap. */
		answer_nak(w, ahead & 0x800000 ? w->psn : want,
			   st->error ? st->error : w->cm->state.error);
	} else if (ahead == 0 && is_up(w)) {
		from_parent(w);
	} else if (ahead == 0) {
		expected(w);
	} else if (ahead & 0x800000) {
		st->duplicates++;
		answer_ack(w, INC_CTR_ANS_DUPLICATE);
	} else if (keep(w, ahead)) {
		return;
	} else if (st->nak_sent) {
		end(w, XDP_DROP, INC_CTR_DROP_AHEAD);
	} else {
		st->nak_sent = 1;
		answer_nak(w, want, INC_AETH_NAK_SEQ);
	}
}

/* Answers a probe of a peer that sends and accepts packets in any order. */
static void answer_status(struct walk *w, uint64_t complete)
{
	struct inc_conn_state *st = &w->c->state;
	uint32_t missing = 0;

	while (missing < 64 && missing < st->ahead &&
	       !ref_has(w->cm, w->out->child, st->rx_next + missing))
		missing++;
	st->ack_sent = st->rx_next;
	answer_msn(w, INC_CTR_ANS_OWED, kept_psn(w->c), INC_AETH_ACK,
		   (w->ext[3] & 15u) << 20 | missing << 13 | (complete & 0x1fff), true);
}

static void acknowledgement(struct walk *w)
{
	struct inc_conn_state *st = &w->c->state;
	uint8_t syndrome = w->ext[0];
	uint8_t type = syndrome & INC_AETH_TYPE_MASK;
	/* An ACK carries the PSN of the last result that the peer has received, a NAK the PSN of
	 * the first one that it lacks. */
	uint32_t last = type == INC_AETH_TYPE_ACK, fresh = 0, ahead;
	uint64_t sent, seen;

	if (st->error || w->cm->state.error) {
		end(w, XDP_DROP, INC_CTR_DROP_CONN_ERROR);
		return;
	}
	/* The contribution of chunk r + slots implies that the child has result r. The parent's
	 * result r implies that the parent has partial sum r. */
	seen = st->rx_next + st->ahead;
	sent = is_up(w) ? w->cm->state.up_next : w->cm->state.tx_next;
	if (!is_up(w) && st->tx_acked + w->cm->slots < seen)
		st->tx_acked = seen - w->cm->slots < sent ? seen - w->cm->slots : sent;
	if (is_up(w) && st->tx_acked < st->rx_next)
		st->tx_acked = st->rx_next;
	ahead = (w->psn - w->c->cfg.own.psn - st->tx_acked) & INC_PSN_MASK;
	if (!(ahead & 0x800000))
		fresh = ahead + last;
	/* the PSN is behind the last acknowledged one, so the packet is old */
	if (st->tx_acked + fresh > sent) {
		end(w, XDP_DROP, INC_CTR_DROP_ACK_RANGE);
		return;
	}
	if (type == INC_AETH_TYPE_ACK) {
		st->ack_named = st->tx_acked + (ahead & 0x800000 ? (int32_t)(ahead + 1 - 0x1000000)
								 : (int32_t)fresh);
		st->acks_received++;
		st->tx_acked += fresh;
		if (w->ackreq && reorders(w))
			answer_status(w, sent);
		else if (w->ackreq || st->ack_asked > st->ack_sent)
			answer_ack(w, INC_CTR_ANS_OWED);
		else
			end(w, XDP_DROP, INC_CTR_ABS_ACK);
		return;
	}
	if (type != INC_AETH_TYPE_RNR && type != INC_AETH_TYPE_NAK) {
		end(w, XDP_DROP, INC_CTR_DROP_OPCODE);
		return;
	}
	st->naks_received++;
	if (type == INC_AETH_TYPE_RNR || syndrome == INC_AETH_NAK_SEQ) {
		st->tx_acked += fresh;
	} else {
		st->refusal = syndrome;
		event(w, INC_EVENT_PEER_NAK, syndrome, st->tx_acked + fresh, child_bit(w));
	}
	if (w->sw->slowpath)
		end(w, XDP_REDIRECT, INC_CTR_ABS_SLOWPATH);
	else
		end(w, XDP_DROP, INC_CTR_DROP_NO_SLOWPATH);
}

/* Processes a CNP, by which a peer asks the switch to send less. */
static void congestion(struct walk *w)
{
	if (w->c->state.error || w->cm->state.error) {
		end(w, XDP_DROP, INC_CTR_DROP_CONN_ERROR);
		return;
	}
	w->c->state.cnps++;
	ref_report(w->cm, w->out->child);
	end(w, XDP_DROP, INC_CTR_ABS_CNP);
}

/* Ends a frame that belongs to no connection on the counter why, unless ref_stranger() has another
 * one. */
static void pass(struct walk *w, uint32_t ifindex, enum inc_counter_id why)
{
	why = ref_stranger(w->sw, w->in, ifindex, w->tag & 0xfff, why, &w->out->frame);
	end(w,
	    why == INC_CTR_DROP_OWN_ADDR || why == INC_CTR_DROP_ICRC ? XDP_DROP
	    : why == INC_CTR_ANS_ECHO                                ? XDP_TX
								     : XDP_PASS,
	    why);
}

/* Makes all checks of headers before the rules of the connection. Returns true if the frame may be
 * processed further. */
static bool headers(struct walk *w, uint32_t ifindex)
{
	const uint8_t *d = w->in->data, *ip = d + FRAME_IP, *udp = d + FRAME_UDP;
	const uint8_t *bth = d + FRAME_BTH;
	uint32_t len = w->in->len, total, body, saddr, daddr;
	int ext;

	if (ref_has_two_tags(w->in))
		return pass(w, ifindex, INC_CTR_PASS_QINQ), false;
	if (len < FRAME_BTH || get16(d + 12) != 0x0800 || ip[0] != 0x45 ||
	    (get16(ip + 6) & 0x3fff) || ip[9] != 17 || get16(udp + 2) != INC_ROCE_UDP_PORT)
		return pass(w, ifindex, INC_CTR_PASS_NOT_ROCE), false;
	if (len < FRAME_EXT)
		return end(w, XDP_DROP, INC_CTR_DROP_TRUNCATED), false;
	total = get16(ip + 2);
	if (FRAME_IP + total > len || get16(udp + 4) + 20u != total || total < FRAME_EXT - FRAME_IP)
		return end(w, XDP_DROP, INC_CTR_DROP_LENGTH), false;
	memcpy(&saddr, ip + 12, 4);
	memcpy(&daddr, ip + 16, 4);
	w->c = ref_find(w->sw, saddr, daddr, get24(bth + 5), w->out);
	w->cm = w->out->comm;
	if (!w->c)
		return pass(w, ifindex, INC_CTR_PASS_NO_CONN), false;
	if (w->c->cfg.ifindex != ifindex)
		return end(w, XDP_DROP, INC_CTR_DROP_PORT), false;
	if ((w->c->cfg.tag & 0xfff) != (w->tag & 0xfff))
		return pass(w, ifindex, INC_CTR_PASS_VLAN), false;
	if (bth[1] & INC_BTH_TVER_MASK)
		return end(w, XDP_DROP, INC_CTR_DROP_TVER), false;
	w->opcode = bth[0];
	w->bth = bth;
	w->pad = bth[1] >> 4 & 3;
	ext = w->opcode == INC_OP_CNP ? 16 : frame_ext_len(w->opcode);
	if (ext < 0)
		return end(w, XDP_DROP, INC_CTR_DROP_OPCODE), false;
	if (w->opcode == INC_OP_CNP && (total != 60 || w->pad))
		return end(w, XDP_DROP, INC_CTR_DROP_LENGTH), false;
	body = INC_IP_LEN + INC_UDP_LEN + INC_BTH_LEN + ext;
	if (total < body + w->pad + INC_ICRC_LEN)
		return end(w, XDP_DROP, INC_CTR_DROP_TRUNCATED), false;
	w->len = total - body - w->pad - INC_ICRC_LEN;
	if (w->len > INC_MAX_PAYLOAD || (w->len + w->pad) % 4 ||
	    (w->opcode == INC_OP_ACK && w->len + w->pad))
		return end(w, XDP_DROP, INC_CTR_DROP_LENGTH), false;
	if (get16(bth + 2) != w->c->cfg.pkey)
		return end(w, XDP_DROP, INC_CTR_DROP_PKEY), false;
	w->psn = get24(bth + 9);
	w->ackreq = bth[8] & 0x80;
	w->solicited = bth[1] & INC_BTH_SE;
	w->ext = bth + INC_BTH_LEN;
	w->payload = w->ext + ext;
	return true;
}

void ref_input(struct ref_switch *sw, const struct frame *in, uint32_t ifindex, struct ref_out *out)
{
	struct walk w = {.sw = sw, .in = in, .out = out};
	struct frame plain;

	memset(out, 0, offsetof(struct ref_out, frame));
	sw->counter[INC_CTR_RX]++;
	w.tag = ref_strip(in, &plain);
	w.in = w.tag ? &plain : in;
	if (!headers(&w, ifindex)) {
		if (out->counter == INC_CTR_ANS_ECHO && w.tag)
			frame_tag(&out->frame, get16(in->data + 14));
		return;
	}
	if (w.c->state.busy) {
		end(&w, XDP_DROP, INC_CTR_DROP_BUSY);
		return;
	}
	if (!ref_intact(w.in)) {
		end(&w, XDP_DROP, INC_CTR_DROP_ICRC);
		return;
	}
	if (w.opcode == INC_OP_CNP) {
		congestion(&w);
	} else {
		ref_learn_mac(w.c, w.in->data + 6, w.psn);
		ref_learn_class(w.cm, w.out->child, w.in->data + FRAME_IP);
		ref_learn_tag(w.cm, w.out->child, w.tag);
		if (w.opcode == INC_OP_ACK)
			acknowledgement(&w);
		else
			data(&w);
	}
	become_cnp(&w);
}
