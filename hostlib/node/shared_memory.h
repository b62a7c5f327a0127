/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The segment of shared memory of one communicator, and one rank's end of it.
 *
 * Message m of every rank is its contribution to result m, and uses slot m modulo INCCL_NODE_SLOTS.
 * A rank copies its contribution into its own part of the slot and counts itself. The rank that
 * comes last compares what all have called, and releases the reduction. The reduction of a long
 * message has several pieces. Any rank that looks at the slot claims the next piece, so a rank that
 * does not run delays others only if it has a claim, or was the last to come. A piece is always
 * reduced in the order of the ranks, so its bits do not depend on who does that. After the last
 * piece the result is in the part of rank 0, or of the root of a Broadcast, and all ranks copy it
 * out. The rank that is last to do so gives the slot to message m + INCCL_NODE_SLOTS.
 *
 * No lock is held at any time, so a rank that is killed leaves nothing locked. The controller
 * reports its death. The segment has no name, and its memory is freed with its last mapping.
 */
#ifndef INCCL_NODE_SHARED_MEMORY_H
#define INCCL_NODE_SHARED_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hostlib/node/node.h"

/* Messages under way, and bytes of a message. Together the contributions of a few ranks fit into
 * the second-level cache. */
#define INCCL_NODE_SLOTS         8
#define INCCL_NODE_MESSAGE_BYTES (32 << 10)
/* Bytes of a piece, which is the part of a message that a rank reduces at a time. */
#define INCCL_NODE_PIECE_BYTES (16 << 10)
/* Contributions of so many bytes lie beside their description, in the same two cache lines. */
#define INCCL_NODE_SMALL_BYTES 96

#define INCCL_NODE_LINE __attribute__((aligned(64)))

/* A rank's contribution to a slot: what the rank has called, and its data if they are few. */
struct inccl_node_part {
	uint64_t message; /* number of the message plus 1 */
	uint32_t desc;
	uint32_t send_bytes, recv_bytes;
	uint32_t unused[3];
	uint8_t small[INCCL_NODE_SMALL_BYTES];
} INCCL_NODE_LINE;

struct inccl_node_slot {
	/* number of the message that may use the slot now */
	_Atomic uint64_t turn INCCL_NODE_LINE;
	_Atomic uint32_t arrived INCCL_NODE_LINE; /* number of ranks that have contributed */
	/* the message's number, shifted by 8 bits, and the number of the piece to be claimed next
	 */
	_Atomic uint64_t claim INCCL_NODE_LINE;
	_Atomic uint32_t reduced; /* number of pieces that are done */
	/* number of the last message whose result is in the slot, plus 1 */
	_Atomic uint64_t result INCCL_NODE_LINE;
	_Atomic uint32_t collected INCCL_NODE_LINE; /* number of ranks that need it no more */
	struct inccl_node_part part[INC_MAX_NODE_RANKS];
};

enum inccl_node_failure {
	NODE_WORKS,
	NODE_FAILING, /* a rank writes the reason */
	NODE_FAILED,  /* the reason can be read */
};

struct inccl_node_segment {
	/* the sets of ranks that sleep, or are about to, until a result is there, and until a slot
	 * is free */
	_Atomic uint64_t want_result INCCL_NODE_LINE;
	_Atomic uint64_t want_slot INCCL_NODE_LINE;
	_Atomic uint32_t failure INCCL_NODE_LINE; /* enum inccl_node_failure */
	int32_t error, failed_rank;
	char text[256];
	struct inccl_node_slot slot[INCCL_NODE_SLOTS];
	/* the long contributions: those of all ranks to slot 0, to slot 1, ... */
	uint8_t data[];
};

/* Distance of two long contributions. It is no power of two, because ranks' contributions to one
 * message would otherwise share the same sets of a cache. */
#define INCCL_NODE_STRIDE (INCCL_NODE_MESSAGE_BYTES + 3 * 64)

static inline size_t inccl_node_segment_bytes(unsigned int ranks)
{
	return sizeof(struct inccl_node_segment) +
	       (size_t)ranks * INCCL_NODE_SLOTS * INCCL_NODE_STRIDE;
}

/* Initializes a new segment, whose memory is zero. */
void inccl_node_segment_init(struct inccl_node_segment *segment);

/* Makes this rank's end of a segment, which owns the mapping and the descriptors from then on, also
 * after a failure. wake: an eventfd for each rank. */
int inccl_node_end_open(struct inccl_node_segment *segment, unsigned int rank, unsigned int ranks,
			const int *wake, bool swapped, struct inccl_endpoint **out);

#endif
