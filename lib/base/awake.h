/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The clock of limits: it counts only the time in which its process runs. A process that is
 * stopped, or gets no CPU, cannot receive its peers' packets, so that time must not count as the
 * peers' silence. The owner reads the clock several times per INC_AWAKE_STEP_NS. A longer gap
 * between two readings is a standstill, of which only INC_AWAKE_STEP_NS counts. Code that decides
 * after some time that a peer is silent measures the time here, not by CLOCK_MONOTONIC. The
 * controller (controller/timer.h) and libinccl (struct inccl_limit) do so for their limits. For
 * silent members the controller counts ticks instead (controller/net/keepalive.c), because it pings
 * them at fixed intervals.
 */
#ifndef INC_AWAKE_H
#define INC_AWAKE_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/base/clock.h"

#define INC_AWAKE_STEP_NS INC_NSEC_PER_SEC
/* For this time after a standstill no limit passes, and for twice the time if standstills go on.
 * The process uses it to read what peers sent during the standstill. Peers retransmit within it
 * what was lost, because requesters wait a second at most by default. */
#define INC_AWAKE_RESPITE_NS (2 * INC_NSEC_PER_SEC)

struct inc_awake {
	uint64_t looked_at_ns; /* the last reading of CLOCK_MONOTONIC; 0: none yet */
	/* the present time of this clock, which begins with the value of CLOCK_MONOTONIC */
	uint64_t now_ns;
	uint64_t resumed_at_ns; /* end of the last standstill, by this clock; 0: there was none */
};

/* Returns the time by this clock. clock_ns: the time by CLOCK_MONOTONIC. */
static inline uint64_t inc_awake_at(struct inc_awake *awake, uint64_t clock_ns)
{
	const uint64_t gap_ns = clock_ns - awake->looked_at_ns;
	const bool first = !awake->looked_at_ns;

	awake->looked_at_ns = clock_ns;
	if (first) {
		awake->now_ns = clock_ns;
	} else if (gap_ns <= INC_AWAKE_STEP_NS) {
		awake->now_ns += gap_ns;
	} else {
		awake->now_ns += INC_AWAKE_STEP_NS;
		awake->resumed_at_ns = awake->now_ns;
	}
	return awake->now_ns;
}

static inline uint64_t inc_awake_now_ns(struct inc_awake *awake)
{
	return inc_awake_at(awake, inc_now_ns());
}

/* Returns when a limit that runs from since_ns passes, unless another standstill comes. The
 * limit passes at the latest after twice the respite, however many standstills come. So a
 * machine that stands still again and again detects a dead peer all the same. */
static inline uint64_t inc_awake_limit_at_ns(const struct inc_awake *awake, uint64_t since_ns,
					     uint64_t limit_ns)
{
	const uint64_t at_ns = since_ns + limit_ns;
	const uint64_t respite_ns =
		awake->resumed_at_ns ? awake->resumed_at_ns + INC_AWAKE_RESPITE_NS : 0;

	const uint64_t last_ns = at_ns + 2 * INC_AWAKE_RESPITE_NS;

	if (at_ns > respite_ns)
		return at_ns;
	return respite_ns < last_ns ? respite_ns : last_ns;
}

/* Returns when the owner shall read the clock again to notice that the limit has passed, by
 * CLOCK_MONOTONIC. A standstill shows as a gap of INC_AWAKE_STEP_NS between two readings, so a
 * thread that waits reads the clock twice in that time. */
static inline uint64_t inc_awake_look_at_ns(const struct inc_awake *awake, uint64_t limit_at_ns)
{
	const uint64_t left_ns = limit_at_ns > awake->now_ns ? limit_at_ns - awake->now_ns : 0;

	return awake->looked_at_ns +
	       (left_ns < INC_AWAKE_STEP_NS / 2 ? left_ns : INC_AWAKE_STEP_NS / 2);
}

/* Whether the limit had passed at the last reading of the clock. */
static inline bool inc_awake_past(const struct inc_awake *awake, uint64_t since_ns,
				  uint64_t limit_ns)
{
	return awake->now_ns >= inc_awake_limit_at_ns(awake, since_ns, limit_ns);
}

#endif
