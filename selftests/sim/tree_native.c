// SPDX-License-Identifier: BSD-2-Clause
/* The expected result for floats that switches add natively. Each switch adds its children's values
 * in the order of the lowest ranks below them, and rounds once. A rank's result is compared with
 * it. selftests/reduce has the arithmetic. Other files use the same names, so room.mk makes its
 * symbols local. */
#include <string.h>
#include "selftests/reduce/numbers.h"
#include "sim.h"
#include "tree_priv.h"

/* One element of a call, and the sum of one switch for it. */
struct sum {
	const struct tree_call *call;
	unsigned int number;
	size_t i;
	enum inc_float type;
	unsigned int children;
	long double value; /* sum of the children that were added so far */
	/* bits of the value that was added last; they are the result if there is one child */
	uint32_t bits;
};

static void add(struct sum *s, uint32_t bits)
{
	const long double value = any_float_value(s->type, bits);

	s->value = s->children++ ? float_result((enum inc_operator)s->call->op, s->value, value)
				 : value;
	s->bits = bits;
}

/* Finds the child of `top` that is this switch or is above this switch. Returns NULL if this switch
 * is not below `top`. */
static const struct tree_switch *child_towards(const struct tree_switch *sw,
					       const struct tree_switch *top)
{
	while (sw && sw->parent != top)
		sw = sw->parent;
	return sw;
}

static uint32_t sum_of(const struct tree_switch *sw, const struct sum *wanted)
{
	struct sum s = *wanted;
	const struct tree_switch *child;
	uint32_t added = 0;
	unsigned int r;

	for (r = 0; r < tree.n_ranks; r++) {
		if (tree.rank[r].at == sw) {
			add(&s, float_bits(s.type, tree.rank[r].call[s.number].given, s.i));
			continue;
		}
		child = child_towards(tree.rank[r].at, sw);
		if (!child || added >> child->number & 1)
			continue;
		added |= 1u << child->number;
		add(&s, sum_of(child, wanted));
	}
	return s.children == 1 ? s.bits : any_float_nearest(s.type, s.value);
}

void tree_native_reduce(struct tree_call *call, unsigned int number)
{
	struct sum s = {.call = call,
			.number = number,
			.type = (enum inc_float)(call->dtype - INCCL_FLOAT32)};
	const size_t n = tree_send_bytes(call, 0) / inccl_dtype_size(call->dtype);
	uint32_t bits;

	for (s.i = 0; s.i < n; s.i++) {
		bits = sum_of(&tree.sw[0], &s);
		if (call->op == INCCL_AVG)
			bits = any_float_nearest(s.type,
						 any_float_value(s.type, bits) / tree.n_ranks);
		set_float_bits(s.type, call->expected, s.i, bits);
	}
}
