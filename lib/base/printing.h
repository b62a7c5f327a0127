/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For programs that end by a signal in an orderly way: their handler sets a flag, which nothing
 * looks at while a write to stdout waits for a reader that does not read. So such a write gets one
 * second more. For programs with one thread that prints.
 */
#ifndef INC_PRINTING_H
#define INC_PRINTING_H

void inc_printing_begin(void);
void inc_printing_end(void);
/* From the signal's handler. Where the program is printing and still is a second later, it ends at
 * once, with exit code 1. */
void inc_printing_stop(void);

#endif
