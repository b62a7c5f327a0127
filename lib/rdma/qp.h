/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The life of an RC queue pair: created (RESET, then INIT), connected to its peer (RTR: it
 * receives), allowed to send (RTS), ended (ERR: posted requests complete with an error). Callers
 * post requests and poll completions by libibverbs, on qp->ibv.
 *
 * Every error names device/port, the peer once it is known, the step and the reason: "rxe0/1 to s0
 * (10.0.0.254): queue pair to RTR: Connection timed out". Each step is a call into the kernel that
 * waits for no peer, except RTR over RoCE. That step may resolve the peer's address by ARP, which
 * takes a second or more if there is no answer. A thread that must not wait so long splits it in
 * three: inc_rdma_qp_aim(), inc_rdma_rtr_enter() on another thread, and inc_rdma_qp_entered() for
 * the error.
 *
 * Threads: one at a time per queue pair.
 */
#ifndef INC_RDMA_QP_H
#define INC_RDMA_QP_H

#include <stdint.h>
#include <infiniband/verbs.h>
#include "lib/base/err.h"
#include "lib/rdma/info.h"
#include "lib/rdma/device.h"

struct inc_rdma_qp_opts {
	struct ibv_cq *send_cq, *recv_cq;
	struct inc_rdma_qp_caps caps;
	uint8_t port;
	uint16_t pkey_index;
	int access; /* the peer's rights to registered memory: IBV_ACCESS_REMOTE_* */
};

#define INC_RDMA_HOPS_ANY 255 /* hop limit for paths that may be routed */

/* The peer's address and connection parameters. Members that the link layer does not have are
 * ignored. */
struct inc_rdma_peer {
	const char *name;       /* name of the peer for errors; copied */
	uint32_t qpn;           /* queue pair number of the peer, 24 bits */
	uint32_t psn;           /* PSN of the first packet that the peer sends, 24 bits */
	unsigned int mtu_bytes; /* MTU of the path: the smaller of both ends' active MTUs */
	uint8_t min_rnr_timer;  /* code of the delay that our RNR NAKs request */
	uint8_t sl;
	enum inc_rdma_link_layer link_layer;
	uint16_t lid; /* LID of the peer on InfiniBand, inside one subnet without a global header */
	/* members for Ethernet: */
	uint8_t gid[16];
	uint8_t own_gid_index; /* index of our own GID in our port's table (gid.h) */
	uint8_t hop_limit;
	uint8_t traffic_class;
	uint32_t flow_label; /* flow label of 20 bits; 0: the device's choice */
};

struct inc_rdma_rts {
	uint32_t psn;    /* PSN of the first packet that we send, 24 bits */
	uint8_t timeout; /* the ACK timeout is 4.096 us * 2^timeout; 0: no timeout */
	/* number of retries after timeouts, 0 to 7; 7 means for ever on some devices (rxe) */
	uint8_t retry_cnt;
	uint8_t rnr_retry; /* number of retries after RNR NAKs, 0 to 7; 7 means for ever */
	/* most that the queue pair sends, in kbit/s, if inc_rdma_rate_check() allows it; 0: no
	 * limit */
	uint32_t rate_limit;
};

struct inc_rdma_qp {
	struct ibv_qp *ibv;
	struct inc_rdma_device *device; /* the device, with a reference to it */
	uint8_t port;
	struct inc_rdma_qp_caps caps;
	char what[160]; /* names for errors and logs: "rxe0/1", then "rxe0/1 to PEER" */
};

/* Makes the queue pair in the state INIT, so that receives can be posted. Returns 0, -EINVAL like
 * inc_rdma_qp_caps_check(), or -errno. On error there is nothing to destroy. */
int inc_rdma_qp_make(struct inc_rdma_qp *qp, struct inc_rdma_device *device,
		     const struct inc_rdma_qp_opts *opts, struct inc_err *err);
/* Brings the queue pair from INIT to RTR. Returns 0 or -errno; -EINVAL: a number of the peer is out
 * of range. */
int inc_rdma_qp_to_rtr(struct inc_rdma_qp *qp, const struct inc_rdma_peer *peer,
		       struct inc_err *err);

/* The call into the kernel that brings a queue pair to RTR. */
struct inc_rdma_rtr {
	struct ibv_qp *ibv;
	struct ibv_qp_attr attr;
};

/* The first of the three steps: prepares the call, and sets qp->what. 0 or -EINVAL. It does not
 * wait. */
int inc_rdma_qp_aim(struct inc_rdma_qp *qp, const struct inc_rdma_peer *peer,
		    struct inc_rdma_rtr *rtr, struct inc_err *err);
/* The second step: makes the call, which may wait. Returns 0 or -errno. Any thread may make it,
 * because it uses only rtr. No other thread may modify or destroy the queue pair meanwhile. */
int inc_rdma_rtr_enter(struct inc_rdma_rtr *rtr);
/* The third step: reports the result of the call. Returns 0, or -errno with the reason. */
int inc_rdma_qp_entered(const struct inc_rdma_qp *qp, int error, struct inc_err *err);
/* Brings the queue pair from RTR to RTS. Returns 0 or -errno. */
int inc_rdma_qp_to_rts(struct inc_rdma_qp *qp, const struct inc_rdma_rts *rts, struct inc_err *err);
/* Brings the queue pair from any state to ERR. Afterwards the device accesses no memory for it any
 * more, and everything posted completes (IBV_WC_WR_FLUSH_ERR, or with its own result). Returns 0 or
 * -errno. */
int inc_rdma_qp_to_err(struct inc_rdma_qp *qp, struct inc_err *err);
/* Destroys the queue pair in any state. A struct of zeros is allowed. */
void inc_rdma_qp_destroy(struct inc_rdma_qp *qp);

#endif
