/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The controller's database, which one controller at a time has: an SQLite file, or keys of an
 * etcd. This code knows rows (rows.h) and transactions, but not their meaning: write_rows.c writes
 * rows, and restore.c reads them. All of it runs on the thread of the controller's loop, which
 * waits meanwhile.
 */
#ifndef INC_STORE_H
#define INC_STORE_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/base/err.h"
#include "controller/store/rows.h"

struct inc_store;

/*
 * Opens the file, makes it if it is missing or empty, and checks all of it. *fresh: the file was
 * new. Returns 0, or -errno with a line that names the file: -EBUSY (another controller has it
 * open), -EPROTONOSUPPORT (a later version has written it), -EINVAL (another program's file), -EIO
 * (damaged), or the system's error. A refused file stays unchanged.
 */
int inc_store_open(const char *path, struct inc_store **store, bool *fresh, struct inc_err *err);
/*
 * Reads the database of the etcd in which the lease is, with the rules of inc_store_open(). An
 * earlier leader's change that was not completed is completed first. A commit that fails ends the
 * lead: it does not return (inc_lease_lose()), because etcd may carry the change out all the same.
 */
struct inc_lease;
int inc_store_open_etcd(struct inc_lease *lease, struct inc_store **store, bool *fresh,
			struct inc_err *err);
void inc_store_close(struct inc_store *store); /* Closes the database. store may be NULL. */

/* Rows are written and removed between begin and commit. After an error the caller calls rollback,
 * which undoes all changes since begin. The functions below return 0 or -errno, such as -ENOSPC,
 * -EROFS, -EIO, -ENOMEM. */
int inc_store_begin(struct inc_store *store, struct inc_err *err);
int inc_store_commit(struct inc_store *store, struct inc_err *err);
void inc_store_rollback(struct inc_store *store);

/* Writes a row into a table, in place of the row with the same keys. */
int inc_store_put(struct inc_store *store, enum inc_kept_table table, const void *row,
		  struct inc_err *err);
/* Removes the rows of a table whose first key has the value at this place. */
int inc_store_drop(struct inc_store *store, enum inc_kept_table table, const void *key,
		   struct inc_err *err);
/* Removes all rows of all tables. */
int inc_store_clear(struct inc_store *store, struct inc_err *err);

/* Passes each row of a table to fn, in the order of keys, until fn returns something else than 0.
 * Returns 0, fn's value, or -EIO if a row has a value that its column must not have. */
typedef int (*inc_store_row)(const void *row, void *arg, struct inc_err *err);
int inc_store_each(struct inc_store *store, enum inc_kept_table table, inc_store_row fn, void *arg,
		   struct inc_err *err);

#endif
