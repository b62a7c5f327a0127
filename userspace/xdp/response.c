/* SPDX-License-Identifier: BSD-2-Clause */
/* Handles the input of the slow path: NAKs of the peers, and events of the XDP programs. */
#include <errno.h>
#include <string.h>
#include <bpf/bpf.h>
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/roce/wire.h"
#include "userspace/xdp/slowpath_priv.h"

static struct sp_comm *find_conn(struct inc_slowpath *sp, const struct inc_conn_key *key,
				 uint32_t *peer)
{
	const struct inc_conn_cfg *cfg;
	uint32_t conn;

	if (bpf_map_lookup_elem(inc_switch_map_fd(sp->sw, INC_MAP_CONN_LOOKUP), key, &conn))
		return NULL;
	cfg = inc_switch_conn(sp->sw, conn);
	if (!cfg || cfg->comm >= sp->max_comms)
		return NULL;
	*peer = cfg->child;
	return sp->comm[cfg->comm];
}

/* Handles a NAK or RNR NAK. The XDP path has checked and counted the packet, and has stored what it
 * acknowledges. */
void sp_on_frame(const uint8_t *frame, size_t len, void *arg)
{
	struct inc_slowpath *sp = arg;
	struct inc_aeth_frame pkt;
	struct sp_comm *cm;
	struct sp_conn *c;
	uint64_t acked;
	uint32_t peer;
	int64_t r;

	sp->stats.frames_received++;
	if (inc_frame_parse_aeth(frame, len, &pkt)) {
		sp->stats.frames_bad++;
		return;
	}
	cm = find_conn(sp, &pkt.key, &peer);
	if (!cm) {
		sp->stats.frames_bad++;
		return;
	}
	c = &cm->conn[peer];
	/* r becomes the number of the packet that the NAK names: of all numbers with its PSN the
	 * one nearest to acked */
	acked = conn_state(sp, c).tx_acked;
	r = acked;
	r += inc_psn_diff(pkt.psn, conn_cfg(sp, c)->own.psn + (uint32_t)r);
	if (r > (int64_t)sent_end(sp, cm, peer))
		return; /* ignore a NAK that names a packet that was never sent */
	if (pkt.syndrome == INC_AETH_NAK_SEQ && cm->cfg.flags & INC_COMM_F_REORDER &&
	    INC_GAP_COUNT(pkt.msn)) {
		sp_serve_gap(sp, cm, peer, r, pkt.msn);
		sp_hurry(sp);
		return;
	}
	acked = c->acked > acked ? c->acked : acked;
	if (r < (int64_t)acked) {
		/* an RNR NAK for an acknowledged packet is ignored, because the ACK has only
		 * overtaken it */
		if (pkt.syndrome == INC_AETH_NAK_SEQ && r >= 0)
			sp_note_stale_nak(sp, cm, peer, r, acked);
	} else if ((pkt.syndrome & INC_AETH_TYPE_MASK) == INC_AETH_TYPE_RNR) {
		sp->stats.rnrs_served++;
		sp_asked(sp, cm, peer, r, inc_rnr_timeout_ns(pkt.syndrome));
	} else if (pkt.syndrome == INC_AETH_NAK_SEQ) {
		if (sp_asked(sp, cm, peer, r, 0)) {
			sp->stats.naks_served++;
			sp_conn_tick(sp, cm, peer, sp_now(sp));
			sp_flush(sp);
		}
	} else {
		sp_tell_refusal(sp, cm, peer, r, pkt.syndrome);
	}
	sp_hurry(sp);
}

static void on_pending(struct inc_slowpath *sp, struct sp_comm *cm, uint64_t r)
{
	uint32_t c;

	sp->stats.results_pending++;
	for (c = 0; c < cm->cfg.children; c++)
		if (sp_send(sp, cm, c, r, false) == -EAGAIN)
			sp_go_back(sp, cm, c);
}

static void on_partial_pending(struct inc_slowpath *sp, struct sp_comm *cm, uint64_t r)
{
	sp->stats.results_pending++;
	if (sp_send(sp, cm, cm->cfg.children, r, false) == -EAGAIN)
		sp_go_back(sp, cm, cm->cfg.children);
}

/*
 * Handles an event of the XDP programs. An event only saves time, because the maps have the same
 * information: failures are in the states, and the timer sends pending results. So an event for
 * which the ring had no room causes a delay, not a loss.
 */
int sp_on_event(void *arg, void *data, size_t size)
{
	struct inc_slowpath *sp = arg;
	struct inc_event e;
	struct sp_comm *cm;
	uint32_t peer;
	int ret;

	/* end ring_buffer__consume() by -EAGAIN when the limit of one tick is reached; the other
	 * events stay in the ring */
	ret = --sp->ring_budget ? 0 : -EAGAIN;
	if (size < sizeof(e))
		return ret;
	memcpy(&e, data, sizeof(e));
	if (e.type == INC_EVENT_COPIES_SHARED) {
		inc_warn("generic XDP: this kernel lets all copies of a frame share its bytes (it "
			 "lacks "
			 "\"bpf: Run generic devmap egress prog on private skb\"): the slow path "
			 "sends every result, child by child; native mode or a newer kernel is "
			 "faster");
		return ret;
	}
	cm = e.comm < sp->max_comms ? sp->comm[e.comm] : NULL;
	if (!cm)
		return ret; /* ignore an event of a communicator that has just been removed */
	peer = e.conn - cm->cfg.conn_base;
	if (peer >= cm->n_conns)
		return ret;
	switch (e.type) {
	case INC_EVENT_RESULT_PENDING:
		on_pending(sp, cm, e.r);
		break;
	case INC_EVENT_PARTIAL_PENDING:
		on_partial_pending(sp, cm, e.r);
		break;
	case INC_EVENT_PEER_NAK:
		sp_tell_refusal(sp, cm, peer, e.r, e.arg);
		break;
	case INC_EVENT_MISMATCH:
	case INC_EVENT_CONN_ERROR:
		sp_watch_failures(sp, cm, sp_now(sp));
		break;
	}
	return ret;
}
