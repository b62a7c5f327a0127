/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The surroundings of the data path in a search. Children and a parent send scripted packets, each
 * on its own CPU. The slow path's tick runs, too. Everything that the peers and the tick observe is
 * checked.
 */
#ifndef SELFTESTS_ORDERS_HARNESS_PEERS_H
#define SELFTESTS_ORDERS_HARNESS_PEERS_H

#include <stdbool.h>
#include <stdint.h>
#include "search.h"

enum act {
	END,
	/* the connection's peer sends packet r, and sends it again after result r - slots if it was
	 * refused */
	KEEP,
	SEND,  /* the connection's peer sends packet r once; the packet may be refused */
	AWAIT, /* the CPU waits until packet r has arrived at the connection's peer */
	ACK,   /* the connection's peer acknowledges the packets that it was sent, up to packet r */
	TICK,  /* the slow path checks the connection once, as inc-switchd's timer does */
	SERVE, /* the CPU handles what is in its queue, until so many CPUs (conn) have left */
	LEAVE, /* the CPU puts nothing more into the queue of that CPU (conn) */
	MOVE,  /* the daemon moves the communicator to that CPU (conn), if it is idle */
};

struct step {
	enum act act;
	/* index of a child's connection; the parent's is the one after the last child's */
	uint32_t conn;
	uint64_t r;
};

#define SHAPE_STEPS 8

struct shape {
	const char *name;
	uint32_t children, slots;
	bool up; /* the switch has a parent */
	/* children send before their window is open; a result may then find that its child's row is
	 * reused, and the switch need not send it */
	bool impatient;
	uint64_t chunks;
	/* Bounds of preemptions in the search, without and with FULL=1; 0: no bound. */
	unsigned int preemptions, full_preemptions;
	struct step cpu[SEARCH_THREADS][SHAPE_STEPS];
};

/* How a shape is run. */
struct conduct {
	bool reorder; /* the switch keeps contributions ahead of a gap */
	bool ordered; /* results must leave in order */
	/* number of the communicator's CPU plus 1; 0: it has none */
	uint32_t cpu_plus_1;
};

/* Searches all orders of the shape. Returns 0, or -1 with the reason in `result`. order_stores: see
 * data_path_open(). */
int search_shape(const struct shape *shape, const struct conduct *conduct,
		 const struct search_options *options, bool order_stores,
		 struct search_result *result);

#endif
