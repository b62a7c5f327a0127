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
	void (*run)(struct ha_job *job); /* runs on the worker's thread */
	struct ha_job *next;             /* used by worker.c only */
};

struct ha_worker;

/* Returns 0 or -errno. */
int ha_worker_start(struct ha_worker **out, struct inc_err *err);
/* Queues a job. Any thread may call, also with a comm's lock, because the call does not block. */
void ha_worker_do(struct ha_worker *worker, struct ha_job *job);
/* Returns when all jobs have run. worker may be NULL. */
void ha_worker_stop(struct ha_worker *worker);

#endif
