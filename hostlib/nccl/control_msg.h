/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Control messages and slots: the formats in which the two ends of a comm talk to each other.
 * Control messages go over the control channel (a TCP socket and the standby path). Slots are
 * written into the sender's ring by the receiver. Their meaning is defined in
 * docs/nccl-failover.md. The functions are pure: they convert between structs in host order and
 * bytes. Any thread may call them.
 */
#ifndef HA_CONTROL_MSG_H
#define HA_CONTROL_MSG_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/base/err.h"

#define HA_REQUESTS 32u /* most sends, or most receives, of a comm that may be under way */
#define HA_GROUP    8u  /* most buffers of one irecv, each of which is a receive */
/* most open slots of a comm, and the size of the ring; each is a buffer of a receive whose payload
 * is not complete yet */
#define HA_SLOTS 256u
/* ports of a comm at each end: port 0 is the one that NCCL has chosen, port 1 its standby */
#define HA_RAILS 2u

/* Why an end has left a path; sent in control messages and written to the log. */
#define HA_CAUSES(_)                                    \
	_(NONE, 0, "none")                              \
	_(ERROR, 1, "error completion")                 \
	_(TIMEOUT, 2, "no progress for HA_NCCL_RTO_MS") \
	_(PORT, 3, "port down")                         \
	_(REQUEST, 4, "failback")                       \
	_(PEER, 5, "the peer has left the path")        \
	_(PROBE, 6, "the peer is silent and the path is dead")

#define HA_MSGS(_)                                                             \
	_(HELLO, 1, "first message on the socket, from both ends")             \
	_(PATH, 2, "a queue pair for this epoch and attempt, and its address") \
	_(PATH_READY, 3, "that queue pair has reached RTS")                    \
	_(PATH_FAILED, 4, "this end has no such queue pair, or no longer")     \
	_(OPEN, 5, "sender: has fenced all earlier epochs; asks for REPORT")   \
	_(REPORT, 6, "receiver: has fenced them, too; the sequences received") \
	_(RESUME, 7, "sender: has the report; asks to describe open slots")    \
	_(CLOSE, 8, "all requests are complete and NCCL has closed")           \
	_(ABORT, 9, "this end has failed")                                     \
	_(PING, 10, "asks whether the channel is alive")                       \
	_(PONG, 11, "answers PING")

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

/* The sequences that a receiver has: all before next, and next + i for each bit i that is set. Bit
 * 0 is never set. */
struct ha_report {
	uint32_t next;
	/* bitmap, in which bit i is received[i / 64] >> i % 64 & 1 */
	uint64_t received[HA_SLOTS / 64];
};

/* Link layer of a path over UDP (path_soft.c), beside those of enum inc_rdma_link_layer. The
 * address of its port is an IPv4 address behind HA_MAPPED_BYTES bytes, and `lid` is its UDP port.
 */
#define HA_LINK_SOFT    3u
#define HA_MAPPED_BYTES 12u

/* HELLO */
struct ha_hello {
	bool dual;     /* this end has a second rail, and HA_NCCL_ENABLE_BACKUP allows its use */
	char name[64]; /* name of this end for logs: "HOST pid PID" */
};

/* Body of messages PATH, PATH_READY and PATH_FAILED: which attempt on which rail they are about.
 * PATH alone has the members from qpn on, which are the address of a queue pair. */
struct ha_path_info {
	/* Number of the attempt, from 0 on in each epoch. Messages of an older attempt are
	 * ignored. */
	uint32_t attempt;
	uint8_t rail; /* rail of the message's sender */
	uint32_t qpn, psn;
	uint16_t mtu_bytes; /* active MTU of the port */
	uint8_t link_layer; /* link layer of the port: enum inc_rdma_link_layer or HA_LINK_SOFT */
	uint16_t lid;       /* address of an InfiniBand port; over UDP the UDP port */
	uint16_t pkey;      /* P_Key of the queue pair; over UDP the default */
	uint8_t gid[16];    /* address of an Ethernet port or of an interface */
	/* Address of the sender's ring of HA_SLOTS slots, if the sender's end sends this
	 * message. Over UDP it is 1, because the peer needs no address. */
	uint64_t ring;
	/* key by which the peer writes to the ring through this rail's device */
	uint32_t ring_rkey;
};

/* A control message in host order. */
struct ha_control_msg {
	enum ha_control_msg_type type;
	enum ha_cause cause; /* why the message's sender has left its path, or NONE */
	uint64_t nonce;      /* number that identifies the comm, as in its handle */
	uint32_t epoch;
	union {
		struct ha_hello hello;
		struct ha_path_info path;
		struct ha_report report; /* in REPORT, and in a receiver's CLOSE */
	};
};

/* Size of every control message on the wire, on both channels. Fields that a type does not have are
 * zero. */
#define HA_MSG_BYTES 128u

void ha_control_msg_encode(const struct ha_control_msg *msg, uint8_t bytes[HA_MSG_BYTES]);
/* Converts bytes to a message. Returns 0, or -EPROTO and the reason if no peer of this version
 * sends such bytes. */
int ha_control_msg_decode(const uint8_t bytes[HA_MSG_BYTES], struct ha_control_msg *msg,
			  struct inc_err *err);

/* A slot on the wire: a receive as its receiver describes it to the sender. One RDMA WRITE of 32
 * bytes puts it at index sequence % HA_SLOTS of the sender's ring, in network order. Devices write
 * bytes in rising order. So a new description of the same sequence changes only fields before the
 * epoch, and one of a new sequence only fields before the sequence. A reader that finds the
 * expected epoch and sequence has all fields. */
struct ha_slot_wire {
	uint64_t address;
	uint32_t rkey;
	uint32_t bytes;
	uint32_t tag;
	uint32_t epoch;
	uint8_t index; /* index of the slot among those of its request (a group) */
	uint8_t slots; /* number of slots of that request */
	uint16_t zero;
	uint32_t sequence;
};
static_assert(sizeof(struct ha_slot_wire) == 32, "no slot lies across two cache lines");
static_assert(offsetof(struct ha_slot_wire, epoch) == 20,
	      "after all that a new description changes");
static_assert(offsetof(struct ha_slot_wire, sequence) == 28, "last");

/* A slot in host order. */
struct ha_slot {
	uint64_t address;
	uint32_t rkey, bytes, tag, epoch, sequence;
	uint8_t index, slots;
};

void ha_slot_encode(const struct ha_slot *slot, struct ha_slot_wire *wire);
/*
 * Reads a slot from the ring, which a device may be writing. Returns 1 if the slot of this sequence
 * and epoch has arrived, and 0 if not, as in a ring of zeros. Returns -EPROTO and the reason if it
 * has values that no receiver of this version writes.
 */
int ha_slot_read(const struct ha_slot_wire *wire, uint32_t sequence, uint32_t epoch,
		 struct ha_slot *slot, struct inc_err *err);

/* Makes the wr_id of a work request from its epoch and the index of its request or slot. */
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

/* Indexes in a wr_id that are neither a request's nor a slot's. Each kind is a bit of its own. */
/* index of a control message that was sent; the low bits are the number of its buffer */
#define HA_WR_MSG     0x10000u
#define HA_WR_PROBE   0x20000u
#define HA_WR_RECEIVE 0x40000u /* index of a receive; the low bits are the number of its buffer */

/* Whether sequence a comes before b, modulo 2^32. */
static inline bool ha_before(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

const char *ha_cause_text(enum ha_cause cause);
/* Returns the name of a type of control messages, such as "OPEN", or "?". */
const char *ha_control_msg_name(enum ha_control_msg_type type);

#endif
