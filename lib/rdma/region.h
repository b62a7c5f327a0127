/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory made known to a device: the cache of registrations (cache.h) over a protection domain.
 *
 *	inc_rdma_regions_open()		beside the protection domain
 *	inc_rdma_cache_get(), inc_rdma_mr_put()	around each use; mr->mr has the keys
 *	inc_rdma_cache_close()		before the protection domain goes
 */
#ifndef INC_RDMA_REGION_H
#define INC_RDMA_REGION_H

#include <stddef.h>
#include <infiniband/verbs.h>
#include "lib/base/err.h"
#include "lib/rdma/cache.h"

/*
 * The cache of a protection domain: registrations that nobody uses stay, up to so many bytes (0:
 * none does). 0, or -errno where memory cannot be watched: the cache then works and keeps nothing,
 * and is closed all the same.
 */
int inc_rdma_regions_open(struct inc_rdma_cache *cache, struct ibv_pd *pd, size_t max_bytes);

/* Puts in words that registering so many bytes with so much access (IBV_ACCESS_*) on the named
 * device failed with -errno. Returns that -errno. */
int inc_rdma_region_error(struct inc_err *err, const char *device, size_t len, unsigned int access,
			  int error);

#endif
