/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory registered with a device: the cache of registrations (cache.h) of a protection domain.
 *
 *	inc_rdma_regions_open()		after the protection domain is made
 *	inc_rdma_cache_get(), inc_rdma_mr_put()	around each use; mr->mr has the keys
 *	inc_rdma_cache_close()		before the protection domain is freed
 */
#ifndef INC_RDMA_REGION_H
#define INC_RDMA_REGION_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/base/err.h"
#include "lib/rdma/cache.h"

/*
 * Opens the cache of a protection domain. Unused registrations stay in it, up to so many bytes (0:
 * none). 0, or -errno if memory cannot be watched. The cache then works, but caches nothing, and
 * must be closed all the same.
 */
int inc_rdma_regions_open(struct inc_rdma_cache *cache, struct ibv_pd *pd, size_t max_bytes);

/* Fills err for a failed registration of len bytes with that access (IBV_ACCESS_*) on the named
 * device. Returns error, an -errno. */
int inc_rdma_region_error(struct inc_err *err, const char *device, size_t len, unsigned int access,
			  int error);

/* The kind of memory in a range, from /proc/self/maps. */
enum inc_rdma_memory {
	INC_RDMA_MEMORY_OTHER,   /* the memory is shared, of a file, partly unmapped, or unknown */
	INC_RDMA_MEMORY_PRIVATE, /* all of the memory is private and anonymous */
	/* all of the memory is private and anonymous, and some pages are huge pages of hugetlb */
	INC_RDMA_MEMORY_HUGE,
};

enum inc_rdma_memory inc_rdma_memory_kind(uintptr_t start, uintptr_t end);

#endif
