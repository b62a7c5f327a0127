/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Floats that are reduced as they are: what children give, such that every order of addition has
 * another sum, and a reference of what must be made of it.
 */
#ifndef TERM_REF_FLOATS_H
#define TERM_REF_FLOATS_H

#include <stdbool.h>
#include <stdint.h>

#define REF_FLOATS_BYTES 64

/* A message of all children, 64 at most. */
struct ref_floats {
	uint32_t desc;   /* for which ref_are_floats() */
	uint32_t length; /* REF_FLOATS_BYTES at most */
	uint64_t number;
	uint32_t n_children;
	bool swapped; /* elements are in the other byte order than the machine's */
};

/* Is this reduced as the floats that it is, where floats are? */
bool ref_are_floats(uint32_t desc);
/* What a child gives, or what the parent answers (n_children). Stands until the next call. */
const uint8_t *ref_floats_part(const struct ref_floats *f, uint32_t child);
/* What their operator makes of the children's parts, from the first to the last: if that is no sum
 * within the bound of docs/floats.md of one in double precision, the test fails. Stands until the
 * next call. */
const uint8_t *ref_floats_sum(const struct ref_floats *f);
/* Has their sum other bits where it is begun with the third? */
bool ref_floats_order_matters(const struct ref_floats *f);

#endif
