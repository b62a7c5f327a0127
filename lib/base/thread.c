/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <unistd.h>
#include "lib/base/thread.h"

int inc_thread_create(pthread_t *thread, void *(*fn)(void *), void *arg)
{
	sigset_t all, old;
	int err;

	sigfillset(&all);
	err = pthread_sigmask(SIG_SETMASK, &all, &old);
	if (err)
		return -err;
	err = pthread_create(thread, NULL, fn, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -err;
}

void inc_signal_fd(int fd)
{
	uint64_t one = 1;

	/* fails only where the counter is full, that is, signalled */
	while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

void inc_drain_fd(int fd)
{
	uint64_t count;

	while (read(fd, &count, sizeof(count)) < 0 && errno == EINTR)
		;
}
