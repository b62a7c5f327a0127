// SPDX-License-Identifier: BSD-2-Clause
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cluster.h"
#include "controller/core/comm.h"
#include "controller/core/core.h"
#include "controller/core/group.h"
#include "controller/net/ctl.h"
#include "controller/store/rows.h"
#include "lib/base/log.h"
#include "lib/base/opt.h"
#include "process.h"
#include "sim.h"

#define TOPOLOGY "topology.yaml"
#define DATABASE "database"
#define ALL_KEYS "keys"

struct controller controller;

static struct {
	const struct inc_core *core; /* state of the running controller */
	/* connections that are being closed: of the controller, and of each switch's daemon */
	struct inc_ndjson_draining draining[1 + CLUSTER_SWITCHES_MOST];
	void (*on_signal)(int);         /* the controller's handler of SIGTERM */
	unsigned int descriptors_ready; /* number of descriptors when the controller became ready */
	size_t pieces_ready; /* number of pieces of memory when the controller became ready */
} own;

int inc_controller_main(int argc, char **argv);
int cluster_say(const char *fmt, ...);
int __wrap_sigaction(int number, const struct sigaction *act, struct sigaction *old);
int __real_sigaction(int number, const struct sigaction *act, struct sigaction *old);
int __wrap_inc_persist_start(struct inc_core *core, struct event_base *base, const char *path,
			     struct inc_persist_counts *counts, struct inc_persist **keep,
			     struct inc_err *err);
int __real_inc_persist_start(struct inc_core *core, struct event_base *base, const char *path,
			     struct inc_persist_counts *counts, struct inc_persist **keep,
			     struct inc_err *err);
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
void __wrap_inc_log(enum inc_log_level level, const char *fmt, ...);

/* --- the controller's output, and calls of this scenario --- */

/* Each log line of any process becomes a line of the trace, and is part of the run's hash. */
void __wrap_inc_log(enum inc_log_level level, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	sim_note(task_process() ? task_process()->name : "", text, level, 0, 0);
}

/* Replaces printf() in the controller, which reports on the standard output that it is ready. */
int cluster_say(const char *fmt, ...)
{
	size_t size;

	sim_note(controller.process.name, "is ready", 0, 0, 0);
	controller.ready = true;
	own.descriptors_ready = descriptors_of(&controller.process);
	own.pieces_ready = memory_pieces(&controller.process, &size);
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

int __wrap_inc_persist_start(struct inc_core *core, struct event_base *base, const char *path,
			     struct inc_persist_counts *counts, struct inc_persist **keep,
			     struct inc_err *err)
{
	own.core = core;
	return __real_inc_persist_start(core, base, path, counts, keep, err);
}

static struct inc_ndjson_draining *draining_of(const struct cluster_switch *sw)
{
	return &own.draining[sw ? 1 + sw->number : 0];
}

/* The product has one list of connections that are being closed per process. Here several processes
 * share the program, so each gets its own list. */
static struct inc_ndjson_draining *draining(void)
{
	return draining_of(cluster_switch_of(task_process()));
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

static unsigned int count(sqlite3 *db, const char *table)
{
	sqlite3_stmt *stmt = NULL;
	unsigned int n;
	char sql[128];

	snprintf(sql, sizeof(sql), "SELECT count(*) FROM %s", table);
	sim_require(!sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) &&
			    sqlite3_step(stmt) == SQLITE_ROW,
		    "the database cannot be read: %s", sqlite3_errmsg(db));
	n = sqlite3_column_int(stmt, 0);
	sqlite3_finalize(stmt);
	return n;
}

unsigned int controller_rows(void)
{
	unsigned int n = 0, t;
	sqlite3 *db;

	/* the simulated disk has no memory that handles share, so the database is in exclusive
	 * mode */
	sim_require(!sqlite3_open_v2(DATABASE, &db, SQLITE_OPEN_READWRITE, NULL) &&
			    !sqlite3_exec(db, "PRAGMA locking_mode = EXCLUSIVE", NULL, NULL, NULL),
		    "no database");
	for (t = 0; t < INC_N_KEPT_TABLES; t++)
		n += t == INC_KEPT_NUMBERS ? 0 : count(db, inc_kept_layouts[t].name);
	sqlite3_close(db);
	return n;
}

/* --- the controller's process --- */

static void run(void *arg)
{
	/* A single address gets fewer connections than the controller has room for, so that a
	 * hostile peer cannot displace honest ones. */
	char *argv[24] = {"inc-controller",
			  "--topology",
			  TOPOLOGY,
			  "--database",
			  DATABASE,
			  "--max-clients",
			  "64",
			  "--peer-connections",
			  "16",
			  "--peer-messages",
			  "400",
			  "--listen",
			  "0.0.0.0",
			  "--member-timeout-ms",
			  cluster.patient ? INC_STR(CLUSTER_MEMBER_PATIENCE_MS)
					  : INC_STR(CLUSTER_MEMBER_TIMEOUT_MS),
			  "--switch-timeout-ms",
			  INC_STR(CLUSTER_SWITCH_TIMEOUT_MS)};
	int argc = 0, ret;

	while (argv[argc])
		argc++;
	argv[argc++] = cluster.tls ? "--key" : "--insecure";
	if (cluster.tls)
		argv[argc++] = ALL_KEYS;
	if (cluster.metrics) {
		argv[argc++] = "--metrics";
		argv[argc++] = "0.0.0.0:" INC_STR(CLUSTER_METRICS_PORT);
	}
	ret = inc_controller_main(argc, argv);

	sim_require(!ret || memory_failed() == &controller.process, "the controller ends with %d",
		    ret);
	controller.running = controller.ready = false;
	sim_note(controller.process.name, "has ended", ret, 0, 0);
	if (ret)
		controller.died();
}

static void write_topology(void)
{
	FILE *f = fopen(TOPOLOGY, "w");

	sim_require(f, "%s: %s", TOPOLOGY, strerror(errno));
	cluster_write_topology(f);
	sim_require(!fclose(f), "%s cannot be written", TOPOLOGY);
}

static const struct key {
	const char *file, *identity, *digit;
} keys[] = {
	{"key.s0", "switch:s0", "2"},        {"key.s1", "switch:s1", "4"},
	{"key.s2", "switch:s2", "5"},        {"key.s3", "switch:s3", "6"},
	{CLUSTER_KEY_MEMBER, "member", "1"}, {CLUSTER_KEY_HOSTILE, "job:" CLUSTER_JOB_HOSTILE, "3"},
};

const char *controller_key(unsigned int sw)
{
	return keys[sw].file;
}

/* The controller's key file has all keys. The file of each other process has that process's key
 * only. */
static void write_keys(void)
{
	FILE *all = fopen(ALL_KEYS, "w"), *one;
	unsigned int i, k;

	sim_require(all && !chmod(ALL_KEYS, 0600), "%s: %s", ALL_KEYS, strerror(errno));
	for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		one = fopen(keys[i].file, "w");
		sim_require(one && !chmod(keys[i].file, 0600), "%s: %s", keys[i].file,
			    strerror(errno));
		fprintf(all, "%s ", keys[i].identity);
		fprintf(one, "%s ", keys[i].identity);
		for (k = 0; k < 32; k++) {
			fputs(keys[i].digit, all);
			fputs(keys[i].digit, one);
		}
		fputs("\n", all);
		fputs("\n", one);
		sim_require(!fclose(one), "%s cannot be written", keys[i].file);
	}
	sim_require(!fclose(all), "%s cannot be written", ALL_KEYS);
}

