/* SPDX-License-Identifier: BSD-2-Clause */
/* A model of one side of a connection, without a device. The model knows the precondition and the
 * effect of each action. */
#ifndef SELFTESTS_CONNECT_MODEL_SIDE_H
#define SELFTESTS_CONNECT_MODEL_SIDE_H

#include <stdint.h>
#include "hostlib/connect/state.h"

enum { QP_NONE, QP_INIT, QP_RTR, QP_RTS, QP_ERR };
enum { TOLD_NOTHING, TOLD_READY, TOLD_FAILED };

/* State of a side. A new side is all zero. It has only byte members, so that two sides can be
 * compared as memory. */
struct model_side {
	uint8_t state; /* a value of enum connect_state */
	uint8_t qp;
	uint8_t clock, tcp;
	uint8_t aiming;   /* the queue pair's step to RTR is in progress */
	uint8_t receives; /* receive buffers are posted */
	uint8_t told;
	uint8_t answered;
	/* probed: the probe has been posted; closed: the close has been posted */
	uint8_t probed, closed;
};

/* Applies an event with all its consequences. Returns NULL, or a text that names a violated
 * rule. */
const char *model_side_step(struct model_side *side, enum connect_event event);

#endif
