/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The requester of a soft RC endpoint: what it has described goes out, goes again where it was
 * lost, and is done with when the peer has acknowledged it. Packets are counted in 64 bits; packet
 * r has the PSN start_psn + r. One descriptor per packet under way, in a ring of `slots` of them,
 * holds all that its sending and resending need. In order:
 *
 *	acked <= next <= high <= posted <= acked + slots
 *
 * (a host's: posted <= its results there + slots, which is less). Used by hosts (hostlib) and by
 * switches that terminate connections (userspace/term), from the thread that owns the endpoint.
 * Instants are the caller's, so is the socket, and so are the timers: it says when it wants to be
 * called. What is sent may wait in a batch, for several requesters of one socket share its calls.
 */
#ifndef INC_ROCE_REQUESTER_H
#define INC_ROCE_REQUESTER_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/base/clock.h"
#include "lib/roce/parse.h"
#include "lib/roce/rto.h"
#include "lib/roce/segments.h"
#include "lib/roce/udp.h"

/* AckReq at least this often; and so many packets make an ACK */
#define INC_ACK_EVERY 32
/* Fewer make one so long after the first of them at the latest, so that small messages on each
 * other's heels share it: less than a requester waits for one (SOFT_RTO_MIN_NS, INC_DEF_RTO_MIN_MS;
 * inc-switchd's options allow as little). */
#define INC_ACK_HOLD_NS INC_NSEC_PER_MSEC
/* A requester's first time, until a round trip has been measured, within its bounds (in the slow
 * path: sp_first_rto_ns()). */
#define INC_RTO_FIRST_NS (20 * INC_NSEC_PER_MSEC)
/* After so many timeouts in a row for packets that went together, and nothing of the kind kept
 * meanwhile, packets go one by one: generic XDP, for one, gets such a send uncut and drops it. */
#define INC_UNCUT_TIMEOUTS 3
/* For so long at first, then twice as long each time that trying again was in vain. */
#define INC_SINGLE_PAUSE_NS     INC_NSEC_PER_SEC
#define INC_SINGLE_PAUSE_MAX_NS (64 * INC_NSEC_PER_SEC)

struct inc_requester_figures {
	uint64_t sent;   /* packets, the first time */
	uint64_t resent; /* packets, all other times */
	uint64_t acks, naks, rnrs, timeouts;
};

struct inc_requester {
	/* The owner's, set before anything is described. */
	struct inc_tx_peer to;
	uint32_t start_psn;
	unsigned int slots;         /* a power of two */
	struct inc_tx_packet *ring; /* slots of them */
	void (*log)(void *ctx, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
	void *log_ctx;

	uint64_t posted; /* packets described */
	uint64_t next;   /* to send next */
	uint64_t high;   /* sent at least once: all before this */
	uint64_t acked;  /* kept by the peer: all before this */
	/* After a timeout mostly an ACK was late, and the packets before `recover` are on their
	 * way: only `burst` of them past acked are sent again (inc_rto_probes()), twice as many
	 * with each acknowledgement. 0: there is no timeout to recover from. */
	uint64_t recover, burst;
	unsigned int uncut;       /* timeouts in a row for packets that went together */
	uint64_t together_at_ns;  /* packets go one by one until then; 0: together */
	uint64_t single_pause_ns; /* how long, the next time */
	struct inc_rto rto;
	uint64_t rto_at_ns; /* UINT64_MAX: the timer does not run, for nothing is outstanding */
	uint64_t rnr_over_at_ns; /* the peer has asked for patience until then; 0: it has not */
	int failed;              /* nothing can be sent to the peer: a positive errno, for good */
	struct inc_requester_figures figures;
};

void inc_requester_init(struct inc_requester *q, uint64_t rto_min_ns, uint64_t rto_max_ns);

static inline struct inc_tx_packet *inc_requester_packet(const struct inc_requester *q, uint64_t r)
{
	return &q->ring[r & (q->slots - 1)];
}

/* ---- sending ---- */

/* Sends under construction for one socket: those of a requester follow each other. */
struct inc_batch {
	struct inc_segments send[INC_BATCH_SENDS];
	struct mmsghdr msg[INC_BATCH_SENDS];
	struct inc_requester *from[INC_BATCH_SENDS]; /* NULL: an ACK packet */
	unsigned int n;
};

/* Up to where it may send now: all before this. next, where that is nowhere. */
uint64_t inc_requester_limit(const struct inc_requester *q);
/* Puts what is to go before limit into the batch, which holds nothing of it yet; the last packet
 * asks for an ACK. False: there is no more room, and the rest is to be put when that has gone. */
bool inc_requester_fill(struct inc_requester *q, const struct inc_udp *udp, struct inc_batch *batch,
			uint64_t limit, uint64_t now_ns);
/* Puts an ACK packet into the batch, which has room for it. Where it does not go it is lost. */
void inc_batch_ack(struct inc_batch *batch, const struct inc_tx_peer *to, uint8_t syndrome,
		   uint32_t psn, uint32_t msn);
/* Sends a batch, which is empty then. What could not go (the socket is full, or has turned out not
 * to cut sends) is as it was before it was put; what never can sets its requester's `failed`. */
void inc_batch_send(struct inc_batch *batch, struct inc_udp *udp, uint64_t now_ns);

/* ---- what comes back ---- */

/* The peer has kept all packets before r. */
void inc_requester_kept(struct inc_requester *q, uint64_t r, uint64_t now_ns);

enum inc_requester_heard {
	INC_HEARD,     /* taken, or late */
	INC_HEARD_ODD, /* makes no sense, and is not believed */
	INC_HEARD_NAK, /* a NAK that ends the connection; *r says of which packet */
};
/* An ACK packet. */
enum inc_requester_heard inc_requester_hear(struct inc_requester *q,
					    const struct inc_roce_packet *pkt, uint64_t now_ns,
					    uint64_t *r);

/* The retransmission timer runs from now, or from the end of the patience that the peer has asked
 * for, if anything is outstanding. */
void inc_requester_restart_timer(struct inc_requester *q, uint64_t now_ns);
/* When inc_requester_timers() is wanted at the latest. */
uint64_t inc_requester_deadline_ns(const struct inc_requester *q);
void inc_requester_timers(struct inc_requester *q, uint64_t now_ns);

#endif
