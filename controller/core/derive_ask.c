/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests for a group that is made from a parent group (derive.c): whether a rank may ask for it,
 * and whether the ranks ask for the same. core.c calls this with the messages of members.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "controller/core/core.h"
#include "controller/core/derive.h"
#include "controller/core/group.h"
#include "lib/base/err.h"
#include "lib/base/log.h"

/* Finds the parent's derivation of this kind and round; NULL if there is none. */
static struct inc_derivation *find(const struct inc_group *parent,
				   const struct inc_msg_derive *said)
{
	struct inc_derivation *d;

	LIST_FOREACH (d, &parent->core->derivations, entry) {
		if (d->parent == parent && d->round == said->round &&
		    inc_derive_count(d->how) == inc_derive_count(said->how))
			return d;
	}
	return NULL;
}

/* Finds the parent's derivation that is under way; NULL if there is none. */
static struct inc_derivation *find_open(const struct inc_group *parent)
{
	struct inc_derivation *d;

	LIST_FOREACH (d, &parent->core->derivations, entry) {
		if (d->parent == parent && d->phase == DERIVE_COLLECTING)
			return d;
	}
	return NULL;
}

/* Finds the grow of a job that is under way; NULL if there is none. It is found by the job's name,
 * because a newcomer does not know the parent group. */
static struct inc_derivation *find_grow(const struct inc_core *core, const char *job)
{
	struct inc_derivation *d;

	LIST_FOREACH (d, &core->derivations, entry) {
		if (d->how == INC_DERIVE_GROW && d->phase == DERIVE_COLLECTING &&
		    strcmp(d->job, job) == 0)
			return d;
	}
	return NULL;
}

/* Makes the client wait in the derivation from now on. */
static void attach(struct inc_derivation *d, struct inc_core_client *client,
		   const struct inc_join *join, const struct inc_msg_derive *said)
{
	struct inc_derive_member *m = &d->members[join->rank];

	m->client = client;
	m->join = *join;
	m->has_color = said->has_color;
	m->color = said->color;
	m->key = said->key;
	client->derivation = d;
	client->place = join->rank;
}

/* Prints what a rank asks for, such as "shrink 2" or "grow 0 to 4 ranks". The first number is that
 * of the derivation, which counts the derivations of a group from 0 on. */
static void describe(char buf[64], enum inc_derive_how how, uint32_t round, unsigned int world_size)
{
	int used = snprintf(buf, 64, "%s %u", inc_derive_hows[how], round);

	if (how == INC_DERIVE_GROW)
		snprintf(buf + used, 64 - used, " to %u ranks", world_size);
}

/* Writes the error for a rank whose request differs from that of an earlier rank. */
static void explain_difference(const struct inc_derivation *d, const struct inc_join *join,
			       const struct inc_msg_derive *said, struct inc_err *text)
{
	char who[96], asks[64], other[64];
	unsigned int first = 0;

	while (first + 1 < d->world_size && !d->members[first].client)
		first++;
	snprintf(who, sizeof(who), "%s", inc_derivation_name(d, join->rank));
	describe(asks, said->how, said->round, join->world_size);
	describe(other, d->how, d->round, d->world_size);
	inc_err_set(text, EINVAL, "group %u (%s): %s asks for %s, %s for %s", said->of, d->job, who,
		    asks, inc_derivation_name(d, first), other);
}

static bool agrees(const struct inc_derivation *d, const struct inc_join *join,
		   const struct inc_msg_derive *said)
{
	return d->how == said->how &&
	       (d->how != INC_DERIVE_GROW || d->world_size == join->world_size);
}

/* Makes a derivation that is refused at once, so that the other ranks receive its error when they
 * ask for it. */
static int open_refused(struct inc_core_client *client, struct inc_group *parent,
			const struct inc_join *join, const struct inc_msg_derive *said, int code,
			const struct inc_err *why)
{
	struct inc_derivation *d =
		inc_derivation_new(client->core, parent, parent->job, said, parent->world_size);

	if (!d)
		return -ENOMEM;
	attach(d, client, join, said);
	inc_derivation_fail(d, code, "%s", why->msg);
	return 0;
}

/* Handles that the ranks of a group ask for different derivations. They fail, except that a shrink
 * has priority: the rank that asks for it has seen a loss that the other ranks have not seen
 * yet. */
