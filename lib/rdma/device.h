/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An open RDMA device: context, protection domain, asynchronous events (async.h). An inventory
 * (inventory.h) opens it. Each user holds a reference, and the context stays open until the last
 * one is released, even if the device or the inventory is gone. Queue pairs (qp.h) and completions
 * (completion.h) hold their own references.
 *
 * Any thread may call the functions here. The kernel removes some devices (rxe) only after all
 * programs have closed them, so release the reference when a subscriber receives
 * INC_RDMA_DEVICE_GONE.
 */
#ifndef INC_RDMA_DEVICE_H
#define INC_RDMA_DEVICE_H

#include <stdatomic.h>
#include <stdint.h>
#include <infiniband/verbs.h>
#include "lib/base/err.h"
#include "lib/rdma/async.h"
#include "lib/rdma/info.h"

/* An open device. All members are set when the device is opened. After that only the last two
 * change. */
struct inc_rdma_device {
	char name[INC_RDMA_NAME_SIZE];
	struct ibv_context *ctx; /* context of libibverbs, whose async_fd does not block */
	/* protection domain, one for all users of this device through this inventory */
	struct ibv_pd *pd;
	uint8_t ports; /* number of ports, which are numbered from 1 */
	struct inc_rdma_limits limits;
	struct inc_rdma_async async; /* state of the events, internal to async.c */
	atomic_uint refs;            /* number of references, internal to device.c */
};

/* Adds a reference and returns device. */
struct inc_rdma_device *inc_rdma_device_ref(struct inc_rdma_device *device);
/* Releases a reference. Before the last release all objects on ctx and pd must be destroyed, and
 * all subscribers removed. NULL is allowed. */
void inc_rdma_device_put(struct inc_rdma_device *device);

/* Makes registered memory survive a fork() (ibv_fork_init(3)). Call it before the first device is
 * opened. Without it, on kernels before 5.12, the device may no longer see the parent's memory
 * after a fork(). Returns 0 or -errno. */
int inc_rdma_fork_safe(void);

#endif
