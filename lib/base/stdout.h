/* SPDX-License-Identifier: BSD-2-Clause */
/* A program's standard streams. For programs, on their main thread. */
#ifndef INC_STDOUT_H
#define INC_STDOUT_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "lib/base/err.h"

/* Before anything is opened, by programs that go on for long: where they are started without
 * standard streams, /dev/null takes these places, so that no socket does, which would be sent what
 * is printed or logged. */
static inline void inc_stdio_hold(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

/* What was printed has arrived, also what went out long before. 0, or -errno and "stdout: why". */
static inline int inc_stdout_flush(struct inc_err *err)
{
	int code;

	errno = 0;
	if (!fflush(stdout) && !ferror(stdout))
		return 0;
	code = errno ? errno : EIO; /* an earlier write has failed, and nobody kept its errno */
	return inc_err_set(err, code, "stdout: %s", strerror(code));
}

#endif
