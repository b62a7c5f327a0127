/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The soft transport: an RC endpoint on an unprivileged UDP socket. What it sends is a requester's
 * of lib/roce; what it receives are results, which lie where they belong as soon as they come.
 *
 * The packets of contributions and those of results are counted in 64 bits; packet number r of a
 * direction has PSN start + r. Beside the requester's ring one entry per packet of a result says
 * what it must be and where it goes, and `kept`: once this result has come, the peer has all
 * contributions before this number. In order:
 *
 *	tx_done <= tx.acked <= tx.high,  tx.next <= tx.high <= tx.posted <= tx_done + slots
 *	rx_done <= rx_high <= rx_posted <= rx_done + slots
 *
 * tx_done is `kept` of the last result before rx_done. Where packets are in step kept is r + 1 for
 * result r, and both directions count alike; where messages are, it is the end of result r's
 * message among the contributions. Hence nothing is sent from memory that a result has
 * overwritten, in place or not.
 */
#ifndef INCCL_SOFT_H
#define INCCL_SOFT_H

#include <stdbool.h>
#include <stdint.h>
#include <netinet/in.h>
#include "hostlib/src/transport.h"
#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/proto/frame.h"
#include "lib/proto/roce.h"
#include "hostlib/src/internal.h"
#include "lib/roce/ip_id.h"
#include "lib/roce/requester.h"
#include "lib/roce/udp.h"
#include "lib/roce/wire.h"

/* When a collective ends, its ACK may wait for that of the next one only if SOFT_ACK_PATIENCE times
 * the quicker of the last two collectives' durations still ends within INC_ACK_HOLD_NS of the first
 * result that the ACK is of. */
#define SOFT_ACK_PATIENCE 4
/* A gap is a loss, not a detour, when it is this old or this many packets behind. */
#define SOFT_GAP_NS      (2 * INC_NSEC_PER_MSEC)
#define SOFT_GAP_PACKETS 128
#define SOFT_RTO_MIN_NS  (5 * INC_NSEC_PER_MSEC)
#define SOFT_RTO_MAX_NS  INC_NSEC_PER_SEC
/* What a received packet takes of the socket's buffer: a page and the kernel's struct. */
#define SOFT_RECV_TRUESIZE 4864

#define SOFT_F_GOT   0x1 /* it is there */
#define SOFT_F_LAST  0x2 /* last packet of its message */
#define SOFT_F_FLUSH 0x4 /* last packet of its collective */

struct soft_result {
	uint8_t *recv;
	uint64_t kept;
	uint32_t imm; /* where the opcode has one */
	uint16_t recv_len;
	uint8_t opcode;
	uint8_t flags; /* SOFT_F_* */
};

struct soft_endpoint {
	struct inccl_endpoint ep; /* first */
	struct inc_udp udp;
	struct inc_udp_inbox inbox;
	struct inc_roce_path from_peer;
	uint32_t own_qpn;
	uint32_t peer_psn; /* of its packet 0 */
	unsigned int payload;
	unsigned int hold_packets; /* soft_flush() sends fewer only if no result is due */
	int failed;                /* positive errno, for good */

	struct inc_requester tx;
	struct inc_batch batch; /* of soft_flush(); too large for a caller's stack */
	uint64_t tx_flush;      /* send at once up to here */
	uint64_t tx_done;       /* its results are there: all before this */
	bool by_message;        /* what is in step (struct inccl_peer) */

	/* responder */
	struct soft_result *results; /* slots of them */
	struct inc_ip_ids ids;
	uint64_t rx_posted;   /* results described */
	uint64_t rx_done;     /* results there: all before this */
	uint64_t rx_high;     /* one past the highest result there */
	uint64_t rx_told;     /* acknowledged to the peer: all before this */
	uint32_t rx_msn;      /* messages of the peer completed, */
	uint32_t told_msn;    /* and at the last ACK */
	uint32_t ack_every;   /* completed messages that make an ACK */
	bool tell;            /* an ACK is sent at the end of this round, whatever the counts */
	bool ended;           /* this round has brought the last result of a collective */
	uint64_t ended_at_ns; /* when that last happened */
	uint64_t took_ns;     /* from the time before to then: the pace of collectives */
	uint64_t gap_r, gap_at_ns;
	bool gap_told;

	uint32_t next_rkey;
};

#define SOFT_EP(e) ((struct soft_endpoint *)(e))

static inline struct soft_result *soft_result(const struct soft_endpoint *s, uint64_t r)
{
	return &s->results[r & (s->tx.slots - 1)];
}

/* Ends the endpoint for good; returns -error. */
int soft_fail(struct soft_endpoint *s, int error, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Brings the statistics up to what requester and socket have counted. */
void soft_count(struct soft_endpoint *s);

/* soft_mtu.c: the payload to offer, and whether the agreed one can go to the peer. */
int soft_choose_payload(int fd, const struct inccl_open_opts *opts, unsigned int *payload,
			struct inc_err *err);
int soft_check_route(const struct soft_endpoint *s, struct inc_err *err);

/* soft_tx.c */
int soft_flush(struct inccl_endpoint *ep);
/* Answers with an AETH: psn is that of the packet it speaks of. */
void soft_send_aeth(struct soft_endpoint *s, uint8_t syndrome, uint32_t psn);

/* soft_rx.c: takes in what one system call gives. 1: more may be there, 0: the socket was
 * empty, or -errno. */
int soft_receive(struct soft_endpoint *s);
/* ACK or NAK where one is due. */
void soft_answer(struct soft_endpoint *s, uint64_t now);

#endif
