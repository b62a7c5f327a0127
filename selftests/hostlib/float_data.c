/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <string.h>
#include "selftests/hostlib/float_data.h"

/* a type in which sums of these numbers are exact */
#if LDBL_MANT_DIG >= 113
typedef long double quad;
#else
typedef __float128 quad;
#endif

struct format {
	unsigned int mantissa_bits, exponent_bits;
};

static const struct format *format_of(enum inccl_dtype dtype)
{
	static const struct format formats[] = {{23, 8}, {10, 5}, {7, 8}, {52, 11}};

	return &formats[dtype - INCCL_FLOAT32];
}

static bool is_wide(enum inccl_dtype dtype)
{
	return dtype == INCCL_FLOAT64;
}

uint64_t float_bits(enum inccl_dtype dtype, const void *array, size_t i)
{
	if (is_wide(dtype))
		return ((const uint64_t *)array)[i];
	return dtype == INCCL_FLOAT32 ? ((const uint32_t *)array)[i] : ((const uint16_t *)array)[i];
}

static void put_bits(enum inccl_dtype dtype, void *array, size_t i, uint64_t bits)
{
	if (is_wide(dtype))
		((uint64_t *)array)[i] = bits;
	else if (dtype == INCCL_FLOAT32)
		((uint32_t *)array)[i] = (uint32_t)bits;
	else
		((uint16_t *)array)[i] = (uint16_t)bits;
}

double float_value(enum inccl_dtype dtype, uint64_t bits)
{
	const struct format *f = format_of(dtype);
	const int bias = (1 << (f->exponent_bits - 1)) - 1;
	uint64_t mantissa = bits & ((1ull << f->mantissa_bits) - 1);
	int exponent = bits >> f->mantissa_bits & ((1 << f->exponent_bits) - 1);
	double v;

	if (exponent == (1 << f->exponent_bits) - 1)
		v = mantissa ? NAN : INFINITY;
	else if (exponent)
		v = ldexp((double)(mantissa | 1ull << f->mantissa_bits),
			  exponent - bias - (int)f->mantissa_bits);
	else
		v = ldexp((double)mantissa, 1 - bias - (int)f->mantissa_bits);
	return bits >> (f->mantissa_bits + f->exponent_bits) & 1 ? -v : v;
}

uint64_t float_nan(enum inccl_dtype dtype)
{
	static const uint64_t nans[] = {0x7fc00000, 0x7e00, 0x7fc0, 0x7ff8000000000000};

	return nans[dtype - INCCL_FLOAT32];
}

static uint32_t next_random(uint32_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 17;
	*x ^= *x << 5;
	return *x;
}

/* Returns random bits, as many as an element of the type has at least. */
static uint64_t next_bits(enum inccl_dtype dtype, uint32_t *x)
{
	const uint64_t low = next_random(x);

	return is_wide(dtype) ? (uint64_t)next_random(x) << 32 | low : low;
}

void float_fill(enum inccl_dtype dtype, void *array, size_t count, uint32_t seed, bool special)
{
	const struct format *f = format_of(dtype);
	const uint64_t bias = (1u << (f->exponent_bits - 1)) - 1;
	const uint64_t inf = ((1ull << f->exponent_bits) - 1) << f->mantissa_bits;
	const uint64_t sign = 1ull << (f->mantissa_bits + f->exponent_bits);
	const uint32_t below = is_wide(dtype) ? 48 : 16;
	uint32_t x = seed * 2654435761u + 1;
	uint64_t bits;
	size_t i;

	for (i = 0; i < count; i++) {
		bits = next_bits(dtype, &x) & (sign | ((1ull << f->mantissa_bits) - 1));
		/* A normal number up to 2^FLOAT_BELOW with random mantissa bits. Float64 has more
		 * exponents, because those of its blocks are rounded. */
		bits |= (bias + FLOAT_BELOW - below + (next_random(&x) >> 8) % below)
			<< f->mantissa_bits;
		if (next_random(&x) % 16 == 0)
			bits &= sign;
		if (i % 11 == 4)
			bits = ((bias + FLOAT_BELOW) << f->mantissa_bits) - 1;
		if (special && i % 37 == 5 && next_random(&x) % 2)
			bits = i % 3 ? inf | (bits & sign) : inf | 1 | (bits & sign);
		put_bits(dtype, array, i, bits);
	}
}

