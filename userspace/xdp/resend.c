/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The requester of one connection: which packets are outstanding, when they are retransmitted, and
 * which ACKs the switch owes.
 *
 * A timeout retransmits one packet and requests an ACK, because mostly only an ACK was lost. If the
 * peer does not answer, later timeouts retransmit more (inc_rto_probes()). The ACK shows whether
 * the other packets are missing. Then they are sent in bursts, the next one after the peer's ACK.
 */
#include <errno.h>
#include <stdio.h>
#include <arpa/inet.h>
#include "lib/base/clock.h"
#include "lib/proto/desc.h"
#include "lib/roce/wire.h"
#include "userspace/xdp/slowpath_priv.h"

/* limit of the packets of a burst, counted from the last acknowledged packet on; and how often CNPs
 * of the peer may halve it */
#define BURST        64
#define BURST_HALVES 5
/* number of NAKs without progress that are answered by a burst each; the timer retransmits after
 * that */
#define FREE_NAKS 3

static struct inc_xsk *xsk_of(struct inc_slowpath *sp, const struct sp_conn *c)
{
	const struct sp_port *port = sp_port_of(sp, c);

	return port && port->queues ? port->xsk[0] : NULL;
}

void sp_flush(struct inc_slowpath *sp)
{
	uint32_t i;

	/* flush only the first queue of each port, because the slow path sends on no other */
	for (i = 0; i < INC_MAX_PORTS; i++)
		if (sp->port[i].queues)
			inc_xsk_tx_flush(sp->port[i].xsk[0]);
}

/* Reads result r for a child, with headers that mirror the child's own contribution. */
static int read_result(const struct inc_slowpath *sp, const struct sp_comm *cm, uint32_t child,
		       uint64_t r, uint8_t *payload, uint32_t *len, struct inc_mirror *m)
{
	struct inc_kept_head head;

	if (inc_switch_read_sum(sp->sw, cm->index, r, payload, len) ||
	    inc_switch_read_kept(sp->sw, cm->index, child, r, &head))
		return -ESTALE;
	*m = head.mirror;
	if (!inc_switch_child_gets(sp->sw, cm->index, child, m->desc))
		*len = 0;
	m->dmalen = inc_dmalen(m->opcode, htonl(*len), m->dmalen);
	return 0;
}

static int read_partial(const struct inc_slowpath *sp, const struct sp_comm *cm, uint64_t r,
			uint8_t *payload, uint32_t *len, struct inc_mirror *m)
{
	struct inc_kept_head head;

	if (inc_switch_read_partial(sp->sw, cm->index, r, payload, &head))
		return -ESTALE;
	*m = head.mirror;
	*len = head.len;
	return 0;
}

int sp_send(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer, uint64_t r, bool ackreq)
{
	const struct inc_conn_state st = conn_state(sp, &cm->conn[peer]);
	const struct inc_conn_cfg *cfg = conn_cfg(sp, &cm->conn[peer]);
	struct inc_xsk *xsk = xsk_of(sp, &cm->conn[peer]);
	uint8_t payload[INC_MAX_PAYLOAD], *frame;
	struct inc_mirror m;
	union inc_mac mac;
	uint32_t len;
	size_t bytes;
	int ret;

	if (!xsk)
		return -ENODEV;
	if (sp_peer_mac(&cm->conn[peer], &st, &mac))
		return -ENOENT;
	ret = is_parent(cm, peer) ? read_partial(sp, cm, r, payload, &len, &m)
				  : read_result(sp, cm, peer, r, payload, &len, &m);
	if (ret || inc_roce_ext_len(m.opcode) < 0)
		return -ESTALE;
	if (ackreq)
		m.flags |= INC_BUF_F_ACKREQ;
	frame = inc_xsk_tx_frame(xsk);
	if (!frame)
		return -EAGAIN;
	if (inc_switch_take_becn(sp->sw, cm->conn[peer].id))
		m.flags |= INC_BUF_F_BECN;
	bytes = inc_frame_result(frame, cfg, mac, st.traffic_class, &m, cfg->own.psn + (uint32_t)r,
				 payload, len);
	inc_xsk_tx_put(xsk, frame, inc_frame_tag(frame, bytes, st.tag));
	return 0;
}

