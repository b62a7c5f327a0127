/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A worker thread for calls that block: system calls that make, connect and destroy queue pairs and
 * register memory. Jobs run one at a time, in the order of ha_worker_do().
 */
#ifndef HA_WORKER_H
#define HA_WORKER_H

#include "lib/base/err.h"

/* A job, the first member of the caller's own struct. From ha_worker_do() on the worker owns it,
 * until run() passes it on or frees it. */
struct ha_job {
	/* function of the job, which runs on the worker's thread */
	void (*run)(struct ha_job *job);
	struct ha_job *next; /* next job in the queue, used by worker.c only */
};

struct ha_worker;

/* Starts a worker thread. Returns 0 or -errno. */
int ha_worker_start(struct ha_worker **out, struct inc_err *err);
/* Queues a job. May be called on any thread, also with a comm's lock, because it does not block. */
void ha_worker_do(struct ha_worker *worker, struct ha_job *job);
/* Stops the worker after all jobs have run. worker may be NULL. */
void ha_worker_stop(struct ha_worker *worker);

#endif
