/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads of programs and of libraries, and the descriptors (eventfd) by which one wakes another.
 */
#ifndef INC_THREAD_H
#define INC_THREAD_H

#include <pthread.h>

/* Of each thread, whatever RLIMIT_STACK says, because that may be 16 KiB or all of the memory that
 * a process may lock. inccl.h promises it to the caller's log callback. */
#define INC_THREAD_STACK_BYTES (1u << 20)

/*
 * pthread_create() with every signal blocked in the thread, because signals are the program's.
 * 0 or -errno.
 */
int inc_thread_create(pthread_t *thread, void *(*fn)(void *), void *arg);
/*
 * The same for a library, which any thread of the program may call. The new thread does not inherit
 * what the caller has chosen for itself. It is not realtime, because it must run while a caller
 * computes under SCHED_FIFO and never sleeps. It may run on the CPUs that the process had when the
 * library was loaded, so a launcher's binding holds and a thread's own one does not.
 */
int inc_thread_create_apart(pthread_t *thread, void *(*fn)(void *), void *arg);

void inc_signal_fd(int fd); /* makes it readable */
void inc_drain_fd(int fd);  /* until it is signalled again; one that blocks waits for that */

#endif