int sp_resend(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer, uint64_t r, bool ackreq)
{
	int ret = sp_send(sp, cm, peer, r, ackreq);

	if (!ret) {
		cm->conn[peer].stats.retransmits++;
		sp_trial_resent(sp, &cm->conn[peer], r);
		sp->stats.results_resent++;
	} else if (ret == -ESTALE) {
		sp->stats.results_gone++;
	}
	return ret;
}

int sp_send_aeth(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer, uint8_t syndrome,
		 uint32_t psn)
{
	const struct inc_conn_state st = conn_state(sp, &cm->conn[peer]);
	const struct inc_conn_cfg *cfg = conn_cfg(sp, &cm->conn[peer]);
	struct inc_xsk *xsk = xsk_of(sp, &cm->conn[peer]);
	union inc_mac mac;
	uint8_t *frame;
	size_t bytes;
	int ret;

	if (!xsk)
		return -ENODEV;
	ret = sp_peer_mac(&cm->conn[peer], &st, &mac);
	if (ret)
		return ret;
	frame = inc_xsk_tx_frame(xsk);
	if (!frame)
		return -EAGAIN;
	bytes = inc_frame_ack(frame, cfg, mac, st.traffic_class, syndrome, psn, st.msn);
	inc_xsk_tx_put(xsk, frame, inc_frame_tag(frame, bytes, st.tag));
	return 0;
}

static bool owes(const struct sp_conn *c, const struct inc_conn_state *st)
{
	return st->ack_asked > st->ack_sent && st->ack_asked > c->paid;
}

/* Sends an ACK to the peer, which acknowledges all packets that the switch has stored. */
static int pay(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer,
	       const struct inc_conn_state *st)
{
	struct sp_conn *c = &cm->conn[peer];
	int ret = sp_send_aeth(sp, cm, peer, INC_AETH_ACK,
			       conn_cfg(sp, c)->peer.psn + (uint32_t)st->rx_next - 1);

	if (ret)
		return ret;
	c->paid = st->rx_next;
	c->owed_r = 0;
	c->stats.acks_paid++;
	sp->stats.acks_paid++;
	return 0;
}

void sp_pay_at_once(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer)
{
	const struct sp_conn *c = &cm->conn[peer];
	const struct inc_conn_state st = conn_state(sp, c);

	if (owes(c, &st) && !st.error && !comm_state(sp, cm).error)
		pay(sp, cm, peer, &st);
}

/* Sends an ACK that the XDP path has owed for longer than the delay. Returns true while an ACK is
 * owed. */
static bool pay_owed(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer,
		     const struct inc_conn_state *st, uint64_t now)
{
	struct sp_conn *c = &cm->conn[peer];

	if (!owes(c, st)) {
		c->owed_r = 0;
		return false;
	}
	/* the delay counts from the time when the oldest ACK owed was first seen; if that ACK has
	 * been sent meanwhile, a new delay begins */
	if (c->owed_r <= st->ack_sent) {
		c->owed_r = st->ack_asked;
		c->owed_at_ns = now;
	}
	if (now - c->owed_at_ns < sp->opts.ack_delay_ms * INC_NSEC_PER_MSEC)
		return true;
	return pay(sp, cm, peer, st);
}

/* Stores that the peer has made progress, because it has all packets before number acked. */
static void advance(const struct sp_comm *cm, struct sp_conn *c, uint64_t acked, uint64_t now)
{
	sp_trial_acked(c, acked);
	c->acked = acked;
	c->progress_at_ns = now;
	c->asked = 0;
	c->halved -= c->halved > 0;
	if (c->phase == SP_CONN_UNRESPONSIVE)
		sp_conn_go(cm, c, SP_CONN_WELL);
	inc_rto_heard(&c->rto);
}

static void take_progress(const struct sp_comm *cm, struct sp_conn *c, uint64_t acked,
			  uint64_t sent, uint64_t now)
{
	if (acked > c->acked) {
		advance(cm, c, acked, now);
		inc_rto_acked(&c->rto, acked, now);
		if (c->probe_end > acked) {
			c->resend_next = acked;
			c->resend_end = c->probe_end;
		}
		c->probe_end = 0;
	}
	if (sent > acked)
		inc_rto_measure(&c->rto, sent, now);
}

static void sent_again(struct sp_conn *c, uint64_t now)
{
	c->resent_at_ns = now;
	inc_rto_spoil(&c->rto);
}

