/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdarg.h>
#include <stdio.h>
#include "lib/base/err.h"
#include "lib/base/printable.h"

int inc_err_set(struct inc_err *err, int code, const char *fmt, ...)
{
	va_list ap;

	if (err) {
		va_start(ap, fmt);
		vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
		va_end(ap);
		inc_printable(err->msg);
	}
	return -code;
}
