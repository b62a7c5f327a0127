/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random packets for several communicators at once. Their children and parents mostly follow the
 * protocol, and otherwise break it in every way. Their packets follow from random numbers and the
 * reference's state.
 */
#ifndef UNIT_MISUSE_H
#define UNIT_MISUSE_H

#include "stream.h"

#define MISUSE_COMMS 4

/* Calls of the user. Each returns 0, or another number with u->why. */
struct misuse {
	uint32_t packets; /* packets in one round */
	/* Runs a packet of this communicator, and updates the reference's state. */
	int (*run)(void *arg, const struct frame *f, uint32_t ifindex, struct ref_comm *cm);
	/* A communicator was added. May be NULL. */
	int (*opened)(void *arg, struct ref_comm *cm);
	/* Compares the state before some or all communicators are removed. */
	int (*compare)(void *arg);
	void *arg;
};

/* Plays one set of communicators, each of which is replaced after it has failed. Returns 0, or -1
 * with u->why. */
int misuse_round(struct unit *u, struct rng *rng, const struct misuse *m);

#endif
