/* SPDX-License-Identifier: BSD-2-Clause */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "lib/reduce/operate.h"
#include "selftests/reduce/exact.h"
#include "selftests/reduce/numbers.h"
#include "selftests/reduce/harness_float_sum.h"

/* For each element: the sums of the exact values over all ranks, and of the reference's
 * integers. */
static struct {
	struct exact sum;
	long double largest; /* largest finite magnitude in the element's block, over all ranks */
	int64_t integer;     /* sum of the integers that the reference computes */
	bool positive, negative, nan;
} truth[FLOAT_SUM_MAX_COUNT];
static uint8_t room[3][4 * FLOAT_SUM_MAX_COUNT + 8];
static struct inc_fixed_head heads[FLOAT_SUM_MAX_COUNT];
static uint8_t kinds[FLOAT_SUM_MAX_COUNT];
static int32_t sums[FLOAT_SUM_MAX_COUNT];

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

static uint32_t special_bits(enum inc_float type, uint32_t random)
{
	const uint32_t all[] = {infinity(type), infinity(type) | sign_bit(type), quiet_nan(type),
				infinity(type) + 1, sign_bit(type) | quiet_nan(type)};

	return all[random % 5];
}

/* An element of a rank. random: random numbers of this rank; shared: random numbers that all ranks
 * have in common. */
static uint32_t element(const struct float_sum *s, uint32_t rank, size_t i, uint64_t *random,
			uint64_t *shared)
{
	uint32_t common = random_finite(s->type, shared), coin = random_below(random, 1u << 31);
	uint32_t sign = coin & 1 ? sign_bit(s->type) : 0;
	long double unit = (long double)coin / (1u << 31) * 2 - 1;

	switch (s->family) {
	case FLOAT_SUM_ZEROS:
		return sign;
	case FLOAT_SUM_CANCEL:
		if (rank + 1 == s->ranks)
			return float_nearest(s->type, float_value(s->type, common) * unit * 1e-4L);
		return rank % 2 ? common ^ sign_bit(s->type) : common;
	case FLOAT_SUM_DENORMAL:
		return random_below(random, least_normal(s->type)) | sign;
	case FLOAT_SUM_RANGE:
		return random_finite(s->type, random);
	case FLOAT_SUM_LARGEST:
		return largest(s->type) | (i % 3 ? 0 : sign_bit(s->type));
	case FLOAT_SUM_EDGE:
		return (common | (least_normal(s->type) - 1)) & (sign_bit(s->type) - 1);
	case FLOAT_SUM_TIES:
		if (i % s->block == 0)
			return float_nearest(s->type, 1);
		return float_nearest(s->type, ldexpl(2 * (coin >> 24) + 1, -(int)s->fixed.bits)) |
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
		uint32_t bits = element(s, rank, i, &random, &shared);

		/* only the family SPECIAL has infinities */
		if (s->family != FLOAT_SUM_SPECIAL &&
		    (bits & (sign_bit(s->type) - 1)) >= infinity(s->type))
			bits = largest(s->type);
		set_float_bits(s->type, values, i, bits);
	}
}

/* The exponent of the block of element i. It defines the unit of the block's integers. */
static int exponent_of(const struct float_sum *s, size_t i)
{
	int exponent;

	if (truth[i].largest < 0x1p-126L)
		return -126;
	frexpl(truth[i].largest, &exponent);
	return exponent;
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
			uint32_t magnitude =
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
			uint32_t bits = float_bits(s->type, values, i);
			uint32_t magnitude = bits & (sign_bit(s->type) - 1);

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
 * in the last place of the result for its rounding. */
static void check_bound(const struct float_sum *s, size_t i, uint32_t bits)
{
	struct exact off = truth[i].sum;
	uint32_t magnitude = bits & (sign_bit(s->type) - 1), next = magnitude + 1;
	long double scale = fmaxl(truth[i].largest, 0x1p-126L);
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
		exact_add(&off, 0x1p-200L, 1);
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
		uint32_t bits = float_bits(s->type, values, i), want;
		bool special = truth[i].nan || truth[i].positive || truth[i].negative;
		long double sum = ldexpl(truth[i].integer, exponent_of(s, i) - (int)s->fixed.bits);

		if (truth[i].integer > INT32_MAX || truth[i].integer < -INT32_MAX)
			fail_msg("%s: element %zu can wrap", name_of(s), i);
		want = float_nearest(s->type, sum / s->divisor);
		if (special)
			want = truth[i].positive ? infinity(s->type)
						 : infinity(s->type) | sign_bit(s->type);
		if (truth[i].nan || (truth[i].positive && truth[i].negative))
			want = quiet_nan(s->type);
		if (bits != want)
			fail_msg("%s: element %zu is %x, not %x", name_of(s), i, bits, want);
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
	size_t size = inc_float_size(s->type), first, n;

	memset(sums, 0, sizeof(sums));
	for (turn = 0; turn < s->ranks; turn++) {
		float_sum_values(s, s->ranks - 1 - (turn + offset) % s->ranks, values);
		for (first = 0; first < s->count; first += n) {
			n = chunk(s, first, random);
			assert_int_equal(inc_fixed_put(&s->fixed, mine + 4 * first,
						       values + size * first, heads, first, n,
						       NULL),
					 0);
		}
		inc_reduce(INC_OPERATOR_SUM, INC_DTYPE_INT32, sums, sums, mine, s->count);
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
		inc_fixed_get(&s->fixed, out + size * first, &sums[first], heads,
			      special ? kinds + first : NULL, first, n, s->divisor);
	}
	find_largest(s, own);
	find_sums(s, own);
	check(s, out);
	memcpy(values, out, size * s->count);
}
