/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which of several controllers leads. Controllers whose database is etcd have one key in common. A
 * controller leads while this key exists with its own lease. Each transaction of the database
 * compares the key's create revision, which no two leaders have in common. It also compares and
 * changes the key "sequence". So a request that a member of etcd carries out late, or twice,
 * changes nothing. If the answer to a request is lost, the sequence shows whether it was carried
 * out.
 *
 * The leader gives a sign of life as often as it asks etcd to keep its lease. A controller that
 * stands by sees these signs. If none has come for longer than the lease's time, it deletes the
 * leader's key, by a transaction that compares the last sign. After an election of its own, etcd
 * would keep the key longer. A controller that has lost its lead ends its lease as soon as it
 * has begun again.
 *
 * Messages to peers cannot be compared in this way. So a controller also stops by its own clock. It
 * calls inc_lease_check() before each message, and again before bytes that have waited are written.
 * That calls `lost` if the time of the lease, less a margin, has passed since the older of two
 * requests was sent. They are the last one that kept the lease, and the last one that wrote a sign
 * of life. CLOCK_BOOTTIME also counts the time in which the machine was suspended, and no program
 * can set this clock.
 *
 * All functions run on the thread of the controller's loop.
 */
#ifndef INC_LEASE_H
#define INC_LEASE_H

#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>
#include "controller/store/etcd.h"
#include "lib/base/err.h"

struct event_base;
struct inc_lease;

struct inc_lease_ops {
	/* The controller leads from now on. */
	void (*elected)(void *arg);
	/* The controller does not lead any more, for this reason. It must not return to its caller,
	 * which may be about to send a message. */
	void (*lost)(void *arg, const char *why) __attribute__((noreturn));
};

/* Opens the database's etcd, and tries to become the leader until it is one. Returns 0, or -errno
 * with the reason. */
int inc_lease_start(struct event_base *base, const char *database,
		    const struct inc_etcd_files *files, const struct inc_lease_ops *ops, void *arg,
		    struct inc_lease **out, struct inc_err *err);
/* Gives the lead up, so that another controller can have it at once, and frees all. NULL is
 * allowed. */
void inc_lease_stop(struct inc_lease *lease);

bool inc_lease_leads(const struct inc_lease *lease);
struct inc_etcd *inc_lease_etcd(const struct inc_lease *lease);
/* Carries out operations (etcd.h) as one transaction, if this controller leads. It blocks the loop
 * for WRITE_MS at most. ops: a list, consumed. Returns 0 or -ENOMEM. Any other failure ends the
 * lead, because etcd may carry the change out all the same. */
int inc_lease_transact(struct inc_lease *lease, json_t *ops, struct inc_err *err);
/* Asks etcd to keep the lease, and writes a sign of life, each if it is due. Does nothing unless
 * this controller leads. The loop does so by itself, and so does inc_etcd_call() while it waits.
 * Code that holds the loop up with several requests calls this between them. */
void inc_lease_keep(struct inc_lease *lease);
/* Does not return if the controller may not lead any more. NULL is allowed. */
void inc_lease_check(const struct inc_lease *lease);
/* Ends the lead for this reason. Does not return. */
void inc_lease_lose(const struct inc_lease *lease, const char *why) __attribute__((noreturn));

/* The path of the leader's key below the prefix. */
#define INC_LEASE_KEY "leader"
/* The path of the key with the leader's last sign of life. Its value is a time in nanoseconds of
 * the leader's CLOCK_BOOTTIME, from which on the leader acts for the time of its lease at most. */
#define INC_LEASE_ALIVE_KEY "alive"

#endif
