/* SPDX-License-Identifier: BSD-2-Clause */
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "selftests/reduce/numbers.h"

_Static_assert(LDBL_MANT_DIG >= 64, "long double holds the sums of the reference");

/* A type in which a quotient has so many bits that rounding it to double is the only rounding that
 * matters. */
#if LDBL_MANT_DIG >= 113
typedef long double quad;
#else
typedef __float128 quad;
#endif

/* the generator splitmix64 */
uint64_t random_u64(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

uint32_t random_below(uint64_t *state, uint32_t limit)
{
	return (uint32_t)((random_u64(state) >> 32) * limit >> 32);
}

static const struct {
	size_t bytes;
	bool has_sign;
} integers[] = {
#define _(NAME, name, bytes, has_sign) {bytes, has_sign},
	INC_DTYPES(_)
#undef _
};

static __int128 integer_of(enum inc_dtype type, uint64_t bits)
{
	size_t bytes = integers[type].bytes;

	if (integers[type].has_sign && bits >> (8 * bytes - 1))
		return (__int128)bits - ((__int128)1 << 8 * bytes);
	return bits;
}

__int128 integer_value(enum inc_dtype type, const void *elements, size_t i)
{
	size_t bytes = integers[type].bytes;
	uint64_t bits = 0;

	memcpy(&bits, (const uint8_t *)elements + i * bytes, bytes);
	return integer_of(type, bits);
}

/* The result of the operator before it wraps to the size of the type. */
static __int128 wide_result(enum inc_operator op, __int128 x, __int128 y)
{
	switch (op) {
	case INC_OPERATOR_SUM:
		return x + y;
	case INC_OPERATOR_MIN:
		return x < y ? x : y;
	case INC_OPERATOR_MAX:
		return x > y ? x : y;
	case INC_OPERATOR_PROD:
		return (__int128)((unsigned __int128)x * (unsigned __int128)y);
	case INC_OPERATOR_AND:
		return x & y;
	case INC_OPERATOR_OR:
		return x | y;
	case INC_OPERATOR_XOR:
		return x ^ y;
	default:
		abort();
	}
}

__int128 integer_result(enum inc_operator op, enum inc_dtype type, __int128 x, __int128 y)
{
	uint64_t bits = (uint64_t)wide_result(op, x, y);

	return integer_of(type, bits & (UINT64_MAX >> (64 - 8 * integers[type].bytes)));
}

void random_integers(void *elements, enum inc_dtype type, size_t count, uint64_t *state)
{
	size_t bytes = integers[type].bytes, i;

	for (i = 0; i < count; i++) {
		uint64_t u = random_u64(state), least = 1ull << (8 * bytes - 1);

		if (u % 8 == 0)
			u = least - 1 + (u >> 32) % 3;
		else if (u % 8 == 1)
			u = (u >> 32) % 5 - 2;
		memcpy((uint8_t *)elements + i * bytes, &u, bytes);
	}
}

const char *float_name(enum inc_float type)
{
	static const char *const names[] = {
#define _(NAME, name, bits, mantissa_bits) #name,
		INC_FLOATS(_)
#undef _
	};

	return names[type];
}

static size_t bytes_of(enum inc_float type)
{
	return (const size_t[]){4, 2, 2, 8}[type];
}

uint64_t float_bits(enum inc_float type, const void *values, size_t i)
{
	const uint8_t *at = (const uint8_t *)values + bytes_of(type) * i;
	uint64_t bits = 0;

	for (size_t b = bytes_of(type); b-- > 0;)
		bits = bits << 8 | at[b];
	return bits;
}

void set_float_bits(enum inc_float type, void *values, size_t i, uint64_t bits)
{
	uint8_t *at = (uint8_t *)values + bytes_of(type) * i;

	for (size_t b = 0; b < bytes_of(type); b++)
		at[b] = (uint8_t)(bits >> 8 * b);
}

uint64_t sign_bit(enum inc_float type)
{
	return 1ull << (8 * bytes_of(type) - 1);
}

/* The bits of infinity in each type, as IEEE 754 and the definition of bfloat16 state them. */
uint64_t infinity(enum inc_float type)
{
	return (const uint64_t[]){0x7f800000, 0x7c00, 0x7f80, 0x7ff0000000000000}[type];
}

uint64_t quiet_nan(enum inc_float type)
{
	return (const uint64_t[]){0x7fc00000, 0x7e00, 0x7fc0, 0x7ff8000000000000}[type];
}

uint64_t largest(enum inc_float type)
{
	return (const uint64_t[]){0x7f7fffff, 0x7bff, 0x7f7f, 0x7fefffffffffffff}[type];
}

uint64_t least_normal(enum inc_float type)
{
	return (const uint64_t[]){0x00800000, 0x0400, 0x0080, 0x0010000000000000}[type];
}

/* The value of the magnitude of a 16-bit float. Infinity counts as the power of two that would
 * follow the largest number. */
static long double narrow_value(int fraction_bits, int bias, uint32_t magnitude)
{
	int field = (int)(magnitude >> fraction_bits);
	long double fraction = magnitude & ((1u << fraction_bits) - 1);

	if (!field)
		return ldexpl(fraction, 1 - bias - fraction_bits);
	return ldexpl(fraction + (1u << fraction_bits), field - bias - fraction_bits);
}

static long double magnitude_value(enum inc_float type, uint64_t magnitude)
{
	const uint32_t low = (uint32_t)magnitude;
	double wider;
	float wide;

	if (type == INC_FLOAT16)
		return narrow_value(10, 15, low);
	if (type == INC_BFLOAT16)
		return narrow_value(7, 127, low);
	if (type == INC_FLOAT64) {
		memcpy(&wider, &magnitude, 8);
		return wider;
	}
	memcpy(&wide, &low, 4);
	return wide;
}

long double float_value(enum inc_float type, uint64_t bits)
{
	long double value = magnitude_value(type, bits & (sign_bit(type) - 1));

	return bits & sign_bit(type) ? -value : value;
}

/* Finds the nearest element by a binary search, because magnitudes are in the order of their
 * values. */
static uint32_t narrow_nearest(enum inc_float type, long double value)
{
	uint32_t low = 0, high = (uint32_t)infinity(type);
	long double below, above;

	if (value >= magnitude_value(type, high))
		return high;
	while (high - low > 1) {
		uint32_t middle = (low + high) / 2;

		if (magnitude_value(type, middle) <= value)
			low = middle;
		else
			high = middle;
	}
	below = value - magnitude_value(type, low);
	above = magnitude_value(type, high) - value;
	if (below == above)
		return low & 1 ? high : low;
	return below < above ? low : high;
}

/* The bits of a value that has been rounded to double or float. */
static uint64_t magnitude_bits(enum inc_float type, double rounded)
{
	const float narrower = (float)rounded;
	uint64_t wide;
	uint32_t bits;

	memcpy(&wide, &rounded, 8);
	memcpy(&bits, &narrower, 4);
	return type == INC_FLOAT64 ? wide : bits;
}

uint64_t float_nearest(enum inc_float type, long double value)
{
	uint64_t sign = signbit(value) ? sign_bit(type) : 0;

	value = fabsl(value);
	if (type == INC_FLOAT64)
		return magnitude_bits(type, (double)value) | sign;
	if (type == INC_FLOAT32)
		return magnitude_bits(type, (float)value) | sign;
	return narrow_nearest(type, value) | sign;
}

uint64_t float_quotient(enum inc_float type, long double value, uint32_t divisor)
{
	if (type == INC_FLOAT64)
		return magnitude_bits(type, (double)((quad)fabsl(value) / divisor)) |
		       (signbit(value) ? sign_bit(type) : 0);
	return float_nearest(type, value / divisor);
}

long double any_float_value(enum inc_float type, uint64_t bits)
{
	uint64_t magnitude = bits & (sign_bit(type) - 1);

	if (magnitude > infinity(type))
		return NAN;
	if (magnitude == infinity(type))
		return bits & sign_bit(type) ? -INFINITY : INFINITY;
	return float_value(type, bits);
}

uint64_t any_float_nearest(enum inc_float type, long double value)
{
	if (isnan(value))
		return quiet_nan(type);
	return isinf(value) ? infinity(type) | (signbit(value) ? sign_bit(type) : 0)
			    : float_nearest(type, value);
}

uint64_t any_float_quotient(enum inc_float type, long double value, uint32_t divisor)
{
	return isfinite(value) ? float_quotient(type, value, divisor)
			       : any_float_nearest(type, value);
}

static bool below(long double x, long double y)
{
	return x < y || (x == y && signbit(x) && !signbit(y));
}

/* Rounds to float32 once. A long double holds every product of two float32s exactly. A sum has
 * enough bits in it that the second rounding makes no difference. Sums and products of float64 are
 * those of the CPU. */
long double float_result(enum inc_float type, enum inc_operator op, long double x, long double y)
{
	const bool wide = type == INC_FLOAT64;

	switch (op) {
	case INC_OPERATOR_SUM:
	case INC_OPERATOR_AVG:
		return wide ? (double)x + (double)y : (float)(x + y);
	case INC_OPERATOR_PROD:
		return wide ? (double)x * (double)y : (float)(x * y);
	case INC_OPERATOR_MIN:
		return isnan(x) || isnan(y) ? NAN : below(x, y) ? x : y;
	case INC_OPERATOR_MAX:
		return isnan(x) || isnan(y) ? NAN : below(x, y) ? y : x;
	default:
		abort();
	}
}

uint64_t random_finite(enum inc_float type, uint64_t *state)
{
	uint64_t sign = random_u64(state) & 1 ? sign_bit(type) : 0;
	uint64_t bits = random_u64(state) & (sign_bit(type) - 1);

	switch (random_below(state, 8)) {
	case 0:
		bits = float_nearest(type, random_below(state, 64));
		break;
	case 1:
		bits = random_below(state, 4);
		break;
	case 2:
		bits = largest(type) - random_below(state, 4);
		break;
	case 3:
		bits = least_normal(type) - 2 + random_below(state, 4);
		break;
	default:
		break;
	}
	return (bits < infinity(type) ? bits : bits % infinity(type)) | sign;
}

#define UNIT_EXPONENT (-1200)

#define SIGNIFICANT 54

void exact_add(struct exact *e, long double value, int32_t factor)
{
	int exponent;
	/* the significant bits of the value, as an integer */
	int64_t integer = (int64_t)ldexpl(frexpl(value, &exponent), SIGNIFICANT);
	int place = exponent - SIGNIFICANT - UNIT_EXPONENT;
	__int128 wide;

	if (!integer)
		return;
	/* shifts out the bits below the unit, which are zeros */
	for (; place < 0; place++)
		integer /= 2;
	wide = (__int128)integer * factor * ((__int128)1 << place % 32);
	e->limb[place / 32] += (int64_t)(wide % ((__int128)1 << 32));
	wide /= (__int128)1 << 32;
	e->limb[place / 32 + 1] += (int64_t)(wide % ((__int128)1 << 32));
	wide /= (__int128)1 << 32;
	e->limb[place / 32 + 2] += (int64_t)(wide % ((__int128)1 << 32));
	e->limb[place / 32 + 3] += (int64_t)(wide / ((__int128)1 << 32));
}

/* Propagates carries. Then all limbs except the last are 0 to 2^32 - 1, and the last has the
 * sign. */
static void carry(struct exact *e)
{
	int i;

	for (i = 0; i < EXACT_LIMBS - 1; i++) {
		int64_t low = e->limb[i] & 0xffffffff;

		e->limb[i + 1] += (e->limb[i] - low) / ((int64_t)1 << 32);
		e->limb[i] = low;
	}
}

bool exact_not_positive(struct exact e)
{
	bool zero = true;
	int i;

	carry(&e);
	for (i = 0; i < EXACT_LIMBS; i++)
		zero = zero && !e.limb[i];
	return zero || e.limb[EXACT_LIMBS - 1] < 0;
}

void exact_absolute(struct exact *e)
{
	int i;

	carry(e);
	if (e->limb[EXACT_LIMBS - 1] >= 0)
		return;
	for (i = 0; i < EXACT_LIMBS; i++)
		e->limb[i] = -e->limb[i];
}
