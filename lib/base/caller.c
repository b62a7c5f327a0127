/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "lib/base/caller.h"

void inc_caller_explain(char *buf, size_t size, const struct inc_err *err)
{
	if (buf && size)
		snprintf(buf, size, "%s", err->msg);
}

int inc_caller_opts_over(void *known, size_t known_size, const void *given)
{
	const unsigned char *p = given;
	size_t sz, i;

	memcpy(&sz, given, sizeof(sz));
	if (sz < sizeof(sz))
		return -EINVAL;
	memcpy(known, given, sz < known_size ? sz : known_size);
	for (i = known_size; i < sz; i++)
		if (p[i])
			return -E2BIG;
	return 0;
}

int inc_caller_opts(void *known, size_t known_size, const void *given)
{
	memset(known, 0, known_size);
	return given ? inc_caller_opts_over(known, known_size, given) : 0;
}
