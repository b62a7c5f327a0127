/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keeps the core's objects in the database, so that they outlive the controller. The core's actions
 * name the rows that have changed (ACTION_STORE), and controller/net/carry.c adds these here. The
 * code that sends messages calls inc_persist_before_send() before each message. So all changes are
 * in the database, as one transaction, before any peer can learn of them. If the database cannot be
 * written, nothing new begins, and communicators continue to run. The core's state stays right, and
 * the whole file is written as soon as that is possible.
 *
 * A database in etcd is written in the same way, and the loop waits for the answer. But a
 * transaction that fails ends this controller's lead at once, before any message is sent (lease.h).
 *
 * Without a database the pointer is NULL, and all functions do nothing. Everything runs on the
 * thread of the controller's loop.
 */
#ifndef INC_PERSIST_H
#define INC_PERSIST_H

#include <stdbool.h>
#include <stdint.h>
#include "controller/core/action.h"
#include "lib/base/err.h"
#include "lib/metric/metric.h"

/* Default path. The directory of the database is made if it is missing. */
#define INC_PERSIST_DEFAULT "/var/lib/inc/controller.db"
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

/* Opens the database, and restores its objects into the core. Sets *persist to NULL if path is
 * INC_PERSIST_NOTHING. Returns 0, or -errno with the reason. Even after an error the caller stops
 * *persist. */
int inc_persist_start(struct inc_core *core, struct event_base *base, const char *path,
		      struct inc_persist_counts *counts, struct inc_persist **persist,
		      struct inc_err *err);
/* Does the same with the database of the etcd in which this controller has the lead. lease must
 * outlive *persist. */
struct inc_lease;
int inc_persist_start_etcd(struct inc_core *core, struct event_base *base, struct inc_lease *lease,
			   struct inc_persist_counts *counts, struct inc_persist **persist,
			   struct inc_err *err);
/* Stops writing to the database. Objects that end with the controller stay in it. */
void inc_persist_stop(struct inc_persist *persist);

/* Adds an ACTION_STORE to the changes that the next transaction writes. It comes soon, even if no
 * message follows. inc_persist frees the action. */
void inc_persist_add(struct inc_persist *persist, struct inc_action *action);
/* Makes the next transaction write the whole core, because an ACTION_STORE was lost for want of
 * memory. */
void inc_persist_lost(struct inc_persist *persist);
/* Writes all changes to the database. Returns 0, or -errno with the reason why it could not be
 * written. */
int inc_persist_now(struct inc_persist *persist, struct inc_err *err);
/* Writes all changes to the database before a message is sent. After a failed transaction it does
 * nothing. It does not return if this controller does not lead any more. */
void inc_persist_before_send(struct inc_persist *persist);

#endif
