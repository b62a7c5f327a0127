/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "selftests/connect/document.h"

char *document_read(void)
{
	FILE *f = fopen("docs/connect.md", "r"), *out;
	char *text = NULL;
	size_t len;
	int c;

	assert_non_null(f);
	out = open_memstream(&text, &len);
	assert_non_null(out);
	while ((c = getc(f)) != EOF)
		putc(c, out);
	fclose(f);
	assert_int_equal(fclose(out), 0);
	return text;
}

char *document_section(const char *title)
{
	char *text = document_read(), heading[100], *section, *end;

	snprintf(heading, sizeof(heading), "\n## %s\n", title);
	section = strstr(text, heading);
	if (!section)
		fail_msg("docs/connect.md has no section %s", title);
	section += strlen(heading);
	end = strstr(section, "\n## ");
	section = end ? strndup(section, end + 1 - section) : strdup(section);
	free(text);
	return section;
}

bool document_cell(const char *text, const char *first, unsigned int n, char *cell, size_t size)
{
	char row[200];
	const char *at;

	snprintf(row, sizeof(row), "\n| %s |", first);
	at = strstr(text, row);
	if (!at)
		return false;
	for (at += 2; n; n--) {
		at += strcspn(at, "|\n");
		if (*at != '|')
			return false;
		at += strspn(at, "| ");
	}
	snprintf(cell, size, "%.*s", (int)strcspn(at, "|\n"), at);
	while (*cell && cell[strlen(cell) - 1] == ' ')
		cell[strlen(cell) - 1] = '\0';
	return true;
}
