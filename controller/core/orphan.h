/* SPDX-License-Identifier: BSD-2-Clause */
/* Orphans: communicators of an earlier controller that a switch has and that no member has claimed
 * (orphan.c). */
#ifndef INC_ORPHAN_H
#define INC_ORPHAN_H

#include <stdbool.h>
#include <stdint.h>
#include "controller/core/failure_report.h"

struct inc_comm;
struct inc_core;
struct inc_core_switch;

/* Makes an orphan for a communicator that the switch has. Returns false if there is no memory. */
bool inc_orphan_add(struct inc_core_switch *sw, uint32_t number);
/* Stores a failure that the switch reports for an orphan, because a member that claims it must
 * receive that failure. Returns false if the communicator is no orphan. */
bool inc_orphan_fail(struct inc_core_switch *sw, uint32_t number,
		     const struct inc_failure_report *report);
/* Stores that a neighbour has ended the orphan, as the switch reports. It has the effect of a
 * failure. */
void inc_orphan_ended(struct inc_core_switch *sw, uint32_t number);
/* Stores a failure for all orphans of this number, because a switch has lost its part of the
 * communicator. Members that claim the part of another switch receive the error. */
void inc_orphans_report_failure(struct inc_core *core, uint32_t number, int code, const char *text);
/* Stores what a switch finds wrong with an orphan now, or "". Without such an orphan it does
 * nothing. */
void inc_orphan_set_notice(const struct inc_core_switch *sw, uint32_t number, const char *text);
bool inc_orphan_is(const struct inc_core_switch *sw, uint32_t number);
/* Gives a communicator its orphans, because a member has claimed it: the orphans on all switches
 * end, and their switches become switches of the communicator. The communicator fails if one of the
 * switches has reported a failure (inc_comm_apply_reports()). Returns 0 or -ENOMEM. */
int inc_orphans_take(struct inc_comm *comm);
/* Handles that a switch is lost. Its orphans are freed, because its next hello lists its
 * communicators again. Orphans that ended with the switch's daemon stay for the group timeout, so
 * that a member that claims one receives the reason. */
void inc_orphans_forget(struct inc_core_switch *sw);
void inc_orphans_free(struct inc_core *core);
/* Whether any switch has an orphan of this number. */
bool inc_orphan_known(const struct inc_core *core, uint32_t number);
void inc_orphans_each(const struct inc_core *core,
		      void (*fn)(const struct inc_core_switch *sw, uint32_t number, void *arg),
		      void *arg);
/* Handles a switch's answer about the results of an orphan. code is 0, or the error with its text.
 * found: the switch still has the communicator, which has made this number of results. */
void inc_orphan_take_results(struct inc_core_switch *sw, uint32_t number, int code,
			     const char *text, bool found, uint64_t results);

#endif
