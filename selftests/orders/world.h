/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is around the data path in a search: children and a parent that send scripted packets on
 * CPUs of their own, the slow path's tick, and what must hold of all that they see.
 */
#ifndef ORDERS_WORLD_H
#define ORDERS_WORLD_H

#include <stdbool.h>
#include <stdint.h>
#include "search.h"

enum act {
	END,
	KEEP,  /* connection sends packet r until it is kept; when it is refused, waits for result
		* r - slots */
	SEND,  /* sends it once, whatever becomes of it */
	AWAIT, /* waits until packet r has come to the connection's peer */
	ACK,   /* the peer acknowledges what it was sent, packet r included */
	TICK,  /* the slow path looks after the connection once, as inc-switchd's timer does */
};

struct step {
	enum act act;
	uint32_t conn; /* a child, or behind them the parent */
	uint64_t r;
};

#define SHAPE_STEPS 8

struct shape {
	const char *name;
	uint32_t children, slots;
	bool up;        /* below the root */
	bool impatient; /* children send before they may: a result may then find its child's row
			 * gone, and is not owed to it */
	uint64_t chunks;
	/* Bounds of the search, 0: none; and with FULL=1. */
	unsigned int preemptions, full_preemptions;
	struct step cpu[SEARCH_THREADS][SHAPE_STEPS];
};

/* All orders of the shape. 0, or -1: result says what is wrong. order_stores: as
 * data_path_open(). */
int world_search(const struct shape *shape, const struct search_options *options, bool order_stores,
		 struct search_result *result);

#endif
