/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Failures that switches have reported and on which the core cannot act yet. A failure of a rank
 * has no effect if that rank had already left. After a restart of the controller that is unknown
 * until the rank has come back or its time to come back is over.
 */
#ifndef INC_FAILURE_REPORT_H
#define INC_FAILURE_REPORT_H

#include <stdbool.h>
#include <sys/queue.h>

struct inc_core_switch;

struct inc_failure_report {
	int code;
	/* rank that does not answer; -1: none, and the communicator fails in any case */
	int rank;
	bool is_own;  /* no peer has failed, but a port of the switch or its daemon has */
	bool stopped; /* the communicator ended, because the switch's daemon has stopped */
	/* The switch that has reported the failure. NULL: the controller itself has found the
	 * failure, and text names everything. */
	const struct inc_core_switch *by;
	char text[320];
	LIST_ENTRY(inc_failure_report) entry;
};
LIST_HEAD(inc_failure_reports, inc_failure_report);

/* Adds a copy of the report, unless the switch has already reported the same rank. Returns false if
 * there is no memory. */
bool inc_failure_report_add(struct inc_failure_reports *set,
			    const struct inc_failure_report *report);
/* Removes the report from its list, and frees it. */
void inc_failure_report_remove(struct inc_failure_report *report);
void inc_failure_reports_free(struct inc_failure_reports *set);

#endif
