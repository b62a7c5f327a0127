/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reports of switches about a communicator: failures, and notices that stand.
 *
 * Failures are those on which the core cannot act yet. A failure of a rank has no effect if that
 * rank had already left. After a restart of the controller that is unknown until the rank has come
 * back or its time to come back is over.
 *
 * A standing notice is what a switch finds wrong with the communicator now although the
 * communicator goes on. There is at most one of each switch.
 */
#ifndef INC_FAILURE_REPORT_H
#define INC_FAILURE_REPORT_H

#include <stdbool.h>
#include <stddef.h>
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

struct inc_standing {
	const struct inc_core_switch *by;
	char text[320];
	LIST_ENTRY(inc_standing) entry;
};
LIST_HEAD(inc_standings, inc_standing);

/* Replaces the switch's standing notice by this text; "" removes it. Returns whether that changes
 * anything. Without memory the notice is not stored, and the function returns false. */
bool inc_standing_set(struct inc_standings *set, const struct inc_core_switch *by,
		      const char *text);
/* Writes all standing notices, as "switch s0: port p1 is down; switch s1: ...", truncated to size.
 * Writes "" if there are none. */
void inc_standing_print(const struct inc_standings *set, char *buf, size_t size);
void inc_standings_free(struct inc_standings *set);

#endif
