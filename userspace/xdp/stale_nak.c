/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A stale NAK names a packet that its sender has acknowledged before. There are two explanations.
 * An ACK may have overtaken the NAK on the wire. In that case the peer answers a retransmitted
 * packet with an ACK of all that it has. Or the peer contradicts itself. To find out, the switch
 * retransmits what the rows still hold. If the peer goes on sending NAKs, or answers nothing, the
 * switch reports it and ends the communicator, because the other peers would wait for it for ever.
 */
#include <stdio.h>
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "userspace/xdp/slowpath_priv.h"

/* A peer contradicts itself if it sends STALE_NAKS stale NAKs in a time of at least STALE_NAKS_S,
 * because no network delays a NAK for so long. */
#define STALE_NAKS    8
#define STALE_NAKS_S  2
#define PROBE_RESULTS 16 /* number of packets in the first probe; later probes have one */
#define MAX_SHIFT     10

static void save_state(struct sp_stale_nak *nak, const struct inc_conn_state *st)
{
	nak->rx_next = st->rx_next;
	nak->tx_acked = st->tx_acked;
	nak->acks = st->acks_received;
}

void sp_note_stale_nak(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer, uint64_t r,
		       uint64_t acked)
{
	struct sp_conn *c = &cm->conn[peer];
	const struct inc_conn_state st = conn_state(sp, c);
	struct sp_stale_nak *nak = &c->stale_nak;
	char name[INC_PEER_TEXT];

	if (nak->naks++) {
		nak->r = r < nak->r ? r : nak->r;
		return;
	}
	nak->r = r;
	nak->end = acked;
	nak->probes = 0;
	nak->first_at_ns = nak->answered_at_ns = nak->probe_at_ns = sp_now(sp);
	save_state(nak, &st);
	inc_debug("communicator %u: %s asks for %s %llu, which it has acknowledged",
		  cm->cfg.communicator, sp_peer_name(sp, cm, peer, name), sp_thing(cm, peer),
		  (unsigned long long)r);
}

/* Retransmits packets from the packet that the NAK names. If its row has been reused, retransmits
 * the last packet that the peer has acknowledged. The last packet that this sends requests an ACK.
 * Returns false if nothing could be sent. */
static bool probe(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer)
{
	const struct sp_stale_nak *nak = &cm->conn[peer].stale_nak;
	uint64_t room = nak->probes ? 1 : PROBE_RESULTS, end, r;

	end = nak->end - nak->r > room ? nak->r + room : nak->end;
	for (r = nak->r; r < end; r++)
		if (sp_resend(sp, cm, peer, r, r + 1 == end))
			break;
	return r > nak->r || !sp_resend(sp, cm, peer, nak->end - 1, true);
}

/* Whether all rows have been reused since the NAK. That also shows that the peer has the packets of
 * these rows. The switch then has no packet for a probe, and the peer's silence proves nothing,
 * because a child may wait long for the others. */
static bool is_gone(const struct inc_slowpath *sp, const struct sp_comm *cm, uint32_t peer)
{
	const struct sp_stale_nak *nak = &cm->conn[peer].stale_nak;
	uint64_t filled = is_parent(cm, peer) ? sent_end(sp, cm, peer) : nak->rx_next;

	return filled >= nak->end + (1ull << cm->cfg.log2_slots);
}

static void end(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer, uint64_t now)
{
	struct sp_conn *c = &cm->conn[peer];
	struct sp_stale_nak *nak = &c->stale_nak;
	unsigned int naks = nak->naks;

	nak->naks = 0;
	sp_notice_peer(sp, cm, peer, INC_EVENT_KIND_PEER_NAK, nak->r,
		       "asks for %s %llu, which it has acknowledged: %u NAKs in %llu ms, and no "
		       "ACK of %u sent again%s",
		       sp_thing(cm, peer), (unsigned long long)nak->r, naks,
		       (unsigned long long)((now - nak->first_at_ns) / INC_NSEC_PER_MSEC),
		       nak->probes,
		       is_switch(sp, c) ? " (have both switches the same slots?)" : "");
	sp_end_comm(sp, cm, nak->r);
}

bool sp_stale_nak_tick(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer, uint64_t now)
{
	struct sp_conn *c = &cm->conn[peer];
	const struct inc_conn_state st = conn_state(sp, c);
	struct sp_stale_nak *nak = &c->stale_nak;
	uint64_t max = sp->opts.rto_max_ms * INC_NSEC_PER_MSEC, wait;

	if (!nak->naks)
		return false;
	/* do not probe while the port is away, because the peer cannot answer */
	if (sp_port_is_away(sp, c)) {
		nak->answered_at_ns = nak->probe_at_ns = now;
		nak->probes = 0;
		return true;
	}
	if (st.acks_received != nak->acks && st.ack_named < nak->end) {
		/* an ACK of fewer packets than the peer had acknowledged before: it has received
		 * some of the probe's packets, and lacks the others */
		nak->r = st.ack_named > nak->r ? st.ack_named : nak->r;
		nak->answered_at_ns = nak->probe_at_ns = now;
		nak->probes = 0;
		save_state(nak, &st);
	} else if (st.acks_received != nak->acks || st.tx_acked != nak->tx_acked ||
		   st.rx_next != nak->rx_next) {
		nak->naks = 0;
		return false;
	}
	if ((nak->naks >= STALE_NAKS &&
	     inc_awake_past(&sp->awake, nak->first_at_ns, STALE_NAKS_S * INC_NSEC_PER_SEC)) ||
	    (nak->probes >= UNRESPONSIVE &&
	     inc_awake_past(&sp->awake, nak->answered_at_ns,
			    INC_UNRESPONSIVE_S * INC_NSEC_PER_SEC))) {
		end(sp, cm, peer, now);
		return false;
	}
	if (is_gone(sp, cm, peer))
		return false;
	if (now < nak->probe_at_ns || !probe(sp, cm, peer))
		return true;
	wait = c->rto.rto_ns << (nak->probes < MAX_SHIFT ? nak->probes : MAX_SHIFT);
	nak->probe_at_ns = now + (wait < max ? wait : max);
	nak->probes++;
	return true;
}
