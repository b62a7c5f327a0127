/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>
#include "lib/base/thread.h"

#define CPU_SETS 8 /* number of sets in a mask, with CPU_SETSIZE CPUs each */

/* The CPUs on which the process might run when this code was loaded. start_mask_bytes 0: these CPUs
 * are not known. */
static cpu_set_t start_mask[CPU_SETS];
static size_t start_mask_bytes;

/* Reads the CPUs of the process at load time. A thread that has pinned itself may load the
 * library late. The main thread then shows better where the process was meant to run, so both
 * masks are joined. */
__attribute__((constructor)) static void remember_start_mask(void)
{
	cpu_set_t main_mask[CPU_SETS];

	if (sched_getaffinity(0, sizeof(start_mask), start_mask) ||
	    sched_getaffinity(getpid(), sizeof(main_mask), main_mask))
		return;
	start_mask_bytes = sizeof(start_mask);
	CPU_OR_S(sizeof(start_mask), start_mask, start_mask, main_mask);
}

unsigned int inc_cpus(void)
{
	return start_mask_bytes ? CPU_COUNT_S(start_mask_bytes, start_mask) : 1;
}

bool inc_cpu_usable(unsigned int cpu)
{
	return start_mask_bytes ? CPU_ISSET_S(cpu, start_mask_bytes, start_mask) : cpu == 0;
}

/* Like pthread_create(), with all signals blocked in the new thread. Returns 0 or a positive
 * errno. */
static int create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
	sigset_t all, old;
	int err;

	sigfillset(&all);
	err = pthread_sigmask(SIG_SETMASK, &all, &old);
	if (err)
		return err;
	err = pthread_create(thread, attr, fn, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return err;
}

/* Sets attributes so that a realtime thread's child is an ordinary thread. Threads under
 * SCHED_BATCH or SCHED_IDLE keep that policy, because leaving SCHED_IDLE takes a privilege. */
static int leave_realtime(pthread_attr_t *attr)
{
	const int policy = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
	const struct sched_param none = {0};
	int err;

	if (policy != SCHED_FIFO && policy != SCHED_RR && policy != SCHED_DEADLINE)
		return 0;
	err = pthread_attr_setinheritsched(attr, PTHREAD_EXPLICIT_SCHED);
	err = err ?: pthread_attr_setschedpolicy(attr, SCHED_OTHER);
	return err ?: pthread_attr_setschedparam(attr, &none);
}

/* Creates the thread on the CPUs of start_mask. That fails if the process's cpuset has changed
 * and shares no CPU with start_mask, or a sandbox forbids it. The thread then runs on the CPUs
 * of the caller. */
static int create_apart(pthread_t *thread, pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
	int err = leave_realtime(attr);

	if (err)
		return err;
	if (start_mask_bytes && !pthread_attr_setaffinity_np(attr, start_mask_bytes, start_mask) &&
	    !create(thread, attr, fn, arg))
		return 0;
	pthread_attr_setaffinity_np(attr, 0, start_mask);
	return create(thread, attr, fn, arg);
}

static int create_sized(pthread_t *thread, bool apart, void *(*fn)(void *), void *arg)
{
	pthread_attr_t attr;
	int err = pthread_attr_init(&attr);

	if (err)
		return -err;
	err = pthread_attr_setstacksize(&attr, INC_THREAD_STACK_BYTES);
	if (!err)
		err = apart ? create_apart(thread, &attr, fn, arg) : create(thread, &attr, fn, arg);
	pthread_attr_destroy(&attr);
	return -err;
}

int inc_thread_create(pthread_t *thread, void *(*fn)(void *), void *arg)
{
	return create_sized(thread, false, fn, arg);
}

int inc_thread_create_apart(pthread_t *thread, void *(*fn)(void *), void *arg)
{
	return create_sized(thread, true, fn, arg);
}

void inc_signal_fd(int fd)
{
	uint64_t one = 1;

	/* write() fails only if the eventfd's counter is full, so the descriptor is readable
	 * already */
	while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

void inc_drain_fd(int fd)
{
	uint64_t count;

	while (read(fd, &count, sizeof(count)) < 0 && errno == EINTR)
		;
}
