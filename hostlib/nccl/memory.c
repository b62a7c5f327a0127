/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/nccl/abi.h"
#include "hostlib/nccl/memory.h"

/* Limit of the bytes that a device's cache keeps registered, in use or not. */
#define CACHE_BYTES (1ul << 30)

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

struct device_cache {
	struct inc_rdma_device *device; /* RDMA device of the cache, with a counted reference */
	struct inc_rdma_cache cache;
	struct device_cache *next;
};

struct ha_caches {
	pthread_mutex_t lock; /* protects the list of caches; each cache has a lock of its own */
	struct device_cache *first;
};

int ha_caches_open(struct ha_caches **out, struct inc_err *err)
{
	struct ha_caches *caches = calloc(1, sizeof(*caches));

	if (!caches)
		return inc_err_set(err, ENOMEM, "registrations: %s", strerror(ENOMEM));
	pthread_mutex_init(&caches->lock, NULL);
	*out = caches;
	return 0;
}

void ha_caches_close(struct ha_caches *caches)
{
	struct device_cache *c;

	if (!caches)
		return;
	while ((c = caches->first)) {
		caches->first = c->next;
		inc_rdma_cache_close(&c->cache);
		inc_rdma_device_put(c->device);
		free(c);
	}
	pthread_mutex_destroy(&caches->lock);
	free(caches);
}

/* Finds the registration cache of the device, and makes it if there is none. Returns NULL if there
 * is no memory. */
static struct inc_rdma_cache *cache_of(struct ha_caches *caches, struct inc_rdma_device *device)
{
	struct device_cache *c;

	pthread_mutex_lock(&caches->lock);
	for (c = caches->first; c && c->device != device; c = c->next)
		;
	if (!c)
		c = calloc(1, sizeof(*c));
	if (c && !c->device) {
		c->device = inc_rdma_device_ref(device);
		/* Without reports of unmapped memory from the kernel, the cache keeps nothing, and
		 * each region is registered anew. */
		inc_rdma_regions_open(&c->cache, device->pd, CACHE_BYTES);
		c->next = caches->first;
		caches->first = c;
	}
	pthread_mutex_unlock(&caches->lock);
	return c ? &c->cache : NULL;
}

static int register_host(struct ha_region *region, struct ha_caches *caches,
			 struct inc_rdma_device *device, unsigned int rail)
{
	struct inc_rdma_cache *cache = cache_of(caches, device);
	int ret;

	if (!cache)
		return -ENOMEM;
	/* an empty region registers one byte, so that it has keys */
	ret = inc_rdma_cache_get(cache, region->address, region->bytes ?: 1, ACCESS,
				 &region->mr[rail]);
	if (!ret)
		region->cache[rail] = cache;
	return ret;
}

/* Registers GPU memory: by dma-buf if NCCL has passed a descriptor, else through a kernel module
 * that maps GPU pages (nv_peer_mem). Without such a module the address is invalid (EFAULT). */
static int register_gpu(struct ha_region *region, struct inc_rdma_device *device, unsigned int rail)
{
	if (region->dmabuf_fd >= 0)
		region->own[rail] =
			ibv_reg_dmabuf_mr(device->pd, region->dmabuf_offset, region->bytes,
					  (uintptr_t)region->address, region->dmabuf_fd, ACCESS);
	else
		region->own[rail] = ibv_reg_mr(device->pd, region->address, region->bytes, ACCESS);
	if (region->own[rail])
		return 0;
	return errno == EFAULT ? -EOPNOTSUPP : -errno;
}

int ha_region_register(struct ha_region *region, struct ha_caches *caches,
		       const struct ha_rail *rails, unsigned int rail, struct inc_err *err)
{
	struct inc_rdma_device *device = rails[rail].device;
	int ret;

	/* an interface needs no registration, because the kernel accesses any memory */
	if (!device || region->mr[rail] || region->own[rail])
		return 0;
	if (region->type == HA_NCCL_PTR_HOST && region->dmabuf_fd < 0)
		ret = register_host(region, caches, device, rail);
	else
		ret = register_gpu(region, device, rail);
	return ret ? inc_rdma_region_error(err, device->name, region->bytes, ACCESS, ret) : 0;
}

void ha_region_release(struct ha_region *region)
{
	unsigned int i;

	for (i = 0; i < HA_RAILS; i++) {
		if (region->mr[i])
			inc_rdma_mr_put(region->cache[i], region->mr[i]);
		if (region->own[i])
			ibv_dereg_mr(region->own[i]);
		region->mr[i] = NULL;
		region->own[i] = NULL;
	}
}

static const struct ibv_mr *mr_of(const struct ha_region *region, unsigned int rail)
{
	return region->mr[rail] ? region->mr[rail]->mr : region->own[rail];
}

uint32_t ha_region_lkey(const struct ha_region *region, unsigned int rail)
{
	const struct ibv_mr *mr = mr_of(region, rail);

	return mr ? mr->lkey : 0;
}

uint32_t ha_region_rkey(const struct ha_region *region, unsigned int rail)
{
	const struct ibv_mr *mr = mr_of(region, rail);

	return mr ? mr->rkey : 0;
}
