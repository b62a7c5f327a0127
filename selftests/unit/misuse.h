/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random packets for several communicators at once, whose children and parents keep the protocol
 * most of the time and break it in every way the rest of it. What they send follows from the
 * random numbers and the reference's state.
 */
#ifndef UNIT_MISUSE_H
#define UNIT_MISUSE_H

#include "stream.h"

#define MISUSE_COMMS 4

/* Each returns 0, or another number with u->why. */
struct misuse {
	uint32_t packets; /* of a round */
	/* A packet of this communicator's has come; the reference's state is to follow. */
	int (*run)(void *arg, const struct frame *f, uint32_t ifindex, struct ref_comm *cm);
	/* There is a communicator more; NULL: nobody minds. */
	int (*opened)(void *arg, struct ref_comm *cm);
	/* Before some of them, or all, are removed. */
	int (*compare)(void *arg);
	void *arg;
};

/* One set of communicators, each replaced when it has failed. 0, or -1 with u->why. */
int misuse_round(struct unit *u, struct rng *rng, const struct misuse *m);

#endif
