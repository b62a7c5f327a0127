// SPDX-License-Identifier: BSD-2-Clause
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cluster.h"
#include "controller/ctl.h"
#include "controller/store/rows.h"
#include "lib/base/log.h"
#include "lib/base/opt.h"
#include "memory.h"
#include "sim.h"

#define TOPOLOGY "topology.yaml"
#define DATABASE "database"

struct controller controller;

static struct {
	struct inc_ctl *ctl;                    /* of the one that runs */
	sqlite3 *db;                            /* likewise */
	struct inc_ndjson_draining draining[2]; /* the switch's, and its own */
	void (*on_signal)(int);                 /* what it has for SIGTERM */
} own;

int inc_controller_main(int argc, char **argv);
int cluster_say(const char *fmt, ...);
int __wrap_sigaction(int number, const struct sigaction *act, struct sigaction *old);
int __real_sigaction(int number, const struct sigaction *act, struct sigaction *old);
int __wrap_inc_keep_start(struct inc_ctl *ctl, struct inc_err *err);
int __real_inc_keep_start(struct inc_ctl *ctl, struct inc_err *err);
struct inc_ndjson *__wrap_inc_ndjson_new(struct event_base *base, int fd,
					 const struct inc_ndjson_limits *limits,
					 const struct inc_ndjson_ops *ops, void *arg,
					 struct inc_err *err);
struct inc_ndjson *__real_inc_ndjson_new(struct event_base *base, int fd,
					 const struct inc_ndjson_limits *limits,
					 const struct inc_ndjson_ops *ops, void *arg,
					 struct inc_err *err);
void __wrap_inc_ndjson_drain_stop(struct inc_ndjson_draining *which);
void __real_inc_ndjson_drain_stop(struct inc_ndjson_draining *which);
int __wrap_sqlite3_open_v2(const char *path, sqlite3 **db, int flags, const char *vfs);
int __real_sqlite3_open_v2(const char *path, sqlite3 **db, int flags, const char *vfs);
int __wrap_sqlite3_step(sqlite3_stmt *stmt);
int __real_sqlite3_step(sqlite3_stmt *stmt);
int __wrap_sqlite3_close(sqlite3 *db);
int __real_sqlite3_close(sqlite3 *db);
void __wrap_inc_log(enum inc_log_level level, const char *fmt, ...);

/* --- what it says, and what it is told --- */

/* Of all processes: a line of the trace, and of the hash. */
void __wrap_inc_log(enum inc_log_level level, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	sim_note(task_process() ? task_process()->name : "", text, level, 0, 0);
}

/* The line on the standard output by which it says that it is ready. */
int cluster_say(const char *fmt, ...)
{
	sim_note(controller.process.name, "is ready", 0, 0, 0);
	controller.ready = true;
	return 0;
}

int __wrap_sigaction(int number, const struct sigaction *act, struct sigaction *old)
{
	if (!task_process())
		return __real_sigaction(number, act, old);
	if (number == SIGTERM && act)
		own.on_signal = act->sa_handler;
	return 0;
}

int __wrap_inc_keep_start(struct inc_ctl *ctl, struct inc_err *err)
{
	own.ctl = ctl;
	return __real_inc_keep_start(ctl, err);
}

/* Connections that are being closed are a process', and two processes are one here. */
static struct inc_ndjson_draining *draining(void)
{
	return &own.draining[task_process() == &controller.process];
}

struct inc_ndjson *__wrap_inc_ndjson_new(struct event_base *base, int fd,
					 const struct inc_ndjson_limits *limits,
					 const struct inc_ndjson_ops *ops, void *arg,
					 struct inc_err *err)
{
	struct inc_ndjson_limits with = *limits;

	with.draining = draining();
	return __real_inc_ndjson_new(base, fd, &with, ops, arg, err);
}

void __wrap_inc_ndjson_drain_stop(struct inc_ndjson_draining *which)
{
	__real_inc_ndjson_drain_stop(which ?: draining());
}

/* --- the database --- */

int __wrap_sqlite3_open_v2(const char *path, sqlite3 **db, int flags, const char *vfs)
{
	int ret = __real_sqlite3_open_v2(path, db, flags, vfs);

	own.db = *db;
	return ret;
}

int __wrap_sqlite3_close(sqlite3 *db)
{
	if (db == own.db)
		own.db = NULL;
	return __real_sqlite3_close(db);
}

int __wrap_sqlite3_step(sqlite3_stmt *stmt)
{
	if (controller.dies_in_store && sim_fault(controller.dies_in_store)) {
		sim_note(controller.process.name, "dies in a transaction", 0, 0, 0);
		controller.died();
		controller_kill();
	}
	return __real_sqlite3_step(stmt);
}

