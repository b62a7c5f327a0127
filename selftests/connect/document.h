/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads docs/connect.md, so that tests can compare it with the tables of the code. */
#ifndef CONNECT_TEST_DOCUMENT_H
#define CONNECT_TEST_DOCUMENT_H

#include <stdbool.h>
#include <stddef.h>

/* Returns the whole document. The caller frees it. */
char *document_read(void);

/* Returns the text from the heading "## title" to the next heading of this level. The caller frees
 * it. */
char *document_section(const char *title);

/* Copies cell n, counted from 0, of a table's first row whose first cell is `first`. Returns false
 * if there is no such row. */
bool document_cell(const char *text, const char *first, unsigned int n, char *cell, size_t size);

#endif
