/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An open RDMA device: context, protection domain, asynchronous events (async.h). An inventory
 * (inventory.h) opens it; whoever builds on it holds a reference, and the context is open until the
 * last one is given back, whatever becomes of the device or the inventory meanwhile. Queue pairs
 * (qp.h) and completions (completion.h) hold one of their own.
 *
 * The functions here may be called by any thread. The kernel removes some devices (rxe) only when
 * nobody has them open any more: give the reference back when a subscriber hears
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

/* Set when it is opened; nothing of it but the last two changes any more. */
struct inc_rdma_device {
	char name[INC_RDMA_NAME_SIZE];
	struct ibv_context *ctx; /* its async_fd does not block */
	struct ibv_pd *pd;       /* one for all that use this device by this inventory */
	uint8_t ports;           /* numbered from 1 */
	struct inc_rdma_limits limits;
	struct inc_rdma_async async; /* async.c's */
	atomic_uint refs;            /* device.c's */
};

/* One reference more; returns device. */
struct inc_rdma_device *inc_rdma_device_ref(struct inc_rdma_device *device);
/* One less. Who gives the last one back has destroyed all that was made on ctx and pd, and has no
 * subscriber there. NULL is allowed. */
void inc_rdma_device_put(struct inc_rdma_device *device);

/* Before the first device is opened: after fork() the parent's registered memory stays what the
 * device sees (ibv_fork_init(3); kernels from 5.12 on need no help). 0 or -errno. */
int inc_rdma_fork_safe(void);

#endif