/* As the kernel would: what has not been committed has not been. */
static void drop_database(void)
{
	sqlite3_stmt *stmt;

	while (own.db && (stmt = sqlite3_next_stmt(own.db, NULL)))
		sqlite3_finalize(stmt);
	if (own.db)
		__real_sqlite3_close(own.db);
	own.db = NULL;
}

static unsigned int count(sqlite3 *db, const char *table)
{
	sqlite3_stmt *stmt = NULL;
	unsigned int n;
	char sql[128];

	snprintf(sql, sizeof(sql), "SELECT count(*) FROM %s", table);
	sim_require(!sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) &&
			    __real_sqlite3_step(stmt) == SQLITE_ROW,
		    "the database cannot be read: %s", sqlite3_errmsg(db));
	n = sqlite3_column_int(stmt, 0);
	sqlite3_finalize(stmt);
	return n;
}

unsigned int controller_rows(void)
{
	unsigned int n = 0, t;
	sqlite3 *db;

	sim_require(!__real_sqlite3_open_v2(DATABASE, &db, SQLITE_OPEN_READWRITE, NULL),
		    "no database");
	for (t = 0; t < INC_N_KEPT_TABLES; t++)
		n += t == INC_KEPT_NUMBERS ? 0 : count(db, inc_kept_layouts[t].name);
	__real_sqlite3_close(db);
	return n;
}

/* --- the process --- */

static void run(void *arg)
{
	char *argv[] = {"inc-controller",
			"--topology",
			TOPOLOGY,
			"--database",
			DATABASE,
			"--max-clients",
			"64",
			"--listen",
			"0.0.0.0",
			"--insecure",
			"--member-timeout-ms",
			INC_STR(CLUSTER_MEMBER_TIMEOUT_MS),
			"--switch-timeout-ms",
			INC_STR(CLUSTER_SWITCH_TIMEOUT_MS),
			NULL};
	int ret = inc_controller_main(sizeof(argv) / sizeof(argv[0]) - 1, argv);

	sim_require(!ret || memory_failed() == &controller.process, "the controller ends with %d",
		    ret);
	controller.running = controller.ready = false;
	sim_note(controller.process.name, "has ended", ret, 0, 0);
	if (ret)
		controller.died();
}

static void write_topology(unsigned int hosts)
{
	FILE *f = fopen(TOPOLOGY, "w");
	unsigned int i;

	sim_require(f, "%s: %s", TOPOLOGY, strerror(errno));
	fprintf(f, "name: cluster\nhosts:\n");
	for (i = 0; i < hosts; i++)
		fprintf(f, "  - {name: h%u, ip: 10.77.%u.1}\n", i, i);
	fprintf(f, "switches:\n  - name: s0\n    root: true\n    ports:\n");
	for (i = 0; i < hosts; i++)
		fprintf(f, "      - {name: p%u, ip: 10.77.%u.254, peer: h%u}\n", i, i, i);
	fprintf(f, "defaults: {prefix: 24, mtu: 2200}\n");
	sim_require(!fclose(f), "%s cannot be written", TOPOLOGY);
}

void controller_open(unsigned int hosts)
{
	static const char *const files[] = {DATABASE, DATABASE "-wal", DATABASE "-shm"};
	unsigned int i;

	controller = (struct controller){.process.name = "ctl"};
	memset(&own, 0, sizeof(own));
	inet_pton(AF_INET, CLUSTER_CONTROLLER, &controller.process.addr);
	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		unlink(files[i]);
	write_topology(hosts);
}

void controller_start(void)
{
	sim_note(controller.process.name, "starts", controller.killed, 0, 0);
	controller.process.dead = false;
	controller.running = true;
	controller.ready = false;
	task_new(&controller.process, run, NULL);
}

void controller_kill(void)
{
	sim_note(controller.process.name, "is killed", 0, 0, 0);
	sim_figures.crashes++;
	controller.killed++;
	controller.running = controller.ready = false;
	drop_database();
	memory_free(&controller.process);
	own.ctl = NULL;
	own.on_signal = NULL;
	own.draining[1] = (struct inc_ndjson_draining){};
	task_kill(&controller.process);
}

void controller_switch_died(void)
{
	own.draining[0] = (struct inc_ndjson_draining){};
}

void controller_stop(void)
{
	sim_require(own.on_signal, "the controller does not hear signals");
	own.on_signal(SIGTERM);
}

unsigned int controller_knows(void)
{
	const struct inc_group *g;
	unsigned int n = !LIST_EMPTY(&own.ctl->derivations) + !LIST_EMPTY(&own.ctl->orphans);

	LIST_FOREACH (g, &own.ctl->groups, entry)
		n++;
	return n;
}
