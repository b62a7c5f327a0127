/* SPDX-License-Identifier: BSD-2-Clause */
/* The reduction that a node requests by INC_TERM_DO_REDUCE. The function keeps no state, and may be
 * called on any thread. */
#ifndef INC_TERM_ARITHMETIC_H
#define INC_TERM_ARITHMETIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In what form a communicator's elements are reduced. */
struct inc_term_form {
	/* floats are reduced as floats (docs/floats.md); if this is false, as the integers of their
	 * size. AND, OR and XOR work on the bits in either case */
	bool native_floats;
	bool swapped; /* the elements are not in this machine's byte order */
};

/*
 * Sets into = source[0] op source[1] op ..., always in this order. bytes: length of each source.
 * Operator and type are those of desc, which inc_desc_known() must accept. AVG adds, because the
 * ranks divide. n: 1 to INC_COMM_MAX_CHILDREN. into may be one of the sources.
 */
void inc_term_reduce(const struct inc_term_form *form, uint32_t desc, void *into,
		     const void *const *source, uint32_t n, size_t bytes);

#endif
