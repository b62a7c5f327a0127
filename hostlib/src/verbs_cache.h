/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Registrations kept for reuse (verbs_cache.c), and the watch over their memory
 * (verbs_watch.c). Neither knows a device: who opens a cache says how to register.
 *
 * Locks, in the order in which they may nest:
 *	the watch's life	who joins and leaves; held for milliseconds
 *	a cache's lock		its table and the references
 *	the watch's list	what is watched, and what of it is stale
 * A thread that unmaps watched memory waits, inside the kernel, for the watcher, and the
 * watcher takes the list: whoever holds the list allocates and frees nothing, nor does
 * anything else that could unmap memory.
 */
#ifndef INCCL_VERBS_CACHE_H
#define INCCL_VERBS_CACHE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ibv_mr;

/* A piece of watched memory; it lies in its registration. */
struct verbs_range {
	uintptr_t start, end; /* whole pages */
	size_t page;          /* their size: huge pages are watched as a whole */
	/* under the list's lock: */
	struct verbs_range *next;
	bool stale; /* its pages are no longer those that were there */
	bool gone;  /* stale, and the kernel no longer watches it */
};

/*
 * One registration. References: one per region given out, one per send that the device may
 * still read from. Without references it is deregistered, or stays in the cache as long as
 * its memory is known to be the same.
 */
struct verbs_mr {
	struct ibv_mr *mr;
	struct verbs_range range;
	bool writable;
	bool watched; /* the range is in the watch's list */
	/* under the cache's lock: */
	bool cached; /* in the table */
	unsigned int refs;
	uint64_t used; /* clock of the last look-up */
};

struct verbs_cache_ops {
	int (*reg)(void *pd, struct verbs_mr *mr); /* sets mr->mr for mr->range; 0 or -errno */
	void (*dereg)(struct verbs_mr *mr);
};

#define VERBS_CACHE_ENTRIES 128

struct verbs_cache {
	const struct verbs_cache_ops *ops;
	void *pd;
	bool watched; /* false: nothing is kept */
	pthread_mutex_t lock;
	struct verbs_mr *entry[VERBS_CACHE_ENTRIES];
	unsigned int entries;
	size_t bytes, max_bytes;
	uint64_t clock;
	uint64_t hits, misses;
	uint64_t marks;           /* of the watch, when stale entries were last dropped */
	struct verbs_cache *next; /* of those that joined, under the watch's life */
};

/* 0, or -errno where memory cannot be watched: the cache then works and keeps nothing. */
int verbs_cache_open(struct verbs_cache *cache, const struct verbs_cache_ops *ops, void *pd,
		     size_t max_bytes);
/* Nothing may be in use any more. */
void verbs_cache_close(struct verbs_cache *cache);

/* A registration that covers addr[0..len), with one reference for the caller. -errno. */
int verbs_cache_get(struct verbs_cache *cache, const void *addr, size_t len, bool writable,
		    struct verbs_mr **out);
void verbs_mr_get(struct verbs_cache *cache, struct verbs_mr *mr); /* one more */
void verbs_mr_put(struct verbs_cache *cache, struct verbs_mr *mr);

int verbs_watch_join(struct verbs_cache *cache); /* -errno: the kernel does not tell */
void verbs_watch_leave(struct verbs_cache *cache);
/* Calls fn for every cache that joined; none of them leaves meanwhile. */
void verbs_watch_each(void (*fn)(struct verbs_cache *cache));

/* Before the memory is pinned, so that no change falls in between. Widens the range to whole
 * huge pages. -errno: what happens to this memory is not told. */
int verbs_watch_add(struct verbs_range *range);
void verbs_watch_remove(struct verbs_range *range);
/* True if the range still has the pages that it had when it was added. */
bool verbs_watch_fresh(struct verbs_range *range);
/* True once the watcher was told that it has not. */
bool verbs_watch_stale(const struct verbs_range *range);
/* How often that came to be true, of any range. */
uint64_t verbs_watch_marks(void);

#endif
