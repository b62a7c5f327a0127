/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The capacities of a queue pair, and whether a device supports them. No device is accessed. Any
 * thread.
 */
#ifndef INC_RDMA_CAPS_H
#define INC_RDMA_CAPS_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/base/err.h"
#include "lib/rdma/info.h"

/* Capacities of a queue pair that a caller requests. */
struct inc_rdma_qp_caps {
	uint32_t send_wr; /* most requests that are posted and not complete */
	uint32_t recv_wr;
	uint32_t send_sge; /* most pieces of memory in a request */
	uint32_t recv_sge;
	/* length up to which the memory of a send need not be registered, because the request
	 * contains the data; 0: none */
	uint32_t inline_bytes;
	uint8_t rd_atomic;      /* number of RDMA READs that our end may have in flight */
	uint8_t dest_rd_atomic; /* number of RDMA READs that the peer may have in flight */
};

/* The first requested capacity that exceeds the limits of a device. */
struct inc_rdma_excess {
	const char *field; /* name of the field in struct inc_rdma_qp_caps */
	unsigned int wanted, most;
};

/* Whether a requested capacity exceeds the limits of the device. *excess becomes the first such
 * one. */
bool inc_rdma_qp_caps_exceed(const struct inc_rdma_limits *limits,
			     const struct inc_rdma_qp_caps *caps, struct inc_rdma_excess *excess);
/* Checks all requested capacities against the limits. Returns 0, or -EINVAL with the field, its
 * value and the limit in err. device: the device's name for that text. */
int inc_rdma_qp_caps_check(const char *device, const struct inc_rdma_limits *limits,
			   const struct inc_rdma_qp_caps *caps, struct inc_err *err);

#endif
