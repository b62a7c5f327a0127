/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Computes with one floating-point element as the bits that represent it, without a branch, so
 * that the compiler vectorizes the loops around it. A conversion to float or double by the CPU is
 * either exact, or a quotient with more correct bits than are used.
 *
 * The functions inc_float_*() are for elements of up to 32 bits. Those of inc_wide_*() compute in
 * 64 bits, with integers only. They are for float64, and for all types where speed does not matter.
 */
#ifndef INC_FLOAT_BITS_H
#define INC_FLOAT_BITS_H

#include <stdint.h>
#include <string.h>
#include "lib/reduce/floats.h"

struct inc_float_format {
	int32_t mantissa_bits; /* number of mantissa bits after the binary point */
	int32_t bias;          /* bias of the exponent field */
	uint32_t sign;         /* mask of the sign bit */
	uint32_t inf;          /* bits of +inf, and mask of the exponent field */
	uint32_t nan;          /* bits of the quiet NaN that results have */
};

#define INC_FLOAT_INF(bits, mantissa_bits) ((1u << ((bits)-1)) - (1u << (mantissa_bits)))

static const struct inc_float_format inc_float_formats[] = {
#define _(NAME, name, bits, mantissa)                               \
	[INC_##NAME] = {.mantissa_bits = (mantissa),                \
			.bias = (1 << ((bits)-2 - (mantissa))) - 1, \
			.sign = 1u << ((bits)-1),                   \
			.inf = INC_FLOAT_INF(bits, mantissa),       \
			.nan = INC_FLOAT_INF(bits, mantissa) | 1u << ((mantissa)-1)},
	INC_NARROW_FLOATS(_)
#undef _
};

/* the same for all types */
struct inc_wide_format {
	int32_t mantissa_bits;
	int32_t bias;
	uint64_t sign;
	uint64_t inf;
	uint64_t nan;
};

#define INC_WIDE_INF(bits, mantissa_bits) ((1ull << ((bits)-1)) - (1ull << (mantissa_bits)))

static const struct inc_wide_format inc_wide_formats[INC_N_FLOATS] = {
#define _(NAME, name, bits, mantissa)                               \
	[INC_##NAME] = {.mantissa_bits = (mantissa),                \
			.bias = (1 << ((bits)-2 - (mantissa))) - 1, \
			.sign = 1ull << ((bits)-1),                 \
			.inf = INC_WIDE_INF(bits, mantissa),        \
			.nan = INC_WIDE_INF(bits, mantissa) | 1ull << ((mantissa)-1)},
	INC_FLOATS(_)
#undef _
};

#define INC_ELEMENT static inline __attribute__((always_inline))

/* The mantissa and exponent of a finite magnitude: |x| = mantissa * 2^exponent, exactly. */
INC_ELEMENT uint32_t inc_float_mantissa(const struct inc_float_format *f, uint32_t magnitude)
{
	uint32_t hidden = 1u << f->mantissa_bits;

	return (magnitude & (hidden - 1)) | (magnitude >= hidden ? hidden : 0);
}

INC_ELEMENT int32_t inc_float_exponent(const struct inc_float_format *f, uint32_t magnitude)
{
	int32_t field = (int32_t)(magnitude >> f->mantissa_bits);

	return (field > 0 ? field : 1) - f->bias - f->mantissa_bits;
}

/* Returns x / 2^right, rounded to the nearest integer, ties to even. x is at most 2^31. */
INC_ELEMENT uint32_t inc_shift_rounded(uint32_t x, int32_t right)
{
	uint32_t by = right < 31 ? (uint32_t)right : 31;
	uint32_t half = (1u << by) >> 1;
	uint32_t odd = x >> by & 1;
	uint32_t up = half > 0 ? half - 1 + odd : 0;

	return right > 31 ? 0 : (x + up) >> by;
}

/* Returns x * 2^left, rounded to the nearest integer, ties to even, if the result fits. */
INC_ELEMENT uint32_t inc_scale_rounded(uint32_t x, int32_t left)
{
	uint32_t up = left > 0 ? (uint32_t)left & 31 : 0;

	return inc_shift_rounded(x << up, left < 0 ? -left : 0);
}

