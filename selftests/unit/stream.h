/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the children of one communicator send when all goes well: collectives of a message with the
 * descriptor and messages of 1 to 4 packets, the same chunks from each child, by SEND or
 * WRITE, of any operator and type, in a broadcast the root's alone with data; and what a parent,
 * where there is one, answers the partial sums with. All of it follows from a seed.
 */
#ifndef UNIT_STREAM_H
#define UNIT_STREAM_H

#include "unit.h"

struct chunk {
	uint32_t desc;
	uint32_t len;
	uint8_t shape; /* opcode of a SEND; a WRITE's lies INC_OP_WRITE_FIRST higher */
};

struct stream {
	struct ref_comm *cm;
	struct rng rng;
	uint64_t salt;
	uint64_t base; /* r of chunk[0] */
	uint32_t count;
	uint32_t room;
	struct chunk *chunk;
	uint32_t seq;
	bool ended; /* the communicator or one of its connections has failed */
};

/* A communicator of random shape, somewhere in its life; 0, or -1 with u->why. */
int stream_open(struct unit *u, struct stream *s, uint32_t communicator, uint64_t seed);
int stream_close(struct unit *u, struct stream *s);
/* Packet r of the child, or of the parent (child cfg.children), as it should be; r may lie before
 * the stream's base. */
int stream_packet(struct stream *s, uint32_t child, uint64_t r, struct unit_packet *p);

#endif
