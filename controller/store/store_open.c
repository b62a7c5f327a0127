/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opens the controller's database in a file: checks that the file is a controller's, that no other
 * controller has it, and that it is not damaged, and makes or migrates the schema. Called once,
 * before the controller listens.
 *
 * The file is in WAL mode, and locked as long as it is open, so that a second controller cannot
 * open it and no memory is shared. After a commit a transaction is in the log, which outlives the
 * process. Only checkpoints wait for the disk (docs/decisions.md describes what a power failure can
 * lose).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include "controller/store/store_priv.h"
#include "lib/base/opt.h"

/* "INCC": the mark of our database files, which file(1) and this program check */
#define APPLICATION_ID 0x494e4343

_Static_assert(INC_N_RC_END_FIELDS == 4,
	       "a field of an end is a column: it makes the next INC_STORE_VERSION, with a step; "
	       "then change this number");

/* Converts a database of version 1 to version 2, in which the ends of a connection are called own
 * and peer. */
static int rename_ends(struct inc_sqlite *store, struct inc_err *err)
{
	static const char *const columns[] = {"qpn", "psn", "udp_port", "kind", "given"};
	static const struct {
		const char *table, *from, *to;
	} ends[] = {{"nodes", "up", "own"}, {"nodes", "down", "peer"}, {"members", "sw", "peer"}};
	char sql[120];
	int ret = 0;

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		for (size_t c = 0; !ret && c < sizeof(columns) / sizeof(columns[0]); c++) {
			snprintf(sql, sizeof(sql), "ALTER TABLE %s RENAME COLUMN %s_%s TO %s_%s",
				 ends[i].table, ends[i].from, columns[c], ends[i].to, columns[c]);
			ret = inc_sqlite_exec(store, sql, "cannot be converted", err);
		}
	return ret;
}

/* Converts a database of version 2 to version 3, in which a rank may have another one's connections
 * to switches. */
static int add_leaders(struct inc_sqlite *store, struct inc_err *err)
{
	return inc_sqlite_exec(store,
			       "ALTER TABLE ranks ADD COLUMN leader INTEGER NOT NULL DEFAULT 0; "
			       "UPDATE ranks SET leader = rank",
			       "cannot be converted", err);
}

/* Converts a database of version 3 to version 4, in which a host may have several NICs. */
static int add_rails(struct inc_sqlite *store, struct inc_err *err)
{
	return inc_sqlite_exec(store,
			       "ALTER TABLE members ADD COLUMN rail INTEGER NOT NULL DEFAULT 0",
			       "cannot be converted", err);
}

/* Converts a database of version 4 to version 5, which has what tools have set for switches. */
static int add_switches(struct inc_sqlite *store, struct inc_err *err)
{
	return inc_sqlite_exec(
		store,
		"CREATE TABLE switches (name TEXT NOT NULL, mode_set INTEGER NOT NULL, "
		"mode TEXT NOT NULL, gone INTEGER NOT NULL, PRIMARY KEY (name)) "
		"WITHOUT ROWID",
		"cannot be converted", err);
}

/* steps[v] converts a database of version v to the next one. All steps that a file needs are done
 * in one transaction. */
static int (*const steps[INC_STORE_VERSION])(struct inc_sqlite *store, struct inc_err *err) = {
	[1] = rename_ends,
	[2] = add_leaders,
	[3] = add_rails,
	[4] = add_switches,
};

/* Reads a number from the database by an SQL statement, such as a pragma. Returns -1 after an
 * error. */
static int64_t ask(struct inc_sqlite *store, const char *sql)
{
	sqlite3_stmt *stmt = NULL;
	int64_t value = -1;

	if (!sqlite3_prepare_v2(store->db, sql, -1, &stmt, NULL) &&
	    sqlite3_step(stmt) == SQLITE_ROW)
		value = sqlite3_column_int64(stmt, 0);
	sqlite3_finalize(stmt);
	return value;
}

/* Names in err the process that has the file locked. Returns -EBUSY. */
static int say_holder(const struct inc_sqlite *store, struct inc_err *err)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	int fd = open(store->base.path, O_RDWR | O_CLOEXEC);
	char who[40] = "";

	if (fd >= 0 && !fcntl(fd, F_GETLK, &lock) && lock.l_type != F_UNLCK && lock.l_pid > 0)
		snprintf(who, sizeof(who), " by process %d", (int)lock.l_pid);
	if (fd >= 0)
		close(fd);
	return inc_err_set(err, EBUSY,
			   "database %s is in use%s: one controller at a time can have it",
			   store->base.path, who);
}

/* Makes the file of the database with mode 0600, before SQLite opens it. The errors of open() are
 * more precise than SQLite's. */
static int make_file(const char *path, struct inc_err *err)
{
	struct stat st;
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600);

	if (fd < 0)
		return inc_err_set(err, errno, "database %s: %s", path, strerror(errno));
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		close(fd);
		return inc_err_set(err, EINVAL, "database %s is no file", path);
	}
	close(fd);
	return 0;
}

/* Checks whether the file is a database of a controller. Nothing is written before, so that another
 * program's file stays unchanged. Returns 0 or -errno. */
