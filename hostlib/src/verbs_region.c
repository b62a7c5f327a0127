/* SPDX-License-Identifier: BSD-2-Clause */
#include "hostlib/src/verbs_region.h"

int verbs_region_get(struct inc_rdma_cache *cache, void *addr, size_t len, unsigned int access,
		     struct inccl_region *region)
{
	struct inc_rdma_mr *mr;
	int ret;

	*region = (struct inccl_region){.addr = addr, .len = len};
	if (!len)
		return 0;
	ret = inc_rdma_cache_get(cache, addr, len, access, &mr);
	if (ret)
		return ret;
	region->lkey = mr->mr->lkey;
	region->rkey = mr->mr->rkey;
	region->va = (uintptr_t)addr;
	region->priv = mr;
	return 0;
}

void verbs_region_put(struct inc_rdma_cache *cache, struct inccl_region *region)
{
	if (region->priv)
		inc_rdma_mr_put(cache, region->priv);
	region->priv = NULL;
}
