/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Registrations kept for reuse (cache.c), and the watch over their memory (watch.c). Neither
 * knows a device: who opens a cache says how to register (region.h does for real ones). Any thread
 * may call; a cache is opened and closed by one, while no other uses it.
 *
 * Locks, in the order in which they may nest:
 *	the watch's life	who joins and leaves; held for milliseconds
 *	a cache's lock		its table and the references
 *	the watch's list	what is watched, and what of it is stale
 * A thread that unmaps watched memory waits, inside the kernel, for the watcher, and the
 * watcher takes the list: whoever holds the list allocates and frees nothing, nor does
 * anything else that could unmap memory.
 */
#ifndef INC_RDMA_CACHE_H
#define INC_RDMA_CACHE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ibv_mr;

/* A piece of watched memory; it lies in its registration. */
struct inc_rdma_range {
	uintptr_t start, end; /* whole pages */
	size_t page;          /* their size: huge pages are watched as a whole */
	/* under the list's lock: */
	struct inc_rdma_range *next;
	bool stale; /* its pages are no longer those that were there */
	bool gone;  /* stale, and the kernel no longer watches it */
};

/*
 * One registration. References: one per region given out, one per send that the device may
 * still read from. Without references it is deregistered, or stays in the cache as long as
 * its memory is known to be the same.
 */
struct inc_rdma_mr {
	struct ibv_mr *mr;
	struct inc_rdma_range range;
	unsigned int access; /* IBV_ACCESS_*: what the device may do to it, besides reading */
	bool watched;        /* the range is in the watch's list */
	/* under the cache's lock: */
	bool cached; /* in the table */
	unsigned int refs;
	uint64_t used; /* clock of the last look-up */
};

struct inc_rdma_cache_ops {
	int (*reg)(void *pd, struct inc_rdma_mr *mr); /* sets mr->mr for mr->range; 0 or -errno */
	void (*dereg)(struct inc_rdma_mr *mr);
};

#define INC_RDMA_CACHE_ENTRIES 128

struct inc_rdma_cache {
	const struct inc_rdma_cache_ops *ops;
	void *pd;
	bool watched; /* false: nothing is kept */
	pthread_mutex_t lock;
	struct inc_rdma_mr *entry[INC_RDMA_CACHE_ENTRIES];
	unsigned int entries;
	size_t bytes, max_bytes;
	uint64_t clock;
	uint64_t hits, misses;
	uint64_t marks;              /* of the watch, when stale entries were last dropped */
	struct inc_rdma_cache *next; /* of those that joined, under the watch's life */
};

/* 0, or -errno where memory cannot be watched: the cache then works and keeps nothing. */
int inc_rdma_cache_open(struct inc_rdma_cache *cache, const struct inc_rdma_cache_ops *ops,
			void *pd, size_t max_bytes);
/* Nothing may be in use any more. */
void inc_rdma_cache_close(struct inc_rdma_cache *cache);

/* A registration that covers addr[0..len) (len not 0) and allows the access, with one reference
 * for the caller. -errno as of ops->reg, or -ENOMEM. */
int inc_rdma_cache_get(struct inc_rdma_cache *cache, const void *addr, size_t len,
		       unsigned int access, struct inc_rdma_mr **out);
void inc_rdma_mr_get(struct inc_rdma_cache *cache, struct inc_rdma_mr *mr); /* one more */
void inc_rdma_mr_put(struct inc_rdma_cache *cache, struct inc_rdma_mr *mr);

int inc_rdma_watch_join(struct inc_rdma_cache *cache); /* -errno: the kernel does not tell */
void inc_rdma_watch_leave(struct inc_rdma_cache *cache);
/* Calls fn for every cache that joined; none of them leaves meanwhile. */
void inc_rdma_watch_each(void (*fn)(struct inc_rdma_cache *cache));

/* Before the memory is pinned, so that no change falls in between. Widens the range to whole
 * huge pages. -errno: what happens to this memory is not told. */
int inc_rdma_watch_add(struct inc_rdma_range *range);
void inc_rdma_watch_remove(struct inc_rdma_range *range);
/* True if the range still has the pages that it had when it was added. */
bool inc_rdma_watch_fresh(struct inc_rdma_range *range);
/* True once the watcher was told that it has not. */
bool inc_rdma_watch_stale(const struct inc_rdma_range *range);
/* How often that came to be true, of any range. */
uint64_t inc_rdma_watch_marks(void);

#endif
