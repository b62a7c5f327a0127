/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes and their threads. A thread is a coroutine, which runs until it waits (descriptor.h) or
 * joins another one. task.c replaces lib/base/thread.c, and the linker replaces pthread_join() with
 * a function of task.c.
 */
#ifndef SIM_TASK_H
#define SIM_TASK_H

#include <stdbool.h>
#include <stdint.h>

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
/* Lets other tasks run until ready(arg, fd) is true, or until the given time. The caller has found
 * that nothing is ready yet. task_changed() must be called when ready() may have become true for a
 * task of the process. The argument fd is the only descriptor that has changed, or -1 if any may
 * have. Returns whether ready() was true. */
bool task_wait_until(bool (*ready)(const void *arg, int fd), const void *arg, uint64_t at_ns);
void task_changed(const struct process *process, int fd);
/* Lets the time pass that a wait takes if something is ready at once. */
void task_pass_time(void);
/* Lets other tasks run for a short time. */
void task_give_way(void);

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

#endif
