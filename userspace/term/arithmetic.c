/* SPDX-License-Identifier: BSD-2-Clause */
#include "lib/proto/desc.h"
#include "lib/reduce/many.h"
#include "userspace/term/arithmetic.h"
#include "userspace/term/node.h"

_Static_assert(INC_COMM_MAX_CHILDREN <= INC_REDUCE_MOST, "one call takes all that children give");

/* For each element type on the wire, the integer type as which a switch that does not add floats
 * reduces it. INC_GUISES has the size and sign of the types that are no integers, whose elements
 * hosts have mapped to such integers. */
#define INTEGER_1_0  INC_DTYPE_UINT8
#define INTEGER_2_1  INC_DTYPE_INT16
#define INTEGER_4_1  INC_DTYPE_INT32
#define INTEGER_8_1  INC_DTYPE_INT64
#define INTEGER_16_1 INC_DTYPE_INT64_INDEX /* two integers */
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

	/* a bitwise operator reduces floats as integers of the same size, because floats have no
	 * such operators */
	if (!form->native_floats || !inc_can_reduce(r.op, r.type))
		r.type = integers[r.type];
	inc_reduce_many(&r, into, source, n, bytes / inc_element_bytes(desc));
}
