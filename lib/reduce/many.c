/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reduces many sources, in blocks that stay in the first-level cache while one fold after another
 * processes them. So each source is read from memory once, and the result is written once.
 */
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include "lib/reduce/fp_mode.h"
#include "lib/reduce/kernels.h"
#include "lib/reduce/many.h"

/* The size of a block of a part (kernels.h), and the limit of the sources' blocks that are
 * converted for one fold. These blocks, the part, and what the CPU prefetches are together smaller
 * than any first-level cache. */
#define BLOCK_BYTES   4096
#define MOST_PREPARED 4

/* The functions and sizes that process a block for one operator and type. */
struct steps {
	inc_fold fold[INC_FOLD_N_ENDS];
	/* conversions of a source's block, NULL if not needed: swap reverses the bytes of elements,
	 * and order maps floats to integers with the same order */
	void (*swap)(void *dst, const void *src, size_t count);
	const struct inc_float_kernels *order;
	int64_t nan_key;
	size_t bytes; /* size of an element */
	size_t step;  /* a fold processes a multiple of this number of elements */
	size_t block; /* number of elements of a block */
};

static bool as_float(enum inc_dtype type, enum inc_float *is)
{
	switch (type) {
#define _(NAME, name, bits, mantissa_bits) \
	case INC_DTYPE_##NAME:             \
		*is = INC_##NAME;          \
		return true;
		INC_FLOATS(_)
#undef _
	default:
		return false;
	}
}

/* Whether an element is two integers. */
static bool is_pair(enum inc_dtype type)
{
	return inc_element_bytes(INC_DESC(0, 0, type, 0, 0)) == INC_PAIR_BYTES;
}

/* Returns the integer type that represents an element type. A float type is returned unchanged, and
 * so is one whose elements are two integers. */
static enum inc_dtype as_integer(enum inc_dtype type)
{
	switch (type) {
	case INC_DTYPE_AGREED:
		return INC_DTYPE_UINT8;
	case INC_DTYPE_FIXED:
		return INC_DTYPE_INT32;
	case INC_DTYPE_FIXED64:
	case INC_DTYPE_INT32_INDEX:
	case INC_DTYPE_FLOAT32_INDEX:
		return INC_DTYPE_INT64;
	default:
		return type;
	}
}

bool inc_can_reduce(enum inc_operator op, enum inc_dtype type)
{
	enum inc_float is;

	if ((unsigned int)op >= INC_N_WIRE_OPERATORS || (unsigned int)type >= INC_N_WIRE_DTYPES)
		return false;
	if (is_pair(type))
		return op == INC_OPERATOR_MIN || op == INC_OPERATOR_MAX;
	return !as_float(type, &is) || !inc_bitwise(op);
}

static void integer_steps(struct steps *s, const struct inc_kernels *k, enum inc_operator op,
			  enum inc_dtype type)
{
	unsigned int i;

	for (i = 0; i < INC_FOLD_N_ENDS; i++)
		s->fold[i] = k->ints[type]->reduce[op];
}

/* Here the elements are the integers. A fold processes two of them at a time. */
static void pair_steps(struct steps *s, const struct inc_kernels *k, enum inc_operator op)
{
	unsigned int i;

	for (i = 0; i < INC_FOLD_N_ENDS; i++)
		s->fold[i] = k->pairs[op == INC_OPERATOR_MAX];
	s->step = 2;
}

static void float_steps(struct steps *s, const struct inc_kernels *k, enum inc_operator op,
			enum inc_float type)
{
	const struct inc_float_kernels *f = k->floats[type];
	static const enum inc_dtype keys[] = {
		[2] = INC_DTYPE_INT16, [4] = INC_DTYPE_INT32, [8] = INC_DTYPE_INT64};

	if (op == INC_OPERATOR_MIN || op == INC_OPERATOR_MAX) {
		s->order = f;
		s->nan_key = inc_float_nan_key(type, op);
		integer_steps(s, k, op, keys[s->bytes]);
		return;
	}
	memcpy(s->fold, op == INC_OPERATOR_PROD ? f->prod : f->sum, sizeof(s->fold));
	if (s->bytes < sizeof(float)) {
		s->step = INC_FOLD_STEP;
		s->block = BLOCK_BYTES / sizeof(float);
	}
}

static void find_steps(struct steps *s, const struct inc_kernels *k, const struct inc_reduction *r,
		       unsigned int n)
{
	enum inc_operator op = inc_operator_computed(r->op);
	enum inc_dtype type = as_integer(r->type);
	size_t bytes =
		is_pair(type) ? sizeof(int64_t) : inc_element_bytes(INC_DESC(0, 0, type, 0, 0));
	enum inc_float is;

	*s = (struct steps){.bytes = bytes, .step = 1, .block = BLOCK_BYTES / bytes};
	if (r->swapped && bytes > 1 && !inc_bitwise(op))
		s->swap = k->swap[__builtin_ctzll(bytes)];
	if (is_pair(type))
		pair_steps(s, k, op);
	else if (!as_float(type, &is))
		integer_steps(s, k, op, type);
	/* one source needs no operator, so a MIN serves, which only applies the rule for NaN */
	else
		float_steps(s, k, n == 1 ? INC_OPERATOR_MIN : op, is);
}

