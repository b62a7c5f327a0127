/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cables, with one object for each direction. Until the faults end, frames arrive late, out of
 * order, twice, damaged or not at all, as the seed decides. After that a cable has no faults.
 */
#ifndef SIM_WIRE_H
#define SIM_WIRE_H

#include <stddef.h>
#include <stdint.h>

#define WIRE_FRAME_MOST 4400

typedef void (*wire_fn)(void *arg, const uint8_t *frame, size_t len);

struct wire {
	char name[8];
	wire_fn out; /* receives the frames at the other end of the cable */
	void *arg;
	wire_fn tap; /* receives each frame as it was sent; may be NULL */
	void *tap_arg;
	uint32_t lost, repeated, damaged, delayed; /* chances in 1,000 for each frame */
	uint32_t burst; /* greatest number of consecutive frames that are lost together */
	uint32_t burst_left;
	uint64_t delay_ns, jitter_ns;
	uint64_t late_ns;                /* greatest additional delay of a delayed frame */
	uint64_t cut_from_ns, cut_to_ns; /* no frame arrives between these two times */
	uint64_t last_ns;                /* arrival time of the last frame that was not delayed */
};

/* Makes a cable without faults. */
void wire_open(struct wire *wire, const char *name, wire_fn out, void *arg);
void wire_send(struct wire *wire, const uint8_t *frame, size_t len);
/* Called before a run, when no frame is on a cable. */
void wire_begin(void);

#endif
