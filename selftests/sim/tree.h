/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A tree of switches, in half of all seeds one alone: a star. Below it some ranks, each with
 * libinccl's communicator and soft endpoint (hostlib/src, as it is). What they compute, and what
 * goes wrong meanwhile, is the seed's choice; what must hold all the same is checked at every frame
 * that a switch sends, and at the end.
 */
#ifndef SIM_TREE_H
#define SIM_TREE_H

/* One run, whose seed sim_begin() has been told. */
void tree_run(void);

#endif
