/* SPDX-License-Identifier: BSD-2-Clause */
/* docs/connect.md, which tests compare with the tables of the code. */
#ifndef CONNECT_TEST_DOCUMENT_H
#define CONNECT_TEST_DOCUMENT_H

#include <stdbool.h>
#include <stddef.h>

/* All of it, to be freed. */
char *document_read(void);

/* What stands from "## title" to the next of its kind; to be freed. */
char *document_section(const char *title);

/* Cell n, from 0, of the first row of a table whose first cell is first. False: there is no such.
 */
bool document_cell(const char *text, const char *first, unsigned int n, char *cell, size_t size);

#endif
