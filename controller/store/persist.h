/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the controller remembers when it is killed. The core's actions name what has changed
 * (ACTION_STORE). controller/net/carry.c adds these here, and the code that sends calls
 * inc_persist_before_send() before each message, so that all changes are in the database, as one
 * transaction, before anybody can know of them. If the database cannot be written, nothing new
 * begins, and what runs goes on: the core is right, and the file is written anew as soon as that is
 * possible.
 *
 * Without a database keep is NULL, and all functions do nothing. Everything runs on the thread of
 * the controller's loop.
 */
#ifndef INC_PERSIST_H
#define INC_PERSIST_H

#include <stdbool.h>
#include <stdint.h>
#include "controller/core/action.h"
#include "lib/base/err.h"
#include "lib/metric/metric.h"

#define INC_PERSIST_DEFAULT "/var/lib/inc/controller.db" /* its directory is made, too */
#define INC_PERSIST_NOTHING "none"

struct event_base;
struct inc_core;
struct inc_persist;

#define INC_PERSIST_COUNTS(_, T)                                  \
	_(T, stored, "", COUNTER, "transactions of the database") \
	_(T, unstored, "", COUNTER, "transactions of the database that could not be written")

struct inc_persist_counts { /* so far */
	INC_PERSIST_COUNTS(INC_METRIC_FIELD, inc_persist_counts)
};

/* Opens the database and brings back into the core what it holds. *keep is NULL if path is
 * INC_PERSIST_NOTHING. 0, or -errno with the reason; *keep is the caller's to stop in any case. */
int inc_persist_start(struct inc_core *core, struct event_base *base, const char *path,
		      struct inc_persist_counts *counts, struct inc_persist **persist,
		      struct inc_err *err);
/* From here on nothing is stored: what ends because the controller does is not over. */
void inc_persist_stop(struct inc_persist *persist);

/* An ACTION_STORE, which is keep's to free now. It is written soon, even if nothing is told to
 * anybody. */
void inc_persist_add(struct inc_persist *persist, struct inc_action *action);
/* An ACTION_STORE was lost for want of memory: everything is written instead. */
void inc_persist_lost(struct inc_persist *persist);
/* Writes all that was added. 0, or -errno and why it could not be written. */
int inc_persist_now(struct inc_persist *persist, struct inc_err *err);
void inc_persist_before_send(struct inc_persist *persist);

#endif
