/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* Every set of loops. Integers: every operator on every type, and the division. Each set of loops
 * that this CPU runs is compared with 128-bit arithmetic, at any alignment and count, in place or
 * not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "lib/reduce/kernels.h"
#include "lib/reduce/operate.h"
#include "selftests/reduce/numbers.h"

#define COUNT 301
#define GUARD 64
#define ROOM  (GUARD + COUNT * 8 + 8 + GUARD)

static const struct {
	const char *name;
	size_t bytes;
} types[] = {
#define _(NAME, name, bytes, has_sign) {#name, bytes},
	INC_DTYPES(_)
#undef _
};

static const char *const operators[] = {
#define _(NAME, name) #name,
	INC_OPERATORS(_)
#undef _
};

/* Checks the result's elements, and that no byte around them was written. */
static void check(const char *what, enum inc_dtype type, const uint8_t *room, size_t offset,
		  const __int128 *want, size_t count)
{
	const uint8_t *dst = room + offset;
	size_t bytes = types[type].bytes, i;

	for (i = 0; i < count; i++)
		if (memcmp(dst + i * bytes, &want[i], bytes))
			fail_msg("%s %s, element %zu of %zu", what, types[type].name, i, count);
	for (i = 0; i < ROOM; i++)
		if ((room + i < dst || room + i >= dst + count * bytes) && room[i] != 0xa5)
			fail_msg("%s %s: byte %zu beside %zu elements was written", what,
				 types[type].name, i, count);
}

/* Reduces once and compares. If place < n, dst is the source of that index; if place == n, dst is
 * elsewhere. */
static void reduce_once(const struct inc_kernels *k, enum inc_operator op, enum inc_dtype type,
			unsigned int n, size_t count, unsigned int place, uint64_t *state)
{
	uint8_t room[INC_FOLD_MOST + 1][ROOM];
	size_t offset[INC_FOLD_MOST + 1], i;
	const void *src[INC_FOLD_MOST];
	__int128 want[COUNT];
	unsigned int j;

	for (j = 0; j <= n; j++) {
		memset(room[j], 0xa5, ROOM);
		offset[j] = GUARD + random_below(state, 9);
	}
	for (j = 0; j < n; j++) {
		random_integers(room[j] + offset[j], type, count, state);
		src[j] = room[j] + offset[j];
		for (i = 0; i < count; i++)
			want[i] = j ? integer_result(op, type, want[i],
						     integer_value(type, src[j], i))
				    : integer_value(type, src[j], i);
	}
	k->ints[type]->reduce[op](room[place] + offset[place], src, n, count);
	check(operators[op], type, room[place], offset[place], want, count);
}

/* Calls run() for each set of loops that this CPU has, and prints the set's name. */
static void each_set(void (*run)(const struct inc_kernels *k))
{
	unsigned int i, n = 0;

	for (i = 0; inc_kernel_sets[i]; i++) {
		if (!inc_kernel_sets[i]->usable()) {
			print_message("# no %s here\n", inc_kernel_sets[i]->name);
			continue;
		}
		run(inc_kernel_sets[i]);
		n++;
	}
	assert_true(n > 0);
}

static void reduce_all(const struct inc_kernels *k)
{
	uint64_t state = 1;
	int op, type;
	size_t count;

	for (op = 0; op < INC_N_OPERATORS; op++)
		for (type = 0; type < INC_N_DTYPES; type++) {
			for (count = 0; count < 70; count++) {
				reduce_once(k, op, type, 2, count, count % 3, &state);
				reduce_once(k, op, type, 4, count, count % 5, &state);
				reduce_once(k, op, type, INC_FOLD_MOST, count,
					    count % (INC_FOLD_MOST + 1), &state);
			}
			for (unsigned int round = 0; round < 9; round++)
				reduce_once(k, op, type, round % 2 ? 2 : INC_FOLD_MOST,
					    COUNT - round, round % 3, &state);
		}
}

static void every_operator(void **state)
{
	each_set(reduce_all);
}

static void divide_once(const struct inc_kernels *k, enum inc_dtype type, size_t count,
			uint32_t divisor, bool in_place, uint64_t *state)
{
	size_t offset = random_below(state, 9), i;
	uint8_t from[ROOM], to[ROOM];
	__int128 want[COUNT];
	uint8_t *src = from + GUARD + random_below(state, 9), *dst = to + GUARD + offset;

	memset(to, 0xa5, ROOM);
	random_integers(src, type, count, state);
	if (in_place)
		memcpy(dst, src, count * types[type].bytes);
	for (i = 0; i < count; i++)
		want[i] = integer_value(type, src, i) / divisor;
	k->ints[type]->divide(dst, in_place ? dst : src, count, divisor);
	check("divide", type, to, GUARD + offset, want, count);
}

