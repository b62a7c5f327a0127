/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the soft transport's requester concludes from acknowledgements, and from their absence:
 * how far the peer is, what goes again, and whether the path takes sends of many packets.
 */
#include "hostlib/src/soft.h"

void soft_restart_timer(struct soft_endpoint *s, uint64_t now)
{
	/* While the peer asks for patience nothing goes again: a timer that ran out would wake
	 * whoever serves for nothing, again and again. */
	uint64_t from_ns = now > s->rnr_over_at_ns ? now : s->rnr_over_at_ns;

	s->rto_at_ns = s->tx_acked < s->tx_high ? from_ns + inc_rto_wait_ns(&s->rto) : UINT64_MAX;
}

void soft_kept(struct soft_endpoint *s, uint64_t r, uint64_t now)
{
	if (r <= s->tx_acked)
		return;
	for (; s->tx_acked < r; s->tx_acked++)
		if (soft_packet(s, s->tx_acked)->flags & SOFT_F_MANY) {
			s->uncut = 0;
			s->single_pause_ns = SOFT_SINGLE_PAUSE_NS;
		}
	if (s->tx_next < r)
		s->tx_next = r;
	if (s->burst)
		s->burst = r < s->recover ? 2 * s->burst : 0;
	inc_rto_heard(&s->rto);
	inc_rto_acked(&s->rto, r, now);
	soft_restart_timer(s, now);
}

/* Sends again from r on. */
static void go_back(struct soft_endpoint *s, uint64_t r)
{
	s->tx_next = r > s->tx_acked ? r : s->tx_acked;
	inc_rto_spoil(&s->rto);
}

void soft_asked_again(struct soft_endpoint *s, uint64_t r, uint64_t now)
{
	go_back(s, r);
	s->burst = 0;
	inc_rto_heard(&s->rto);
	soft_restart_timer(s, now);
}

/* A timeout: does the path lose what goes together? One packet alone asks for each of them
 * (below), so an outage counts once, however long it is. Whoever has fallen back and tries again
 * has been told enough by one. */
static void judge_path(struct soft_endpoint *s, uint64_t now)
{
	if (!(soft_packet(s, s->tx_acked)->flags & SOFT_F_MANY) || ++s->uncut < SOFT_UNCUT_TIMEOUTS)
		return;
	if (s->single_pause_ns == SOFT_SINGLE_PAUSE_NS)
		s->log(s->log_ctx,
		       "soft: packets that are sent together do not arrive (generic XDP?): one by "
		       "one, and another try now and then");
	s->uncut = SOFT_UNCUT_TIMEOUTS - 1;
	s->together_at_ns = now + s->single_pause_ns;
	if (s->single_pause_ns < SOFT_SINGLE_PAUSE_MAX_NS)
		s->single_pause_ns *= 2;
}

void soft_timers(struct soft_endpoint *s, uint64_t now)
{
	if (s->rnr_over_at_ns) {
		if (now < s->rnr_over_at_ns)
			return;
		s->rnr_over_at_ns = 0;
	}
	if (now < s->rto_at_ns)
		return;
	s->ep.stats.timeouts++;
	judge_path(s, now);
	inc_rto_timed_out(&s->rto);
	soft_restart_timer(s, now);
	/* One packet asks how far the peer is: mostly an ACK was lost or late, and nothing else. */
	go_back(s, s->tx_acked);
	s->recover = s->tx_high;
	s->burst = 1;
}
