/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <event2/event.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include "hostlib/connect/lookup.h"
#include "lib/base/thread.h"

struct connect_lookup {
	struct inc_hostport at;
	int fd;                /* an eventfd: there is an answer */
	atomic_uint refs;      /* the loop's and, while it asks, the thread's */
	struct addrinfo *list; /* the thread's, until fd is signalled */
	int code;              /* of getaddrinfo(); likewise */
	int error;             /* its errno where code is EAI_SYSTEM */
	struct event *event;   /* the loop's */
	connect_lookup_done done;
	void *arg;
};

static void put(struct connect_lookup *lookup)
{
	if (atomic_fetch_sub(&lookup->refs, 1) != 1)
		return;
	if (lookup->list)
		freeaddrinfo(lookup->list);
	if (lookup->fd >= 0)
		close(lookup->fd);
	free(lookup);
}

static void ask(struct connect_lookup *lookup, int flags)
{
	const struct addrinfo hints = {.ai_flags = AI_NUMERICSERV | flags,
				       .ai_socktype = SOCK_STREAM};

	lookup->code = getaddrinfo(lookup->at.host, lookup->at.port, &hints, &lookup->list);
	lookup->error = errno;
}

static void *ask_by_name(void *arg)
{
	struct connect_lookup *lookup = arg;

	ask(lookup, AI_ADDRCONFIG);
	inc_signal_fd(lookup->fd);
	put(lookup);
	return NULL;
}

static int errno_of(const struct connect_lookup *lookup)
{
	switch (lookup->code) {
	case EAI_SYSTEM:
		return lookup->error;
	case EAI_MEMORY:
		return ENOMEM;
	case EAI_AGAIN:
		return EAGAIN;
	default:
		return EHOSTUNREACH;
	}
}

static void on_answer(evutil_socket_t fd, short what, void *arg)
{
	struct connect_lookup *lookup = arg;
	const connect_lookup_done done = lookup->done;
	void *owner = lookup->arg;
	struct addrinfo *list;
	const char *why;
	int error;

	inc_drain_fd(fd); /* what the thread wrote has come before */
	list = lookup->code ? NULL : lookup->list;
	why = lookup->code == EAI_SYSTEM ? strerror(lookup->error) : gai_strerror(lookup->code);
	error = lookup->code ? -errno_of(lookup) : 0;
	lookup->list = NULL;
	connect_lookup_cancel(lookup);
	done(owner, list, error, error ? why : NULL);
}

/* A thread, unless the host is a number. 0 or -errno. */
static int begin(struct connect_lookup *lookup)
{
	pthread_t thread;
	int ret;

	ask(lookup, AI_NUMERICHOST);
	if (lookup->code != EAI_NONAME) {
		inc_signal_fd(lookup->fd);
		return 0;
	}
	atomic_fetch_add(&lookup->refs, 1);
	ret = inc_thread_create(&thread, ask_by_name, lookup);
	if (ret)
		put(lookup);
	else
		pthread_detach(thread);
	return ret;
}

int connect_lookup_start(struct event_base *base, const struct inc_hostport *at,
			 connect_lookup_done done, void *arg, struct connect_lookup **out,
			 struct inc_err *err)
{
	struct connect_lookup *lookup = calloc(1, sizeof(*lookup));
	int ret;

	if (!lookup)
		return inc_err_set(err, ENOMEM, "%s: %s", at->host, strerror(ENOMEM));
	lookup->at = *at;
	lookup->done = done;
	lookup->arg = arg;
	atomic_init(&lookup->refs, 1);
	lookup->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	ret = lookup->fd < 0 ? -errno : 0;
	if (!ret) {
		lookup->event = event_new(base, lookup->fd, EV_READ, on_answer, lookup);
		ret = !lookup->event || event_add(lookup->event, NULL) ? -ENOMEM : begin(lookup);
	}
	if (ret) {
		connect_lookup_cancel(lookup);
		return inc_err_set(err, -ret, "%s: %s", at->host, strerror(-ret));
	}
	*out = lookup;
	return 0;
}

void connect_lookup_cancel(struct connect_lookup *lookup)
{
	if (!lookup)
		return;
	if (lookup->event)
		event_free(lookup->event);
	lookup->event = NULL;
	put(lookup);
}