/* Returns the element times 2^shift as a rounded integer, if the result fits. */
INC_ELEMENT int32_t inc_float_to_fixed(const struct inc_float_format *f, uint32_t element,
				       int32_t shift)
{
	uint32_t magnitude = element & (f->sign - 1);
	uint32_t q = inc_scale_rounded(inc_float_mantissa(f, magnitude),
				       inc_float_exponent(f, magnitude) + shift);

	return (int32_t)(element & f->sign ? 0 - q : q);
}

/* Returns the index of the highest set bit of x, 0 to 31. x is not 0. */
INC_ELEMENT int32_t inc_top_bit(uint32_t x)
{
	int32_t eight = x >= 1u << 24 ? 8 : 0;
	float exact = (float)(int32_t)(x >> eight);
	int32_t bits;

	memcpy(&bits, &exact, sizeof(bits));
	return (bits >> 23) - 127 + eight;
}

/* Returns the magnitude of the element nearest to x * 2^exponent, ties to even. It is +inf if that
 * exceeds the largest number. */
INC_ELEMENT uint32_t inc_float_round(const struct inc_float_format *f, uint32_t x, int32_t exponent)
{
	int32_t top = inc_top_bit(x);
	int32_t field = top + exponent + f->bias;
	/* a number below the least exponent is a denormal, whose mantissa has fewer bits */
	int32_t least = field > 1 ? field : 1;
	uint32_t mantissa = inc_scale_rounded(x, f->mantissa_bits - top - (least - field));
	/* if the mantissa is rounded up to the next power of two, it increments the exponent */
	uint32_t magnitude = ((uint32_t)(least - 1) << f->mantissa_bits) + mantissa;

	magnitude = magnitude < f->inf ? magnitude : f->inf;
	return x > 0 ? magnitude : 0;
}

/*
 * Returns the magnitude of the element nearest to |x| / divisor * 2^exponent. The quotient as a
 * double has a relative error of at most 2^-52 in any rounding mode. A quotient that is not
 * half-way between two elements is at least 2^-36 of it away from half-way. So its first bits, and
 * whether any follow, decide the rounding.
 */
INC_ELEMENT uint32_t inc_float_round_quotient(const struct inc_float_format *f, int32_t x,
					      int32_t exponent, uint32_t divisor)
{
	double quotient = (double)x / divisor;
	uint64_t bits, mantissa;
	uint32_t first;
	int32_t top;

	memcpy(&bits, &quotient, sizeof(bits));
	top = (int32_t)(bits >> 52 & 2047) - 1023;
	mantissa = (bits & ((1ull << 52) - 1)) | 1ull << 52;
	first = (uint32_t)(mantissa >> 22) | ((mantissa & ((1u << 22) - 1)) > 0);
	/* a quotient of 0 has exponent -1023, which rounds to 0 */
	return inc_float_round(f, first, exponent + top - 30);
}

/* Returns the element nearest to sum * 2^exponent. */
INC_ELEMENT uint32_t inc_float_from_fixed(const struct inc_float_format *f, int32_t sum,
					  int32_t exponent)
{
	uint32_t x = sum < 0 ? 0 - (uint32_t)sum : (uint32_t)sum;

	return inc_float_round(f, x, exponent) | (sum < 0 ? f->sign : 0);
}

INC_ELEMENT uint32_t inc_float_mean_from_fixed(const struct inc_float_format *f, int32_t sum,
					       int32_t exponent, uint32_t divisor)
{
	return inc_float_round_quotient(f, sum, exponent, divisor) | (sum < 0 ? f->sign : 0);
}

INC_ELEMENT uint32_t inc_float_divided(const struct inc_float_format *f, uint32_t element,
				       uint32_t divisor)
{
	uint32_t magnitude = element & (f->sign - 1);
	/* masks select the results here, because the compiler would make a branch of a choice that
	 * skips the quotient */
	uint32_t finite = 0 - (uint32_t)(magnitude < f->inf);
	uint32_t nan = 0 - (uint32_t)(magnitude > f->inf);
	uint32_t quotient = inc_float_round_quotient(f, (int32_t)inc_float_mantissa(f, magnitude),
						     inc_float_exponent(f, magnitude), divisor);
	uint32_t signed_one = (quotient & finite) | (f->inf & ~finite) | (element & f->sign);

	return (signed_one & ~nan) | (f->nan & nan);
}

