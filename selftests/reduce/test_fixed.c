/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Floats in shared-exponent fixed point. Every result is compared bit by bit with a reference in
 * long double. Its distance from the exact sum must be within the bound of docs/floats.md. The
 * families of inputs are made to provoke errors (harness_float_sum.h).
 */
#include <errno.h>
#include <fenv.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif
#include "lib/reduce/floats.h"
#include "lib/reduce/operate.h"
#include "selftests/reduce/numbers.h"
#include "selftests/reduce/harness_float_sum.h"

static uint8_t result[8 * FLOAT_SUM_MAX_COUNT];

/* The number of bits of the integers must be the largest with which a sum over all ranks cannot
 * wrap. */
static void bits_for_the_world(void **state)
{
	struct inc_fixed f;
	struct inc_err err;
	uint32_t ranks;

	for (ranks = 1; ranks <= INC_MAX_RANKS; ranks++) {
		assert_int_equal(inc_fixed_init(&f, INC_FLOAT32, 64, ranks, NULL), 0);
		assert_true((int64_t)ranks << f.bits <= INT32_MAX);
		assert_true((int64_t)ranks << (f.bits + 1) > INT32_MAX);
		assert_int_equal(inc_fixed_init(&f, INC_FLOAT64, 64, ranks, NULL), 0);
		assert_true((__int128)ranks << f.bits <= INT64_MAX);
		assert_true((__int128)ranks << (f.bits + 1) > INT64_MAX);
	}
	assert_int_equal(inc_fixed_init(&f, INC_FLOAT32, 0, 4, &err), -EINVAL);
	assert_string_equal(err.msg, "fixed point: blocks of 0 elements");
	assert_int_equal(inc_fixed_init(&f, INC_FLOAT32, 1, 0, &err), -EINVAL);
	assert_int_equal(inc_fixed_init(&f, INC_FLOAT32, 1, INC_MAX_RANKS + 1, &err), -EINVAL);
	assert_string_equal(err.msg, "fixed point: 4097 ranks are not 1 to 4096");
}

static void every_family(void **state)
{
	static const uint32_t ranks[] = {1, 2, 3, 4, 8, 17}, blocks[] = {1, 2, 64, 1024};
	struct float_sum s = {.seed = 5};
	unsigned int i, j;
	int type, family;

	for (type = 0; type < INC_N_FLOATS; type++)
		for (family = 0; family < FLOAT_SUM_N_FAMILIES; family++)
			for (i = 0; i < 6; i++)
				for (j = 0; j < 4; j++) {
					s.type = type;
					s.family = family;
					s.ranks = ranks[i];
					s.block = blocks[j];
					s.count = s.block + 1 + 2 * (s.seed % 9);
					s.divisor = s.seed % 3 ? 1 : s.ranks;
					s.seed++;
					float_sum_run(&s, result);
				}
}

/* With many ranks only few bits remain for an integer. The last block is short. */
static void many_ranks(void **state)
{
	static const uint32_t ranks[] = {100, 1000, 1024, 4095, 4096};
	struct float_sum s = {.seed = 100};
	int family;
	unsigned int i;

	for (i = 0; i < 5; i++)
		for (family = 0; family < FLOAT_SUM_N_FAMILIES; family++) {
			s.seed++;
			s.type = s.seed % INC_N_FLOATS;
			s.family = family;
			s.ranks = ranks[i];
			s.block = 4;
			s.count = 7;
			s.divisor = s.seed % 2 ? 1 : s.ranks;
			float_sum_run(&s, result);
		}
}

static void at_random(void **state)
{
	uint64_t random = 6;
	int round;

	for (round = 0; round < 400; round++) {
		struct float_sum s = {
			.type = random_below(&random, INC_N_FLOATS),
			.family = random_below(&random, FLOAT_SUM_N_FAMILIES),
			.ranks = 1 + random_below(&random, 1u << random_below(&random, 10)),
			.block = 1 + random_below(&random, 1u << random_below(&random, 12)),
			.seed = random_u64(&random),
		};

		s.count = 1 + random_below(&random, s.ranks > 10 ? 10000 / s.ranks : 1000);
		s.divisor = round % 2 ? 1 : s.ranks;
		float_sum_run(&s, result);
	}
}

