/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include "lib/roce/requester.h"

void inc_requester_init(struct inc_requester *q, uint64_t rto_min_ns, uint64_t rto_max_ns)
{
	q->single_pause_ns = INC_SINGLE_PAUSE_NS;
	inc_rto_init(&q->rto, INC_RTO_FIRST_NS, rto_min_ns, rto_max_ns);
	inc_congestion_init(&q->congestion);
	q->rto_at_ns = q->probe_at_ns = UINT64_MAX;
	q->sel.round = 1;
}

/* ---- sending ---- */

uint64_t inc_requester_limit(const struct inc_requester *q)
{
	uint64_t limit = q->posted;

	if (q->burst && limit > q->acked + q->burst)
		limit = q->acked + q->burst;
	if (limit > inc_requester_allowed(q))
		limit = inc_requester_allowed(q);
	return limit <= q->next || q->rnr_over_at_ns ? q->next : limit;
}

/* Whether packet r requests an ACK when it is sent. last: the packet is the last one of a send. A
 * quiet requester's packets request ACKs only if they are sent again, or after a timeout without an
 * answer. */
static bool asks(const struct inc_requester *q, uint64_t r, bool last)
{
	if (q->quiet && r >= q->high && !q->rto.backoff)
		return false;
	return last || r % INC_ACK_EVERY == INC_ACK_EVERY - 1 ||
	       inc_requester_packet(q, r)->flags & INC_TX_ASK;
}

bool inc_requester_fill(struct inc_requester *q, const struct inc_udp *udp, struct inc_batch *batch,
			uint64_t limit, uint64_t now_ns)
{
	struct inc_segments *t = NULL;
	uint64_t r;
	bool together;

	if (now_ns >= q->together_at_ns)
		q->together_at_ns = 0;
	/* after a timeout without an answer packets are also sent one by one, so that an outage
	 * counts as one failure of UDP_SEGMENT (judge_path()) */
	together = udp->segment && !q->single && !q->together_at_ns && !q->rto.backoff;
	for (r = q->next; r < limit; r++) {
		struct inc_tx_packet *p = inc_requester_packet(q, r);
		bool ask = asks(q, r, r + 1 == limit);
		uint32_t psn = ((q->start_psn + r) & INC_PSN_MASK) | (ask ? INC_BTH_ACKREQ : 0);

		if (!t || !inc_segments_add(t, &q->to, p, psn, together)) {
			if (t)
				inc_segments_end(t, &q->to, &batch->ready[batch->n++]);
			t = NULL;
			if (batch->n == INC_UDP_SENDS)
				return false;
			t = &batch->send[batch->n];
			batch->from[batch->n] = q;
			inc_segments_begin(t);
			inc_segments_add(t, &q->to, p, psn, together);
		}
		if (ask)
			p->flags |= INC_TX_ASKED;
	}
	if (t)
		inc_segments_end(t, &q->to, &batch->ready[batch->n++]);
	return true;
}

uint64_t inc_requester_again(struct inc_requester *q, struct inc_batch *batch, uint64_t r)
{
	struct inc_segments *t = &batch->send[batch->n];
	struct inc_tx_packet *p;

	for (r = r > q->acked ? r : q->acked; r < q->high; r++)
		if (inc_requester_packet(q, r)->flags & INC_TX_LOST)
			break;
	/* the congestion window limits these packets, too, until the answer to a probe shows that
	 * they have arrived */
	if (r >= q->high || q->rnr_over_at_ns ||
	    (q->to.tos & INC_ECN_MASK && q->sel.again >= inc_requester_burst(q)))
		return UINT64_MAX;
	q->sel.again++;
	p = inc_requester_packet(q, r);
	inc_segments_begin(t);
	inc_segments_add(t, &q->to, p, (q->start_psn + r) & INC_PSN_MASK, false);
	inc_segments_end(t, &q->to, &batch->ready[batch->n]);
	batch->from[batch->n++] = NULL;
	p->flags &= ~(INC_TX_LOST | INC_TX_MANY);
	p->round = q->sel.round;
	q->sel.follow = true;
	q->sel.lost--;
	if (q->sel.sent_high <= r)
		q->sel.sent_high = r + 1;
	q->figures.resent++;
	inc_rto_spoil(&q->rto);
	return r + 1;
}

