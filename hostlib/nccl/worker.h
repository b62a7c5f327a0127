/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A worker thread for calls that block: system calls that make, connect and destroy queue pairs and
 * register memory. Jobs run one at a time, in the order of ha_worker_do().
 */
#ifndef HA_WORKER_H
#define HA_WORKER_H

#include "lib/base/err.h"

/* A job for a worker. It is the first member of a caller's own struct. From ha_worker_do() on it
 * belongs to the worker, until run() passes it on or frees it. */
struct ha_job {
	/* does the job's work, on the worker's thread */
	void (*run)(struct ha_job *job);
	struct ha_job *next; /* next job in the worker's queue, used by worker.c only */
};

struct ha_worker;

/* Starts a worker thread. Returns 0 or -errno. */
int ha_worker_start(struct ha_worker **out, struct inc_err *err);
/* Queues a job for a worker. It does not block, so it may be called on any thread, even with a
 * comm's lock. */
void ha_worker_do(struct ha_worker *worker, struct ha_job *job);
/* Stops a worker after it has run all its jobs. worker may be NULL. */
void ha_worker_stop(struct ha_worker *worker);

#endif
