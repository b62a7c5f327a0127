/* SPDX-License-Identifier: BSD-2-Clause */
/* Timers of the event loop, for every file of the controller. */
#include <sys/time.h>
#include "controller/ctl.h"

void inc_ctl_arm(struct event *timer, unsigned int ms)
{
	struct timeval tv = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};

	event_add(timer, &tv);
}