/* Returns a source's block in the form that folds need: the block itself, or its converted copy in
 * `room`. */
static const void *prepared(const struct steps *s, void *room, const void *src, size_t count)
{
	if (s->swap) {
		s->swap(room, src, count);
		src = room;
	}
	if (s->order) {
		s->order->to_order(room, src, count, s->nan_key);
		src = room;
	}
	return src;
}

static void finish(const struct steps *s, void *dst, size_t count)
{
	if (s->order)
		s->order->from_order(dst, dst, count);
	if (s->swap)
		s->swap(dst, dst, count);
}

/* Returns how many sources the next fold processes, if n sources remain. */
static unsigned int sources_of_fold(const struct steps *s, unsigned int n)
{
	if (n >= INC_FOLD_MOST && !s->swap && !s->order)
		return INC_FOLD_MOST;
	return n >= MOST_PREPARED ? MOST_PREPARED : 2;
}

/* Reduces one block. src: the sources' blocks. dst is written after all of them have been read. */
static void reduce_block(const struct steps *s, void *dst, const void *const *src, unsigned int n,
			 size_t count)
{
	uint8_t room[MOST_PREPARED][BLOCK_BYTES], part[BLOCK_BYTES];
	unsigned int next = 0, have, take, from = 0, to;
	const void *ready[INC_FOLD_MOST];

	if (n == 1)
		memmove(dst, prepared(s, room[0], src[0], count), count * s->bytes);
	for (have = 0; n > 1 && next < n; have = 1, from = INC_FOLD_FROM_PART) {
		take = sources_of_fold(s, have + n - next);
		for (; have < take; have++, next++)
			ready[have] = prepared(s, room[have % MOST_PREPARED], src[next], count);
		to = next < n ? INC_FOLD_TO_PART : 0;
		s->fold[from | to](to ? part : dst, ready, take, count);
		ready[0] = part;
	}
	finish(s, dst, count);
}

/* Reduces the last elements of a vector, which are fewer than a step, by padding them with zeros to
 * a whole step. */
static void reduce_rest(const struct steps *s, void *dst, const void *const *src, unsigned int n,
			size_t count)
{
	uint64_t rest[INC_REDUCE_MOST][INC_FOLD_STEP] = {}, result[INC_FOLD_STEP];
	const void *padded[INC_REDUCE_MOST];
	unsigned int i;

	for (i = 0; i < n; i++)
		padded[i] = memcpy(rest[i], src[i], count * s->bytes);
	reduce_block(s, result, padded, n, s->step);
	memcpy(dst, result, count * s->bytes);
}

static void reduce_blocks(const struct steps *s, uint8_t *dst, const void *const *src,
			  unsigned int n, size_t count)
{
	const void *at[INC_REDUCE_MOST];
	size_t first, now;
	unsigned int i;

	for (first = 0; first < count; first += now) {
		for (i = 0; i < n; i++)
			at[i] = (const uint8_t *)src[i] + first * s->bytes;
		now = count - first < s->block ? count - first : s->block;
		if (now < s->step) {
			reduce_rest(s, dst + first * s->bytes, at, n, now);
			continue;
		}
		now -= now % s->step;
		reduce_block(s, dst + first * s->bytes, at, n, now);
	}
}

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

enum inc_dtype inc_reduced_as(enum inc_dtype type)
{
	return integers[type];
}

int inc_reduce_many_by(const struct inc_kernels *k, const struct inc_reduction *r, void *dst,
		       const void *const *src, unsigned int n, size_t count)
{
	inc_fp_mode mode;
	struct steps s;

	if (!n || n > INC_REDUCE_MOST)
		return -EINVAL;
	if (!inc_can_reduce(r->op, r->type))
		return -EOPNOTSUPP;
	find_steps(&s, k, r, n);
	if (is_pair(r->type))
		count *= INC_PAIR_BYTES / sizeof(int64_t);
	mode = inc_fp_get();
	inc_fp_set(INC_FP_DEFAULT);
	reduce_blocks(&s, dst, src, n, count);
	inc_fp_set(mode);
	return 0;
}

int inc_reduce_many(const struct inc_reduction *r, void *dst, const void *const *src,
		    unsigned int n, size_t count)
{
	return inc_reduce_many_by(inc_kernels(), r, dst, src, n, count);
}
