/* SPDX-License-Identifier: BSD-2-Clause */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "hostlib/nccl/memory.h"

/* Limit of the bytes that a device's cache keeps registered, in use or not. */
#define CACHE_BYTES (1ul << 30)

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
/* The flush of GPU memory is an RDMA READ of it. The access does not allow relaxed ordering,
 * because such writes may be overtaken by a READ. */
#define GPU_ACCESS (ACCESS | IBV_ACCESS_REMOTE_READ)

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
 * that maps GPU pages (nvidia-peermem). Without such a module the address is invalid (EFAULT). */
static int register_gpu(struct ha_region *region, struct inc_rdma_device *device, unsigned int rail)
{
	const int access = ha_region_is_gpu(region) ? GPU_ACCESS : ACCESS;

	if (region->dmabuf_fd >= 0)
		region->own[rail] =
			ibv_reg_dmabuf_mr(device->pd, region->dmabuf_offset, region->bytes,
					  (uintptr_t)region->address, region->dmabuf_fd, access);
	else
		region->own[rail] = ibv_reg_mr(device->pd, region->address, region->bytes, access);
	if (region->own[rail])
		return 0;
	return errno == EFAULT ? -EOPNOTSUPP : -errno;
}

static int explain(const struct ha_region *region, const char *device, int ret, struct inc_err *err)
{
	const bool dma_buf = region->dmabuf_fd >= 0;

	if (!ret || !ha_region_is_gpu(region))
		return ret ? inc_rdma_region_error(err, device, region->bytes, ACCESS, ret) : 0;
	return inc_err_set(err, -ret, "%s: register %zu bytes of GPU memory by %s: %s%s", device,
			   region->bytes, dma_buf ? "dma-buf" : "address", strerror(-ret),
			   ret != -EOPNOTSUPP ? ""
			   : dma_buf          ? " (the device's driver imports none)"
					      : " (modprobe nvidia-peermem)");
}

int ha_region_register(struct ha_region *region, struct ha_caches *caches,
		       const struct ha_rail *rails, unsigned int rail, struct inc_err *err)
{
	struct inc_rdma_device *device = rails[rail].device;
	int ret;

	if (!device && ha_region_is_gpu(region))
		return inc_err_set(err, EOPNOTSUPP, "%s: only an RDMA device accesses GPU memory",
				   ha_rail_name(&rails[rail]));
	/* an interface needs no registration, because the kernel accesses any host memory */
	if (!device || region->mr[rail] || region->own[rail])
		return 0;
	if (region->type == HA_NCCL_PTR_HOST && region->dmabuf_fd < 0)
		ret = register_host(region, caches, device, rail);
	else
		ret = register_gpu(region, device, rail);
	return explain(region, device->name, ret, err);
}

void ha_region_release(struct ha_region *region)
{
	unsigned int rail;

	for (rail = 0; rail < HA_RAILS; rail++) {
		if (region->mr[rail])
			inc_rdma_mr_put(region->cache[rail], region->mr[rail]);
		if (region->own[rail])
			ibv_dereg_mr(region->own[rail]);
		region->mr[rail] = NULL;
		region->own[rail] = NULL;
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

/* ---- the trial with GPU memory --------------------------------------------------------------- */

/* As many bytes as a large page of a GPU, so that address and size are multiples of host pages. */
#define TRIAL_BYTES (2ul << 20)
#define DMA_BUF_FD  1 /* CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD of CUDA */
#define RELAXED     2 /* CU_STREAM_CAPTURE_MODE_RELAXED of CUDA */

/* Functions of CUDA's driver library. A device pointer is an integer of 64 bits, and the result 0
 * means success. */
struct cuda {
	void *library;
	int (*get_context)(void **context);
	int (*allocate)(uint64_t *address, size_t bytes);
	int (*release)(uint64_t address);
	/* NULL: the driver is older than 11.7 and has no dma-bufs */
	int (*get_handle)(int *fd, uint64_t address, size_t bytes, int type, uint64_t flags);
	/* NULL: the driver is older than 10.1. Sets the mode, and returns the previous one in it.
	 */
	int (*exchange_mode)(int *mode);
};

static int find_cuda(struct cuda *cuda, struct inc_err *why)
{
	void *context = NULL;

	cuda->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	if (!cuda->library)
		return inc_err_set(why, ENOENT, "this process has not loaded CUDA");
	cuda->get_context = dlsym(cuda->library, "cuCtxGetCurrent");
	cuda->allocate = dlsym(cuda->library, "cuMemAlloc_v2");
	cuda->release = dlsym(cuda->library, "cuMemFree_v2");
	cuda->get_handle = dlsym(cuda->library, "cuMemGetHandleForAddressRange");
	cuda->exchange_mode = dlsym(cuda->library, "cuThreadExchangeStreamCaptureMode");
	if (!cuda->get_context || !cuda->allocate || !cuda->release)
		return inc_err_set(why, ENOSYS, "libcuda.so.1 lacks functions");
	if (cuda->get_context(&context) || !context)
		return inc_err_set(why, ENODEV, "the thread that has called init uses no GPU");
	return 0;
}

/* Whether the devices of all rails can register the memory, by its dma-buf or, if fd is -1, by its
 * address. */
static bool can_register(const struct ha_device *device, void *address, int fd)
{
	struct ha_region region = {.address = address,
				   .bytes = TRIAL_BYTES,
				   .type = HA_NCCL_PTR_CUDA,
				   .dmabuf_fd = fd};
	unsigned int rail;
	int ret = 0;

	for (rail = 0; rail < HA_RAILS && !ret; rail++)
		if (device->rail[rail].device)
			ret = register_gpu(&region, device->rail[rail].device, rail);
	ha_region_release(&region);
	return device->rail[0].device && !ret;
}

/* Lets the thread allocate memory although a stream of it may record a graph: such calls would
 * otherwise fail and spoil the graph. A second call with the same mode restores the previous one.
 */
static void exchange_mode(const struct cuda *cuda, int *mode)
{
	if (cuda->exchange_mode && cuda->exchange_mode(mode))
		*mode = RELAXED;
}

static int allocate(const struct cuda *cuda, uint64_t *address, struct inc_err *why)
{
	const int ret = cuda->allocate(address, TRIAL_BYTES);

	if (!ret)
		return 0;
	*address = 0;
	return inc_err_set(
		why, ENOMEM,
		"cuMemAlloc of %lu bytes has failed with CUDA's error %d, so NCCL copies "
		"through the host; free memory of the GPU before NCCL starts",
		TRIAL_BYTES, ret);
}

int ha_memory_try(struct ha_devices *devices, struct inc_err *why)
{
	struct cuda cuda = {0};
	uint64_t address = 0;
	int fd = -1, mode = RELAXED, ret = find_cuda(&cuda, why);
	struct ha_device *device = devices->device;

	if (!ret)
		exchange_mode(&cuda, &mode);
	if (!ret)
		ret = allocate(&cuda, &address, why);
	if (!ret && cuda.get_handle && cuda.get_handle(&fd, address, TRIAL_BYTES, DMA_BUF_FD, 0))
		fd = -1;
	for (; !ret && device < devices->device + devices->n; device++) {
		device->peer_memory = can_register(device, (void *)(uintptr_t)address, -1);
		device->dma_buf = fd >= 0 && can_register(device, (void *)(uintptr_t)address, fd);
	}
	if (fd >= 0)
		close(fd);
	if (address)
		cuda.release(address);
	if (mode != RELAXED)
		exchange_mode(&cuda, &mode);
	if (cuda.library)
		dlclose(cuda.library);
	return ret;
}
