/* SPDX-License-Identifier: BSD-2-Clause */
/* Comparisons of the switch's maps with the reference. Each returns 0, or -1 with the first
 * difference in u->why. */
#ifndef UNIT_COMPARE_H
#define UNIT_COMPARE_H

#include "unit.h"

const char *unit_verdict_name(uint32_t verdict);

int compare_verdict(struct unit *u, const struct frame *in, uint32_t verdict);
int compare_read_counters(struct unit *u, uint64_t value[INC_CTR_MAX]);
int compare_counters(struct unit *u);
int compare_events(struct unit *u);
/* compares the communicator and all its connections */
int compare_comm(struct unit *u, const struct ref_comm *cm);
int compare_slot(struct unit *u, const struct ref_comm *cm, uint32_t slot);
int compare_contrib(struct unit *u, const struct ref_comm *cm, uint32_t child, uint64_t r);
/* compares a row of the parent's results */
int compare_passed(struct unit *u, const struct ref_comm *cm, uint64_t r);
int compare_result(struct unit *u, const struct ref_comm *cm, uint64_t r);
int compare_frame(struct unit *u, const char *what, const struct frame *have,
		  const struct frame *want);

#endif
