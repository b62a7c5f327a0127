/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes: their threads, their descriptors with the waits for them, and their memory. All of
 * these end with a process that is killed.
 */
#ifndef SIM_PROCESS_H
#define SIM_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * task.c: processes and their threads. A thread is a coroutine, which runs until it waits or
 * joins another one. task.c replaces lib/base/thread.c, and the linker replaces pthread_join() with
 * a function of task.c.
 */

struct task;

/* A process, that is a rank or a switch's daemon. It is stopped and continued as a whole. */
struct process {
	char name[8];
	uint64_t paused_until_ns;
	/* total length of all stops of the process; the current stop counts to its end */
	uint64_t stood_ns;
	uint32_t addr; /* IP address, in network order; 0: the process has no TCP streams */
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

/*
 * descriptor.c: the descriptors of processes, which are real ones, and the waits for them.
 * descriptor_begin() replaces the waits, the clock and the random numbers of inc_os
 * (lib/base/os.h). It also replaces the event loops and timers of inc_loop (lib/net/loop.h). The
 * linker replaces eventfd(), epoll_create1(), pipe2() and close() with functions that only record
 * to which process a descriptor belongs.
 */

/* Begins a run without descriptors, and replaces the functions above. */
void descriptor_begin(void);

/* Makes a descriptor for the process that runs. It is readable while descriptor_signal() was called
 * last, and not while descriptor_clear() was. */
int descriptor_new(void);
void descriptor_signal(int fd);
void descriptor_clear(int fd);
/* Records that a descriptor belongs to a process. closed(arg) is called when the process closes it
 * or is killed; it may be NULL. */
void descriptor_own(int fd, struct process *process, void (*closed)(void *arg), void *arg);
bool descriptor_known(int fd);
/* The arg of the descriptor, if its closed() is this one; else NULL. */
void *descriptor_arg(int fd, void (*closed)(void *arg));
/* A descriptor may have become ready. */
void descriptor_changed(int fd);
/* Closes all descriptors of a process. */
void descriptor_close_all(const struct process *process);
/* The number of descriptors that the process has open. */
unsigned int descriptors_of(const struct process *process);

/* Makes the descriptor one of those by which a thread must send if it polls for room, and reports
 * each send on it. */
void descriptor_sends(int fd);
void descriptor_sent(int fd);
/* Sets whether a send on the descriptor was refused for want of room, and the thread has not polled
 * for room since. */
void descriptor_refused(int fd, bool refused);

/* Makes a pair of stream sockets. The first one has a send buffer of the least size. */
void descriptor_pair(int pair[2]);
/* Makes the first socket of a pair not writable, and writable again. Only used while no other bytes
 * pass from it. */
void descriptor_fill(const int pair[2]);
void descriptor_drain(const int pair[2]);

/*
 * memory.c: counts the memory that processes have allocated. The linker replaces malloc() and its
 * like with functions of memory.c, for the product and libevent. A process that is killed loses all
 * its memory, and one that has ended must have freed it. An allocation can be made to fail. Memory
 * of dynamically linked libraries does not count, except that of libraries that accept an
 * allocator, such as jansson.
 */

/* Number of allocations that have failed in all runs. */
extern uint64_t memory_failures;

/* Called once in a program. */
void memory_open(void);
/* Called before a run. After this call no allocation is set to fail. */
void memory_begin(void);
/* Lets the n-th allocation of this process from now on fail; 0: none fails. */
void memory_fail(const struct process *process, uint64_t n);
/* The process in which an allocation has failed; NULL: there is none. */
const struct process *memory_failed(void);
/* The number of pieces of memory that the process has. *size: the size of the first piece, for an
 * error message. */
size_t memory_pieces(const struct process *process, size_t *size);
/* Allocates memory of the process that runs, and frees it. For libraries with a cache, whose pieces
 * memory_apart() counts, and memory_pieces() does not. These allocations do not fail, because most
 * failures would be theirs and not the product's. */
void *memory_allocate(size_t size);
void memory_release(void *at);
size_t memory_apart(const struct process *process);
/* Frees the memory of a process that was killed. */
void memory_free(const struct process *process);

#endif
