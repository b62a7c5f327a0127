/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A native twin of a switch that the loader has loaded: the same maps with the same contents, and
 * the same packets through both programs. The kernel's is right by definition.
 */
#ifndef NATIVE_TWIN_H
#define NATIVE_TWIN_H

#include "native.h"
#include "selftests/unit/unit.h"

struct twin {
	struct unit *u;
	struct native_maps maps;
	uint64_t copies;
	struct unit_watch watch;
	uint32_t watched, communicator; /* packets since this one was the newest */
	bool looks_away;
};

/* Of a switch without communicators, after native_open(). 0, or -1 with u->why, as all here. */
int twin_open(struct twin *t, struct unit *u);
void twin_close(struct twin *t);
/* The switch has a communicator more, or one less: the twin takes over what the loader, or the
 * test, has written to the maps. cm: the new one, whose state is taken over as well; NULL: none. */
int twin_follow(struct twin *t, const struct ref_comm *cm);
/* The packet through both: verdict, what is left of the frame, where it goes, events, states and
 * slots of its communicator (NULL: it has none) and each copy that is made must be the same. */
int twin_run(struct twin *t, const struct frame *f, uint32_t ifindex, const struct ref_comm *cm);
/* What the cases of unit/ run, beside them: t->u->watch is set until twin_close(). All maps are
 * taken over before each run, whoever has written there; so of a case with many packets it looks at
 * the first ones, and at some of the others. */
void twin_watch(struct twin *t);
/* All that both programs write to: counters, and rows, slots and states of a communicator. */
int twin_compare_counters(struct twin *t);
int twin_compare(struct twin *t, const struct ref_comm *cm);

#endif
