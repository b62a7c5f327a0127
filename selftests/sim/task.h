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

#define TASK_FD_FIRST 1024

struct task;

/* What is stopped and goes on as a whole: a host's process, a switch's daemon. */
struct process {
	char name[8];
	uint64_t paused_until_ns;
	uint64_t stood_ns; /* all its stops together, with all of the present one */
	uint32_t addr;     /* network order; 0: it has no streams (tcp.h) */
	bool dead;         /* killed; nothing of it runs any more */
};

/* No task and no descriptor is there. */
void task_begin(void);
/* A thread of the process, whose first turn comes soon. */
struct task *task_new(struct process *process, void (*fn)(void *arg), void *arg);
/* From inside a task: others have their turns until task_wake() has been called for it. */
struct task *task_self(void);
void task_sleep(void);
void task_wake(struct task *task);
/* The process whose thread runs, NULL: none does. */
struct process *task_process(void);
/* Others have their turns until task_wake_all() is called for this, or this time has come. */
void task_wait_for(const void *what, uint64_t until_ns);
void task_wake_all(const void *what);
/* SIGSTOP, for sim_at(): the process (struct process *) does nothing until that time, or for longer
 * where it has been stopped for longer already. */
void task_stop(void *process, uint64_t until_ns);
/* SIGKILL: its threads stop where they are, its descriptors are closed. From a thread of the
 * process itself it does not return. */
void task_kill(struct process *process);
/* How many have not come to their end; of all processes, and of one. */
unsigned int task_alive(void);
unsigned int task_alive_of(const struct process *process);

/* A descriptor that is readable as long as readable(arg) says so; task_fd_changed() is called when
 * that may have become true. */
int task_fd_new(bool (*readable)(const void *arg), void *arg);
void task_fd_changed(int fd);
/* Until this time it takes nothing: who waits for POLLOUT sleeps. */
void task_fd_full(int fd, uint64_t until_ns);
bool task_fd_takes(int fd);
/* Something has been sent. */
void task_fd_sent(int fd);
/* Whether something has not been sent for want of room, and its thread has not found room since. */
void task_fd_refused(int fd, bool refused);
void *task_fd_arg(int fd);
void task_fd_close(int fd);
/* More of a descriptor than most have: when it takes something, other than task_fd_full() says; and
 * what is to be done when it is closed by close() or by its process' death. */
void task_fd_more(int fd, bool (*writable)(const void *arg), void (*closed)(void *arg));
/* writable(arg) may have become true. */
void task_fd_has_room(int fd);
/* Descriptors that the process has open. */
unsigned int task_fds_of(const struct process *process);

#endif