static int check_owner(struct inc_sqlite *store, int64_t *version, struct inc_err *err)
{
	const int64_t application = ask(store, "PRAGMA application_id");
	int64_t objects;

	*version = ask(store, "PRAGMA user_version");
	objects = ask(store, "SELECT count(*) FROM sqlite_schema");
	if (objects < 0 || *version < 0 || application < 0)
		return inc_sqlite_error(store, "cannot be read", err);
	if (!objects && !*version && !application)
		return 0;
	if (application != APPLICATION_ID)
		return inc_err_set(err, EINVAL,
				   "database %s is another program's, not a controller's",
				   store->base.path);
	if (*version > INC_STORE_VERSION)
		return inc_err_set(
			err, EPROTONOSUPPORT,
			"database %s has schema version %lld, this controller knows %d at "
			"most: a newer one has written it",
			store->base.path, (long long)*version, INC_STORE_VERSION);
	if (!*version)
		return inc_err_set(err, EINVAL, "database %s has no schema version",
				   store->base.path);
	return 0;
}

static void form_table(FILE *out, const struct inc_kept_layout *layout)
{
	fprintf(out, "CREATE TABLE %s (", layout->name);
	for (unsigned int i = 0; i < layout->n; i++)
		fprintf(out, "\"%s\" %s NOT NULL, ", layout->columns[i].name,
			layout->columns[i].kind == INC_KEPT_NUMBER ? "INTEGER" : "TEXT");
	fprintf(out, "PRIMARY KEY (");
	for (unsigned int i = 0; i < layout->n_keys; i++)
		fprintf(out, "%s\"%s\"", i ? "," : "", layout->columns[i].name);
	fprintf(out, ")) WITHOUT ROWID;");
}

static int make_tables(struct inc_sqlite *store, struct inc_err *err)
{
	char sql[8192] = "";
	FILE *out = fmemopen(sql, sizeof(sql), "w");

	if (!out)
		return inc_err_set(err, ENOMEM, "out of memory");
	for (unsigned int t = 0; t < INC_N_KEPT_TABLES; t++)
		form_table(out, &inc_kept_layouts[t]);
	fprintf(out, "PRAGMA application_id = %d;", APPLICATION_ID);
	fclose(out);
	return inc_sqlite_exec(store, sql, "cannot make its tables", err);
}

/* Makes the tables of a new database, or converts those of an older version, in one transaction. */
static int migrate(struct inc_sqlite *store, int64_t version, struct inc_err *err)
{
	const bool current = version == INC_STORE_VERSION;
	int ret = inc_store_begin(&store->base, err);

	if (!ret && !version)
		ret = make_tables(store, err);
	for (; !ret && version && version < INC_STORE_VERSION; version++)
		ret = steps[version] ? steps[version](store, err)
				     : inc_err_set(err, ENOTSUP,
						   "%s: no step converts schema version %lld",
						   store->base.path, (long long)version);
	if (!ret && !current)
		ret = inc_sqlite_exec(store, "PRAGMA user_version = " INC_STR(INC_STORE_VERSION),
				      "cannot be converted", err);
	ret = ret ?: inc_store_commit(&store->base, err);
	if (ret)
		inc_store_rollback(&store->base);
	return ret;
}

static int check_whole(struct inc_sqlite *store, struct inc_err *err)
{
	sqlite3_stmt *stmt = NULL;
	const char *said = NULL;
	int ret = 0;

	if (!sqlite3_prepare_v2(store->db, "PRAGMA integrity_check(1)", -1, &stmt, NULL) &&
	    sqlite3_step(stmt) == SQLITE_ROW)
		said = (const char *)sqlite3_column_text(stmt, 0);
	if (!said)
		ret = inc_sqlite_error(store, "is damaged", err);
	else if (strcmp(said, "ok") != 0)
		ret = inc_err_set(err, EIO, "database %s: is damaged: %s", store->base.path, said);
	sqlite3_finalize(stmt);
	return ret;
}

static int set_up(struct inc_sqlite *store, bool *fresh, struct inc_err *err)
{
	int64_t version;
	int ret;

	sqlite3_extended_result_codes(store->db, 1);
	ret = inc_sqlite_exec(store,
			      "PRAGMA locking_mode = EXCLUSIVE; PRAGMA synchronous = NORMAL;",
			      "cannot be set up", err);
	ret = ret ?: check_owner(store, &version, err);
	*fresh = !ret && !version;
	if (!ret && version)
		ret = check_whole(store, err);
	ret = ret ?: inc_sqlite_exec(store, "PRAGMA journal_mode = WAL", "cannot be set up", err);
	ret = ret ?: migrate(store, version, err);
	return ret == -EBUSY ? say_holder(store, err) : ret;
}

int inc_store_open(const char *path, struct inc_store **out, bool *fresh, struct inc_err *err)
{
	struct inc_sqlite *store;
	int ret = make_file(path, err);

	if (ret)
		return ret;
	store = calloc(1, sizeof(*store));
	if (!store || !(store->base.path = strdup(path))) {
		free(store);
		return inc_err_set(err, ENOMEM, "out of memory");
	}
	store->base.ops = &inc_sqlite_ops;
	if (sqlite3_open_v2(path, &store->db, SQLITE_OPEN_READWRITE, NULL))
		ret = store->db ? inc_sqlite_error(store, "cannot be opened", err)
				: inc_err_set(err, ENOMEM, "out of memory");
	ret = ret ?: set_up(store, fresh, err);
	if (ret) {
		inc_store_close(&store->base);
		return ret;
	}
	*out = &store->base;
	return 0;
}
