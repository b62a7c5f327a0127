// SPDX-License-Identifier: BSD-2-Clause
/*
 * Who sees what, where not everybody sees the same: each word has all values that were ever stored
 * in it, in their order, and each thread a view, which says how old the value may be that it
 * loads, word by word. A load may see any value from the view on. Loads and stores move the view of
 * their word; what else becomes visible is what orders accesses:
 *
 *   - a value that is released carries the view of the thread that stored it, one that is stored
 *     plainly the view of that thread's last barrier;
 *   - who loads it takes that view over, at once by an acquiring load, with the next barrier
 *     otherwise.
 *
 * The value that a load is to see is put into memory just before the instruction; what an
 * instruction has stored is taken from there before anybody else goes on.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "search_priv.h"

#define MAX_VALUES 48   /* of one word, in one run */
#define MAX_VIEWS  4096 /* of one run */

struct view {
	uint8_t at[MAX_WORDS]; /* the oldest value that may be seen */
};

struct value {
	uint64_t word;
	const struct view *carries; /* NULL: nothing */
	uint16_t event;             /* that stored it */
};

static struct {
	struct value value[MAX_VALUES];
	unsigned int values;
} history[MAX_WORDS];

static struct {
	struct view now, heard, barrier; /* heard: what a barrier would add to now */
	struct op stores;                /* since the last event; size 0: nothing */
	uint16_t event;
} viewer[SEARCH_THREADS];

static struct view views[MAX_VIEWS];
static unsigned int used_views;

static void join(struct view *into, const struct view *from)
{
	if (!from)
		return;
	for (unsigned int i = 0; i < words_used(); i++)
		if (from->at[i] > into->at[i])
			into->at[i] = from->at[i];
}

void memory_begin(void)
{
	for (unsigned int i = 0; i < MAX_WORDS; i++)
		history[i].values = 0;
	memset(viewer, 0, sizeof(viewer));
	used_views = 0;
}

/* What the word held when the run began is its first value. */
static void know(unsigned int word)
{
	if (history[word].values)
		return;
	history[word].value[0] = (struct value){.word = *words_memory(word), .event = NO_EVENT};
	history[word].values = 1;
}

static const struct view *keep(const struct view *view)
{
	assert(used_views < MAX_VIEWS);
	memcpy(views[used_views].at, view->at, MAX_WORDS);
	return &views[used_views++];
}

void memory_commit(void)
{
	unsigned int t = search.self, w;
	struct op *op;

	if (t == NOBODY || !viewer[t].stores.size)
		return;
	op = &viewer[t].stores;
	FOR_WORDS(op, w)
	{
		unsigned int n = history[w].values++;

		assert(n < MAX_VALUES);
		viewer[t].now.at[w] = viewer[t].heard.at[w] = n;
		history[w].value[n].word = *words_memory(w);
		history[w].value[n].event = viewer[t].event;
	}
	FOR_WORDS(op, w)
	history[w].value[history[w].values - 1].carries =
		keep(op->sync & SEARCH_RELEASE ? &viewer[t].now : &viewer[t].barrier);
	if (op->sync == SEARCH_FULL)
		viewer[t].barrier = viewer[t].now;
	op->size = 0;
}

unsigned int memory_values(unsigned int word)
{
	know(word);
	return history[word].values;
}

uint16_t memory_source(unsigned int word, unsigned int choice)
{
	return history[word].value[history[word].values - 1 - choice].event;
}

unsigned int memory_choices(unsigned int thread, unsigned int word)
{
	know(word);
	return history[word].values - viewer[thread].now.at[word];
}

uint64_t memory_load(unsigned int thread, unsigned int word, unsigned int choice,
		     enum search_sync sync)
{
	unsigned int n;
	struct value *v;

	know(word);
	n = history[word].values - 1 - choice;
	v = &history[word].value[n];
	if (viewer[thread].now.at[word] < n)
		viewer[thread].now.at[word] = n;
	join(&viewer[thread].heard, v->carries);
	if (viewer[thread].heard.at[word] < n)
		viewer[thread].heard.at[word] = n;
	if (sync & SEARCH_ACQUIRE)
		join(&viewer[thread].now, v->carries);
	return v->word;
}

void memory_store(unsigned int thread, const struct op *op)
{
	unsigned int w;

	FOR_WORDS(op, w)
	{
		know(w);
		*words_memory(w) = memory_latest(w);
	}
	viewer[thread].stores = *op;
	viewer[thread].event = search.events - 1;
}

void memory_fence(unsigned int thread, enum search_sync sync)
{
	if (sync & SEARCH_ACQUIRE)
		join(&viewer[thread].now, &viewer[thread].heard);
	if (sync & SEARCH_RELEASE)
		viewer[thread].barrier = viewer[thread].now;
}

uint64_t memory_latest(unsigned int word)
{
	know(word);
	return history[word].value[history[word].values - 1].word;
}
