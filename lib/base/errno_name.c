/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include "lib/base/err.h"

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