static void elements_of_nothing(void **state)
{
	struct inc_fixed f;
	struct inc_fixed_head head;
	uint8_t nothing[1] = {7};

	inc_fixed_init(&f, INC_FLOAT16, 64, 2, NULL);
	assert_int_equal(inc_fixed_blocks(&f, 0), 0);
	inc_fixed_heads(&f, &head, nothing, 0);
	assert_false(inc_fixed_special(&head, 0));
	assert_int_equal(inc_fixed_put(&f, nothing, nothing, &head, 0, 0, NULL), 0);
	inc_fixed_get(&f, nothing, nothing, &head, NULL, 0, 0, 1);
	assert_int_equal(nothing[0], 7);
}

/* The result must not depend on the order in which the ranks' integers are added. */
static void order_of_arrival(void **state)
{
	static uint8_t first[4 * 300];
	struct float_sum s = {.type = INC_FLOAT32,
			      .family = FLOAT_SUM_RANGE,
			      .block = 64,
			      .ranks = 33,
			      .count = 300,
			      .seed = 7,
			      .divisor = 1};

	float_sum_run(&s, first);
	s.permuted = true;
	float_sum_run(&s, result);
	assert_memory_equal(first, result, sizeof(first));
}

/* The bits of the sum of one element of each of n ranks, which is in a block of its own. */
static uint64_t sum_of(enum inc_float type, unsigned int n, const uint64_t *bits)
{
	struct inc_fixed_head heads = {0}, mine;
	int64_t sum = 0, fixed = 0;
	uint8_t value[8];
	struct inc_fixed f;
	unsigned int i;

	assert_int_equal(inc_fixed_init(&f, type, 64, n, NULL), 0);
	for (i = 0; i < n; i++) {
		set_float_bits(type, value, 0, bits[i]);
		inc_fixed_heads(&f, &mine, value, 1);
		heads.exponent = heads.exponent > mine.exponent ? heads.exponent : mine.exponent;
	}
	for (i = 0; i < n; i++) {
		set_float_bits(type, value, 0, bits[i]);
		assert_int_equal(inc_fixed_put(&f, &fixed, value, &heads, 0, 1, NULL), 0);
		inc_reduce(INC_OPERATOR_SUM,
			   type == INC_FLOAT64 ? INC_DTYPE_INT64 : INC_DTYPE_INT32, &sum, &sum,
			   &fixed, 1);
	}
	inc_fixed_get(&f, value, &sum, &heads, NULL, 0, 1, 1);
	return float_bits(type, value, 0);
}

/* A sum half a unit or more beyond the largest number is infinite, a smaller one is not. */
static void beyond_the_largest(void **state)
{
	static const struct {
		enum inc_float type;
		uint64_t bits[2], want;
	} cases[] = {
		/* the second summand is 2^103 */
		{INC_FLOAT32, {0x7f7fffff, 0x73000000}, 0x7f800000},
		/* the second summand is 2^103 - 2^99 */
		{INC_FLOAT32, {0x7f7fffff, 0x72f00000}, 0x7f7fffff},
		{INC_FLOAT32, {0xff7fffff, 0xff7fffff}, 0xff800000},
		{INC_FLOAT16, {0x7bff, 0x4c00}, 0x7c00}, /* 65504 + 16, which is infinite */
		{INC_FLOAT16, {0x7bff, 0x4bff}, 0x7bff}, /* 65504 + 15.99, which is not infinite */
		{INC_FLOAT16, {0xfbff, 0xcc00}, 0xfc00},
		{INC_BFLOAT16, {0x7f7f, 0x7b00}, 0x7f80}, /* the second summand is 2^119 */
		{INC_BFLOAT16, {0x7f7f, 0x7aff}, 0x7f7f},
		/* the second summand is 2^970, then less */
		{INC_FLOAT64, {0x7fefffffffffffff, 0x7c90000000000000}, 0x7ff0000000000000},
		{INC_FLOAT64, {0x7fefffffffffffff, 0x7c8c000000000000}, 0x7fefffffffffffff},
	};
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		assert_int_equal(sum_of(cases[i].type, 2, cases[i].bits), cases[i].want);
}

