/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include "controller/timer.h"
#include "lib/base/clock.h"
#include "lib/net/loop.h"

/* Interval at which the clock is read. It is half of INC_AWAKE_STEP_NS, so a larger gap between two
 * readings is a standstill. */
#define TICK_MS (INC_AWAKE_STEP_NS / INC_NSEC_PER_MSEC / 2)

struct inc_timeout {
	struct inc_timeouts *all;
	struct inc_timer *timer;
	bool runs;
	bool deferred;      /* the limit was armed with 0 ms, as a deferred call */
	uint64_t end_at_ns; /* time at which the limit ends, on the clock all->awake */
	inc_timeout_fn *fn;
	void *arg;
};

static void on_tick(void *arg)
{
	struct inc_timeouts *all = arg;

	inc_timer_arm(all->tick, TICK_MS);
	inc_awake_now_ns(&all->awake);
}

int inc_timeouts_start(struct inc_timeouts *all, struct event_base *base)
{
	all->base = base;
	all->tick = inc_timer_new(base, on_tick, all);
	return all->tick ? 0 : -ENOMEM;
}

void inc_timeouts_stop(struct inc_timeouts *all)
{
	inc_timer_free(all->tick);
	all->tick = NULL;
}

/* Starts the clock with the first limit that runs. While no limit runs, the clock is not read, so a
 * gap then is no standstill. */
static void run(struct inc_timeout *t)
{
	if (t->runs)
		return;
	t->runs = true;
	if (t->all->running++)
		return;
	t->all->awake = (struct inc_awake){0};
	inc_timer_arm(t->all->tick, TICK_MS);
}

static void release_clock(struct inc_timeouts *all)
{
	if (!--all->running)
		inc_timer_stop(all->tick);
}

static void end(struct inc_timeout *t)
{
	if (!t->runs)
		return;
	t->runs = false;
	release_clock(t->all);
}

uint64_t inc_timeouts_now_ns(struct inc_timeouts *all)
{
	if (!all->running)
		all->awake = (struct inc_awake){0};
	return inc_awake_now_ns(&all->awake);
}

static void wait_for_end(struct inc_timeout *t)
{
	const struct inc_awake *awake = &t->all->awake;
	const uint64_t end_at_ns = inc_awake_limit_at_ns(awake, t->end_at_ns, 0);

	inc_timer_arm(t->timer, inc_ms_until(end_at_ns, awake->now_ns));
}

static void on_end(void *arg)
{
	struct inc_timeout *t = arg;
	struct inc_timeouts *all = t->all;

	inc_awake_now_ns(&all->awake);
	/* A limit of 0 ms is no time that a peer may need, but a deferred call, so a standstill
	 * does not delay it. */
	if (!t->deferred && !inc_awake_past(&all->awake, t->end_at_ns, 0)) {
		wait_for_end(t);
		return;
	}
	/* The clock must not restart while fn runs, because fn may arm a limit at a time of this
	 * clock. */
	all->running++;
	end(t);
	t->fn(t->arg); /* fn may free the timeout */
	release_clock(all);
}

struct inc_timeout *inc_timeout_new(struct inc_timeouts *all, inc_timeout_fn *fn, void *arg)
{
	struct inc_timeout *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->all = all;
	t->fn = fn;
	t->arg = arg;
	t->timer = inc_timer_new(all->base, on_end, t);
	if (!t->timer) {
		free(t);
		return NULL;
	}
	return t;
}

void inc_timeout_arm(struct inc_timeout *t, unsigned int ms)
{
	run(t);
	t->deferred = !ms;
	t->end_at_ns = inc_awake_now_ns(&t->all->awake) + ms * INC_NSEC_PER_MSEC;
	if (ms)
		wait_for_end(t);
	else
		inc_timer_arm(t->timer, 0);
}

void inc_timeout_arm_at(struct inc_timeout *t, uint64_t end_at_ns)
{
	if (t->runs && t->end_at_ns == end_at_ns)
		return;
	run(t);
	inc_awake_now_ns(&t->all->awake);
	t->deferred = false;
	t->end_at_ns = end_at_ns;
	wait_for_end(t);
}

void inc_timeout_stop(struct inc_timeout *t)
{
	end(t);
	inc_timer_stop(t->timer);
}

void inc_timeout_free(struct inc_timeout *t)
{
	if (!t)
		return;
	end(t);
	inc_timer_free(t->timer);
	free(t);
}