static int disagree(struct inc_derivation *other, struct inc_core_client *client,
		    struct inc_group *parent, const struct inc_join *join,
		    const struct inc_msg_derive *said)
{
	const bool shrinks = other->how == INC_DERIVE_SHRINK;
	const bool same = find(parent, said) == other;
	struct inc_err text;

	explain_difference(other, join, said, &text);
	if (shrinks && said->how != INC_DERIVE_SHRINK)
		return open_refused(client, parent, join, said, ECANCELED, &text);
	if (same)
		attach(other, client, join, said);
	inc_derivation_fail(other, EINVAL, "%s", text.msg);
	return same ? 0 : open_refused(client, parent, join, said, EINVAL, &text);
}

/* Sets the parent group of a derivation for which newcomers have asked before any member of that
 * group. */
static void adopt(struct inc_derivation *d, struct inc_group *parent, uint32_t round)
{
	d->parent = parent;
	d->round = round;
	inc_core_timer_arm(&d->timer, d->core->opt.group_timeout_ms);
	inc_core_wait_begin(&d->wait);
	for (unsigned int rank = 0; rank < parent->world_size; rank++) {
		struct inc_err why;

		if (!d->members[rank].client)
			continue;
		inc_err_set(&why, EINVAL, "job %s has %u ranks: rank %u is one of them", d->job,
			    parent->world_size, rank);
		inc_derivation_reject_client(d, rank, EINVAL, &why);
	}
}

/* Handles a rank's request that is the first one for its derivation. Returns 0 or -ENOMEM. */
static int begin(struct inc_core_client *client, struct inc_group *parent,
		 const struct inc_join *join, const struct inc_msg_derive *said)
{
	struct inc_derivation *d = NULL;
	struct inc_err text;

	if (said->how == INC_DERIVE_GROW)
		d = find_grow(client->core, parent->job);
	if (d && d->parent) {
		inc_err_set(&text, EBUSY, "job %s: its group %u grows already", d->job,
			    d->parent->number);
		return open_refused(client, parent, join, said, EBUSY, &text);
	}
	if (d && d->world_size != join->world_size)
		return disagree(d, client, parent, join, said);
	if (d)
		adopt(d, parent, said->round);
	else
		d = inc_derivation_new(client->core, parent, parent->job, said, join->world_size);
	if (!d)
		return -ENOMEM;
	attach(d, client, join, said);
	inc_derivation_make_if_complete(d);
	return 0;
}

/* Checks a member's request. Returns 0, or -errno if the client is not the member of the parent
 * group that it claims to be, or if the parent group does not allow the derivation. */
static int check_member(const struct inc_group *parent, const struct inc_core_client *client,
			const struct inc_msg_join *said, const struct inc_join *join,
			struct inc_err *err)
{
	const enum inc_derive_how how = said->derive.how;
	const struct inc_member *member;

	if (!parent || !inc_group_formed(parent))
		return inc_err_set(err, ENOENT, "there is no group %u", said->derive.of);
	member = &parent->members[join->rank < parent->world_size ? join->rank : 0];
	if (member->rank != join->rank || !member->client ||
	    !inc_same_host(client->core, member->host, join->host) ||
	    strcmp(parent->job, join->job) != 0 || !inc_core_same_address(client, member->client))
		return inc_err_set(err, EPERM, "this is not rank %u of group %u of job %s",
				   join->rank, parent->number, join->job);
	if (how == INC_DERIVE_GROW ? join->world_size <= parent->world_size
				   : join->world_size != parent->world_size)
		return inc_err_set(err, EINVAL, "group %u has %u ranks: 'world_size' of %s is %u",
				   parent->number, parent->world_size, inc_derive_hows[how],
				   join->world_size);
	if (how != INC_DERIVE_SHRINK && inc_group_ended(parent))
		return inc_err_set(err, parent->over_code, "%s", parent->over);
	return 0;
}

static int take_member(struct inc_core_client *client, const struct inc_msg_join *said,
		       const struct inc_join *join, struct inc_err *err)
{
	struct inc_group *parent = inc_group_find(client->core, said->derive.of);
	struct inc_derivation *d, *open;
	int ret = check_member(parent, client, said, join, err);

	if (ret)
		return ret;
	d = find(parent, &said->derive);
	if (d && d->phase == DERIVE_REFUSED) {
		inc_derivation_answer_refused(d, join->rank, client);
		return 0;
	}
	if (d ? d->members[join->rank].client != NULL
	      : said->derive.round < parent->derived[inc_derive_count(said->derive.how)])
		return inc_err_set(err, EEXIST, "%s %u of group %u has been asked for already",
				   inc_derive_hows[said->derive.how], said->derive.round,
				   parent->number);
	open = find_open(parent);
	if (open && said->derive.how == INC_DERIVE_SHRINK && open->how != INC_DERIVE_SHRINK) {
		explain_difference(open, join, &said->derive, err);
		inc_derivation_fail(open, ECANCELED, "%s", err->msg);
		open = NULL;
	}
	if (!open)
		return begin(client, parent, join, &said->derive);
	if (open != d || !agrees(d, join, &said->derive))
		return disagree(open, client, parent, join, &said->derive);
	attach(d, client, join, &said->derive);
	inc_derivation_make_if_complete(d);
	return 0;
}

