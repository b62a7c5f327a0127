/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Groups that are made from a parent group: split, duplicated, shrunk or grown. Each rank sends G
 * with derive on a new connection, which becomes the connection of its member in the new group.
 * From then on that group is like any other. Until all ranks that must come have come, their
 * connections wait in a derivation. A group has one derivation under way at a time.
 *
 * Splits, duplicates and grows of a group are counted together. Shrinks have a count of their own,
 * because the survivors of a loss may be at different points of their program.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "controller/core/core.h"
#include "controller/core/derive.h"
#include "controller/core/group.h"
#include "lib/base/err.h"
#include "lib/base/log.h"

/* Whether the rank is connected or may come back. If so, it can still take part in the derivation,
 * or receive the derivation's error. */
static bool is_there(const struct inc_derivation *d, unsigned int rank)
{
	return d->parent->members[rank].client || inc_group_awaits(d->parent, rank);
}

static bool is_newcomer(const struct inc_derivation *d, unsigned int rank)
{
	return !d->parent || rank >= d->parent->world_size;
}

static bool must_come(const struct inc_derivation *d, unsigned int rank)
{
	return d->how != INC_DERIVE_SHRINK || is_there(d, rank);
}

const char *inc_derivation_name(const struct inc_derivation *d, unsigned int rank)
{
	static char text[32];

	if (!is_newcomer(d, rank))
		return inc_member_name(&d->parent->members[rank]);
	snprintf(text, sizeof(text), "rank %u", rank);
	return text;
}

static const char *name_missing(const void *arg, unsigned int rank)
{
	const struct inc_derivation *d = arg;

	return d->members[rank].client || !must_come(d, rank) ? NULL : inc_derivation_name(d, rank);
}

static void derivation_free(struct inc_derivation *d)
{
	LIST_REMOVE(d, entry);
	inc_core_timer_stop(&d->timer);
	inc_core_timer_stop(&d->wait.timer);
	free(d);
}

/* Frees the derivation, because no rank waits for it any more. After that the group's next
 * derivation may begin. */
static void end(struct inc_derivation *d)
{
	if (d->parent && d->parent->derived[inc_derive_count(d->how)] <= d->round) {
		d->parent->derived[inc_derive_count(d->how)] = d->round + 1;
		inc_act_store_group(d->parent);
	}
	derivation_free(d);
}

static bool all_answered(const struct inc_derivation *d)
{
	for (unsigned int rank = 0; rank < d->parent->world_size; rank++) {
		if (!d->members[rank].answered && is_there(d, rank))
			return false;
	}
	return true;
}

/* Removes the rank's client from the derivation, so that it does not wait any more. Returns the
 * client. */
static struct inc_core_client *let_go(struct inc_derivation *d, unsigned int rank)
{
	struct inc_core_client *client = d->members[rank].client;

	d->members[rank].client = NULL;
	client->derivation = NULL;
	return client;
}

/* Sends the derivation's error to a client, which may then use its connection for another
 * request. */
static void tell_refused(struct inc_derivation *d, unsigned int rank,
			 struct inc_core_client *client)
{
	d->members[rank].answered = true;
	inc_act_refuse(client, d->code, NULL, "%s", d->reason);
	inc_act_idle(client);
}

void inc_derivation_answer_refused(struct inc_derivation *d, unsigned int rank,
				   struct inc_core_client *client)
{
	tell_refused(d, rank, client);
	if (all_answered(d))
		end(d);
}

void inc_derivation_reject_client(struct inc_derivation *d, unsigned int rank, int code,
				  const struct inc_err *why)
{
	struct inc_core_client *client = let_go(d, rank);

	inc_act_refuse(client, code, NULL, "%s", why->msg);
	inc_act_idle(client);
}

void inc_derivation_fail(struct inc_derivation *d, int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(d->reason, sizeof(d->reason), fmt, ap);
	va_end(ap);
	d->code = inc_errno_name(code) ? code : EIO;
	inc_derivation_set_phase(d, DERIVE_REFUSED);
	inc_warn("%s", d->reason);
	for (unsigned int rank = 0; rank < d->world_size; rank++) {
		if (d->members[rank].client)
			tell_refused(d, rank, let_go(d, rank));
	}
	/* if the parent group is over, ranks that ask later receive that group's error instead */
	if (!d->parent || all_answered(d) ||
	    (d->how != INC_DERIVE_SHRINK && inc_group_ended(d->parent)))
		end(d);
}

static bool awaits_return(const struct inc_derivation *d)
{
	if (!d->parent || d->how != INC_DERIVE_SHRINK)
		return false;
	for (unsigned int rank = 0; rank < d->world_size; rank++)
		if (!d->members[rank].client && inc_group_awaits(d->parent, rank))
			return true;
	return false;
}

