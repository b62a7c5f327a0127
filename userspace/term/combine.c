/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>
#include "lib/proto/desc.h"
#include "lib/reduce/operate.h"
#include "userspace/term/combine.h"

/* What a switch takes the types of a descriptor for: the integers of their size and sign. */
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

void inc_term_combine(uint32_t desc, void *into, const void *const *source, uint32_t n,
		      size_t bytes)
{
	const size_t count = bytes / inc_element_bytes(desc);
	enum inc_operator op = INC_DESC_OP(desc);
	uint32_t i;

	if (op == INC_OPERATOR_AVG)
		op = INC_OPERATOR_SUM;
	if (into != source[0])
		memcpy(into, source[0], bytes);
	for (i = 1; i < n; i++)
		inc_reduce(op, integers[INC_DESC_DTYPE(desc)], into, into, source[i], count);
}
