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
	uint32_t send_wr; /* requests posted and not complete, at most */
	uint32_t recv_wr;
	uint32_t send_sge; /* pieces of memory per request */
	uint32_t recv_sge;
	uint32_t inline_bytes;  /* of a send that need not be registered; 0: none */
	uint8_t rd_atomic;      /* our own RDMA READs in flight */
	uint8_t dest_rd_atomic; /* those of the peer */
};

/* A field that exceeds the limits of a device. */
struct inc_rdma_excess {
	const char *field; /* of struct inc_rdma_qp_caps */
	unsigned int wanted, most;
};

/* Whether a field exceeds the limits; *excess is the first one. */
bool inc_rdma_qp_caps_exceed(const struct inc_rdma_limits *limits,
			     const struct inc_rdma_qp_caps *caps, struct inc_rdma_excess *excess);
/* 0, or -EINVAL: err has the field, its value and the limit, and device is the name in the text. */
int inc_rdma_qp_caps_check(const char *device, const struct inc_rdma_limits *limits,
			   const struct inc_rdma_qp_caps *caps, struct inc_err *err);

#endif
