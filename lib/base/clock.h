/* SPDX-License-Identifier: BSD-2-Clause */
/* The clocks: CLOCK_MONOTONIC for spans and deadlines, CLOCK_BOOTTIME for those that end while the
 * machine is suspended, CLOCK_REALTIME for what people read. */
#ifndef INC_CLOCK_H
#define INC_CLOCK_H

#include <limits.h>
#include <stdint.h>
#include <sys/time.h>
#include <time.h>
#include "lib/base/os.h"

#define INC_NSEC_PER_SEC  1000000000ull
#define INC_NSEC_PER_MSEC 1000000ull
#define INC_NSEC_PER_USEC 1000ull

static inline uint64_t inc_clock_ns(clockid_t clock)
{
	return inc_os.clock_ns(clock);
}

static inline uint64_t inc_now_ns(void)
{
	return inc_clock_ns(CLOCK_MONOTONIC);
}

static inline uint64_t inc_now_ms(void)
{
	return inc_now_ns() / INC_NSEC_PER_MSEC;
}

static inline time_t inc_now_s(void)
{
	return inc_now_ns() / INC_NSEC_PER_SEC;
}

static inline uint64_t inc_boot_ns(void)
{
	return inc_clock_ns(CLOCK_BOOTTIME);
}

/* CLOCK_REALTIME as nanoseconds since 1970. */
static inline uint64_t inc_wall_ns(void)
{
	return inc_clock_ns(CLOCK_REALTIME);
}

/* Returns the timeout for a poll() that waits until at_ns, rounded up, so that poll() does not
 * return before at_ns. */
static inline int inc_ms_until(uint64_t at_ns, uint64_t now_ns)
{
	const uint64_t ms = at_ns > now_ns ? (at_ns - now_ns - 1) / INC_NSEC_PER_MSEC + 1 : 0;

	return ms < INT_MAX ? ms : INT_MAX;
}

static inline struct timespec inc_timespec_of_ns(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / INC_NSEC_PER_SEC),
				 .tv_nsec = (long)(ns % INC_NSEC_PER_SEC)};
}

/* A duration in the struct that libevent uses. */
static inline struct timeval inc_timeval_of_ms(unsigned int ms)
{
	return (struct timeval){.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
}

#endif
