/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by store.c, which passes calls on, and the two kinds of databases: store_sqlite.c and
 * store_open.c, which have a file, and store_etcd.c. */
#ifndef INC_STORE_PRIV_H
#define INC_STORE_PRIV_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "controller/store/rows.h"
#include "controller/store/store.h"
#include "lib/base/err.h"

/* The version of the schema, which a file has as its user_version, and an etcd in a key. A table or
 * column that is new, gone or renamed makes the next version, with a step that converts a database
 * of the version before (store_open.c for a file; check_version() in store_etcd.c for an etcd). */
#define INC_STORE_VERSION 5

/* The functions of a kind of databases, with the rules of store.h. */
struct inc_store_ops {
	void (*close)(struct inc_store *store); /* also frees the struct, but not its path */
	int (*begin)(struct inc_store *store, struct inc_err *err);
	int (*commit)(struct inc_store *store, struct inc_err *err);
	void (*rollback)(struct inc_store *store);
	int (*put)(struct inc_store *store, enum inc_kept_table table, const void *row,
		   struct inc_err *err);
	int (*drop)(struct inc_store *store, enum inc_kept_table table, const void *key,
		    struct inc_err *err);
	int (*clear)(struct inc_store *store, struct inc_err *err);
	int (*each)(struct inc_store *store, enum inc_kept_table table, inc_store_row fn, void *arg,
		    struct inc_err *err);
};

struct inc_store { /* the first member of the struct of each kind */
	const struct inc_store_ops *ops;
	char *path;
};

struct inc_sqlite {
	struct inc_store base;
	sqlite3 *db;
	sqlite3_stmt *put[INC_N_KEPT_TABLES], *drop[INC_N_KEPT_TABLES];
};

extern const struct inc_store_ops inc_sqlite_ops;

/* Returns -errno for SQLite's last error. It writes a line with the file, the failed action and the
 * reason into err. */
int inc_sqlite_error(struct inc_sqlite *store, const char *doing, struct inc_err *err);
/* Runs SQL statements that have no result. Returns 0 or -errno. */
int inc_sqlite_exec(struct inc_sqlite *store, const char *sql, const char *doing,
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
