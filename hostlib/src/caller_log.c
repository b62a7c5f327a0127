/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The caller's log callback. The library logs lines while it holds its locks, but a callback may
 * call the library (inccl_communicator_error(), for example). So a line is queued here until the
 * thread that logged it has released its locks and calls inccl_log_deliver(). One thread at a time
 * delivers lines, in order.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/src/internal.h"

struct inccl_log_entry {
	struct inccl_log_entry *next;
	char line[512];
};

/* The last line of a device. */
struct inccl_device_line {
	/* the communicators whose devices have logged it, each once */
	const void *by[INC_MAX_CHANNELS];
	unsigned int n;
	char line[sizeof(((struct inccl_log_entry *)NULL)->line)];
};

static void log_stderr(void *ctx, const char *line)
{
	fprintf(stderr, "inccl: %s\n", line);
}

int inccl_log_new(void (*fn)(void *ctx, const char *line), void *ctx, struct inccl_log **out)
{
	struct inccl_log *log = calloc(1, sizeof(*log));
	const char *debug = getenv("INCCL_DEBUG");
	int ret;

	if (!log)
		return -ENOMEM;
	log->fn = fn;
	log->ctx = ctx;
	if (!fn && debug && !strcmp(debug, "1"))
		log->fn = log_stderr;
	log->last = &log->first;
	log->owners = 1;
	ret = -pthread_mutex_init(&log->lock, NULL);
	if (ret)
		goto free_log;
	ret = -pthread_cond_init(&log->delivered, NULL);
	if (ret)
		goto destroy_lock;
	*out = log;
	return 0;

destroy_lock:
	pthread_mutex_destroy(&log->lock);
free_log:
	free(log);
	return ret;
}

struct inccl_log *inccl_log_hold(struct inccl_log *log)
{
	__atomic_add_fetch(&log->owners, 1, __ATOMIC_RELAXED);
	return log;
}

void inccl_log_put(struct inccl_log *log)
{
	if (__atomic_sub_fetch(&log->owners, 1, __ATOMIC_ACQ_REL))
		return;
	inccl_log_deliver(log);
	pthread_cond_destroy(&log->delivered);
	pthread_mutex_destroy(&log->lock);
	free(log->device_line);
	free(log);
}

void inccl_log_abandon(struct inccl_log *log)
{
	struct inccl_log_entry *entry;

	if (__atomic_sub_fetch(&log->owners, 1, __ATOMIC_RELAXED))
		return;
	while ((entry = log->first)) {
		log->first = entry->next;
		free(entry);
	}
	free(log->device_line);
	free(log);
}

void inccl_log_end(struct inccl_log *log)
{
	inccl_log_deliver(log);
	if (log->fn == log_stderr)
		return;
	pthread_mutex_lock(&log->lock);
	log->ended = true;
	while (log->delivering)
		pthread_cond_wait(&log->delivered, &log->lock);
	pthread_mutex_unlock(&log->lock);
}

static void log_va(struct inccl_log *log, const char *fmt, va_list ap)
{
	struct inccl_log_entry *entry;

	if (!log->fn)
		return;
	entry = malloc(sizeof(*entry));
	if (!entry)
		return;
	entry->next = NULL;
	vsnprintf(entry->line, sizeof(entry->line), fmt, ap);
	pthread_mutex_lock(&log->lock);
	if (log->ended) {
		pthread_mutex_unlock(&log->lock);
		free(entry);
		return;
	}
	*log->last = entry;
	log->last = &entry->next;
	__atomic_store_n(&log->waiting, true, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&log->lock);
}

void inccl_log_line(struct inccl_log *log, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_va(log, fmt, ap);
	va_end(ap);
}

/* Whether the last line of a device is the same, and only other devices have logged it. If this
 * device has logged it as well, it repeats it, so the line counts as a new one. Notes the line. */
static bool is_of_others(struct inccl_log *log, const void *by, const char *line)
{
	struct inccl_device_line *last;
	bool others;

	pthread_mutex_lock(&log->lock);
	last = log->device_line;
	others = last && last->n < INC_MAX_CHANNELS && !strcmp(last->line, line);
	for (unsigned int i = 0; others && i < last->n; i++)
		others = last->by[i] != by;
	if (!last)
		last = log->device_line = calloc(1, sizeof(*last));
	if (last) {
		last->n = others ? last->n : 0;
		last->by[last->n++] = by;
		snprintf(last->line, sizeof(last->line), "%s", line);
	}
	pthread_mutex_unlock(&log->lock);
	return others;
}

void inccl_log_forward(void *comm, const char *fmt, ...)
{
	struct inccl_log *log = ((const struct inccl_communicator *)comm)->group->log;
	char line[sizeof(((struct inccl_log_entry *)NULL)->line)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (!is_of_others(log, comm, line))
		inccl_log_line(log, "%s", line);
}

/* Removes the oldest line from the log's queue, and returns it; NULL if there is none. Called under
 * the log's lock. */
static struct inccl_log_entry *take_first(struct inccl_log *log)
{
	struct inccl_log_entry *entry = log->first;

	if (!entry)
		return NULL;
	log->first = entry->next;
	if (!log->first) {
		log->last = &log->first;
		__atomic_store_n(&log->waiting, false, __ATOMIC_RELAXED);
	}
	return entry;
}

void inccl_log_deliver(struct inccl_log *log)
{
	struct inccl_log_entry *entry;
	bool ended;

	/* the flag is read without the lock, because a thread always sees the lines that it has
	 * queued itself */
	if (!__atomic_load_n(&log->waiting, __ATOMIC_RELAXED))
		return;
	pthread_mutex_lock(&log->lock);
	while (!log->delivering && (entry = take_first(log))) {
		ended = log->ended;
		log->delivering = true;
		pthread_mutex_unlock(&log->lock);
		if (!ended)
			log->fn(log->ctx, entry->line);
		free(entry);
		pthread_mutex_lock(&log->lock);
		log->delivering = false;
		if (log->ended)
			pthread_cond_broadcast(&log->delivered);
	}
	pthread_mutex_unlock(&log->lock);
}
