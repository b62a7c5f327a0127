/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* MIN and MAX of floats as ordered integers: the order, NaN, zeros and infinities, and the
 * conversion back. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "lib/reduce/floats.h"
#include "lib/reduce/operate.h"
#include "selftests/reduce/numbers.h"

#define MANY 20011

static enum inc_dtype key_type(enum inc_float type)
{
	return type == INC_FLOAT32 ? INC_DTYPE_INT32 : INC_DTYPE_INT16;
}

static bool is_nan(enum inc_float type, uint32_t bits)
{
	return (bits & (sign_bit(type) - 1)) > infinity(type);
}

/* The expected result of two elements by the rules of floats.h. Infinities are beyond all
 * numbers. */
static uint32_t expected(enum inc_float type, enum inc_operator op, uint32_t x, uint32_t y)
{
	bool max = op == INC_OPERATOR_MAX;
	long double a, b;

	if (is_nan(type, x) || is_nan(type, y))
		return quiet_nan(type);
	a = x == infinity(type) ? HUGE_VALL : float_value(type, x);
	b = y == infinity(type) ? HUGE_VALL : float_value(type, y);
	if (x == (infinity(type) | sign_bit(type)))
		a = -HUGE_VALL;
	if (y == (infinity(type) | sign_bit(type)))
		b = -HUGE_VALL;
	if (a == b) /* equal zeros: the positive one is greater */
		return ((x & sign_bit(type)) != 0) == max ? y : x;
	return (a > b) == max ? x : y;
}

/* Reduces the elements of two ranks as the host library and a switch do. */
static void reduce_pair(enum inc_float type, enum inc_operator op, void *result, const void *x,
			const void *y, size_t count)
{
	static uint8_t keys[2][4 * 65536 + 1];

	inc_float_to_order(type, op, keys[0] + 1, x, count);
	inc_float_to_order(type, op, keys[1], y, count);
	inc_reduce(op, key_type(type), keys[0] + 1, keys[0] + 1, keys[1], count);
	inc_float_from_order(type, result, keys[0] + 1, count);
}

static void check_pairs(enum inc_float type, const void *x, const void *y, size_t count)
{
	static uint8_t result[4 * 65536];
	const enum inc_operator ops[] = {INC_OPERATOR_MIN, INC_OPERATOR_MAX};
	size_t o, i;

	for (o = 0; o < 2; o++) {
		reduce_pair(type, ops[o], result, x, y, count);
		for (i = 0; i < count; i++) {
			uint32_t a = float_bits(type, x, i), b = float_bits(type, y, i);
			uint32_t want = expected(type, ops[o], a, b);

			if (float_bits(type, result, i) != want)
				fail_msg("%s: %s of %x and %x is %x, not %x", float_name(type),
					 o ? "max" : "min", a, b, float_bits(type, result, i),
					 want);
		}
	}
}

static uint32_t extremes(enum inc_float type, unsigned int i)
{
	const uint32_t all[] = {0,
				1,
				least_normal(type) - 1,
				least_normal(type),
				largest(type),
				infinity(type),
				infinity(type) + 1,
				quiet_nan(type),
				sign_bit(type) - 1};

	return i < 9 ? all[i] : all[i - 9] | sign_bit(type);
}

static void extreme_pairs(void **state)
{
	uint8_t x[4 * 18 * 18], y[4 * 18 * 18];
	unsigned int i;
	int type;

	for (type = 0; type < INC_N_FLOATS; type++) {
		for (i = 0; i < 18 * 18; i++) {
			set_float_bits(type, x, i, extremes(type, i / 18));
			set_float_bits(type, y, i, extremes(type, i % 18));
		}
		check_pairs(type, x, y, 18 * 18);
	}
}

static void random_pairs(void **state)
{
	static uint8_t x[4 * MANY], y[4 * MANY];
	uint64_t seed = 3;
	int type;
	size_t i;

	for (type = 0; type < INC_N_FLOATS; type++) {
		for (i = 0; i < MANY; i++) {
			uint32_t a = (uint32_t)random_u64(&seed), b = (uint32_t)random_u64(&seed);

			/* pairs of near numbers alternate with random ones */
			set_float_bits(type, x, i, a);
			set_float_bits(type, y, i, i % 2 ? a + b % 5 - 2 : b);
		}
		check_pairs(type, x, y, MANY);
	}
}

/* Compares every 16-bit element with its successor, its negative and itself, which proves that the
 * order is total. */
static void every_element(void **state)
{
	static uint16_t x[65536], y[65536];
	int type;
	uint32_t i;

	for (type = INC_FLOAT16; type < INC_N_FLOATS; type++) {
		for (i = 0; i < 65536; i++)
			x[i] = (uint16_t)i;
		for (i = 0; i < 65536; i++)
			y[i] = (uint16_t)(i + 1);
		check_pairs(type, x, y, 65536);
		for (i = 0; i < 65536; i++)
			y[i] = (uint16_t)(i ^ 0x8000);
		check_pairs(type, x, y, 65536);
		check_pairs(type, x, x, 65536);
	}
}

/* Converting to ordered integers and back gives the same bits, for both operators. */
static void there_and_back(void **state)
{
	uint64_t seed = 4;
	uint32_t x, key, back;
	int i;

	for (i = 0; i < 200000; i++) {
		x = (uint32_t)random_u64(&seed);
		if (is_nan(INC_FLOAT32, x))
			continue;
		inc_float_to_order(INC_FLOAT32, i % 2 ? INC_OPERATOR_MIN : INC_OPERATOR_MAX, &key,
				   &x, 1);
		inc_float_from_order(INC_FLOAT32, &back, &key, 1);
		assert_int_equal(back, x);
	}
}

/* Any NaN wins against every other element, and the result is the quiet NaN. */
static void nan_wins(void **state)
{
	const float values[] = {NAN, -NAN, 1, -1, INFINITY, -INFINITY, 0};
	const enum inc_operator ops[] = {INC_OPERATOR_MIN, INC_OPERATOR_MAX};
	uint32_t result;
	size_t o, i, j;

	for (o = 0; o < 2; o++)
		for (i = 0; i < 2; i++)
			for (j = 0; j < 7; j++) {
				reduce_pair(INC_FLOAT32, ops[o], &result, &values[i], &values[j],
					    1);
				assert_int_equal(result, 0x7fc00000);
				reduce_pair(INC_FLOAT32, ops[o], &result, &values[j], &values[i],
					    1);
				assert_int_equal(result, 0x7fc00000);
			}
}

static void in_place(void **state)
{
	float x[5] = {-0.0f, 3.5f, -INFINITY, 1e-45f, -2};
	const int32_t order[5] = {-1, 0x40600000, -0x7f800001, 1, -0x40000001};
	const float want[5] = {-0.0f, 3.5f, -INFINITY, 1e-45f, -2};

	inc_float_to_order(INC_FLOAT32, INC_OPERATOR_MAX, x, x, 5);
	assert_memory_equal(x, order, sizeof(x));
	inc_float_from_order(INC_FLOAT32, x, x, 5);
	assert_memory_equal(x, want, sizeof(x));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(extreme_pairs), cmocka_unit_test(random_pairs),
		cmocka_unit_test(every_element), cmocka_unit_test(there_and_back),
		cmocka_unit_test(nan_wins),      cmocka_unit_test(in_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
