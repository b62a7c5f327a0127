/* SPDX-License-Identifier: BSD-2-Clause */
/* The regions of requests, by way of a cache of registrations (lib/rdma/region.h). */
#ifndef INCCL_VERBS_REGION_H
#define INCCL_VERBS_REGION_H

#include <stddef.h>
#include "hostlib/src/transport.h"
#include "lib/rdma/region.h"

/* access: IBV_ACCESS_*. 0, or -errno. A region of no bytes has no registration. */
int verbs_region_get(struct inc_rdma_cache *cache, void *addr, size_t len, unsigned int access,
		     struct inccl_region *region);
void verbs_region_put(struct inc_rdma_cache *cache, struct inccl_region *region);

#endif
