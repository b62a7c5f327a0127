/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Declarations that the files rdma_*.c share. rdma_device.c has devices, contexts and memory, and
 * rdma_queue.c has completions and queue pairs. rdma_requester.c and rdma_responder.c have the two
 * halves of a queue pair.
 */
#ifndef SIM_RDMA_PRIV_H
#define SIM_RDMA_PRIV_H

#include <infiniband/verbs.h>
#include <sys/queue.h>
#include "network.h"
#include "selftests/unit/frame.h"

#define RDMA_EVENTS      16   /* events of a device that the program has not read yet */
#define RDMA_MOST_WR     1024 /* entries of a queue pair's queue */
#define RDMA_MOST_CQE    4096
#define RDMA_MOST_BYTES  (1 << 20) /* longest message */
#define RDMA_GIDS        3         /* entries of the GID table */
#define RDMA_GID_OF_IPV4 2
#define RDMA_PKEY        0xffff
/* Packets that a queue pair sends without an acknowledgement, as rxe. */
#define RDMA_WINDOW 128

struct rdma_device {
	struct ibv_device ibv; /* the public part, which must be the first member */
	struct host *host;
	const struct process *owner;
	bool broken;    /* the device has failed */
	uint16_t ip_id; /* number of the last packet */
	LIST_HEAD(, rdma_context) contexts;
};

/* A process that has opened a device. All that it has made there ends with its descriptor. */
struct rdma_context {
	struct ibv_context ibv; /* the public part, which must be the first member */
	struct rdma_device *device;
	struct ibv_pd pd;
	struct ibv_async_event event[RDMA_EVENTS];
	unsigned int put, taken;
	LIST_HEAD(, rdma_qp) qps;
	LIST_HEAD(, rdma_cq) cqs;
	LIST_HEAD(, rdma_mr) mrs;
	LIST_HEAD(, rdma_notices) channels;
	LIST_ENTRY(rdma_context) entry;
};

struct rdma_mr {
	struct ibv_mr ibv; /* the public part, which must be the first member */
	int access;
	LIST_ENTRY(rdma_mr) entry;
};

/* A completion channel. */
struct rdma_notices {
	struct ibv_comp_channel ibv; /* the public part, which must be the first member */
	/* the channel's descriptor, or its device, was closed because the process has ended */
	bool closed, context_ended;
	LIST_ENTRY(rdma_notices) entry;
};

struct rdma_completion {
	struct ibv_wc wc;
	uint32_t qpn;   /* the queue pair whose send queue has room once this is polled; 0: none */
	uint64_t up_to; /* number of requests that have left that queue then */
	uint64_t seen_at_ns; /* a program that polls may miss the completion until then */
};

struct rdma_cq {
	struct ibv_cq ibv;            /* the public part, which must be the first member */
	struct rdma_completion *ring; /* ibv.cqe entries */
	uint64_t put, taken;
	bool armed;
	unsigned int notices; /* notifications that the program has not read yet */
	unsigned int unacked; /* notifications that it has read and not acknowledged */
	LIST_ENTRY(rdma_cq) entry;
};

/* A request of the send queue. Packets are counted in 64 bits from the first one on. */
struct rdma_send {
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	uint64_t first, packets;
};

struct rdma_receive {
	uint64_t wr_id;
	struct ibv_sge sge;
};

struct rdma_qp {
	struct ibv_qp ibv; /* the public part, which must be the first member */
	struct rdma_context *context;
	enum ibv_qp_state state;
	uint64_t id; /* number of the queue pair in the simulation's events */
	struct ibv_qp_cap cap;
	int access;
	uint32_t peer_qpn, peer_addr, mtu_bytes;
	uint8_t min_rnr_timer, hop_limit, tos;
	uint16_t sport;

	/* the requester: done <= posted, and acked <= next <= high <= described */
	struct rdma_send *sends;
	uint64_t posted, done, freed; /* requests: posted, completed, and out of the queue */
	uint32_t psn;                 /* PSN of packet 0 */
	uint64_t described;           /* packets of all requests */
	uint64_t acked, next, high;   /* packets: acknowledged, sent next, sent at least once */
	uint64_t timeout_ns;          /* 0: there is no timeout */
	unsigned int retry_cnt, rnr_retry, retries, rnr_retries;
	uint64_t timer_at_ns; /* 0: the timer does not run */
	bool timer_set;       /* an event of the timer is under way */
	bool doorbell;        /* an event that sends is under way */
	uint64_t rnr_until_ns;

	/* the responder */
	struct rdma_receive *receives;
	uint64_t rq_posted, rq_taken;
	uint32_t epsn, msn;
	bool asked_again; /* a NAK for the expected packet is outstanding */
	bool ack_due;
	/* the message that arrives: 0, or the opcode of its first packet */
	bool in_message, is_write;
	uint64_t write_at;
	uint32_t write_key, write_left, bytes;
	LIST_ENTRY(rdma_qp) entry;
};

/* rdma_device.c */
struct rdma_qp *rdma_qp_of(uint64_t id);
/* May the device use this memory? */
bool rdma_may_touch(const struct rdma_context *context, uint32_t key, uint64_t addr, uint64_t bytes,
		    int access);
void rdma_report(struct rdma_context *context, enum ibv_event_type type, struct ibv_qp *qp);
/* Sends a packet, whose addresses and numbers the queue pair knows. */
void rdma_transmit(struct rdma_qp *qp, struct frame_spec *packet);
bool rdma_is_up(const struct rdma_device *device);

/* rdma_queue.c */
/* Draws the numbers of a run's first queue pair. */
void rdma_first_numbers(void);
void rdma_set_ops(struct ibv_context *ctx);
void rdma_complete(struct ibv_cq *cq, const struct rdma_completion *completion);
/* The queue pair fails, and all that is posted is given back. */
void rdma_fail(struct rdma_qp *qp);
void rdma_free_qp(struct rdma_qp *qp);
void rdma_free_cq(struct rdma_cq *cq);

/* rdma_requester.c */
/* Sends what was posted, some time later. */
void rdma_ring(struct rdma_qp *qp);
/* The oldest request fails with this status, and all others are flushed. */
void rdma_give_up(struct rdma_qp *qp, enum ibv_wc_status status);
/* An acknowledgement has arrived. */
void rdma_answered(struct rdma_qp *qp, uint8_t syndrome, uint32_t psn);
/* Completes the oldest request with this status. */
void rdma_end_send(struct rdma_qp *qp, enum ibv_wc_status status);

/* rdma_responder.c */
struct rdma_packet {
	uint8_t opcode;
	bool ackreq;
	uint32_t psn, rkey, dmalen, imm, bytes;
	uint64_t va;
	const uint8_t *payload;
};
void rdma_requested(struct rdma_qp *qp, const struct rdma_packet *packet);
/* Completes the oldest receive. Its queue must have one. */
void rdma_end_receive(struct rdma_qp *qp, const struct ibv_wc *wc);

#endif
