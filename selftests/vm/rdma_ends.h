/* SPDX-License-Identifier: BSD-2-Clause */
/* The two real devices of a test program, and functions that read their state. */
#ifndef RDMA_ENDS_H
#define RDMA_ENDS_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/rdma/inventory.h"

#define ENDS 2

/* The two devices from the program's arguments. */
struct end {
	const char *device; /* name of the RDMA device, for example "rxe0" */
	const char *ifname; /* the device's network interface */
	uint32_t addr;      /* the interface's address, in network order */
};
extern struct end ends[ENDS];

struct inc_rdma_inventory *open_filtered(const struct inc_rdma_filter *filter);
struct inc_rdma_inventory *open_all(void);
/* The device with this name in a list of the inventory, or NULL. */
const struct inc_rdma_device_info *find_device(const struct inc_rdma_list *list, const char *name);
/* The device with this name in a list of the inventory. Fails the test if there is no such
 * device. */
const struct inc_rdma_device_info *described(const struct inc_rdma_list *list, const char *name);
/* The RoCE v2 GID of this IP address in the first port's table, or NULL. */
const struct inc_rdma_gid *gid_of(const struct inc_rdma_device_info *device, uint32_t addr);
/* The index of the RoCE v2 GID of this IP address in the first port's table, or -1. */
int gid_index(const struct inc_rdma_device_info *device, uint32_t addr);
void shell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Sets ends[] and the name of the test to run from a program's arguments. If the arguments are
 * wrong, prints the usage and returns false. */
bool read_ends(int argc, char **argv, const char *program);

#endif
