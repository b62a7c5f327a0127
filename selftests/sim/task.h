/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes and their threads: a thread is a coroutine, which runs until it sleeps in ppoll() or
 * waits for another one's end. The linker puts what is in task.c in the place of ppoll(),
 * eventfd(), timerfd_create(), timerfd_settime(), close(), clock_gettime(), getrandom(),
 * pthread_join() and of lib/base/thread.c, so that code of the product runs here as it is.
 * Descriptors of the simulation begin at TASK_FD_FIRST.
 */
#ifndef SIM_TASK_H
#define SIM_TASK_H

#include <stdbool.h>
#include <stdint.h>

#define TASK_FD_FIRST (1 << 20)

struct task;

/* What is stopped and goes on as a whole: a host's process, a switch's daemon. */
struct process {
	char name[8];
	uint64_t paused_until_ns;
};

/* No task and no descriptor is there. */
void task_begin(void);
/* A thread of the process, whose first turn comes soon. */
struct task *task_new(struct process *process, void (*fn)(void *arg), void *arg);
/* From inside a task: others have their turns until task_wake() has been called for it. */
struct task *task_self(void);
void task_sleep(void);
void task_wake(struct task *task);
/* How many have not come to their end. */
unsigned int task_alive(void);

/* A descriptor that is readable as long as readable(arg) says so; task_fd_changed() is called when
 * that may have become true. */
int task_fd_new(bool (*readable)(const void *arg), void *arg);
void task_fd_changed(int fd);
/* Until this time it takes nothing: who waits for POLLOUT sleeps. */
void task_fd_full(int fd, uint64_t until_ns);
bool task_fd_takes(int fd);
/* Something has been sent. */
void task_fd_sent(int fd);
void *task_fd_arg(int fd);
void task_fd_close(int fd);

#endif
