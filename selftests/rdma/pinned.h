/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Helpers for tests of the registration cache, with a fake RDMA device. A registration splices the
 * pages into a pipe, which really pins them. A "read by DMA" reads the pipe. So a stale
 * registration shows other data than the program has at that address.
 */
#ifndef SELFTESTS_PINNED_H
#define SELFTESTS_PINNED_H

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include "lib/rdma/cache.h"

#define PAGE 4096ul
#define LEN  (4 * PAGE)

/* The fake of a protection domain: a limit on pinned memory, which all its users share. */
struct domain {
	pthread_mutex_t lock;
	size_t pinned, limit; /* pinned bytes and their limit; limit 0: no limit */
};

extern struct domain unlimited;
extern const struct inc_rdma_cache_ops pinned_memory;

/*
 * Moves the cache's watcher thread to the caller's CPU, and sets its policy and priority, as far as
 * permitted. The library prevents the watcher from inheriting these. All threads except the caller
 * are taken for the watcher. Returns their number.
 */
static inline unsigned int move_watcher(int policy, int priority)
{
	const struct sched_param param = {.sched_priority = priority};
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *task;
	unsigned int n = 0;
	cpu_set_t set;
	pid_t tid;

	CPU_ZERO(&set);
	CPU_SET(sched_getcpu(), &set);
	while (tasks && (task = readdir(tasks))) {
		tid = atoi(task->d_name);
		if (!tid || tid == gettid())
			continue;
		sched_setaffinity(tid, sizeof(set), &set);
		sched_setscheduler(tid, policy, &param);
		n++;
	}
	if (tasks)
		closedir(tasks);
	return n;
}

/* Opens a cache. Skips the test if this machine cannot watch memory. */
void open_cache(struct inc_rdma_cache *cache, struct domain *domain);
uint8_t *map_at(void *at, size_t len);
void fill(uint8_t *p, size_t len, uint64_t word);
/* Uses a buffer as a request does: fills it and registers it. Returns the number of pages in which
 * the device sees another word than the program. */
unsigned int use(struct inc_rdma_cache *cache, uint8_t *p, size_t len, uint64_t word);
/* Runs fn in a child process. Returns its exit code, or 128 + the signal that ended it. */
int in_child(int (*fn)(void *), void *arg);
/* The number of mappings that a userfaultfd watches for writes ("uw" in /proc). */
unsigned int watched_mappings(void);

/* A way in which a program can replace the pages at p[0..LEN), completely or in part. */
struct way {
	const char *name;
	void (*lose)(uint8_t *p);
};
#define WAYS 10
extern const struct way ways[WAYS];
void by_mapping_over(uint8_t *p);
void by_moving_pages_away(uint8_t *p);

#endif
