/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Policy: a registration may outlive its request only while the kernel reports changes of its
 * memory (watch.c). If the kernel does not (it is old, or the memory is shared, of a file, or
 * mapped by another userfaultfd), every request registers anew. A look-up is a hit only if the
 * entry is not stale and no change is being reported. So a buffer that was freed and allocated
 * again at the same address is registered again.
 *
 * Evicted memory is no longer watched, so the kernel splits the program's mappings in at most as
 * many places as the caches have entries.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include "lib/rdma/cache.h"

static bool covers(const struct inc_rdma_mr *mr, uintptr_t start, uintptr_t end,
		   unsigned int access)
{
	return mr->range.start <= start && mr->range.end >= end && !(access & ~mr->access);
}

static size_t bytes_of(const struct inc_rdma_mr *mr)
{
	return mr->range.end - mr->range.start;
}

static void release(struct inc_rdma_cache *cache, struct inc_rdma_mr *mr)
{
	if (mr->watched)
		inc_rdma_watch_remove(&mr->range);
	cache->ops->dereg(mr);
	free(mr);
}

/* Removes entry i from the cache's table and returns its registration. */
static struct inc_rdma_mr *take(struct inc_rdma_cache *cache, unsigned int i)
{
	struct inc_rdma_mr *mr = cache->entry[i];

	cache->entry[i] = cache->entry[--cache->entries];
	cache->bytes -= bytes_of(mr);
	mr->cached = false;
	return mr;
}

static bool full(const struct inc_rdma_cache *cache, size_t room)
{
	return cache->entries == INC_RDMA_CACHE_ENTRIES || room > cache->max_bytes ||
	       cache->bytes > cache->max_bytes - room;
}

/*
 * Drops registrations that are not in use: all that are stale or lie inside the range of `inside`.
 * Then it drops those that were looked up longest ago, until `room` bytes and an entry are free.
 * Deregisters them without the cache's lock.
 */
static void drop(struct inc_rdma_cache *cache, const struct inc_rdma_mr *inside, size_t room)
{
	struct inc_rdma_mr *gone[INC_RDMA_CACHE_ENTRIES], *mr;
	unsigned int i, n = 0, oldest;

	pthread_mutex_lock(&cache->lock);
	for (i = 0; i < cache->entries;) {
		mr = cache->entry[i];
		if (!mr->refs &&
		    (inc_rdma_watch_stale(&mr->range) ||
		     (inside && covers(inside, mr->range.start, mr->range.end, mr->access))))
			gone[n++] = take(cache, i);
		else
			i++;
	}
	while (room && cache->entries && full(cache, room)) {
		oldest = INC_RDMA_CACHE_ENTRIES;
		for (i = 0; i < cache->entries; i++)
			if (!cache->entry[i]->refs &&
			    (oldest == INC_RDMA_CACHE_ENTRIES ||
			     cache->entry[i]->used < cache->entry[oldest]->used))
				oldest = i;
		if (oldest == INC_RDMA_CACHE_ENTRIES)
			break;
		gone[n++] = take(cache, oldest);
	}
	pthread_mutex_unlock(&cache->lock);
	while (n)
		release(cache, gone[--n]);
}

static void drop_idle(struct inc_rdma_cache *cache)
{
	drop(cache, NULL, SIZE_MAX);
}

static struct inc_rdma_mr *find(struct inc_rdma_cache *cache, uintptr_t start, uintptr_t end,
				unsigned int access)
{
	struct inc_rdma_mr *mr = NULL;
	uint64_t marks = inc_rdma_watch_marks();
	unsigned int i;
	bool sweep;

	pthread_mutex_lock(&cache->lock);
	sweep = marks != cache->marks;
	cache->marks = marks;
	for (i = 0; i < cache->entries && !mr; i++)
		if (covers(cache->entry[i], start, end, access) &&
		    inc_rdma_watch_fresh(&cache->entry[i]->range))
			mr = cache->entry[i];
	if (mr) {
		mr->refs++;
		mr->used = ++cache->clock;
		cache->hits++;
	} else {
		cache->misses++;
	}
	pthread_mutex_unlock(&cache->lock);
	if (sweep)
		/* drop stale registrations, because memory that the program has unmapped should not
		 * stay pinned */
		drop(cache, NULL, 0);
	return mr;
}

