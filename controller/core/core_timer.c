/* SPDX-License-Identifier: BSD-2-Clause */
#include "controller/core/core.h"
#include "controller/core/core_timer.h"
#include "controller/core/event.h"
#include "lib/base/clock.h"
#include "lib/conf/messages.h"

void inc_core_timer_init(struct inc_core_timer *timer, struct inc_core *core, void (*fn)(void *arg),
			 void *arg)
{
	*timer = (struct inc_core_timer){.core = core, .fn = fn, .arg = arg};
}

void inc_core_timer_arm(struct inc_core_timer *timer, unsigned int ms)
{
	struct inc_core_timers *timers = &timer->core->timers;
	struct inc_core_timer *before;

	inc_core_timer_stop(timer);
	timer->due_at_ns = timer->core->now.awake_ns + ms * INC_NSEC_PER_MSEC;
	timer->runs = true;
	/* The position of a new timer in the list is searched from the end, because most timers run
	 * for the same time. Of two timers that end at the same time, the one that was armed first
	 * comes first. */
	for (before = TAILQ_LAST(timers, inc_core_timers); before;
	     before = TAILQ_PREV(before, inc_core_timers, entry)) {
		if (before->due_at_ns <= timer->due_at_ns)
			break;
	}
	if (before)
		TAILQ_INSERT_AFTER(timers, before, timer, entry);
	else
		TAILQ_INSERT_HEAD(timers, timer, entry);
}

void inc_core_timer_stop(struct inc_core_timer *timer)
{
	if (!timer->runs)
		return;
	timer->runs = false;
	TAILQ_REMOVE(&timer->core->timers, timer, entry);
}

void inc_core_timers_run(struct inc_core *core)
{
	const uint64_t now_ns = core->now.awake_ns;
	struct inc_core_timer *timer;

	/* The list of timers is read anew after each call, because the called function may free
	 * objects with timers that are due. No function arms a timer with 0 ms, so the loop
	 * ends. */
	while ((timer = TAILQ_FIRST(&core->timers)) && timer->due_at_ns <= now_ns) {
		inc_core_timer_stop(timer);
		timer->fn(timer->arg);
	}
}

void inc_core_wait_begin(struct inc_core_wait *wait)
{
	wait->began_at_ns = wait->timer.core->now.awake_ns;
	inc_core_timer_arm(&wait->timer, INC_WAIT_FIRST_MS);
}

unsigned int inc_core_wait_go_on(struct inc_core_wait *wait)
{
	inc_core_timer_arm(&wait->timer, INC_WAIT_NEXT_MS);
	return (wait->timer.core->now.awake_ns - wait->began_at_ns) / INC_NSEC_PER_SEC;
}

uint64_t inc_core_due_at_ns(const struct inc_core *core)
{
	const struct inc_core_timer *first = TAILQ_FIRST(&core->timers);

	return first ? first->due_at_ns : 0;
}
