/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs the egress program. BPF_PROG_TEST_RUN refuses devmap programs, so a plain XDP program around
 * the same code runs here, on the switch's own maps.
 */
#ifndef UNIT_EGRESS_H
#define UNIT_EGRESS_H

#include "unit.h"

int egress_open(struct unit *u); /* returns 0, or -errno with the reason in u->why */
void egress_close(struct unit *u);
/* Makes one copy of u->out_frame for a port. Returns 0 or -errno. */
int egress_run(struct unit *u, uint32_t ifindex, struct frame *copy, uint32_t *verdict);
/* Makes the copies of u->out_frame, port by port as the devmap does, and compares each with the
 * reference. Returns 0, or -1 with the difference in why. */
int egress_copies(struct unit *u);
/* Makes the frame to the parent of u->out_frame, and compares it with the reference. */
int egress_partial(struct unit *u);

#endif
