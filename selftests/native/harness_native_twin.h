/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A native twin of a switch that the loader has loaded. The twin has the same maps with the same
 * contents, and each packet runs through both programs. The kernel's result counts as right.
 */
#ifndef SELFTESTS_NATIVE_HARNESS_NATIVE_TWIN_H
#define SELFTESTS_NATIVE_HARNESS_NATIVE_TWIN_H

#include "native.h"
#include "selftests/unit/unit.h"

struct native_twin {
	struct unit *u;
	struct native_maps maps;
	uint64_t copies;
	struct unit_watch watch;
	/* watched: number of packets since `communicator` became the newest one */
	uint32_t watched, communicator;
	bool skips;
};

/* Opens the twin of a switch that has no communicators, after native_open(). All functions here
 * return 0, or -1 with u->why. */
int native_twin_open(struct native_twin *t, struct unit *u);
void native_twin_close(struct native_twin *t);
/* Called when the switch has got or lost a communicator. Copies what the loader or the test has
 * written to the maps. cm: the new communicator, whose state is copied as well; NULL: none. */
int native_twin_follow(struct native_twin *t, const struct ref_comm *cm);
/* Runs the packet through both programs. They must agree in verdict, frame, destination, events,
 * each copy, and in the states and slots of the packet's communicator (cm; NULL: it has none). */
int native_twin_run(struct native_twin *t, const struct frame *f, uint32_t ifindex,
		    const struct ref_comm *cm);
/* Runs the native programs beside the cases of unit/, by t->u->watch, until native_twin_close().
 * Before each run all maps are copied, because the case may have written to them. If a case has
 * many packets, only the first ones and some others are compared. */
void native_twin_watch(struct native_twin *t);
/* Compare everything that both programs write: counters, and the rows, slots and states of a
 * communicator. */
int native_twin_compare_counters(struct native_twin *t);
int native_twin_compare(struct native_twin *t, const struct ref_comm *cm);

#endif
