/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where a queue pair of RoCE v2 can live: the device, port and GID of the interface that has an
 * IPv4 address.
 *
 * Any thread. Opens all devices for a moment, which takes a few milliseconds per device.
 */
#ifndef INC_RDMA_PLACE_H
#define INC_RDMA_PLACE_H

#include <net/if.h>
#include <stdint.h>
#include "lib/base/err.h"
#include "lib/rdma/device.h"

/* What is asked of the place, besides the address. */
struct inc_rdma_place_wish {
	const char *device;      /* "": any */
	uint8_t port;            /* 0: any */
	int gid_index;           /* -1: found by address */
	unsigned int pkey_index; /* which the port must have */
};

struct inc_rdma_place {
	struct inc_rdma_device *device; /* a reference, of whoever holds the place */
	uint8_t port;
	uint8_t gid_index;
	uint16_t pkey;              /* at the index that was asked for */
	unsigned int mtu_bytes;     /* active */
	uint32_t max_message_bytes; /* of the port */
	char ifname[IF_NAMESIZE];   /* "": not known */
};

/* The first that is as wished, for the address in network order. 0 with an open device, or -errno
 * with err saying what each device lacks: -ENODEV. */
int inc_rdma_place_find(const struct inc_rdma_place_wish *wish, uint32_t addr,
			struct inc_rdma_place *place, struct inc_err *err);
/* One of zeros is allowed. */
void inc_rdma_place_close(struct inc_rdma_place *place);

#endif
