/* SPDX-License-Identifier: BSD-2-Clause */
/* The reference for sums of native floats (harness_node.h). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>
#include "lib/proto/desc.h"
#include "selftests/reduce/numbers.h"
#include "selftests/term/harness_node.h"

/* stands for the sum of all children, where a function expects a child's number */
#define SUM UINT32_MAX

/* A result that is stored for later calls, because millions of orders use the same messages. */
struct memo {
	struct ref_floats f;
	uint32_t child;
	bool filled;
	uint8_t bytes[REF_FLOATS_BYTES];
};

bool ref_are_floats(uint32_t desc)
{
	return INC_DESC_DTYPE(desc) >= INC_DTYPE_FLOAT32 &&
	       INC_DESC_DTYPE(desc) <= INC_DTYPE_FLOAT64 && inc_all_give(desc) &&
	       (INC_DESC_OP(desc) <= INC_OPERATOR_PROD || INC_DESC_OP(desc) == INC_OPERATOR_AVG);
}

static enum inc_float type_of(const struct ref_floats *f)
{
	return (enum inc_float)(INC_DESC_DTYPE(f->desc) - INC_DTYPE_FLOAT32);
}

static uint32_t size_of(const struct ref_floats *f)
{
	return inc_element_bytes(f->desc);
}

static bool same(const struct ref_floats *a, const struct ref_floats *b)
{
	return a->desc == b->desc && a->length == b->length && a->number == b->number &&
	       a->n_children == b->n_children && a->swapped == b->swapped;
}

/* The entry in which a result is stored, or is to be stored. */
static struct memo *remembered(const struct ref_floats *f, uint32_t child)
{
	static struct memo memos[256];
	struct memo *m = &memos[(f->number * 67 + child + f->length * 5) % 256];

	if (!same(&m->f, f) || m->child != child)
		m->filled = false;
	m->f = *f;
	m->child = child;
	return m;
}

static void turn_round(const struct ref_floats *f, uint8_t *bytes)
{
	const uint32_t size = size_of(f);
	uint32_t i, b;

	for (i = 0; f->swapped && i < f->length; i += size)
		for (b = 0; b < size / 2; b++) {
			uint8_t keep = bytes[i + b];

			bytes[i + b] = bytes[i + size - 1 - b];
			bytes[i + size - 1 - b] = keep;
		}
}

/* Two of any four children have large numbers, which cancel each other. The order decides whether
 * the small numbers of the others are lost in rounding. */
static long double part_value(uint32_t child, uint64_t *common, uint64_t *own)
{
	const long double large = 16384 + 64 * random_below(common, 256);

	if (child % 4 == 1)
		return -large;
	return child % 4 == 2 ? large : (1 + random_below(own, 1000)) / (3.0L * 16384);
}

const uint8_t *ref_floats_part(const struct ref_floats *f, uint32_t child)
{
	struct memo *m = remembered(f, child);
	uint64_t common = f->number + 1, own = f->number * 65 + child;
	uint32_t i;

	if (m->filled)
		return m->bytes;
	for (i = 0; i < f->length / size_of(f); i++)
		set_float_bits(type_of(f), m->bytes, i,
			       float_nearest(type_of(f), part_value(child, &common, &own)));
	turn_round(f, m->bytes);
	m->filled = true;
	return m->bytes;
}

static long double element(const struct ref_floats *f, uint32_t child, uint32_t i)
{
	uint8_t part[REF_FLOATS_BYTES];

	memcpy(part, ref_floats_part(f, child), f->length);
	turn_round(f, part);
	return any_float_value(type_of(f), float_bits(type_of(f), part, i));
}

/* Adds the children's values, beginning with the child `first`. After the last child the addition
 * continues with child 0. */
static void reduce(const struct ref_floats *f, uint32_t first, uint8_t *bytes)
{
	const enum inc_float type = type_of(f);
	uint32_t c, i;

	for (i = 0; i < f->length / size_of(f); i++) {
		long double x = element(f, first, i);

		for (c = 1; c < f->n_children; c++)
			x = float_result(type, INC_DESC_OP(f->desc), x,
					 element(f, (first + c) % f->n_children, i));
		set_float_bits(type, bytes, i, any_float_nearest(type, x));
	}
}

static void check_precision(const struct ref_floats *f, const uint8_t *bytes)
{
	/* half a unit in the last place, for a half float */
	static const double half_ulp[] = {0, 0x1p-11, 0x1p-8, 0};
	const enum inc_float type = type_of(f);
	uint32_t i, c;

	for (i = 0; i < f->length / size_of(f); i++) {
		double sum = 0, all = 0, is = (double)float_value(type, float_bits(type, bytes, i));

		for (c = 0; c < f->n_children; c++) {
			sum += (double)element(f, c, i);
			all += fabs((double)element(f, c, i));
		}
		assert_true(fabs(is - sum) <=
			    (f->n_children - 1) * (type == INC_FLOAT64 ? 0x1p-52 : 0x1p-24) * all +
				    half_ulp[type] * fabs(is));
	}
}

const uint8_t *ref_floats_sum(const struct ref_floats *f)
{
	struct memo *m = remembered(f, SUM);
	uint8_t bytes[REF_FLOATS_BYTES];

	if (m->filled)
		return m->bytes;
	reduce(f, 0, bytes);
	if (INC_DESC_OP(f->desc) == INC_OPERATOR_SUM)
		check_precision(f, bytes);
	turn_round(f, bytes);
	/* computes the entry again, because a child's value may have overwritten it */
	m = remembered(f, SUM);
	memcpy(m->bytes, bytes, f->length);
	m->filled = true;
	return m->bytes;
}

bool ref_floats_order_matters(const struct ref_floats *f)
{
	uint8_t one[REF_FLOATS_BYTES], other[REF_FLOATS_BYTES];

	reduce(f, 0, one);
	reduce(f, 2 % f->n_children, other);
	return memcmp(one, other, f->length);
}
