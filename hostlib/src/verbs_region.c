/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions of requests, from the cache of registrations (verbs_cache.c). */
#include <errno.h>
#include <string.h>
#include "hostlib/src/verbs.h"

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

void verbs_regions_open(struct verbs_endpoint *ep)
{
	int ret = verbs_cache_open(&ep->cache, &device_memory, ep->pd,
				   (size_t)ep->config.cache_mib << 20);

	if (ret)
		ep->log(ep->log_ctx,
			"verbs: memory cannot be watched (userfaultfd, /proc/self/maps): %s; "
			"buffers "
			"are registered for each operation",
			strerror(-ret));
}

int verbs_map(struct inccl_endpoint *base, void *addr, size_t len, bool writable,
	      struct inccl_region *region)
{
	struct verbs_endpoint *ep = verbs_ep(base);
	struct verbs_mr *mr;
	int ret;

	memset(region, 0, sizeof(*region));
	region->addr = addr;
	region->len = len;
	if (!len)
		return 0;
	ret = verbs_cache_get(&ep->cache, addr, len, writable, &mr);
	if (ret) {
		ep->log(ep->log_ctx, "verbs: %s: register %zu bytes%s: %s%s", ep->place.device, len,
			writable ? "" : " to read", strerror(-ret),
			ret == -ENOMEM ? " (limit on locked memory? ulimit -l)" : "");
		return ret;
	}
	region->lkey = mr->mr->lkey;
	region->rkey = mr->mr->rkey;
	region->va = (uintptr_t)addr;
	region->priv = mr;
	return 0;
}

/* A request may end before its results are there, with an error that is the communicator's
 * end. The device must not write to memory that is the caller's again. */
static void stop_writes(struct verbs_endpoint *ep, const struct inccl_region *region)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	uint64_t m;

	for (m = ep->base.completed; m < ep->base.posted; m++)
		if (ep->slot[m & ep->slot_mask].recv_region == region) {
			ibv_modify_qp(ep->qp, &attr, IBV_QP_STATE);
			verbs_fail(ep, ECANCELED, "verbs: message %llu was given up",
				   (unsigned long long)m);
			return;
		}
}

void verbs_unmap(struct inccl_endpoint *base, struct inccl_region *region)
{
	struct verbs_endpoint *ep = verbs_ep(base);

	if (!region->priv)
		return;
	stop_writes(ep, region);
	verbs_mr_put(&ep->cache, region->priv);
	region->priv = NULL;
}
