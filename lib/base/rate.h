/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A token bucket, which limits how often something happens: one token each interval, at most burst
 * at once. The bucket is stored as the instant at which it would be full again, so a struct that is
 * zero but for its two bounds is a full bucket.
 */
#ifndef INC_RATE_H
#define INC_RATE_H

#include <stdint.h>

struct inc_rate {
	uint64_t interval_ns; /* time in which one token becomes available; 0: no limit */
	uint64_t burst;
	uint64_t full_at_ns;
};

static inline int inc_rate_full(const struct inc_rate *rate, uint64_t now_ns)
{
	return rate->full_at_ns <= now_ns;
}

/* Takes n tokens and returns 0 if at least one token is available. Otherwise takes none, and
 * returns the nanoseconds until one is available. With one token left, a caller may take more
 * tokens than there are. The next caller then waits longer. */
static inline uint64_t inc_rate_take(struct inc_rate *rate, uint64_t n, uint64_t now_ns)
{
	const uint64_t room_ns = rate->interval_ns * rate->burst;

	if (inc_rate_full(rate, now_ns))
		rate->full_at_ns = now_ns;
	if (rate->interval_ns && rate->full_at_ns - now_ns + rate->interval_ns > room_ns)
		return rate->full_at_ns - now_ns + rate->interval_ns - room_ns;
	rate->full_at_ns += n * rate->interval_ns;
	return 0;
}

#endif
