/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The congestion window of a soft requester. Packets whose IP header is of class ECT say that their
 * sender can react to congestion (RFC 3168). A router with a long queue sets CE in them, and the
 * peer reports this by a CNP. The window limits the packets under way, so the queue becomes shorter
 * before it loses packets.
 *
 * The rules are those of DCTCP (RFC 8257), where CNPs take the place of ECE. A round ends when the
 * peer has all packets that were sent when the round began. In a round with a mark the window falls
 * once. The first mark halves it. Later ones take half of the part of all rounds that had a mark,
 * so they take little while they are rare. A lost packet halves it. It grows by a packet in each
 * round, and before the first mark or loss it doubles.
 *
 * Acknowledgements may come many at a time, because the process has waited for a CPU. All packets
 * that they allow would fill a short queue before any mark could be reported. So at most a quarter
 * of the window, or INC_BURST_LEAST packets, follow acknowledgements that come within a quarter of
 * a round trip. Later ones allow the rest.
 */
#ifndef INC_ROCE_CONGESTION_H
#define INC_ROCE_CONGESTION_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/base/clock.h"
#include "lib/proto/frame.h"

/* A peer whose packets arrive with CE gets one CNP in this time at most. */
#define INC_CNP_PACE_NS (50 * INC_NSEC_PER_USEC)

#define INC_WINDOW_FIRST 16 /* packets under way at first */
#define INC_WINDOW_LEAST 2  /* packets that may always be under way */
#define INC_WINDOW_UNIT  65536
#define INC_BURST_LEAST  48 /* packets that may always be sent at a time */
#define INC_SHARE_ONE    1024
#define INC_SHARE_WEIGHT 16 /* a round counts for so much of the share of rounds with marks */

struct inc_congestion {
	uint32_t window;    /* limit of the packets under way, in parts of INC_WINDOW_UNIT */
	uint32_t share;     /* share of the rounds with a mark, of INC_SHARE_ONE */
	uint64_t round_end; /* the round ends when the peer has all packets before this one */
	/* packets before this one may be sent before the peer acknowledges more; set at this time
	 */
	uint64_t burst_end, burst_at_ns;
	bool marked; /* the present round has had a mark */
	bool steady; /* there was a mark or a loss, so the window does not double any more */
};

static inline void inc_congestion_init(struct inc_congestion *c)
{
	*c = (struct inc_congestion){.window = INC_WINDOW_FIRST * INC_WINDOW_UNIT,
				     .burst_end = INC_BURST_LEAST,
				     .share = INC_SHARE_ONE};
}

/* The limit of the packets under way. */
static inline uint64_t inc_congestion_window(const struct inc_congestion *c)
{
	return c->window / INC_WINDOW_UNIT;
}

/* The limit of the packets that are sent at a time. */
static inline uint64_t inc_congestion_burst(const struct inc_congestion *c)
{
	const uint64_t part = inc_congestion_window(c) / 4;

	return part > INC_BURST_LEAST ? part : INC_BURST_LEAST;
}

/* Called when the peer has acknowledged more: allows the next burst, unless the last one was
 * allowed less than a quarter of a round trip ago. If no packet is under way, no further
 * acknowledgement would come, so the burst is allowed. next: the next packet to send. */
static inline void inc_congestion_allow(struct inc_congestion *c, uint64_t next, bool under_way,
					uint64_t srtt_ns, uint64_t now_ns)
{
	if (under_way && now_ns - c->burst_at_ns < srtt_ns / 4)
		return;
	c->burst_end = next + inc_congestion_burst(c);
	c->burst_at_ns = now_ns;
}

/* Ends a round. high: all packets before this one were sent. */
static inline void inc_congestion_next_round(struct inc_congestion *c, uint64_t high)
{
	if (c->steady)
		c->share = (c->share * (INC_SHARE_WEIGHT - 1) + (c->marked ? INC_SHARE_ONE : 0)) /
			   INC_SHARE_WEIGHT;
	c->marked = false;
	c->round_end = high;
}

/* Called when the peer turns out to have all packets before `acked`; before that it was known to
 * have those before `before`. most: upper limit of the window. The window grows only if it is in
 * use, because a window that has grown unused would send a burst later. */
static inline void inc_congestion_acked(struct inc_congestion *c, uint64_t before, uint64_t acked,
					uint64_t high, uint32_t most)
{
	const uint64_t n = acked - before, unit = INC_WINDOW_UNIT;
	uint64_t window = c->window;

	if (!c->marked && 2 * (high - before) * unit >= window)
		window += c->steady ? n * unit * unit / window : n * unit;
	c->window = window < most * unit ? window : most * unit;
	if (acked >= c->round_end)
		inc_congestion_next_round(c, high);
}

/* Makes the window smaller by half of `share`, once in a round. */
static inline void inc_congestion_fall(struct inc_congestion *c, uint64_t high, uint32_t share)
{
	const uint32_t least = INC_WINDOW_LEAST * INC_WINDOW_UNIT;
	const uint32_t less = (uint64_t)c->window * share / (2 * INC_SHARE_ONE);

	if (c->marked)
		return;
	c->window = c->window > least + less ? c->window - less : least;
	c->marked = c->steady = true;
	c->round_end = high;
}

/* Called when the peer reports a mark. */
static inline void inc_congestion_marked(struct inc_congestion *c, uint64_t high)
{
	const uint32_t least = INC_SHARE_ONE / INC_SHARE_WEIGHT; /* the share of this round alone */

	inc_congestion_fall(c, high, c->share > least ? c->share : least);
}

/* Called when a packet counts as lost. */
static inline void inc_congestion_lost(struct inc_congestion *c, uint64_t high)
{
	inc_congestion_fall(c, high, INC_SHARE_ONE);
}

#endif
