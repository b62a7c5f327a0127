/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that NCCL has registered (its mhandle). The device of the rail in use registers it at
 * once; a worker registers it with the standby's device, at the latest during a failover. Regions
 * share registrations: a cache for each device (lib/rdma/cache.h) counts references by page range.
 * It evicts only unused registrations, the longest unused first. GPU memory is registered for each
 * region anew, because the kernel does not report when it is unmapped.
 *
 * Any thread may call, but only one at a time for one region (the comm's lock).
 */
#ifndef HA_MEMORY_H
#define HA_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hostlib/nccl/abi.h"
#include "hostlib/nccl/devices.h"
#include "lib/base/err.h"
#include "lib/rdma/region.h"

struct ha_region {
	void *address;
	size_t bytes;
	int type;      /* type of memory: HA_NCCL_PTR_HOST, ... */
	int dmabuf_fd; /* dma-buf descriptor of GPU memory; -1: none */
	uint64_t dmabuf_offset;
	/* registration of host memory on each rail, from the cache; NULL: not registered (yet) */
	struct inc_rdma_mr *mr[HA_RAILS];
	struct inc_rdma_cache *cache[HA_RAILS];
	/* registration of GPU memory on each rail, which the cache does not hold */
	struct ibv_mr *own[HA_RAILS];
};

/* Whether a region is memory of a GPU. Its payloads need a flush (comm_flush.c). */
static inline bool ha_region_is_gpu(const struct ha_region *region)
{
	return region->type == HA_NCCL_PTR_CUDA;
}

/* The registration caches of the devices in use. All comms on a device share the device's cache. */
struct ha_caches;

/* Registers a region with the device of one rail, unless that is done already. Returns 0, or -errno
 * and the reason; -EOPNOTSUPP for GPU memory that the device cannot reach. */
int ha_region_register(struct ha_region *region, struct ha_caches *caches,
		       const struct ha_rail *rails, unsigned int rail, struct inc_err *err);
/* Ends a region's registrations on all rails. The caller frees the region itself. */
void ha_region_release(struct ha_region *region);

/* These functions return a region's keys on a rail, or 0 if the region is not registered there. */
uint32_t ha_region_lkey(const struct ha_region *region, unsigned int rail);
uint32_t ha_region_rkey(const struct ha_region *region, unsigned int rail);

int ha_caches_open(struct ha_caches **out, struct inc_err *err);
/* Frees all caches. No region may be registered any more. caches may be NULL. */
void ha_caches_close(struct ha_caches *caches);

/*
 * Finds out by a trial which GPU memory each of the network's devices can register, and stores that
 * in the device. The trial allocates memory on the GPU that the calling thread uses, so it needs a
 * thread with a CUDA context, such as the one on which NCCL calls init. CUDA is not linked, and is
 * not loaded either, because a process with a context has loaded it. Returns 0, or -errno and the
 * reason why there was no trial.
 */
int ha_memory_try(struct ha_devices *devices, struct inc_err *why);

#endif
