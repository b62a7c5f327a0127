/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Time limits of the core's objects, as a list in the order in which they end. inc_core_due_at_ns()
 * returns the time when the first one ends, and the core's owner then steps the core with
 * CORE_EVENT_TIME. All times count the time that the controller was awake (lib/base/awake.h).
 */
#ifndef INC_CORE_TIMER_H
#define INC_CORE_TIMER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct inc_core;

struct inc_core_timer {
	struct inc_core *core;
	/* The timer calls this function once each time that it was armed and has ended. The
	 * function may free the object that contains the timer. */
	void (*fn)(void *arg);
	void *arg;
	bool runs;
	uint64_t due_at_ns;
	TAILQ_ENTRY(inc_core_timer) entry;
};
TAILQ_HEAD(inc_core_timers, inc_core_timer);

/* Initialises a timer, which does not run yet. */
void inc_core_timer_init(struct inc_core_timer *timer, struct inc_core *core, void (*fn)(void *arg),
			 void *arg);
/* Starts the timer, or starts it again if it runs. It ends in ms milliseconds, at least 1. */
void inc_core_timer_arm(struct inc_core_timer *timer, unsigned int ms);
void inc_core_timer_stop(struct inc_core_timer *timer);
/* Calls the function of each timer that is due. */
void inc_core_timers_run(struct inc_core *core);

/*
 * A wait of members for other ranks. Its timer ends after 5 s, and then every 10 s, and its
 * function reports to the members which ranks are missing. The time limit of the wait is another
 * timer.
 */
struct inc_core_wait {
	struct inc_core_timer timer;
	uint64_t began_at_ns;
};

/* Begins the wait, whose timer inc_core_timer_init() has initialised. */
void inc_core_wait_begin(struct inc_core_wait *wait);
/* Arms the timer again, whose function calls this. Returns how many seconds the wait has lasted. */
unsigned int inc_core_wait_go_on(struct inc_core_wait *wait);

#endif
