/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reference for sums of native floats. The children's values are such that every order of addition
 * has another sum.
 */
#ifndef TERM_REF_FLOATS_H
#define TERM_REF_FLOATS_H

#include <stdbool.h>
#include <stdint.h>

#define REF_FLOATS_BYTES 64

/* One message of all children, of which there are at most 64. */
struct ref_floats {
	uint32_t desc;   /* a descriptor for which ref_are_floats() is true */
	uint32_t length; /* length of the message, at most REF_FLOATS_BYTES */
	uint64_t number;
	uint32_t n_children;
	bool swapped; /* the elements' byte order is not the machine's */
};

/* Does this descriptor add native floats? */
bool ref_are_floats(uint32_t desc);
/* The values of a child's message, or of the parent's answer (child n_children). The memory is
 * valid until the next call. */
const uint8_t *ref_floats_part(const struct ref_floats *f, uint32_t child);
/* The sum of the children's values, added from the first child to the last. The test fails if this
 * sum differs from one in double precision by more than docs/floats.md allows. The memory is valid
 * until the next call. */
const uint8_t *ref_floats_sum(const struct ref_floats *f);
/* Would the sum have other bits if the addition began with the child that comes third? */
bool ref_floats_order_matters(const struct ref_floats *f);

#endif
