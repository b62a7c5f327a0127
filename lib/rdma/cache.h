/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory registrations that are cached for reuse (cache.c), and the watch over their memory
 * (watch.c). Neither uses a device directly: the owner of a cache passes functions that register
 * (region.h has those for real devices). Any thread may call. One thread opens or closes a cache,
 * while no other uses it.
 *
 * Locks, in the order in which they may nest: (1) the watch's life: caches that join and leave;
 * held for milliseconds. (2) A cache's lock: its table and the references. (3) The watch's list:
 * watched memory, and which parts are stale.
 *
 * A thread that unmaps watched memory waits inside the kernel for the watcher, and the watcher
 * takes the list's lock. So a thread that holds that lock must not allocate, free, or do anything
 * else that could unmap memory.
 */
#ifndef INC_RDMA_CACHE_H
#define INC_RDMA_CACHE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ibv_mr;

/* A range of memory that the watch observes; each registration has one. */
struct inc_rdma_range {
	/* first address of the range, and the address behind its last page; both are bounds of
	 * pages */
	uintptr_t start, end;
	size_t page; /* size of the range's pages; a huge page is watched as a whole */
	/* The lock of the watch's list protects the members below. */
	struct inc_rdma_range *next;
	bool stale; /* the pages have been replaced or unmapped */
	bool gone;  /* the range is stale, and the kernel no longer watches it */
};

/*
 * One registration. Each region given to a caller holds a reference, and so does each send that
 * the device may still read from. Without references it is deregistered, or stays in the cache
 * while its memory is known to be unchanged.
 */
struct inc_rdma_mr {
	struct ibv_mr *mr;
	struct inc_rdma_range range;
	unsigned int access; /* IBV_ACCESS_*: the device's rights to the memory besides reading */
	bool watched;        /* the range is in the list of the watch */
	/* The lock of the cache protects the members below. */
	bool cached; /* the registration is in the cache's table */
	unsigned int refs;
	uint64_t used; /* value of the cache's clock when the registration was last looked up */
};

struct inc_rdma_cache_ops {
	/* registers the memory in mr->range and sets mr->mr; returns 0 or -errno */
	int (*reg)(void *pd, struct inc_rdma_mr *mr);
	void (*dereg)(struct inc_rdma_mr *mr);
};

#define INC_RDMA_CACHE_ENTRIES 128

struct inc_rdma_cache {
	const struct inc_rdma_cache_ops *ops;
	void *pd;
	bool watched; /* false: the cache stores nothing */
	pthread_mutex_t lock;
	struct inc_rdma_mr *entry[INC_RDMA_CACHE_ENTRIES];
	unsigned int entries;
	size_t bytes, max_bytes;
	uint64_t clock;
	uint64_t hits, misses;
	/* value of inc_rdma_watch_marks() when the cache last dropped its stale entries */
	uint64_t marks;
	/* next cache in the list of those that have joined the watch; the lock of the watch's life
	 * protects the list */
	struct inc_rdma_cache *next;
};

/* Opens a cache. Returns 0, or -errno if memory cannot be watched. In that case the cache works all
 * the same, but keeps no registration for reuse. */
int inc_rdma_cache_open(struct inc_rdma_cache *cache, const struct inc_rdma_cache_ops *ops,
			void *pd, size_t max_bytes);
/* Closes a cache. None of its registrations may be in use. */
void inc_rdma_cache_close(struct inc_rdma_cache *cache);

/* Returns a registration that covers addr[0..len) (len not 0) and allows the access, with one
 * reference for the caller. On failure it returns -errno of ops->reg, or -ENOMEM. */
int inc_rdma_cache_get(struct inc_rdma_cache *cache, const void *addr, size_t len,
		       unsigned int access, struct inc_rdma_mr **out);
/* Adds a reference to a registration, which inc_rdma_mr_put() releases. */
void inc_rdma_mr_get(struct inc_rdma_cache *cache, struct inc_rdma_mr *mr);
void inc_rdma_mr_put(struct inc_rdma_cache *cache, struct inc_rdma_mr *mr);

/* Joins a cache to the watch, and starts the watch for the first one. Returns -errno if the kernel
 * does not report changes of memory. */
int inc_rdma_watch_join(struct inc_rdma_cache *cache);
void inc_rdma_watch_leave(struct inc_rdma_cache *cache);
/* Calls fn for every cache that has joined. No cache leaves meanwhile. */
void inc_rdma_watch_each(void (*fn)(struct inc_rdma_cache *cache));

/* Adds a range to the watch before its memory is pinned, so that no change is missed. Widens the
 * range to whole huge pages. Returns -errno if the kernel does not report changes of this
 * memory. */
int inc_rdma_watch_add(struct inc_rdma_range *range);
void inc_rdma_watch_remove(struct inc_rdma_range *range);
/* Whether a watched range still has the pages that it had when it was added. False also while a
 * change is being reported. */
bool inc_rdma_watch_fresh(struct inc_rdma_range *range);
/* Whether the kernel has reported a change of the range. */
bool inc_rdma_watch_stale(const struct inc_rdma_range *range);
/* Returns how many ranges of the watch have become stale since the process began. */
uint64_t inc_rdma_watch_marks(void);

#endif
