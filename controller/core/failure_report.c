/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What switches have said of ranks while it was not known whether those had left: all of it is
 * kept, for a switch tells each failure but once. Called by orphan.c, before a communicator is
 * claimed, and by comm_event.c, which judges.
 */
#include <stdlib.h>
#include "controller/core/core.h"

bool inc_failure_report_add(struct inc_failure_reports *set,
			    const struct inc_failure_report *report)
{
	struct inc_failure_report *a;

	LIST_FOREACH (a, set, entry) {
		if (a->by == report->by && a->rank == report->rank)
			return true;
	}
	a = malloc(sizeof(*a));
	if (!a)
		return false;
	*a = *report;
	LIST_INSERT_HEAD(set, a, entry);
	return true;
}

void inc_failure_report_remove(struct inc_failure_report *a)
{
	LIST_REMOVE(a, entry);
	free(a);
}

void inc_failure_reports_free(struct inc_failure_reports *set)
{
	while (!LIST_EMPTY(set))
		inc_failure_report_remove(LIST_FIRST(set));
}
