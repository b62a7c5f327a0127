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

/* This controller, or an earlier one with its database, has allocated all numbers in [first, next)
 * except the skipped ones. Another controller has allocated these. */
struct inc_number_allocator {
	uint32_t first, next;
	uint32_t *skipped; /* in ascending order, counted from first */
	size_t n_skipped, skipped_room;
};

/* Begins at a random number. 0, or -EIO with the reason. */
int inc_number_allocator_init(struct inc_number_allocator *numbers, struct inc_err *err);
void inc_number_allocator_free(struct inc_number_allocator *numbers);
/* Continues where the database ends. The numbers from next on that an earlier controller may have
 * allocated without a trace in the database are passed over. */
void inc_number_allocator_restore(struct inc_number_allocator *numbers, uint32_t first,
				  uint32_t next);

/* Whether an object that this controller did not number has the number. */
typedef bool inc_number_in_use(struct inc_core *core, uint32_t number);
/* A number that no object has. 0: out of memory. */
uint32_t inc_number_allocate(struct inc_number_allocator *numbers, inc_number_in_use *in_use,
			     struct inc_core *core);
/* Whether this controller, or an earlier one with its database, has ever allocated the number. */
bool inc_number_was_allocated(const struct inc_number_allocator *numbers, uint32_t number);

#endif
