/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes what has changed (keep.h). What is to be written stands in the objects, as a mark; what
 * has ended in a list. Where a transaction fails, the marks are of no use any more: the next one
 * that succeeds writes the whole memory in the place of all that the file holds.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "controller/store/keep_priv.h"
#include "lib/base/log.h"

#define RETRY_MS 1000

/* It is written soon, even if nothing is told to anybody. */
static void changed(struct inc_ctl *ctl)
{
	if (ctl->keep->changed)
		return;
	ctl->keep->changed = true;
	if (!ctl->keep->behind)
		inc_ctl_arm(ctl->keep->timer, 0);
}

void inc_keep_group(struct inc_group *group)
{
	if (!group->ctl->keep)
		return;
	group->unkept = true;
	changed(group->ctl);
}

void inc_keep_rank(struct inc_member *member)
{
	member->unkept = true;
	inc_keep_group(member->group);
}

void inc_keep_comm(struct inc_comm *comm, enum inc_unkept what)
{
	if (!comm->group->ctl->keep)
		return;
	if (comm->unkept < what)
		comm->unkept = what;
	changed(comm->group->ctl);
}

static void gone(struct inc_keep *keep, enum inc_kept_table table, uint32_t number)
{
	const size_t room = keep->gone_room ? keep->gone_room * 2 : 64;

	if (keep->n_gone == keep->gone_room) {
		struct inc_kept_gone *more = reallocarray(keep->gone, room, sizeof(*more));

		if (!more) { /* all that is left is written instead */
			keep->behind = true;
			return;
		}
		keep->gone = more;
		keep->gone_room = room;
	}
	keep->gone[keep->n_gone++] = (struct inc_kept_gone){table, number};
}

void inc_keep_group_gone(struct inc_group *group)
{
	struct inc_keep *keep = group->ctl->keep;

	if (!keep)
		return;
	group->unkept = false;
	gone(keep, INC_KEPT_GROUPS, group->number);
	gone(keep, INC_KEPT_RANKS, group->number);
	changed(group->ctl);
}

void inc_keep_comm_gone(struct inc_comm *comm)
{
	struct inc_keep *keep = comm->group->ctl->keep;

	comm->unkept = INC_IS_KEPT;
	if (!keep || !comm->number)
		return;
	gone(keep, INC_KEPT_COMMS, comm->number);
	gone(keep, INC_KEPT_NODES, comm->number);
	gone(keep, INC_KEPT_MEMBERS, comm->number);
	changed(comm->group->ctl);
}

static int put_numbers(struct inc_keep *keep, struct inc_err *err)
{
	const struct inc_numbers *numbers[] = {
		[INC_KEPT_GROUP_NUMBERS] = &keep->ctl->group_numbers,
		[INC_KEPT_COMM_NUMBERS] = &keep->ctl->comm_numbers,
	};
	int ret = 0;

	for (uint32_t kind = 0; !ret && kind < INC_N_KEPT_KINDS; kind++) {
		const struct inc_kept_numbers row = {kind, numbers[kind]->first,
						     numbers[kind]->next};

		if (!keep->behind && keep->next[kind] == row.next)
			continue;
		ret = inc_store_put(keep->store, INC_KEPT_NUMBERS, &row, err);
		keep->next[kind] = row.next; /* where it fails, all is written anew */
	}
	return ret;
}

/* Its marks are taken away, so that a group that nothing has happened to costs nothing. */
static int put_group(struct inc_keep *keep, struct inc_group *group, struct inc_err *err)
{
	struct inc_comm *comm;
	int ret = 0;

	if (keep->behind || group->unkept)
		ret = inc_kept_put_group(keep->store, group, keep->behind, err);
	group->unkept = false;
	LIST_FOREACH (comm, &group->comms, entry) {
		if (!ret && (keep->behind || comm->unkept))
			ret = inc_kept_put_comm(keep->store, comm,
						keep->behind || comm->unkept == INC_UNKEPT_ALL,
						err);
		comm->unkept = INC_IS_KEPT;
	}
	return ret;
}

