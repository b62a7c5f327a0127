/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events whose descriptor is closed before they are freed. libevent then takes a descriptor out of
 * epoll that is closed, or that is another one by now, and it keeps quiet about it. A test that
 * includes this has the epoll_ctl() that libevent calls. One file of a program includes it.
 */
#ifndef SELFTESTS_EPOLL_GONE_H
#define SELFTESTS_EPOLL_GONE_H

#include <errno.h>
#include <unistd.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

static unsigned int epoll_removed; /* descriptors that were taken out in time */
static unsigned int epoll_gone;    /* those that were closed before */

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