/*
 * Sums are rounded only once. 1 + 2^-11 + 2^-25 is just above the middle between 1 and the next
 * float16. If it were rounded to float32 first, it would be exactly in the middle, and then be
 * rounded to 1.
 */
static void rounded_once(void **state)
{
	const uint64_t half[] = {0x3c00, 0x1000, 0x0001}; /* bits of 1, 2^-11 and 2^-24 */
	const uint64_t even[] = {0x3c00, 0x1000, 0};
	const uint64_t brain[] = {0x3f80, 0x3b80, 0x3200}; /* bits of 1, 2^-8 and 2^-27 */
	const uint64_t brain_even[] = {0x3f80, 0x3b80, 0x0000};

	assert_int_equal(sum_of(INC_FLOAT16, 3, half), 0x3c01);
	assert_int_equal(sum_of(INC_FLOAT16, 3, even), 0x3c00);
	assert_int_equal(sum_of(INC_BFLOAT16, 3, brain), 0x3f81);
	assert_int_equal(sum_of(INC_BFLOAT16, 3, brain_even), 0x3f80);
}

/* If a block has infinities and NaN, only their elements are affected, not the ones next to
 * them. */
static void specials(void **state)
{
	const float values[2][6] = {{INFINITY, INFINITY, -INFINITY, 1, NAN, 2.5f},
				    {1, -INFINITY, -INFINITY, INFINITY, 7, -1.25f}};
	const uint32_t want[6] = {0x7f800000, 0x7fc00000, 0xff800000,
				  0x7f800000, 0x7fc00000, 0x3fa00000};
	struct inc_fixed_head heads = {0}, mine;
	uint8_t kinds[6] = {0}, my_kinds[6];
	int32_t sums[6] = {0}, fixed[6];
	struct inc_fixed f;
	uint32_t got[6];
	int rank;

	inc_fixed_init(&f, INC_FLOAT32, 64, 2, NULL);
	for (rank = 0; rank < 2; rank++) {
		inc_fixed_heads(&f, &mine, values[rank], 6);
		inc_reduce(INC_OPERATOR_MAX, INC_DTYPE_UINT8, &heads, &heads, &mine, sizeof(mine));
		inc_fixed_kinds(&f, my_kinds, values[rank], 6);
		inc_reduce(INC_OPERATOR_OR, INC_DTYPE_UINT8, kinds, kinds, my_kinds, 6);
	}
	assert_true(inc_fixed_special(&heads, 1));
	for (rank = 0; rank < 2; rank++) {
		assert_int_equal(inc_fixed_put(&f, fixed, values[rank], &heads, 0, 6, NULL), 0);
		inc_reduce(INC_OPERATOR_SUM, INC_DTYPE_INT32, sums, sums, fixed, 6);
	}
	inc_fixed_get(&f, got, sums, &heads, kinds, 0, 6, 1);
	assert_memory_equal(got, want, sizeof(want));
	/* without the second phase the result is NaN, and never a wrong number */
	inc_fixed_get(&f, got, sums, &heads, NULL, 0, 6, 1);
	for (rank = 0; rank < 6; rank++)
		assert_int_equal(got[rank], 0x7fc00000);
}

