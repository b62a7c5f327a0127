/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The retransmission timeout of a requester: the estimator of RFC 6298 with Karn's rule, and the
 * back-off. The requester of every soft endpoint (requester.h) and the slow path use it, each with
 * its own first, shortest and longest timeout. The caller passes instants (CLOCK_MONOTONIC, or a
 * test's own clock), and owns the timer.
 */
#ifndef INC_RTO_H
#define INC_RTO_H

#include <stdbool.h>
#include <stdint.h>

/* limit of the doublings of the timeout and of the number of packets that it resends; max_ns limits
 * the timeout long before */
#define INC_RTO_DOUBLINGS     10
#define INC_RTO_SINGLE_PROBES 3

struct inc_rto {
	uint64_t min_ns, max_ns;
	uint64_t srtt_ns; /* smoothed round trip time; 0: nothing was measured yet */
	uint64_t rttvar_ns;
	uint64_t rto_ns;      /* the timeout without the back-off */
	unsigned int backoff; /* number of timeouts since the last answer of the peer */
	bool spoiled;         /* the current measurement is invalid */
	/* the measurement ends when all packets before this one are acknowledged; 0: no measurement
	 * is under way */
	uint64_t sample_end;
	uint64_t sample_at_ns;
};

/* Initializes the estimator. first_ns: the timeout before the first measurement, which is limited
 * to the bounds min_ns and max_ns. */
void inc_rto_init(struct inc_rto *t, uint64_t first_ns, uint64_t min_ns, uint64_t max_ns);

/* Reports that all packets before number `end` have been sent, the last of them now. Begins to
 * measure a round trip, unless a measurement is under way. */
void inc_rto_measure(struct inc_rto *t, uint64_t end, uint64_t now_ns);
/* Reports that a measured packet has been sent again, which makes the measurement invalid. An ACK
 * does not show whether the first or the second one has arrived (Karn's rule). */
void inc_rto_spoil(struct inc_rto *t);
/* Reports that all packets before acked are acknowledged. */
void inc_rto_acked(struct inc_rto *t, uint64_t acked, uint64_t now_ns);

/* Reports that a packet was not acknowledged for inc_rto_wait_ns(). The next timeout is twice as
 * long. */
void inc_rto_timed_out(struct inc_rto *t);
/* Reports an answer of the peer, which ends the back-off. */
void inc_rto_heard(struct inc_rto *t);

static inline unsigned int inc_rto_doublings(const struct inc_rto *t)
{
	return t->backoff < INC_RTO_DOUBLINGS ? t->backoff : INC_RTO_DOUBLINGS;
}

/*
 * Returns the number of packets to send again after a timeout that has been counted. At first it is
 * one packet, which finds out how far the peer is, because mostly only an ACK was late. If three of
 * these in a row get no answer, the path loses packets, and each further timeout sends twice as
 * many. So a loss of 50 frames in a row ends after eight timeouts, as with a NIC that resends its
 * whole window.
 */
static inline unsigned int inc_rto_probes(const struct inc_rto *t)
{
	const unsigned int doublings = inc_rto_doublings(t);

	return doublings <= INC_RTO_SINGLE_PROBES ? 1 : 1u << (doublings - INC_RTO_SINGLE_PROBES);
}

/* Returns the current retransmission timeout, which includes the back-off. */
uint64_t inc_rto_wait_ns(const struct inc_rto *t);

#endif
