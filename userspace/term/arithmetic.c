/* SPDX-License-Identifier: BSD-2-Clause */
#include "lib/proto/desc.h"
#include "lib/reduce/many.h"
#include "userspace/term/node.h"

_Static_assert(INC_COMM_MAX_CHILDREN <= INC_REDUCE_MOST, "one call takes all that children give");

void inc_term_reduce(const struct inc_term_form *form, uint32_t desc, void *into,
		     const void *const *source, uint32_t n, size_t bytes)
{
	struct inc_reduction r = {
		.op = INC_DESC_OP(desc),
		.type = INC_DESC_DTYPE(desc),
		.swapped = form->swapped,
	};

	/* a bitwise operator reduces floats as integers of the same size, because floats have no
	 * such operators */
	if (!form->native_floats || !inc_can_reduce(r.op, r.type))
		r.type = inc_reduced_as(r.type);
	inc_reduce_many(&r, into, source, n, bytes / inc_element_bytes(desc));
}
