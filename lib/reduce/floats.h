/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reductions of floating-point numbers by switches that add integers only. docs/floats.md has the
 * results; the calls are:
 *
 * MIN, MAX: inc_float_to_order(), a MIN or MAX of integers of the same size (int16 to int64) by
 * the switch, inc_float_from_order(). Exact.
 *
 * SUM and AVG use fixed point with a shared exponent, in phases that all ranks run alike:
 *
 *	inc_fixed_init()	chooses the parameters
 *	inc_fixed_heads()	heads of all blocks: MAX of uint8, INC_FIXED_HEAD_BYTES each
 *	inc_fixed_special()	if true, inc_fixed_kinds(): OR of uint8, one an element
 *	inc_fixed_put()		elements: SUM of int32, of int64 for float64, one an element
 *	inc_fixed_get()		converts the sums to the result
 *
 * The second phase is only for vectors with infinities or NaN. All ranks learn from the first phase
 * whether there are any. If the caller knows a bound of all values, inc_fixed_put_scaled() and
 * inc_fixed_get_scaled() replace all phases by one.
 *
 * A vector may be processed in chunks. first is the index of a chunk's first element in the vector,
 * and heads are always those of the whole vector. Values, kinds, integers and results are those
 * of the chunk. Everything is computed in integers, except the quotients of floats of up to 32
 * bits. These are doubles, whose error is too small to change an element (float_bits.h). So the
 * calling thread's rounding mode and "flush to zero" do not matter.
 *
 * Like in operate.h: any thread, no state, no allocation, any alignment, any count. Buffers must
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

/* The types of up to 32 bits: _(NAME, name, bits, bits after the binary point) */
#define INC_NARROW_FLOATS(_)        \
	_(FLOAT32, float32, 32, 23) \
	_(FLOAT16, float16, 16, 10) \
	_(BFLOAT16, bfloat16, 16, 7)

/* all types */
#define INC_FLOATS(_) INC_NARROW_FLOATS(_) _(FLOAT64, float64, 64, 52)

enum inc_float {
#define _(NAME, name, bits, mantissa_bits) INC_##NAME,
	INC_FLOATS(_)
#undef _
		INC_N_FLOATS
};

/* Returns the bytes of an element. */
size_t inc_float_size(enum inc_float type);

/*
 * Maps values to signed integers of the same size that have the order of the numbers: -inf least,
 * -0 below +0, +inf greatest. A NaN becomes the integer that wins under op (INC_OPERATOR_MIN or
 * _MAX).
 */
void inc_float_to_order(enum inc_float type, enum inc_operator op, void *keys, const void *values,
			size_t count);
/* Maps the integers back to floats, bit by bit. Integers beyond the infinities become the type's
 * quiet NaN. */
void inc_float_from_order(enum inc_float type, void *values, const void *keys, size_t count);

/*
 * dst[i] = src[i] / divisor, rounded once, to nearest, ties to even. Infinities stay, a NaN
 * becomes the type's quiet NaN. divisor: 1 to INC_MAX_RANKS.
 */
void inc_float_divide(enum inc_float type, void *dst, const void *src, size_t count,
		      uint32_t divisor);

/*
 * The parameters by which a vector becomes integers, int32_t, or int64_t for float64. Elements
 * first..first + block - 1, first a multiple of block, share an exponent e, and every finite one of
 * them, on all ranks, is below 2^e. A rank's integer is the element in units of 2^(e - bits),
 * rounded to nearest, ties to even. It is at most 2^bits, and world * 2^bits is less than 2^31 (or
 * 2^63), so no sum wraps. Each rank's error is at most half a unit, so the error of the sum is at
 * most world / 2 units. The result is that sum, rounded once more to the type.
 */
struct inc_fixed {
	enum inc_float type;
	uint32_t block; /* number of elements of a block */
	uint32_t world; /* number of ranks */
	/* each integer of a rank is at most 2^bits; bits is 30 for one rank, 28 for four, 18 for
	 * 4096, and 32 more for float64 */
	unsigned int bits;
};

/* Returns the bytes of an integer: 4, or 8 for float64. */
size_t inc_fixed_bytes(enum inc_float type);

