/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory made known to a device: regions of requests, by way of a cache of registrations
 * (verbs_cache.c). A protection domain is all that is needed.
 */
#ifndef INCCL_VERBS_REGION_H
#define INCCL_VERBS_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <infiniband/verbs.h>
#include "hostlib/src/transport.h"
#include "hostlib/src/verbs_cache.h"

/* The cache of a protection domain; verbs_cache_close() takes it down. 0, or -errno where memory
 * cannot be watched: the cache then works and keeps nothing. */
int verbs_regions_open(struct verbs_cache *cache, struct ibv_pd *pd, size_t max_bytes);

/* 0, or -errno. A region of no bytes has no registration. */
int verbs_region_get(struct verbs_cache *cache, void *addr, size_t len, bool writable,
		     struct inccl_region *region);
void verbs_region_put(struct verbs_cache *cache, struct inccl_region *region);

#endif
