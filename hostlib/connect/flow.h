/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is under way on a connection, as numbers: requests of the send queue, buffers that each side
 * has for the other's messages, what an immediate says. socket_data.c posts what may be posted here
 * and tells what has completed. Pure: no device. Any thread, one at a time.
 *
 * Requests have numbers, from 1; a queue pair ends them in that order, so a completion of one says
 * that all before it are done, and only some are asked for (signalled).
 *
 * Credits: each side has send_buf_cnt buffers for messages. One that its owner has released is
 * posted again first, and counted then; as soon as buf_ack_batch are counted, an ACK gives them all
 * back.
 *
 * Why nothing waits for ever, and no message finds a queue without a buffer:
 * - Of a side's receives, connect_recv_wr(), messages hold send_buf_cnt at most. ACKs that it has
 *   not read hold send_buf_cnt / buf_ack_batch at most: each gives back buf_ack_batch or more of
 *   what it has sent, and until it reads one it can send no more than send_buf_cnt. With the probe
 *   and the close that is less than connect_recv_wr().
 * - Each kind of request has room of its own in the send queue, so that messages cannot keep an ACK
 *   out of it. Within each kind fewer are unsignalled in a row than it has room for: a kind without
 *   room has a completion to come.
 * - What a side has released and not given back is less than a batch, which is send_buf_cnt at
 *   most: the other one has a credit left, or gets one.
 */
#ifndef INC_CONNECT_FLOW_H
#define INC_CONNECT_FLOW_H

#include <stdbool.h>
#include <stdint.h>
#include "hostlib/include/inc_connect.h"

/* What the immediate of a message without data says, in its upper 8 bits. Below: of an ACK the
 * number of buffers, else 0. */
#define CONNECT_IMMEDIATES(_)                                           \
	_(ACK, 1, "so many buffers are free again")                     \
	_(PROBE, 2, "the client's first message: the service may send") \
	_(CLOSE, 3, "the last message: who has sent it sends nothing more")

enum connect_immediate {
#define CONNECT_IMMEDIATE_(NAME, number, text) CONNECT_IMM_##NAME = (number),
	CONNECT_IMMEDIATES(CONNECT_IMMEDIATE_)
#undef CONNECT_IMMEDIATE_
};
#define CONNECT_IMM_SHIFT 24
#define CONNECT_IMM_VALUE ((1u << CONNECT_IMM_SHIFT) - 1)

/* What a work request of the send queue carries. */
enum connect_wr_kind {
	CONNECT_WR_MESSAGE,
	CONNECT_WR_ACK,
	CONNECT_WR_READ,  /* shares its room with */
	CONNECT_WR_WRITE, /* this one */
	CONNECT_WR_PROBE,
	CONNECT_WR_CLOSE,
	CONNECT_N_WRS
};

/* One that has been posted. */
struct connect_wr {
	uint8_t kind;
	bool signalled;
	uint32_t bytes;
};

struct connect_flow {
	uint32_t buffers;   /* of each side, for messages */
	uint32_t ack_batch; /* that are given back at once */
	/* requests: number n is ring[n % depth] */
	struct connect_wr *ring;
	uint32_t depth;
	uint64_t posted, ended, signalled; /* numbers of the last request that is so */
	uint32_t under_way[CONNECT_N_WRS];
	uint32_t room[CONNECT_N_WRS];
	uint32_t batch[CONNECT_N_WRS];       /* one of so many is signalled */
	uint32_t unsignalled[CONNECT_N_WRS]; /* posted since the last signalled one */
	/* messages of ours */
	uint64_t sent, given_back; /* by the peer */
	uint64_t last_message;     /* its request */
	/* the peer's */
	uint64_t received, released, acked;
	bool heard;                         /* anything of the peer but its last message */
	bool peer_closed;                   /* its last message has come */
	uint64_t probe;                     /* our own's request; 0: none */
	uint64_t close;                     /* likewise */
	uint64_t bytes_read, bytes_written; /* by transfers that have ended */
};

/* 0 or -ENOMEM. The settings are such as connect_settings_wrong() finds nothing in. */
int connect_flow_init(struct connect_flow *flow, const struct inc_connect_settings *settings);
/* One of zeros is allowed. */
void connect_flow_free(struct connect_flow *flow);

/* How many requests of the kind may be posted now: there is room, and for a message a credit. None
 * after the close. */
uint32_t connect_flow_may(const struct connect_flow *flow, enum connect_wr_kind kind);

/* Counts one as posted, which it may be. Its number; *signalled: it must be, as ask says, or
 * because it is time. An ACK gives back all that connect_flow_ack_due() has said. */
uint64_t connect_flow_post(struct connect_flow *flow, enum connect_wr_kind kind, uint32_t bytes,
			   bool ask, bool *signalled);

/* The buffers that an ACK is to give back now; 0: none is due, or there is no room for it yet. */
uint32_t connect_flow_ack_due(const struct connect_flow *flow);

/* A request has completed, and with it all before it: how many. -EIO: none such is under way. */
int connect_flow_complete(struct connect_flow *flow, uint64_t number);

static inline bool connect_flow_ended(const struct connect_flow *flow, uint64_t number)
{
	return number <= flow->ended;
}

/* What has come. */
enum connect_heard {
	CONNECT_HEARD_MESSAGE, /* it keeps its buffer until it is released */
	CONNECT_HEARD_CONTROL, /* its buffer is free at once */
};

/*
 * Takes in what a receive has completed with: so many bytes, an immediate (host order) or none.
 * 0; -EPROTO, and why: no peer that keeps to this file sends it.
 */
int connect_flow_hear(struct connect_flow *flow, bool has_immediate, uint32_t immediate,
		      uint32_t bytes, enum connect_heard *heard, const char **why);

/* The owner has released the oldest message, of which there is one, and its buffer is posted. */
void connect_flow_release(struct connect_flow *flow);

/* The messages that have come and are not released. */
static inline uint32_t connect_flow_held(const struct connect_flow *flow)
{
	return flow->received - flow->released;
}

static inline uint32_t connect_immediate(enum connect_immediate kind, uint32_t value)
{
	return (uint32_t)kind << CONNECT_IMM_SHIFT | value;
}

#endif