static void on_timeout(void *arg)
{
	struct inc_derivation *d = arg;
	const unsigned int ms = d->core->opt.group_timeout_ms;
	char ranks[400];

	/* A shrink waits for the parent group's timer, which decides which ranks have not come
	 * back; the shrink goes on without these. The group's timer was armed first and ends in the
	 * same millisecond. */
	if (awaits_return(d)) {
		inc_core_timer_arm(&d->timer, 1);
		return;
	}
	inc_list_ranks(d->world_size, name_missing, d, ranks, sizeof(ranks));
	if (d->parent)
		inc_derivation_fail(
			d, ETIMEDOUT, "%s of group %u (%s): %s did not come within %u ms",
			inc_derive_hows[d->how], d->parent->number, d->parent->job, ranks, ms);
	else
		inc_derivation_fail(d, ETIMEDOUT, "job %s did not grow to %u ranks within %u ms",
				    d->job, d->world_size, ms);
}

/* Reports to the clients which ranks are missing. */
static void on_wait(void *arg)
{
	struct inc_derivation *d = arg;
	const unsigned int waited_s = inc_core_wait_go_on(&d->wait);
	char ranks[300], text[400];

	inc_list_ranks(d->world_size, name_missing, d, ranks, sizeof(ranks));
	if (d->parent)
		snprintf(text, sizeof(text), "%s %u of group %u (%s) has waited %u s for %s",
			 inc_derive_hows[d->how], d->round, d->parent->number, d->job, waited_s,
			 ranks);
	else
		snprintf(text, sizeof(text),
			 "job %s has not begun to grow to %u ranks for %u s: no rank has called "
			 "inccl_group_grow()",
			 d->job, d->world_size, waited_s);
	inc_info("%s", text);
	for (unsigned int rank = 0; rank < d->world_size; rank++) {
		if (d->members[rank].client)
			inc_act_absent(d->members[rank].client, text);
	}
}

/* Frees the oldest refused derivation if there are as many as CTL_MAX_COMMS. */
static void forget_oldest(const struct inc_group *parent)
{
	struct inc_derivation *d, *oldest = NULL;
	unsigned int n = 0;

	LIST_FOREACH (d, &parent->core->derivations, entry) {
		if (d->parent != parent || d->phase != DERIVE_REFUSED)
			continue;
		n++;
		/* derivations are inserted at the head, so the last one is the oldest */
		oldest = d;
	}
	if (n >= CTL_MAX_COMMS)
		end(oldest);
}

struct inc_derivation *inc_derivation_new(struct inc_core *core, struct inc_group *parent,
					  const char *job, const struct inc_msg_derive *said,
					  unsigned int world_size)
{
	struct inc_derivation *d = calloc(1, sizeof(*d) + world_size * sizeof(d->members[0]));

	if (!d)
		return NULL;
	inc_core_timer_init(&d->timer, core, on_timeout, d);
	inc_core_timer_init(&d->wait.timer, core, on_wait, d);
	if (parent)
		forget_oldest(parent);
	d->core = core;
	snprintf(d->job, sizeof(d->job), "%s", job);
	d->parent = parent;
	d->how = said->how;
	d->round = said->round;
	d->world_size = world_size;
	LIST_INSERT_HEAD(&core->derivations, d, entry);
	inc_core_timer_arm(&d->timer, core->opt.group_timeout_ms);
	inc_core_wait_begin(&d->wait);
	return d;
}

/* A rank of the derivation, with the new group that it gets into and its position there. */
struct place {
	uint32_t color;
	int32_t key;
	unsigned int rank; /* rank in the parent group */
	struct inc_group *group;
};

static int order(const void *one, const void *other)
{
	const struct place *a = one, *b = other;

	if (a->color != b->color)
		return a->color < b->color ? -1 : 1;
	if (a->key != b->key)
		return a->key < b->key ? -1 : 1;
	return a->rank < b->rank ? -1 : 1;
}

/* Lists the ranks that get into a new group, sorted by group and by their rank in it. Returns their
 * number. */
static unsigned int find_places(const struct inc_derivation *d, struct place *places)
{
	unsigned int n = 0;

	for (unsigned int rank = 0; rank < d->world_size; rank++) {
		const struct inc_derive_member *m = &d->members[rank];

		if (!m->client || (d->how == INC_DERIVE_SPLIT && !m->has_color))
			continue;
		places[n].rank = rank;
		if (d->how == INC_DERIVE_SPLIT) {
			places[n].color = m->color;
			places[n].key = m->key;
		}
		n++;
	}
	qsort(places, n, sizeof(*places), order);
	return n;
}

/* Returns the index of the first place after place i that belongs to another new group. */
static unsigned int behind(const struct place *places, unsigned int n, unsigned int i)
{
	unsigned int k = i + 1;

	while (k < n && places[k].color == places[i].color)
		k++;
	return k;
}

/* Makes the new groups of a derivation, without members. Returns 0 or -ENOMEM, after which none of
 * the groups exists. */
