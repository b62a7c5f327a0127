/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A star: some ranks, each with libinccl's communicator and soft endpoint (hostlib/src, as it is),
 * around one switch. What they compute, and what goes wrong meanwhile, is the seed's choice; what
 * must hold all the same is checked at every frame that the switch sends, and at the end.
 */
#ifndef SIM_STAR_H
#define SIM_STAR_H

/* One run, whose seed sim_begin() has been told. */
void star_run(void);

#endif
