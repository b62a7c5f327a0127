/* SPDX-License-Identifier: BSD-2-Clause */
/* One side of a connection without a device: what its actions need, and what they change. */
#ifndef SIDE_H
#define SIDE_H

#include <stdint.h>
#include "hostlib/connect/state.h"

enum { QP_NONE, QP_INIT, QP_RTR, QP_RTS, QP_ERR };
enum { TOLD_NOTHING, TOLD_READY, TOLD_FAILED };

/* All zero: a new one. Bytes alone, so that two can be compared as memory. */
struct side {
	uint8_t state; /* enum connect_state */
	uint8_t qp;
	uint8_t clock, tcp;
	uint8_t aiming;   /* its queue pair is on its way to RTR */
	uint8_t receives; /* are posted */
	uint8_t told;
	uint8_t answered;
	uint8_t probed, closed; /* the message has been posted */
};

/* The event, with all that follows of it; NULL, or what must not be. */
const char *side_step(struct side *side, enum connect_event event);

#endif