void inc_batch_ack(struct inc_batch *batch, const struct inc_tx_peer *to, uint8_t syndrome,
		   uint32_t ackreq_psn, uint32_t msn)
{
	inc_segments_ack(&batch->send[batch->n], to, syndrome, ackreq_psn, msn);
	inc_segments_end(&batch->send[batch->n], to, &batch->ready[batch->n]);
	batch->from[batch->n++] = NULL;
}

static void sent(struct inc_requester *q, unsigned int packets, uint64_t now_ns)
{
	uint64_t before, fresh, r;

	if (!q)
		return;
	before = q->next;

	for (r = before; r < before + packets; r++) {
		if (packets > 1)
			inc_requester_packet(q, r)->flags |= INC_TX_MANY;
		else
			inc_requester_packet(q, r)->flags &= ~INC_TX_MANY;
	}
	q->next += packets;
	fresh = q->next > q->high ? q->next - q->high : 0;
	q->figures.sent += fresh;
	q->figures.resent += packets - fresh;
	if (q->next > q->high)
		q->high = q->next;
	if (q->rto_at_ns == UINT64_MAX)
		inc_requester_restart_timer(q, now_ns);
	/* Measure the round trip of packets that are sent for the first time. The last one will be
	 * acknowledged, because it requests an ACK or has a result. */
	if (fresh == packets)
		inc_rto_measure(&q->rto, q->next, now_ns);
}

/* Handles send i of the batch, which failed with a positive errno. Returns false if all further
 * sends would fail now, too. Sets `stopped` to the send's requester if only the further sends of
 * this requester must wait. */
static bool not_sent(struct inc_batch *b, unsigned int i, struct inc_udp *udp, int error,
		     uint64_t now_ns, const struct inc_requester **stopped)
{
	switch (error) {
	case EAGAIN:
		udp->blocked = true;
		return false;
	case EIO:
	case EINVAL:
		/* the device on the way cannot make checksums, so it does not support UDP_SEGMENT
		 * either */
		if (b->ready[i].segment_bytes) {
			b->from[i]->single = true;
			udp->uncut++;
			*stopped = b->from[i];
			return true;
		}
		/* fall through */
	case EMSGSIZE:
	case EBADF:
		if (b->from[i])
			b->from[i]->failed = error;
		*stopped = b->from[i];
		return true;
	default:
		/* treat the packets as sent and lost on the path, so that the timer resends them */
		udp->send_error = error;
		sent(b->from[i], b->send[i].segments, now_ns);
		return true;
	}
}

void inc_batch_send(struct inc_batch *b, struct inc_udp *udp, uint64_t now_ns)
{
	const struct inc_requester *stopped = NULL;
	unsigned int i = 0;
	int n;

	while (i < b->n) {
		/* skip further sends of a requester that must wait, which follow each other in the
		 * batch */
		if (b->from[i] && b->from[i] == stopped) {
			i++;
			continue;
		}
		udp->send_calls++;
		n = inc_os.udp.send(udp->fd, b->ready + i, b->n - i);
		if (n > 0) {
			for (; n; n--, i++)
				sent(b->from[i], b->send[i].segments, now_ns);
			continue;
		}
		if (n == -EINTR)
			continue;
		if (!not_sent(b, i++, udp, -n, now_ns, &stopped))
			break;
	}
	b->n = 0;
}

/* ---- receiving, and timeouts ---- */

/* Returns a time between two probes, doubled for each probe beyond INC_PROBE_TRIES that has brought
 * no progress. */
static uint64_t slowed_ns(const struct inc_requester *q, uint64_t ns)
{
	const unsigned int more =
		q->sel.tries > INC_PROBE_TRIES ? q->sel.tries - INC_PROBE_TRIES : 0;
	const uint64_t slow_ns = ns << (more < INC_RTO_DOUBLINGS ? more : INC_RTO_DOUBLINGS);

	return slow_ns < q->rto.max_ns ? slow_ns : q->rto.max_ns;
}

