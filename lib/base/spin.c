/* SPDX-License-Identifier: BSD-2-Clause */
#include "lib/base/clock.h"
#include "lib/base/os.h"
#include "lib/base/spin.h"

/* The time of two context switches, which sched_yield() costs if another thread gets the CPU. If
 * the call takes longer, other threads have run for the rest of the time. */
#define SWITCH_NS (2 * INC_NSEC_PER_USEC)
/* If another thread uses the CPU for this long while a polling thread yields it, that thread
 * computes and does not only serve packets. The polling thread then stops polling, because only a
 * thread that sleeps gets the CPU back at once when a packet arrives. */
#define LONG_NS (500 * INC_NSEC_PER_USEC)
/* Bounds of the pause in polling after another thread has used the CPU for LONG_NS. The pause
 * doubles if the same happens again within PAUSE_MAX_NS. */
#define PAUSE_MIN_NS (10 * INC_NSEC_PER_MSEC)
#define PAUSE_MAX_NS INC_NSEC_PER_SEC
/* Bounds of the number of waits that do not poll after a wait has polled until its time limit in
 * vain. The number doubles with each such wait, because polls in vain cost as much as several
 * wake-ups. */
#define SKIPS_MIN 8
#define SKIPS_MAX 256

void inc_spin_init(struct inc_spin *s, uint64_t poll_ns)
{
	*s = (struct inc_spin){.poll_ns = poll_ns, .skips = SKIPS_MIN, .pause_ns = PAUSE_MIN_NS};
}

/* Ends the polls of this wait, because their time limit has passed and nothing has arrived. */
static void give_up(struct inc_spin *s)
{
	s->done = true;
	if (s->for_neighbours)
		return;
	s->skip = s->skips;
	if (s->skips < SKIPS_MAX)
		s->skips *= 2;
}

bool inc_spin_polls(struct inc_spin *s)
{
	uint64_t now_ns;

	if (!s->poll_ns || s->done)
		return false;
	if (!s->began_at_ns && s->skip) {
		s->skip--;
		s->done = true;
		return false;
	}
	now_ns = inc_now_ns();
	if (now_ns < s->resume_at_ns)
		return false;
	if (!s->began_at_ns) {
		s->began_at_ns = now_ns;
		s->given_ns = 0;
	}
	if (now_ns - s->began_at_ns < s->poll_ns + s->given_ns)
		return true;
	give_up(s);
	return false;
}

void inc_spin_give_way(struct inc_spin *s)
{
	const uint64_t from_ns = inc_now_ns();
	uint64_t now_ns, took_ns;

	inc_os.wait.give_way();
	now_ns = inc_now_ns();
	took_ns = now_ns - from_ns;
	if (took_ns > SWITCH_NS)
		s->given_ns += took_ns - SWITCH_NS;
	if (took_ns < LONG_NS || s->for_neighbours)
		return;
	s->done = true;
	if (now_ns > s->resume_at_ns + PAUSE_MAX_NS)
		s->pause_ns = PAUSE_MIN_NS;
	s->resume_at_ns = now_ns + s->pause_ns;
	if (s->pause_ns < PAUSE_MAX_NS)
		s->pause_ns *= 2;
}

void inc_spin_arrived(struct inc_spin *s)
{
	/* polls have paid in this wait, because something arrived while it polled */
	if (s->began_at_ns && !s->done)
		s->skips = SKIPS_MIN;
	s->began_at_ns = 0;
	s->done = false;
}
