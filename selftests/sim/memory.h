/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What processes have allocated: the linker puts what is in memory.c in the place of malloc() and
 * its like for the product and libevent. A process that is killed loses all of it; one that has
 * come to its end has freed it all; and an allocation can fail. What libraries allocate that are
 * linked dynamically, and are not told of it as jansson is, is not counted.
 */
#ifndef SIM_MEMORY_H
#define SIM_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include "task.h"

/* How many allocations have failed, in all runs. */
extern uint64_t memory_failures;

/* Once in a program. */
void memory_open(void);
/* Before a run: nothing fails. */
void memory_begin(void);
/* The n-th allocation of this process from now on fails; 0: none does. */
void memory_fail(const struct process *process, uint64_t n);
/* Whose allocation has failed; NULL: nobody's. */
const struct process *memory_failed(void);
/* How many pieces it has; the size of the first of them, for the message. */
size_t memory_pieces(const struct process *process, size_t *size);
/* Of a process that has been killed. */
void memory_free(const struct process *process);

#endif
