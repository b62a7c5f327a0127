/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How long a requester waits for an acknowledgement: the estimator of RFC 6298 with Karn's
 * rule, and the back-off. Used by the requester of every soft endpoint (requester.h) and by the
 * slow path, each with first and shortest and longest times of its own. Instants (CLOCK_MONOTONIC,
 * or a test's own) are the caller's; so is the timer.
 */
#ifndef INC_RTO_H
#define INC_RTO_H

#include <stdbool.h>
#include <stdint.h>

/* Doublings, of the time and of the packets; max_ns bounds the time long before. */
#define INC_RTO_DOUBLINGS     10
#define INC_RTO_SINGLE_PROBES 3

struct inc_rto {
	uint64_t min_ns, max_ns;
	uint64_t srtt_ns; /* smoothed round trip time; 0: nothing measured yet */
	uint64_t rttvar_ns;
	uint64_t rto_ns;      /* without the back-off */
	unsigned int backoff; /* timeouts since the peer was heard */
	bool spoiled;         /* the measurement under way is worthless */
	uint64_t sample_end;  /* it ends when all packets before this are acknowledged; 0: none */
	uint64_t sample_at_ns;
};

/* first_ns: until something has been measured, within the bounds. */
void inc_rto_init(struct inc_rto *t, uint64_t first_ns, uint64_t min_ns, uint64_t max_ns);

/* All packets before end have been sent, the last of them now. Begins a measurement unless one is
 * under way. */
void inc_rto_measure(struct inc_rto *t, uint64_t end, uint64_t now_ns);
/* Something of what was measured has been sent again: which of the two is acknowledged, nobody
 * can tell. */
void inc_rto_spoil(struct inc_rto *t);
/* All packets before acked are acknowledged. */
void inc_rto_acked(struct inc_rto *t, uint64_t acked, uint64_t now_ns);

/* Nothing came for inc_rto_wait_ns(): the next wait is twice as long. */
void inc_rto_timed_out(struct inc_rto *t);
/* The peer is there: no back-off. */
void inc_rto_heard(struct inc_rto *t);

static inline unsigned int inc_rto_doublings(const struct inc_rto *t)
{
	return t->backoff < INC_RTO_DOUBLINGS ? t->backoff : INC_RTO_DOUBLINGS;
}

/* How many packets go after a timeout that has been counted. One asks how far the peer is, because
 * mostly an ACK was late and nothing else. Where nobody answers three in a row the path loses what
 * is sent, and each further timeout sends twice as many: of 50 frames lost in a row eight timeouts
 * see the end, as a NIC that sends its whole window again does. */
static inline unsigned int inc_rto_probes(const struct inc_rto *t)
{
	const unsigned int doublings = inc_rto_doublings(t);

	return doublings <= INC_RTO_SINGLE_PROBES ? 1 : 1u << (doublings - INC_RTO_SINGLE_PROBES);
}

/* How long to wait for an acknowledgement now. */
uint64_t inc_rto_wait_ns(const struct inc_rto *t);

#endif
