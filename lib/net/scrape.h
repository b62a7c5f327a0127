/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Figures for who collects them: GET /metrics over HTTP, in the daemon's event loop. Part of
 * libinc_event.a.
 *
 * A page is written in parts, each when the one before has gone out, so that the loop never waits
 * for a page, a page is never held as a whole, and who reads slowly gets it slowly. Anybody who
 * reaches the address may read it and learns what is in it; nothing can be changed there. Other
 * paths are answered with 404, other methods with 405; requests are bounded in size and, from the
 * connection's begin on, in time, connections in number and in time.
 */
#ifndef INC_SCRAPE_H
#define INC_SCRAPE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <event2/event.h>
#include "lib/base/err.h"

#define INC_SCRAPE_DESCRIPTORS 9 /* at most: those who read, and where they come in */

struct inc_scrape;

/* Where a page goes on; all 0: it begins. What the numbers count is the writer's. */
struct inc_scrape_at {
	uint32_t section;
	uint32_t place;
};

/* Writes the next part, at most some hundred lines, and moves *at behind it. False: that was the
 * last one. */
typedef bool (*inc_scrape_part)(void *arg, struct inc_scrape_at *at, FILE *out);

/* Whether a text is ADDRESS or ADDRESS:PORT; a check of options and files. */
int inc_scrape_check(const char *where, struct inc_err *err);

/* Listens there. Without a port it is any free one, which the log names. 0, or -errno and why. */
int inc_scrape_start(struct event_base *base, const char *where, inc_scrape_part part, void *arg,
		     struct inc_scrape **out, struct inc_err *err);
/* NULL is fine. */
void inc_scrape_stop(struct inc_scrape *s);

#endif
