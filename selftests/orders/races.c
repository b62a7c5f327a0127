// SPDX-License-Identifier: BSD-2-Clause
/*
 * Decides which orders are to be tried. The algorithm is dynamic partial order reduction with
 * source sets and sleep sets (Abdulla, Aronis, Jonsson, Sagonas: Optimal dynamic partial order
 * reduction, POPL 2014, without wake-up trees).
 *
 * Two accesses depend on each other if they are of one thread, or if they are of one word and one
 * of them writes. Two orders have the same end if all dependent accesses have the same relative
 * order. So only those dependent pairs of a run matter that follow each other immediately. For each
 * such pair the search plans a run in which the second access comes first.
 */
#include <assert.h>
#include <string.h>
#include "search_priv.h"

#define MAX_DEPENDENT 64

/* For each word: the event that wrote it last, and the last load of each thread since then. */
static uint16_t writer[MAX_WORDS], reader[MAX_WORDS][SEARCH_THREADS];
static uint16_t clock_of[SEARCH_THREADS][SEARCH_THREADS];

void races_begin(void)
{
	memset(writer, 0xff, sizeof(writer));
	memset(reader, 0xff, sizeof(reader));
	memset(clock_of, 0, sizeof(clock_of));
}

static bool overlap(const struct op *a, const struct op *b)
{
	return ((uintptr_t)a->at & ~7ul) < (uintptr_t)b->at + b->size &&
	       ((uintptr_t)b->at & ~7ul) < (uintptr_t)a->at + a->size;
}

bool races_is_view(const struct op *op)
{
	return search.options.model != SEARCH_SC && !op->writes && !op->wait;
}

bool races_independent(const struct op *next, const struct op *now)
{
	/* a load that may return older values may be delayed instead */
	return !(next->writes || now->writes) || races_is_view(now) || !overlap(next, now);
}

bool races_ready(const struct op *op, uint64_t word)
{
	if (op->wait == WAIT_ZERO)
		return !(uint32_t)(word >> ((uintptr_t)op->at & 4) * 8);
	return op->wait == WAIT_NOT || word >= op->at_least;
}

/* Does event i happen before the event or thread that has this vector clock? */
static bool before(unsigned int i, const uint16_t clock[SEARCH_THREADS])
{
	return clock[search.event[i].thread] >= search.event[i].seq;
}

/*
 * Plans a run in which event i comes before the earlier event j. Each event between them that does
 * not depend on j could come before j, too. A thread whose event can be the first of these is an
 * initial, and begins such an order. One initial must be tried in the state before j.
 */
static void race(unsigned int j, unsigned int i)
{
	struct node *node = &search.node[j];
	uint16_t list[MAX_EVENTS];
	unsigned int n = 0, seen = 0, initials = 0, k, m;

	for (k = j + 1; k <= i; k++) {
		const struct event *e = &search.event[k];
		unsigned int bit = 1u << e->thread;

		if (k < i && before(j, e->clock))
			continue;
		if (!(seen & bit)) {
			seen |= bit;
			for (m = 0; m < n && !before(list[m], e->clock); m++)
				;
			if (m == n)
				initials |= bit;
		}
		list[n++] = k;
	}
	if (initials & node->backtrack)
		return;
	initials &= node->enabled;
	if (!initials)
		node->backtrack |= node->enabled;
	else if (initials >> search.event[i].thread & 1)
		node->backtrack |= 1u << search.event[i].thread;
	else
		node->backtrack |= initials & -initials;
}

static void add(uint16_t *list, unsigned int *n, uint16_t i)
{
	if (i == NO_EVENT)
		return;
	for (unsigned int k = 0; k < *n; k++)
		if (list[k] == i)
			return;
	assert(*n < MAX_DEPENDENT);
	list[(*n)++] = i;
}

/* Lists the events on which event e depends directly: the last of each word and thread. */
static unsigned int dependent(const struct event *e, uint16_t list[MAX_DEPENDENT])
{
	unsigned int n = 0, w, t;

	if (races_is_view(&e->op)) {
		add(list, &n, e->source);
		return n;
	}
	FOR_WORDS(&e->op, w)
	{
		add(list, &n, writer[w]);
		if (e->op.writes)
			for (t = 0; t < SEARCH_THREADS; t++)
				add(list, &n, reader[w][t]);
	}
	return n;
}

/* A thread that waits cannot go on before the event that ended its wait. But it might go on before
 * the event that made the wait necessary. own: the thread's clock when it began to wait. */
static void race_waiting(unsigned int i, const uint16_t own[SEARCH_THREADS])
{
	const struct event *e = &search.event[i];

	for (unsigned int k = i; k--;) {
		const struct event *w = &search.event[k];

		if (!w->op.writes || !overlap(&w->op, &e->op))
			continue;
		if (before(k, own))
			return;
		if (races_ready(&e->op, w->before)) {
			race(k, i);
			return;
		}
	}
}

static void remember(unsigned int i)
{
	const struct event *e = &search.event[i];
	unsigned int w;

	FOR_WORDS(&e->op, w)
	{
		if (e->op.writes) {
			writer[w] = i;
			memset(reader[w], 0xff, sizeof(reader[w]));
		} else {
			reader[w][e->thread] = i;
		}
	}
}

void races_event(unsigned int i)
{
	struct event *e = &search.event[i];
	uint16_t list[MAX_DEPENDENT], own[SEARCH_THREADS];
	unsigned int n = dependent(e, list), k, m, t;

	e->seq = ++clock_of[e->thread][e->thread];
	memcpy(own, clock_of[e->thread], sizeof(own));
	memcpy(e->clock, own, sizeof(own));
	for (k = 0; k < n; k++)
		for (t = 0; t < SEARCH_THREADS; t++)
			if (search.event[list[k]].clock[t] > e->clock[t])
				e->clock[t] = search.event[list[k]].clock[t];
	memcpy(clock_of[e->thread], e->clock, sizeof(own));
	remember(i);
	if (search.options.naive || races_is_view(&e->op))
		return;
	if (e->op.wait) {
		race_waiting(i, own);
		return;
	}
	for (k = 0; k < n; k++) {
		if (before(list[k], own))
			continue;
		for (m = 0; m < n && (m == k || !before(list[k], search.event[list[m]].clock)); m++)
			;
		if (m == n)
			race(list[k], i);
	}
}
