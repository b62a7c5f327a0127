/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include "lib/base/clock.h"
#include "lib/net/loop.h"

static int run(struct event_base *base)
{
	return event_base_dispatch(base) < 0 ? -EIO : 0;
}

static int arm(struct inc_timer *timer, unsigned int ms)
{
	const struct timeval tv = inc_timeval_of_ms(ms);

	return evtimer_add(timer->event, &tv) ? -ENOMEM : 0;
}

static void stop(struct inc_timer *timer)
{
	evtimer_del(timer->event);
}

static bool runs(const struct inc_timer *timer)
{
	return evtimer_pending(timer->event, NULL);
}

struct inc_loop inc_loop = {.run = run, .arm = arm, .stop = stop, .runs = runs};

static void on_time(evutil_socket_t fd, short what, void *arg)
{
	const struct inc_timer *timer = arg;

	timer->fn(timer->arg);
}

struct inc_timer *inc_timer_new(struct event_base *base, void (*fn)(void *arg), void *arg)
{
	struct inc_timer *timer = malloc(sizeof(*timer));

	if (!timer)
		return NULL;
	*timer = (struct inc_timer){.fn = fn, .arg = arg};
	timer->event = evtimer_new(base, on_time, timer);
	if (timer->event)
		return timer;
	free(timer);
	return NULL;
}

void inc_timer_free(struct inc_timer *timer)
{
	if (!timer)
		return;
	inc_timer_stop(timer);
	event_free(timer->event);
	free(timer);
}
