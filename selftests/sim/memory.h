/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counts what processes have allocated. The linker replaces malloc() and its like with functions of
 * memory.c, for the product and libevent. A process that is killed loses all its memory, and one
 * that has ended must have freed it. An allocation can be made to fail. Dynamically linked
 * libraries do not count, except those that accept an allocator, such as jansson.
 */
#ifndef SIM_MEMORY_H
#define SIM_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include "task.h"

/* How many allocations have failed, in all runs. */
extern uint64_t memory_failures;

/* Called once in a program. */
void memory_open(void);
/* Called before a run: no allocation is set to fail. */
void memory_begin(void);
/* The n-th allocation of this process from now on fails; 0: none fails. */
void memory_fail(const struct process *process, uint64_t n);
/* The process whose allocation has failed; NULL: none. */
const struct process *memory_failed(void);
/* The number of the process' pieces of memory, and the size of the first one for the message. */
size_t memory_pieces(const struct process *process, size_t *size);
/* Frees the memory of a process that was killed. */
void memory_free(const struct process *process);

#endif
