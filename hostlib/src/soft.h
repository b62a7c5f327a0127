/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The soft transport: an RC endpoint on an unprivileged UDP socket.
 *
 * Contributions and results are counted in 64 bits; packet number r of a direction has
 * PSN start + r. One descriptor per packet under way, in a ring of `slots`, holds all that
 * its sending, its resending and the check of its result need. In order:
 *
 *	rx_done <= tx_acked <= tx_high,  tx_next <= tx_high <= tx_posted <= rx_done + slots
 *
 * rx_done <= tx_acked because result r tells that contribution r was kept. Hence nothing
 * is sent from memory that a result has overwritten, in place or not.
 */
#ifndef INCCL_SOFT_H
#define INCCL_SOFT_H

#include <stdbool.h>
#include <stdint.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include "lib/base/err.h"
#include "lib/proto/roce.h"
#include "hostlib/src/internal.h"
#include "hostlib/src/packet.h"
#include "lib/roce/wire.h"
#include "lib/roce/rto.h"

/* Kernels before 6.9 take 64 segments; the UDP length field bounds their bytes. */
#define SOFT_MAX_SEGMENTS   62
#define SOFT_MAX_SEND_BYTES 65000
/* UDP_SEGMENT sends per system call */
#define SOFT_SENDS      8
#define SOFT_RECVS      8
#define SOFT_RECV_BYTES 65536
/* BTH, RETH, immediate */
#define SOFT_MAX_HEAD (INC_BTH_LEN + INC_RETH_LEN + INC_IMM_LEN)
/* AckReq at least this often; and so many results make an ACK */
#define SOFT_ACK_EVERY 32
/* Fewer make one so long after the first of them at the latest, so that small collectives on each
 * other's heels share it. Less than the switch waits with what it owes (ack_delay), for this ACK
 * pays it, and than it waits for an ACK (rto_min). */
#define SOFT_ACK_HOLD_NS INC_NSEC_PER_MSEC
/* An ACK is held for the next collective's result only where that one may take so many times as
 * long as the quicker of the last two and still ends within the hold. */
#define SOFT_ACK_PATIENCE 4
/* A gap is a loss, not a detour, when it is this old or this many packets behind. */
#define SOFT_GAP_NS       (2 * INC_NSEC_PER_MSEC)
#define SOFT_GAP_PACKETS  128
#define SOFT_RTO_MIN_NS   (5 * INC_NSEC_PER_MSEC)
#define SOFT_RTO_MAX_NS   INC_NSEC_PER_SEC
#define SOFT_RTO_FIRST_NS (20 * INC_NSEC_PER_MSEC)
/* After so many timeouts in a row for packets that went together, and nothing of the kind kept
 * meanwhile, packets go one by one: generic XDP, for one, gets such a send uncut and drops it. */
#define SOFT_UNCUT_TIMEOUTS 3
/* For so long at first, then twice as long each time that trying again was in vain. */
#define SOFT_SINGLE_PAUSE_NS     INC_NSEC_PER_SEC
#define SOFT_SINGLE_PAUSE_MAX_NS (64 * INC_NSEC_PER_SEC)
/* What a received packet takes of the socket's buffer: a page and the kernel's struct. */
#define SOFT_RECV_TRUESIZE 4864

#define SOFT_F_GOT   0x1  /* its result is there */
#define SOFT_F_LAST  0x2  /* last packet of its message */
#define SOFT_F_FLUSH 0x4  /* last packet of its collective */
#define SOFT_F_MANY  0x8  /* it went together with others, the last time */
#define SOFT_F_ASKED 0x10 /* it asked for an ACK, so its result does, too */

struct soft_packet {
	const uint8_t *send;
	uint8_t *recv;
	uint64_t va; /* RETH, first or only packets of WRITE */
	uint32_t rkey;
	uint32_t dmalen;
	uint32_t imm;
	uint16_t send_len;
	uint16_t recv_len;
	uint8_t opcode;
	uint8_t flags; /* SOFT_F_* */
};

