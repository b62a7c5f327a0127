/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>
#include "lib/rdma/region.h"

static int reg(void *pd, struct inc_rdma_mr *mr)
{
	mr->mr = ibv_reg_mr(pd, (void *)mr->range.start, mr->range.end - mr->range.start,
			    mr->access);
	return mr->mr ? 0 : -errno;
}

static void dereg(struct inc_rdma_mr *mr)
{
	ibv_dereg_mr(mr->mr);
}

static const struct inc_rdma_cache_ops device_memory = {.reg = reg, .dereg = dereg};

int inc_rdma_regions_open(struct inc_rdma_cache *cache, struct ibv_pd *pd, size_t max_bytes)
{
	return inc_rdma_cache_open(cache, &device_memory, pd, max_bytes);
}

int inc_rdma_region_error(struct inc_err *err, const char *device, size_t len, unsigned int access,
			  int error)
{
	return inc_err_set(err, -error, "%s: register %zu bytes%s: %s%s", device, len,
			   access ? "" : " to read", strerror(-error),
			   error == -ENOMEM ? " (limit on locked memory? ulimit -l)" : "");
}
