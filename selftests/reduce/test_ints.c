/* SPDX-License-Identifier: BSD-2-Clause */
/* Every operator on every integer type, and the division: each set of loops that this CPU runs
 * against arithmetic of 128 bits, at any alignment and count, in place or not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "lib/reduce/kernels.h"
#include "lib/reduce/operate.h"
#include "selftests/reduce/numbers.h"

#define COUNT 301
#define GUARD 64
#define ROOM  (GUARD + COUNT * 8 + 8 + GUARD)

static const struct {
	const char *name;
	size_t bytes;
	bool has_sign;
} types[] = {
#define _(NAME, name, bytes, has_sign) {#name, bytes, has_sign},
	INC_DTYPES(_)
#undef _
};

static const char *const operators[] = {
#define _(NAME, name) #name,
	INC_OPERATORS(_)
#undef _
};

static __int128 number(enum inc_dtype type, const void *elements, size_t i)
{
	size_t bytes = types[type].bytes;
	uint64_t u = 0;

	memcpy(&u, (const uint8_t *)elements + i * bytes, bytes);
	if (types[type].has_sign && u >> (8 * bytes - 1))
		return (__int128)u - ((__int128)1 << 8 * bytes);
	return u;
}

static __int128 expected(enum inc_operator op, __int128 x, __int128 y)
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
		fail();
		return 0;
	}
}

/* Random bits, with the ends of the range and small numbers among them. */
static void fill(void *elements, enum inc_dtype type, size_t count, uint64_t *state)
{
	size_t bytes = types[type].bytes, i;

	for (i = 0; i < count; i++) {
		uint64_t u = random_u64(state), least = 1ull << (8 * bytes - 1);

		if (u % 8 == 0)
			u = least - 1 + (u >> 32) % 3;
		else if (u % 8 == 1)
			u = (u >> 32) % 5 - 2;
		memcpy((uint8_t *)elements + i * bytes, &u, bytes);
	}
}

/* The result's elements, and not a byte around them. */
static void check(const char *what, enum inc_dtype type, const uint8_t *room, size_t offset,
		  const __int128 *want, size_t count)
{
	const uint8_t *dst = room + GUARD + offset;
	size_t bytes = types[type].bytes, i;

	for (i = 0; i < count; i++)
		if (memcmp(dst + i * bytes, &want[i], bytes))
			fail_msg("%s %s, element %zu of %zu", what, types[type].name, i, count);
	for (i = 0; i < ROOM; i++)
		if ((room + i < dst || room + i >= dst + count * bytes) && room[i] != 0xa5)
			fail_msg("%s %s: byte %zu beside %zu elements was written", what,
				 types[type].name, i, count);
}

enum place { ELSEWHERE, IN_A, IN_B, N_PLACES };

static void reduce_once(const struct inc_kernels *k, enum inc_operator op, enum inc_dtype type,
			size_t count, enum place place, uint64_t *state)
{
	uint8_t room[3][ROOM];
	size_t offset[3], i;
	__int128 want[COUNT];
	uint8_t *at[3];

	for (i = 0; i < 3; i++) {
		memset(room[i], 0xa5, ROOM);
		offset[i] = random_below(state, 9);
		at[i] = room[i] + GUARD + offset[i];
	}
	fill(at[0], type, count, state);
	fill(at[1], type, count, state);
	for (i = 0; i < count; i++)
		want[i] = expected(op, number(type, at[0], i), number(type, at[1], i));
	i = place == ELSEWHERE ? 2 : place == IN_A ? 0 : 1;
	k->reduce[op][type](at[i], at[0], at[1], count);
	check(operators[op], type, room[i], offset[i], want, count);
}

/* Calls run() for each set that this CPU has, with a line that says which. */
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
			for (count = 0; count < 70; count++)
				reduce_once(k, op, type, count, count % N_PLACES, &state);
			for (int round = 0; round < 9; round++)
				reduce_once(k, op, type, COUNT - (size_t)round, round % N_PLACES,
					    &state);
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
	fill(src, type, count, state);
	if (in_place)
		memcpy(dst, src, count * types[type].bytes);
	for (i = 0; i < count; i++)
		want[i] = number(type, src, i) / divisor;
	k->divide[type](dst, in_place ? dst : src, count, divisor);
	check("divide", type, to, offset, want, count);
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

/* All elements of 8 and 16 bits, by divisors around which the sums of many ranks lie. */
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

/* The public names lead to the set that says to be in use, and to the right row of it. */
static void public_names(void **state)
{
	const int8_t a = -128, b = 127;
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
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_operator),
		cmocka_unit_test(every_division),
		cmocka_unit_test(divide_every_element),
		cmocka_unit_test(public_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
