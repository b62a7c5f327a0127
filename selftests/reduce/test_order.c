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
#include "lib/reduce/kernels.h"
#include "lib/reduce/operate.h"
#include "selftests/reduce/numbers.h"

#define MANY 20011

static enum inc_dtype key_type(enum inc_float type)
{
	return (const enum inc_dtype[]){INC_DTYPE_INT32, INC_DTYPE_INT16, INC_DTYPE_INT16,
					INC_DTYPE_INT64}[type];
}

static bool is_nan(enum inc_float type, uint64_t bits)
{
	return (bits & (sign_bit(type) - 1)) > infinity(type);
}

/* The expected result of two elements by the rules of floats.h. Infinities are beyond all
 * numbers. */
static uint64_t expected(enum inc_float type, enum inc_operator op, uint64_t x, uint64_t y)
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
	static uint8_t keys[2][8 * 65536 + 1];

	inc_float_to_order(type, op, keys[0] + 1, x, count);
	inc_float_to_order(type, op, keys[1], y, count);
	inc_reduce(op, key_type(type), keys[0] + 1, keys[0] + 1, keys[1], count);
	inc_float_from_order(type, result, keys[0] + 1, count);
}

static void check_pairs(enum inc_float type, const void *x, const void *y, size_t count)
{
	static uint8_t result[8 * 65536];
	const enum inc_operator ops[] = {INC_OPERATOR_MIN, INC_OPERATOR_MAX};
	size_t o, i;

	for (o = 0; o < 2; o++) {
		reduce_pair(type, ops[o], result, x, y, count);
		for (i = 0; i < count; i++) {
			uint64_t a = float_bits(type, x, i), b = float_bits(type, y, i);
			uint64_t want = expected(type, ops[o], a, b);

			if (float_bits(type, result, i) != want)
				fail_msg("%s: %s of %jx and %jx is %jx, not %jx", float_name(type),
					 o ? "max" : "min", (uintmax_t)a, (uintmax_t)b,
					 (uintmax_t)float_bits(type, result, i), (uintmax_t)want);
		}
	}
}

