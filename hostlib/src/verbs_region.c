/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Registered memory and its cache.
 *
 * Policy: a registration may outlive its request only while the kernel tells us what happens to
 * its memory (verbs_watch.c). Where it does not (an old kernel, memory of a file, a
 * mapping that another userfaultfd has), every request registers anew. A look-up is a hit only
 * if the entry is not stale and no change is on its way; so a buffer that was freed and
 * allocated again at the same address is registered again.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "hostlib/src/verbs.h"

static bool covers(const struct verbs_mr *mr, uintptr_t start, uintptr_t end, bool writable)
{
	return mr->start <= start && mr->end >= end && (mr->writable || !writable);
}

static void release(struct verbs_mr *mr)
{
	if (mr->mr)
		ibv_dereg_mr(mr->mr);
	free(mr);
}

/* Takes entry i out of the table. */
static struct verbs_mr *take(struct verbs_cache *cache, unsigned int i)
{
	struct verbs_mr *mr = cache->entry[i];

	cache->entry[i] = cache->entry[--cache->entries];
	cache->bytes -= mr->end - mr->start;
	mr->cached = false;
	return mr;
}

/*
 * Drops what nobody uses and is stale, or lies inside `inside`, or, until `room` bytes
 * and an entry are free, was used longest ago. Deregisters without the lock.
 */
static void drop(struct verbs_cache *cache, const struct verbs_mr *inside, size_t room)
{
	struct verbs_mr *gone[VERBS_CACHE_ENTRIES], *mr;
	unsigned int i, n = 0, oldest;

	pthread_mutex_lock(&cache->lock);
	for (i = 0; i < cache->entries;) {
		mr = cache->entry[i];
		if (!mr->refs &&
		    (mr->stale || (inside && covers(inside, mr->start, mr->end, mr->writable))))
			gone[n++] = take(cache, i);
		else
			i++;
	}
	while (room && cache->entries && n < VERBS_CACHE_ENTRIES &&
	       (cache->entries == VERBS_CACHE_ENTRIES || cache->bytes + room > cache->max_bytes)) {
		oldest = VERBS_CACHE_ENTRIES;
		for (i = 0; i < cache->entries; i++)
			if (!cache->entry[i]->refs &&
			    (oldest == VERBS_CACHE_ENTRIES ||
			     cache->entry[i]->used < cache->entry[oldest]->used))
				oldest = i;
		if (oldest == VERBS_CACHE_ENTRIES)
			break;
		gone[n++] = take(cache, oldest);
	}
	pthread_mutex_unlock(&cache->lock);
	while (n)
		release(gone[--n]);
}

static struct verbs_mr *find(struct verbs_cache *cache, uintptr_t start, uintptr_t end,
			     bool writable, uint64_t *changes)
{
	struct verbs_mr *mr = NULL;
	unsigned int i;

	pthread_mutex_lock(&cache->lock);
	*changes = cache->changes;
	for (i = 0; i < cache->entries && !mr; i++)
		if (!cache->entry[i]->stale && covers(cache->entry[i], start, end, writable) &&
		    verbs_watch_settled(start))
			mr = cache->entry[i];
	if (mr) {
		mr->refs++;
		mr->used = ++cache->clock;
		cache->hits++;
	} else {
		cache->misses++;
	}
	pthread_mutex_unlock(&cache->lock);
	return mr;
}

/* Puts a new registration in the table, unless something has changed since `changes`. */
static void keep(struct verbs_cache *cache, struct verbs_mr *mr, uint64_t changes)
{
	size_t bytes = mr->end - mr->start;

	if (bytes > cache->max_bytes)
		return;
	drop(cache, mr, bytes);
	pthread_mutex_lock(&cache->lock);
	if (cache->changes == changes && verbs_watch_settled(mr->start) &&
	    cache->entries < VERBS_CACHE_ENTRIES && cache->bytes + bytes <= cache->max_bytes) {
		mr->cached = true;
		mr->used = ++cache->clock;
		cache->entry[cache->entries++] = mr;
		cache->bytes += bytes;
	}
	pthread_mutex_unlock(&cache->lock);
}

