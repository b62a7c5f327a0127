/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions that the files of this room share to open, describe and end devices. */
#ifndef INC_RDMA_DEVICE_PRIV_H
#define INC_RDMA_DEVICE_PRIV_H

#include <ifaddrs.h>
#include <stdbool.h>
#include "lib/rdma/device.h"

/* device.c: opens a device with one reference. On failure it returns NULL, with the reason in
 * fault. */
struct inc_rdma_device *inc_rdma_device_open(struct ibv_device *ibv, struct inc_rdma_fault *fault);

/* describe.c: fills in info's limits and ports. own: the addresses of this network namespace.
 * Returns -ENOMEM, else 0. Each query that failed leaves a fault in info. */
int inc_rdma_describe(struct inc_rdma_device *device, const struct inc_rdma_filter *filter,
		      const struct ifaddrs *own, struct inc_rdma_device_info *info);
/* Frees what info points to. */
void inc_rdma_describe_free(const struct inc_rdma_device_info *info);
bool inc_rdma_describe_same(const struct inc_rdma_device_info *a,
			    const struct inc_rdma_device_info *b);

/* async.c */
void inc_rdma_async_init(struct inc_rdma_async *async);
void inc_rdma_async_destroy(struct inc_rdma_async *async);
/* Delivers an event to the device's subscribers, as inc_rdma_device_take() does with those that it
 * reads. */
void inc_rdma_tell(struct inc_rdma_device *device, const struct inc_rdma_event *event);

#endif
