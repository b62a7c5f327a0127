/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counts events whose descriptor is closed before the event is freed. libevent then removes from
 * epoll a descriptor that is closed, or that has been reused, and reports no error. This header
 * replaces the epoll_ctl() that libevent calls. Exactly one source file of a program includes it.
 */
#ifndef SELFTESTS_FAKES_EPOLL_CTL_H
#define SELFTESTS_FAKES_EPOLL_CTL_H

#include <errno.h>
#include <unistd.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

/* number of descriptors that were removed while they were open */
static unsigned int epoll_removed;
/* number of descriptors that were closed before they were removed */
static unsigned int epoll_gone;

int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	const int ret = syscall(SYS_epoll_ctl, epfd, op, fd, event);

	if (op == EPOLL_CTL_DEL && ret)
		epoll_gone++;
	else if (op == EPOLL_CTL_DEL)
		epoll_removed++;
	return ret;
}

#endif
