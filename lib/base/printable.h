/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a peer has said and somebody's terminal will show: logs, errors, incctl. A terminal
 * obeys escape sequences, and a reader is fooled by forged lines and reversed text, so neither
 * passes here.
 */
#ifndef INC_PRINTABLE_H
#define INC_PRINTABLE_H

#include <stdbool.h>

/*
 * Changes the text in place, never its length: white space becomes blanks; other control
 * characters (C0, C1, DEL), those that turn the direction of writing, line separators and
 * whatever is not UTF-8 become '?', one per byte.
 */
void inc_printable(char *text);

/* Is text a word: at least one character, and each of them printable ASCII and no blank? The locale
 * has no say, because both ends of a connection must agree. */
bool inc_is_word(const char *text);
/* Makes one of text that is not empty: other bytes become '?'. */
void inc_make_word(char *text);

#endif