static void divide_all(const struct inc_kernels *k)
{
	static const uint32_t divisors[] = {1,    2,     3,          4,          5,         7,
					    127,  128,   255,        256,        1000,      4095,
					    4096, 65537, 0x7fffffff, 0x80000000, 0xffffffff};
	uint64_t state = 2;
	size_t d, count;
	int type;

	for (type = 0; type < INC_N_DTYPES; type++)
		for (d = 0; d < sizeof(divisors) / sizeof(*divisors); d++)
			for (count = 0; count <= COUNT; count = 2 * count + 1)
				divide_once(k, type, count, divisors[d], count % 2, &state);
}

static void every_division(void **state)
{
	each_set(divide_all);
}

static void swap_all(const struct inc_kernels *k)
{
	uint8_t from[ROOM], to[ROOM], byte;
	uint64_t state = 3;
	size_t i, count, offset;
	int type;

	for (type = 0; type < INC_N_DTYPES; type++)
		for (count = 0; count <= COUNT; count = 2 * count + 1) {
			size_t bytes = types[type].bytes, last = bytes - 1;
			__int128 want[COUNT] = {};

			memset(to, 0xa5, ROOM);
			offset = random_below(&state, 9);
			random_integers(from + offset, type, count, &state);
			for (i = 0; i < count * bytes; i++) {
				byte = from[offset + i];
				((uint8_t *)&want[i / bytes])[last - i % bytes] = byte;
			}
			k->swap[__builtin_ctzll(bytes)](to + GUARD + offset, from + offset, count);
			check("swap", type, to, GUARD + offset, want, count);
		}
}

static void every_swap(void **state)
{
	each_set(swap_all);
}

static void truth_all(const struct inc_kernels *k)
{
	uint8_t from[ROOM], to[ROOM];
	uint64_t state = 4;
	size_t i, count, offset;
	int type;

	for (type = 0; type < INC_N_DTYPES; type++)
		for (count = 0; count <= COUNT; count = 2 * count + 1) {
			const size_t bytes = types[type].bytes;
			__int128 want[COUNT];

			memset(to, 0xa5, ROOM);
			offset = random_below(&state, 9);
			random_integers(from + offset, type, count, &state);
			for (i = 0; i < count; i++) {
				if (random_below(&state, 2))
					memset(from + offset + i * bytes, 0, bytes);
				want[i] = integer_value(type, from + offset, i) != 0;
			}
			k->truth[__builtin_ctzll(bytes)](to + GUARD + offset, from + offset, count);
			check("truth", type, to, GUARD + offset, want, count);
		}
}

static void every_truth(void **state)
{
	each_set(truth_all);
}

/* Divides all elements of 8 and 16 bits, by divisors near which sums of many ranks lie. */
static void divide_every_element(void **state)
{
	static int16_t all[65536], quotient[65536];
	static const uint32_t divisors[] = {1, 2, 3, 7, 64, 1000, 4096};
	size_t d;
	int x;

	for (x = 0; x < 65536; x++)
		all[x] = (int16_t)(x - 32768);
	for (d = 0; d < sizeof(divisors) / sizeof(*divisors); d++) {
		inc_reduce_divide(INC_DTYPE_INT16, quotient, all, 65536, divisors[d]);
		for (x = 0; x < 65536; x++)
			assert_int_equal(quotient[x], (x - 32768) / (int)divisors[d]);
	}
}

/* The public functions must use the set of loops that is reported as in use, and the right row of
 * it. */
static void public_names(void **state)
{
	const int8_t a = -128, b = 127;
	const uint16_t e = 0x0102;
	uint16_t d;
	int8_t c;

	assert_string_equal(inc_reduce_set(), inc_kernels()->name);
	assert_true(inc_kernels()->usable());
	inc_reduce(INC_OPERATOR_SUM, INC_DTYPE_INT8, &c, &b, &b, 1);
	assert_int_equal(c, -2);
	inc_reduce(INC_OPERATOR_MAX, INC_DTYPE_INT8, &c, &a, &b, 1);
	assert_int_equal(c, 127);
	inc_reduce(INC_OPERATOR_MAX, INC_DTYPE_UINT8, &c, &a, &b, 1);
	assert_int_equal(c, -128);
	inc_reduce_divide(INC_DTYPE_INT8, &c, &a, 1, 3);
	assert_int_equal(c, -42);
	inc_reduce_swap(&d, &e, 1, sizeof(d));
	assert_int_equal(d, 0x0201);
	inc_reduce_truth(&d, &e, 1, sizeof(d));
	assert_int_equal(d, 1);
}

/* Floats: every set of loops that this CPU runs must give the same bits as the generic one, for any
 * input, count and alignment. It must not write beside its result. */

#define FLOATS      400
#define FLOATS_ROOM (8 * FLOATS + 64)

struct once {
	enum inc_float type;
	size_t count;
	const uint8_t *from;
	int32_t shift, exponent;
	uint32_t divisor;
};

/* _(loop, its call) */
#define LOOPS(_)                                                                 \
	_(to_order_min, k->to_order(to, o->from, o->count, INT64_MIN))           \
	_(to_order_max, k->to_order(to, o->from, o->count, INT64_MAX))           \
	_(from_order, k->from_order(to, o->from, o->count))                      \
	_(scan, value = k->scan(o->from, o->count, &special))                    \
	_(put, value = k->put(to, o->from, o->count, o->shift))                  \
	_(get, k->get(to, o->from, o->count, o->exponent))                       \
	_(get_mean, k->get_mean(to, o->from, o->count, o->exponent, o->divisor)) \
	_(divide, k->divide(to, o->from, o->count, o->divisor))

