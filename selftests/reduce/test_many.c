/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many sources in one pass: every operator, type and number of sources, by each set of loops that
 * this CPU runs. Results are compared bit by bit with a reference that reduces elements one by one
 * in long double. Sums and products are also compared with exact ones.
 */
#include <errno.h>
#include <fenv.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif
#include "lib/reduce/kernels.h"
#include "lib/reduce/many.h"
#include "selftests/reduce/numbers.h"

#define COUNT 2100 /* number of elements, more than two blocks of 16-bit floats */
#define GUARD 64
#define ROOM  (GUARD + COUNT * 16 + 8 + GUARD)

static const struct {
	const char *name;
	size_t bytes;
	enum inc_dtype integer; /* the integer type, if `is` is INC_N_FLOATS */
	enum inc_float is;      /* the float type, or INC_N_FLOATS */
} types[INC_N_WIRE_DTYPES] = {
#define _(NAME, name, bytes, sign) \
	[INC_DTYPE_##NAME] = {#name, bytes, INC_DTYPE_##NAME, INC_N_FLOATS},
	INC_DTYPES(_)
#undef _
		[INC_DTYPE_AGREED] = {"agreed", 1, INC_DTYPE_UINT8, INC_N_FLOATS},
	[INC_DTYPE_FIXED] = {"fixed", 4, INC_DTYPE_INT32, INC_N_FLOATS},
	[INC_DTYPE_FIXED64] = {"fixed64", 8, INC_DTYPE_INT64, INC_N_FLOATS},
	[INC_DTYPE_INT32_INDEX] = {"int32_index", 8, INC_DTYPE_INT64, INC_N_FLOATS},
	[INC_DTYPE_FLOAT32_INDEX] = {"float32_index", 8, INC_DTYPE_INT64, INC_N_FLOATS},
	/* two integers each */
	[INC_DTYPE_INT64_INDEX] = {"int64_index", 16, INC_DTYPE_INT64, INC_N_FLOATS},
	[INC_DTYPE_FLOAT64_INDEX] = {"float64_index", 16, INC_DTYPE_INT64, INC_N_FLOATS},
	[INC_DTYPE_FLOAT32] = {"float32", 4, 0, INC_FLOAT32},
	[INC_DTYPE_FLOAT16] = {"float16", 2, 0, INC_FLOAT16},
	[INC_DTYPE_BFLOAT16] = {"bfloat16", 2, 0, INC_BFLOAT16},
	[INC_DTYPE_FLOAT64] = {"float64", 8, 0, INC_FLOAT64},
};

static const char *const operators[] = {
#define _(NAME, name, ...) #name,
	INC_WIRE_OPERATORS(_)
#undef _
};

/* The sources of a reduction, and its result and expected result, in the caller's form. */
static uint8_t sources[INC_REDUCE_MOST][ROOM], elsewhere[ROOM], want[ROOM], before[ROOM];

struct once {
	const struct inc_kernels *k;
	struct inc_reduction r;
	unsigned int n;
	size_t count;
	unsigned int place; /* index of the source that is dst as well; n: dst is elsewhere */
};

/* --- the reference ----------------------------------------------------------------------- */

static void expect_float(const struct once *o, const void *const *src, size_t i)
{
	enum inc_float type = types[o->r.type].is;
	long double x = any_float_value(type, float_bits(type, src[0], i));
	unsigned int j;

	for (j = 1; j < o->n; j++)
		x = float_result(type, o->r.op, x,
				 any_float_value(type, float_bits(type, src[j], i)));
	set_float_bits(type, want, i, any_float_nearest(type, x));
}

static void expect_integer(const struct once *o, const void *const *src, size_t i)
{
	static const enum inc_operator computed[INC_N_WIRE_OPERATORS] = {
		[INC_OPERATOR_AVG] = INC_OPERATOR_SUM,
		[INC_OPERATOR_LAND] = INC_OPERATOR_AND,
		[INC_OPERATOR_LOR] = INC_OPERATOR_OR,
		[INC_OPERATOR_LXOR] = INC_OPERATOR_XOR};
	enum inc_operator op = o->r.op < INC_N_OPERATORS ? o->r.op : computed[o->r.op];
	enum inc_dtype type = types[o->r.type].integer;
	__int128 x = integer_value(type, src[0], i);
	unsigned int j;

	for (j = 1; j < o->n; j++)
		x = integer_result(op, type, x, integer_value(type, src[j], i));
	memcpy(want + i * types[type].bytes, &x, types[type].bytes);
}

/* The first integers decide, or the second ones if the first are equal. */
static void expect_pair(const struct once *o, const void *const *src, size_t i)
{
	const bool max = o->r.op == INC_OPERATOR_MAX;
	__int128 x = integer_value(INC_DTYPE_INT64, src[0], 2 * i), y;
	__int128 x2 = integer_value(INC_DTYPE_INT64, src[0], 2 * i + 1), y2;
	unsigned int j;

	for (j = 1; j < o->n; j++) {
		y = integer_value(INC_DTYPE_INT64, src[j], 2 * i);
		y2 = integer_value(INC_DTYPE_INT64, src[j], 2 * i + 1);
		if (max ? y > x || (y == x && y2 > x2) : y < x || (y == x && y2 < x2)) {
			x = y;
			x2 = y2;
		}
	}
	memcpy(want + 16 * i, &x, 8);
	memcpy(want + 16 * i + 8, &x2, 8);
}

static bool is_pair(const struct once *o)
{
	return types[o->r.type].bytes == 16;
}

/* --- one reduction ----------------------------------------------------------------------- */

static void turn_round(uint8_t *elements, size_t bytes, size_t count)
{
	size_t i, b;

	for (i = 0; i < count; i++)
		for (b = 0; b < bytes / 2; b++) {
			uint8_t *one = &elements[i * bytes + b];
			uint8_t *other = &elements[(i + 1) * bytes - 1 - b], keep = *one;

			*one = *other;
			*other = keep;
		}
}

/* Computes the expected result of the sources in src, then reduces them and compares. */
static void run(const struct once *o, uint8_t *const *src, uint8_t *dst, const uint8_t *room)
{
	size_t bytes = types[o->r.type].bytes, begin = (size_t)(dst - room), i;
	unsigned int j;

	for (i = 0; i < o->count; i++)
		if (is_pair(o))
			expect_pair(o, (const void *const *)src, i);
		else if (types[o->r.type].is < INC_N_FLOATS)
			expect_float(o, (const void *const *)src, i);
		else
			expect_integer(o, (const void *const *)src, i);
	for (j = 0; o->r.swapped && j < o->n; j++)
		turn_round(src[j], is_pair(o) ? 8 : bytes, o->count * (is_pair(o) ? 2 : 1));
	if (o->r.swapped)
		turn_round(want, is_pair(o) ? 8 : bytes, o->count * (is_pair(o) ? 2 : 1));
	memcpy(before, room, ROOM);
	assert_int_equal(
		inc_reduce_many_by(o->k, &o->r, dst, (const void *const *)src, o->n, o->count), 0);
	for (i = 0; i < o->count; i++)
		if (memcmp(dst + i * bytes, want + i * bytes, bytes))
			fail_msg("%s: %s %s of %u%s: element %zu of %zu, place %u", o->k->name,
				 operators[o->r.op], types[o->r.type].name, o->n,
				 o->r.swapped ? " swapped" : "", i, o->count, o->place);
	if (memcmp(room, before, begin) ||
	    memcmp(dst + o->count * bytes, before + begin + o->count * bytes,
		   ROOM - begin - o->count * bytes))
		fail_msg("%s: %s %s of %u: bytes beside %zu elements were written", o->k->name,
			 operators[o->r.op], types[o->r.type].name, o->n, o->count);
}

/* Fills a source with bits of one kind. */
static void fill(enum inc_dtype type, uint8_t *elements, size_t count, unsigned int kind,
		 uint64_t *random)
{
	enum inc_float is = types[type].is;
	size_t i;

	if (is == INC_N_FLOATS) {
		random_integers(elements, types[type].integer,
				types[type].bytes == 16 ? 2 * count : count, random);
		/* the first one of two integers is often the same for all sources */
		for (i = 0; types[type].bytes == 16 && i < count; i += 2)
			memset(elements + 16 * i, (int)i % 3, 8);
		return;
	}
	for (i = 0; i < count; i++) {
		uint64_t bits = random_u64(random);
		uint64_t sign = bits & sign_bit(is), one = float_nearest(is, 1);

		/* finite numbers and the ends of the range, for overflows and denormals */
		if (kind == 1)
			bits = random_finite(is, random);
		/* numbers of similar size, so that all bits matter and differences cancel */
		else if (kind == 2)
			bits = (one + random_below(random, 1 << 8)) | sign;
		else if (kind == 3) /* denormals and numbers near them */
			bits = random_u64(random) % (least_normal(is) + 2) | sign;
		set_float_bits(is, elements, i, bits);
	}
}

static void once(struct once *o, unsigned int kind, uint64_t *random)
{
	uint8_t *src[INC_REDUCE_MOST], *dst;
	unsigned int j;

	for (j = 0; j < o->n; j++) {
		src[j] = sources[j] + GUARD + random_below(random, 9);
		fill(o->r.type, src[j], o->count, kind, random);
	}
	dst = elsewhere + GUARD + random_below(random, 9);
	if (o->place < o->n)
		run(o, src, src[o->place], sources[o->place]);
	else
		run(o, src, dst, elsewhere);
}

/* Calls run_set() for each set of loops that this CPU has, and prints the set's name. */
static void each_set(void (*run_set)(const struct inc_kernels *k))
{
	unsigned int i, n = 0;

	for (i = 0; inc_kernel_sets[i]; i++) {
		if (!inc_kernel_sets[i]->usable()) {
			print_message("# no %s here\n", inc_kernel_sets[i]->name);
			continue;
		}
		run_set(inc_kernel_sets[i]);
		n++;
	}
	assert_true(n > 0);
}

/* --- the tests --------------------------------------------------------------------------- */

/* Numbers of sources below, at and above the limit of one pass, and counts around the sizes of
 * vectors and blocks. */
static void reduce_all(const struct inc_kernels *k)
{
	static const unsigned int numbers[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 33, 64};
	static const size_t counts[] = {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 65, 130};
	struct once o = {.k = k};
	uint64_t random = 1;
	unsigned int kind = 0;
	size_t c, m;
	int op, type;

	for (op = 0; op < INC_N_WIRE_OPERATORS; op++)
		for (type = 0; type < INC_N_WIRE_DTYPES; type++)
			for (m = 0; m < sizeof(numbers) / sizeof(*numbers); m++)
				for (c = 0; c < sizeof(counts) / sizeof(*counts); c++) {
					o.r = (struct inc_reduction){op, type, kind % 5 == 0};
					o.n = numbers[m];
					o.count = counts[c];
					o.place = random_below(&random, 2 * o.n);
					if (inc_can_reduce(op, type))
						once(&o, kind++ % 4, &random);
				}
}

static void every_operator(void **state)
{
	each_set(reduce_all);
}

/* Reduces several blocks and a remainder, in place and not. */
static void reduce_long(const struct inc_kernels *k)
{
	struct once o = {.k = k};
	uint64_t random = 2;
	unsigned int kind = 0;
	int op, type;

	for (op = 0; op < INC_N_WIRE_OPERATORS; op++)
		for (type = 0; type < INC_N_WIRE_DTYPES; type++, kind++) {
			o.r = (struct inc_reduction){op, type, kind % 3 == 0};
			o.n = 2 + kind % 9;
			o.count = COUNT - random_below(&random, 60);
			o.place = random_below(&random, 2 * o.n);
			if (inc_can_reduce(op, type))
				once(&o, kind % 4, &random);
		}
}

static void several_blocks(void **state)
{
	each_set(reduce_long);
}

/* Reduces every 16-bit float alone, and added to others. This covers all conversions to float32,
 * and all kinds of rounding back. */
static void reduce_halves(const struct inc_kernels *k)
{
	static const long double others[] = {0.0L,     -0.0L,    0x1p-25L, -0x1.8p-25L, 0x1p-11L,
					     -0x1p-9L, 1.0L,     0x1.8p9L, 65504.0L,    -65520.0L,
					     0x1p118L, INFINITY, NAN};
	uint8_t *src[] = {sources[0], sources[1], sources[2]};
	struct once o = {.k = k, .place = 3, .count = 2048};
	uint32_t first, i;
	size_t pass;

	for (o.r.type = INC_DTYPE_FLOAT16; o.r.type <= INC_DTYPE_BFLOAT16; o.r.type++)
		for (first = 0; first < 65536; first += 2048)
			for (pass = 0; pass < 5; pass++) {
				enum inc_float is = types[o.r.type].is;

				for (i = 0; i < 2048; i++) {
					long double one = others[(3 * pass + 5 * i) % 13];

					set_float_bits(is, src[0], i, first + i);
					set_float_bits(is, src[1], i, any_float_nearest(is, one));
					set_float_bits(is, src[2], i,
						       any_float_nearest(is, others[i % 7]));
				}
				o.n = pass ? 3 : 1;
				o.r.op = pass < 4 ? INC_OPERATOR_SUM : INC_OPERATOR_PROD;
				run(&o, src, elsewhere, elsewhere);
			}
}

static void every_half(void **state)
{
	each_set(reduce_halves);
}

/* Checks that the library's sum of n elements is near the exact one. */
static void near_sum(enum inc_float is, const void *const *src, unsigned int n, size_t i)
{
	/* half a unit in the last place, for the rounding to 16 bits at the end */
	static const long double half_ulp[] = {0, 0x1p-11L, 0x1p-8L, 0};
	const long double step = is == INC_FLOAT64 ? 0x1p-53L : 0x1p-24L;
	long double got = float_value(is, float_bits(is, elsewhere, i)), all = 0;
	struct exact off = {};
	unsigned int j;

	for (j = 0; j < n; j++) {
		long double x = float_value(is, float_bits(is, src[j], i));

		exact_add(&off, x, 1);
		all += fabsl(x);
	}
	exact_add(&off, got, -1);
	exact_absolute(&off);
	exact_add(&off, (double)(fabsl(got) * half_ulp[is] + all * step * n), -1);
	assert_true(exact_not_positive(off));
}

/* A sum of n elements has n - 1 roundings. Each rounding is at most half a unit of the sum so far.
 * A sum of 16-bit floats has one more rounding at the end. */
static void sums_are_near(void **state)
{
	const void *src[17];
	uint64_t random = 3;
	unsigned int i, j;
	int type;

	for (type = INC_DTYPE_FLOAT32; type <= INC_DTYPE_FLOAT64; type++) {
		const struct inc_reduction r = {INC_OPERATOR_SUM, type, false};

		for (j = 0; j < 17; j++) {
			fill(type, sources[j], 2000, 2, &random);
			src[j] = sources[j];
		}
		assert_int_equal(inc_reduce_many(&r, elsewhere, src, 17, 2000), 0);
		for (i = 0; i < 2000; i++)
			near_sum(types[type].is, src, 17, i);
	}
}

/* Each rounding of a product is at most 2^-24 of its value, if the product is far from the ends of
 * the range. */
static void products_are_near(void **state)
{
	const struct inc_reduction r = {INC_OPERATOR_PROD, INC_DTYPE_FLOAT32, false};
	const void *src[INC_REDUCE_MOST];
	uint64_t random = 4;
	unsigned int i, j;

	for (j = 0; j < INC_REDUCE_MOST; j++) {
		fill(INC_DTYPE_FLOAT32, sources[j], 2000, 2, &random);
		src[j] = sources[j];
	}
	assert_int_equal(inc_reduce_many(&r, elsewhere, src, INC_REDUCE_MOST, 2000), 0);
	for (i = 0; i < 2000; i++) {
		long double exact = 1, off; /* the error of `exact` itself is 2^-57 of its value */

		for (j = 0; j < INC_REDUCE_MOST; j++)
			exact *= float_value(INC_FLOAT32, float_bits(INC_FLOAT32, src[j], i));
		off = (float_value(INC_FLOAT32, float_bits(INC_FLOAT32, elsewhere, i)) - exact) /
		      exact;
		assert_true(fabsl(off) <= 0x1.1p-18L);
	}
}

/* The order of additions is that of the sources, because (1e8 + 1) - 1e8 is 0 in float32 but 1 in
 * another order. A sum of 16-bit floats is not rounded at each step, so 2048 + 1 + 1 is 2050 and
 * not 2048. */
static void the_order_is_the_sources(void **state)
{
	const float a = 1e8f, b = 1, c = -1e8f;
	const uint16_t half[] = {0x6800, 0x3c00, 0x3c00};
	const struct inc_reduction wide = {INC_OPERATOR_SUM, INC_DTYPE_FLOAT32, false};
	const struct inc_reduction narrow = {INC_OPERATOR_SUM, INC_DTYPE_FLOAT16, false};
	uint16_t sum;
	float x;

	assert_int_equal(inc_reduce_many(&wide, &x, (const void *const[]){&a, &b, &c}, 3, 1), 0);
	assert_true(x == 0);
	assert_int_equal(inc_reduce_many(&wide, &x, (const void *const[]){&a, &c, &b}, 3, 1), 0);
	assert_true(x == 1);
	assert_int_equal(inc_reduce_many(&narrow, &sum,
					 (const void *const[]){half, half + 1, half + 2}, 3, 1),
			 0);
	assert_int_equal(sum, 0x6801);
}

/* Makes the thread round upwards and flush denormals to zero. A reduction must be correct in that
 * mode, and leave the mode unchanged. */
static void unusual_mode(bool begins)
{
	fesetround(begins ? FE_UPWARD : FE_TONEAREST);
#ifdef __SSE__
	_mm_setcsr(begins ? _mm_getcsr() | 0x8040 : _mm_getcsr() & ~0x8040u);
#endif
}

static void in_another_mode(struct once *o, uint64_t *random)
{
	uint8_t *src[5];
	int rounds, ret;
	unsigned int j;

	o->n = o->place = 5;
	for (j = 0; j < o->n; j++) {
		src[j] = sources[j];
		fill(o->r.type, src[j], o->count, 2 + j / 3, random);
	}
	run(o, src, elsewhere, elsewhere);
	unusual_mode(true);
	ret = inc_reduce_many_by(o->k, &o->r, elsewhere, (const void *const *)src, o->n, o->count);
	rounds = fegetround();
	unusual_mode(false);
	assert_int_equal(ret, 0);
	assert_int_equal(rounds, FE_UPWARD);
	assert_memory_equal(elsewhere, want, o->count * types[o->r.type].bytes);
}

static void modes_of_a_thread(void **state)
{
	struct once o = {.count = 400};
	uint64_t random = 5;
	unsigned int set;
	int op, type;

	for (set = 0; inc_kernel_sets[set]; set++)
		for (op = 0; op <= INC_OPERATOR_PROD && inc_kernel_sets[set]->usable(); op++)
			for (type = INC_DTYPE_FLOAT32; type <= INC_DTYPE_FLOAT64; type++) {
				o.k = inc_kernel_sets[set];
				o.r = (struct inc_reduction){op, type, false};
				in_another_mode(&o, &random);
			}
}

static void rejected_arguments(void **state)
{
	const void *src[INC_REDUCE_MOST + 1];
	struct inc_reduction r = {INC_OPERATOR_SUM, INC_DTYPE_INT32, false};
	uint32_t x = 7, y = 5;
	unsigned int j;
	int op, type;

	for (j = 0; j <= INC_REDUCE_MOST; j++)
		src[j] = &y;
	assert_int_equal(inc_reduce_many(&r, &x, src, 0, 1), -EINVAL);
	assert_int_equal(inc_reduce_many(&r, &x, src, INC_REDUCE_MOST + 1, 1), -EINVAL);
	for (op = 0; op < 34; op++)
		for (type = 0; type < 34; type++) {
			bool can = op < INC_N_WIRE_OPERATORS && type < INC_N_WIRE_DTYPES;

			if (can && types[type].is < INC_N_FLOATS)
				can = op < INC_OPERATOR_AND || op == INC_OPERATOR_AVG;
			if (can && types[type].bytes == 16)
				can = op == INC_OPERATOR_MIN || op == INC_OPERATOR_MAX;
			assert_int_equal(inc_can_reduce(op, type), can);
			r = (struct inc_reduction){op, type, false};
			assert_int_equal(inc_reduce_many(&r, &x, src, 2, 0), can ? 0 : -EOPNOTSUPP);
		}
	assert_int_equal(x, 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_operator),    cmocka_unit_test(several_blocks),
		cmocka_unit_test(every_half),        cmocka_unit_test(sums_are_near),
		cmocka_unit_test(products_are_near), cmocka_unit_test(the_order_is_the_sources),
		cmocka_unit_test(modes_of_a_thread), cmocka_unit_test(rejected_arguments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
