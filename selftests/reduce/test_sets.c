/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* Every set of float loops that this CPU runs must give the same bits as the generic one, for any
 * input, count and alignment. It must not write beside its result. test_ints.c tests the integer
 * loops. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "lib/reduce/kernels.h"
#include "selftests/reduce/numbers.h"

#define COUNT 400
#define ROOM  (8 * COUNT + 64)

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
	static uint8_t want[ROOM], got[ROOM];
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
		for (i = 0; i < COUNT; i++)
			set_float_bits(INC_FLOAT64, from, i, random_u64(random));
		break;
	case 1:
		for (i = 0; i < COUNT; i++)
			set_float_bits(type, from, i, random_finite(type, random));
		break;
	default:
		for (i = 0; i < COUNT; i++)
			set_float_bits(type, from, i,
				       random_u64(random) >> random_below(random, 64));
		break;
	}
}

static void one_set(const struct inc_kernels *k)
{
	static uint8_t room[ROOM];
	uint64_t random = 11;
	int round;

	for (round = 0; round < 3000; round++) {
		struct once o = {
			.type = round % INC_N_FLOATS,
			.count = round < 210 ? (size_t)round / 3 : random_below(&random, COUNT),
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
		cmocka_unit_test(tables),
		cmocka_unit_test(every_set),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
