/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The controller's database: a file of SQLite that one controller at a time has open. It knows rows
 * (rows.h) and transactions, and nothing of what they are about: keep.c writes them, restore.c
 * reads them. All of it on the thread of the controller's loop, which waits meanwhile.
 */
#ifndef INC_STORE_H
#define INC_STORE_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/base/err.h"
#include "controller/store/rows.h"

#define INC_STORE_VERSION 1

struct inc_store;

/*
 * Opens the file, makes it where it is not there or empty, and checks it as a whole. *fresh: it
 * held nothing. 0, or -errno with a line that names the file: -EBUSY (another controller has it),
 * -EPROTONOSUPPORT (of a later version), -EINVAL (somebody else's), -EIO (damaged), and what the
 * system says. A file that is refused is as it was.
 */
int inc_store_open(const char *path, struct inc_store **store, bool *fresh, struct inc_err *err);
void inc_store_close(struct inc_store *store); /* NULL is fine */

/* Between begin and commit the others may be called; after an error rollback, and nothing of it has
 * been done. 0 or -errno: -ENOSPC, -EROFS, -EIO, -ENOMEM. */
int inc_store_begin(struct inc_store *store, struct inc_err *err);
int inc_store_commit(struct inc_store *store, struct inc_err *err);
void inc_store_rollback(struct inc_store *store);

/* Writes a row, in the place of one with the same keys. */
int inc_store_put(struct inc_store *store, enum inc_kept_table table, const void *row,
		  struct inc_err *err);
/* Removes the rows whose first key is this one. */
int inc_store_drop(struct inc_store *store, enum inc_kept_table table, uint32_t key,
		   struct inc_err *err);
/* Removes all rows of all tables. */
int inc_store_clear(struct inc_store *store, struct inc_err *err);

/* Reads all rows in the order of their keys, until fn returns something else than 0. 0, what fn has
 * returned, or -EIO where a row holds what its column cannot. */
typedef int (*inc_store_row)(const void *row, void *arg, struct inc_err *err);
int inc_store_each(struct inc_store *store, enum inc_kept_table table, inc_store_row fn, void *arg,
		   struct inc_err *err);

#endif
