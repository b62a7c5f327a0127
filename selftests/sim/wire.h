/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cables, one direction each: frames come out at the other end late, out of order, twice, damaged
 * or not at all, as the seed has it, until faults end. From then on a cable is a good one.
 */
#ifndef SIM_WIRE_H
#define SIM_WIRE_H

#include <stddef.h>
#include <stdint.h>

#define WIRE_FRAME_MOST 2400

typedef void (*wire_fn)(void *arg, const uint8_t *frame, size_t len);

struct wire {
	char name[8];
	wire_fn out; /* the other end */
	void *arg;
	wire_fn tap; /* receives each frame as it was sent, or NULL */
	void *tap_arg;
	uint32_t lost, repeated, damaged, delayed; /* of 1,000 frames */
	uint32_t burst; /* frames of a row that are lost together, most */
	uint32_t burst_left;
	uint64_t delay_ns, jitter_ns;
	uint64_t late_ns;                /* a frame that is delayed comes so much later, most */
	uint64_t cut_from_ns, cut_to_ns; /* nothing gets through in between */
	uint64_t last_ns;                /* when the last one comes out that was not delayed */
};

/* A cable with faults of the seed's choice, until this time. */
void wire_init(struct wire *wire, const char *name, wire_fn out, void *arg,
	       uint64_t faults_end_at_ns);
void wire_send(struct wire *wire, const uint8_t *frame, size_t len);
/* Before a run. */
void wire_begin(void);

#endif