static uint64_t extremes(enum inc_float type, unsigned int i)
{
	const uint64_t all[] = {0,
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
	uint8_t x[8 * 18 * 18], y[8 * 18 * 18];
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
	static uint8_t x[8 * MANY], y[8 * MANY];
	uint64_t seed = 3;
	int type;
	size_t i;

	for (type = 0; type < INC_N_FLOATS; type++) {
		for (i = 0; i < MANY; i++) {
			uint64_t a = random_u64(&seed), b = random_u64(&seed);

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

	for (type = INC_FLOAT16; type <= INC_BFLOAT16; type++) {
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

/* --- values with an index --- */

static const size_t index_sizes[] = {8, 8, 16, 16};
static const int32_t indices[] = {0, 1, -1, 7, INT32_MAX, INT32_MIN};
static const double index_values[] = {0, -0.0, 1, -3, INFINITY, -INFINITY, NAN, -NAN};

#define N_INDICES (sizeof(indices) / sizeof(*indices))
#define N_VALUES  (sizeof(index_values) / sizeof(*index_values))

static double indexed_value(enum inc_dtype type, unsigned int k)
{
	const double x = index_values[k / N_INDICES];

	/* integers have no such values */
	if ((type == INC_DTYPE_INT32_INDEX || type == INC_DTYPE_INT64_INDEX) && !isfinite(x))
		return isnan(x) ? 5 : x < 0 ? INT32_MIN : INT32_MAX;
	return x;
}

/* Makes element k of all pairs of values and indices. */
static union indexed make_indexed(enum inc_dtype type, unsigned int k)
{
	const double value = indexed_value(type, k);
	const int32_t index = indices[k % N_INDICES];
	union indexed e = {};

	switch (type) {
	case INC_DTYPE_INT32_INDEX:
		e.int32.value = (int32_t)value;
		e.int32.index = index;
		break;
	case INC_DTYPE_FLOAT32_INDEX:
		e.float32.value = (float)value;
		e.float32.index = index;
		break;
	case INC_DTYPE_INT64_INDEX:
		e.int64.value = (int64_t)value;
		e.int64.index = index;
		e.int64.padding = 77; /* any number */
		break;
	default:
		e.float64.value = value;
		e.float64.index = index;
		e.float64.padding = 77;
		break;
	}
	return e;
}

/* Whether element a is chosen before b by the rules of operate.h. */
static bool before(enum inc_dtype type, bool largest, unsigned int a, unsigned int b)
{
	const double x = indexed_value(type, a), y = indexed_value(type, b);
	const bool nan = isnan(x), other = isnan(y);

	if (nan != other)
		return nan;
	if (!nan && x != y)
		return largest ? x > y : x < y;
	if (!nan && signbit(x) != signbit(y) && type >= INC_DTYPE_FLOAT32_INDEX &&
	    type != INC_DTYPE_INT64_INDEX)
		return (signbit(x) != 0) != largest;
	return indices[a % N_INDICES] < indices[b % N_INDICES];
}

/* Reduces every pair of elements by their keys. The result must be one of the two, with the quiet
 * NaN in place of any NaN, and 0 as padding. */
static void check_index(const struct inc_kernels *k, enum inc_dtype type, bool largest)
{
	const struct inc_index_kernels *index = &k->index[type - INC_DTYPE_INT32_INDEX];
	const struct inc_reduction r = {largest ? INC_OPERATOR_MAX : INC_OPERATOR_MIN, type, false};
	const unsigned int n = N_INDICES * N_VALUES;
	const size_t size = index_sizes[type - INC_DTYPE_INT32_INDEX];

	for (unsigned int a = 0; a < n; a++)
		for (unsigned int b = 0; b < n; b++) {
			union indexed e[2] = {make_indexed(type, a), make_indexed(type, b)}, got;
			union indexed want = e[before(type, largest, b, a)];
			uint8_t keys[2][16];

			if (type == INC_DTYPE_FLOAT32_INDEX && isnan(want.float32.value))
				want.float32.value = NAN;
			if (type == INC_DTYPE_FLOAT64_INDEX && isnan(want.float64.value))
				want.float64.value = NAN;
			if (size == 16)
				want.int64.padding = 0;
			index->to_keys(keys[0], &e[0], 1, largest);
			index->to_keys(keys[1], &e[1], 1, largest);
			assert_int_equal(inc_reduce_many_by(k, &r, keys[0],
							    (const void *const[]){keys[0], keys[1]},
							    2, 1),
					 0);
			index->from_keys(&got, keys[0], 1, largest);
			if (memcmp(&got, &want, size))
				fail_msg("type %d, largest %d: elements %u and %u", type, largest,
					 a, b);
		}
}

static void values_with_index(void **state)
{
	for (unsigned int i = 0; inc_kernel_sets[i]; i++)
		for (int type = INC_DTYPE_INT32_INDEX; type <= INC_DTYPE_FLOAT64_INDEX; type++)
			for (int largest = 0; largest < 2; largest++)
				if (inc_kernel_sets[i]->usable())
					check_index(inc_kernel_sets[i], type, largest);
}

/* Many elements have the same keys as one by one, and come back; each set has the same bits. */
static void many_with_index(void **state)
{
	static uint8_t elements[16 * 301], keys[2][16 * 301], back[16 * 301], one[16];
	uint64_t seed = 12;

	for (int type = INC_DTYPE_INT32_INDEX; type <= INC_DTYPE_FLOAT64_INDEX; type++)
		for (unsigned int i = 0; inc_kernel_sets[i]; i++) {
			const size_t size = index_sizes[type - INC_DTYPE_INT32_INDEX];
			const struct inc_index_kernels *k =
				&inc_kernel_sets[i]->index[type - INC_DTYPE_INT32_INDEX];

			if (!inc_kernel_sets[i]->usable())
				continue;
			for (size_t b = 0; b < sizeof(elements); b++)
				elements[b] = (uint8_t)random_u64(&seed);
			for (size_t e = 0; size == 16 && e < 301; e++)
				memset(elements + 16 * e + 12, 0, 4);
			k->to_keys(keys[0], elements, 301, i % 2);
			inc_index_to_keys(type, i % 2, keys[1], elements, 301);
			assert_memory_equal(keys[0], keys[1], size * 301);
			for (size_t e = 0; e < 301; e++) {
				k->to_keys(one, elements + size * e, 1, i % 2);
				assert_memory_equal(one, keys[0] + size * e, size);
			}
			k->from_keys(back, keys[0], 301, i % 2);
			inc_index_from_keys(type, i % 2, keys[1], keys[0], 301);
			assert_memory_equal(back, keys[1], size * 301);
			if (type == INC_DTYPE_INT32_INDEX || type == INC_DTYPE_INT64_INDEX)
				assert_memory_equal(back, elements, size * 301);
		}
}

/* In the other byte order value and index are reversed, each by itself. */
static void index_in_the_other_order(void **state)
{
	const uint8_t from[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0, 0, 0, 0};
	const uint8_t narrow[16] = {4, 3, 2, 1, 8, 7, 6, 5, 12, 11, 10, 9, 0, 0, 0, 0};
	const uint8_t wide[16] = {8, 7, 6, 5, 4, 3, 2, 1, 12, 11, 10, 9, 0, 0, 0, 0};
	uint8_t to[16];

	inc_index_swap(INC_DTYPE_FLOAT32_INDEX, to, from, 2);
	assert_memory_equal(to, narrow, 16);
	inc_index_swap(INC_DTYPE_INT64_INDEX, to, from, 1);
	assert_memory_equal(to, wide, 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(extreme_pairs),
		cmocka_unit_test(random_pairs),
		cmocka_unit_test(every_element),
		cmocka_unit_test(there_and_back),
		cmocka_unit_test(nan_wins),
		cmocka_unit_test(in_place),
		cmocka_unit_test(values_with_index),
		cmocka_unit_test(many_with_index),
		cmocka_unit_test(index_in_the_other_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
