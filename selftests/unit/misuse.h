/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random packets for several communicators at once. The children and parents of the communicators
 * mostly follow the protocol, and otherwise break it in every way. The packets follow from random
 * numbers and the reference's state.
 */
#ifndef UNIT_MISUSE_H
#define UNIT_MISUSE_H

#include "stream.h"

#define MISUSE_COMMS 4

/* Functions of the caller. Each returns 0, or another number with the reason in u->why. */
struct misuse {
	uint32_t packets; /* number of packets in one round */
	/* Runs a packet of this communicator, and updates the reference's state. */
	int (*run)(void *arg, const struct frame *f, uint32_t ifindex, struct ref_comm *cm);
	/* Called after a communicator was added. May be NULL. */
	int (*opened)(void *arg, struct ref_comm *cm);
	/* Compares the state before some or all communicators are removed. */
	int (*compare)(void *arg);
	void *arg;
};

/* Plays one set of communicators. Each communicator that fails is replaced. Returns 0, or -1 with
 * the reason in u->why. */
int misuse_round(struct unit *u, struct rng *rng, const struct misuse *m);

#endif
