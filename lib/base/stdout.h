/* SPDX-License-Identifier: BSD-2-Clause */
/* The end of a program's output. For programs, on their main thread. */
#ifndef INC_STDOUT_H
#define INC_STDOUT_H

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "lib/base/err.h"

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
