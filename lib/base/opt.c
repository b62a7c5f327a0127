/* SPDX-License-Identifier: BSD-2-Clause */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/opt.h"

int inc_usage(const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	/* a value may be quoted in the text: it must not make a second line */
	for (char *p = text; *p; p++)
		if (iscntrl((unsigned char)*p))
			*p = ' ';
	fprintf(stderr, "%s: %s (see --help)\n", program_invocation_short_name, text);
	return -EINVAL;
}

int inc_opt_number(const char *option, const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
	unsigned long long v;
	char *end;

	errno = 0;
	v = strtoull(text, &end, 10);
	if (!isdigit((unsigned char)*text) || *end || errno || v < min || v > max)
		return inc_usage("%s: '%s' is not a number from %llu to %llu", option, text,
				 (unsigned long long)min, (unsigned long long)max);
	*out = v;
	return 0;
}

int inc_opt_uint(const char *option, const char *text, unsigned int min, unsigned int max,
		 unsigned int *out)
{
	uint64_t v;
	int ret = inc_opt_number(option, text, min, max, &v);

	if (!ret)
		*out = v;
	return ret;
}

int inc_opt_path(const char *option, const char *text)
{
	return *text ? 0 : inc_usage("%s: '' is not the path of a file", option);
}

int inc_opt_name(const char *option, const char *text, const char *const names[], int n)
{
	char list[512] = "";
	int i;

	for (i = 0; i < n; i++)
		if (!strcmp(text, names[i]))
			return i;
	for (i = 0; i < n; i++) {
		strncat(list, i ? ", " : "", sizeof(list) - strlen(list) - 1);
		strncat(list, names[i], sizeof(list) - strlen(list) - 1);
	}
	return inc_usage("%s: '%s' is not one of %s", option, text, list);
}
