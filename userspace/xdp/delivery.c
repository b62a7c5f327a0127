/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Notices that packets arrive at a peer only if the slow path sends them again. XDP redirects the
 * first copy of a packet, and the kernel drops that copy if the port's driver has no ndo_xdp_xmit,
 * or if the port is a veth whose other end has no NAPI. The slow path's AF_XDP socket sends as any
 * other socket does, so the retransmission arrives.
 *
 * The packets of a slow peer are retransmitted as well. Trials find out which it is. In a trial the
 * timer waits for longer than usual for a packet that was sent once. If the ACK comes meanwhile,
 * the peer is slow. If the ACK comes right after the retransmission, the first copy was lost. The
 * waits of the trials differ, so that a peer with a steady rhythm does not answer all of them by
 * chance.
 *
 * A device may acknowledge the first packets of a message only with its last one, and a
 * retransmission has AckReq. So a trial needs a packet with AckReq, or the end of a message, among
 * those that were sent once. Soft endpoints acknowledge messages although they request no ACKs.
 */
#include "userspace/xdp/slowpath_priv.h"

static const unsigned int hold_ms[] = {60, 90, 130};
#define TRIALS (sizeof(hold_ms) / sizeof(hold_ms[0]))
/* The ACK of a packet that was lost comes within this time after its last retransmission, or that
 * of a switch after its first one. A switch owes the ACK until its slow path's next tick, and for
 * ack_delay_ms from there. The waits of the trials differ by as much, so no steady delay of a
 * switch's ACKs looks like a loss in all of them. */
#define PROMPT_NS        (10 * INC_NSEC_PER_MSEC)
#define SWITCH_PROMPT_NS (30 * INC_NSEC_PER_MSEC)
/* So many packets are searched for one that a peer acknowledges. */
#define SEARCHED 64
/* time after a trial in which the first copy was not lost, until the next trial may begin */
#define NEXT_TRIAL_NS (2 * INC_NSEC_PER_SEC)

void sp_trial_resent(struct inc_slowpath *sp, struct sp_conn *c, uint64_t r)
{
	if (c->trial.under_way && r == c->trial.r && !c->trial.resent_at_ns)
		c->trial.resent_at_ns = sp_now(sp);
	if (r >= c->resent_end)
		c->resent_end = r + 1;
}

void sp_trial_acked(struct sp_conn *c, uint64_t acked)
{
	const uint64_t from = c->acked > c->resent_end ? c->acked : c->resent_end;

	c->clean += acked > from ? acked - from : 0;
}

bool sp_trial_holds(const struct sp_conn *c, uint64_t now)
{
	return now < c->trial.hold_ends_at_ns;
}

/* Ends the trial under way, and lets some time pass until the next one, because packets arrive. */
void sp_trial_refute(struct sp_conn *c, uint64_t now)
{
	c->trial = (struct sp_trial){.next_at_ns = now + NEXT_TRIAL_NS};
}

static void report(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer, uint64_t now)
{
	const struct sp_conn *c = &cm->conn[peer];
	char text[240], name[INC_PEER_TEXT] = "the parent";

	if (!is_parent(cm, peer))
		inc_child_name(name, is_switch(sp, c), conn_cfg(sp, c)->rank);
	inc_delivery_text(text, sizeof(text), &c->delivery, name,
			  inc_addr_of_ipv4(conn_cfg(sp, c)->peer.ip), now);
	sp->notice(sp->arg,
		   c->delivery.loss ? INC_EVENT_KIND_UNDELIVERED : INC_EVENT_KIND_DELIVERED,
		   cm->index, is_parent(cm, peer) ? 0 : 1u << peer, c->acked, text);
}

/* Whether one of the packets from c->acked on has AckReq or ends a message, so that a peer at which
 * they arrive acknowledges the oldest one soon. */
static bool is_acknowledged_soon(const struct inc_slowpath *sp, const struct sp_comm *cm,
				 uint32_t peer, uint64_t sent)
{
	uint64_t r = cm->conn[peer].acked, end = sent - r > SEARCHED ? r + SEARCHED : sent;
	uint8_t payload[INC_MAX_PAYLOAD];
	struct inc_kept_head head;
	int ret;

	for (; r < end; r++) {
		ret = is_parent(cm, peer)
			      ? inc_switch_read_partial(sp->sw, cm->index, r, payload, &head)
			      : inc_switch_read_kept(sp->sw, cm->index, peer, r, &head);
		if (!ret && (head.mirror.flags & INC_BUF_F_ACKREQ ||
			     inc_op_in(head.mirror.opcode, INC_OPS_END)))
			return true;
	}
	return false;
}

/* Begins a trial with the oldest packet that the peer has not acknowledged, if that packet was sent
 * once and nothing is known to be lost. */
static void begin(const struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer, uint64_t sent,
		  uint64_t now)
{
	struct sp_conn *c = &cm->conn[peer];

	if (!c->delivery.suspect || c->delivery.loss || now < c->trial.next_at_ns ||
	    c->acked >= sent || c->acked < c->resent_end || c->resend_next < c->resend_end ||
	    c->asked || c->rto.backoff || !is_acknowledged_soon(sp, cm, peer, sent))
		return;
	c->trial.under_way = true;
	c->trial.r = c->acked;
	c->trial.resent_at_ns = 0;
	c->trial.hold_ends_at_ns = now + hold_ms[c->trial.lost] * INC_NSEC_PER_MSEC;
}

/* Judges the trial under way, whose packet the peer has acknowledged. Returns true if it was the
 * last one of several in which the first copy was lost. */
static bool judge(const struct inc_slowpath *sp, struct sp_conn *c, uint64_t now)
{
	const uint64_t first_at_ns = c->trial.resent_at_ns;

	if (!first_at_ns || (is_switch(sp, c) ? now - first_at_ns > SWITCH_PROMPT_NS
					      : now - c->resent_at_ns > PROMPT_NS)) {
		sp_trial_refute(c, now);
		return false;
	}
	c->trial.under_way = false;
	if (++c->trial.lost < TRIALS)
		return false;
	c->trial.lost = 0;
	return inc_delivery_lost(&c->delivery, INC_LOSS_ONCE, now);
}

void sp_watch_delivery(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer,
		       const struct inc_conn_state *st, uint64_t sent, uint64_t now)
{
	struct sp_conn *c = &cm->conn[peer];
	const struct inc_delivery_seen seen = {
		.acknowledged = c->acked,
		.clean = c->clean,
		.fresh = sent,
		.resent = c->stats.retransmits,
		.timeouts = c->stats.timeouts,
		.in_a_row = c->rto.backoff,
		.naks = st->naks_received,
		.heard = st->rx_next + st->duplicates + st->acks_received + st->naks_received,
		.outstanding = sent > c->acked,
	};

	if (inc_delivery_look(&c->delivery, &seen, now))
		report(sp, cm, peer, now);
	if (c->trial.under_way && c->acked > c->trial.r && judge(sp, c, now))
		report(sp, cm, peer, now);
	if (!c->trial.under_way)
		begin(sp, cm, peer, sent, now);
}
