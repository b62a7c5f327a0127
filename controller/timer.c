/* SPDX-License-Identifier: BSD-2-Clause */
/* Timers of the event loop, and time limits, for every file of the controller. */
#include <stdlib.h>
#include "controller/ctl.h"
#include "lib/base/awake.h"
#include "lib/base/clock.h"

/* While a limit runs, it looks at the clock so often that it notices a standstill. */
#define LOOK_NS (INC_AWAKE_STEP_NS / 2)

struct inc_limit {
	struct event *event;
	struct inc_awake awake;
	uint64_t since_ns, limit_ns; /* by this limit's own time */
	inc_limit_fn *fn;
	void *arg;
};

void inc_ctl_arm(struct event *timer, unsigned int ms)
{
	const struct timeval tv = inc_timeval_of_ms(ms);

	event_add(timer, &tv);
}

static void look_again(struct inc_limit *limit)
{
	const uint64_t end_ns =
		inc_awake_limit_at_ns(&limit->awake, limit->since_ns, limit->limit_ns);
	const uint64_t left_ns = end_ns > limit->awake.now_ns ? end_ns - limit->awake.now_ns : 0;
	const uint64_t ns = left_ns < LOOK_NS ? left_ns : LOOK_NS;
	const struct timeval tv = {.tv_usec = (ns + INC_NSEC_PER_USEC - 1) / INC_NSEC_PER_USEC};

	event_add(limit->event, &tv);
}

static void on_look(evutil_socket_t fd, short what, void *arg)
{
	struct inc_limit *limit = arg;

	inc_awake_now_ns(&limit->awake);
	if (!limit->limit_ns || inc_awake_past(&limit->awake, limit->since_ns, limit->limit_ns))
		limit->fn(limit->arg); /* which may free the limit */
	else
		look_again(limit);
}

struct inc_limit *inc_limit_new(struct event_base *base, inc_limit_fn *fn, void *arg)
{
	struct inc_limit *limit = calloc(1, sizeof(*limit));

	if (!limit)
		return NULL;
	limit->fn = fn;
	limit->arg = arg;
	limit->event = evtimer_new(base, on_look, limit);
	if (!limit->event) {
		free(limit);
		return NULL;
	}
	return limit;
}

void inc_limit_arm(struct inc_limit *limit, unsigned int ms)
{
	limit->awake = (struct inc_awake){0};
	limit->since_ns = inc_awake_now_ns(&limit->awake);
	limit->limit_ns = ms * INC_NSEC_PER_MSEC;
	look_again(limit);
}

void inc_limit_stop(struct inc_limit *limit)
{
	event_del(limit->event);
}

void inc_limit_free(struct inc_limit *limit)
{
	if (!limit)
		return;
	event_free(limit->event);
	free(limit);
}
