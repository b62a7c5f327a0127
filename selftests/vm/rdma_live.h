/* SPDX-License-Identifier: BSD-2-Clause */
/* lib/rdma on real devices: what its tests share. */
#ifndef RDMA_LIVE_H
#define RDMA_LIVE_H

#include <stdarg.h>
#include <stdint.h>
#include "lib/rdma/inventory.h"

#define DEADLINE_S 60
#define ENDS       2

/* The two devices that main() was told of. */
struct end {
	const char *device; /* "rxe0" */
	const char *ifname; /* the interface it is on */
	uint32_t addr;      /* that interface's, network order */
};
extern struct end ends[ENDS];

struct inc_rdma_inventory *open_all(void);
/* Of a list of the inventory: the device with this name; fails where there is none. */
const struct inc_rdma_device_info *described(const struct inc_rdma_list *list, const char *name);
/* The place of the RoCE v2 GID of this address in the first port's table; -1: it is not there. */
int gid_index(const struct inc_rdma_device_info *device, uint32_t addr);
void shell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
unsigned int open_descriptors(void);

/* rdma_pair.c */
void test_messages(void **state);
void test_read_and_write(void **state);
void test_what_a_peer_may_not(void **state);
void test_stop_flushes(void **state);
void test_refusals(void **state);

#endif
