/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "lib/base/err.h"
#include "lib/base/printable.h"

int inc_err_vset(struct inc_err *err, int code, const char *where, const char *fmt, va_list ap)
{
	int used;

	if (err) {
		used = snprintf(err->msg, sizeof(err->msg), "%s%s", where, *where ? ": " : "");
		if (used < (int)sizeof(err->msg))
			vsnprintf(err->msg + used, sizeof(err->msg) - used, fmt, ap);
		inc_printable(err->msg);
	}
	return -code;
}

int inc_err_set(struct inc_err *err, int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	inc_err_vset(err, code, "", fmt, ap);
	va_end(ap);
	return -code;
}

void inc_err_add(struct inc_err *err, const char *fmt, ...)
{
	size_t len = strlen(err->msg);
	va_list ap;

	if (len && len + 2 < sizeof(err->msg)) {
		strcpy(err->msg + len, "; ");
		len += 2;
	}
	va_start(ap, fmt);
	vsnprintf(err->msg + len, sizeof(err->msg) - len, fmt, ap);
	va_end(ap);
	inc_printable(err->msg);
}

const char *inc_errno_name(int code)
{
	return strerrorname_np(code);
}

int inc_errno_from_name(const char *name)
{
	const char *known;
	int code;

	/* EHWPOISON is the largest errno of Linux */
	for (code = 1; name && code <= EHWPOISON; code++) {
		known = inc_errno_name(code);
		if (known && !strcmp(known, name))
			return code;
	}
	return 0;
}
