/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Event loops of libevent and their timers, for the controller, inc-switchd and libinc_connect.
 * The timers of libevent read a clock that only the linker can replace. So the product reaches
 * loops and timers by one table of functions, as it reaches the operating system by inc_os
 * (lib/base/os.h). The table holds the functions of libevent, and a test replaces them by
 * assignment. All functions run on the loop's thread.
 */
#ifndef INC_LOOP_H
#define INC_LOOP_H

#include <stdbool.h>
#include <event2/event.h>

/* A timer. Its function runs once for each inc_timer_arm(), and may arm or free the timer. */
struct inc_timer {
	struct event *event; /* the loop calls the timer's function when this event is active */
	void (*fn)(void *arg);
	void *arg;
};

struct inc_loop {
	/* Runs the loop until event_base_loopbreak(). Returns 0, or -EIO if the loop cannot run. */
	int (*run)(struct event_base *base);
	/* Functions of timers, for inc_timer_arm(), inc_timer_stop() and inc_timer_runs(), which
	 * call them. */
	int (*arm)(struct inc_timer *timer, unsigned int ms);
	void (*stop)(struct inc_timer *timer);
	bool (*runs)(const struct inc_timer *timer);
};

extern struct inc_loop inc_loop;

/* Makes a timer that does not run yet. Returns NULL if there is no memory. */
struct inc_timer *inc_timer_new(struct event_base *base, void (*fn)(void *arg), void *arg);
/* Stops and frees the timer. NULL is allowed. */
void inc_timer_free(struct inc_timer *timer);

/* Starts the timer, or starts it again. 0 ms: its function runs in the loop's next pass. Returns 0
 * or -ENOMEM, which only a timer that has never run returns. */
static inline int inc_timer_arm(struct inc_timer *timer, unsigned int ms)
{
	return inc_loop.arm(timer, ms);
}

/* Stops the timer without a call of its function. */
static inline void inc_timer_stop(struct inc_timer *timer)
{
	inc_loop.stop(timer);
}

/* Whether the timer has been armed and its function has not run since. */
static inline bool inc_timer_runs(const struct inc_timer *timer)
{
	return inc_loop.runs(timer);
}

#endif