void sp_probe(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer, uint64_t now)
{
	struct sp_conn *c = &cm->conn[peer];

	if (c->acked < sent_end(sp, cm, peer) && !sp_resend(sp, cm, peer, c->acked, true))
		sent_again(c, now);
}

/* Counts the CNPs of a peer. Each tick with a CNP halves the bursts to the peer, and each
 * acknowledgement of further packets doubles them. */
static void see_cnps(struct sp_conn *c, uint16_t cnps)
{
	if (c->cnps != cnps && c->halved < BURST_HALVES)
		c->halved++;
	c->cnps = cnps;
}

static unsigned int burst_of(const struct sp_conn *c)
{
	return BURST >> c->halved;
}

/* Retransmits packets from resend_next to resend_end, but at most a burst beyond the last
 * acknowledged one. */
static void send_burst(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer, uint64_t now)
{
	struct sp_conn *c = &cm->conn[peer];
	uint64_t limit = c->acked + burst_of(c);
	int ret;

	if (limit > c->resend_end)
		limit = c->resend_end;
	while (c->resend_next < limit) {
		ret = sp_resend(sp, cm, peer, c->resend_next, c->resend_next + 1 == limit);
		if (ret == -EAGAIN)
			break;
		c->resend_next++;
		sent_again(c, now);
	}
}

/* Reports a peer as unresponsive if it does not answer timeouts, or makes no progress after its
 * NAKs. The communicator goes on here. A controller ends it; with a static file, it goes on when
 * the peer answers again. */
static void report_unresponsive(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer,
				uint64_t now)
{
	struct sp_conn *c = &cm->conn[peer];

	if (c->phase == SP_CONN_UNRESPONSIVE || c->rto.backoff + c->asked < UNRESPONSIVE ||
	    !inc_awake_past(&sp->awake, c->progress_at_ns, INC_UNRESPONSIVE_S * INC_NSEC_PER_SEC) ||
	    sp_port_is_away(sp, c))
		return;
	sp_conn_go(cm, c, SP_CONN_UNRESPONSIVE);
	sp_notice_peer(sp, cm, peer, INC_EVENT_KIND_UNRESPONSIVE, c->acked,
		       "has not acknowledged %s %llu for %llu ms (%u timeouts, %u NAKs)",
		       sp_thing(cm, peer), (unsigned long long)c->acked,
		       (unsigned long long)((now - c->progress_at_ns) / INC_NSEC_PER_MSEC),
		       c->rto.backoff, c->asked);
}

static void time_out(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer, uint64_t sent,
		     uint64_t now)
{
	struct sp_conn *c = &cm->conn[peer];
	uint64_t end;

	if (sp_resend(sp, cm, peer, c->acked, true) == -EAGAIN)
		return;
	/* a peer that keeps packets in any order names those that it lacks, so the answer to this
	 * probe shows no lost packets */
	c->probe_end = cm->cfg.flags & INC_COMM_F_REORDER ? 0 : sent;
	c->resend_next = c->resend_end = 0;
	sent_again(c, now);
	c->stats.timeouts++;
	sp->stats.timeouts++;
	inc_rto_timed_out(&c->rto);
	/* if the peer has sent NAKs for this packet, it is not silent, so a timeout retransmits one
	 * packet only */
	end = c->acked + (c->asked ? 1 : inc_rto_probes(&c->rto));
	if (end > sent)
		end = sent;
	for (uint64_t r = c->acked + 1; r < end; r++)
		if (sp_resend(sp, cm, peer, r, true) == -EAGAIN)
			return;
}

void sp_go_back(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer)
{
	struct sp_conn *c = &cm->conn[peer];

	c->probe_end = 0;
	c->resend_next = c->acked;
	c->resend_end = sent_end(sp, cm, peer);
}

bool sp_asked(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer, uint64_t r,
	      uint64_t hold_ns)
{
	struct sp_conn *c = &cm->conn[peer];
	uint64_t now = sp_now(sp);

	sp_trial_refute(c, now);
	if (r > c->acked) {
		advance(cm, c, r, now);
	}
	/* a NAK is an answer, so if the burst for it is lost, the timer need not wait as long as
	 * for a silent peer */
	if (++c->asked <= FREE_NAKS)
		inc_rto_heard(&c->rto);
	/* a NAK that the peer repeats gets no burst, because only the timer, which retransmits
	 * instead, backs off */
	if (c->asked > FREE_NAKS && !hold_ns)
		return false;
	sp_go_back(sp, cm, peer);
	if (c->asked > FREE_NAKS && c->resend_next < c->resend_end) {
		c->probe_end = c->resend_end;
		c->resend_end = c->resend_next + 1;
	}
	c->hold_ends_at_ns = hold_ns ? now + hold_ns : 0;
	return true;
}

