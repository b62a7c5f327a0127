// SPDX-License-Identifier: BSD-2-Clause
/* What floats make that switches add as they are: each switch those of its children in the order of
 * their ranks, the lowest below a child, and rounds once. Called for a rank's result.
 * selftests/reduce has the arithmetic, by names that others have, too: the Makefile keeps them
 * inside. */
#include <string.h>
#include "selftests/reduce/numbers.h"
#include "sim.h"
#include "tree_priv.h"

/* A call's element that is added up, from all ranks; and what each switch makes of it. */
struct sum {
	const struct tree_call *call;
	unsigned int number;
	size_t i;
	enum inc_float type;
	unsigned int children;
	long double value; /* of the children so far */
	uint32_t bits;     /* of a child alone */
};

static void add(struct sum *s, uint32_t bits)
{
	const long double value = any_float_value(s->type, bits);

	s->value = s->children++ ? float_result((enum inc_operator)s->call->op, s->value, value)
				 : value;
	s->bits = bits;
}

/* The switch by whose cable this one is below the other; NULL: it is not. */
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
