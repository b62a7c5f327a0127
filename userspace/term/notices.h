/* SPDX-License-Identifier: BSD-2-Clause */
/* A queue of the workers' reports, for the daemon's thread. */
#ifndef INC_TERM_NOTICES_H
#define INC_TERM_NOTICES_H

#include <stdint.h>
#include <event2/event.h>
#include "lib/base/err.h"
#include "userspace/engine.h"
#include "userspace/term/node.h"

struct inc_term_notices;

/* fn is called from the base's event loop, in the order in which reports were queued. */
int inc_term_notices_new(struct event_base *base, inc_notice_fn fn, void *arg,
			 struct inc_term_notices **out, struct inc_err *err);
/* To be called after all threads that report have ended. */
void inc_term_notices_free(struct inc_term_notices *n);
/* Queues a report. May be called on any thread. arg: the queue. */
void inc_term_notices_tell(void *arg, uint32_t communicator, uint64_t number,
			   const struct inc_term_report *report);
/* Discards queued reports of a communicator, because it has been removed. */
void inc_term_notices_forget(struct inc_term_notices *n, uint32_t communicator);

#endif
