/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Time as its owner has lived through it. A process that is stopped, or gets no CPU, cannot hear
 * its peers, so the time it did not live through must not count as their silence. The owner looks
 * at the clock several times per INC_AWAKE_STEP_NS. A longer gap between two looks is a standstill,
 * of which only that step counts. Code that decides after some time that a peer is silent
 * measures the time here, not by the clock. The controller (controller/timer.h) and libinccl
 * (struct inccl_limit) do so for their limits. For silent members the controller counts ticks
 * instead (controller/net/alive.c), because it pings them at fixed intervals.
 */
#ifndef INC_AWAKE_H
#define INC_AWAKE_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/base/clock.h"

#define INC_AWAKE_STEP_NS INC_NSEC_PER_SEC
/* After a standstill no limit has passed for so long. What peers sent meanwhile is read in that
 * time, and what they lost is sent again, because requesters wait a second at most by default. */
#define INC_AWAKE_RESPITE_NS (2 * INC_NSEC_PER_SEC)

struct inc_awake {
	uint64_t looked_at_ns; /* by the clock; 0: never */
	uint64_t now_ns;       /* by this time, which begins with the clock's */
	uint64_t
		resumed_at_ns; /* by this time: the end of the last standstill; 0: there was none */
};

/* The time now. clock_ns: that of the clock. */
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

/* When a limit that runs from an instant of this time has passed, unless a standstill comes.
 * However many standstills come, the limit passes after twice the respite, so that a machine which
 * stutters still notices that a peer is dead. */
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

/* When to look again, by the clock, so as to see that the limit has passed. A standstill shows by
 * looks that are far apart, so a thread that waits looks twice as often as a standstill is long. */
static inline uint64_t inc_awake_look_at_ns(const struct inc_awake *awake, uint64_t limit_at_ns)
{
	const uint64_t left_ns = limit_at_ns > awake->now_ns ? limit_at_ns - awake->now_ns : 0;

	return awake->looked_at_ns +
	       (left_ns < INC_AWAKE_STEP_NS / 2 ? left_ns : INC_AWAKE_STEP_NS / 2);
}

/* Whether it has, at the last look. */
static inline bool inc_awake_past(const struct inc_awake *awake, uint64_t since_ns,
				  uint64_t limit_ns)
{
	return awake->now_ns >= inc_awake_limit_at_ns(awake, since_ns, limit_ns);
}

#endif