/* Plans the next probe of a selective requester. */
static void plan_probe(struct inc_requester *q)
{
	const uint64_t half_ns = inc_rto_wait_ns(&q->rto) / 2;
	const bool misses =
		q->acked < q->sel.sent_high || q->acked < q->sel.kept_high || q->sel.hungry;
	uint64_t at_ns = UINT64_MAX;

	if (q->sel.probing)
		at_ns = q->sel.pace_at_ns +
			slowed_ns(q, INC_PROBE_LOST_NS + 2 * q->sel.probe_rtt_ns);
	else if (misses)
		at_ns = q->sel.follow ? q->sel.pace_at_ns
				      : q->sel.pace_at_ns + slowed_ns(q, INC_PROBE_PACE_NS);
	else if (q->acked < q->high)
		at_ns = q->sel.heard_at_ns + slowed_ns(q, half_ns < INC_PROBE_SILENCE_NS
								  ? half_ns
								  : INC_PROBE_SILENCE_NS);
	if (at_ns != UINT64_MAX && at_ns < q->rnr_over_at_ns)
		at_ns = q->rnr_over_at_ns;
	q->probe_at_ns = at_ns;
}

void inc_requester_restart_timer(struct inc_requester *q, uint64_t now_ns)
{
	/* If the peer has requested a delay by an RNR NAK, the timers run from its end. Nothing is
	 * resent before, and a timer that expires would only wake the thread. */
	uint64_t from_ns = now_ns > q->rnr_over_at_ns ? now_ns : q->rnr_over_at_ns;

	q->sel.heard_at_ns = now_ns;
	q->rto_at_ns = q->probe_at_ns = UINT64_MAX;
	if (q->selective)
		plan_probe(q);
	if (q->acked == q->high)
		return;
	q->rto_at_ns = from_ns + inc_rto_wait_ns(&q->rto);
	/* no probe is due after a timeout, because the packet that the timeout resends requests an
	 * ACK itself */
	if (q->quiet && !q->selective && !q->rto.backoff)
		q->probe_at_ns = from_ns + inc_rto_wait_ns(&q->rto) / 2;
}

uint64_t inc_requester_deadline_ns(const struct inc_requester *q)
{
	const uint64_t at_ns = q->probe_at_ns < q->rto_at_ns ? q->probe_at_ns : q->rto_at_ns;

	return q->rnr_over_at_ns && q->rnr_over_at_ns < at_ns ? q->rnr_over_at_ns : at_ns;
}

void inc_requester_probed(struct inc_requester *q, uint64_t now_ns)
{
	const uint32_t round = q->sel.round++;

	q->sel.probing = true;
	q->sel.follow = false;
	q->sel.probe[round % INC_STATUS_PROBES].round = round;
	q->sel.probe[round % INC_STATUS_PROBES].high = q->high;
	q->sel.probe[round % INC_STATUS_PROBES].at_ns = now_ns;
	q->sel.pace_at_ns = now_ns;
	q->sel.tries++;
	inc_rto_spoil(&q->rto);
	plan_probe(q);
}

void inc_requester_hunger(struct inc_requester *q, bool hungry, uint64_t now_ns)
{
	if (q->sel.hungry == hungry)
		return;
	q->sel.hungry = hungry;
	if (hungry && !q->sel.probing)
		q->sel.pace_at_ns = now_ns;
	plan_probe(q);
}

bool inc_requester_probes(struct inc_requester *q, uint64_t now_ns)
{
	const uint64_t half_ns = inc_rto_wait_ns(&q->rto) / 2;

	if (now_ns < q->probe_at_ns)
		return false;
	q->probe_at_ns = UINT64_MAX;
	q->sel.again = 0;
	/* A probe that is sent late still gets time for its answer before the timeout. A repeated
	 * one gets none, because the first one may be lost and has had its time. */
	if (!q->sel.probing && q->rto_at_ns < now_ns + half_ns)
		q->rto_at_ns = now_ns + half_ns;
	/* the answer to the probe must not end the present measurement of a round trip, because it
	 * does not show how long the packets took */
	inc_rto_spoil(&q->rto);
	if (q->selective)
		inc_requester_probed(q, now_ns);
	return true;
}

