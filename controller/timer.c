/* SPDX-License-Identifier: BSD-2-Clause */
/* Timers of the event loop, for every file of the controller. */
#include "controller/ctl.h"
#include "lib/base/clock.h"

void inc_ctl_arm(struct event *timer, unsigned int ms)
{
	const struct timeval tv = inc_timeval_of_ms(ms);

	event_add(timer, &tv);
}
