// SPDX-License-Identifier: BSD-2-Clause
/* The expected result for floats that switches add natively. Each switch adds its children's values
 * in the order of the lowest ranks below them, and rounds once. A rank's result is compared with
 * it. selftests/reduce has the arithmetic. Other files use the same names, so the Makefile makes
 * its symbols local. */
#include "collective.h"
#include "selftests/reduce/numbers.h"

/* One element of a call, and the sum of one switch for it. */
struct sum {
	const struct collective *call;
	const struct collective_tree *tree;
	const uint8_t *const *given;
	size_t i;
	enum inc_float type;
	unsigned int children;
	long double value; /* sum of the children that were added so far */
	/* bits of the value that was added last; they are the result if there is one child */
	uint64_t bits;
};

static void add(struct sum *s, uint64_t bits)
{
	const long double value = any_float_value(s->type, bits);

	s->value = s->children++
			   ? float_result(s->type, (enum inc_operator)s->call->op, s->value, value)
			   : value;
	s->bits = bits;
}

/* Finds the child of `top` that is this switch or is above this switch. Returns -1 if this switch
 * is not below `top`. */
static int child_towards(const struct collective_tree *tree, int sw, int top)
{
	while (sw >= 0 && tree->parent[sw] != top)
		sw = tree->parent[sw];
	return sw;
}

static uint64_t sum_of(int sw, const struct sum *wanted)
{
	const struct collective_tree *tree = wanted->tree;
	struct sum s = *wanted;
	uint32_t added = 0;
	unsigned int r;
	int child;

	for (r = 0; r < s.call->ranks; r++) {
		if ((int)tree->at[r] == sw) {
			add(&s, float_bits(s.type, s.given[r], s.i));
			continue;
		}
		child = child_towards(tree, (int)tree->at[r], sw);
		if (child < 0 || added >> child & 1)
			continue;
		added |= 1u << child;
		add(&s, sum_of(child, wanted));
	}
	return s.children == 1 ? s.bits : any_float_nearest(s.type, s.value);
}

static int root_of(const struct collective_tree *tree)
{
	int sw = (int)tree->at[0];

	while (tree->parent[sw] >= 0)
		sw = tree->parent[sw];
	return sw;
}

void collective_native(const struct collective *c, const uint8_t *const given[],
		       const struct collective_tree *tree, uint8_t *expected)
{
	struct sum s = {.call = c,
			.tree = tree,
			.given = given,
			.type = (enum inc_float)(c->dtype - INCCL_FLOAT32)};
	const size_t n = collective_send_bytes(c, 0) / inccl_dtype_size(c->dtype);
	const int root = root_of(tree);
	uint64_t bits;

	for (s.i = 0; s.i < n; s.i++) {
		bits = sum_of(root, &s);
		if (c->op == INCCL_AVG)
			bits = any_float_quotient(s.type, any_float_value(s.type, bits), c->ranks);
		set_float_bits(s.type, expected, s.i, bits);
	}
}
