/* SPDX-License-Identifier: BSD-2-Clause */
/* Rows and transactions of a database in an SQLite file (store.h). store_open.c opens the file. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "controller/store/store_priv.h"

static struct inc_sqlite *sqlite(struct inc_store *base)
{
	return (struct inc_sqlite *)base;
}

int inc_sqlite_error(struct inc_sqlite *store, const char *doing, struct inc_err *err)
{
	const int code = sqlite3_errcode(store->db);
	int ret = EIO;

	switch (code & 0xff) {
	case SQLITE_FULL:
		ret = ENOSPC;
		break;
	case SQLITE_READONLY:
		ret = EROFS;
		break;
	case SQLITE_NOMEM:
		ret = ENOMEM;
		break;
	case SQLITE_BUSY:
		ret = EBUSY;
		break;
	}
	return inc_err_set(err, ret, "database %s: %s: %s", store->base.path, doing,
			   sqlite3_errmsg(store->db));
}

int inc_sqlite_exec(struct inc_sqlite *store, const char *sql, const char *doing,
		    struct inc_err *err)
{
	return sqlite3_exec(store->db, sql, NULL, NULL, NULL) ? inc_sqlite_error(store, doing, err)
							      : 0;
}

static int sqlite_begin(struct inc_store *base, struct inc_err *err)
{
	return inc_sqlite_exec(sqlite(base), "BEGIN IMMEDIATE", "begin", err);
}

static int sqlite_commit(struct inc_store *base, struct inc_err *err)
{
	return inc_sqlite_exec(sqlite(base), "COMMIT", "commit", err);
}

static void sqlite_rollback(struct inc_store *base)
{
	struct inc_sqlite *store = sqlite(base);

	/* Some errors end the transaction by themselves, so there may be nothing to roll back. */
	if (!sqlite3_get_autocommit(store->db))
		sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
}

/* Returns a table's SQL statement, which is made when it is first used and stored in *kept. form is
 * the function that writes its text. */
static sqlite3_stmt *statement(struct inc_sqlite *store, sqlite3_stmt **kept,
			       enum inc_kept_table table,
			       void (*form)(FILE *out, const struct inc_kept_layout *layout))
{
	char sql[2048] = "";
	FILE *out;

	if (*kept)
		return *kept;
	out = fmemopen(sql, sizeof(sql), "w");
	if (!out)
		return NULL;
	form(out, &inc_kept_layouts[table]);
	fclose(out);
	sqlite3_prepare_v3(store->db, sql, -1, SQLITE_PREPARE_PERSISTENT, kept, NULL);
	return *kept;
}

static void form_put(FILE *out, const struct inc_kept_layout *layout)
{
	fprintf(out, "INSERT OR REPLACE INTO %s (", layout->name);
	for (unsigned int i = 0; i < layout->n; i++)
		fprintf(out, "%s\"%s\"", i ? "," : "", layout->columns[i].name);
	fprintf(out, ") VALUES (");
	for (unsigned int i = 0; i < layout->n; i++)
		fprintf(out, "%s?", i ? "," : "");
	fprintf(out, ")");
}

static void form_drop(FILE *out, const struct inc_kept_layout *layout)
{
	fprintf(out, "DELETE FROM %s WHERE %s = ?", layout->name, layout->columns[0].name);
}

static void form_each(FILE *out, const struct inc_kept_layout *layout)
{
	fprintf(out, "SELECT ");
	for (unsigned int i = 0; i < layout->n; i++)
		fprintf(out, "%s\"%s\"", i ? "," : "", layout->columns[i].name);
	fprintf(out, " FROM %s ORDER BY ", layout->name);
	for (unsigned int i = 0; i < layout->n_keys; i++)
		fprintf(out, "%s\"%s\"", i ? "," : "", layout->columns[i].name);
}

static void bind_column(sqlite3_stmt *stmt, unsigned int i, const struct inc_kept_column *c,
			const void *row)
{
	const void *at = (const char *)row + c->offset;

	if (c->kind == INC_KEPT_TEXT)
		sqlite3_bind_text(stmt, i + 1, at, -1, SQLITE_STATIC);
	else if (c->kind == INC_KEPT_WORD)
		sqlite3_bind_text(stmt, i + 1, c->words[inc_kept_load(c, at)], -1, SQLITE_STATIC);
	else
		sqlite3_bind_int64(stmt, i + 1, inc_kept_load(c, at));
}

static int run(struct inc_sqlite *store, sqlite3_stmt *stmt, const char *doing, struct inc_err *err)
{
	int ret = 0;

	if (sqlite3_step(stmt) != SQLITE_DONE)
		ret = inc_sqlite_error(store, doing, err);
	sqlite3_reset(stmt);
	sqlite3_clear_bindings(stmt);
	return ret;
}

