/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A NAK for a packet that its sender has acknowledged. Either an ACK has overtaken it on the
 * wire, and then the peer answers the packet with an ACK of all it has; or the peer
 * contradicts itself: then it gets what the rows still hold, and if it goes on asking, or says
 * nothing, it is named and the communicator ends, because the others would wait for it for ever.
 */
#include <stdio.h>
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "userspace/xdp/slowpath_priv.h"

#define PROBE_RESULTS 16 /* sent at first, then one at a time */
#define INSISTS       8  /* NAKs ... */
#define INSISTS_S     2  /* ... and seconds, both: no wire holds a NAK back so long */
#define MAX_SHIFT     10

static void hear(struct sp_doubt *d, const struct inc_conn_state *st)
{
	d->rx_next = st->rx_next;
	d->tx_acked = st->tx_acked;
	d->acks = st->acks_received;
}

void sp_doubt(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer, uint64_t r,
	      uint64_t acked)
{
	struct sp_conn *c = &cm->conn[peer];
	const struct inc_conn_state st = conn_state(sp, c);
	struct sp_doubt *d = &c->doubt;
	char name[INC_PEER_TEXT];

	if (d->naks++) {
		d->r = r < d->r ? r : d->r;
		return;
	}
	d->r = r;
	d->end = acked;
	d->probes = 0;
	d->first_at_ns = d->heard_at_ns = d->probe_at_ns = sp_now(sp);
	hear(d, &st);
	inc_debug("communicator %u: %s asks for %s %llu, which it has acknowledged",
		  cm->cfg.communicator, sp_peer_name(sp, cm, peer, name), sp_thing(cm, peer),
		  (unsigned long long)r);
}

/* From the first result asked for on; where its row has gone, the last one that the child has
 * acknowledged, which asks for an ACK as well. False where nothing could be sent. */
static bool probe(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer)
{
	const struct sp_doubt *d = &cm->conn[peer].doubt;
	uint64_t room = d->probes ? 1 : PROBE_RESULTS, end, r;

	end = d->end - d->r > room ? d->r + room : d->end;
	for (r = d->r; r < end; r++)
		if (sp_resend(sp, cm, peer, r, r + 1 == end))
			break;
	return r > d->r || !sp_resend(sp, cm, peer, d->end - 1, true);
}

/* All rows have been filled anew since, which says as well that the peer has what they held: there
 * is nothing to ask it with, and silence is no answer. A child may wait for the others for long. */
static bool is_gone(const struct inc_slowpath *sp, const struct sp_comm *cm, uint32_t peer)
{
	const struct sp_doubt *d = &cm->conn[peer].doubt;
	uint64_t filled = is_parent(cm, peer) ? sent_end(sp, cm, peer) : d->rx_next;

	return filled >= d->end + (1ull << cm->cfg.log2_slots);
}

static void end(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer, uint64_t now)
{
	struct sp_conn *c = &cm->conn[peer];
	struct sp_doubt *d = &c->doubt;
	unsigned int naks = d->naks;

	d->naks = 0;
	sp_notice_peer(sp, cm, peer, "peer_nak", d->r,
		       "asks for %s %llu, which it has acknowledged: %u NAKs in %llu ms, and no "
		       "ACK of %u sent again%s",
		       sp_thing(cm, peer), (unsigned long long)d->r, naks,
		       (unsigned long long)((now - d->first_at_ns) / INC_NSEC_PER_MSEC), d->probes,
		       is_switch(sp, c) ? " (have both switches the same slots?)" : "");
	sp_end_comm(sp, cm, d->r);
}

bool sp_doubt_tick(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer, uint64_t now)
{
	struct sp_conn *c = &cm->conn[peer];
	const struct inc_conn_state st = conn_state(sp, c);
	struct sp_doubt *d = &c->doubt;
	uint64_t max = sp->opts.rto_max_ms * INC_NSEC_PER_MSEC, wait;

	if (!d->naks)
		return false;
	if (sp_port_is_away(sp, c)) { /* its silence says nothing */
		d->heard_at_ns = d->probe_at_ns = now;
		d->probes = 0;
		return true;
	}
	if (st.acks_received != d->acks && st.ack_named < d->end) {
		/* it has taken some of it, and lacks the rest */
		d->r = st.ack_named > d->r ? st.ack_named : d->r;
		d->heard_at_ns = d->probe_at_ns = now;
		d->probes = 0;
		hear(d, &st);
	} else if (st.acks_received != d->acks || st.tx_acked != d->tx_acked ||
		   st.rx_next != d->rx_next) {
		d->naks = 0;
		return false;
	}
	if ((d->naks >= INSISTS &&
	     inc_awake_past(&sp->awake, d->first_at_ns, INSISTS_S * INC_NSEC_PER_SEC)) ||
	    (d->probes >= UNRESPONSIVE &&
	     inc_awake_past(&sp->awake, d->heard_at_ns, INC_UNRESPONSIVE_S * INC_NSEC_PER_SEC))) {
		end(sp, cm, peer, now);
		return false;
	}
	if (is_gone(sp, cm, peer))
		return false;
	if (now < d->probe_at_ns || !probe(sp, cm, peer))
		return true;
	wait = c->rto.rto_ns << (d->probes < MAX_SHIFT ? d->probes : MAX_SHIFT);
	d->probe_at_ns = now + (wait < max ? wait : max);
	d->probes++;
	return true;
}
