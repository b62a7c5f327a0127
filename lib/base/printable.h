/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes text of peers safe to print in logs, errors and incctl. A terminal obeys escape sequences,
 * and forged lines or reversed text mislead a reader, so these functions replace them.
 */
#ifndef INC_PRINTABLE_H
#define INC_PRINTABLE_H

#include <stdbool.h>

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

#endif
