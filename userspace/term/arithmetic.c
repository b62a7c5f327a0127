/* SPDX-License-Identifier: BSD-2-Clause */
#include "lib/proto/desc.h"
#include "lib/reduce/many.h"
#include "userspace/term/arithmetic.h"
#include "userspace/term/node.h"

_Static_assert(INC_COMM_MAX_CHILDREN <= INC_REDUCE_MOST, "one call takes all that children give");

/* The integer type as which a switch that reduces no floats treats each type on the wire.
 * INC_GUISES has the size and sign of those that are not integers; hosts have mapped their elements
 * to such integers before. */
#define INTEGER_1_0 INC_DTYPE_UINT8
#define INTEGER_2_1 INC_DTYPE_INT16
#define INTEGER_4_1 INC_DTYPE_INT32
static const enum inc_dtype integers[INC_N_WIRE_DTYPES] = {
#define _(NAME, name, bytes, sign) [INC_DTYPE_##NAME] = INC_DTYPE_##NAME,
	INC_DTYPES(_)
#undef _
#define _(NAME, name, bytes, sign) [INC_DTYPE_##NAME] = INTEGER_##bytes##_##sign,
		INC_GUISES(_)
#undef _
};

void inc_term_reduce(const struct inc_term_form *form, uint32_t desc, void *into,
		     const void *const *source, uint32_t n, size_t bytes)
{
	struct inc_reduction r = {
		.op = INC_DESC_OP(desc),
		.type = INC_DESC_DTYPE(desc),
		.swapped = form->swapped,
	};

	/* bitwise operators are not defined for floats, so they work on the integer of the same
	 * size */
	if (!form->native_floats || !inc_can_reduce(r.op, r.type))
		r.type = integers[r.type];
	inc_reduce_many(&r, into, source, n, bytes / inc_element_bytes(desc));
}
