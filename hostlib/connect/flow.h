/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flow control of a connection: which send requests are posted, how many buffers each side has for
 * the other's messages, and the meaning of immediates. This file decides what socket_data.c may
 * post. Completions are reported by socket_progress.c. Nothing here uses a device. Any thread may
 * call these functions, one at a time.
 *
 * Send requests are numbered from 1. A queue pair completes them in that order, so the completion
 * of one request also completes all before it. Only some requests have a completion (signalled).
 *
 * Credits: each side has send_buf_cnt buffers for messages. When the owner releases a message, its
 * buffer is posted again and then counted. As soon as buf_ack_batch buffers are counted, one ACK
 * gives all of them back to the peer.
 *
 * Why no side waits for ever, and why every message finds a receive buffer:
 * - A side posts connect_recv_wr() receives. Messages use send_buf_cnt of them at most. Unread ACKs
 *   use send_buf_cnt / buf_ack_batch at most: each ACK gives back buf_ack_batch or more messages
 *   that this side has sent, and without an ACK it can send only send_buf_cnt. With the probe and
 *   the close the sum is below connect_recv_wr().
 * - Each kind of request has its own room in the send queue, so messages cannot keep an ACK out of
 *   it. Within a kind, fewer requests in a row are unsignalled than fit into its room. So a kind
 *   without room always has a completion to come.
 * - A side holds back less than one batch of released buffers, and a batch is send_buf_cnt at most.
 *   So the other side has a credit left, or receives one.
 */
#ifndef INC_CONNECT_FLOW_H
#define INC_CONNECT_FLOW_H

#include <stdbool.h>
#include <stdint.h>
#include "hostlib/include/inc_connect.h"

/* The kinds of messages that a SEND without data carries in the upper 8 bits of its immediate. The
 * lower 24 bits of an ACK are a number of buffers; otherwise they are 0. */
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

/* The kinds of work requests in the send queue. */
enum connect_wr_kind {
	CONNECT_WR_MESSAGE,
	CONNECT_WR_ACK,
	/* READ and WRITE requests share the same room in the send queue. */
	CONNECT_WR_READ,
	CONNECT_WR_WRITE,
	CONNECT_WR_PROBE,
	CONNECT_WR_CLOSE,
	CONNECT_N_WRS
};

/* A posted work request. */
struct connect_wr {
	uint8_t kind;
	bool signalled;
	uint32_t bytes;
};

struct connect_flow {
	uint32_t buffers;   /* number of receive buffers for messages on each side */
	uint32_t ack_batch; /* number of released buffers from which on an ACK is sent */
	/* Ring of the posted requests: the request with number n is ring[n % depth]. */
	struct connect_wr *ring;
	uint32_t depth;
	/* numbers of the request that was posted last, completed last, and signalled last */
	uint64_t posted, ended, signalled;
	uint32_t under_way[CONNECT_N_WRS];
	uint32_t room[CONNECT_N_WRS];
	/* batch[k]: of so many requests of kind k, one is signalled */
	uint32_t batch[CONNECT_N_WRS];
	/* number of requests of each kind since the last signalled one */
	uint32_t unsignalled[CONNECT_N_WRS];
	/* Number of messages that this side has sent, and number of buffers that the peer's ACKs
	 * have given back. Their difference counts against the peer's buffers. */
	uint64_t sent, given_back;
	uint64_t last_message; /* number of the request that sends the last message */
	/* numbers of the peer's messages: received; released by the owner; acknowledged to the
	 * peer */
	uint64_t received, released, acked;
	bool has_received; /* the peer has sent a message, an ACK or its probe */
	bool peer_closed;  /* the peer's close has arrived */
	/* number of the request that sends this side's probe; 0: not sent */
	uint64_t probe;
	/* number of the request that sends this side's close; 0: not sent */
	uint64_t close;
	uint64_t bytes_read, bytes_written; /* bytes of completed transfers */
};

/* Makes a flow for these settings, which connect_settings_wrong() must accept. Returns 0 or
 * -ENOMEM. */
int connect_flow_init(struct connect_flow *flow, const struct inc_connect_settings *settings);
/* Frees what a flow has allocated. A flow of zeros has nothing, so it is allowed. */
void connect_flow_free(struct connect_flow *flow);

/* Returns how many requests of this kind may be posted now. A message also needs a credit, that is
 * a free buffer of the peer. After the close nothing may be posted. */
uint32_t connect_flow_postable(const struct connect_flow *flow, enum connect_wr_kind kind);

/* Counts a request as posted, which connect_flow_postable() must allow. Returns the number of the
 * request. *signalled is true if it must ask for a completion: because `ask` is true, or because it
 * completes the batch of its kind. An ACK gives back the number of buffers that
 * connect_flow_ack_due() has returned. */
uint64_t connect_flow_post(struct connect_flow *flow, enum connect_wr_kind kind, uint32_t bytes,
			   bool ask, bool *signalled);

/* Returns how many buffers an ACK must give back to the peer now. It is 0 if no ACK is due, or if
 * the send queue has no room for one. */
uint32_t connect_flow_ack_due(const struct connect_flow *flow);

/* Handles the completion of the request with this number, by which all requests before it have
 * completed, too. Returns how many have completed, or -EIO if no signalled request with this number
 * is posted. */
int connect_flow_complete(struct connect_flow *flow, uint64_t number);

static inline bool connect_flow_ended(const struct connect_flow *flow, uint64_t number)
{
	return number <= flow->ended;
}

/* The kinds of received messages. */
enum connect_received {
	/* a message of the peer, whose buffer is in use until the owner releases the message */
	CONNECT_RECEIVED_MESSAGE,
	/* an ACK, probe or close of the peer, whose buffer may be posted again at once */
	CONNECT_RECEIVED_CONTROL,
};

/*
 * Handles a completed receive of this many bytes, with or without an immediate (in host byte
 * order). Returns 0, or -EPROTO with a description in *why if the peer has broken the protocol.
 */
int connect_flow_receive(struct connect_flow *flow, bool has_immediate, uint32_t immediate,
			 uint32_t bytes, enum connect_received *received, const char **why);

/* Counts the oldest message as released by its owner. The caller has posted the buffer again. There
 * must be such a message. */
void connect_flow_release(struct connect_flow *flow);

/* Returns how many messages have arrived and are not released yet. */
static inline uint32_t connect_flow_held(const struct connect_flow *flow)
{
	return flow->received - flow->released;
}

static inline uint32_t connect_immediate(enum connect_immediate kind, uint32_t value)
{
	return (uint32_t)kind << CONNECT_IMM_SHIFT | value;
}

#endif