/* Checks a newcomer's request. Returns 0, or -errno if the job has no group that a newcomer of this
 * rank can join. */
static int check_job(const struct inc_core *core, const struct inc_join *join, struct inc_err *err)
{
	const struct inc_group *group;
	unsigned int least = 0;

	LIST_FOREACH (group, &core->groups, entry) {
		if (group->phase == GROUP_RUNNING && strcmp(group->job, join->job) == 0 &&
		    (!least || group->world_size < least))
			least = group->world_size;
	}
	if (!least)
		return inc_err_set(err, ENOENT, "no group of job %s runs", join->job);
	if (join->rank < least)
		return inc_err_set(err, EINVAL, "job %s has %u ranks: rank %u is one of them",
				   join->job, least, join->rank);
	return 0;
}

/* Checks a newcomer's request for the grow that is under way. Returns 0, or -errno if the grow has
 * no place for this newcomer. */
static int check_newcomer(const struct inc_derivation *d, const struct inc_join *join,
			  struct inc_err *err)
{
	if (d->world_size != join->world_size)
		return inc_err_set(err, EINVAL, "job %s grows to %u ranks, not to %u", d->job,
				   d->world_size, join->world_size);
	if (d->parent && join->rank < d->parent->world_size)
		return inc_err_set(err, EINVAL, "job %s has %u ranks: rank %u is one of them",
				   d->job, d->parent->world_size, join->rank);
	if (d->members[join->rank].client)
		return inc_err_set(err, EEXIST, "job %s: rank %u is taken, by %s", d->job,
				   join->rank,
				   d->core->topo->hosts[d->members[join->rank].join.host].name);
	return 0;
}

static int take_newcomer(struct inc_core_client *client, const struct inc_msg_join *said,
			 const struct inc_join *join, struct inc_err *err)
{
	struct inc_derivation *d = find_grow(client->core, join->job);
	int ret;

	if (said->derive.how != INC_DERIVE_GROW)
		return inc_err_set(err, EINVAL, "derive.of: is missing");
	ret = inc_group_check_host(client->core, d ? d->parent : NULL, join->host, err);
	if (!ret)
		ret = d ? check_newcomer(d, join, err) : check_job(client->core, join, err);
	if (ret)
		return ret;
	if (!d)
		d = inc_derivation_new(client->core, NULL, join->job, &said->derive,
				       join->world_size);
	if (!d)
		return -ENOMEM;
	attach(d, client, join, &said->derive);
	if (d->parent)
		inc_derivation_make_if_complete(d);
	return 0;
}

void inc_derive_join(struct inc_core_client *client, const struct inc_msg_join *said)
{
	struct inc_join join;
	struct inc_err err;
	int ret = inc_group_check_newcomer(client->core, said, &join, &err);

	if (!ret && said->derive.has_of)
		ret = take_member(client, said, &join, &err);
	else if (!ret)
		ret = take_newcomer(client, said, &join, &err);
	if (!ret)
		return;
	if (ret == -ENOMEM)
		inc_err_set(&err, ENOMEM, "the controller is out of memory");
	inc_info("%s: G refused: %s", client->peer, err.msg);
	inc_act_refuse(client, -ret, NULL, "%s", err.msg);
}

void inc_derive_report(struct inc_member *member, const struct inc_msg_report *said)
{
	const struct inc_msg_derive *derive = &said->derive;
	struct inc_group *parent = member->group;
	struct inc_derivation *d = find(parent, derive);

	/* a derivation that is over has already sent its error to all ranks */
	if (!d && derive->round < parent->derived[inc_derive_count(derive->how)])
		return;
	if (derive->how != INC_DERIVE_SHRINK && inc_group_ended(parent))
		return;
	if (!d)
		d = inc_derivation_new(parent->core, parent, parent->job, derive,
				       parent->world_size);
	if (!d) {
		inc_warn("%s: failed ignored: out of memory", member->client->peer);
		return;
	}
	d->members[member->rank].answered = true;
	if (d->phase == DERIVE_REFUSED)
		inc_derive_parent_changed(parent);
	else
		inc_derivation_fail(d, said->code, "%s: %s (%s)", inc_member_name(member),
				    said->message, inc_errno_name(said->code));
}
