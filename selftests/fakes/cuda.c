/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CUDA's driver library, libcuda.so.1, with the functions that the NCCL plugin calls for its trial.
 * The memory of its GPU is a memfd that is not mapped at its addresses, so a program that accesses
 * them ends. One allocation exists at a time.
 *
 * A test loads this library before it opens the plugin, and finds the functions fake_cuda_*() by
 * dlsym().
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

#define INVALID_VALUE 1 /* CUDA_ERROR_INVALID_VALUE */
#define OUT_OF_MEMORY 2
#define RELAXED       2
#define CAPTURES      900 /* CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED */
#define NOT_SUPPORTED 801

static bool has_context, has_dma_bufs, is_full;
static int mode; /* CU_STREAM_CAPTURE_MODE_GLOBAL, as in each new thread */
/* tells the test where the memory is; without memory the address is NULL */
static void (*declare)(void *addr, size_t bytes, int fd);
static void *memory;
static size_t memory_bytes;
static int memory_fd;

EXPORT void fake_cuda_set(bool context, bool dma_bufs,
			  void (*to)(void *addr, size_t bytes, int fd));
EXPORT void fake_cuda_full(bool full);
EXPORT unsigned int fake_cuda_allocations(void);
EXPORT int fake_cuda_capture_mode(void);
EXPORT int cuThreadExchangeStreamCaptureMode(int *mode);
EXPORT int cuCtxGetCurrent(void **context);
EXPORT int cuMemAlloc_v2(unsigned long long *address, size_t bytes);
EXPORT int cuMemFree_v2(unsigned long long address);
EXPORT int cuMemGetHandleForAddressRange(void *handle, unsigned long long address, size_t bytes,
					 int type, unsigned long long flags);

/* Sets whether the calling thread has a context, and whether memory has dma-bufs. `to` is called
 * with the place of memory that is allocated or freed. */
void fake_cuda_set(bool context, bool dma_bufs, void (*to)(void *addr, size_t bytes, int fd))
{
	has_context = context;
	has_dma_bufs = dma_bufs;
	declare = to;
}

/* Sets whether the GPU has no free memory. */
void fake_cuda_full(bool full)
{
	is_full = full;
}

/* Returns the thread's mode, in which it may not allocate or release memory unless that is
 * RELAXED, because a stream records a graph. */
int fake_cuda_capture_mode(void)
{
	return mode;
}

int cuThreadExchangeStreamCaptureMode(int *to)
{
	const int before = mode;

	mode = *to;
	*to = before;
	return 0;
}

/* Returns how many allocations were not released. */
unsigned int fake_cuda_allocations(void)
{
	return memory != NULL;
}

int cuCtxGetCurrent(void **context)
{
	*context = has_context ? &has_context : NULL;
	return 0;
}

int cuMemAlloc_v2(unsigned long long *address, size_t bytes)
{
	if (!has_context || memory)
		return INVALID_VALUE;
	if (mode != RELAXED)
		return CAPTURES;
	if (is_full)
		return OUT_OF_MEMORY;
	memory = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memory_fd = memfd_create("gpu", MFD_CLOEXEC);
	if (memory == MAP_FAILED || memory_fd < 0 || ftruncate(memory_fd, (off_t)bytes))
		return OUT_OF_MEMORY;
	memory_bytes = bytes;
	*address = (uintptr_t)memory;
	declare(memory, bytes, memory_fd);
	return 0;
}

int cuMemFree_v2(unsigned long long address)
{
	if (!memory || address != (uintptr_t)memory)
		return INVALID_VALUE;
	if (mode != RELAXED)
		return CAPTURES;
	declare(NULL, 0, -1);
	munmap(memory, memory_bytes);
	close(memory_fd);
	memory = NULL;
	return 0;
}

int cuMemGetHandleForAddressRange(void *handle, unsigned long long address, size_t bytes, int type,
				  unsigned long long flags)
{
	if (!has_dma_bufs)
		return NOT_SUPPORTED;
	if (type != 1 || flags || address != (uintptr_t)memory || bytes > memory_bytes)
		return INVALID_VALUE;
	*(int *)handle = dup(memory_fd);
	return 0;
}
