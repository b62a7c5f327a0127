/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lists of failure reports (failure_report.h). All of them are stored, because a switch reports
 * each failure only once. orphan.c collects them before a communicator is claimed, and comm_event.c
 * collects them for a communicator and acts on them.
 */
#include <stdlib.h>
#include "controller/core/failure_report.h"

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
