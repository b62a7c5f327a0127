/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lists of failure reports and standing notices (failure_report.h). All failures are stored,
 * because a switch reports each failure only once. orphan.c collects reports and notices before a
 * communicator is claimed. comm_event.c collects them for a communicator and acts on them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "controller/core/failure_report.h"
#include "controller/core/switch.h"

bool inc_failure_report_add(struct inc_failure_reports *set,
			    const struct inc_failure_report *report)
{
	struct inc_failure_report *r;

	LIST_FOREACH (r, set, entry) {
		if (r->by == report->by && r->rank == report->rank)
			return true;
	}
	r = malloc(sizeof(*r));
	if (!r)
		return false;
	*r = *report;
	LIST_INSERT_HEAD(set, r, entry);
	return true;
}

void inc_failure_report_remove(struct inc_failure_report *report)
{
	LIST_REMOVE(report, entry);
	free(report);
}

void inc_failure_reports_free(struct inc_failure_reports *set)
{
	while (!LIST_EMPTY(set))
		inc_failure_report_remove(LIST_FIRST(set));
}

static void standing_free(struct inc_standing *s)
{
	LIST_REMOVE(s, entry);
	free(s);
}

bool inc_standing_set(struct inc_standings *set, const struct inc_core_switch *by, const char *text)
{
	struct inc_standing *s;

	LIST_FOREACH (s, set, entry)
		if (s->by == by)
			break;
	if (s ? !strcmp(s->text, text) : !*text)
		return false;
	if (!*text) {
		standing_free(s);
		return true;
	}
	if (!s) {
		s = calloc(1, sizeof(*s));
		if (!s)
			return false;
		s->by = by;
		LIST_INSERT_HEAD(set, s, entry);
	}
	snprintf(s->text, sizeof(s->text), "%s", text);
	return true;
}

void inc_standing_print(const struct inc_standings *set, char *buf, size_t size)
{
	const struct inc_standing *s;
	size_t n = 0;

	*buf = '\0';
	LIST_FOREACH (s, set, entry) {
		if (n < size)
			n += snprintf(buf + n, size - n, "%sswitch %s: %s", n ? "; " : "",
				      inc_switch_name(s->by), s->text);
	}
}

void inc_standings_free(struct inc_standings *set)
{
	while (!LIST_EMPTY(set))
		standing_free(LIST_FIRST(set));
}
