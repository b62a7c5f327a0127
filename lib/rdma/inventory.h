/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * All RDMA devices of this machine with their ports, P_Keys and GIDs: descriptions (info.h) to
 * choose by, and open devices (device.h) to use. Several inventories may exist; each opens the
 * devices itself.
 *
 * Devices are added and removed, ports go up and down, and GIDs change their index, so a refresh
 * queries everything again. Objects that callers hold stay valid, because references are counted:
 * a list does not change until inc_rdma_list_put(), and a device stays open.
 *
 * Threads: any may call get, device and put at any time; one at a time may call refresh, take and
 * close, and not inside a subscriber's call. No function waits for a peer; opening and refreshing
 * take a few milliseconds per device in the kernel.
 */
#ifndef INC_RDMA_INVENTORY_H
#define INC_RDMA_INVENTORY_H

#include <stdint.h>
#include "lib/base/err.h"
#include "lib/rdma/device.h"
#include "lib/rdma/info.h"

struct inc_rdma_inventory;

/*
 * Opens the devices that pass the filter, which is copied (NULL: all devices). Returns 0 even if
 * there is no device, or none could be opened, because the list shows that. Returns -errno, such as
 * -ENOMEM, if there is no inventory.
 */
int inc_rdma_inventory_open(const struct inc_rdma_filter *filter, struct inc_rdma_inventory **out,
			    struct inc_err *err);
/* Frees the inventory, which releases its references. inventory may be NULL. */
void inc_rdma_inventory_close(struct inc_rdma_inventory *inventory);

/*
 * Queries everything again. Call it when inc_rdma_inventory_take() returns 1, and now and then,
 * because some devices do not report every change. Returns 1: the list has changed; 0: the list has
 * not changed; -errno: the queries failed, and the old list stays. The inventory releases a device
 * that is gone. Its subscribers receive INC_RDMA_DEVICE_GONE on this thread before this returns. It
 * tries again to open a device that could not be opened.
 */
int inc_rdma_inventory_refresh(struct inc_rdma_inventory *inventory, struct inc_err *err);

/* Returns the list of the last refresh. The caller releases it by inc_rdma_list_put(). */
const struct inc_rdma_list *inc_rdma_inventory_get(struct inc_rdma_inventory *inventory);
void inc_rdma_list_put(const struct inc_rdma_list *list);

/* Returns the open device with this index and this name, with a reference for the caller. NULL:
 * there is none, or it is not open. Both must match, because another device may have got the index
 * since the caller read it. */
struct inc_rdma_device *inc_rdma_inventory_device(struct inc_rdma_inventory *inventory,
						  uint8_t index, const char *name);

/* Returns a descriptor that is readable while any device of the inventory has an asynchronous
 * event. */
int inc_rdma_inventory_fd(const struct inc_rdma_inventory *inventory);
/*
 * Reads the events of all devices until there are none (for edge-triggered loops, too) and
 * delivers them to the subscribers of each device, on this thread. 1: a refresh is due, because a
 * port, a GID, a P_Key or a device has changed; else 0.
 */
int inc_rdma_inventory_take(struct inc_rdma_inventory *inventory);

#endif