/* The one-pass form accepts every number below its bound, and rejects the bound itself. */
static void scaled_limits(void **state)
{
	struct inc_fixed f;
	int64_t fixed;
	uint8_t value[8];
	int type, exponent, sign;

	for (type = 0; type < INC_N_FLOATS; type++)
		for (exponent = inc_fixed_min_exponent(type);
		     exponent <= inc_fixed_max_exponent(type); exponent++)
			for (sign = 0; sign < 2; sign++) {
				uint64_t bits = float_nearest(type, ldexpl(1, exponent));
				uint64_t minus = sign ? sign_bit(type) : 0;

				bits = bits ? bits : 1;
				inc_fixed_init(&f, type, 64, 3, NULL);
				set_float_bits(type, value, 0, bits | minus);
				assert_int_equal(inc_fixed_put_scaled(&f, &fixed, value, exponent,
								      0, 1, NULL),
						 -ERANGE);
				set_float_bits(type, value, 0, (bits - 1) | minus);
				assert_int_equal(inc_fixed_put_scaled(&f, &fixed, value, exponent,
								      0, 1, NULL),
						 0);
				if (type != INC_FLOAT64)
					fixed = (int32_t)fixed;
				assert_true((fixed < 0 ? -fixed : fixed) <= 1ll << f.bits);
			}
}

static void scaled_errors(void **state)
{
	float values[5] = {1, -3, 2, 0.5f, -4.5f};
	struct inc_fixed f;
	struct inc_err err;
	int32_t fixed[5];

	inc_fixed_init(&f, INC_FLOAT32, 64, 4, NULL);
	assert_int_equal(inc_fixed_put_scaled(&f, fixed, values, 3, 100, 5, &err), 0);
	assert_int_equal(inc_fixed_put_scaled(&f, fixed, values, 2, 100, 5, &err), -ERANGE);
	assert_string_equal(err.msg, "element 104, -4.5, is not below 2^2");
	assert_int_equal(inc_fixed_put_scaled(&f, fixed, values, 1, 100, 5, &err), -ERANGE);
	assert_string_equal(err.msg, "element 101, -3, is not below 2^1");
	values[2] = -INFINITY;
	assert_int_equal(inc_fixed_put_scaled(&f, fixed, values, 128, 0, 5, &err), -ERANGE);
	assert_string_equal(err.msg, "element 2 is infinite");
	values[0] = NAN;
	assert_int_equal(inc_fixed_put_scaled(&f, fixed, values, 128, 0, 5, &err), -ERANGE);
	assert_string_equal(err.msg, "element 0 is NaN");
	assert_int_equal(inc_fixed_put_scaled(&f, fixed, values, 129, 0, 5, &err), -EINVAL);
	assert_string_equal(err.msg, "fixed point: exponent 129 is not -126 to 128");
	assert_int_equal(inc_fixed_put_scaled(&f, fixed, values, -127, 0, 5, &err), -EINVAL);
}

/* The one-pass form with an exponent has the same result as both phases with that exponent. */
static void scaled_sums(void **state)
{
	static uint8_t values[8 * 500], sums[2][8 * 500], got[2][8 * 500];
	struct float_sum s = {.block = 500, .ranks = 5, .count = 500, .seed = 9};
	struct inc_fixed_head head;
	int type;

	for (type = 0; type < INC_N_FLOATS; type++) {
		s.type = type;
		s.family = FLOAT_SUM_UNIFORM;
		inc_fixed_init(&s.fixed, type, s.block, s.ranks, NULL);
		float_sum_values(&s, 0, values);
		head = (struct inc_fixed_head){.exponent = type == INC_FLOAT64 ? (8 + 1016) / 8
									       : 8 + 126};
		assert_int_equal(inc_fixed_put(&s.fixed, sums[0], values, &head, 0, 500, NULL), 0);
		assert_int_equal(inc_fixed_put_scaled(&s.fixed, sums[1], values, 8, 0, 500, NULL),
				 0);
		assert_memory_equal(sums[0], sums[1], inc_fixed_bytes(type) * 500);
		inc_fixed_get(&s.fixed, got[0], sums[0], &head, NULL, 0, 500, 1);
		inc_fixed_get_scaled(&s.fixed, got[1], sums[1], 8, 500, 1);
		assert_memory_equal(got[0], got[1], inc_float_size(type) * 500);
	}
}

