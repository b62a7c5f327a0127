// SPDX-License-Identifier: BSD-2-Clause
/*
 * Memory models in which threads do not see the same values. Each word has the list of all values
 * that were ever stored in it. Each thread has a view: for each word, the oldest value that it may
 * still load. A load may return any value from the view on. Loads and stores advance the view of
 * their word. Synchronisation decides what else becomes visible:
 *
 *	- a released value carries the view of the thread that stored it; a plainly stored value
 *	  carries that thread's view at its last barrier;
 *	- a thread that loads the value adopts the carried view: at once if the load acquires, else
 *	  with its next barrier.
 *
 * The value that a load shall return is put into memory just before the instruction. Data that an
 * instruction has stored is read from memory before another thread runs.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "search_priv.h"

#define MAX_VALUES 48   /* number of values of one word in one run */
#define MAX_VIEWS  4096 /* number of views in one run */

struct view {
	uint8_t at[MAX_WORDS]; /* for each word: the oldest value that the thread may still load */
};

struct value {
	uint64_t word;
	const struct view *carries; /* view that a load of this value adopts; NULL: none */
	uint16_t event;             /* the event that stored the value */
};

static struct {
	struct value value[MAX_VALUES];
	unsigned int values;
} history[MAX_WORDS];

static struct {
	struct view now, after_barrier,
		barrier;  /* after_barrier: the view after the next barrier */
	struct op stores; /* the store of the thread since its last event; size 0: none */
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

/* Makes the value that the word had at the beginning of the run the first one of its list. */
static void begin_history(unsigned int word)
{
	if (history[word].values)
		return;
	history[word].value[0] = (struct value){.word = *words_memory(word), .event = NO_EVENT};
	history[word].values = 1;
}

static const struct view *store_view(const struct view *view)
{
	assert(used_views < MAX_VIEWS);
	memcpy(views[used_views].at, view->at, MAX_WORDS);
	return &views[used_views++];
}

void memory_commit(void)
{
	unsigned int t = search.self, w;
	struct op *op;

	if (t == NO_THREAD || !viewer[t].stores.size)
		return;
	op = &viewer[t].stores;
	FOR_WORDS(op, w)
	{
		unsigned int n = history[w].values++;

		assert(n < MAX_VALUES);
		viewer[t].now.at[w] = viewer[t].after_barrier.at[w] = n;
		history[w].value[n].word = *words_memory(w);
		history[w].value[n].event = viewer[t].event;
	}
	FOR_WORDS(op, w)
	history[w].value[history[w].values - 1].carries =
		store_view(op->sync & SEARCH_RELEASE ? &viewer[t].now : &viewer[t].barrier);
	if (op->sync == SEARCH_FULL)
		viewer[t].barrier = viewer[t].now;
	op->size = 0;
}

unsigned int memory_values(unsigned int word)
{
	begin_history(word);
	return history[word].values;
}

uint16_t memory_source(unsigned int word, unsigned int choice)
{
	return history[word].value[history[word].values - 1 - choice].event;
}

unsigned int memory_choices(unsigned int thread, unsigned int word)
{
	begin_history(word);
	return history[word].values - viewer[thread].now.at[word];
}

uint64_t memory_load(unsigned int thread, unsigned int word, unsigned int choice,
		     enum search_sync sync)
{
	unsigned int n;
	struct value *v;

	begin_history(word);
	n = history[word].values - 1 - choice;
	v = &history[word].value[n];
	if (viewer[thread].now.at[word] < n)
		viewer[thread].now.at[word] = n;
	join(&viewer[thread].after_barrier, v->carries);
	if (viewer[thread].after_barrier.at[word] < n)
		viewer[thread].after_barrier.at[word] = n;
	if (sync & SEARCH_ACQUIRE)
		join(&viewer[thread].now, v->carries);
	return v->word;
}

void memory_store(unsigned int thread, const struct op *op)
{
	unsigned int w;

	FOR_WORDS(op, w)
	{
		begin_history(w);
		*words_memory(w) = memory_latest(w);
	}
	viewer[thread].stores = *op;
	viewer[thread].event = search.events - 1;
}

void memory_fence(unsigned int thread, enum search_sync sync)
{
	if (sync & SEARCH_ACQUIRE)
		join(&viewer[thread].now, &viewer[thread].after_barrier);
	if (sync & SEARCH_RELEASE)
		viewer[thread].barrier = viewer[thread].now;
}

uint64_t memory_latest(unsigned int word)
{
	begin_history(word);
	return history[word].value[history[word].values - 1].word;
}
