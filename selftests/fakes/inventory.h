/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RDMA devices as lib/rdma/inventory.h describes them, whose functions are replaced. The devices
 * only exist in the inventory's list: nothing can be created on them.
 */
#ifndef SELFTESTS_FAKES_INVENTORY_H
#define SELFTESTS_FAKES_INVENTORY_H

#include <stdbool.h>
#include "lib/rdma/info.h"

/* The devices that a context finds: `n` devices "fake0", "fake1", ..., each with one Ethernet port
 * at 10.9.DEVICE.1. After a change the test calls fake_inventory_changed(), which notifies the
 * contexts. */
extern struct fake_inventory {
	unsigned int n;
	enum inc_rdma_port_state state; /* state of the devices' ports */
	bool shut;                      /* the devices are listed, but cannot be opened */
} fake_inventory;

/* Sets no device, and ports that are active. */
void fake_inventory_reset(void);
/* Makes the descriptors of all inventories readable, so that contexts refresh their lists of
 * devices. */
void fake_inventory_changed(void);

#endif
