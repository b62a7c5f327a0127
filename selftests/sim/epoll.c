// SPDX-License-Identifier: BSD-2-Clause
/* Replaces epoll, by which a worker of termination mode waits for its sockets (room.mk, --wrap). */
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include "sim.h"
#include "task.h"

#define WATCHED 16

struct epoll {
	struct epoll *next; /* in the list of all sets */
	int own_fd;
	unsigned int n;
	int fd[WATCHED];
	epoll_data_t data[WATCHED];
};

int __wrap_epoll_create1(int flags);
int __wrap_epoll_ctl(int fd, int op, int which, struct epoll_event *event);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int most, int timeout_ms);

static struct epoll *sets;

/* A set is readable if one of its descriptors is. Such a set can be in another one. */
static bool is_readable(const void *arg)
{
	const struct epoll *e = arg;
	unsigned int i;

	for (i = 0; i < e->n; i++)
		if (task_fd_readable(e->fd[i]))
			return true;
	return false;
}

static void drop(void *arg)
{
	struct epoll **at = &sets;

	while (*at != arg)
		at = &(*at)->next;
	*at = (*at)->next;
	free(arg);
}

int __wrap_epoll_create1(int flags)
{
	struct epoll *e = calloc(1, sizeof(*e));

	sim_require(e, "no memory");
	e->next = sets;
	sets = e;
	e->own_fd = task_fd_new(is_readable, e);
	task_fd_more(e->own_fd, NULL, drop);
	return e->own_fd;
}

void epoll_changed(int fd)
{
	const struct epoll *e;
	unsigned int i;

	for (e = sets; e; e = e->next)
		for (i = 0; i < e->n; i++)
			if (e->fd[i] == fd)
				task_fd_changed(e->own_fd);
}

int __wrap_epoll_ctl(int fd, int op, int which, struct epoll_event *event)
{
	struct epoll *e = task_fd_arg(fd);
	unsigned int i;

	for (i = 0; i < e->n && e->fd[i] != which; i++)
		;
	if (op == EPOLL_CTL_ADD) {
		sim_require(i == e->n && i < WATCHED, "a descriptor is watched twice, or too many");
		e->fd[e->n] = which;
		e->data[e->n++] = event->data;
		return 0;
	}
	sim_require(op == EPOLL_CTL_DEL && i < e->n,
		    "epoll_ctl() deletes a descriptor that is not in the set");
	e->fd[i] = e->fd[--e->n];
	e->data[i] = e->data[e->n];
	return 0;
}

int __wrap_epoll_wait(int fd, struct epoll_event *events, int most, int timeout_ms)
{
	const struct epoll *e = task_fd_arg(fd);
	const struct timespec ts = {.tv_sec = timeout_ms / 1000,
				    .tv_nsec = timeout_ms % 1000 * INC_NSEC_PER_MSEC};
	struct pollfd polled[WATCHED];
	const unsigned int n = e->n;
	unsigned int i;
	int found = 0;

	for (i = 0; i < n; i++)
		polled[i] = (struct pollfd){.fd = e->fd[i], .events = POLLIN};
	ppoll(polled, n, timeout_ms < 0 ? NULL : &ts, NULL);
	for (i = 0; i < n && found < most; i++)
		if (polled[i].revents && i < e->n && e->fd[i] == polled[i].fd)
			events[found++] = (struct epoll_event){EPOLLIN, e->data[i]};
	return found;
}
