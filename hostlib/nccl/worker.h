/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread for what blocks: calls into the kernel that make, aim and destroy queue pairs and
 * register memory. Jobs run one after the other, in the order in which they came.
 */
#ifndef HA_WORKER_H
#define HA_WORKER_H

#include "lib/base/err.h"

/* Lies first in the caller's own struct, which is the job's from ha_worker_do() on: run() gives it
 * back. */
struct ha_job {
	void (*run)(struct ha_job *job); /* on the worker's thread */
	struct ha_job *next;             /* worker.c's */
};

struct ha_worker;

/* 0 or -errno. */
int ha_worker_start(struct ha_worker **out, struct inc_err *err);
/* Any thread, also with a comm's lock; never blocks for long. */
void ha_worker_do(struct ha_worker *worker, struct ha_job *job);
/* Returns when all jobs have run. NULL is allowed. */
void ha_worker_stop(struct ha_worker *worker);

#endif
