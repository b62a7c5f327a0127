/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include "lib/base/clock.h"
#include "lib/net/loop.h"
#include "lib/net/race.h"
#include "lib/net/racing.h"

struct inc_racing {
	struct inc_race race;
	struct event_base *base;
	struct inc_timer *timer; /* timer of the next step */
	/* An array with one event for each attempt to connect, which comes when the attempt's
	 * socket is writable. An entry is NULL if its attempt has no event. */
	struct event **watch;
	inc_racing_done done;
	void *arg;
};

/* Removes the events for the sockets of all attempts. Called before each step of the race, because
 * a step closes sockets. */
static void unwatch(struct inc_racing *racing)
{
	unsigned int i;

	for (i = 0; i < racing->race.started; i++) {
		if (racing->watch[i])
			event_free(racing->watch[i]);
		racing->watch[i] = NULL;
	}
}

void inc_racing_cancel(struct inc_racing *racing)
{
	if (!racing)
		return;
	if (racing->watch)
		unwatch(racing);
	free(racing->watch);
	inc_timer_free(racing->timer);
	inc_race_end(&racing->race);
	free(racing);
}

static void on_event(evutil_socket_t fd, short what, void *arg);

/* Waits until an attempt to connect is connected or has failed, or until next_at_ns. Returns 0 or
 * -ENOMEM. */
static int watch(struct inc_racing *racing, uint64_t next_at_ns)
{
	unsigned int i;

	for (i = 0; i < racing->race.started; i++) {
		if (racing->race.runner[i].fd < 0)
			continue;
		racing->watch[i] = event_new(racing->base, racing->race.runner[i].fd, EV_WRITE,
					     on_event, racing);
		if (!racing->watch[i] || event_add(racing->watch[i], NULL))
			return -ENOMEM;
	}
	return inc_timer_arm(racing->timer, inc_ms_until(next_at_ns, inc_now_ns()));
}

static void step(void *arg)
{
	struct inc_racing *racing = arg;
	const inc_racing_done done = racing->done;
	void *owner = racing->arg;
	uint64_t next_at_ns;
	int ret;

	unwatch(racing);
	ret = inc_race_step(&racing->race, &next_at_ns);
	if (ret == -EINPROGRESS) {
		ret = watch(racing, next_at_ns);
		if (!ret)
			return;
	}
	inc_racing_cancel(racing);
	done(owner, ret);
}

static void on_event(evutil_socket_t fd, short what, void *arg)
{
	step(arg);
}

int inc_racing_start(struct event_base *base, const struct addrinfo *list, uint64_t deadline_ns,
		     inc_racing_done done, void *arg, struct inc_racing **out)
{
	struct inc_racing *racing = calloc(1, sizeof(*racing));

	if (!racing)
		return -ENOMEM;
	racing->base = base;
	racing->done = done;
	racing->arg = arg;
	racing->timer = inc_timer_new(base, step, racing);
	if (racing->timer && !inc_race_begin(&racing->race, list, deadline_ns))
		racing->watch = calloc(racing->race.addresses + 1, sizeof(*racing->watch));
	/* the loop makes the first step of the race, too, because only the loop may call done */
	if (!racing->watch || inc_timer_arm(racing->timer, 0)) {
		inc_racing_cancel(racing);
		return -ENOMEM;
	}
	*out = racing;
	return 0;
}