/* Adds a new registration to the cache's table, unless its memory has changed already. */
static void keep(struct inc_rdma_cache *cache, struct inc_rdma_mr *mr)
{
	size_t bytes = bytes_of(mr);

	if (bytes <= cache->max_bytes) {
		drop(cache, mr, bytes);
		pthread_mutex_lock(&cache->lock);
		if (inc_rdma_watch_fresh(&mr->range) && !full(cache, bytes)) {
			mr->cached = true;
			mr->used = ++cache->clock;
			cache->entry[cache->entries++] = mr;
			cache->bytes += bytes;
		}
		pthread_mutex_unlock(&cache->lock);
	}
	if (!mr->cached) {
		inc_rdma_watch_remove(&mr->range);
		mr->watched = false;
	}
}

/* Registers memory. If the limit on locked memory is reached, drops the unused registrations of
 * this cache, and then those of all caches of this process, and tries again. */
static int reg(struct inc_rdma_cache *cache, struct inc_rdma_mr *mr)
{
	int ret = cache->ops->reg(cache->pd, mr);

	if (ret == -ENOMEM && cache->watched) {
		drop_idle(cache);
		ret = cache->ops->reg(cache->pd, mr);
	}
	if (ret == -ENOMEM) {
		inc_rdma_watch_each(drop_idle);
		ret = cache->ops->reg(cache->pd, mr);
	}
	return ret;
}

int inc_rdma_cache_get(struct inc_rdma_cache *cache, const void *addr, size_t len,
		       unsigned int access, struct inc_rdma_mr **out)
{
	uintptr_t mask = sysconf(_SC_PAGESIZE) - 1;
	uintptr_t start = (uintptr_t)addr & ~mask, end = ((uintptr_t)addr + len + mask) & ~mask;
	struct inc_rdma_mr *mr = NULL;
	int ret;

	if (cache->watched)
		mr = find(cache, start, end, access);
	if (!mr) {
		mr = calloc(1, sizeof(*mr));
		if (!mr)
			return -ENOMEM;
		mr->range = (struct inc_rdma_range){.start = start, .end = end};
		mr->access = access;
		mr->refs = 1;
		mr->watched = cache->watched && !inc_rdma_watch_add(&mr->range);
		ret = reg(cache, mr);
		if (ret) {
			if (mr->watched)
				inc_rdma_watch_remove(&mr->range);
			free(mr);
			return ret;
		}
		if (mr->watched)
			keep(cache, mr);
	}
	*out = mr;
	return 0;
}

void inc_rdma_mr_get(struct inc_rdma_cache *cache, struct inc_rdma_mr *mr)
{
	pthread_mutex_lock(&cache->lock);
	mr->refs++;
	pthread_mutex_unlock(&cache->lock);
}

void inc_rdma_mr_put(struct inc_rdma_cache *cache, struct inc_rdma_mr *mr)
{
	bool last, cached, stale;

	pthread_mutex_lock(&cache->lock);
	last = !--mr->refs;
	cached = mr->cached;
	stale = last && cached && inc_rdma_watch_stale(&mr->range);
	pthread_mutex_unlock(&cache->lock);
	if (last && !cached)
		release(cache, mr);
	else if (stale)
		drop(cache, NULL, 0);
}

int inc_rdma_cache_open(struct inc_rdma_cache *cache, const struct inc_rdma_cache_ops *ops,
			void *pd, size_t max_bytes)
{
	int ret = 0;

	*cache = (struct inc_rdma_cache){.ops = ops, .pd = pd, .max_bytes = max_bytes};
	pthread_mutex_init(&cache->lock, NULL);
	if (max_bytes) {
		ret = inc_rdma_watch_join(cache);
		cache->watched = !ret;
	}
	return ret;
}

void inc_rdma_cache_close(struct inc_rdma_cache *cache)
{
	/* drop entries before the cache leaves the watch, because a thread that unmaps watched
	 * memory waits for the watcher */
	drop_idle(cache);
	if (cache->watched)
		inc_rdma_watch_leave(cache);
	while (cache->entries)
		release(cache, take(cache, cache->entries - 1));
	pthread_mutex_destroy(&cache->lock);
}
