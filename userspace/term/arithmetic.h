/* SPDX-License-Identifier: BSD-2-Clause */
/* What a node's INC_TERM_DO_REDUCE asks for. Any thread; nothing kept. */
#ifndef INC_TERM_ARITHMETIC_H
#define INC_TERM_ARITHMETIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How the elements in a communicator's messages are to be read. */
struct inc_term_form {
	/* Floats are added as they are (docs/floats.md); else they are the integers of their size.
	 * AND, OR and XOR are of the bits either way. */
	bool native_floats;
	bool swapped; /* elements are in the other byte order than the machine's */
};

/*
 * into = source[0] op source[1] op ..., always in this order: bytes of elements, operator and type
 * those of desc (INC_DESC), one that inc_desc_known() knows. AVG is SUM, which the ranks divide. n:
 * 1 to INC_COMM_MAX_CHILDREN. into may be exactly one of the sources.
 */
void inc_term_reduce(const struct inc_term_form *form, uint32_t desc, void *into,
		     const void *const *source, uint32_t n, size_t bytes);

#endif
