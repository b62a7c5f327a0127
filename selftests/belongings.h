/* SPDX-License-Identifier: BSD-2-Clause */
/* Helpers for tests that count this process's descriptors, to find leaks, and that check which
 * scheduling policy and CPUs its threads have inherited. */
#ifndef SELFTESTS_BELONGINGS_H
#define SELFTESTS_BELONGINGS_H

#include <dirent.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

/* The number of open descriptors of this process. Tests compare two such numbers. */
static inline unsigned int open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int n = 0;

	if (!dir)
		abort();
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* Makes the calling thread run under SCHED_FIFO, as far as the machine allows that, on one of the
 * CPUs on which it could run. Returns the earlier set of CPUs. */
static inline cpu_set_t become_busy(void)
{
	const struct sched_param first = {.sched_priority = 10};
	cpu_set_t before, one;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	if (sched_getaffinity(0, sizeof(before), &before) ||
	    sched_setaffinity(0, sizeof(one), &one))
		abort();
	sched_setscheduler(0, SCHED_FIFO, &first);
	return before;
}

/* Restores the calling thread's policy and CPUs. Returns the number of other threads of this
 * process. Sets *inherit if one of them has the policy or the CPUs of a busy thread. */
static inline unsigned int become_idle(const cpu_set_t *before, bool *inherit)
{
	const struct sched_param none = {0};
	DIR *dir = opendir("/proc/self/task");
	struct dirent *task;
	unsigned int n = 0;
	cpu_set_t mask;
	pid_t tid;

	if (!dir)
		abort();
	while ((task = readdir(dir))) {
		tid = atoi(task->d_name);
		/* a thread may have ended since it was listed */
		if (!tid || tid == gettid() || sched_getaffinity(tid, sizeof(mask), &mask))
			continue;
		*inherit |= !CPU_EQUAL(&mask, before) || sched_getscheduler(tid) == SCHED_FIFO;
		n++;
	}
	closedir(dir);
	sched_setscheduler(0, SCHED_OTHER, &none);
	sched_setaffinity(0, sizeof(*before), before);
	return n;
}

#endif