/* Returns the first packet from r on that the peer does not have, as far as the requester knows. */
static uint64_t first_not_kept(const struct inc_requester *q, uint64_t r)
{
	while (r < q->sel.kept_high && inc_requester_packet(q, r)->flags & INC_TX_KEPT)
		r++;
	return r;
}

void inc_requester_kept(struct inc_requester *q, uint64_t r, uint64_t now_ns)
{
	const uint64_t before = q->acked;
	uint64_t end;

	if (r <= q->acked)
		return;
	/* the peer may also have packets behind r, whose results have come already */
	end = first_not_kept(q, r);
	for (; q->acked < end; q->acked++) {
		const uint8_t flags = inc_requester_packet(q, q->acked)->flags;

		q->sel.lost -= !!(flags & INC_TX_LOST);
		if (flags & INC_TX_MANY) {
			q->uncut = 0;
			q->single_pause_ns = INC_SINGLE_PAUSE_NS;
		}
	}
	q->sel.tries = 0;
	inc_congestion_acked(&q->congestion, before, q->acked, q->high, q->slots);
	if (q->next < q->acked)
		q->next = q->acked;
	inc_congestion_allow(&q->congestion, q->next, q->next > q->acked, q->rto.srtt_ns, now_ns);
	if (q->burst)
		q->burst = r < q->recover ? 2 * q->burst : 0;
	inc_rto_heard(&q->rto);
	inc_rto_acked(&q->rto, r, now_ns);
	inc_requester_restart_timer(q, now_ns);
}

void inc_requester_kept_alone(struct inc_requester *q, uint64_t r, uint64_t now_ns)
{
	struct inc_tx_packet *p = inc_requester_packet(q, r);
	uint64_t end;

	if (r < q->acked || p->flags & INC_TX_KEPT)
		return;
	if (p->flags & INC_TX_LOST)
		q->sel.lost--;
	p->flags = (p->flags & ~INC_TX_LOST) | INC_TX_KEPT;
	/* the first gap shows now, so the time between probes counts from here */
	if (q->acked >= q->sel.kept_high && !q->sel.probing)
		q->sel.pace_at_ns = now_ns;
	if (q->sel.kept_high <= r)
		q->sel.kept_high = r + 1;
	end = first_not_kept(q, q->acked);
	if (end > q->acked) {
		inc_requester_kept(q, end, now_ns);
		return;
	}
	q->sel.tries = 0;
	inc_rto_heard(&q->rto);
	inc_requester_restart_timer(q, now_ns);
}

/* Marks `count` packets of a selective requester from `from` on as lost, so that they are sent
 * again. It leaves out packets that the peer has, and packets that were sent again in round `since`
 * or later. A loss is a report of congestion, unless the peer had no room for packets. */
static void mark_lost(struct inc_requester *q, uint64_t from, uint64_t count, uint32_t since)
{
	const uint64_t end = count < q->high - from ? from + count : q->high;
	const unsigned int before = q->sel.lost;
	uint64_t r;

	for (r = from; r < end; r++) {
		struct inc_tx_packet *p = inc_requester_packet(q, r);

		if (p->flags & (INC_TX_KEPT | INC_TX_LOST) || p->round >= since)
			continue;
		p->flags |= INC_TX_LOST;
		q->sel.lost++;
	}
	if (q->sel.lost > before && !q->rnr_over_at_ns)
		inc_congestion_lost(&q->congestion, q->high);
}

static void judge_path(struct inc_requester *q, uint64_t now_ns);

/* Called when the answer to a probe reports that no packet has come behind the last one
 * acknowledged. Packets behind it count as lost if they were sent before an earlier probe, at least
 * INC_PROBE_TAIL_NS ago. */
