/* SPDX-License-Identifier: BSD-2-Clause */
/* File descriptors of the libraries. Any thread may call these functions. */
#ifndef INC_FD_H
#define INC_FD_H

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* Duplicates a descriptor to a number behind the standard streams, with close-on-exec. Returns -1
 * with errno on failure. */
static inline int inc_fd_high_copy(int fd)
{
	return fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
}

/*
 * Moves a descriptor that was just opened to a number behind the standard streams. If fd is -1,
 * returns -1 with the errno of the call that should have opened it. A program may have closed one
 * of these streams and still print to its number, and that output must not go into a connection.
 * All descriptors that the libraries keep open pass through here.
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
