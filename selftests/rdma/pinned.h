/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the tests of the registration cache share. What takes an RDMA device's place pins pages
 * for real: a registration splices them into a pipe, and to "read by DMA" is to look
 * into the pipe. So a stale registration shows as other data than the program has at that
 * address.
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

/* What a protection domain is here: a limit on pinned memory, shared by all that point to it. */
struct domain {
	pthread_mutex_t lock;
	size_t pinned, limit; /* bytes; limit 0: none */
};

extern struct domain unlimited;
extern const struct inc_rdma_cache_ops pinned_memory;

/*
 * Moves the watcher to the caller's CPU and gives it this policy and priority, as far as the
 * process may. The library itself lets the watcher inherit neither. How many threads there are
 * beside the caller's, which are all taken for the watcher.
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

/* Skips the test where memory cannot be watched. */
void open_cache(struct inc_rdma_cache *cache, struct domain *domain);
uint8_t *map_at(void *at, size_t len);
void fill(uint8_t *p, size_t len, uint64_t word);
/* One operation, what a request does with its buffer: fills it and has it registered. Returns
 * the pages in which the device sees another word than the program. */
unsigned int use(struct inc_rdma_cache *cache, uint8_t *p, size_t len, uint64_t word);
/* Runs fn in a child; its exit code, or 128 + the signal that ended it. */
int in_child(int (*fn)(void *), void *arg);
/* Mappings that /proc says a userfaultfd watches for writes ("uw"). */
unsigned int watched_mappings(void);

/* Each leaves other pages at p[0..LEN), in whole or in part. */
struct way {
	const char *name;
	void (*lose)(uint8_t *p);
};
#define WAYS 10
extern const struct way ways[WAYS];
void by_mapping_over(uint8_t *p);
void by_moving_pages_away(uint8_t *p);

#endif
