/* SPDX-License-Identifier: BSD-2-Clause */
/* Helpers for tests of the registration cache, whose registrations are fakes
 * (selftests/fakes/registration.h). */
#ifndef SELFTESTS_RDMA_HARNESS_CACHE_H
#define SELFTESTS_RDMA_HARNESS_CACHE_H

#include <dirent.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include "lib/rdma/cache.h"
#include "selftests/fakes/registration.h"

#define PAGE 4096ul
#define LEN  FAKE_REGISTRATION_BYTES

extern struct fake_domain unlimited;

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
void open_cache(struct inc_rdma_cache *cache, struct fake_domain *domain);
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
