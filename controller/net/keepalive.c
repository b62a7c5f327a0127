/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds members that do not answer any more: a process that is stopped, or a host that is gone.
 * Each member receives pings, which libinccl answers on a thread of its own whatever the program
 * does. So a slow rank counts as alive. Silence is counted in ticks and not by the clock, because a
 * standstill of the controller itself must not make members look silent.
 */
#include <errno.h>
#include "controller/net/ctl.h"
#include "lib/net/loop.h"

/* Number of ticks in a member's time limit. A silent member is found at the end of its time limit,
 * or up to one tick before. */
#define TICKS 12

static unsigned int tick_ms(const struct inc_ctl *ctl)
{
	const unsigned int ms = ctl->opt.member_timeout_ms / TICKS;

	return ms ? ms : 1;
}

static void on_tick(void *arg)
{
	struct inc_ctl *ctl = arg;
	struct inc_client *client, *next;
	char reason[64];

	inc_timer_arm(ctl->keepalive, tick_ms(ctl));
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
	if (!ctl->opt.member_timeout_ms)
		return 0;
	ctl->keepalive = inc_timer_new(ctl->base, on_tick, ctl);
	return ctl->keepalive ? inc_timer_arm(ctl->keepalive, tick_ms(ctl)) : -ENOMEM;
}

void inc_keepalive_stop(struct inc_ctl *ctl)
{
	inc_timer_free(ctl->keepalive);
	ctl->keepalive = NULL;
}
