/* SPDX-License-Identifier: BSD-2-Clause */
/* Declarations that the files of the search share. */
#ifndef ORDERS_SEARCH_PRIV_H
#define ORDERS_SEARCH_PRIV_H

#include "search.h"

#define MAX_EVENTS  4096 /* number of events in one run */
#define MAX_WORDS   1024 /* number of words of shared memory that a program uses */
#define MAX_CHOICES 64
#define NO_THREAD   SEARCH_THREADS
#define NO_EVENT    0xffff

enum wait_for {
	WAIT_NOT,
	WAIT_ZERO,     /* the thread waits until a 4-byte word is 0 */
	WAIT_AT_LEAST, /* the thread waits until an 8-byte word is at least a value */
};

/* An access that a thread is about to make. */
struct op {
	const uint8_t *at;
	uint32_t size;
	bool reads, writes;
	enum search_sync sync;
	enum wait_for wait;
	uint64_t at_least;
};

struct event {
	struct op op;
	uint8_t thread;
	uint16_t seq; /* number of the event within its thread, from 1 */
	/* for each thread: how many of its events happen before this one */
	uint16_t clock[SEARCH_THREADS];
	uint64_t before; /* value of the first word before this event wrote it */
	/* for a plain load in a model with views: the event that stored the returned value */
	uint16_t source;
};

/* A state in the tree of orders, with the choices that were made in it and those that are still to
 * be made. */
struct node {
	uint8_t thread; /* the thread that runs next in this run */
	/* number of the value that the load returns, among `choices` possible ones */
	uint8_t choice;
	uint8_t choices;
	uint8_t enabled;   /* mask of threads that can run */
	uint8_t backtrack; /* mask of threads that must be tried in this state */
	uint8_t done;      /* mask of threads that have been tried */
	/* mask of threads that need not be tried, because they were tried in an earlier state and
	 * no event since depends on their next access */
	uint8_t sleep;
	uint8_t last;      /* the thread that ran last; NO_THREAD in the first state */
	uint8_t preempted; /* number of preemptions and loads of older values so far */
	/* For each thread: how many of the first values its next load need not try, because it was
	 * tried with them before later values were stored. */
	uint8_t tried[SEARCH_THREADS];
};

struct search {
	const struct search_program *program;
	struct search_options options;
	struct search_result *result;
	struct node node[MAX_EVENTS];
	struct event event[MAX_EVENTS];
	unsigned int events; /* number of events of this run so far */
	/* number of nodes that this run replays; after them it makes new nodes */
	unsigned int prefix;
	unsigned int self; /* number of the running thread */
	bool cut;
};

extern struct search search;

/* functions of search.c */

/* Called when the running thread is about to make this access. Returns when it is the thread's
 * turn, with the number of the event. */
unsigned int search_point(const struct op *op);

/* functions of words.c: shared memory in words of 8 bytes, numbered in the order of first use */

bool words_shared(const void *at, size_t size);
bool words_spun_on(const void *at);
/* The number of the word that contains this byte. */
unsigned int words_number(const void *at);
uint64_t *words_memory(unsigned int word);
unsigned int words_used(void);

/* Loops over the words of an access. w: the number of the word. */
#define FOR_WORDS(op, w)                                                         \
	for (const uint8_t *at_ = (const uint8_t *)((uintptr_t)(op)->at & ~7ul); \
	     at_ < (op)->at + (op)->size && ((w) = words_number(at_), true); at_ += 8)

/* functions of races.c, which decide what orders are to be tried because of a run */

void races_begin(void);
/* Called when event i is about to happen. */
void races_event(unsigned int i);
/* Can the access `next` and the one before it be swapped without a difference? */
bool races_independent(const struct op *next, const struct op *now);
/* Is this a plain load in a model with views, for which the search also tries older values? */
bool races_is_view(const struct op *op);
/* Could the waiting thread go on if its word had the given value? */
bool races_ready(const struct op *op, uint64_t word);

/* functions of memory.c, which decide what values each thread may see in the models other than
 * SC */

void memory_begin(void);
/* Makes the stores of the running thread since its last event visible. */
void memory_commit(void);
/* The number of values that the word has had. */
unsigned int memory_values(unsigned int word);
/* The number of values of the word that this thread may load. */
unsigned int memory_choices(unsigned int thread, unsigned int word);
/* The event that stored the value with the given choice number. */
uint16_t memory_source(unsigned int word, unsigned int choice);
/* Lets the thread load the value with the given choice number (0: the latest), which is put into
 * memory. */
uint64_t memory_load(unsigned int thread, unsigned int word, unsigned int choice,
		     enum search_sync sync);
/* Called when the thread will store into these words before its next event. Until then they hold
 * the latest values. */
void memory_store(unsigned int thread, const struct op *op);
void memory_fence(unsigned int thread, enum search_sync sync);
uint64_t memory_latest(unsigned int word);

#endif
