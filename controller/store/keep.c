/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes what has changed (keep.h). A list of actions names all that is to be written. If a
 * transaction fails, that list is of no use any more: the next transaction that succeeds writes the
 * whole core in the place of all that the file holds.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <event2/event.h>
#include "controller/store/keep.h"
#include "controller/store/keep_priv.h"
#include "controller/timer.h"
#include "lib/base/log.h"

#define RETRY_MS 1000

struct inc_keep {
	struct inc_core *core;
	struct inc_store *store;
	char *path;
	struct inc_keep_counts *counts;
	struct inc_action_list changes; /* since the last transaction */
	bool behind;  /* the file is not what it should be: all of it has to be written */
	bool failing; /* the last transaction has failed, which has been said */
	uint32_t next[INC_N_KEPT_KINDS]; /* as the file has them */
	struct event *timer;             /* when there is something to write, or to try again */
};

void inc_keep_add(struct inc_keep *keep, struct inc_action *action)
{
	if (!keep) {
		free(action);
		return;
	}
	if (TAILQ_EMPTY(&keep->changes) && !keep->behind)
		inc_ctl_arm(keep->timer, 0);
	TAILQ_INSERT_TAIL(&keep->changes, action, entry);
}

void inc_keep_lost(struct inc_keep *keep)
{
	if (!keep)
		return;
	keep->behind = true;
	inc_ctl_arm(keep->timer, 0);
}

static int put_numbers(struct inc_keep *keep, struct inc_err *err)
{
	const uint32_t next[] = {
		[INC_KEPT_GROUP_NUMBERS] = keep->core->group_numbers.next,
		[INC_KEPT_COMM_NUMBERS] = keep->core->comm_numbers.next,
	};

	if (!keep->behind && memcmp(next, keep->next, sizeof(next)) == 0)
		return 0;
	memcpy(keep->next, next, sizeof(next)); /* where it fails, all is written anew */
	return inc_kept_put_numbers(keep->store, keep->core, err);
}

static int write_changes(struct inc_keep *keep, struct inc_err *err)
{
	int ret = inc_store_begin(keep->store, err);
	const struct inc_action *change;

	if (!ret && keep->behind)
		ret = inc_kept_put_all(keep->store, keep->core, err);
	TAILQ_FOREACH (change, &keep->changes, entry) {
		if (!ret && !keep->behind)
			ret = inc_kept_put_change(keep->store, keep->core, change, err);
	}
	ret = ret ?: put_numbers(keep, err) ?: inc_store_commit(keep->store, err);
	inc_actions_free(&keep->changes);
	if (!ret) {
		keep->counts->stored++;
		return 0;
	}
	inc_store_rollback(keep->store);
	keep->counts->unstored++;
	return ret;
}

int inc_keep_now(struct inc_keep *keep, struct inc_err *err)
{
	bool was_behind;
	int ret;

	if (!keep || (TAILQ_EMPTY(&keep->changes) && !keep->behind))
		return 0;
	was_behind = keep->failing;
	ret = write_changes(keep, err);
	keep->behind = keep->failing = ret;
	if (!ret) {
		event_del(keep->timer);
		if (was_behind)
			inc_info("database %s can be written again", keep->path);
		return 0;
	}
	inc_ctl_arm(keep->timer, RETRY_MS);
	if (!was_behind)
		inc_error("%s: nothing new can begin until it can be written", err->msg);
	return ret;
}

void inc_keep_before_telling(struct inc_keep *keep)
{
	struct inc_err err;

	/* while it fails it is tried by the timer, and by what must not begin otherwise */
	if (keep && !keep->failing)
		inc_keep_now(keep, &err);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct inc_err err;

	inc_keep_now(arg, &err);
}

/* Where it cannot be made, opening the file says why. */
static void make_directory(void)
{
	char dir[] = INC_KEEP_DEFAULT;

	*strrchr(dir, '/') = '\0';
	mkdir(dir, 0700);
}

int inc_keep_start(struct inc_core *core, struct event_base *base, const char *path,
		   struct inc_keep_counts *counts, struct inc_keep **out, struct inc_err *err)
{
	struct inc_keep *keep;
	bool fresh;
	int ret;

	if (strcmp(path, INC_KEEP_NOTHING) == 0)
		return 0;
	*out = keep = calloc(1, sizeof(*keep));
	if (!keep)
		return inc_err_set(err, ENOMEM, "out of memory");
	TAILQ_INIT(&keep->changes);
	keep->core = core;
	keep->counts = counts;
	keep->path = strdup(path);
	keep->timer = evtimer_new(base, on_timer, keep);
	if (!keep->path || !keep->timer)
		return inc_err_set(err, ENOMEM, "out of memory");
	if (strcmp(path, INC_KEEP_DEFAULT) == 0)
		make_directory();
	ret = inc_store_open(path, &keep->store, &fresh, err);
	ret = ret ?: inc_restore(core, path, keep->store, err);
	/* Restored objects need not be stored, and no peer receives a message about them. */
	inc_actions_free(&core->actions.list);
	if (ret)
		return ret;
	/* a file that held nothing knows nothing of an earlier controller's communicators */
	core->knows_all = !fresh;
	core->actions.stores = true;
	/* what could not be brought back goes, with the first transaction */
	keep->behind = true;
	ret = write_changes(keep, err);
	keep->behind = ret;
	return ret;
}

void inc_keep_stop(struct inc_keep *keep)
{
	if (!keep)
		return;
	keep->core->actions.stores = false;
	inc_actions_free(&keep->changes);
	if (keep->timer)
		event_free(keep->timer);
	inc_store_close(keep->store);
	free(keep->path);
	free(keep);
}
