/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by store.c, which writes and reads rows, and store_open.c. */
#ifndef INC_STORE_PRIV_H
#define INC_STORE_PRIV_H

#include <sqlite3.h>
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

#endif