static int put_changes(struct inc_keep *keep, struct inc_err *err)
{
	struct inc_group *group;
	int ret = 0;

	if (keep->behind)
		ret = inc_store_clear(keep->store, err);
	for (size_t i = 0; !ret && !keep->behind && i < keep->n_gone; i++)
		ret = inc_store_drop(keep->store, keep->gone[i].table, keep->gone[i].number, err);
	keep->n_gone = 0;
	ret = ret ?: put_numbers(keep, err);
	LIST_FOREACH (group, &keep->ctl->groups, entry)
		ret = ret ?: put_group(keep, group, err);
	return ret;
}

static int write_changes(struct inc_keep *keep, struct inc_err *err)
{
	int ret = inc_store_begin(keep->store, err);

	keep->changed = false;
	ret = ret ?: put_changes(keep, err) ?: inc_store_commit(keep->store, err);
	if (!ret) {
		keep->ctl->figures.stored++;
		return 0;
	}
	inc_store_rollback(keep->store);
	keep->ctl->figures.unstored++;
	return ret;
}

int inc_keep_now(struct inc_ctl *ctl, struct inc_err *err)
{
	struct inc_keep *keep = ctl->keep;
	bool was_behind;
	int ret;

	if (!keep || (!keep->changed && !keep->behind))
		return 0;
	was_behind = keep->failing;
	ret = write_changes(keep, err);
	keep->behind = keep->failing = ret;
	if (!ret) {
		event_del(keep->timer);
		if (was_behind)
			inc_info("database %s can be written again", ctl->opt.database);
		return 0;
	}
	inc_ctl_arm(keep->timer, RETRY_MS);
	if (!was_behind)
		inc_error("%s: nothing new can begin until it can be written", err->msg);
	return ret;
}

void inc_keep_before_telling(struct inc_ctl *ctl)
{
	struct inc_err err;

	/* while it fails it is tried by the timer, and by what must not begin otherwise */
	if (ctl->keep && !ctl->keep->failing)
		inc_keep_now(ctl, &err);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct inc_err err;

	inc_keep_now(arg, &err);
}

bool inc_keep_knows_all(const struct inc_ctl *ctl)
{
	return ctl->keep && !ctl->keep->fresh;
}

/* Where it cannot be made, opening the file says why. */
static void make_directory(void)
{
	char dir[] = INC_KEEP_DEFAULT;

	*strrchr(dir, '/') = '\0';
	mkdir(dir, 0700);
}

int inc_keep_start(struct inc_ctl *ctl, struct inc_err *err)
{
	struct inc_keep *keep;
	int ret;

	if (strcmp(ctl->opt.database, INC_KEEP_NOTHING) == 0)
		return 0;
	keep = calloc(1, sizeof(*keep));
	if (!keep)
		return inc_err_set(err, ENOMEM, "out of memory");
	ctl->keep = keep;
	keep->ctl = ctl;
	keep->timer = evtimer_new(ctl->base, on_timer, ctl);
	if (!keep->timer)
		return inc_err_set(err, ENOMEM, "out of memory");
	if (strcmp(ctl->opt.database, INC_KEEP_DEFAULT) == 0)
		make_directory();
	ret = inc_store_open(ctl->opt.database, &keep->store, &keep->fresh, err);
	ret = ret ?: inc_restore(ctl, keep->store, err);
	/* what could not be brought back goes, with the first transaction */
	keep->behind = true;
	ret = ret ?: write_changes(keep, err);
	keep->behind = ret;
	return ret;
}

void inc_keep_stop(struct inc_ctl *ctl)
{
	struct inc_keep *keep = ctl->keep;

	ctl->keep = NULL;
	if (!keep)
		return;
	if (keep->timer)
		event_free(keep->timer);
	inc_store_close(keep->store);
	free(keep->gone);
	free(keep);
}
