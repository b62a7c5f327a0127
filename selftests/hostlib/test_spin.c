/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/*
 * Polling before a sleep (lib/base/spin.h): for how long a wait polls, and when it does not,
 * because polls are in vain or another thread needs the CPU. Time passes only as the cases say.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "lib/base/clock.h"
#include "lib/base/os.h"
#include "lib/base/spin.h"

#define POLL_NS (50 * INC_NSEC_PER_USEC)
#define POLL_US 50

static uint64_t now_ns;
static uint64_t away_ns; /* how long other threads run when the thread gives way */

static uint64_t clock_ns(clockid_t clock)
{
	return now_ns;
}

static void give_way(void)
{
	now_ns += away_ns;
}

static int setup(void **state)
{
	static struct inc_spin spin;

	now_ns = INC_NSEC_PER_SEC;
	away_ns = 0;
	inc_os.clock_ns = clock_ns;
	inc_os.wait.give_way = give_way;
	inc_spin_init(&spin, POLL_NS);
	*state = &spin;
	return 0;
}

/* One poll, which takes a microsecond. Returns whether the thread polled. */
static bool poll_once(struct inc_spin *s)
{
	if (!inc_spin_polls(s))
		return false;
	inc_spin_give_way(s);
	now_ns += INC_NSEC_PER_USEC;
	return true;
}

/* A wait in which nothing arrives before the thread sleeps. Returns the number of polls. */
static unsigned int wait_in_vain(struct inc_spin *s)
{
	unsigned int n = 0;

	while (poll_once(s))
		n++;
	/* as long as nothing arrives, the thread does not poll again */
	assert_false(poll_once(s));
	inc_spin_arrived(s);
	return n;
}

/* A wait in which something arrives after n polls. */
static void wait_for(struct inc_spin *s, unsigned int n)
{
	while (n--)
		assert_true(poll_once(s));
	inc_spin_arrived(s);
}

/* The number of waits without a poll before one polls in vain. */
static unsigned int skipped(struct inc_spin *s)
{
	unsigned int n = 0;

	while (!wait_in_vain(s))
		n++;
	return n;
}

static void polls_for_its_time(void **state)
{
	struct inc_spin *s = *state;

	wait_for(s, POLL_US);
	wait_for(s, POLL_US);
	assert_int_equal(wait_in_vain(s), POLL_US);
}

static void off(void **state)
{
	struct inc_spin *s = *state;

	inc_spin_init(s, 0);
	assert_int_equal(wait_in_vain(s), 0);
}

/* After polls in vain the thread sleeps at once, for more waits each time. One success ends that.
 */
static void in_vain(void **state)
{
	struct inc_spin *s = *state;
	unsigned int first, n;

	assert_int_equal(wait_in_vain(s), POLL_US);
	first = skipped(s);
	assert_true(first >= 4);
	n = skipped(s);
	assert_int_equal(n, 2 * first);
	for (n = 0; n < 20; n++)
		assert_true(skipped(s) <= 256);
	assert_int_equal(skipped(s), 256);
	while (!poll_once(s))
		inc_spin_arrived(s);
	inc_spin_arrived(s);
	assert_int_equal(wait_in_vain(s), POLL_US);
	assert_int_equal(skipped(s), first);
}

/* Time in which other threads run does not count, but for the cost of switching to them. */
static void others_run(void **state)
{
	struct inc_spin *s = *state;
	unsigned int n;

	away_ns = 100 * INC_NSEC_PER_USEC;
	n = wait_in_vain(s);
	assert_true(n > POLL_US / 10 && n < POLL_US);
}

/* A thread that computes gets the CPU: no wait polls for a while, which doubles up to a second. */
static void another_computes(void **state)
{
	struct inc_spin *s = *state;
	uint64_t pause_ns, before_ns = 0;
	unsigned int i;

	for (i = 0; i < 20; i++) {
		away_ns = 3 * INC_NSEC_PER_MSEC;
		assert_int_equal(wait_in_vain(s), 1);
		away_ns = 0;
		for (pause_ns = 0; !poll_once(s); pause_ns += INC_NSEC_PER_MSEC) {
			inc_spin_arrived(s);
			now_ns += INC_NSEC_PER_MSEC;
		}
		inc_spin_arrived(s);
		assert_in_range(pause_ns, before_ns, 1300 * INC_NSEC_PER_MSEC);
		before_ns = pause_ns;
	}
	assert_true(before_ns > 900 * INC_NSEC_PER_MSEC);
	/* if that happens seldom, the pause is short again */
	now_ns += 10 * INC_NSEC_PER_SEC;
	away_ns = 3 * INC_NSEC_PER_MSEC;
	assert_int_equal(wait_in_vain(s), 1);
	away_ns = 0;
	now_ns += 11 * INC_NSEC_PER_MSEC;
	assert_true(poll_once(s));
}

#define CASE(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(polls_for_its_time), CASE(off), CASE(in_vain), CASE(others_run),
		CASE(another_computes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
