/* SPDX-License-Identifier: BSD-2-Clause */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "lib/reduce/operate.h"
#include "selftests/reduce/numbers.h"
#include "selftests/reduce/harness_float_sum.h"

/* For each element: the sums of the exact values over all ranks, and of the reference's
 * integers. */
static struct {
	struct exact sum;
	long double largest; /* largest finite magnitude in the element's block, over all ranks */
	__int128 integer;    /* sum of the integers that the reference computes */
	bool positive, negative, nan;
} truth[FLOAT_SUM_MAX_COUNT];
static uint8_t room[3][8 * FLOAT_SUM_MAX_COUNT + 8];
static struct inc_fixed_head heads[FLOAT_SUM_MAX_COUNT];
static uint8_t kinds[FLOAT_SUM_MAX_COUNT];
static int64_t sums[FLOAT_SUM_MAX_COUNT]; /* with int32_t in it, unless the type is float64 */

static const char *const families[] = {
#define _(NAME, text) text,
	FLOAT_SUM_FAMILIES(_)
#undef _
};

/* A description of the input for messages. */
static const char *name_of(const struct float_sum *s)
{
	static char text[256];

	snprintf(text, sizeof(text), "%s, %s, %u ranks, blocks of %u, %zu elements, seed %llu",
		 float_name(s->type), families[s->family], s->ranks, s->block, s->count,
		 (unsigned long long)s->seed);
	return text;
}

static uint64_t special_bits(enum inc_float type, uint32_t random)
{
	const uint64_t all[] = {infinity(type), infinity(type) | sign_bit(type), quiet_nan(type),
				infinity(type) + 1, sign_bit(type) | quiet_nan(type)};

	return all[random % 5];
}

/* An element of a rank. random: random numbers of this rank; shared: random numbers that all ranks
 * have in common. */
static uint64_t element(const struct float_sum *s, uint32_t rank, size_t i, uint64_t *random,
			uint64_t *shared)
{
	uint64_t common = random_finite(s->type, shared);
	uint32_t coin = random_below(random, 1u << 31);
	uint64_t sign = coin & 1 ? sign_bit(s->type) : 0;
	long double unit = (long double)coin / (1u << 31) * 2 - 1;

	switch (s->family) {
	case FLOAT_SUM_ZEROS:
		return sign;
	case FLOAT_SUM_CANCEL:
		if (rank + 1 == s->ranks)
			return float_nearest(s->type, float_value(s->type, common) * unit * 1e-4L);
		return rank % 2 ? common ^ sign_bit(s->type) : common;
	case FLOAT_SUM_DENORMAL:
		return random_u64(random) % least_normal(s->type) | sign;
	case FLOAT_SUM_RANGE:
		return random_finite(s->type, random);
	case FLOAT_SUM_LARGEST:
		return largest(s->type) | (i % 3 ? 0 : sign_bit(s->type));
	case FLOAT_SUM_EDGE:
		return (common | (least_normal(s->type) - 1)) & (sign_bit(s->type) - 1);
	case FLOAT_SUM_TIES:
		if (i % s->block == 0)
			return float_nearest(s->type, 1);
		/* the exponent of a block with 1 is 1, or 8 for float64 */
		return float_nearest(s->type,
				     ldexpl(2 * (coin >> 24) + 1, (s->type == INC_FLOAT64 ? 7 : 0) -
									  (int)s->fixed.bits)) |
		       sign;
	case FLOAT_SUM_ONE_BIG:
		return float_nearest(s->type, i % s->block ? unit * 1e-5L : 60000 * unit);
	case FLOAT_SUM_SPECIAL:
		if (random_below(random, s->ranks * 4) == 0)
			return special_bits(s->type, coin);
		return float_nearest(s->type, unit);
	default:
		return float_nearest(s->type, unit);
	}
}

void float_sum_values(const struct float_sum *s, uint32_t rank, void *values)
{
	uint64_t random = s->seed * 0x10001 + ((uint64_t)rank << 32), shared = s->seed;
	size_t i;

	for (i = 0; i < s->count; i++) {
		uint64_t bits = element(s, rank, i, &random, &shared);

		/* only the family SPECIAL has infinities */
		if (s->family != FLOAT_SUM_SPECIAL &&
		    (bits & (sign_bit(s->type) - 1)) >= infinity(s->type))
			bits = largest(s->type);
		set_float_bits(s->type, values, i, bits);
	}
}

