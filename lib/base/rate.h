/* SPDX-License-Identifier: BSD-2-Clause */
/* So much a second, and no more than a burst of it at once: a token bucket, kept as the instant at
 * which it would be full again. Zero but for its two bounds is a full one. */
#ifndef INC_RATE_H
#define INC_RATE_H

#include <stdint.h>

struct inc_rate {
	uint64_t interval_ns; /* for one; 0: any number */
	uint64_t burst;
	uint64_t full_at_ns;
};

static inline int inc_rate_full(const struct inc_rate *rate, uint64_t now_ns)
{
	return rate->full_at_ns <= now_ns;
}

/* Takes n. 0; or so many nanoseconds are to pass before one may be taken, and none was. More than
 * there are can be taken at once, while there is one: it is paid for by a longer wait. */
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