/* --- 64 bits: each function does what the one above does, whose name has float in place of wide */

INC_ELEMENT uint64_t inc_wide_mantissa(const struct inc_wide_format *f, uint64_t magnitude)
{
	uint64_t hidden = 1ull << f->mantissa_bits;

	return (magnitude & (hidden - 1)) | (magnitude >= hidden ? hidden : 0);
}

INC_ELEMENT int32_t inc_wide_exponent(const struct inc_wide_format *f, uint64_t magnitude)
{
	int32_t field = (int32_t)(magnitude >> f->mantissa_bits);

	return (field > 0 ? field : 1) - f->bias - f->mantissa_bits;
}

/* x is at most 2^63. */
INC_ELEMENT uint64_t inc_wide_scale_rounded(uint64_t x, int32_t left)
{
	uint32_t right = left < 0 ? (uint32_t)-left : 0, by = right < 63 ? right : 63;
	uint64_t half = (1ull << by) >> 1, shifted = x << (left > 0 ? left & 63 : 0);
	uint64_t up = half > 0 ? half - 1 + (shifted >> by & 1) : 0;

	return right > 63 ? 0 : (shifted + up) >> by;
}

INC_ELEMENT int64_t inc_wide_to_fixed(const struct inc_wide_format *f, uint64_t element,
				      int32_t shift)
{
	uint64_t magnitude = element & (f->sign - 1);
	uint64_t q = inc_wide_scale_rounded(inc_wide_mantissa(f, magnitude),
					    inc_wide_exponent(f, magnitude) + shift);

	return (int64_t)(element & f->sign ? 0 - q : q);
}

/* Returns 0 for 0, too. */
INC_ELEMENT int32_t inc_wide_top_bit(uint64_t x)
{
	return 63 - __builtin_clzll(x | 1);
}

INC_ELEMENT uint64_t inc_wide_round(const struct inc_wide_format *f, uint64_t x, int32_t exponent)
{
	int32_t top = inc_wide_top_bit(x);
	int32_t field = top + exponent + f->bias;
	int32_t least = field > 1 ? field : 1;
	uint64_t mantissa = inc_wide_scale_rounded(x, f->mantissa_bits - top - (least - field));
	uint64_t magnitude = ((uint64_t)(least - 1) << f->mantissa_bits) + mantissa;

	magnitude = magnitude < f->inf ? magnitude : f->inf;
	return x > 0 ? magnitude : 0;
}

INC_ELEMENT uint64_t inc_wide_from_fixed(const struct inc_wide_format *f, int64_t sum,
					 int32_t exponent)
{
	uint64_t x = sum < 0 ? 0 - (uint64_t)sum : (uint64_t)sum;

	return inc_wide_round(f, x, exponent) | (sum < 0 ? f->sign : 0);
}

/* The quotient has at least 61 correct bits in front of a last one, which is set if the rest is not
 * 0. These decide the rounding. divisor: at most 2^16. */
INC_ELEMENT uint64_t inc_wide_mean_from_fixed(const struct inc_wide_format *f, int64_t sum,
					      int32_t exponent, uint32_t divisor)
{
	uint64_t x = sum < 0 ? 0 - (uint64_t)sum : (uint64_t)sum, quotient, rest;
	int32_t up = 63 - inc_wide_top_bit(x), more = inc_wide_top_bit(divisor);

	x <<= up;
	quotient = x / divisor << more;
	rest = x % divisor << more;
	quotient += rest / divisor;
	quotient = quotient >> 1 | (quotient & 1) | (rest % divisor > 0);
	return inc_wide_round(f, quotient, exponent + 1 - up - more) | (sum < 0 ? f->sign : 0);
}

#endif
