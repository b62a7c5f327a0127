/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the two ends of a comm tell each other: messages on the control channel (a TCP socket, and
 * the standby path) and slots in the sender's ring. docs/nccl-failover.md has their meaning. Pure:
 * codecs between structs in host order and bytes. Any thread.
 */
#ifndef HA_CONTROL_MSG_H
#define HA_CONTROL_MSG_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/base/err.h"

#define HA_REQUESTS 32u  /* isends or irecvs of a comm that are under way at most */
#define HA_GROUP    8u   /* receives in one irecv at most */
#define HA_SLOTS    256u /* open at most: HA_REQUESTS * HA_GROUP; places of the ring */
#define HA_RAILS    2u   /* ports that a comm has at each end: 0 is the one NCCL chose */

/* Why an end has left a path; stands in messages and in the log. */
#define HA_CAUSES(_)                                    \
	_(NONE, 0, "none")                              \
	_(ERROR, 1, "error completion")                 \
	_(TIMEOUT, 2, "no progress for HA_NCCL_RTO_MS") \
	_(PORT, 3, "port down")                         \
	_(REQUEST, 4, "failback")                       \
	_(PEER, 5, "the peer has left the path")        \
	_(PROBE, 6, "the peer is silent and the path is dead")

#define HA_MSGS(_)                                                               \
	_(HELLO, 1, "first message on the socket, of both ends")                 \
	_(PATH, 2, "a queue pair for this epoch and attempt is made: its place") \
	_(PATH_READY, 3, "that queue pair can receive and send")                 \
	_(PATH_FAILED, 4, "there is none, or no longer")                         \
	_(OPEN, 5, "sender: all queue pairs before this epoch are left; report") \
	_(REPORT, 6, "receiver: left, too; this was received")                   \
	_(RESUME, 7, "sender: the report is taken; describe what is open")       \
	_(CLOSE, 8, "all is complete and NCCL has closed")                       \
	_(ABORT, 9, "this end has given up")                                     \
	_(PING, 10, "is the channel alive?")                                     \
	_(PONG, 11, "it is")

enum ha_cause {
#define HA_CAUSE_(NAME, number, text) HA_CAUSE_##NAME = (number),
	HA_CAUSES(HA_CAUSE_)
#undef HA_CAUSE_
};

enum ha_control_msg_type {
#define HA_MSG_(NAME, number, text) HA_MSG_##NAME = (number),
	HA_MSGS(HA_MSG_)
#undef HA_MSG_
};

/* What a receiver has: all before next, and next + i where bit i is set; bit 0 is not. */
struct ha_report {
	uint32_t next;
	uint64_t received[HA_SLOTS / 64]; /* bit i: received[i / 64] >> i % 64 & 1 */
};

/* HELLO */
struct ha_hello {
	bool dual;     /* this end has a second rail and HA_NCCL_ENABLE_BACKUP */
	char name[64]; /* for logs: "HOST pid PID" */
};

/* PATH, PATH_READY, PATH_FAILED: which, and for PATH where it is. */
struct ha_path_info {
	uint32_t attempt; /* of this epoch, from 0; one that is not the newest is of no use */
	uint8_t rail;     /* of whoever says it */
	uint32_t qpn, psn;
	uint16_t mtu_bytes; /* active, of the port */
	uint8_t link_layer; /* enum inc_rdma_link_layer */
	uint16_t lid;       /* InfiniBand */
	uint8_t gid[16];    /* Ethernet */
	uint64_t ring;      /* a sender's: address of its ring, HA_SLOTS slots */
	uint32_t ring_rkey; /* likewise, of the device of this rail */
};

/* One message. */
struct ha_control_msg {
	enum ha_control_msg_type type;
	enum ha_cause cause; /* what the one who says it has seen; NONE where that means nothing */
	uint64_t nonce;      /* the comm's */
	uint32_t epoch;
	union {
		struct ha_hello hello;
		struct ha_path_info path;
		struct ha_report report; /* REPORT; CLOSE of a receiver */
	};
};

/* Every message has this size on the wire, on both channels; what a type does not have is zero. */
#define HA_MSG_BYTES 128u

void ha_control_msg_encode(const struct ha_control_msg *msg, uint8_t bytes[HA_MSG_BYTES]);
/* 0, or -EPROTO and why: no end that keeps to this version says it. */
int ha_control_msg_decode(const uint8_t bytes[HA_MSG_BYTES], struct ha_control_msg *msg,
			  struct inc_err *err);

/* A receive as its receiver describes it: one RDMA WRITE of 32 bytes into place sequence % HA_SLOTS
 * of the ring. All in network order. What a new description of the same sequence changes lies
 * before the epoch, what a new sequence changes before the sequence: devices place bytes in rising
 * order, so whoever sees both as expected sees all. */
struct ha_slot_wire {
	uint64_t address;
	uint32_t rkey;
	uint32_t bytes;
	uint32_t tag;
	uint32_t epoch;
	uint8_t index; /* in its group */
	uint8_t slots; /* of its group */
	uint16_t zero;
	uint32_t sequence;
};
static_assert(sizeof(struct ha_slot_wire) == 32, "two in a cache line, none across two");
static_assert(offsetof(struct ha_slot_wire, epoch) == 20, "behind what a new description changes");
static_assert(offsetof(struct ha_slot_wire, sequence) == 28, "last");

/* One in host order. */
struct ha_slot {
	uint64_t address;
	uint32_t rkey, bytes, tag, epoch, sequence;
	uint8_t index, slots;
};

void ha_slot_encode(const struct ha_slot *slot, struct ha_slot_wire *wire);
/*
 * The slot with this sequence and epoch, if it has come: 1; 0 if not yet, as in a ring of zeros;
 * -EPROTO and why where it has and no receiver that keeps to this file describes it so. Reads what
 * a device may be writing.
 */
int ha_slot_read(const struct ha_slot_wire *wire, uint32_t sequence, uint32_t epoch,
		 struct ha_slot *slot, struct inc_err *err);

/* wr_id of a work request: which epoch it is of, and which request or slot. */
static inline uint64_t ha_wr_id(uint32_t epoch, uint32_t index)
{
	return (uint64_t)epoch << 32 | index;
}

static inline uint32_t ha_wr_epoch(uint64_t wr_id)
{
	return wr_id >> 32;
}

static inline uint32_t ha_wr_index(uint64_t wr_id)
{
	return (uint32_t)wr_id;
}

/* Indices in a wr_id that are no request and no slot, each a bit of its own. */
#define HA_WR_MSG     0x10000u /* a message that was sent; below it: its buffer */
#define HA_WR_PROBE   0x20000u
#define HA_WR_RECEIVE 0x40000u /* of the receive queue; below it: its buffer */

/* Whether sequence a comes before b. */
static inline bool ha_before(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

const char *ha_cause_text(enum ha_cause cause);
const char *ha_control_msg_name(enum ha_control_msg_type type); /* "OPEN"; "?" for none */

#endif
