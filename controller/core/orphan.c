/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Orphans: communicators of an earlier controller that a switch has and that no member has claimed.
 * They continue to run. A member that connects to this controller claims its communicators
 * (inc_orphans_take()). An orphan that no member claims is removed if the switch has made no result
 * of it between two checks.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "controller/core/comm.h"
#include "controller/core/comm_event.h"
#include "controller/core/core.h"
#include "controller/core/group.h"
#include "controller/core/orphan.h"
#include "controller/core/switch.h"
#include "lib/base/log.h"

struct inc_orphan {
	struct inc_core_switch *sw;
	uint32_t number;
	bool seen;        /* the switch has answered a check of its results at least once */
	uint64_t results; /* number of the orphan's results, as in the switch's last answer */
	/* failures of the orphan that the switch has reported */
	struct inc_failure_reports failure_reports;
	bool ended;       /* the switch has reported that a neighbour ended the orphan */
	bool stopped;     /* the orphan ended, because the switch's daemon has stopped */
	char notice[320]; /* the switch's present notice about the orphan; "": none */
	struct inc_core_timer timer;
	LIST_ENTRY(inc_orphan) entry;
};

static struct inc_orphan *find(const struct inc_core_switch *sw, uint32_t number)
{
	struct inc_orphan *o;

	LIST_FOREACH (o, &sw->core->orphans, entry) {
		if (o->sw == sw && o->number == number)
			return o;
	}
	return NULL;
}

static void orphan_free(struct inc_orphan *o)
{
	LIST_REMOVE(o, entry);
	inc_failure_reports_free(&o->failure_reports);
	inc_core_timer_stop(&o->timer);
	free(o);
}

static void check_later(struct inc_orphan *o)
{
	inc_core_timer_arm(&o->timer, o->sw->core->opt.group_timeout_ms);
}

void inc_orphan_take_results(struct inc_core_switch *sw, uint32_t number, int code,
			     const char *text, bool found, uint64_t results)
{
	struct inc_orphan *o = find(sw, number);

	if (!o) /* no orphan any more: a member has claimed it, or the switch is lost */
		return;
	if (code) {
		inc_warn("switch %s does not report the results of communicator %u: %s",
			 inc_switch_name(sw), o->number, text);
		check_later(o);
		return;
	}
	if (!found) {
		orphan_free(o);
		return;
	}
	if (!o->seen || results != o->results) {
		o->seen = true;
		o->results = results;
		check_later(o);
		return;
	}
	inc_info(
		"communicator %u on switch %s is removed: no member has claimed it and nothing has "
		"moved for %u ms",
		o->number, inc_switch_name(sw), sw->core->opt.group_timeout_ms);
	orphan_free(o);
	inc_act_remove(sw, number);
}

static void on_timer(void *arg)
{
	struct inc_orphan *o = arg;

	if (o->stopped)
		orphan_free(o);
	else if (inc_act_ask_results(o->sw, o->number))
		check_later(o);
}

bool inc_orphan_add(struct inc_core_switch *sw, uint32_t number)
{
	struct inc_orphan *o;

	if (find(sw, number))
		return true;
	o = calloc(1, sizeof(*o));
	if (!o)
		return false;
	o->sw = sw;
	o->number = number;
	inc_core_timer_init(&o->timer, sw->core, on_timer, o);
	LIST_INSERT_HEAD(&sw->core->orphans, o, entry);
	check_later(o);
	return true;
}

static void add_report(struct inc_orphan *o, const struct inc_failure_report *report)
{
	if (!inc_failure_report_add(&o->failure_reports, report))
		inc_warn("switch %s: no memory for a failure of communicator %u: %s",
			 inc_switch_name(o->sw), o->number, report->text);
}

void inc_orphans_report_failure(struct inc_core *core, uint32_t number, int code, const char *text)
{
	struct inc_failure_report report = {.code = code, .rank = -1};
	struct inc_orphan *o;

	snprintf(report.text, sizeof(report.text), "%s", text);
	LIST_FOREACH (o, &core->orphans, entry) {
		if (o->number == number)
			add_report(o, &report);
	}
}

bool inc_orphan_is(const struct inc_core_switch *sw, uint32_t number)
{
	return find(sw, number);
}

bool inc_orphan_fail(struct inc_core_switch *sw, uint32_t number,
		     const struct inc_failure_report *report)
{
	struct inc_orphan *o = find(sw, number);

	if (!o)
		return false;
	add_report(o, report);
	o->stopped |= report->stopped;
	return true;
}

void inc_orphan_ended(struct inc_core_switch *sw, uint32_t number)
{
	struct inc_orphan *o = find(sw, number);

	if (o)
		o->ended = true;
}

void inc_orphan_set_notice(const struct inc_core_switch *sw, uint32_t number, const char *text)
{
	struct inc_orphan *o = find(sw, number);

	if (o)
		snprintf(o->notice, sizeof(o->notice), "%s", text);
}

/* Passes a failure that the switch reported for an orphan to the communicator, because a member has
 * claimed it. */
static void take_report(struct inc_comm *comm, const struct inc_failure_report *report)
{
	if (comm->phase == COMM_FAILED ||
	    (report->rank >= 0 && inc_failure_report_add(&comm->failure_reports, report)))
		return;
	if (report->by)
		inc_comm_fail(comm, -1, report->code, "switch %s: %s", inc_switch_name(report->by),
			      report->text);
	else
		inc_comm_fail(comm, -1, report->code, "%s", report->text);
}

int inc_orphans_take(struct inc_comm *comm)
{
	struct inc_orphan *o = LIST_FIRST(&comm->group->core->orphans), *next;
	const struct inc_failure_report *r;

	for (; o; o = next) {
		next = LIST_NEXT(o, entry);
		if (o->number != comm->number)
			continue;
		if (inc_tree_find(comm->tree, o->sw->index) < 0 &&
		    inc_comm_adopt_switch(comm, o->sw))
			return -ENOMEM;
		LIST_FOREACH (r, &o->failure_reports, entry)
			take_report(comm, r);
		inc_comm_set_notice(comm, o->sw, o->notice);
		if (o->ended)
			inc_comm_wait_for_reason(comm, o->sw);
		orphan_free(o);
	}
	return 0;
}

void inc_orphans_forget(struct inc_core_switch *sw)
{
	struct inc_orphan *o = LIST_FIRST(&sw->core->orphans), *next;

	for (; o; o = next) {
		next = LIST_NEXT(o, entry);
		if (o->sw == sw && !o->stopped)
			orphan_free(o);
	}
}

void inc_orphans_free(struct inc_core *core)
{
	while (!LIST_EMPTY(&core->orphans))
		orphan_free(LIST_FIRST(&core->orphans));
}

bool inc_orphan_known(const struct inc_core *core, uint32_t number)
{
	const struct inc_orphan *o;

	LIST_FOREACH (o, &core->orphans, entry) {
		if (o->number == number)
			return true;
	}
	return false;
}

void inc_orphans_each(const struct inc_core *core,
		      void (*fn)(const struct inc_core_switch *sw, uint32_t number, void *arg),
		      void *arg)
{
	const struct inc_orphan *o;

	LIST_FOREACH (o, &core->orphans, entry)
		fn(o->sw, o->number, arg);
}
