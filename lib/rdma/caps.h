/* SPDX-License-Identifier: BSD-2-Clause */
/* What a queue pair shall hold, and whether a device can do it. Pure: no device is asked. Any
 * thread. */
#ifndef INC_RDMA_CAPS_H
#define INC_RDMA_CAPS_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/base/err.h"
#include "lib/rdma/info.h"

/* What a queue pair shall hold. */
struct inc_rdma_qp_caps {
	uint32_t send_wr; /* requests posted and not complete, at most */
	uint32_t recv_wr;
	uint32_t send_sge; /* pieces of memory per request */
	uint32_t recv_sge;
	uint32_t inline_bytes;  /* of a send that need not be registered; 0: none */
	uint8_t rd_atomic;      /* own RDMA READs under way */
	uint8_t dest_rd_atomic; /* the peer's */
};

/* A field that is more than a device can do. */
struct inc_rdma_excess {
	const char *field; /* of struct inc_rdma_qp_caps */
	unsigned int wanted, most;
};

/* Whether there is one, and the first. */
bool inc_rdma_qp_caps_exceed(const struct inc_rdma_limits *limits,
			     const struct inc_rdma_qp_caps *caps, struct inc_rdma_excess *excess);
/* 0, or -EINVAL: err names the field, what it is and what the device, named so, can do. */
int inc_rdma_qp_caps_check(const char *device, const struct inc_rdma_limits *limits,
			   const struct inc_rdma_qp_caps *caps, struct inc_err *err);

#endif
