/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by store.c, which writes and reads rows, and store_open.c. */
#ifndef INC_STORE_PRIV_H
#define INC_STORE_PRIV_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "controller/store/rows.h"
#include "controller/store/store.h"
#include "lib/base/err.h"

struct inc_store {
	sqlite3 *db;
	char *path;
	sqlite3_stmt *put[INC_N_KEPT_TABLES], *drop[INC_N_KEPT_TABLES];
};

/* Returns -errno for SQLite's last error. It writes a line with the file, the failed action and the
 * reason into err. */
int inc_store_error(struct inc_store *store, const char *doing, struct inc_err *err);
/* Runs SQL statements that have no result. Returns 0 or -errno. */
int inc_store_exec(struct inc_store *store, const char *sql, const char *doing,
		   struct inc_err *err);

/* Shared by persist.c, which decides when to write, write_rows.c, which makes rows of objects, and
 * restore.c, which makes objects of rows. */
struct inc_action;
struct inc_core;

/* write_rows.c: writes rows for the objects of the core as they are now. Each function returns 0 or
 * -errno. Objects that have not begun have no rows. */
/* Writes the row that an ACTION_STORE names, or removes it. */
int inc_rows_write_change(struct inc_store *store, struct inc_core *core,
			  const struct inc_action *change, struct inc_err *err);
/* Writes the rows of all objects in place of those in the file. The rows of the number allocators
 * stay. */
int inc_rows_write_all(struct inc_store *store, const struct inc_core *core, struct inc_err *err);
/* Writes the rows of the number allocators. */
int inc_rows_write_numbers(struct inc_store *store, const struct inc_core *core,
			   struct inc_err *err);

/* restore.c: makes the groups and communicators that the file has. An object that needs a host or
 * switch that is not in the topology any more is logged and left out. Returns 0, or -errno if the
 * file is damaged. */
int inc_restore(struct inc_core *core, const char *path, struct inc_store *store,
		struct inc_err *err);

#endif
