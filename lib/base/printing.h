/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For programs that a signal ends in an orderly way. The signal's handler sets a flag, which the
 * program cannot check while a write to stdout blocks because its reader does not read. So such a
 * write is given one more second. Only for programs in which one thread prints.
 */
#ifndef INC_PRINTING_H
#define INC_PRINTING_H

void inc_printing_begin(void);
void inc_printing_end(void);
/* Called by the signal's handler. If a write to stdout is under way and still blocks a second
 * later, the program exits at once, with exit code 1. */
void inc_printing_stop(void);

#endif