void float_fill_any(enum inccl_dtype dtype, void *array, size_t count, uint32_t seed)
{
	uint32_t x = seed * 2654435761u + 1;

	for (size_t i = 0; i < count; i++)
		put_bits(dtype, array, i, next_bits(dtype, &x));
}

static double given_value(const struct float_given *given, unsigned int rank, size_t i)
{
	return float_value(given->dtype, float_bits(given->dtype, given->of_rank[rank], i));
}

/* The largest magnitude in the block of element i, over all ranks. */
static double largest(const struct float_given *given, size_t i)
{
	double most = is_wide(given->dtype) ? 0x1p-1016 : 0x1p-126, v;
	size_t first, k;

	if (!given->block)
		return ldexp(1, FLOAT_BELOW - 1);
	first = i / given->block * given->block;
	for (unsigned int r = 0; r < given->ranks; r++)
		for (k = first; k < first + given->block && k < given->count; k++) {
			v = fabs(given_value(given, r, k));
			if (isfinite(v) && v > most)
				most = v;
		}
	return most;
}

/* The distance from a number of this size to the type's next larger number. */
static double ulp(enum inccl_dtype dtype, uint64_t bits)
{
	const struct format *f = format_of(dtype);

	bits &= ~(1ull << (f->mantissa_bits + f->exponent_bits));
	return float_value(dtype, bits + 1) - float_value(dtype, bits);
}

/* Returns by how much a sum may differ from the exact one. The integers of float64 have 32 bits
 * more, and its exponents are multiples of 8. */
static double bound_of(const struct float_given *given, size_t i)
{
	const int bits = (int)given->bits + (is_wide(given->dtype) ? 32 : 0);
	const int step = is_wide(given->dtype) && given->block ? 7 : 0;

	return given->ranks * ldexp(largest(given, i), step - bits);
}

static void check_sum(const struct float_given *given, bool mean, size_t i, uint64_t bits)
{
	quad exact = 0, error;
	double ieee = 0, bound;

	for (unsigned int r = 0; r < given->ranks; r++) {
		exact += given_value(given, r, i);
		ieee += given_value(given, r, i);
	}
	if (isnan(ieee)) {
		assert_int_equal(bits, float_nan(given->dtype));
		return;
	}
	if (isinf(ieee)) {
		assert_true(float_value(given->dtype, bits) == ieee);
		return;
	}
	bound = bound_of(given, i);
	if (mean) {
		exact /= given->ranks;
		bound /= given->ranks;
	}
	bound += ulp(given->dtype, bits) / 2;
	/* the division that makes the mean rounds its result, too */
	bound *= 1 + 0x1p-40;
	error = exact - float_value(given->dtype, bits);
	error = error < 0 ? -error : error;
	if (!(error <= bound))
		fail_msg("%s of %s: element %zu of %zu: 0x%jx (%g) for %.17Lg: wrong by %Lg, bound "
			 "%g",
			 mean ? "avg" : "sum", inccl_dtype_name(given->dtype), i, given->count,
			 (uintmax_t)bits, float_value(given->dtype, bits), (long double)exact,
			 (long double)error, bound);
}

static bool is_less(double a, double b)
{
	return a < b || (a == b && signbit(a) && !signbit(b));
}

void float_check(const struct float_given *given, enum inccl_op op, size_t i, uint64_t bits)
{
	uint64_t want = float_bits(given->dtype, given->of_rank[0], i), other;
	double a, b;

	if (op == INCCL_SUM || op == INCCL_AVG) {
		check_sum(given, op == INCCL_AVG, i, bits);
		return;
	}
	for (unsigned int r = 1; r < given->ranks; r++) {
		other = float_bits(given->dtype, given->of_rank[r], i);
		a = float_value(given->dtype, want);
		b = float_value(given->dtype, other);
		if (isnan(a) || isnan(b))
			want = float_nan(given->dtype);
		else if (op == INCCL_MIN ? is_less(b, a) : is_less(a, b))
			want = other;
	}
	if (isnan(float_value(given->dtype, want)))
		want = float_nan(given->dtype);
	assert_int_equal(bits, want);
}
