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

/* A process, that is a rank or a switch's daemon. It is stopped and continued as a whole. */
struct process {
	char name[8];
	uint64_t paused_until_ns;
	/* total length of all stops of the process; the current stop counts to its end */
	uint64_t stood_ns;
	uint32_t addr; /* IP address, in network order; 0: the process has no TCP streams (tcp.h) */
	bool dead;     /* the process was killed and does not run any more */
};

/* Removes all tasks and descriptors. */
void task_begin(void);
/* Makes a thread of the process. The thread starts to run soon. */
struct task *task_new(struct process *process, void (*fn)(void *arg), void *arg);
/* Used inside a task: task_sleep() lets other tasks run until another one calls task_wake() for the
 * sleeping task. */
struct task *task_self(void);
void task_sleep(void);
void task_wake(struct task *task);
/* The process whose thread runs now; NULL: none. */
struct process *task_process(void);
/* Lets other tasks run until one calls task_wake_all(what), or until the given time. */
void task_wait_for(const void *what, uint64_t until_ns);
void task_wake_all(const void *what);
/* SIGSTOP, in the form that sim_at() calls: stops the process (struct process *) until the given
 * time. A stop that has begun before and lasts longer remains. */
void task_stop(void *process, uint64_t until_ns);
/* SIGKILL: the process' threads stop where they are, and its descriptors are closed. If a thread of
 * the process calls this, it does not return. */
void task_kill(struct process *process);
/* The number of threads that have not ended: task_alive() counts those of all processes,
 * task_alive_of() those of one. */
unsigned int task_alive(void);
unsigned int task_alive_of(const struct process *process);

/* Makes a descriptor that is readable while readable(arg) is true. task_fd_changed() is called when
 * that may have become true. */
int task_fd_new(bool (*readable)(const void *arg), void *arg);
void task_fd_changed(int fd);
bool task_fd_readable(int fd);
/* epoll.c: a descriptor has become readable, which may be in a set. */
void epoll_changed(int fd);
/* Sets the time until which the descriptor accepts no data, so that POLLOUT is not reported. */
void task_fd_full(int fd, uint64_t until_ns);
bool task_fd_takes(int fd);
/* Called when data was sent on the descriptor. */
void task_fd_sent(int fd);
/* Sets whether a send on the descriptor was refused for want of room, and the thread has not polled
 * for room since. */
void task_fd_refused(int fd, bool refused);
void *task_fd_arg(int fd);
void task_fd_close(int fd);
/* Adds callbacks to a descriptor. writable() replaces task_fd_full(). closed() is called when
 * close() or the death of its process closes the descriptor. */
void task_fd_more(int fd, bool (*writable)(const void *arg), void (*closed)(void *arg));
/* Called when writable(arg) of the descriptor may have become true. */
void task_fd_has_room(int fd);
/* The number of descriptors that the process has open. */
unsigned int task_fds_of(const struct process *process);

#endif
