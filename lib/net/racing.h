/* SPDX-License-Identifier: BSD-2-Clause */
/* A race (race.h) in an event loop: of inc-switchd and libinc_connect. All of it is on the loop's
 * thread. Part of libinc_event.a. */
#ifndef INC_RACING_H
#define INC_RACING_H

#include <stdint.h>

struct addrinfo;
struct event_base;
struct inc_racing;

/* From the loop, once, and the race is gone then: a connected socket, which is the callee's, or
 * -errno as of inc_race_step(). */
typedef void (*inc_racing_done)(void *arg, int fd);

/* The list must outlive the race. 0 or -errno. */
int inc_racing_start(struct event_base *base, const struct addrinfo *list, uint64_t deadline_ns,
		     inc_racing_done done, void *arg, struct inc_racing **out);
/* No callback comes any more. NULL is fine. */
void inc_racing_cancel(struct inc_racing *racing);

#endif
