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
#include "selftests/reduce/world.h"

/* For each element: the sums of the exact values over all ranks, and of the reference's
 * integers. */
static struct {
	struct exact sum;
	long double largest; /* largest finite magnitude in the element's block, over all ranks */
	int64_t integer;     /* sum of the integers that the reference computes */
	bool positive, negative, nan;
} truth[WORLD_MAX_COUNT];
static uint8_t room[3][4 * WORLD_MAX_COUNT + 8];
static struct inc_fixed_head heads[WORLD_MAX_COUNT];
static uint8_t kinds[WORLD_MAX_COUNT];
static int32_t sums[WORLD_MAX_COUNT];

static const char *const families[] = {
#define _(NAME, text) text,
	WORLD_FAMILIES(_)
#undef _
};

/* A description of the input for messages. */
static const char *name_of(const struct world *w)
{
	static char text[256];

	snprintf(text, sizeof(text), "%s, %s, %u ranks, blocks of %u, %zu elements, seed %llu",
		 float_name(w->type), families[w->family], w->ranks, w->block, w->count,
		 (unsigned long long)w->seed);
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
static uint32_t element(const struct world *w, uint32_t rank, size_t i, uint64_t *random,
			uint64_t *shared)
{
	uint32_t common = random_finite(w->type, shared), coin = random_below(random, 1u << 31);
	uint32_t sign = coin & 1 ? sign_bit(w->type) : 0;
	long double unit = (long double)coin / (1u << 31) * 2 - 1;

	switch (w->family) {
	case WORLD_ZEROS:
		return sign;
	case WORLD_CANCEL:
		if (rank + 1 == w->ranks)
			return float_nearest(w->type, float_value(w->type, common) * unit * 1e-4L);
		return rank % 2 ? common ^ sign_bit(w->type) : common;
	case WORLD_DENORMAL:
		return random_below(random, least_normal(w->type)) | sign;
	case WORLD_RANGE:
		return random_finite(w->type, random);
	case WORLD_LARGEST:
		return largest(w->type) | (i % 3 ? 0 : sign_bit(w->type));
	case WORLD_EDGE:
		return (common | (least_normal(w->type) - 1)) & (sign_bit(w->type) - 1);
	case WORLD_TIES:
		if (i % w->block == 0)
			return float_nearest(w->type, 1);
		return float_nearest(w->type, ldexpl(2 * (coin >> 24) + 1, -(int)w->fixed.bits)) |
		       sign;
	case WORLD_ONE_BIG:
		return float_nearest(w->type, i % w->block ? unit * 1e-5L : 60000 * unit);
	case WORLD_SPECIAL:
		if (random_below(random, w->ranks * 4) == 0)
			return special_bits(w->type, coin);
		return float_nearest(w->type, unit);
	default:
		return float_nearest(w->type, unit);
	}
}

void world_values(const struct world *w, uint32_t rank, void *values)
{
	uint64_t random = w->seed * 0x10001 + ((uint64_t)rank << 32), shared = w->seed;
	size_t i;

	for (i = 0; i < w->count; i++) {
		uint32_t bits = element(w, rank, i, &random, &shared);

		/* only the family SPECIAL has infinities */
		if (w->family != WORLD_SPECIAL &&
		    (bits & (sign_bit(w->type) - 1)) >= infinity(w->type))
			bits = largest(w->type);
		set_float_bits(w->type, values, i, bits);
	}
}

/* The exponent of the block of element i. It defines the unit of the block's integers. */
static int exponent_of(const struct world *w, size_t i)
{
	int exponent;

	if (truth[i].largest < 0x1p-126L)
		return -126;
	frexpl(truth[i].largest, &exponent);
	return exponent;
}

/* Computes each block's largest magnitude over all ranks. The elements are generated anew. */
static void find_largest(const struct world *w, uint8_t *values)
{
	size_t i, first;
	uint32_t rank;

	memset(truth, 0, sizeof(truth));
	for (rank = 0; rank < w->ranks; rank++) {
		world_values(w, rank, values);
		for (i = 0; i < w->count; i++) {
			uint32_t magnitude =
				float_bits(w->type, values, i) & (sign_bit(w->type) - 1);

			first = i - i % w->block;
			if (magnitude < infinity(w->type))
				truth[first].largest = fmaxl(truth[first].largest,
							     float_value(w->type, magnitude));
		}
	}
	for (i = 0; i < w->count; i++)
		truth[i].largest = truth[i - i % w->block].largest;
}

/* Computes the sums over all ranks: exact ones, and those of the integers by the definition. */
static void find_sums(const struct world *w, uint8_t *values)
{
	uint32_t rank;
	size_t i;

	for (rank = 0; rank < w->ranks; rank++) {
		world_values(w, rank, values);
		for (i = 0; i < w->count; i++) {
			uint32_t bits = float_bits(w->type, values, i);
			uint32_t magnitude = bits & (sign_bit(w->type) - 1);

			truth[i].nan |= magnitude > infinity(w->type);
			truth[i].positive |= bits == infinity(w->type);
			truth[i].negative |= bits == (infinity(w->type) | sign_bit(w->type));
			if (magnitude >= infinity(w->type))
				continue;
			exact_add(&truth[i].sum, float_value(w->type, bits), 1);
			truth[i].integer +=
				(int64_t)nearbyintl(ldexpl(float_value(w->type, bits),
							   (int)w->fixed.bits - exponent_of(w, i)));
		}
	}
}

/* Checks |divisor * result - exact sum| <= ranks * 2^-bits * largest of the block, plus half a unit
 * in the last place of the result for its rounding. */
static void check_bound(const struct world *w, size_t i, uint32_t bits)
{
	struct exact off = truth[i].sum;
	uint32_t magnitude = bits & (sign_bit(w->type) - 1), next = magnitude + 1;
	long double scale = fmaxl(truth[i].largest, 0x1p-126L);
	long double ulp;

	/* infinity is right from the middle between the largest number and its successor on */
	if (magnitude == infinity(w->type)) {
		ulp = float_value(w->type, largest(w->type)) -
		      float_value(w->type, largest(w->type) - 1);
		exact_absolute(&off);
		for (uint32_t d = 0; d < w->divisor; d++) {
			exact_add(&off, float_value(w->type, largest(w->type)), -1);
			exact_add(&off, ulp / 2, -1);
		}
		exact_add(&off, -ldexpl(scale, -(int)w->fixed.bits), -(int32_t)w->ranks);
		exact_add(&off, 0x1p-200L, 1);
		if (exact_not_positive(off))
			fail_msg("%s: element %zu is infinite", name_of(w), i);
		return;
	}
	next = next < infinity(w->type) ? next : magnitude - 1;
	ulp = fabsl(float_value(w->type, next) - float_value(w->type, magnitude));
	exact_add(&off, float_value(w->type, bits), -(int32_t)w->divisor);
	exact_absolute(&off);
	exact_add(&off, ldexpl(scale, -(int)w->fixed.bits), -(int32_t)w->ranks);
	exact_add(&off, ulp / 2, -(int32_t)w->divisor);
	if (!exact_not_positive(off))
		fail_msg("%s: element %zu is beyond the bound", name_of(w), i);
}

static void check(const struct world *w, const uint8_t *values)
{
	size_t i;

	for (i = 0; i < w->count; i++) {
		uint32_t bits = float_bits(w->type, values, i), want;
		bool special = truth[i].nan || truth[i].positive || truth[i].negative;
		long double sum = ldexpl(truth[i].integer, exponent_of(w, i) - (int)w->fixed.bits);

		if (truth[i].integer > INT32_MAX || truth[i].integer < -INT32_MAX)
			fail_msg("%s: element %zu can wrap", name_of(w), i);
		want = float_nearest(w->type, sum / w->divisor);
		if (special)
			want = truth[i].positive ? infinity(w->type)
						 : infinity(w->type) | sign_bit(w->type);
		if (truth[i].nan || (truth[i].positive && truth[i].negative))
			want = quiet_nan(w->type);
		if (bits != want)
			fail_msg("%s: element %zu is %x, not %x", name_of(w), i, bits, want);
		if (!special)
			check_bound(w, i, bits);
	}
}

/* The random length of the next chunk. */
static size_t chunk(const struct world *w, size_t first, uint64_t *random)
{
	size_t n = 1 + random_below(random, 3 * w->block + 40);

	return n < w->count - first ? n : w->count - first;
}

/* Runs the first phase of all ranks, which agrees on heads and kinds. */
static void share_heads(const struct world *w, uint8_t *values)
{
	static struct inc_fixed_head mine[WORLD_MAX_COUNT];
	static uint8_t my_kinds[WORLD_MAX_COUNT];
	size_t blocks = inc_fixed_blocks(&w->fixed, w->count);
	uint32_t rank;

	memset(heads, 0, sizeof(heads));
	memset(kinds, 0, sizeof(kinds));
	for (rank = 0; rank < w->ranks; rank++) {
		world_values(w, rank, values);
		inc_fixed_heads(&w->fixed, mine, values, w->count);
		inc_reduce(INC_OPERATOR_MAX, INC_DTYPE_UINT8, heads, heads, mine,
			   blocks * INC_FIXED_HEAD_BYTES);
		inc_fixed_kinds(&w->fixed, my_kinds, values, w->count);
		inc_reduce(INC_OPERATOR_OR, INC_DTYPE_UINT8, kinds, kinds, my_kinds, w->count);
	}
}

/* Runs the second phase of all ranks, which adds the integers. */
static void share_sums(const struct world *w, uint8_t *values, uint8_t *mine, uint64_t *random)
{
	uint32_t turn, offset = w->permuted ? random_below(random, w->ranks) : 0;
	size_t size = inc_float_size(w->type), first, n;

	memset(sums, 0, sizeof(sums));
	for (turn = 0; turn < w->ranks; turn++) {
		world_values(w, w->ranks - 1 - (turn + offset) % w->ranks, values);
		for (first = 0; first < w->count; first += n) {
			n = chunk(w, first, random);
			assert_int_equal(inc_fixed_put(&w->fixed, mine + 4 * first,
						       values + size * first, heads, first, n,
						       NULL),
					 0);
		}
		inc_reduce(INC_OPERATOR_SUM, INC_DTYPE_INT32, sums, sums, mine, w->count);
	}
}

void world_run(struct world *w, void *values)
{
	uint64_t random = w->seed + w->permuted;
	uint8_t *own = room[0] + random_below(&random, 4),
		*fixed = room[1] + random_below(&random, 4);
	uint8_t *out = room[2] + random_below(&random, 4);
	size_t size = inc_float_size(w->type), first, n;
	bool special;

	assert_int_equal(inc_fixed_init(&w->fixed, w->type, w->block, w->ranks, NULL), 0);
	share_heads(w, own);
	share_sums(w, own, fixed, &random);
	special = inc_fixed_special(heads, inc_fixed_blocks(&w->fixed, w->count));
	for (first = 0; first < w->count; first += n) {
		n = chunk(w, first, &random);
		inc_fixed_get(&w->fixed, out + size * first, &sums[first], heads,
			      special ? kinds + first : NULL, first, n, w->divisor);
	}
	find_largest(w, own);
	find_sums(w, own);
	check(w, out);
	memcpy(values, out, size * w->count);
}
