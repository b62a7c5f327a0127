/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests of limits in awake time (lib/base/awake.h), which leaves out standstills of the process.
 * The clock is simulated. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "lib/base/awake.h"

#define S       INC_NSEC_PER_SEC
#define MS      INC_NSEC_PER_MSEC
#define BEGIN   (1000 * S)
#define LIMIT_S 10

/* Reads the clock every step_ns until the limit has passed. Returns the awake time until then, or 0
 * if the limit has not passed after 1000 readings. */
static uint64_t passes_after(struct inc_awake *awake, uint64_t *clock_ns, uint64_t since_ns,
			     uint64_t step_ns)
{
	int i;

	for (i = 0; i < 1000; i++) {
		*clock_ns += step_ns;
		inc_awake_at(awake, *clock_ns);
		if (inc_awake_past(awake, since_ns, LIMIT_S * S))
			return awake->now_ns - since_ns;
	}
	return 0;
}

static void test_awake_all_the_time(void **state)
{
	uint64_t clock_ns = BEGIN;
	struct inc_awake awake = {};
	const uint64_t since_ns = inc_awake_at(&awake, clock_ns);

	assert_int_equal(since_ns, BEGIN);
	assert_int_equal(passes_after(&awake, &clock_ns, since_ns, 100 * MS), LIMIT_S * S);
	assert_int_equal(clock_ns - BEGIN, LIMIT_S * S);
}

/* If the clock advances by the greatest allowed step, that is no standstill. */
static void test_longest_step(void **state)
{
	uint64_t clock_ns = BEGIN;
	struct inc_awake awake = {};
	const uint64_t since_ns = inc_awake_at(&awake, clock_ns);

	assert_int_equal(passes_after(&awake, &clock_ns, since_ns, INC_AWAKE_STEP_NS), LIMIT_S * S);
	assert_int_equal(awake.resumed_at_ns, 0);
}

/* A standstill counts as one step, however long it is. */
static void test_one_standstill(void **state)
{
	uint64_t clock_ns = BEGIN;
	struct inc_awake awake = {};
	const uint64_t since_ns = inc_awake_at(&awake, clock_ns);

	clock_ns += 1000 * S;
	assert_int_equal(inc_awake_at(&awake, clock_ns), BEGIN + INC_AWAKE_STEP_NS);
	assert_int_equal(passes_after(&awake, &clock_ns, since_ns, 100 * MS), LIMIT_S * S);
	assert_int_equal(clock_ns - BEGIN, 1000 * S + LIMIT_S * S - INC_AWAKE_STEP_NS);
}

/* If a limit would pass at the end of a standstill, it passes only after the respite. */
static void test_respite(void **state)
{
	uint64_t clock_ns = BEGIN, at_ns;
	struct inc_awake awake = {};
	const uint64_t since_ns = inc_awake_at(&awake, clock_ns);

	while (clock_ns < BEGIN + LIMIT_S * S - 100 * MS)
		inc_awake_at(&awake, clock_ns += 100 * MS);
	at_ns = inc_awake_at(&awake, clock_ns += 14 * S);
	assert_true(at_ns - since_ns > LIMIT_S * S);
	assert_false(inc_awake_past(&awake, since_ns, LIMIT_S * S));
	assert_int_equal(passes_after(&awake, &clock_ns, since_ns, 100 * MS),
			 at_ns - since_ns + INC_AWAKE_RESPITE_NS);
}

/* If every step of the clock is a standstill, the limit passes nevertheless. */
static void test_stutter(void **state)
{
	const uint64_t most_ns = LIMIT_S * S + 2 * INC_AWAKE_RESPITE_NS;
	uint64_t clock_ns = BEGIN;
	struct inc_awake awake = {};
	const uint64_t since_ns = inc_awake_at(&awake, clock_ns);

	assert_int_equal(passes_after(&awake, &clock_ns, since_ns, 3 * S), most_ns);
	assert_int_equal(clock_ns - BEGIN, 3 * most_ns / INC_AWAKE_STEP_NS * S);
	assert_int_equal(awake.resumed_at_ns, awake.now_ns);
}

/* If the process runs for a while between many standstills, the limit passes nevertheless. */
static void test_stutter_and_run(void **state)
{
	const uint64_t most_ns = LIMIT_S * S + 2 * INC_AWAKE_RESPITE_NS;
	uint64_t clock_ns = BEGIN;
	struct inc_awake awake = {};
	const uint64_t since_ns = inc_awake_at(&awake, clock_ns);
	int i;

	for (i = 0; i < 1000 && !inc_awake_past(&awake, since_ns, LIMIT_S * S); i++)
		inc_awake_at(&awake, clock_ns += i % 10 ? 50 * MS : 5 * S);
	assert_in_range(awake.now_ns - since_ns, LIMIT_S * S, most_ns + INC_AWAKE_STEP_NS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_awake_all_the_time),
		cmocka_unit_test(test_longest_step),
		cmocka_unit_test(test_one_standstill),
		cmocka_unit_test(test_respite),
		cmocka_unit_test(test_stutter),
		cmocka_unit_test(test_stutter_and_run),
	};

	return cmocka_run_group_tests_name("awake", tests, NULL, NULL);
}
