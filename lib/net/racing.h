/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A race (race.h) in an event loop, for inc-switchd and libinc_connect. All functions run on the
 * loop's thread. They are part of libinc_event.a.
 */
#ifndef INC_RACING_H
#define INC_RACING_H

#include <stdint.h>

struct addrinfo;
struct event_base;
struct inc_racing;

/* The function of the owner that receives the result of a race. The loop calls it once, after it
 * has freed the race. fd: a connected socket, which the function owns, or -errno as from
 * inc_race_step(). */
typedef void (*inc_racing_done)(void *arg, int fd);

/* Starts a race among the addresses in list, which must outlive the race. Returns 0 or -errno. */
int inc_racing_start(struct event_base *base, const struct addrinfo *list, uint64_t deadline_ns,
		     inc_racing_done done, void *arg, struct inc_racing **out);
/* Ends and frees a race; its function done is not called any more. NULL is allowed. */
void inc_racing_cancel(struct inc_racing *racing);

#endif