/* Exponents that are smaller than the maxima of all ranks are rejected. */
static void wrong_heads(void **state)
{
	const float values[4] = {1, 2, INFINITY, 3};
	struct inc_fixed_head heads[2];
	struct inc_fixed f;
	struct inc_err err;
	int32_t fixed[4];

	inc_fixed_init(&f, INC_FLOAT32, 2, 4, NULL);
	inc_fixed_heads(&f, heads, values, 4);
	assert_int_equal(inc_fixed_put(&f, fixed, values, heads, 0, 4, &err), 0);
	heads[1].exponent--;
	assert_int_equal(inc_fixed_put(&f, fixed, values, heads, 0, 4, &err), -ERANGE);
	assert_string_equal(err.msg, "element 3, 3, is not below 2^1");
	heads[1].special = 0;
	assert_int_equal(inc_fixed_put(&f, fixed + 2, values + 2, heads, 2, 2, &err), -ERANGE);
	assert_string_equal(err.msg, "element 2 is infinite");
	heads[0].exponent = 0;
	assert_int_equal(inc_fixed_put(&f, fixed, values, heads, 0, 2, &err), -ERANGE);
	assert_string_equal(err.msg, "element 0, 1, is not below 2^-126");
}

/* A sum that cannot result from the ranks' integers, for example a damaged one, still becomes a
 * number of the block's size. */
static void any_sum(void **state)
{
	const int32_t sums[4] = {INT32_MIN, INT32_MAX, -1, 1};
	const double want[4] = {-8, 8, -0x1p-28, 0x1p-28};
	struct inc_fixed f;
	uint32_t divisor;
	float got[4];
	int i;

	inc_fixed_init(&f, INC_FLOAT32, 64, 4, NULL);
	for (divisor = 1; divisor <= 4; divisor *= 2) {
		inc_fixed_get_scaled(&f, got, sums, 0, 4, divisor);
		for (i = 0; i < 4; i++)
			assert_true(got[i] == want[i] / divisor);
	}
}

/* float32 can be converted in place, because its integer and its result have the same size. */
static void in_place(void **state)
{
	float values[5] = {1, -2, 3.25f, 0, 0x1p-10f}, want[5] = {1, -2, 3.25f, 0, 0x1p-10f};
	struct inc_fixed_head head;
	struct inc_fixed f;

	inc_fixed_init(&f, INC_FLOAT32, 64, 1, NULL);
	inc_fixed_heads(&f, &head, values, 5);
	assert_int_equal(inc_fixed_put(&f, values, values, &head, 0, 5, NULL), 0);
	inc_fixed_get(&f, values, values, &head, NULL, 0, 5, 1);
	assert_memory_equal(values, want, sizeof(want));
}

/* Conversion in place also works beside infinities. A number that does not fit is found, and the
 * error has its original value. */
static void in_place_checked(void **state)
{
	const float values[4] = {1, INFINITY, -3, 0.5f};
	struct inc_fixed_head head;
	struct inc_err err;
	struct inc_fixed f;
	int32_t fixed[4];
	float here[4];

	inc_fixed_init(&f, INC_FLOAT32, 64, 2, NULL);
	inc_fixed_heads(&f, &head, values, 4);
	assert_int_equal(inc_fixed_put(&f, fixed, values, &head, 0, 4, &err), 0);
	memcpy(here, values, sizeof(here));
	assert_int_equal(inc_fixed_put(&f, here, here, &head, 0, 4, &err), 0);
	assert_memory_equal(&here[2], &fixed[2], 2 * sizeof(*here));
	memcpy(here, values, sizeof(here));
	head.exponent--;
	assert_int_equal(inc_fixed_put(&f, here, here, &head, 0, 4, &err), -ERANGE);
	assert_string_equal(err.msg, "element 2, -3, is not below 2^1");
	memcpy(here, values, sizeof(here));
	assert_int_equal(inc_fixed_put_scaled(&f, here, here, 2, 0, 4, &err), -ERANGE);
	assert_string_equal(err.msg, "element 1 is infinite");
	here[1] = 4;
	assert_int_equal(inc_fixed_put_scaled(&f, here, here, 2, 0, 4, &err), -ERANGE);
	assert_string_equal(err.msg, "element 1, 4, is not below 2^2");
}

/* Divides floats that are not converted: every 16-bit element, and random ones of the other
 * types. */