static void tail_is_missing(struct inc_requester *q, uint32_t round, uint64_t now_ns)
{
	uint64_t high = q->acked;
	uint32_t since = 0;

	for (unsigned int i = 0; i < INC_STATUS_PROBES; i++) {
		const typeof(q->sel.probe[0]) *p = &q->sel.probe[i];

		if (p->round && p->round < round && p->at_ns + INC_PROBE_TAIL_NS <= now_ns &&
		    p->high > high) {
			high = p->high;
			since = p->round;
		}
	}
	if (high == q->acked)
		return;
	judge_path(q, now_ns);
	mark_lost(q, q->acked, high - q->acked, since + 1);
}

/* Handles the numbers in the answer to a probe (INC_STATUS). The packets that the answer
 * acknowledges were handled before. */
static void answered(struct inc_requester *q, uint32_t status, uint64_t now_ns)
{
	const typeof(q->sel.probe[0]) *probe = &q->sel.probe[INC_STATUS_PROBE(status)];
	const unsigned int missing = INC_STATUS_MISSING(status);
	uint64_t r;

	if (!probe->round)
		return;
	q->sel.answered = probe->round;
	if (probe->round + 1 == q->sel.round) {
		q->sel.probing = false;
		q->sel.again = 0;
		q->sel.pace_at_ns = now_ns;
	}
	q->sel.probe_rtt_ns = q->sel.probe_rtt_ns
				      ? (3 * q->sel.probe_rtt_ns + now_ns - probe->at_ns) / 4
				      : now_ns - probe->at_ns;
	if (missing) {
		mark_lost(q, q->acked, missing, probe->round + 1);
		/* a packet behind the gap that was sent again before an earlier probe counts as
		 * lost, although its result may only wait for another rank */
		for (r = q->acked + missing; r < q->high && r < q->sel.sent_high; r++)
			if (inc_requester_packet(q, r)->round)
				mark_lost(q, r, 1, probe->round);
	} else {
		tail_is_missing(q, probe->round, now_ns);
	}
	inc_rto_heard(&q->rto);
	inc_requester_restart_timer(q, now_ns);
}

/* Goes back to packet r, or to the first unacknowledged packet behind it, and resends all packets
 * from there on. */
static void go_back(struct inc_requester *q, uint64_t r)
{
	q->next = r > q->acked ? r : q->acked;
	inc_rto_spoil(&q->rto);
	if (!q->rnr_over_at_ns)
		inc_congestion_lost(&q->congestion, q->high);
}

void inc_requester_congested(struct inc_requester *q)
{
	q->figures.congested++;
	inc_congestion_marked(&q->congestion, q->high);
}

/* Handles a NAK: the peer is alive and has requested all packets from r on, so this function
 * resends them. */
static void asked_again(struct inc_requester *q, uint64_t r, uint64_t now_ns)
{
	if (q->selective)
		mark_lost(q, q->acked, q->high - q->acked, UINT32_MAX);
	else
		go_back(q, r);
	q->burst = 0;
	inc_rto_heard(&q->rto);
	inc_requester_restart_timer(q, now_ns);
}

/* Handles a NAK 60 that names a gap. */
static void hear_gap(struct inc_requester *q, uint64_t r, uint32_t gap, uint64_t now_ns)
{
	const uint64_t from = r + INC_GAP_OFFSET(gap);

	inc_requester_kept(q, r, now_ns);
	/* mark only packets that were not sent again yet, because the answer to a probe names the
	 * others */
	if (from < q->high)
		mark_lost(q, from > q->acked ? from : q->acked, INC_GAP_COUNT(gap), 1);
	inc_rto_heard(&q->rto);
	inc_requester_restart_timer(q, now_ns);
}

