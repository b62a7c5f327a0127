/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The caller's log callback. Lines are made under locks of the library, and a callback may ask
 * the library (inccl_communicator_error(), say): so a line waits here until the thread that
 * made it has released its locks and calls inccl_log_deliver(). One thread delivers at a
 * time, in order.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include "hostlib/src/internal.h"

struct inccl_log_entry {
	struct inccl_log_entry *next;
	char line[512];
};

int inccl_log_init(struct inccl_log *log, void (*fn)(void *ctx, const char *line), void *ctx)
{
	log->fn = fn;
	log->ctx = ctx;
	log->first = NULL;
	log->last = &log->first;
	log->delivering = false;
	return -pthread_mutex_init(&log->lock, NULL);
}

void inccl_log_destroy(struct inccl_log *log)
{
	inccl_log_deliver(log);
	pthread_mutex_destroy(&log->lock);
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

void inccl_log_forward(void *log, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_va(log, fmt, ap);
	va_end(ap);
}

void inccl_log_deliver(struct inccl_log *log)
{
	struct inccl_log_entry *entry;

	/* a thread sees the lines it made itself */
	if (!__atomic_load_n(&log->waiting, __ATOMIC_RELAXED))
		return;
	pthread_mutex_lock(&log->lock);
	while (!log->delivering && (entry = log->first)) {
		log->first = entry->next;
		if (!log->first) {
			log->last = &log->first;
			__atomic_store_n(&log->waiting, false, __ATOMIC_RELAXED);
		}
		log->delivering = true;
		pthread_mutex_unlock(&log->lock);
		log->fn(log->ctx, entry->line);
		free(entry);
		pthread_mutex_lock(&log->lock);
		log->delivering = false;
	}
	pthread_mutex_unlock(&log->lock);
}
