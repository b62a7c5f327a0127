/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include "userspace/term/pool.h"

#define LINE_BYTES 64
/* Number of bytes of a pool that have memory from the start, which is as much as a usual window
 * needs. Otherwise the kernel would make a huge page when a worker first writes to it. That takes
 * milliseconds, in which the worker does nothing else. */
#define READY_BYTES (8 << 20)

struct inc_term_pool {
	uint8_t *memory;
	size_t bytes;
	uint32_t n, n_free;
	void *free[];
};

/* Returns the distance between the starts of two buffers, which is an odd number of cache lines. If
 * it were a power of two, the same elements of all buffers would share few sets of a cache. The
 * sources of a reduction would then evict each other. */
static size_t stride_of(uint32_t bytes)
{
	return ((bytes + LINE_BYTES - 1) / LINE_BYTES | 1) * LINE_BYTES;
}

size_t inc_term_pool_bytes(uint32_t n, uint32_t bytes)
{
	return n * stride_of(bytes);
}

int inc_term_pool_new(uint32_t n, uint32_t bytes, struct inc_term_pool **out, struct inc_err *err)
{
	struct inc_term_pool *p = malloc(sizeof(*p) + n * sizeof(p->free[0]));
	uint32_t i;

	if (!p)
		goto none;
	p->bytes = inc_term_pool_bytes(n, bytes);
	p->memory =
		mmap(NULL, p->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p->memory == MAP_FAILED) {
		free(p);
		goto none;
	}
	madvise(p->memory, p->bytes,
		/* use huge pages if the kernel has them, because they cause fewer TLB misses */
		MADV_HUGEPAGE);
	p->n = p->n_free = n;
	/* allocate the first part of the memory now; if that fails, the kernel allocates it when it
	 * is first written */
	madvise(p->memory, p->bytes < READY_BYTES ? p->bytes : READY_BYTES, MADV_POPULATE_WRITE);
	for (i = 0; i < n; i++)
		p->free[i] = p->memory + i * stride_of(bytes);
	*out = p;
	return 0;

none:
	return inc_err_set(err, ENOMEM, "no memory for %u buffers of %u bytes", n, bytes);
}

void inc_term_pool_free(struct inc_term_pool *p)
{
	if (!p)
		return;
	munmap(p->memory, p->bytes);
	free(p);
}

void *inc_term_pool_take(struct inc_term_pool *p)
{
	return p->n_free ? p->free[--p->n_free] : NULL;
}

void inc_term_pool_put(struct inc_term_pool *p, void *buffer)
{
	p->free[p->n_free++] = buffer;
}

uint32_t inc_term_pool_taken(const struct inc_term_pool *p)
{
	return p->n - p->n_free;
}

void *inc_term_pool_memory(const struct inc_term_pool *p, size_t *bytes)
{
	*bytes = p->bytes;
	return p->memory;
}
