/* SPDX-License-Identifier: BSD-2-Clause */
#include <limits.h>
#include <string.h>
#include "lib/roce/rto.h"

void inc_rto_init(struct inc_rto *t, uint64_t first_ns, uint64_t min_ns, uint64_t max_ns)
{
	memset(t, 0, sizeof(*t));
	t->min_ns = min_ns;
	t->max_ns = max_ns;
	t->rto_ns = first_ns > min_ns ? first_ns : min_ns;
}

void inc_rto_measure(struct inc_rto *t, uint64_t end, uint64_t now_ns)
{
	if (t->sample_end)
		return;
	t->sample_end = end;
	t->sample_at_ns = now_ns;
	t->spoiled = false;
}

void inc_rto_spoil(struct inc_rto *t)
{
	t->spoiled = true;
}

static void take_sample(struct inc_rto *t, uint64_t rtt_ns)
{
	uint64_t diff_ns;

	if (!t->srtt_ns) {
		t->srtt_ns = rtt_ns;
		t->rttvar_ns = rtt_ns / 2;
	} else {
		diff_ns = rtt_ns > t->srtt_ns ? rtt_ns - t->srtt_ns : t->srtt_ns - rtt_ns;
		t->rttvar_ns = (3 * t->rttvar_ns + diff_ns) / 4;
		t->srtt_ns = (7 * t->srtt_ns + rtt_ns) / 8;
	}
	t->rto_ns = t->srtt_ns + 4 * t->rttvar_ns;
	if (t->rto_ns < t->min_ns)
		t->rto_ns = t->min_ns;
	if (t->rto_ns > t->max_ns)
		t->rto_ns = t->max_ns;
}

void inc_rto_acked(struct inc_rto *t, uint64_t acked, uint64_t now_ns)
{
	if (!t->sample_end || acked < t->sample_end)
		return;
	if (!t->spoiled)
		take_sample(t, now_ns - t->sample_at_ns);
	t->sample_end = 0;
}

void inc_rto_timed_out(struct inc_rto *t)
{
	if (t->backoff < UINT_MAX)
		t->backoff++;
}

void inc_rto_heard(struct inc_rto *t)
{
	t->backoff = 0;
}

uint64_t inc_rto_wait_ns(const struct inc_rto *t)
{
	uint64_t wait_ns = t->rto_ns << inc_rto_doublings(t);

	return wait_ns < t->max_ns ? wait_ns : t->max_ns;
}
