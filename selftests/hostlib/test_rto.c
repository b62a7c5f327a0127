/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* The estimator of the retransmission timer (lib/roce/rto.h), with a simulated clock, and the
 * congestion window (lib/roce/congestion.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "lib/base/clock.h"
#include "lib/roce/congestion.h"
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

#define MOST 256

/* A sender with more to send than its window allows. */
struct sender {
	struct inc_congestion c;
	uint64_t acked, high;
};

static struct sender full(void)
{
	struct sender s = {};

	inc_congestion_init(&s.c);
	s.high = inc_congestion_window(&s.c);
	return s;
}

/* The peer acknowledges all packets under way one by one, and each makes room for others. */
static void one_round(struct sender *s)
{
	const uint64_t end = s->high;

	while (s->acked < end) {
		inc_congestion_acked(&s->c, s->acked, s->acked + 1, s->high, MOST);
		s->acked++;
		s->high = s->acked + inc_congestion_window(&s->c);
	}
}

static void window_doubles_until_a_mark(void **state)
{
	struct sender s = full();

	assert_int_equal(s.high, INC_WINDOW_FIRST);
	for (uint64_t want = 2 * INC_WINDOW_FIRST; want <= MOST; want *= 2) {
		one_round(&s);
		assert_int_equal(inc_congestion_window(&s.c), want);
	}
	one_round(&s);
	assert_int_equal(inc_congestion_window(&s.c), MOST);
}

/* The first mark halves the window, however late it comes, and whatever else its round reports.
 * Then the window grows by a packet in a round. A loss halves it again, although marks are rare. */
static void window_after_a_mark(void **state)
{
	struct sender s = full();
	uint64_t window;

	for (int i = 0; i < 200; i++)
		one_round(&s);
	window = inc_congestion_window(&s.c);
	for (int i = 0; i < 10; i++)
		inc_congestion_marked(&s.c, s.high);
	assert_int_equal(inc_congestion_window(&s.c), window / 2);
	one_round(&s);
	assert_in_range(inc_congestion_window(&s.c), window / 2, window / 2 + 1);
	for (int i = 0; i < 10; i++)
		one_round(&s);
	assert_in_range(inc_congestion_window(&s.c), window / 2 + 9, window / 2 + 11);
	for (int i = 0; i < 200; i++)
		one_round(&s);
	window = inc_congestion_window(&s.c);
	inc_congestion_lost(&s.c, s.high);
	inc_congestion_lost(&s.c, s.high);
	assert_int_equal(inc_congestion_window(&s.c), window / 2);
}

/* After many rounds without a mark, marks in each round make the window small within some rounds.
 */
static void marks_come_back(void **state)
{
	struct sender s = full();

	inc_congestion_marked(&s.c, s.high);
	for (int i = 0; i < 400; i++)
		one_round(&s);
	assert_int_equal(inc_congestion_window(&s.c), MOST);
	for (int i = 0; i < 12; i++) {
		inc_congestion_marked(&s.c, s.high);
		one_round(&s);
	}
	assert_in_range(inc_congestion_window(&s.c), INC_WINDOW_LEAST, MOST / 4);
}

/* Where a mark comes once in 16 rounds, each takes little. Marks in all rounds leave the least
 * window, with which packets still go. */
static void rare_marks_and_constant_marks(void **state)
{
	struct sender s = full();
	uint64_t window;

	for (int i = 0; i < 400; i++) {
		if (i % 16 == 0)
			inc_congestion_marked(&s.c, s.high);
		one_round(&s);
	}
	window = inc_congestion_window(&s.c);
	inc_congestion_marked(&s.c, s.high);
	assert_in_range(inc_congestion_window(&s.c), window * 85 / 100, window * 99 / 100);
	for (int i = 0; i < 100; i++) {
		inc_congestion_marked(&s.c, s.high);
		one_round(&s);
	}
	assert_int_equal(inc_congestion_window(&s.c), INC_WINDOW_LEAST);
}

/* Single packets, one after the other, never fill the window, so it stays as it is. */
static void unused_window_does_not_grow(void **state)
{
	struct inc_congestion c;

	inc_congestion_init(&c);
	for (uint64_t r = 0; r < 1000; r++)
		inc_congestion_acked(&c, r, r + 1, r + 1, MOST);
	assert_int_equal(inc_congestion_window(&c), INC_WINDOW_FIRST);
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
		cmocka_unit_test(window_doubles_until_a_mark),
		cmocka_unit_test(window_after_a_mark),
		cmocka_unit_test(marks_come_back),
		cmocka_unit_test(rare_marks_and_constant_marks),
		cmocka_unit_test(unused_window_does_not_grow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
