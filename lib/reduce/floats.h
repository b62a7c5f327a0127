/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Floating-point numbers through switches that know integers only. docs/floats.md says what comes
 * out; here is who calls what:
 *
 * MIN, MAX: inc_float_to_order(), a MIN or MAX of integers of the same size (int32 or int16) by
 * the switch, inc_float_from_order(). Exact.
 *
 * SUM and AVG in shared-exponent fixed point, in phases that all ranks run alike:
 *
 *	inc_fixed_init()	says how
 *	inc_fixed_heads()	heads of all blocks: MAX of uint8, INC_FIXED_HEAD_BYTES each
 *	inc_fixed_special()	if the result says so, inc_fixed_kinds(): OR of uint8, 1 an element
 *	inc_fixed_put()		elements: SUM of int32, one an element
 *	inc_fixed_get()		makes the result of the sums
 *
 * The second phase is for vectors with infinities or NaN in them alone, and all ranks know from
 * the first one whether there are any. Who knows a bound of all values beforehand goes without the
 * first two: inc_fixed_put_scaled() and inc_fixed_get_scaled().
 *
 * A vector may be handled in chunks: first is the place of a chunk's first element in the vector,
 * and heads are always those of the whole vector; values, kinds, integers and results are
 * the chunk's. Everything is computed in integers, but for a mean's quotient: that is a double,
 * whose error is too small to be seen in an element (float_bits.h). So neither the rounding mode
 * nor "flush to zero" of the calling thread has a say.
 *
 * As in operate.h: any thread, nothing kept or allocated, any alignment, any count. Buffers must
 * not overlap, except that a function whose source and destination elements have the same size may
 * work in place.
 */
#ifndef INC_FLOATS_H
#define INC_FLOATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/base/err.h"
#include "lib/proto/desc.h"

/* _(NAME, name, bits, of these after the binary point) */
#define INC_FLOATS(_)               \
	_(FLOAT32, float32, 32, 23) \
	_(FLOAT16, float16, 16, 10) \
	_(BFLOAT16, bfloat16, 16, 7)

enum inc_float {
#define _(NAME, name, bits, mantissa_bits) INC_##NAME,
	INC_FLOATS(_)
#undef _
		INC_N_FLOATS
};

/* Bytes of an element. */
size_t inc_float_size(enum inc_float type);

/*
 * values to integers of the same size, signed, in the order of the numbers: -inf least, -0 below
 * +0, +inf greatest. A NaN becomes the integer that wins under op (INC_OPERATOR_MIN or _MAX).
 */
void inc_float_to_order(enum inc_float type, enum inc_operator op, void *keys, const void *values,
			size_t count);
/* And back, every bit as it was; what is beyond the infinities becomes the type's quiet NaN. */
void inc_float_from_order(enum inc_float type, void *values, const void *keys, size_t count);

/*
 * dst[i] = src[i] / divisor, rounded once, to nearest, ties to even. Infinities stay, a NaN becomes
 * the type's quiet one. divisor: 1 to INC_MAX_RANKS.
 */
void inc_float_divide(enum inc_float type, void *dst, const void *src, size_t count,
		      uint32_t divisor);

/*
 * How a vector becomes integers. Elements first..first + block - 1, first a multiple of
 * block, share an exponent e: every finite one of them, on all ranks, is below 2^e. A rank's
 * integer is the element in units of 2^(e - bits), rounded to nearest, ties to even: 2^bits at
 * most, and world * 2^bits is less than 2^31, so that no sum wraps. Each rank is wrong by half a
 * unit at most, the sum therefore by world / 2 units; the result is that sum, rounded once more to
 * the type.
 */
struct inc_fixed {
	enum inc_float type;
	uint32_t block;    /* elements */
	uint32_t world;    /* ranks */
	unsigned int bits; /* 30 for one rank, 28 for four, 18 for 4096 */
};

/* A good block where nothing is known of the data: heads are less than 1 % of the elements. */
#define INC_FIXED_BLOCK 64

/* -EINVAL: block is 0, or world not 1 to INC_MAX_RANKS. */
int inc_fixed_init(struct inc_fixed *f, enum inc_float type, uint32_t block, uint32_t world,
		   struct inc_err *err);

/* What is known of a block before its elements are sent: MAX of each byte over all ranks. */
struct inc_fixed_head {
	uint8_t exponent; /* of the largest finite element: e + 126, 0 for all below 2^-126 */
	uint8_t special;  /* 1: an infinity or NaN is among them */
};
#define INC_FIXED_HEAD_BYTES sizeof(struct inc_fixed_head)

/* Blocks of a vector of count elements; the last one may be short. */
size_t inc_fixed_blocks(const struct inc_fixed *f, size_t count);

/* The heads of this rank's own values, which begin with a block. */
void inc_fixed_heads(const struct inc_fixed *f, struct inc_fixed_head *heads, const void *values,
		     size_t count);

/* Is any of these blocks special? */
bool inc_fixed_special(const struct inc_fixed_head *heads, size_t blocks);

/* What an element is; the OR over all ranks says what becomes of it. */
enum inc_fixed_kind {
	INC_FIXED_POSITIVE = 1, /* +inf */
	INC_FIXED_NEGATIVE = 2, /* -inf; with the other one: NaN */
	INC_FIXED_NAN = 4,
};

/* kinds[i]: the kind of values[i], 0 where it is finite. */
void inc_fixed_kinds(const struct inc_fixed *f, uint8_t *kinds, const void *values, size_t count);

/*
 * fixed[i], int32_t: values[i] as this rank's part of the sum; of what is not finite, anything:
 * inc_fixed_get() does not look at it. heads: of all ranks. -ERANGE: a value does not fit its head,
 * so heads are not the maxima that they should be; fixed is worthless.
 */
int inc_fixed_put(const struct inc_fixed *f, void *fixed, const void *values,
		  const struct inc_fixed_head *heads, size_t first, size_t count,
		  struct inc_err *err);

/*
 * values[i] = the sum sums[i] (int32_t) divided by divisor (1: SUM; the number of ranks: AVG),
 * rounded once, to nearest, ties to even; infinite where it is beyond the type's largest number. A
 * sum of 0 is +0, a mean that is rounded to 0 from below -0. kinds: the OR over all ranks, for
 * these elements, or NULL: the special blocks, if any, become NaN altogether. divisor: 1 to
 * INC_MAX_RANKS.
 */
void inc_fixed_get(const struct inc_fixed *f, void *values, const void *sums,
		   const struct inc_fixed_head *heads, const uint8_t *kinds, size_t first,
		   size_t count, uint32_t divisor);

/* Bounds that the one-pass form takes: 2^exponent. */
#define INC_FIXED_MIN_EXPONENT (-126)
#define INC_FIXED_MAX_EXPONENT 128

/*
 * In one pass: the caller knows, and gives alike on all ranks, an exponent that every finite
 * element is below 2^exponent. -ERANGE: values[first..] has one that is not, or is not finite; err
 * names the first such, and fixed is worthless. -EINVAL: exponent is out of its bounds.
 */
int inc_fixed_put_scaled(const struct inc_fixed *f, void *fixed, const void *values, int exponent,
			 size_t first, size_t count, struct inc_err *err);
/* values[i] from sums[i], with the exponent that they were put with; divisor as above. */
void inc_fixed_get_scaled(const struct inc_fixed *f, void *values, const void *sums, int exponent,
			  size_t count, uint32_t divisor);

#endif
