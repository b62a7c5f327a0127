/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rules for frames that leave a switch in passthrough mode. The switch acknowledges what it has
 * stored, a result or partial sum leaves when it is complete and is always the same, and checksums
 * and source address are right. A frame that breaks a rule fails the run.
 */
#ifndef SIM_WATCH_H
#define SIM_WATCH_H

#include <stddef.h>
#include <stdint.h>
#include "xdp.h"

struct watch {
	const char *name;    /* name of the switch, for errors */
	unsigned int number; /* number of the switch in its tree */
	struct xdp *xdp;
};

/* Starts the checks for a new run, in which no frame was sent yet. */
void watch_begin(void);
/* Checks a frame that leaves the switch. */
void watch_frame(const struct watch *watch, unsigned int port, const uint8_t *frame, size_t len);

#endif
