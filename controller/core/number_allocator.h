/* SPDX-License-Identifier: BSD-2-Clause */
/* Allocates the numbers of groups and communicators, which are unique over restarts of the
 * controller (number_allocator.c). */
#ifndef INC_NUMBER_ALLOCATOR_H
#define INC_NUMBER_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/base/err.h"

struct inc_core;

/* The allocated numbers. Those from first to next - 1 are from this controller, or from an earlier
 * one with its database. The skipped numbers among them are not, because another controller has
 * allocated these. */
struct inc_number_allocator {
	uint32_t first, next;
	uint32_t *skipped; /* the skipped numbers, in ascending order from first on */
	size_t n_skipped, skipped_room;
};

/* Initialises an allocator whose first number is random. Returns 0, or -EIO with the reason. */
int inc_number_allocator_init(struct inc_number_allocator *numbers, struct inc_err *err);
void inc_number_allocator_free(struct inc_number_allocator *numbers);
/* Continues with the numbers `first` to `next` - 1 of the database. The earlier controller may have
 * allocated some more after its last transaction, so a range behind these is left out. */
void inc_number_allocator_restore(struct inc_number_allocator *numbers, uint32_t first,
				  uint32_t next);

/* Whether this number is in use, because another controller has allocated it for an object. */
typedef bool inc_number_in_use(struct inc_core *core, uint32_t number);
/* Allocates a number that no object has. Returns 0 if there is no memory. */
uint32_t inc_number_allocate(struct inc_number_allocator *numbers, inc_number_in_use *in_use,
			     struct inc_core *core);
/* Whether this controller, or an earlier one with its database, has ever allocated the number. */
bool inc_number_was_allocated(const struct inc_number_allocator *numbers, uint32_t number);

#endif
