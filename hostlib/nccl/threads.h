/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The plugin's own threads: the progress thread, and workers for calls that block.
 *
 * There is one progress thread for each process. It lets comms progress while NCCL
 * does not call, serves their standby paths, control messages and timers, and reads the devices'
 * asynchronous events. It holds each comm from ha_progress_add() on, and it ends the comm.
 */
#ifndef HA_THREADS_H
#define HA_THREADS_H

#include <stdbool.h>
#include "lib/base/err.h"

struct ha_comm;
struct ha_plugin;
struct ha_progress;

/* Starts the thread. Returns 0 or -errno. The plugin's devices must be open. */
int ha_progress_start(struct ha_progress **out, struct ha_plugin *plugin, struct inc_err *err);
/* Waits until each closed comm has ended, which the comms' timers bound. Returns how many comms
 * were not closed; these are left untouched. Other threads may still call ha_progress_wake().
 * progress may be NULL. */
unsigned int ha_progress_stop(struct ha_progress *progress);
/* Frees the object. Called after the thread and the workers have been stopped. progress may be
 * NULL. */
void ha_progress_free(struct ha_progress *progress);

/* Hands the comm to the progress thread until the comm has ended. May be called on any thread. */
void ha_progress_add(struct ha_progress *progress, struct ha_comm *comm);
/* Wakes the progress thread, because there is something to do. May be called on any thread. */
void ha_progress_wake(struct ha_progress *progress);
/* Wakes the progress thread whenever this descriptor is readable. May be called on any thread.
 * Returns the epoll descriptor, from which the caller removes fd before it closes fd. A close alone
 * removes nothing while a child of the process has a copy of fd. */
int ha_progress_watch(struct ha_progress *progress, int fd);

/*
 * A worker makes calls that block: system calls that make, connect and destroy queue pairs and
 * register memory. Most workers are one thread, which runs the jobs one at a time in the order of
 * ha_worker_do(). A worker for jobs that may wait for seconds has a thread for each job under way,
 * so that no job waits for another.
 */

/* A job for a worker. It is the first member of a caller's own struct. From ha_worker_do() on it
 * belongs to the worker, until run() passes it on or frees it. */
struct ha_job {
	/* does the job's work, on the worker's thread */
	void (*run)(struct ha_job *job);
	struct ha_job *next; /* next job in the worker's queue, used by threads.c only */
};

struct ha_worker;

/* Starts a worker: one thread, or with `parallel` as many as there are jobs under way, and one that
 * waits for the next job. Returns 0 or -errno. */
int ha_worker_start(struct ha_worker **out, struct ha_plugin *plugin, bool parallel,
		    struct inc_err *err);
/* Queues a job for a worker. It does not block, so it may be called on any thread, even with a
 * comm's lock. */
void ha_worker_do(struct ha_worker *worker, struct ha_job *job);
/* Stops a worker after it has run all its jobs. worker may be NULL. */
void ha_worker_stop(struct ha_worker *worker);

#endif
