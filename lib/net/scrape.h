/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A server of one page over HTTP, in the daemon's event loop: of metrics at /metrics, or of another
 * page. Part of libinc_event.a.
 *
 * A page is written in parts, each when the one before has been sent. So the loop never waits for
 * a page, no page is in memory as a whole, and a slow reader delays only itself. Any client that
 * reaches the address can read the page, but it can change nothing. Other paths are answered with
 * 404, other methods with 405. Requests are limited in size and in time from the connection's
 * begin. Connections are limited in number and in time.
 */
#ifndef INC_SCRAPE_H
#define INC_SCRAPE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <event2/event.h>
#include "lib/base/err.h"

/* limit of descriptors: those of the clients and that of the listener */
#define INC_SCRAPE_DESCRIPTORS 9

struct inc_scrape;

/* The position in a page. All members 0: the page's begin. The writer of the page chooses what the
 * numbers count. */
struct inc_scrape_at {
	uint32_t section;
	uint32_t place;
};

/* Writes the next part of a page, at most some hundred lines, and moves *at behind it. Returns
 * false if it was the last part. */
typedef bool (*inc_scrape_part)(void *arg, struct inc_scrape_at *at, FILE *out);

/* Checks whether an option or a field of a file has the form ADDRESS or ADDRESS:PORT. */
int inc_scrape_check(const char *where, struct inc_err *err);

/* The properties of a server: its path and the headers of its answers. */
struct inc_scrape_site {
	const char *what; /* the word by which the log names the page */
	const char *path; /* the only path; any other one is answered with 404 */
	bool head;        /* the method HEAD is allowed, too */
	const struct inc_scrape_header {
		const char *name, *value;
	} * headers; /* ends with an empty entry */
};

/* Starts the server of metrics at an address that inc_scrape_check() accepts. Without a port the
 * kernel chooses a free one, which the log names. Returns 0, or -errno with the reason. */
int inc_scrape_start(struct event_base *base, const char *where, inc_scrape_part part, void *arg,
		     struct inc_scrape **out, struct inc_err *err);
/* Does the same for another page. The site must exist as long as the server. */
int inc_scrape_start_site(struct event_base *base, const char *where,
			  const struct inc_scrape_site *site, inc_scrape_part part, void *arg,
			  struct inc_scrape **out, struct inc_err *err);
/* Stops the server. s may be NULL. */
void inc_scrape_stop(struct inc_scrape *s);

#endif
