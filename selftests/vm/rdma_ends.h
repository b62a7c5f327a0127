/* SPDX-License-Identifier: BSD-2-Clause */
/* The two real devices of a test, and what its tests ask of them. */
#ifndef RDMA_ENDS_H
#define RDMA_ENDS_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/rdma/inventory.h"

#define ENDS 2

/* The two devices that main() was told of. */
struct end {
	const char *device; /* "rxe0" */
	const char *ifname; /* the interface it is on */
	uint32_t addr;      /* that interface's, network order */
};
extern struct end ends[ENDS];

struct inc_rdma_inventory *open_filtered(const struct inc_rdma_filter *filter);
struct inc_rdma_inventory *open_all(void);
/* Of a list of the inventory; NULL: it is not there. */
const struct inc_rdma_device_info *find_device(const struct inc_rdma_list *list, const char *name);
/* Of a list of the inventory: the device with this name; fails where there is none. */
const struct inc_rdma_device_info *described(const struct inc_rdma_list *list, const char *name);
/* The RoCE v2 GID of this address in the first port's table; NULL: it is not there. */
const struct inc_rdma_gid *gid_of(const struct inc_rdma_device_info *device, uint32_t addr);
/* The place of the RoCE v2 GID of this address in the first port's table; -1: it is not there. */
int gid_index(const struct inc_rdma_device_info *device, uint32_t addr);
void shell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Fills ends, and takes a test's name, from a program's arguments. False: they are wrong, and that
 * was said. */
bool read_ends(int argc, char **argv, const char *program);

#endif
