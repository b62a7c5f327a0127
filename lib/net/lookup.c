/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include "lib/base/fd.h"
#include "lib/base/thread.h"
#include "lib/net/lookup.h"
#include "lib/net/wait.h"

struct inc_lookup {
	struct inc_hostport at;
	int fd; /* an eventfd, which is readable once there is an answer */
	/* number of references: one of the look-up's owner, and one of the thread */
	atomic_uint refs;
	/* Until done is set, the members below belong to the thread, and then to the owner. */
	atomic_bool done;
	struct addrinfo *list;
	int code;  /* return value of getaddrinfo() */
	int error; /* value of errno, if code is EAI_SYSTEM */
};

static void put(struct inc_lookup *lookup)
{
	if (atomic_fetch_sub(&lookup->refs, 1) != 1)
		return;
	if (lookup->list)
		freeaddrinfo(lookup->list);
	if (lookup->fd >= 0)
		close(lookup->fd);
	free(lookup);
}

static int ask(const struct inc_hostport *at, int flags, struct addrinfo **list)
{
	const struct addrinfo hints = {.ai_flags = AI_NUMERICSERV | flags,
				       .ai_socktype = SOCK_STREAM};

	*list = NULL;
	return getaddrinfo(at->host, at->port, &hints, list);
}

static void *ask_by_name(void *arg)
{
	struct inc_lookup *lookup = arg;

	lookup->code = ask(&lookup->at, 0, &lookup->list);
	lookup->error = errno;
	atomic_store(&lookup->done, true);
	inc_signal_fd(lookup->fd);
	put(lookup);
	return NULL;
}

/* Converts the result of getaddrinfo() to -errno with the reason. */
static int explain(int code, int error, struct inc_err *err)
{
	switch (code) {
	case 0:
		return 0;
	case EAI_SYSTEM:
		return inc_err_set(err, error ?: EHOSTUNREACH, "%s",
				   error ? strerror(error) : gai_strerror(code));
	case EAI_MEMORY:
		return inc_err_set(err, ENOMEM, "%s", gai_strerror(code));
	case EAI_AGAIN:
		return inc_err_set(err, EAGAIN, "%s", gai_strerror(code));
	default:
		return inc_err_set(err, EHOSTUNREACH, "%s", gai_strerror(code));
	}
}

int inc_lookup_number(const struct inc_hostport *at, struct addrinfo **list, struct inc_err *err)
{
	const int code = ask(at, AI_NUMERICHOST, list);

	return code == EAI_NONAME ? -ENOENT : explain(code, errno, err);
}

static int begin(struct inc_lookup *lookup)
{
	pthread_t thread;
	int ret;

	lookup->fd = inc_fd_high(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
	if (lookup->fd < 0)
		return -errno;
	atomic_fetch_add(&lookup->refs, 1);
	ret = inc_thread_create_apart(&thread, ask_by_name, lookup);
	if (ret)
		put(lookup);
	else
		pthread_detach(thread);
	return ret;
}

int inc_lookup_start(const struct inc_hostport *at, struct inc_lookup **out, struct inc_err *err)
{
	struct inc_lookup *lookup = calloc(1, sizeof(*lookup));
	int ret;

	if (!lookup)
		return inc_err_set(err, ENOMEM, "%s", strerror(ENOMEM));
	lookup->at = *at;
	atomic_init(&lookup->refs, 1);
	ret = begin(lookup);
	if (ret) {
		put(lookup);
		return inc_err_set(err, -ret, "no thread to look up the name: %s", strerror(-ret));
	}
	*out = lookup;
	return 0;
}

int inc_lookup_fd(const struct inc_lookup *lookup)
{
	return lookup->fd;
}

int inc_lookup_end(struct inc_lookup *lookup, struct addrinfo **list, struct inc_err *err)
{
	int ret;

	if (!atomic_load(&lookup->done))
		return -EINPROGRESS;
	ret = explain(lookup->code, lookup->error, err);
	*list = lookup->list;
	lookup->list = NULL;
	put(lookup);
	return ret;
}

void inc_lookup_cancel(struct inc_lookup *lookup)
{
	if (lookup)
		put(lookup);
}

int inc_lookup_wait(const struct inc_hostport *at, uint64_t deadline_ns, struct addrinfo **list,
		    struct inc_err *err)
{
	struct inc_lookup *lookup;
	int ret = inc_lookup_number(at, list, err);

	if (ret != -ENOENT)
		return ret;
	ret = inc_lookup_start(at, &lookup, err);
	if (ret)
		return ret;
	inc_wait_for(lookup->fd, POLLIN, -1, deadline_ns);
	ret = inc_lookup_end(lookup, list, err);
	if (ret != -EINPROGRESS)
		return ret;
	inc_lookup_cancel(lookup);
	return inc_err_set(err, ETIMEDOUT, "no answer in time to the look-up of the name");
}
