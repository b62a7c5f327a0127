/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes and their threads. A thread is a coroutine, which runs until it sleeps in ppoll() or
 * joins another one. The linker replaces ppoll(), eventfd(), timerfd_create(), timerfd_settime(),
 * close(), clock_gettime(), getrandom(), pthread_join() and lib/base/thread.c with functions of
 * task.c, so that the product's code runs here unchanged. Descriptors of the simulation begin at
 * TASK_FD_FIRST.
 */
#ifndef SIM_TASK_H
#define SIM_TASK_H

#include <stdbool.h>
#include <stdint.h>

#define TASK_FD_FIRST 1024

struct task;

/* A process, which is stopped and continued as a whole: a rank, or a switch's daemon. */
struct process {
	char name[8];
	uint64_t paused_until_ns;
	uint64_t stood_ns; /* the sum of all its stops, including the current one to its end */
	uint32_t addr;     /* network order; 0: it has no TCP streams (tcp.h) */
	bool dead;         /* it was killed and does not run any more */
};

/* Removes all tasks and descriptors. */
void task_begin(void);
/* Makes a thread of the process, which starts to run soon. */
struct task *task_new(struct process *process, void (*fn)(void *arg), void *arg);
/* For use inside a task: task_sleep() lets other tasks run until task_wake() is called for this
 * one. */
struct task *task_self(void);
void task_sleep(void);
void task_wake(struct task *task);
/* The process whose thread runs; NULL: none. */
struct process *task_process(void);
/* Lets other tasks run until task_wake_all(what) is called, or until the time. */
void task_wait_for(const void *what, uint64_t until_ns);
void task_wake_all(const void *what);
/* SIGSTOP, for sim_at(): stops the process (struct process *) until that time. A longer stop that
 * has begun before remains. */
void task_stop(void *process, uint64_t until_ns);
/* SIGKILL: the process' threads stop where they are, and its descriptors are closed. If a thread of
 * the process calls this, it does not return. */
void task_kill(struct process *process);
/* The number of threads that have not ended: of all processes, and of one. */
unsigned int task_alive(void);
unsigned int task_alive_of(const struct process *process);

/* Makes a descriptor that is readable while readable(arg) is true. task_fd_changed() is called when
 * that may have become true. */
int task_fd_new(bool (*readable)(const void *arg), void *arg);
void task_fd_changed(int fd);
/* The descriptor accepts no data until this time, so POLLOUT is not reported. */
void task_fd_full(int fd, uint64_t until_ns);
bool task_fd_takes(int fd);
/* Data was sent on the descriptor. */
void task_fd_sent(int fd);
/* Sets whether a send was refused for want of room, and the thread has not polled room since. */
void task_fd_refused(int fd, bool refused);
void *task_fd_arg(int fd);
void task_fd_close(int fd);
/* Adds callbacks to a descriptor: writable() replaces task_fd_full(), and closed() is called when
 * the descriptor is closed by close() or by its process' death. */
void task_fd_more(int fd, bool (*writable)(const void *arg), void (*closed)(void *arg));
/* writable(arg) may have become true. */
void task_fd_has_room(int fd);
/* The number of descriptors that the process has open. */
unsigned int task_fds_of(const struct process *process);

#endif