/* The least exponent of a block, as a power of two. */
static long double floor_of(const struct float_sum *s)
{
	return s->type == INC_FLOAT64 ? 0x1p-1016L : 0x1p-126L;
}

/* The exponent of the block of element i. It defines the unit of the block's integers. The
 * exponents of float64 are multiples of 8. */
static int exponent_of(const struct float_sum *s, size_t i)
{
	int exponent;

	frexpl(fmaxl(truth[i].largest, floor_of(s) / 2), &exponent);
	if (s->type != INC_FLOAT64)
		return exponent;
	while (exponent % 8)
		exponent++;
	return exponent;
}

/* The number to which the bound of the errors is proportional. */
static long double scale_of(const struct float_sum *s, size_t i)
{
	const long double scale = fmaxl(truth[i].largest, floor_of(s));

	return s->type == INC_FLOAT64 ? 128 * scale : scale;
}

/* Computes each block's largest magnitude over all ranks. The elements are generated anew. */
static void find_largest(const struct float_sum *s, uint8_t *values)
{
	size_t i, first;
	uint32_t rank;

	memset(truth, 0, sizeof(truth));
	for (rank = 0; rank < s->ranks; rank++) {
		float_sum_values(s, rank, values);
		for (i = 0; i < s->count; i++) {
			uint64_t magnitude =
				float_bits(s->type, values, i) & (sign_bit(s->type) - 1);

			first = i - i % s->block;
			if (magnitude < infinity(s->type))
				truth[first].largest = fmaxl(truth[first].largest,
							     float_value(s->type, magnitude));
		}
	}
	for (i = 0; i < s->count; i++)
		truth[i].largest = truth[i - i % s->block].largest;
}

/* Computes the sums over all ranks: exact ones, and those of the integers by the definition. */
static void find_sums(const struct float_sum *s, uint8_t *values)
{
	uint32_t rank;
	size_t i;

	for (rank = 0; rank < s->ranks; rank++) {
		float_sum_values(s, rank, values);
		for (i = 0; i < s->count; i++) {
			uint64_t bits = float_bits(s->type, values, i);
			uint64_t magnitude = bits & (sign_bit(s->type) - 1);

			truth[i].nan |= magnitude > infinity(s->type);
			truth[i].positive |= bits == infinity(s->type);
			truth[i].negative |= bits == (infinity(s->type) | sign_bit(s->type));
			if (magnitude >= infinity(s->type))
				continue;
			exact_add(&truth[i].sum, float_value(s->type, bits), 1);
			truth[i].integer +=
				(int64_t)nearbyintl(ldexpl(float_value(s->type, bits),
							   (int)s->fixed.bits - exponent_of(s, i)));
		}
	}
}

/* Checks |divisor * result - exact sum| <= ranks * 2^-bits * largest of the block, plus half a unit
 * in the last place of the result for its rounding. For float64 the largest counts 128 times. */
static void check_bound(const struct float_sum *s, size_t i, uint64_t bits)
{
	struct exact off = truth[i].sum;
	uint64_t magnitude = bits & (sign_bit(s->type) - 1), next = magnitude + 1;
	long double scale = scale_of(s, i);
	long double ulp;

	/* infinity is right from the middle between the largest number and its successor on */
	if (magnitude == infinity(s->type)) {
		ulp = float_value(s->type, largest(s->type)) -
		      float_value(s->type, largest(s->type) - 1);
		exact_absolute(&off);
		for (uint32_t d = 0; d < s->divisor; d++) {
			exact_add(&off, float_value(s->type, largest(s->type)), -1);
			exact_add(&off, ulp / 2, -1);
		}
		exact_add(&off, -ldexpl(scale, -(int)s->fixed.bits), -(int32_t)s->ranks);
		exact_add(&off, 0x1p-1200L, 1);
		if (exact_not_positive(off))
			fail_msg("%s: element %zu is infinite", name_of(s), i);
		return;
	}
	next = next < infinity(s->type) ? next : magnitude - 1;
	ulp = fabsl(float_value(s->type, next) - float_value(s->type, magnitude));
	exact_add(&off, float_value(s->type, bits), -(int32_t)s->divisor);
	exact_absolute(&off);
	exact_add(&off, ldexpl(scale, -(int)s->fixed.bits), -(int32_t)s->ranks);
	exact_add(&off, ulp / 2, -(int32_t)s->divisor);
	if (!exact_not_positive(off))
		fail_msg("%s: element %zu is beyond the bound", name_of(s), i);
}