static void divide_elements(void **state)
{
	static const uint32_t divisors[] = {1, 2, 3, 7, 10, 1000, 4095, 4096};
	static uint8_t values[8 * 65536], got[8 * 65536];
	uint64_t random = 8;
	int type;
	size_t i, d;

	for (type = 0; type < INC_N_FLOATS; type++)
		for (d = 0; d < sizeof(divisors) / sizeof(*divisors); d++) {
			for (i = 0; i < 65536; i++)
				set_float_bits(type, values, i,
					       inc_float_size(type) > 2 && i % 8
						       ? random_u64(&random)
						       : i);
			inc_float_divide(type, got, values, 65536, divisors[d]);
			for (i = 0; i < 65536; i++) {
				uint64_t x = float_bits(type, values, i), want = x;
				uint64_t magnitude = x & (sign_bit(type) - 1);

				if (magnitude > infinity(type))
					want = quiet_nan(type);
				else if (magnitude < infinity(type))
					want = float_quotient(type, float_value(type, x),
							      divisors[d]);
				if (float_bits(type, got, i) != want)
					fail_msg("%s %jx / %u is %jx, not %jx", float_name(type),
						 (uintmax_t)x, divisors[d],
						 (uintmax_t)float_bits(type, got, i),
						 (uintmax_t)want);
			}
		}
}

/* The result must have the same bits if the caller's thread rounds upwards or flushes denormals to
 * zero. */
static void any_environment(void **state)
{
	static uint8_t want[4][8 * 700];
	struct float_sum s = {.block = 64, .ranks = 1, .count = 700, .divisor = 3};
	static const enum float_sum_family families[2] = {FLOAT_SUM_DENORMAL, FLOAT_SUM_RANGE};
	static const enum inc_float types[2] = {INC_FLOAT32, INC_FLOAT64};
	static uint8_t values[8 * 700], got[8 * 700], shared[8 * 700];
	static struct inc_fixed_head heads[700];
	static int64_t fixed[700];
	int i;

	for (i = 0; i < 4; i++) {
		s.family = families[i % 2];
		s.type = types[i / 2];
		float_sum_run(&s, want[i]);
	}
	for (i = 0; i < 4; i++) {
		s.family = families[i % 2];
		s.type = types[i / 2];
		inc_fixed_init(&s.fixed, s.type, s.block, s.ranks, NULL);
		float_sum_values(&s, 0, values);
		inc_float_divide(s.type, shared, values, 700, 7);
		fesetround(FE_UPWARD);
#ifdef __SSE__
		/* sets the modes "flush to zero" and "denormals are zero" */
		_mm_setcsr(_mm_getcsr() | 0x8040);
#endif
		inc_fixed_heads(&s.fixed, heads, values, 700);
		inc_fixed_put(&s.fixed, fixed, values, heads, 0, 700, NULL);
		inc_fixed_get(&s.fixed, got, fixed, heads, NULL, 0, 700, 3);
		inc_float_divide(s.type, values, values, 700, 7);
#ifdef __SSE__
		_mm_setcsr(_mm_getcsr() & ~0x8040u);
#endif
		fesetround(FE_TONEAREST);
		assert_memory_equal(got, want[i], 700 * inc_float_size(s.type));
		assert_memory_equal(values, shared, 700 * inc_float_size(s.type));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bits_for_the_world),
		cmocka_unit_test(every_family),
		cmocka_unit_test(many_ranks),
		cmocka_unit_test(at_random),
		cmocka_unit_test(elements_of_nothing),
		cmocka_unit_test(order_of_arrival),
		cmocka_unit_test(beyond_the_largest),
		cmocka_unit_test(rounded_once),
		cmocka_unit_test(specials),
		cmocka_unit_test(scaled_limits),
		cmocka_unit_test(scaled_errors),
		cmocka_unit_test(scaled_sums),
		cmocka_unit_test(wrong_heads),
		cmocka_unit_test(any_sum),
		cmocka_unit_test(in_place),
		cmocka_unit_test(in_place_checked),
		cmocka_unit_test(divide_elements),
		cmocka_unit_test(any_environment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
