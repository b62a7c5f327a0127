/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The surroundings of the data path in a search. Children and a parent send scripted packets on
 * CPUs of their own, the slow path's tick runs, and all that they see is checked.
 */
#ifndef ORDERS_WORLD_H
#define ORDERS_WORLD_H

#include <stdbool.h>
#include <stdint.h>
#include "search.h"

enum act {
	END,
	/* connection sends packet r. If the packet is refused, it is sent again after result r -
	 * slots */
	KEEP,
	SEND,  /* connection sends packet r once; it may be refused */
	AWAIT, /* waits until packet r has arrived at the connection's peer */
	ACK,   /* the peer acknowledges the packets that it was sent, up to packet r */
	TICK,  /* the slow path checks the connection once, as inc-switchd's timer does */
};

struct step {
	enum act act;
	uint32_t conn; /* a child, or the parent, which has the number after the last child */
	uint64_t r;
};

#define SHAPE_STEPS 8

struct shape {
	const char *name;
	uint32_t children, slots;
	bool up; /* the switch is not the root */
	/* children send before their window is open, so a result may find its child's row
	 * reused, and the switch need not send it */
	bool impatient;
	uint64_t chunks;
	/* Bounds of the search without and with FULL=1. 0: none. */
	unsigned int preemptions, full_preemptions;
	struct step cpu[SEARCH_THREADS][SHAPE_STEPS];
};

/* Searches all orders of the shape. Returns 0, or -1 with the reason in result. order_stores: see
 * data_path_open(). */
int world_search(const struct shape *shape, const struct search_options *options, bool order_stores,
		 struct search_result *result);

#endif
