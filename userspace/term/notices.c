/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <unistd.h>
#include "lib/base/log.h"
#include "lib/base/thread.h"
#include "userspace/term/notices.h"

struct told {
	struct inc_msg_event event;
	STAILQ_ENTRY(told) entry;
};

STAILQ_HEAD(told_list, told);

struct inc_term_notices {
	inc_notice_fn fn;
	void *arg;
	struct event *event;
	int fd;
	pthread_mutex_t lock;
	struct told_list list; /* queued events, protected by lock */
};

static struct told *take(struct inc_term_notices *n)
{
	struct told *t;

	pthread_mutex_lock(&n->lock);
	t = STAILQ_FIRST(&n->list);
	if (t)
		STAILQ_REMOVE_HEAD(&n->list, entry);
	pthread_mutex_unlock(&n->lock);
	return t;
}

static void on_told(evutil_socket_t fd, short what, void *arg)
{
	struct inc_term_notices *n = arg;
	struct told *t;

	inc_drain_fd(fd);
	while ((t = take(n))) {
		n->fn(n->arg, &t->event);
		free(t);
	}
}

int inc_term_notices_new(struct event_base *base, inc_notice_fn fn, void *arg,
			 struct inc_term_notices **out, struct inc_err *err)
{
	struct inc_term_notices *n = calloc(1, sizeof(*n));

	if (!n)
		goto none;
	n->fn = fn;
	n->arg = arg;
	STAILQ_INIT(&n->list);
	pthread_mutex_init(&n->lock, NULL);
	n->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	n->event = n->fd < 0 ? NULL : event_new(base, n->fd, EV_READ | EV_PERSIST, on_told, n);
	if (!n->event || event_add(n->event, NULL)) {
		inc_term_notices_free(n);
		goto none;
	}
	*out = n;
	return 0;

none:
	return inc_err_set(err, ENOMEM, "no way for notices");
}

void inc_term_notices_free(struct inc_term_notices *n)
{
	struct told *t;

	if (!n)
		return;
	while ((t = take(n)))
		free(t);
	if (n->event)
		event_free(n->event);
	if (n->fd >= 0)
		close(n->fd);
	pthread_mutex_destroy(&n->lock);
	free(n);
}

void inc_term_notices_tell(void *arg, const struct inc_msg_event *event)
{
	struct inc_term_notices *n = arg;
	struct told *t = malloc(sizeof(*t));

	if (!t) {
		inc_error("communicator %u: no memory to report: %s", event->communicator,
			  event->message);
		return;
	}
	t->event = *event;
	pthread_mutex_lock(&n->lock);
	STAILQ_INSERT_TAIL(&n->list, t, entry);
	pthread_mutex_unlock(&n->lock);
	inc_signal_fd(n->fd);
}

void inc_term_notices_forget(struct inc_term_notices *n, uint32_t communicator)
{
	struct told_list kept = STAILQ_HEAD_INITIALIZER(kept);
	struct told *t;

	pthread_mutex_lock(&n->lock);
	while ((t = STAILQ_FIRST(&n->list))) {
		STAILQ_REMOVE_HEAD(&n->list, entry);
		if (t->event.communicator == communicator)
			free(t);
		else
			STAILQ_INSERT_TAIL(&kept, t, entry);
	}
	STAILQ_CONCAT(&n->list, &kept);
	pthread_mutex_unlock(&n->lock);
}