static int sqlite_put(struct inc_store *base, enum inc_kept_table table, const void *row,
		      struct inc_err *err)
{
	const struct inc_kept_layout *layout = &inc_kept_layouts[table];
	struct inc_sqlite *store = sqlite(base);
	sqlite3_stmt *stmt = statement(store, &store->put[table], table, form_put);

	if (!stmt)
		return inc_sqlite_error(store, layout->name, err);
	for (unsigned int i = 0; i < layout->n; i++)
		bind_column(stmt, i, &layout->columns[i], row);
	return run(store, stmt, layout->name, err);
}

static int sqlite_drop(struct inc_store *base, enum inc_kept_table table, const void *key,
		       struct inc_err *err)
{
	struct inc_sqlite *store = sqlite(base);
	sqlite3_stmt *stmt = statement(store, &store->drop[table], table, form_drop);
	const struct inc_kept_column *column = &inc_kept_layouts[table].columns[0];

	if (!stmt)
		return inc_sqlite_error(store, inc_kept_layouts[table].name, err);
	bind_column(stmt, 0, column, (const char *)key - column->offset);
	return run(store, stmt, inc_kept_layouts[table].name, err);
}

static int sqlite_clear(struct inc_store *base, struct inc_err *err)
{
	char sql[80];
	int ret = 0;

	for (unsigned int t = 0; !ret && t < INC_N_KEPT_TABLES; t++) {
		snprintf(sql, sizeof(sql), "DELETE FROM %s", inc_kept_layouts[t].name);
		ret = inc_sqlite_exec(sqlite(base), sql, inc_kept_layouts[t].name, err);
	}
	return ret;
}

/* Reads the value of a column into its field of the row. Returns 0, or -EIO if the column must not
 * have this value. */
static int take_column(struct inc_sqlite *store, sqlite3_stmt *stmt, unsigned int i,
		       const struct inc_kept_layout *layout, void *row, struct inc_err *err)
{
	const struct inc_kept_column *c = &layout->columns[i];
	const bool text = c->kind != INC_KEPT_NUMBER;
	const int type = sqlite3_column_type(stmt, i);
	void *at = (char *)row + c->offset;
	const int64_t number = sqlite3_column_int64(stmt, i);
	const char *said = text ? (const char *)sqlite3_column_text(stmt, i) : NULL;

	if (c->kind == INC_KEPT_NUMBER && type == SQLITE_INTEGER && number >= 0 &&
	    number <= c->max) {
		inc_kept_set(c, at, number);
		return 0;
	}
	if (c->kind == INC_KEPT_TEXT && type == SQLITE_TEXT && said && strlen(said) < c->size) {
		strcpy(at, said);
		return 0;
	}
	for (uint32_t k = 0; c->kind == INC_KEPT_WORD && said && c->words[k]; k++) {
		if (strcmp(c->words[k], said) != 0)
			continue;
		inc_kept_set(c, at, k);
		return 0;
	}
	return inc_err_set(err, EIO, "database %s: %s.%s cannot be '%.64s'", store->base.path,
			   layout->name, c->name,
			   (const char *)sqlite3_column_text(stmt, i) ?: "NULL");
}

static int sqlite_each(struct inc_store *base, enum inc_kept_table table, inc_store_row fn,
		       void *arg, struct inc_err *err)
{
	const struct inc_kept_layout *layout = &inc_kept_layouts[table];
	struct inc_sqlite *store = sqlite(base);
	sqlite3_stmt *stmt = NULL;
	void *row = malloc(layout->row_size);
	int ret = 0, step = SQLITE_DONE;

	if (!row)
		return inc_err_set(err, ENOMEM, "out of memory");
	if (!statement(store, &stmt, table, form_each))
		ret = inc_sqlite_error(store, layout->name, err);
	while (!ret && (step = sqlite3_step(stmt)) == SQLITE_ROW) {
		memset(row, 0, layout->row_size);
		for (unsigned int i = 0; !ret && i < layout->n; i++)
			ret = take_column(store, stmt, i, layout, row, err);
		if (!ret)
			ret = fn(row, arg, err);
	}
	if (!ret && step != SQLITE_DONE)
		ret = inc_sqlite_error(store, layout->name, err);
	sqlite3_finalize(stmt);
	free(row);
	return ret;
}

static void sqlite_close(struct inc_store *base)
{
	struct inc_sqlite *store = sqlite(base);

	for (unsigned int t = 0; t < INC_N_KEPT_TABLES; t++) {
		sqlite3_finalize(store->put[t]);
		sqlite3_finalize(store->drop[t]);
	}
	sqlite3_close(store->db);
	free(store);
}

const struct inc_store_ops inc_sqlite_ops = {
	.close = sqlite_close,
	.begin = sqlite_begin,
	.commit = sqlite_commit,
	.rollback = sqlite_rollback,
	.put = sqlite_put,
	.drop = sqlite_drop,
	.clear = sqlite_clear,
	.each = sqlite_each,
};
