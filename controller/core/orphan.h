/* SPDX-License-Identifier: BSD-2-Clause */
/* Communicators that a switch has and no member has claimed (orphan.c). */
#ifndef INC_ORPHAN_H
#define INC_ORPHAN_H

#include <stdbool.h>
#include <stdint.h>
#include "controller/core/core.h"

bool inc_orphan_add(struct inc_core_switch *sw, uint32_t number); /* false: no memory */
/* A failure that the switch tells: kept for those who claim it. False: it is none. */
bool inc_orphan_fail(struct inc_core_switch *sw, uint32_t number,
		     const struct inc_failure_report *report);
/* The switch has heard from a neighbour that it is over: as above. */
void inc_orphan_ended(struct inc_core_switch *sw, uint32_t number);
/* One switch has lost it: whoever claims it where others still have it hears that. */
void inc_orphans_report_failure(struct inc_core *core, uint32_t number, int code, const char *text);
bool inc_orphan_is(const struct inc_core_switch *sw, uint32_t number);
/* Claimed: all switches that have it are the communicator's now. It fails where one of them has
 * said so meanwhile, or is accused (inc_comm_apply_reports). 0 or -ENOMEM. */
int inc_orphans_take(struct inc_comm *comm);
/* The switch's next hello names them again, except those that ended with its daemon. These stay for
 * the group timeout, so that a member that claims one of them receives the reason. */
void inc_orphans_forget(struct inc_core_switch *sw);
void inc_orphans_free(struct inc_core *core);
bool inc_orphan_known(const struct inc_core *core, uint32_t number);
void inc_orphans_each(const struct inc_core *core,
		      void (*fn)(const struct inc_core_switch *sw, uint32_t number, void *arg),
		      void *arg);
/* What the switch says when it is asked. code 0, or why it says nothing; found: it has it. */
void inc_orphan_take_results(struct inc_core_switch *sw, uint32_t number, int code,
			     const char *text, bool found, uint64_t results);

#endif