static enum inc_requester_heard hear_nak(struct inc_requester *q, uint8_t syndrome, uint64_t r,
					 uint32_t msn, uint64_t now_ns)
{
	if (r < q->acked && syndrome == INC_AETH_NAK_SEQ)
		return INC_HEARD;
	q->figures.naks++;
	switch (syndrome) {
	case INC_AETH_NAK_SEQ:
		if (q->selective && INC_GAP_COUNT(msn)) {
			hear_gap(q, r, msn, now_ns);
			return INC_HEARD;
		}
		inc_requester_kept(q, r, now_ns);
		asked_again(q, r, now_ns);
		return INC_HEARD;
	case INC_AETH_NAK_INVALID:
	case INC_AETH_NAK_ACCESS:
	case INC_AETH_NAK_OPERATION:
		return INC_HEARD_NAK;
	}
	return INC_HEARD_ODD;
}

enum inc_requester_heard inc_requester_hear(struct inc_requester *q,
					    const struct inc_roce_packet *pkt, uint64_t now_ns,
					    uint64_t *at)
{
	/* the number of the packet that the ACK or NAK names: of all numbers with its PSN the one
	 * nearest to acked */
	int64_t r = inc_psn_to_r(pkt->psn, q->start_psn + (uint32_t)q->acked, q->acked);

	if (r < 0) {
		/* a peer that has no packet yet answers a probe with the PSN before the first
		 * packet's */
		if (q->selective && r == -1 && pkt->ackreq && !q->acked)
			answered(q, pkt->msn, now_ns);
		return INC_HEARD;
	}
	if ((uint64_t)r >= q->high + (pkt->syndrome == INC_AETH_NAK_SEQ))
		return INC_HEARD_ODD;
	*at = r;
	switch (pkt->syndrome & INC_AETH_TYPE_MASK) {
	case INC_AETH_TYPE_ACK:
		q->figures.acks++;
		inc_requester_kept(q, r + 1, now_ns);
		if (q->selective && pkt->ackreq)
			answered(q, pkt->msn, now_ns);
		return INC_HEARD;
	case INC_AETH_TYPE_RNR:
		q->figures.rnrs++;
		if ((uint64_t)r < q->acked)
			return INC_HEARD;
		inc_requester_kept(q, r, now_ns);
		q->rnr_over_at_ns = now_ns + inc_rnr_timeout_ns(pkt->syndrome);
		asked_again(q, r, now_ns);
		return INC_HEARD;
	case INC_AETH_TYPE_NAK:
		return hear_nak(q, pkt->syndrome, r, pkt->msn, now_ns);
	}
	return INC_HEARD_ODD;
}

/*
 * Called at a timeout: decides whether the path loses packets that are sent by one UDP_SEGMENT
 * call. After a timeout a probe is sent alone, by this function and inc_requester_fill(), so an
 * outage counts once, however long it is. A requester that tries again after a period of single
 * packets needs only one timeout to fall back.
 */
static void judge_path(struct inc_requester *q, uint64_t now_ns)
{
	if (!(inc_requester_packet(q, q->acked)->flags & INC_TX_MANY) ||
	    ++q->uncut < INC_UNCUT_TIMEOUTS)
		return;
	if (q->single_pause_ns == INC_SINGLE_PAUSE_NS)
		q->log(q->log_ctx,
		       "packets that are sent together do not arrive, maybe because of "
		       "generic XDP; they are sent one by one now, and together again later");
	q->uncut = INC_UNCUT_TIMEOUTS - 1;
	q->together_at_ns = now_ns + q->single_pause_ns;
	if (q->single_pause_ns < INC_SINGLE_PAUSE_MAX_NS)
		q->single_pause_ns *= 2;
}

void inc_requester_timers(struct inc_requester *q, uint64_t now_ns)
{
	if (q->rnr_over_at_ns) {
		if (now_ns < q->rnr_over_at_ns)
			return;
		q->rnr_over_at_ns = 0;
	}
	if (now_ns < q->rto_at_ns)
		return;
	q->figures.timeouts++;
	judge_path(q, now_ns);
	inc_rto_timed_out(&q->rto);
	if (q->selective) {
		mark_lost(q, q->acked, inc_rto_probes(&q->rto), UINT32_MAX);
		inc_requester_restart_timer(q, now_ns);
		return;
	}
	inc_requester_restart_timer(q, now_ns);
	go_back(q, q->acked);
	q->recover = q->high;
	q->burst = inc_rto_probes(&q->rto);
}
