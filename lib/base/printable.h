/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a peer has said and somebody's terminal will show: logs, errors, incctl. A terminal
 * obeys escape sequences, and a reader is fooled by forged lines and reversed text, so neither
 * passes here.
 */
#ifndef INC_PRINTABLE_H
#define INC_PRINTABLE_H

/*
 * Changes the text in place, never its length: white space becomes blanks; other control
 * characters (C0, C1, DEL), those that turn the direction of writing, line separators and
 * whatever is not UTF-8 become '?', one per byte.
 */
void inc_printable(char *text);

#endif
