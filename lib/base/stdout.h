/* SPDX-License-Identifier: BSD-2-Clause */
/* The standard streams of programs. Call these on the main thread. */
#ifndef INC_STDOUT_H
#define INC_STDOUT_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "lib/base/err.h"

/* Opens /dev/null in place of standard streams that are closed. Daemons call this before they open
 * anything. Without it a socket could get one of these numbers, and what is printed or logged would
 * be sent through it. */
static inline void inc_stdio_hold(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

/* Flushes stdout. Returns 0 if all output of the program was written, else -errno and "stdout:
 * why". */
static inline int inc_stdout_flush(struct inc_err *err)
{
	int code;

	errno = 0;
	if (!fflush(stdout) && !ferror(stdout))
		return 0;
	/* errno is still 0 if only an earlier write to stdout has failed, because its errno is
	 * lost */
	code = errno ? errno : EIO;
	return inc_err_set(err, code, "stdout: %s", strerror(code));
}

#endif
