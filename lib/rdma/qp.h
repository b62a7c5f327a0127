/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Life of an RC queue pair: made (RESET, then INIT), told its peer (RTR: it receives), told to send
 * (RTS), ended (ERR: what is posted completes with an error). Posting and completions are
 * libibverbs' own, on qp->ibv.
 *
 * Every failure says device/port, the peer once it is known, the step and the reason: "rxe0/1 to s0
 * (10.0.0.254): queue pair to RTR: Connection timed out". Each step is a call into the kernel that
 * waits for no peer, but for RTR over RoCE, which may have to ask who has the peer's address
 * (a second and more, where nobody answers). Who must not wait so long takes that step in three:
 * aim, enter, and inc_rdma_qp_entered() for the error.
 *
 * Threads: one at a time per queue pair.
 */
#ifndef INC_RDMA_QP_H
#define INC_RDMA_QP_H

#include <stdint.h>
#include <infiniband/verbs.h>
#include "lib/base/err.h"
#include "lib/rdma/caps.h"
#include "lib/rdma/device.h"
#include "lib/rdma/info.h"

struct inc_rdma_qp_opts {
	struct ibv_cq *send_cq, *recv_cq;
	struct inc_rdma_qp_caps caps;
	uint8_t port;
	uint16_t pkey_index;
	int access; /* IBV_ACCESS_REMOTE_*: what the peer may do to registered memory */
};

#define INC_RDMA_HOPS_ANY 255 /* a hop limit: the path may be routed */

/* Where the peer is and how it is reached. What the link layer does not have is not read. */
struct inc_rdma_peer {
	const char *name;       /* for errors; copied */
	uint32_t qpn;           /* 24 bits */
	uint32_t psn;           /* of the first packet that it sends; 24 bits */
	unsigned int mtu_bytes; /* of the path: the smaller of both ends' active MTUs */
	uint8_t min_rnr_timer;  /* code of the delay that our RNR NAKs ask for */
	uint8_t sl;
	enum inc_rdma_link_layer link_layer;
	uint16_t lid; /* InfiniBand, inside one subnet: no global header */
	/* Ethernet */
	uint8_t gid[16];
	uint8_t own_gid_index; /* place of our own GID in our port's table (gid.h) */
	uint8_t hop_limit;
	uint8_t traffic_class;
	uint32_t flow_label; /* 20 bits; 0: the device's choice */
};

struct inc_rdma_rts {
	uint32_t psn;      /* of the first packet that we send; 24 bits */
	uint8_t timeout;   /* ACK timeout is 4.096 us * 2^timeout; 0: none at all */
	uint8_t retry_cnt; /* 0 to 7; 7 is for ever on some devices (rxe) */
	uint8_t rnr_retry; /* 0 to 7; 7 is for ever */
};

struct inc_rdma_qp {
	struct ibv_qp *ibv;
	struct inc_rdma_device *device; /* a reference of its own */
	uint8_t port;
	struct inc_rdma_qp_caps caps;
	char what[160]; /* "rxe0/1", then "rxe0/1 to PEER": for errors and logs */
};

/* Makes the queue pair, in INIT: receives can be posted. 0, -EINVAL as inc_rdma_qp_caps_check(),
 * or -errno; nothing is left to destroy then. */
int inc_rdma_qp_make(struct inc_rdma_qp *qp, struct inc_rdma_device *device,
		     const struct inc_rdma_qp_opts *opts, struct inc_err *err);
/* From INIT to RTR. 0 or -errno; -EINVAL where the peer's numbers can be none. */
int inc_rdma_qp_to_rtr(struct inc_rdma_qp *qp, const struct inc_rdma_peer *peer,
		       struct inc_err *err);

/* The call into the kernel that brings a queue pair to RTR. */
struct inc_rdma_rtr {
	struct ibv_qp *ibv;
	struct ibv_qp_attr attr;
};

/* The same in three steps. What the call needs, and qp->what: 0 or -EINVAL. Does not wait. */
int inc_rdma_qp_aim(struct inc_rdma_qp *qp, const struct inc_rdma_peer *peer,
		    struct inc_rdma_rtr *rtr, struct inc_err *err);
/* The call, which may wait: 0 or -errno. On any thread, as it touches nothing but rtr; nobody else
 * modifies or destroys the queue pair meanwhile. */
int inc_rdma_rtr_enter(struct inc_rdma_rtr *rtr);
/* What has come of it: 0, or -errno and why. */
int inc_rdma_qp_entered(const struct inc_rdma_qp *qp, int error, struct inc_err *err);
/* From RTR to RTS. 0 or -errno. */
int inc_rdma_qp_to_rts(struct inc_rdma_qp *qp, const struct inc_rdma_rts *rts, struct inc_err *err);
/* From any state to ERR: the device touches no memory for it any more, and everything posted
 * completes (IBV_WC_WR_FLUSH_ERR, or what had become of it). 0 or -errno. */
int inc_rdma_qp_to_err(struct inc_rdma_qp *qp, struct inc_err *err);
/* In any state. One of zeros is allowed. */
void inc_rdma_qp_destroy(struct inc_rdma_qp *qp);

#endif