/* A good number of elements of a block for unknown data, with which the heads are less than 1 % of
 * the elements. */
#define INC_FIXED_BLOCK 64

/* Chooses the parameters. Returns 0. -EINVAL: block is 0, or world is not 1 to INC_MAX_RANKS. */
int inc_fixed_init(struct inc_fixed *f, enum inc_float type, uint32_t block, uint32_t world,
		   struct inc_err *err);

/* The head of a block: the properties that ranks exchange before the block's elements. The result
 * is the MAX of each byte over all ranks. */
struct inc_fixed_head {
	/* exponent of the largest finite element: e + 126, or 0 for all elements below 2^-126. For
	 * float64 e is a multiple of 8: (e + 1016) / 8, or 0 for all elements below 2^-1016. */
	uint8_t exponent;
	uint8_t special; /* 1: the block has an infinity or NaN */
};
#define INC_FIXED_HEAD_BYTES sizeof(struct inc_fixed_head)

/* Returns the number of blocks of a vector with count elements. The last one may be short. */
size_t inc_fixed_blocks(const struct inc_fixed *f, size_t count);

/* Computes the heads of this rank's values, which begin at a block's first element. */
void inc_fixed_heads(const struct inc_fixed *f, struct inc_fixed_head *heads, const void *values,
		     size_t count);

/* Whether any of these blocks is special, that is, has an infinity or NaN. */
bool inc_fixed_special(const struct inc_fixed_head *heads, size_t blocks);

/* The kind of an element that is not finite. The OR over all ranks determines the result. */
enum inc_fixed_kind {
	INC_FIXED_POSITIVE = 1, /* +inf */
	INC_FIXED_NEGATIVE = 2, /* -inf; together with +inf: NaN */
	INC_FIXED_NAN = 4,
};

/* Sets kinds[i] to the kind of values[i], which is 0 if the value is finite. */
void inc_fixed_kinds(const struct inc_fixed *f, uint8_t *kinds, const void *values, size_t count);

/*
 * Sets fixed[i] to values[i] as this rank's part of the sum. For a value that is not
 * finite it is arbitrary, because inc_fixed_get() ignores it. The heads are those of all ranks. It
 * returns -ERANGE if a value exceeds its head, because then heads are not the maxima over all
 * ranks; fixed is invalid.
 */
int inc_fixed_put(const struct inc_fixed *f, void *fixed, const void *values,
		  const struct inc_fixed_head *heads, size_t first, size_t count,
		  struct inc_err *err);

/*
 * Sets values[i] to the sum sums[i] divided by divisor (1 for SUM, the number of ranks
 * for AVG; at most INC_MAX_RANKS). It is rounded once, to nearest, ties to even, and infinite if
 * it exceeds the type's largest number. A sum of 0 is +0; a negative mean that is rounded to 0 is
 * -0. The kinds are the OR over all ranks, for these elements. If kinds is NULL, all elements of
 * special blocks become NaN.
 */
void inc_fixed_get(const struct inc_fixed *f, void *values, const void *sums,
		   const struct inc_fixed_head *heads, const uint8_t *kinds, size_t first,
		   size_t count, uint32_t divisor);

/* Bounds of the parameter exponent in the form with one pass: -126 to 128, or -1016 to 1024 for
 * float64. */
int inc_fixed_min_exponent(enum inc_float type);
int inc_fixed_max_exponent(enum inc_float type);

/*
 * The form with one pass. Every finite element is below 2^exponent, and all ranks pass the same
 * exponent. It returns -ERANGE if values[first..] has an element that is not below 2^exponent or
 * not finite. In that case err names the first such element, and fixed is invalid. It returns
 * -EINVAL if exponent is out of its bounds.
 */
int inc_fixed_put_scaled(const struct inc_fixed *f, void *fixed, const void *values, int exponent,
			 size_t first, size_t count, struct inc_err *err);
/* Sets values[i] from sums[i], with the exponent that inc_fixed_put_scaled() received. divisor: as
 * for inc_fixed_get(). */
void inc_fixed_get_scaled(const struct inc_fixed *f, void *values, const void *sums, int exponent,
			  size_t count, uint32_t divisor);

#endif