void controller_open(void)
{
	controller = (struct controller){.process.name = "ctl"};
	memset(&own, 0, sizeof(own));
	inet_pton(AF_INET, CLUSTER_CONTROLLER, &controller.process.addr);
	database_begin();
	write_topology();
	if (cluster.tls)
		write_keys();
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
	memory_free(&controller.process);
	own.core = NULL;
	own.on_signal = NULL;
	*draining_of(NULL) = (struct inc_ndjson_draining){};
	task_kill(&controller.process);
}

void controller_switch_died(const struct cluster_switch *sw)
{
	*draining_of(sw) = (struct inc_ndjson_draining){};
}

void controller_stop(void)
{
	sim_require(own.on_signal, "the controller has no handler for SIGTERM");
	own.on_signal(SIGTERM); /* libevent's handler writes into a pipe of the controller */
	task_changed(&controller.process, -1);
}

void controller_numbers(uint32_t *group, uint32_t *communicator)
{
	const struct inc_group *g;
	const struct inc_comm *comm;

	*group = *communicator = 1;
	if (!controller.ready)
		return;
	LIST_FOREACH (g, &own.core->groups, entry) {
		if (!strcmp(g->job, CLUSTER_JOB_HOSTILE))
			continue;
		*group = g->number;
		LIST_FOREACH (comm, &g->comms, entry)
			*communicator = comm->number ?: *communicator;
	}
}

static const struct inc_comm *find_comm(uint32_t number)
{
	const struct inc_group *g;
	const struct inc_comm *comm;

	if (!controller.ready)
		return NULL;
	LIST_FOREACH (g, &own.core->groups, entry)
		LIST_FOREACH (comm, &g->comms, entry)
			if (comm->number == number)
				return comm;
	return NULL;
}

bool controller_tree(uint32_t communicator, struct collective_tree *out)
{
	const struct inc_comm *comm = find_comm(communicator);
	const struct inc_tree *tree = comm ? comm->tree : NULL;
	unsigned int n, c;

	if (!tree || !tree->counted)
		return false;
	for (n = 0; n < tree->n; n++) {
		const struct inc_tree_node *node = &tree->nodes[n];

		out->parent[n] = node->parent;
		for (c = node->first_child; c < node->first_child + node->n_children; c++)
			if (!tree->children[c].to_switch)
				out->at[tree->children[c].rank] = n;
	}
	return true;
}

int controller_descriptors(void)
{
	return (int)(descriptors_of(&controller.process) - own.descriptors_ready);
}

long controller_pieces(void)
{
	size_t size;

	return (long)(memory_pieces(&controller.process, &size) - own.pieces_ready);
}

unsigned int controller_objects(void)
{
	const struct inc_group *g;
	unsigned int n = !LIST_EMPTY(&own.core->derivations) + !LIST_EMPTY(&own.core->orphans);

	LIST_FOREACH (g, &own.core->groups, entry)
		n++;
	return n;
}
