/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads of programs and of libraries, and the eventfds by which one thread wakes another. */
#ifndef INC_THREAD_H
#define INC_THREAD_H

#include <stdbool.h>
#include <pthread.h>

/* The stack of each thread, independent of RLIMIT_STACK, which may be 16 KiB or all of the
 * memory that a process may lock. inccl.h promises this size to the caller's log callback. */
#define INC_THREAD_STACK_BYTES (1u << 20)

/*
 * Like pthread_create(), with every signal blocked in the new thread, because signals are for the
 * program's own threads. Returns 0 or -errno.
 */
int inc_thread_create(pthread_t *thread, void *(*fn)(void *), void *arg);
/*
 * Like inc_thread_create(), for a library, whose functions any thread of the program may call. The
 * new thread does not inherit the caller's scheduling. It is not realtime, because it must run even
 * if a caller computes under SCHED_FIFO and never sleeps. It may run on the CPUs that the process
 * had when the library was loaded. So it keeps to a launcher's binding, but not to that of the
 * calling thread.
 */
int inc_thread_create_apart(pthread_t *thread, void *(*fn)(void *), void *arg);

/* Returns the number of CPUs, 1 or more, on which threads of inc_thread_create_apart() may run. */
unsigned int inc_cpus(void);
/* Whether this CPU is one of them. */
bool inc_cpu_usable(unsigned int cpu);

void inc_signal_fd(int fd); /* makes the eventfd fd readable */
/* Resets the eventfd fd, so that it is not readable. If fd blocks and is not signalled, this waits
 * for a signal. */
void inc_drain_fd(int fd);

#endif
