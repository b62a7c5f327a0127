/* SPDX-License-Identifier: BSD-2-Clause */
/* What workers have to tell, on its way to the daemon's thread. */
#ifndef INC_TERM_NOTICES_H
#define INC_TERM_NOTICES_H

#include <stdint.h>
#include <event2/event.h>
#include "lib/base/err.h"
#include "userspace/engine.h"
#include "userspace/term/node.h"

struct inc_term_notices;

/* fn is called from the base's loop, in the order in which things were told. */
int inc_term_notices_new(struct event_base *base, inc_notice_fn fn, void *arg,
			 struct inc_term_notices **out, struct inc_err *err);
/* After the threads that tell have ended. */
void inc_term_notices_free(struct inc_term_notices *n);
/* Any thread. arg: the notices. */
void inc_term_notices_tell(void *arg, uint32_t communicator, uint64_t number,
			   const struct inc_term_report *report);
/* What was told of a communicator, which is gone, is not passed on. */
void inc_term_notices_forget(struct inc_term_notices *n, uint32_t communicator);

#endif
