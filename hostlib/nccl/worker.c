/* SPDX-License-Identifier: BSD-2-Clause */
/* A worker thread for calls that block (threads.h). */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/nccl/threads.h"
#include "lib/base/thread.h"

struct ha_worker {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct ha_job *first, **last;
	bool stopping;
};

/* Waits for the worker's next job, and returns it. Returns NULL when the worker stops. */
static struct ha_job *next_job(struct ha_worker *worker)
{
	struct ha_job *job;

	pthread_mutex_lock(&worker->lock);
	while (!worker->first && !worker->stopping)
		pthread_cond_wait(&worker->more, &worker->lock);
	job = worker->first;
	if (job)
		worker->first = job->next;
	if (!worker->first)
		worker->last = &worker->first;
	pthread_mutex_unlock(&worker->lock);
	return job;
}

static void *work(void *arg)
{
	struct ha_job *job;

	while ((job = next_job(arg)))
		job->run(job);
	return NULL;
}

int ha_worker_start(struct ha_worker **out, struct inc_err *err)
{
	struct ha_worker *worker = calloc(1, sizeof(*worker));
	int ret;

	if (!worker)
		return inc_err_set(err, ENOMEM, "worker thread: %s", strerror(ENOMEM));
	worker->last = &worker->first;
	pthread_mutex_init(&worker->lock, NULL);
	pthread_cond_init(&worker->more, NULL);
	ret = inc_thread_create_apart(&worker->thread, work, worker);
	if (ret) {
		pthread_cond_destroy(&worker->more);
		pthread_mutex_destroy(&worker->lock);
		free(worker);
		return inc_err_set(err, -ret, "worker thread: %s", strerror(-ret));
	}
	*out = worker;
	return 0;
}

void ha_worker_do(struct ha_worker *worker, struct ha_job *job)
{
	pthread_mutex_lock(&worker->lock);
	job->next = NULL;
	*worker->last = job;
	worker->last = &job->next;
	pthread_cond_signal(&worker->more);
	pthread_mutex_unlock(&worker->lock);
}

void ha_worker_stop(struct ha_worker *worker)
{
	if (!worker)
		return;
	pthread_mutex_lock(&worker->lock);
	worker->stopping = true;
	pthread_cond_signal(&worker->more);
	pthread_mutex_unlock(&worker->lock);
	pthread_join(worker->thread, NULL);
	pthread_cond_destroy(&worker->more);
	pthread_mutex_destroy(&worker->lock);
	free(worker);
}
