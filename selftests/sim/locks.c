// SPDX-License-Identifier: BSD-2-Clause
/*
 * Locks and conditions between tasks, and calls that identify threads and processes. The linker
 * (--wrap) replaces the C library's functions with these. The product calls them in tasks. It also
 * calls them outside of tasks, where no other thread can hold a lock.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "sim.h"
#include "task.h"

struct lock {
	bool held;
};
_Static_assert(sizeof(struct lock) <= sizeof(pthread_mutex_t), "a lock stands in a mutex");

int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr);
int __wrap_pthread_mutex_destroy(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attr);
int __wrap_pthread_cond_destroy(pthread_cond_t *cond);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
				  const struct timespec *until);
int __wrap_pthread_cond_broadcast(pthread_cond_t *cond);
int __wrap_pthread_cond_signal(pthread_cond_t *cond);
pthread_t __wrap_pthread_self(void);
pid_t __wrap_getpid(void);
int __wrap_gethostname(char *out, size_t size);

int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr)
{
	memset(mutex, 0, sizeof(*mutex));
	return 0;
}

int __wrap_pthread_mutex_destroy(pthread_mutex_t *mutex)
{
	sim_require(!((struct lock *)mutex)->held, "a lock that is held ends");
	return 0;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
	struct lock *lock = (struct lock *)mutex;

	while (lock->held) {
		sim_require(task_self(), "a lock is held by what does not run");
		task_wait_for(lock, UINT64_MAX);
	}
	lock->held = true;
	return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	struct lock *lock = (struct lock *)mutex;

	sim_require(lock->held, "a lock is let go that is not held");
	lock->held = false;
	task_wake_all(lock);
	return 0;
}

int __wrap_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attr)
{
	return 0;
}

int __wrap_pthread_cond_destroy(pthread_cond_t *cond)
{
	return 0;
}

static int wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t until_ns)
{
	__wrap_pthread_mutex_unlock(mutex);
	task_wait_for(cond, until_ns);
	__wrap_pthread_mutex_lock(mutex);
	return sim_now_ns() >= until_ns ? ETIMEDOUT : 0;
}

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	return wait_until(cond, mutex, UINT64_MAX);
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
				  const struct timespec *until)
{
	return wait_until(cond, mutex, until->tv_sec * INC_NSEC_PER_SEC + until->tv_nsec);
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *cond)
{
	task_wake_all(cond);
	return 0;
}

/* Wakes all waiters, which the C library may do as well. */
int __wrap_pthread_cond_signal(pthread_cond_t *cond)
{
	return __wrap_pthread_cond_broadcast(cond);
}

pthread_t __wrap_pthread_self(void)
{
	return (pthread_t)task_self();
}

pid_t __wrap_getpid(void)
{
	return 1;
}

int __wrap_gethostname(char *out, size_t size)
{
	snprintf(out, size, "%s", task_process()->name);
	return 0;
}