static int reg(struct verbs_endpoint *ep, struct verbs_mr *mr)
{
	int access = mr->writable ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE : 0;

	mr->mr = ibv_reg_mr(ep->pd, (void *)mr->start, mr->end - mr->start, access);
	if (!mr->mr && errno == ENOMEM && ep->cache.entries) {
		drop(&ep->cache, NULL, SIZE_MAX / 2); /* what the limit on locked memory lacks */
		mr->mr = ibv_reg_mr(ep->pd, (void *)mr->start, mr->end - mr->start, access);
	}
	return mr->mr ? 0 : -errno;
}

int verbs_map(struct inccl_endpoint *base, void *addr, size_t len, bool writable,
	      struct inccl_region *region)
{
	struct verbs_endpoint *ep = verbs_ep(base);
	uintptr_t mask = sysconf(_SC_PAGESIZE) - 1;
	uintptr_t start = (uintptr_t)addr & ~mask, end = ((uintptr_t)addr + len + mask) & ~mask;
	struct verbs_mr *mr = NULL;
	uint64_t changes = 0;
	bool watched;
	int ret;

	memset(region, 0, sizeof(*region));
	region->addr = addr;
	region->len = len;
	if (!len)
		return 0;
	if (ep->cache.watched)
		mr = find(&ep->cache, start, end, writable, &changes);
	if (!mr) {
		mr = calloc(1, sizeof(*mr));
		if (!mr)
			return -ENOMEM;
		mr->start = start;
		mr->end = end;
		mr->writable = writable;
		mr->refs = 1;
		/* watched before it is pinned, so that no change falls in between */
		watched = ep->cache.watched && !verbs_watch_add(start, end);
		ret = reg(ep, mr);
		if (ret) {
			ep->log(ep->log_ctx, "verbs: %s: register %zu bytes%s: %s%s",
				ep->place.device, len, writable ? "" : " to read", strerror(-ret),
				ret == -ENOMEM ? " (limit on locked memory? ulimit -l)" : "");
			free(mr);
			return ret;
		}
		if (watched)
			keep(&ep->cache, mr, changes);
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
	verbs_mr_put(ep, region->priv);
	region->priv = NULL;
}

void verbs_mr_get(struct verbs_endpoint *ep, struct verbs_mr *mr)
{
	pthread_mutex_lock(&ep->cache.lock);
	mr->refs++;
	pthread_mutex_unlock(&ep->cache.lock);
}

void verbs_mr_put(struct verbs_endpoint *ep, struct verbs_mr *mr)
{
	bool last, stale;

	pthread_mutex_lock(&ep->cache.lock);
	mr->refs--;
	last = !mr->refs && !mr->cached;
	stale = mr->cached && mr->stale;
	pthread_mutex_unlock(&ep->cache.lock);
	if (last)
		release(mr);
	else if (stale)
		drop(&ep->cache, NULL, 0);
}

void verbs_cache_open(struct verbs_endpoint *ep)
{
	struct verbs_cache *cache = &ep->cache;
	int ret;

	pthread_mutex_init(&cache->lock, NULL);
	cache->max_bytes = (size_t)ep->config.cache_mib << 20;
	if (!cache->max_bytes)
		return;
	ret = verbs_watch_join(cache);
	cache->watched = !ret;
	if (ret)
		ep->log(ep->log_ctx,
			"verbs: userfaultfd: %s; buffers are registered for each operation",
			strerror(-ret));
}

/* The queue pair is gone, so nothing is in use any more. */
void verbs_cache_close(struct verbs_endpoint *ep)
{
	struct verbs_cache *cache = &ep->cache;

	if (cache->watched)
		verbs_watch_leave(cache);
	cache->watched = false;
	while (cache->entries)
		release(take(cache, cache->entries - 1));
	pthread_mutex_destroy(&cache->lock);
}
