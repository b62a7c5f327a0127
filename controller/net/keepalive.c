/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Members that do not answer any more: a process that is stopped, a host that is gone without a
 * word. Each is asked by pings, which the library answers on a thread of its own, whatever the
 * program does meanwhile; so a slow rank is not a silent one. Silence is counted in ticks and not
 * by the clock: where the controller itself stood still, nobody has been silent.
 */
#include <errno.h>
#include <event2/event.h>
#include "controller/net/ctl.h"
#include "controller/net/keepalive.h"
#include "lib/base/clock.h"

/* Ticks in the time limit. The stop is noticed between one tick less and all of it after it. */
#define TICKS 12

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct inc_ctl *ctl = arg;
	struct inc_client *client, *next;
	char reason[64];

	snprintf(reason, sizeof(reason), "no answer for %u ms", ctl->opt.member_timeout_ms);

	for (client = TAILQ_FIRST(&ctl->clients); client; client = next) {
		next = TAILQ_NEXT(client, entry);
		if (!client->core.member)
			continue;
		if (++client->silent_ticks >= TICKS)
			inc_client_close(client, ctl->opt.member_timeout_ms, reason);
		else
			inc_client_send(client, INC_MSG_PING, NULL);
	}
}

int inc_keepalive_start(struct inc_ctl *ctl)
{
	const unsigned int ms = ctl->opt.member_timeout_ms / TICKS;
	const struct timeval tv = inc_timeval_of_ms(ms ? ms : 1);

	if (!ctl->opt.member_timeout_ms)
		return 0;
	ctl->keepalive = event_new(ctl->base, -1, EV_PERSIST, on_tick, ctl);
	return ctl->keepalive && !event_add(ctl->keepalive, &tv) ? 0 : -ENOMEM;
}

void inc_keepalive_stop(struct inc_ctl *ctl)
{
	if (ctl->keepalive)
		event_free(ctl->keepalive);
	ctl->keepalive = NULL;
}
