/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* The estimator of the retransmission timer (lib/roce/rto.h), with a simulated clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "lib/roce/rto.h"

#define MS    1000000ull
#define FIRST (20 * MS)
#define MIN   (5 * MS)
#define MAX   (1000 * MS)

static struct inc_rto fresh(void)
{
	struct inc_rto t;

	inc_rto_init(&t, FIRST, MIN, MAX);
	return t;
}

/* Plays one round trip: packets before `end` are sent at `now`, and acknowledged later. */
static void round_trip(struct inc_rto *t, uint64_t end, uint64_t now, uint64_t rtt)
{
	inc_rto_measure(t, end, now);
	inc_rto_acked(t, end, now + rtt);
}

static void first_sample(void **state)
{
	struct inc_rto t = fresh();

	assert_int_equal(inc_rto_wait_ns(&t), FIRST);
	round_trip(&t, 1, 0, 30 * MS);
	assert_int_equal(t.srtt_ns, 30 * MS);
	assert_int_equal(t.rttvar_ns, 15 * MS);
	assert_int_equal(inc_rto_wait_ns(&t), 90 * MS);
}

/* As RFC 6298 demands, a sample changes the smoothed time by 1/8, and the variance by 1/4 of the
 * sample's distance, which may be positive or negative. */
static void smoothing(void **state)
{
	struct inc_rto t = fresh();

	round_trip(&t, 1, 0, 32 * MS);
	round_trip(&t, 2, 100 * MS, 16 * MS);
	assert_int_equal(t.srtt_ns, 30 * MS);
	assert_int_equal(t.rttvar_ns, 16 * MS);
	round_trip(&t, 3, 200 * MS, 46 * MS);
	assert_int_equal(t.srtt_ns, 32 * MS);
	assert_int_equal(t.rttvar_ns, 16 * MS);
	assert_int_equal(inc_rto_wait_ns(&t), 96 * MS);
}

static void bounds(void **state)
{
	struct inc_rto t = fresh();
	uint64_t end;

	for (end = 1; end < 50; end++)
		round_trip(&t, end, end * MS, MS / 100);
	assert_int_equal(inc_rto_wait_ns(&t), MIN);
	round_trip(&t, end, 0, 5000 * MS);
	assert_int_equal(inc_rto_wait_ns(&t), MAX);
	/* a first timeout beyond the upper bound is set to that bound */
	inc_rto_init(&t, 2 * MAX, MIN, MAX);
	assert_int_equal(inc_rto_wait_ns(&t), MAX);
	/* a first timeout below the lower bound is set to that bound, because inc-switchd
	 * --rto-min-ms may be larger than the first timeout */
	inc_rto_init(&t, FIRST, 25 * FIRST, MAX);
	assert_int_equal(inc_rto_wait_ns(&t), 25 * FIRST);
}

/* Only one measurement runs at a time. It ends when the last packet that it covers is
 * acknowledged. */
static void one_at_a_time(void **state)
{
	struct inc_rto t = fresh();

	inc_rto_measure(&t, 8, 0);
	inc_rto_measure(&t, 9, 10 * MS);
	inc_rto_acked(&t, 7, 20 * MS);
	assert_int_equal(t.srtt_ns, 0);
	inc_rto_acked(&t, 8, 40 * MS);
	assert_int_equal(t.srtt_ns, 40 * MS);
	/* no measurement is running now */
	inc_rto_acked(&t, 9, 500 * MS);
	assert_int_equal(t.srtt_ns, 40 * MS);
}

/* Karn's algorithm: a retransmission makes the running measurement useless. New packets are not
 * measured until everything sent before the retransmission is acknowledged. */
static void no_sample_after_a_retransmission(void **state)
{
	struct inc_rto t = fresh();

	inc_rto_measure(&t, 4, 0);
	inc_rto_spoil(&t);
	inc_rto_measure(&t, 6, 10 * MS);
	inc_rto_acked(&t, 3, 20 * MS);
	inc_rto_acked(&t, 4, 30 * MS);
	assert_int_equal(t.srtt_ns, 0);
	round_trip(&t, 8, 100 * MS, 24 * MS);
	assert_int_equal(t.srtt_ns, 24 * MS);
	/* a retransmission while no measurement runs does not affect the next one */
	inc_rto_spoil(&t);
	round_trip(&t, 9, 200 * MS, 24 * MS);
	assert_int_equal(t.srtt_ns, 24 * MS);
	assert_int_equal(t.rttvar_ns, 9 * MS);
}

static void back_off(void **state)
{
	struct inc_rto t = fresh();
	unsigned int i;

	for (i = 1; i < 6; i++) {
		inc_rto_timed_out(&t);
		assert_int_equal(t.backoff, i);
		assert_int_equal(inc_rto_wait_ns(&t), FIRST << i);
	}
	for (; i < 1000; i++) {
		inc_rto_timed_out(&t);
		assert_int_equal(t.backoff, i);
		assert_int_equal(inc_rto_wait_ns(&t), MAX);
		assert_true(inc_rto_probes(&t) <= 128);
	}
	inc_rto_heard(&t);
	assert_int_equal(inc_rto_wait_ns(&t), FIRST);
}

/* After 50 lost frames in a row, eight timeouts must have retransmitted all of them, before a peer
 * gives up. */
static void probes(void **state)
{
	struct inc_rto t = fresh();
	unsigned int sent = 0;

	for (int i = 1; i <= 8; i++) {
		inc_rto_timed_out(&t);
		assert_int_equal(inc_rto_probes(&t), i <= 3 ? 1 : 1 << (i - 3));
		sent += inc_rto_probes(&t);
	}
	assert_true(sent > 50);
	inc_rto_heard(&t);
	inc_rto_timed_out(&t);
	assert_int_equal(inc_rto_probes(&t), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_sample),
		cmocka_unit_test(smoothing),
		cmocka_unit_test(bounds),
		cmocka_unit_test(one_at_a_time),
		cmocka_unit_test(no_sample_after_a_retransmission),
		cmocka_unit_test(back_off),
		cmocka_unit_test(probes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
