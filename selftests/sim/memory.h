/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counts the memory that processes have allocated. The linker replaces malloc() and its like with
 * functions of memory.c, for the product and libevent. A process that is killed loses all its
 * memory, and one that has ended must have freed it. An allocation can be made to fail. Memory of
 * dynamically linked libraries does not count, except that of libraries that accept an allocator,
 * such as jansson.
 */
#ifndef SIM_MEMORY_H
#define SIM_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include "task.h"

/* Number of allocations that have failed in all runs. */
extern uint64_t memory_failures;

/* Called once in a program. */
void memory_open(void);
/* Called before a run. After this call no allocation is set to fail. */
void memory_begin(void);
/* Lets the n-th allocation of this process from now on fail; 0: none fails. */
void memory_fail(const struct process *process, uint64_t n);
/* The process in which an allocation has failed; NULL: there is none. */
const struct process *memory_failed(void);
/* The number of pieces of memory that the process has. *size: the size of the first piece, for an
 * error message. */
size_t memory_pieces(const struct process *process, size_t *size);
/* Allocates memory of the process that runs, and frees it. For libraries with a cache, whose pieces
 * memory_apart() counts, and memory_pieces() does not. These allocations do not fail, because most
 * failures would be theirs and not the product's. */
void *memory_allocate(size_t size);
void memory_release(void *at);
size_t memory_apart(const struct process *process);
/* Frees the memory of a process that was killed. */
void memory_free(const struct process *process);

#endif
