/* SPDX-License-Identifier: BSD-2-Clause */
/* A queue through which the workers' events reach the daemon's thread. */
#ifndef INC_TERM_NOTICES_H
#define INC_TERM_NOTICES_H

#include <stdint.h>
#include <event2/event.h>
#include "lib/base/err.h"
#include "userspace/engine.h"

struct inc_term_notices;

/* Creates a queue of events. The event loop of base calls fn for each event, in the order in which
 * they were queued. */
int inc_term_notices_new(struct event_base *base, inc_notice_fn fn, void *arg,
			 struct inc_term_notices **out, struct inc_err *err);
/* Frees the queue, after all threads that queue events have ended. */
void inc_term_notices_free(struct inc_term_notices *n);
/* Adds an event to the queue arg. May be called on any thread. */
void inc_term_notices_tell(void *arg, const struct inc_msg_event *event);
/* Discards queued events of a communicator, because it has been removed. */
void inc_term_notices_forget(struct inc_term_notices *n, uint32_t communicator);

#endif
