/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The segment of shared memory of one communicator, and one rank's end of it.
 *
 * Message m of every rank is its contribution to result m, and uses slot m modulo the number of
 * slots.
 * A rank copies its contribution into its own part of the slot and counts itself. The rank that
 * comes last compares what all have called, and releases the reduction. The reduction of a long
 * message has several pieces. Any rank that looks at the slot claims the next piece, so a rank that
 * does not run delays others only if it has a claim, or was the last to come. A piece is always
 * reduced in the order of the ranks, so its bits do not depend on who does that. After the last
 * piece the result is in the part of rank 0, or of the root of a Broadcast, and all ranks copy it
 * out. The rank that is last to do so gives the slot to the message that follows as many messages
 * later as there are slots.
 *
 * If the group spans machines, what the pieces make is not the result, but this machine's
 * contribution to message m of its leader's connection to the switch. The answer is received into
 * the same memory, and is the result (network.c).
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
#include "lib/base/err.h"

/* Messages under way, and bytes of a message, if all ranks share memory. Together the contributions
 * of a few ranks fit into the second-level cache. */
#define INCCL_NODE_SLOTS         8
#define INCCL_NODE_MESSAGE_BYTES (32 << 10)
/* Bytes of a piece, which is the part of a message that a rank reduces at a time. */
#define INCCL_NODE_PIECE_BYTES (16 << 10)
_Static_assert(INC_MAX_MESSAGE_BYTES / INCCL_NODE_PIECE_BYTES < 256 &&
		       INC_MAX_MESSAGE_PACKETS * INC_MAX_PAYLOAD / INCCL_NODE_PIECE_BYTES < 256,
	       "a claim has 8 bits for the number of a piece, of messages in both modes");
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

/* The sizes of a segment. If the group spans machines, they depend on the communicator's messages.
 */
struct inccl_node_shape {
	uint32_t ranks;
	uint32_t slots;         /* messages under way */
	uint32_t message_bytes; /* bytes of a message */
};

struct inccl_node_slot {
	/* number of the message that may use the slot now */
	_Atomic uint64_t turn INCCL_NODE_LINE;
	_Atomic uint32_t arrived INCCL_NODE_LINE; /* number of ranks that have contributed */
	/* the message's number, shifted by 8 bits, and the number of the piece to be claimed next
	 */
	_Atomic uint64_t claim INCCL_NODE_LINE;
	_Atomic uint32_t reduced; /* number of pieces that are done */
	/* number of the last message that all of this machine's ranks have contributed to, plus 1
	 */
	_Atomic uint64_t combined;
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
	/* the same, of the leader alone, until a message is combined that it can contribute */
	_Atomic uint64_t want_combined INCCL_NODE_LINE;
	_Atomic uint32_t failure INCCL_NODE_LINE; /* enum inccl_node_failure */
	int32_t error, failed_rank;
	char text[256];
	/* behind the slots the long contributions: those of all ranks to slot 0, to slot 1, ... */
	struct inccl_node_slot slot[];
};

/* Returns the distance of two long contributions. It is no power of two, because ranks'
 * contributions to one message would otherwise share the same sets of a cache. */
static inline size_t inccl_node_stride(const struct inccl_node_shape *shape)
{
	return ((shape->message_bytes + 63) & ~(size_t)63) + 3 * 64;
}

static inline size_t inccl_node_segment_bytes(const struct inccl_node_shape *shape)
{
	return sizeof(struct inccl_node_segment) +
	       (size_t)shape->slots *
		       (sizeof(struct inccl_node_slot) + shape->ranks * inccl_node_stride(shape));
}

/* Initializes a new segment, whose memory is zero. */
void inccl_node_segment_init(struct inccl_node_segment *segment,
			     const struct inccl_node_shape *shape);

/* How a rank uses a segment. */
struct inccl_node_end_opts {
	struct inccl_node_shape shape;
	unsigned int rank;          /* this rank among those of the machine */
	const unsigned int *member; /* the rank in the group of each of these */
	const int *wake;            /* an eventfd for each of these */
	bool swapped;               /* elements are not in the machine's byte order */
	bool native_floats;         /* floats are added as they are */
	uint32_t payload;           /* bytes of a packet, by which windows are counted */
	bool spans;                 /* results come from the network */
	/* the leader's connection to the switch, otherwise NULL */
	struct inccl_endpoint *network;
};

/* Makes this rank's end of a segment. On success it owns the mapping, the descriptors and the
 * network endpoint. Returns 0, or -errno with the reason in err. */
int inccl_node_end_open(struct inccl_node_segment *segment, const struct inccl_node_end_opts *opts,
			struct inccl_endpoint **out, struct inc_err *err);

#endif
