/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes text of peers safe to print in logs, errors and incctl. A terminal obeys escape sequences,
 * and forged lines or reversed text mislead a reader, so these functions replace them. Also makes
 * lists of names that may be too long.
 */
#ifndef INC_PRINTABLE_H
#define INC_PRINTABLE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Changes the text in place, never its length. White space becomes blanks. Other control
 * characters (C0, C1, DEL), characters that change the direction of writing, line separators and
 * bytes that are not UTF-8 become '?', one per byte.
 */
void inc_printable(char *text);

/* Whether text is a word: at least one character, all of them printable ASCII and no blanks. The
 * locale does not matter, because both ends of a connection must agree. */
bool inc_is_word(const char *text);
/* Makes a word of a text that is not empty: other bytes become '?'. */
void inc_make_word(char *text);

/* A list such as "rank 2, rank 5" in a buffer. If an item has no room there, the list ends with
 * " and more". */
struct inc_list {
	char *buf;
	size_t size, used;
	bool has_ended;
};

/* Begins an empty list. The buffer has room for " and more" at least. */
struct inc_list inc_list_begin(char *buf, size_t size);
void inc_list_add(struct inc_list *list, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