/* Runs one loop, whose result goes into `room`, and returns the loop's return value. */
#define RUN(loop, call)                                                                     \
	static uint64_t run_##loop(const struct inc_float_kernels *k, const struct once *o, \
				   uint8_t *to)                                             \
	{                                                                                   \
		uint64_t value = 0;                                                         \
		bool special = false;                                                       \
                                                                                            \
		call;                                                                       \
		return value ^ (uint64_t)special << 63;                                     \
	}
LOOPS(RUN)

static const struct {
	const char *name;
	uint64_t (*run)(const struct inc_float_kernels *k, const struct once *o, uint8_t *to);
} loops[] = {
#define _(loop, call) {#loop, run_##loop},
	LOOPS(_)
#undef _
};

static void compare(const struct inc_kernels *k, const struct once *o, size_t offset)
{
	static uint8_t want[FLOATS_ROOM], got[FLOATS_ROOM];
	size_t i;

	for (i = 0; i < sizeof(loops) / sizeof(*loops); i++) {
		uint64_t a, b;

		memset(want, 0x5a, sizeof(want));
		memset(got, 0x5a, sizeof(got));
		a = loops[i].run(inc_kernels_generic.floats[o->type], o, want + offset);
		b = loops[i].run(k->floats[o->type], o, got + offset);
		if (a != b || memcmp(want, got, sizeof(want)))
			fail_msg("%s of %s, %s, is not the generic one's: %zu elements, shift %d, "
				 "exponent %d, divisor %u",
				 loops[i].name, k->name, float_name(o->type), o->count, o->shift,
				 o->exponent, o->divisor);
	}
}

/* Fills the input with random bits, finite elements, or numbers of similar size. */
static void fill(enum inc_float type, uint8_t *from, uint64_t *random)
{
	size_t i;

	switch (random_below(random, 3)) {
	case 0:
		for (i = 0; i < FLOATS; i++)
			set_float_bits(INC_FLOAT64, from, i, random_u64(random));
		break;
	case 1:
		for (i = 0; i < FLOATS; i++)
			set_float_bits(type, from, i, random_finite(type, random));
		break;
	default:
		for (i = 0; i < FLOATS; i++)
			set_float_bits(type, from, i,
				       random_u64(random) >> random_below(random, 64));
		break;
	}
}

static void one_set(const struct inc_kernels *k)
{
	static uint8_t room[FLOATS_ROOM];
	uint64_t random = 11;
	int round;

	for (round = 0; round < 3000; round++) {
		struct once o = {
			.type = round % INC_N_FLOATS,
			.count = round < 210 ? (size_t)round / 3 : random_below(&random, FLOATS),
			.from = room + random_below(&random, 9),
			.shift = (int32_t)random_below(&random, 320) - 160,
			.exponent = (int32_t)random_below(&random, 300) - 170,
			.divisor = 1 + random_below(&random, 4096),
		};

		fill(o.type, room, &random);
		compare(k, &o, random_below(&random, 9));
	}
}

static void every_set(void **state)
{
	unsigned int i;

	for (i = 0; inc_kernel_sets[i]; i++) {
		if (!inc_kernel_sets[i]->usable())
			print_message("# no %s here\n", inc_kernel_sets[i]->name);
		else if (inc_kernel_sets[i] != &inc_kernels_generic)
			one_set(inc_kernel_sets[i]);
	}
	assert_ptr_equal(inc_kernel_sets[i - 1], &inc_kernels_generic);
}

/* No entry of a table of loops may be missing. The best usable set must be in use. */
static void tables(void **state)
{
	int op, type, ends;
	unsigned int i;

	for (i = 0; inc_kernel_sets[i]; i++) {
		const struct inc_kernels *k = inc_kernel_sets[i];

		for (type = 0; type < INC_N_DTYPES; type++)
			for (op = 0; op < INC_N_OPERATORS; op++)
				assert_true(k->ints[type]->reduce[op] && k->ints[type]->divide);
		for (type = 0; type < INC_N_FLOATS; type++) {
			assert_true(k->floats[type]->to_order && k->floats[type]->divide);
			for (ends = 0; ends < INC_FOLD_N_ENDS; ends++)
				assert_true(k->floats[type]->sum[ends] &&
					    k->floats[type]->prod[ends]);
		}
	}
	for (i = 0; !inc_kernel_sets[i]->usable(); i++)
		;
	assert_ptr_equal(inc_kernels(), inc_kernel_sets[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_operator), cmocka_unit_test(every_division),
		cmocka_unit_test(every_swap),     cmocka_unit_test(divide_every_element),
		cmocka_unit_test(every_truth),    cmocka_unit_test(public_names),
		cmocka_unit_test(tables),         cmocka_unit_test(every_set),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
