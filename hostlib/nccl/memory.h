/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that NCCL has registered (its mhandle): known to the device of the rail in use at once, to
 * the standby's by a worker, at a failover at the latest. Registrations are shared: a
 * cache per device (lib/rdma/cache.h) counts references by page range and evicts unused ones only,
 * the longest unused first. Memory of a GPU is registered for each region by itself, as no kernel
 * tells what becomes of it.
 *
 * Threads: any; a region by one at a time (the comm's lock).
 */
#ifndef HA_MEMORY_H
#define HA_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include "hostlib/nccl/devices.h"
#include "lib/base/err.h"
#include "lib/rdma/region.h"

struct ha_region {
	void *address;
	size_t bytes;
	int type;      /* HA_NCCL_PTR_HOST, ... */
	int dmabuf_fd; /* -1: none */
	uint64_t dmabuf_offset;
	struct inc_rdma_mr *mr[HA_RAILS]; /* of the cache; NULL: not (yet) known there */
	struct inc_rdma_cache *cache[HA_RAILS];
	struct ibv_mr *own[HA_RAILS]; /* what the cache does not do: memory of a GPU */
};

/* The caches of the devices in use, shared by all comms on a device. */
struct ha_caches;

/* Registers with one rail; what is there already stays. 0, or -errno and why: -EOPNOTSUPP for
 * memory of a GPU that the device cannot reach. */
int ha_region_register(struct ha_region *region, struct ha_caches *caches,
		       const struct ha_rail *rails, unsigned int rail, struct inc_err *err);
/* With all rails. The region is the caller's. */
void ha_region_release(struct ha_region *region);

/* The keys on a rail; 0 where it is not registered there. */
uint32_t ha_region_lkey(const struct ha_region *region, unsigned int rail);
uint32_t ha_region_rkey(const struct ha_region *region, unsigned int rail);

int ha_caches_open(struct ha_caches **out, struct inc_err *err);
/* No region is registered any more. NULL is allowed. */
void ha_caches_close(struct ha_caches *caches);

#endif