static int make_groups(const struct inc_derivation *d, struct place *places, unsigned int n)
{
	for (unsigned int i = 0, next; i < n; i = next) {
		next = behind(places, n, i);
		places[i].group = inc_group_derive(d->parent, d->how, next - i);
		if (!places[i].group)
			goto undo;
		for (unsigned int k = i + 1; k < next; k++)
			places[k].group = places[i].group;
	}
	return 0;

undo:
	for (unsigned int i = 0; i < n && places[i].group; i = behind(places, n, i))
		inc_group_free(places[i].group);
	return -ENOMEM;
}

/* Sends the answer of a split to a rank that gets into none of the new groups. */
static void answer_none(struct inc_derivation *d, unsigned int rank)
{
	struct inc_core_client *client = let_go(d, rank);
	const struct inc_msg_joined none = {
		.group = d->parent->number,
		.addr = d->core->topo->hosts[d->members[rank].join.host].ip,
		.rank = rank,
	};

	inc_act_send(client, INC_MSG_JOINED, &none);
	inc_act_idle(client);
}

static void take_places(struct inc_derivation *d, const struct place *places, unsigned int n)
{
	for (unsigned int i = 0, rank = 0; i < n; i++, rank++) {
		struct inc_core_client *client = let_go(d, places[i].rank);
		struct inc_join *join = &d->members[places[i].rank].join;

		if (i && places[i].group != places[i - 1].group)
			rank = 0;
		join->rank = rank;
		inc_group_enter(places[i].group, client, join);
		inc_act_idle(client);
	}
	for (unsigned int rank = 0; rank < d->world_size; rank++) {
		if (d->members[rank].client)
			answer_none(d, rank);
	}
}

/* Makes the new groups and answers all ranks, because all that must take part have come. */
static void make(struct inc_derivation *d)
{
	struct place *places = calloc(d->world_size, sizeof(*places));
	unsigned int n = places ? find_places(d, places) : 0;

	if (!places || make_groups(d, places, n)) {
		free(places);
		inc_derivation_fail(d, ENOMEM, "the controller is out of memory");
		return;
	}
	inc_info("group %u (%s): %s %u, %u ranks of %u", d->parent->number, d->parent->job,
		 inc_derive_hows[d->how], d->round, n, d->parent->world_size);
	take_places(d, places, n);
	free(places);
	end(d);
}

static bool has_any(const struct inc_derivation *d)
{
	for (unsigned int rank = 0; rank < d->world_size; rank++) {
		if (d->members[rank].client)
			return true;
	}
	return false;
}

void inc_derivation_make_if_complete(struct inc_derivation *d)
{
	for (unsigned int rank = 0; rank < d->world_size; rank++) {
		if (!d->members[rank].client && must_come(d, rank))
			return;
	}
	make(d);
}

void inc_derive_leave(struct inc_core_client *client)
{
	struct inc_derivation *d = client->derivation;

	let_go(d, client->place);
	if (!has_any(d))
		derivation_free(d);
}

/* Handles that the derivation's parent group has changed, so that the derivation may be complete or
 * must fail. May free the derivation. */
static void on_parent_changed(struct inc_derivation *d)
{
	const struct inc_group *parent = d->parent;

	if (d->phase == DERIVE_REFUSED) {
		if (all_answered(d))
			end(d);
		return;
	}
	if (d->how != INC_DERIVE_SHRINK) {
		if (inc_group_ended(parent))
			inc_derivation_fail(d, parent->over_code, "%s", parent->over);
		return;
	}
	for (unsigned int rank = 0; rank < d->world_size; rank++) {
		struct inc_err why;

		if (!d->members[rank].client || is_there(d, rank))
			continue;
		inc_err_set(&why, ECONNRESET, "%s has left group %u", inc_derivation_name(d, rank),
			    parent->number);
		inc_derivation_reject_client(d, rank, ECONNRESET, &why);
	}
	if (has_any(d))
		inc_derivation_make_if_complete(d);
	else
		derivation_free(d);
}

void inc_derive_parent_changed(struct inc_group *group)
{
	struct inc_derivation *d = LIST_FIRST(&group->core->derivations), *next;

	for (; d; d = next) {
		next = LIST_NEXT(d, entry);
		if (d->parent == group)
			on_parent_changed(d);
	}
}

void inc_derive_parent_ended(struct inc_group *group)
{
	struct inc_derivation *d = LIST_FIRST(&group->core->derivations), *next;

	for (; d; d = next) {
		next = LIST_NEXT(d, entry);
		if (d->parent != group)
			continue;
		d->parent = NULL;
		if (d->phase == DERIVE_REFUSED)
			derivation_free(d);
		else
			inc_derivation_fail(d, ECONNRESET, "group %u (%s) has ended", group->number,
					    group->job);
	}
}

void inc_derivations_free(struct inc_core *core)
{
	while (!LIST_EMPTY(&core->derivations))
		derivation_free(LIST_FIRST(&core->derivations));
}
