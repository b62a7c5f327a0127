/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the place for a RoCE v2 queue pair: the device, port and GID of the interface that has an
 * IPv4 address.
 *
 * Any thread may call the functions. inc_rdma_place_find() opens all devices for a moment, which
 * takes a few milliseconds per device.
 */
#ifndef INC_RDMA_PLACE_H
#define INC_RDMA_PLACE_H

#include <net/if.h>
#include <stdint.h>
#include "lib/base/err.h"
#include "lib/rdma/device.h"

/* Requirements of the place, besides the address. */
struct inc_rdma_place_wish {
	const char *device;      /* name of the device; "": any */
	uint8_t port;            /* number of the port; 0: any */
	int gid_index;           /* index of the GID; -1: the GID is found by the address */
	unsigned int pkey_index; /* index that the port's table of P_Keys must have */
};

struct inc_rdma_place {
	/* the open device with a reference, which inc_rdma_place_close() releases */
	struct inc_rdma_device *device;
	uint8_t port;
	uint8_t gid_index;
	uint16_t pkey;              /* the P_Key at pkey_index */
	unsigned int mtu_bytes;     /* active MTU of the port */
	uint32_t max_message_bytes; /* longest message of the port */
	char ifname[IF_NAMESIZE];   /* name of the interface; "": not known */
};

/* Finds the first place for the address (network order) that meets the requirements. Returns 0 with
 * an open device, or -errno. For -ENODEV err says why each device does not fit. If a device does
 * not open for want of memory or descriptors, the code is that shortage. */
int inc_rdma_place_find(const struct inc_rdma_place_wish *wish, uint32_t addr,
			struct inc_rdma_place *place, struct inc_err *err);
/* Releases the place's device. A struct of zeros is allowed. */
void inc_rdma_place_close(struct inc_rdma_place *place);

#endif
