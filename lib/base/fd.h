/* SPDX-License-Identifier: BSD-2-Clause */
/* Descriptors of a library. Any thread. */
#ifndef INC_FD_H
#define INC_FD_H

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* A copy of a descriptor, there as well, which closes on exec; -1 with errno. */
static inline int inc_fd_high_copy(int fd)
{
	return fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
}

/*
 * Takes over a descriptor that was just opened, or -1 with errno, and gives it a place behind the
 * standard streams. A program that has closed one of these goes on to print there, and what it
 * prints must not go into a connection. Everything that our libraries keep open passes through
 * here.
 */
static inline int inc_fd_high(int fd)
{
	int high, error;

	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	high = inc_fd_high_copy(fd);
	error = errno;
	close(fd);
	errno = error;
	return high;
}

#endif