static void check(const struct float_sum *s, const uint8_t *values)
{
	size_t i;

	for (i = 0; i < s->count; i++) {
		uint64_t bits = float_bits(s->type, values, i), want;
		const int64_t most = s->type == INC_FLOAT64 ? INT64_MAX : INT32_MAX;
		bool special = truth[i].nan || truth[i].positive || truth[i].negative;
		long double sum = ldexpl(truth[i].integer, exponent_of(s, i) - (int)s->fixed.bits);

		if (truth[i].integer > most || truth[i].integer < -most)
			fail_msg("%s: element %zu can wrap", name_of(s), i);
		want = float_quotient(s->type, sum, s->divisor);
		if (special)
			want = truth[i].positive ? infinity(s->type)
						 : infinity(s->type) | sign_bit(s->type);
		if (truth[i].nan || (truth[i].positive && truth[i].negative))
			want = quiet_nan(s->type);
		if (bits != want)
			fail_msg("%s: element %zu is %jx, not %jx", name_of(s), i, (uintmax_t)bits,
				 (uintmax_t)want);
		if (!special)
			check_bound(s, i, bits);
	}
}

/* The random length of the next chunk. */
static size_t chunk(const struct float_sum *s, size_t first, uint64_t *random)
{
	size_t n = 1 + random_below(random, 3 * s->block + 40);

	return n < s->count - first ? n : s->count - first;
}

/* Runs the first phase of all ranks, which agrees on heads and kinds. */
static void share_heads(const struct float_sum *s, uint8_t *values)
{
	static struct inc_fixed_head mine[FLOAT_SUM_MAX_COUNT];
	static uint8_t my_kinds[FLOAT_SUM_MAX_COUNT];
	size_t blocks = inc_fixed_blocks(&s->fixed, s->count);
	uint32_t rank;

	memset(heads, 0, sizeof(heads));
	memset(kinds, 0, sizeof(kinds));
	for (rank = 0; rank < s->ranks; rank++) {
		float_sum_values(s, rank, values);
		inc_fixed_heads(&s->fixed, mine, values, s->count);
		inc_reduce(INC_OPERATOR_MAX, INC_DTYPE_UINT8, heads, heads, mine,
			   blocks * INC_FIXED_HEAD_BYTES);
		inc_fixed_kinds(&s->fixed, my_kinds, values, s->count);
		inc_reduce(INC_OPERATOR_OR, INC_DTYPE_UINT8, kinds, kinds, my_kinds, s->count);
	}
}

/* Runs the second phase of all ranks, which adds the integers. */
static void share_sums(const struct float_sum *s, uint8_t *values, uint8_t *mine, uint64_t *random)
{
	uint32_t turn, offset = s->permuted ? random_below(random, s->ranks) : 0;
	const bool wide = s->type == INC_FLOAT64;
	size_t size = inc_float_size(s->type), first, n;

	memset(sums, 0, sizeof(sums));
	for (turn = 0; turn < s->ranks; turn++) {
		float_sum_values(s, s->ranks - 1 - (turn + offset) % s->ranks, values);
		for (first = 0; first < s->count; first += n) {
			n = chunk(s, first, random);
			assert_int_equal(
				inc_fixed_put(&s->fixed, mine + inc_fixed_bytes(s->type) * first,
					      values + size * first, heads, first, n, NULL),
				0);
		}
		inc_reduce(INC_OPERATOR_SUM, wide ? INC_DTYPE_INT64 : INC_DTYPE_INT32, sums, sums,
			   mine, s->count);
	}
}

void float_sum_run(struct float_sum *s, void *values)
{
	uint64_t random = s->seed + s->permuted;
	uint8_t *own = room[0] + random_below(&random, 4),
		*fixed = room[1] + random_below(&random, 4);
	uint8_t *out = room[2] + random_below(&random, 4);
	size_t size = inc_float_size(s->type), first, n;
	bool special;

	assert_int_equal(inc_fixed_init(&s->fixed, s->type, s->block, s->ranks, NULL), 0);
	share_heads(s, own);
	share_sums(s, own, fixed, &random);
	special = inc_fixed_special(heads, inc_fixed_blocks(&s->fixed, s->count));
	for (first = 0; first < s->count; first += n) {
		n = chunk(s, first, &random);
		inc_fixed_get(&s->fixed, out + size * first,
			      (uint8_t *)sums + inc_fixed_bytes(s->type) * first, heads,
			      special ? kinds + first : NULL, first, n, s->divisor);
	}
	find_largest(s, own);
	find_sums(s, own);
	check(s, out);
	memcpy(values, out, size * s->count);
}