/* Whether a NAK that names the first unacknowledged result gets its packets at once. If the peer
 * repeats it FREE_NAKS times, the timer retransmits instead, because the timer backs off. If that
 * goes on for long, the peer is reported. */
static bool may_serve(struct sp_conn *c)
{
	if (++c->asked > FREE_NAKS)
		return false;
	inc_rto_heard(&c->rto);
	return true;
}

void sp_serve_gap(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer, int64_t r,
		  uint32_t gap)
{
	const uint64_t sent = sent_end(sp, cm, peer), now = sp_now(sp);
	struct sp_conn *c = &cm->conn[peer];
	int64_t from = r + INC_GAP_OFFSET(gap), end = from + INC_GAP_COUNT(gap);

	sp_trial_refute(c, now);
	if (r > (int64_t)c->acked)
		advance(cm, c, r, now);
	if (end > (int64_t)sent)
		end = sent;
	if (from < (int64_t)c->acked)
		from = c->acked;
	/* a longer gap is cut here, because the peer names the rest in another NAK */
	if (end > from + burst_of(c))
		end = from + burst_of(c);
	if (from >= end || (from == (int64_t)c->acked && !may_serve(c)))
		return;
	c->probe_end = 0;
	sp->stats.naks_served++;
	for (; from < end; from++) {
		if (sp_resend(sp, cm, peer, from, from + 1 == end) == -EAGAIN)
			break;
		sent_again(c, now);
	}
	sp_flush(sp);
}

/* Retransmits a connection's packets that are scheduled, and handles the timeout if it has
 * passed. */
static void resend_due(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer, uint64_t sent,
		       uint64_t now)
{
	struct sp_conn *c = &cm->conn[peer];
	uint64_t last;

	if (now < c->hold_ends_at_ns || sp_trial_holds(c, now))
		return;
	if (c->resend_next < c->acked)
		c->resend_next = c->acked;
	if (c->resend_next < c->resend_end)
		send_burst(sp, cm, peer, now);
	last = c->resent_at_ns > c->progress_at_ns ? c->resent_at_ns : c->progress_at_ns;
	last = c->hold_ends_at_ns > last ? c->hold_ends_at_ns : last;
	if (now - last >= inc_rto_wait_ns(&c->rto))
		time_out(sp, cm, peer, sent, now);
}

bool sp_conn_tick(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer, uint64_t now)
{
	struct sp_conn *c = &cm->conn[peer];
	const struct inc_conn_state st = conn_state(sp, c);
	uint64_t acked = inc_implied(&cm->cfg, conn_cfg(sp, c), st.rx_next), sent;
	bool owed;

	/* an ended connection or communicator needs no timers, because the XDP path answers all its
	 * packets; the tick of the peer before this one may have ended the communicator */
	if (st.error || comm_state(sp, cm).error)
		return false;
	owed = pay_owed(sp, cm, peer, &st, now);
	owed |= sp_stale_nak_tick(sp, cm, peer, now);
	sp_find_peer(sp, cm, peer, &st, now);
	if (st.tx_acked > acked)
		acked = st.tx_acked;
	/* read the number of sent packets after the peer's acknowledgement, so that it is not the
	 * smaller one */
	sent = sent_end(sp, cm, peer);
	take_progress(cm, c, acked, sent, now);
	see_cnps(c, st.cnps);
	sp_watch_delivery(sp, cm, peer, &st, sent, now);
	if (sent <= c->acked) {
		c->outstanding = false;
		c->resend_next = c->resend_end = c->probe_end = 0;
		c->asked = 0;
		return owed;
	}
	/* the timeout counts from this tick, which is the first to see the packet, because the last
	 * tick may be long ago */
	if (!c->outstanding) {
		c->outstanding = true;
		c->progress_at_ns = now;
	}
	report_unresponsive(sp, cm, peer, now);
	resend_due(sp, cm, peer, sent, now);
	return true;
}
