/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads of a library, and the descriptors (eventfd) by which one wakes another. */
#ifndef INC_THREAD_H
#define INC_THREAD_H

#include <pthread.h>

/* pthread_create with every signal blocked in the thread: signals are the program's. -errno. */
int inc_thread_create(pthread_t *thread, void *(*fn)(void *), void *arg);

void inc_signal_fd(int fd); /* makes it readable */
void inc_drain_fd(int fd);  /* until it is signalled again; one that blocks waits for that */

#endif
