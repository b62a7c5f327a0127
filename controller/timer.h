/* SPDX-License-Identifier: BSD-2-Clause */
/* Time limits for peers. All functions run on the controller's one thread. */
#ifndef INC_CTL_TIMER_H
#define INC_CTL_TIMER_H

#include <stdbool.h>
#include <stdint.h>
#include <event2/event.h>
#include "lib/base/awake.h"

struct inc_timer;

/* The clock of all time limits for peers: the time that the controller was awake. The clock runs
 * only while a limit runs. */
struct inc_timeouts {
	struct event_base *base;
	struct inc_timer *tick;
	struct inc_awake awake;
	unsigned int running; /* number of limits that run */
};

/* Starts the clock. Returns 0 or -ENOMEM. */
int inc_timeouts_start(struct inc_timeouts *all, struct event_base *base);
/* Stops the clock. Called after all timeouts are freed, and before the event loop is. */
void inc_timeouts_stop(struct inc_timeouts *all);

/* Returns the current time of the clock of all time limits. */
uint64_t inc_timeouts_now_ns(struct inc_timeouts *all);

/*
 * A time limit for a peer. At most one second of each standstill of the controller counts
 * (lib/base/awake.h). For two seconds after a standstill no such limit ends, because the controller
 * first reads what peers sent meanwhile. Repeated standstills delay a limit by four seconds at
 * most.
 */
struct inc_timeout;
/* A function that is called once for each inc_timeout_arm(), from the event loop. It may free or
 * arm the timeout. */
typedef void inc_timeout_fn(void *arg);
/* Makes a timeout that does not run yet. Returns NULL if there is no memory. */
struct inc_timeout *inc_timeout_new(struct inc_timeouts *all, inc_timeout_fn *fn, void *arg);
/* Starts the timeout, or starts it again from now. 0 ms: fn is called in the loop's next pass. */
void inc_timeout_arm(struct inc_timeout *t, unsigned int ms);
/* Starts the timeout so that it ends at this time, on the clock of inc_timeouts_now_ns(). */
void inc_timeout_arm_at(struct inc_timeout *t, uint64_t end_at_ns);
/* Stops the timeout, so that fn is not called. A stopped timeout may be armed again. */
void inc_timeout_stop(struct inc_timeout *t);
/* Stops and frees the timeout. t may be NULL. */
void inc_timeout_free(struct inc_timeout *t);

#endif