struct soft_endpoint {
	struct inccl_endpoint ep; /* first */
	int fd;
	struct inc_roce_path to_peer, from_peer;
	struct sockaddr_in peer;
	uint32_t own_qpn, peer_qpn;
	uint32_t own_psn, peer_psn; /* of packet 0 */
	uint16_t pkey;
	unsigned int payload, slots;
	unsigned int hold; /* packets worth a system call */
	bool segment;      /* UDP_SEGMENT works */
	bool rcv_gro;
	int failed; /* positive errno, for good */
	void (*log)(void *ctx, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
	void *log_ctx;

	struct soft_packet *ring; /* slots of them */

	/* requester */
	uint64_t tx_posted; /* packets described */
	uint64_t tx_next;   /* to send next */
	uint64_t tx_high;   /* sent at least once: all before this */
	uint64_t tx_acked;  /* kept by the peer: all before this */
	uint64_t tx_flush;  /* send at once up to here */
	/* After a timeout mostly an ACK was late, and the packets before `recover` are on their
	 * way: only `burst` of them past tx_acked are sent again, twice as many with each
	 * acknowledgement. 0: there is no timeout to recover from. */
	uint64_t recover, burst;
	bool blocked;             /* socket buffer full */
	unsigned int uncut;       /* timeouts in a row for packets that went together */
	uint64_t together_at_ns;  /* packets go one by one until then; 0: together */
	uint64_t single_pause_ns; /* how long, the next time */
	struct inc_rto rto;
	uint64_t rto_at_ns; /* UINT64_MAX: the timer does not run, for nothing is outstanding */
	uint64_t rnr_over_at_ns; /* the peer has asked for patience until then; 0: it has not */
	int send_error;          /* of the last send that failed, for messages */

	/* responder */
	uint64_t rx_done;     /* results there: all before this */
	uint64_t rx_high;     /* one past the highest result there */
	uint64_t rx_told;     /* acknowledged to the peer: all before this */
	uint32_t rx_msn;      /* messages of the peer completed */
	bool tell;            /* an ACK is sent at the end of this round, whatever the counts */
	bool ended;           /* this round has brought the last result of a collective */
	uint64_t ended_at_ns; /* when that last happened */
	uint64_t took_ns;     /* from the time before to then: the pace of collectives */
	uint64_t gap_r, gap_at_ns;
	bool gap_told;

	uint32_t next_rkey;
	uint8_t *rx_buf; /* SOFT_RECVS * SOFT_RECV_BYTES */
};

#define SOFT_EP(e) ((struct soft_endpoint *)(e))

static inline struct soft_packet *soft_packet(const struct soft_endpoint *s, uint64_t r)
{
	return &s->ring[r & (s->slots - 1)];
}

/* Ends the endpoint for good; returns -error. */
int soft_fail(struct soft_endpoint *s, int error, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* soft_mtu.c: the payload to offer, and whether the agreed one can go to the peer. */
int soft_choose_payload(int fd, const struct inccl_open_opts *opts, unsigned int *payload,
			struct inc_err *err);
int soft_check_route(const struct soft_endpoint *s, struct inc_err *err);

/* soft_tx.c */
int soft_flush(struct inccl_endpoint *ep);
/* Answers with an AETH: psn is that of the packet it speaks of. */
int soft_send_aeth(struct soft_endpoint *s, uint8_t syndrome, uint32_t psn);

/* soft_timer.c */
/* The peer has kept all packets before r. */
void soft_kept(struct soft_endpoint *s, uint64_t r, uint64_t now);
/* The peer is there, and asks for all packets from r on. */
void soft_asked_again(struct soft_endpoint *s, uint64_t r, uint64_t now);
/* The retransmission timer runs from now, or from the end of the patience that the peer has asked
 * for, if anything is outstanding. */
void soft_restart_timer(struct soft_endpoint *s, uint64_t now);
void soft_timers(struct soft_endpoint *s, uint64_t now);

/* soft_rx.c: takes in what one system call gives. 1: more may be there, 0: the socket was
 * empty, or -errno. */
int soft_receive(struct soft_endpoint *s);
/* ACK or NAK where one is due. */
void soft_answer(struct soft_endpoint *s, uint64_t now);

#endif
