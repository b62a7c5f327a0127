/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * All RDMA devices of this machine with their ports, P_Keys and GIDs: described (info.h) for who
 * chooses, open (device.h) for who uses them. Any number of inventories may be open; each opens
 * the devices for itself.
 *
 * Devices come and go, ports go up and down, GIDs change places: a refresh asks everything again.
 * What others hold stays valid across it, for it is counted: a list that was got is as it was until
 * it is put, and a device stays open.
 *
 * Threads: get, device and put may be called by any thread at any time; refresh, take and close by
 * one thread at a time, and not from a subscriber's call. Nothing here waits for a peer; opening
 * and refreshing take a few milliseconds per device in the kernel.
 */
#ifndef INC_RDMA_INVENTORY_H
#define INC_RDMA_INVENTORY_H

#include <stdint.h>
#include "lib/base/err.h"
#include "lib/rdma/device.h"
#include "lib/rdma/info.h"

struct inc_rdma_inventory;

/*
 * Opens what the filter (copied; NULL: everything) lets pass. 0 also where there is no device at
 * all, or none that could be opened: the list says so. -errno: -ENOMEM and the like.
 */
int inc_rdma_inventory_open(const struct inc_rdma_filter *filter, struct inc_rdma_inventory **out,
			    struct inc_err *err);
/* Gives its own references back. NULL is allowed. */
void inc_rdma_inventory_close(struct inc_rdma_inventory *inventory);

/*
 * Asks everything again: when take() says so, and every now and then, since not every device tells
 * everything. 1 where the list is another one now, 0 where all is as it was, -errno where
 * nothing could be asked (the old list stays). A device that has gone keeps no reference of the
 * inventory's, and its subscribers get INC_RDMA_DEVICE_GONE, on this thread, before this returns.
 * One that could not be opened is tried again.
 */
int inc_rdma_inventory_refresh(struct inc_rdma_inventory *inventory, struct inc_err *err);

/* The list as the last refresh made it; give it back with inc_rdma_list_put(). */
const struct inc_rdma_list *inc_rdma_inventory_get(struct inc_rdma_inventory *inventory);
void inc_rdma_list_put(const struct inc_rdma_list *list);

/* The open device with this index and this name, with a reference for the caller; NULL where there
 * is none, or where it is not open. Both must be right: an index may have been given to another
 * device since the caller read it. */
struct inc_rdma_device *inc_rdma_inventory_device(struct inc_rdma_inventory *inventory,
						  uint8_t index, const char *name);

/* A descriptor that is readable while an asynchronous event of any of its devices waits. */
int inc_rdma_inventory_fd(const struct inc_rdma_inventory *inventory);
/*
 * Takes in the events of all devices until there are none (for edge-triggered loops, too) and gives
 * them to the subscribers of each device, on this thread. 1 where a refresh is due (a port, a GID,
 * a P_Key or a device has changed), else 0.
 */
int inc_rdma_inventory_take(struct inc_rdma_inventory *inventory);

#endif
