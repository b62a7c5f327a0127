/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The descriptors of processes, which are real ones, and the waits for them. descriptor_begin()
 * replaces the waits, the clock and the random numbers of inc_os (lib/base/os.h), and the event
 * loops and timers of inc_loop (lib/net/loop.h). The linker replaces eventfd(), epoll_create1(),
 * pipe2() and close() with functions that only record to which process a descriptor belongs.
 */
#ifndef SIM_DESCRIPTOR_H
#define SIM_DESCRIPTOR_H

#include <stdbool.h>
#include <stdint.h>
#include "task.h"

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

#endif
