/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads of programs and of libraries, and the eventfds by which one thread wakes another. */
#ifndef INC_THREAD_H
#define INC_THREAD_H

#include <pthread.h>

/* The stack of each thread, independent of RLIMIT_STACK, which may be 16 KiB or all of the
 * memory that a process may lock. inccl.h promises this size to the caller's log callback. */
#define INC_THREAD_STACK_BYTES (1u << 20)

/*
 * pthread_create() with every signal blocked in the new thread, because signals are for the
 * program's own threads. 0 or -errno.
 */
int inc_thread_create(pthread_t *thread, void *(*fn)(void *), void *arg);
/*
 * The same for a library, whose functions any thread of the program may call. The new thread does
 * not inherit the caller's scheduling. It is not realtime, because it must run even if a caller
 * computes under SCHED_FIFO and never sleeps. It may run on the CPUs that the process had when the
 * library was loaded, so it keeps to a launcher's binding but not to that of the calling thread.
 */
int inc_thread_create_apart(pthread_t *thread, void *(*fn)(void *), void *arg);

void inc_signal_fd(int fd); /* makes the eventfd readable */
void inc_drain_fd(int fd);  /* resets the eventfd; if it blocks and is not signalled, waits for a
			     * signal */

#endif
