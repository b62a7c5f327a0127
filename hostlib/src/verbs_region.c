/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>
#include "hostlib/src/verbs_region.h"

static int reg(void *pd, struct verbs_mr *mr)
{
	int access = mr->writable ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE : 0;

	mr->mr = ibv_reg_mr(pd, (void *)mr->range.start, mr->range.end - mr->range.start, access);
	return mr->mr ? 0 : -errno;
}

static void dereg(struct verbs_mr *mr)
{
	ibv_dereg_mr(mr->mr);
}

static const struct verbs_cache_ops device_memory = {.reg = reg, .dereg = dereg};

int verbs_regions_open(struct verbs_cache *cache, struct ibv_pd *pd, size_t max_bytes)
{
	return verbs_cache_open(cache, &device_memory, pd, max_bytes);
}

int verbs_region_get(struct verbs_cache *cache, void *addr, size_t len, bool writable,
		     struct inccl_region *region)
{
	struct verbs_mr *mr;
	int ret;

	*region = (struct inccl_region){.addr = addr, .len = len};
	if (!len)
		return 0;
	ret = verbs_cache_get(cache, addr, len, writable, &mr);
	if (ret)
		return ret;
	region->lkey = mr->mr->lkey;
	region->rkey = mr->mr->rkey;
	region->va = (uintptr_t)addr;
	region->priv = mr;
	return 0;
}

void verbs_region_put(struct verbs_cache *cache, struct inccl_region *region)
{
	if (region->priv)
		verbs_mr_put(cache, region->priv);
	region->priv = NULL;
}
