/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes changes (persist.h). A list of actions names the rows that have changed. If a transaction
 * fails, that list is dropped, and the next transaction that succeeds writes the whole core in
 * place of all rows.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "controller/core/action.h"
#include "controller/core/core.h"
#include "controller/store/lease.h"
#include "controller/store/persist.h"
#include "controller/store/store_priv.h"
#include "lib/base/log.h"
#include "lib/net/loop.h"

#define RETRY_MS 1000

struct inc_persist {
	struct inc_core *core;
	struct inc_store *store;
	struct inc_lease *lease; /* lease by which this controller leads; NULL: it needs none */
	char *path;
	struct inc_persist_counts *counts;
	/* Actions that name the rows that have changed since the last transaction. */
	struct inc_action_list changes;
	bool behind;  /* the file lacks changes, so the next transaction writes the whole core */
	bool failing; /* the last transaction has failed, and the log has that once */
	/* next numbers of the number allocators, as the file has them */
	uint32_t next[INC_N_KEPT_KINDS];
	/* Timer for the next transaction. It runs while there are changes to write, also after a
	 * failure. */
	struct inc_timer *timer;
};

void inc_persist_add(struct inc_persist *persist, struct inc_action *action)
{
	if (!persist) {
		free(action);
		return;
	}
	if (TAILQ_EMPTY(&persist->changes) && !persist->behind)
		inc_timer_arm(persist->timer, 0);
	TAILQ_INSERT_TAIL(&persist->changes, action, entry);
}

void inc_persist_lost(struct inc_persist *persist)
{
	if (!persist)
		return;
	persist->behind = true;
	inc_timer_arm(persist->timer, 0);
}

static int put_numbers(struct inc_persist *persist, struct inc_err *err)
{
	const uint32_t next[] = {
		[INC_KEPT_GROUP_NUMBERS] = persist->core->group_numbers.next,
		[INC_KEPT_COMM_NUMBERS] = persist->core->comm_numbers.next,
	};

	if (!persist->behind && memcmp(next, persist->next, sizeof(next)) == 0)
		return 0;
	/* if this write fails, the next transaction writes all numbers anyway */
	memcpy(persist->next, next, sizeof(next));
	return inc_rows_write_numbers(persist->store, persist->core, err);
}

static int write_changes(struct inc_persist *persist, struct inc_err *err)
{
	int ret = inc_store_begin(persist->store, err);
	const struct inc_action *change;

	if (!ret && persist->behind)
		ret = inc_rows_write_all(persist->store, persist->core, err);
	TAILQ_FOREACH (change, &persist->changes, entry) {
		if (!ret && !persist->behind)
			ret = inc_rows_write_change(persist->store, persist->core, change, err);
	}
	ret = ret ?: put_numbers(persist, err) ?: inc_store_commit(persist->store, err);
	inc_actions_free(&persist->changes);
	if (!ret) {
		persist->counts->stored++;
		return 0;
	}
	inc_store_rollback(persist->store);
	persist->counts->unstored++;
	/* without memory for its rows this controller must not send what another one cannot read */
	if (persist->lease)
		inc_lease_lose(persist->lease, err->msg);
	return ret;
}

int inc_persist_now(struct inc_persist *persist, struct inc_err *err)
{
	bool was_behind;
	int ret;

	if (!persist || (TAILQ_EMPTY(&persist->changes) && !persist->behind))
		return 0;
	was_behind = persist->failing;
	ret = write_changes(persist, err);
	persist->behind = persist->failing = ret;
	if (!ret) {
		inc_timer_stop(persist->timer);
		if (was_behind)
			inc_info("database %s can be written again", persist->path);
		return 0;
	}
	inc_timer_arm(persist->timer, RETRY_MS);
	if (!was_behind)
		inc_error("%s: nothing new can begin until it can be written", err->msg);
	return ret;
}

void inc_persist_before_send(struct inc_persist *persist)
{
	struct inc_err err;

	/* While the last transaction has failed, messages do not wait for another try. Only the
	 * timer tries again, and objects that must be stored before they begin. */
	if (persist && !persist->failing)
		inc_persist_now(persist, &err);
	if (persist)
		inc_lease_check(persist->lease);
}

static void on_timer(void *arg)
{
	struct inc_err err;

	inc_persist_now(arg, &err);
}

/* Makes the default directory of the database. An error is ignored, because opening the file then
 * reports the reason. */
static void make_directory(void)
{
	char dir[] = INC_PERSIST_DEFAULT;

	*strrchr(dir, '/') = '\0';
	mkdir(dir, 0700);
}

/* Makes the object, without its store. Even after an error the caller stops *out. */
static int make(struct inc_core *core, struct event_base *base, const char *path,
		struct inc_persist_counts *counts, struct inc_persist **out, struct inc_err *err)
{
	struct inc_persist *persist;

	*out = persist = calloc(1, sizeof(*persist));
	if (!persist)
		return inc_err_set(err, ENOMEM, "out of memory");
	TAILQ_INIT(&persist->changes);
	persist->core = core;
	persist->counts = counts;
	persist->path = strdup(path);
	persist->timer = inc_timer_new(base, on_timer, persist);
	if (!persist->path || !persist->timer)
		return inc_err_set(err, ENOMEM, "out of memory");
	return 0;
}

/* Restores the objects of the database, which is open, and writes it for the first time. */
static int begin(struct inc_persist *persist, bool fresh, struct inc_err *err)
{
	struct inc_core *core = persist->core;
	int ret = inc_restore(core, persist->path, persist->store, err);

	/* restored objects are in the database already, and no peer receives a message about
	 * them */
	inc_actions_free(&core->actions.list);
	if (ret)
		return ret;
	/* If the database is new, a communicator that it lacks may come from an earlier controller
	 * and may still run. */
	core->knows_all = !fresh;
	core->actions.stores = true;
	/* the first transaction writes everything, which removes rows of objects that could not be
	 * restored */
	persist->behind = true;
	ret = write_changes(persist, err);
	persist->behind = ret;
	return ret;
}

int inc_persist_start(struct inc_core *core, struct event_base *base, const char *path,
		      struct inc_persist_counts *counts, struct inc_persist **out,
		      struct inc_err *err)
{
	bool fresh = false;
	int ret;

	if (strcmp(path, INC_PERSIST_NOTHING) == 0)
		return 0;
	ret = make(core, base, path, counts, out, err);
	if (ret)
		return ret;
	if (strcmp(path, INC_PERSIST_DEFAULT) == 0)
		make_directory();
	ret = inc_store_open(path, &(*out)->store, &fresh, err);
	return ret ?: begin(*out, fresh, err);
}

int inc_persist_start_etcd(struct inc_core *core, struct event_base *base, struct inc_lease *lease,
			   struct inc_persist_counts *counts, struct inc_persist **out,
			   struct inc_err *err)
{
	bool fresh = false;
	int ret = make(core, base, inc_etcd_name(inc_lease_etcd(lease)), counts, out, err);

	if (ret)
		return ret;
	(*out)->lease = lease;
	ret = inc_store_open_etcd(lease, &(*out)->store, &fresh, err);
	return ret ?: begin(*out, fresh, err);
}

void inc_persist_stop(struct inc_persist *persist)
{
	if (!persist)
		return;
	persist->core->actions.stores = false;
	inc_actions_free(&persist->changes);
	inc_timer_free(persist->timer);
	inc_store_close(persist->store);
	free(persist->path);
	free(persist);
}
