/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Valid packets of a communicator's children and parent, which all follow from a seed. The packets
 * make collectives of every operator and type, by SEND or WRITE. The first message of a collective
 * has the descriptor, and further messages have 1 to 4 packets. All children send the same chunks,
 * but in a Broadcast only the root sends data. A parent answers the partial sums.
 */
#ifndef UNIT_STREAM_H
#define UNIT_STREAM_H

#include "unit.h"

struct chunk {
	uint32_t desc;
	uint32_t len;
	/* opcode of the packet if it is a SEND; the opcode of a WRITE is greater by
	 * INC_OP_WRITE_FIRST */
	uint8_t shape;
};

struct stream {
	struct ref_comm *cm;
	struct rng rng;
	uint64_t salt;
	uint64_t base; /* chunk number of chunk[0] */
	uint32_t count;
	uint32_t room;
	struct chunk *chunk;
	uint32_t seq;
	bool ended; /* the communicator or one of its connections has failed */
};

/* Opens a communicator of random shape at a random moment of its life. Returns 0, or -1 with the
 * reason in u->why. */
int stream_open(struct unit *u, struct stream *s, uint32_t communicator, uint64_t seed);
int stream_close(struct unit *u, struct stream *s);
/* Builds the valid packet r of a child, or of the parent (child cfg.children). Chunk r may precede
 * the stream's base. */
int stream_packet(struct stream *s, uint32_t child, uint64_t r, struct unit_packet *p);

/*
 * Misuse: random packets for several communicators at once. The children and parents of the
 * communicators mostly follow the protocol, and otherwise break it in every way. The packets follow
 * from random numbers and the reference's state.
 */

#define MISUSE_COMMS 4

/* Functions of the caller. Each returns 0, or another number with the reason in u->why. */
struct misuse {
	uint32_t packets; /* number of packets in one round */
	/* Runs a packet of this communicator, and updates the reference's state. */
	int (*run)(void *arg, const struct frame *f, uint32_t ifindex, struct ref_comm *cm);
	/* Called after a communicator was added. May be NULL. */
	int (*opened)(void *arg, struct ref_comm *cm);
	/* Compares the state before some or all communicators are removed. */
	int (*compare)(void *arg);
	void *arg;
};

/* Plays one set of communicators. Each communicator that fails is replaced. Returns 0, or -1 with
 * the reason in u->why. */
int misuse_round(struct unit *u, struct rng *rng, const struct misuse *m);

#endif
