/* SPDX-License-Identifier: BSD-2-Clause */
/* Declarations that the files of the search share. */
#ifndef ORDERS_SEARCH_PRIV_H
#define ORDERS_SEARCH_PRIV_H

#include "search.h"

#define MAX_EVENTS  4096 /* events in one run */
#define MAX_WORDS   1024 /* words of shared memory that are used */
#define MAX_CHOICES 64
#define NO_THREAD   SEARCH_THREADS
#define NO_EVENT    0xffff

enum wait_for {
	WAIT_NOT,
	WAIT_ZERO,     /* until a 4-byte word is 0 */
	WAIT_AT_LEAST, /* until an 8-byte word is at least a value */
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
	uint16_t seq;                   /* number within its thread, from 1 */
	uint16_t clock[SEARCH_THREADS]; /* how many of each thread's events come before this one */
	uint64_t before;                /* the first word's value before a write */
	/* for a plain load in a model with views: the store whose value it returns */
	uint16_t source;
};

/* A state in the tree of orders, with the choices that were made there and those to be made. */
struct node {
	uint8_t thread; /* the thread that runs next in this run */
	uint8_t choice; /* which of the possible values the load returns */
	uint8_t choices;
	uint8_t enabled;   /* masks of threads: those that can run, */
	uint8_t backtrack; /* those that must be tried here, */
	uint8_t done;      /* those that have been tried, */
	/* and those that need not be tried, because they were tried in an earlier state and no
	 * event since depends on their next access */
	uint8_t sleep;
	uint8_t last;      /* the thread that ran last, NO_THREAD in the first state */
	uint8_t preempted; /* preemptions and loads of older values so far */
	/* The first values of the word that a thread is about to load need not be tried: it was
	 * tried with them before others were stored. */
	uint8_t tried[SEARCH_THREADS];
};

struct search {
	const struct search_program *program;
	struct search_options options;
	struct search_result *result;
	struct node node[MAX_EVENTS];
	struct event event[MAX_EVENTS];
	unsigned int events; /* events of this run so far */
	unsigned int prefix; /* this number of nodes is replayed, then new ones are made */
	unsigned int self;   /* the running thread */
	bool cut;
};

extern struct search search;

/* search.c */

/* The running thread is about to make this access. Returns when it is its turn, with the number of
 * the event. */
unsigned int search_point(const struct op *op);

/* words.c: shared memory in words of 8 bytes, numbered in the order of first use. */

bool words_shared(const void *at, size_t size);
bool words_spun_on(const void *at);
/* The number of the word that holds this byte. */
unsigned int words_number(const void *at);
uint64_t *words_memory(unsigned int word);
unsigned int words_used(void);

/* Runs over the words of an access. w: the number of the word. */
#define FOR_WORDS(op, w)                                                         \
	for (const uint8_t *at_ = (const uint8_t *)((uintptr_t)(op)->at & ~7ul); \
	     at_ < (op)->at + (op)->size && ((w) = words_number(at_), true); at_ += 8)

/* races.c: which orders are to be tried because of what a run has shown. */

void races_begin(void);
/* Event i is about to happen. */
void races_event(unsigned int i);
/* May an access and the one before it be swapped without a difference? */
bool races_independent(const struct op *next, const struct op *now);
/* Is this a load whose older values are tried by choice (a plain load in a model with views)? */
bool races_is_view(const struct op *op);
/* Could the waiting thread go on if its word had this value? */
bool races_ready(const struct op *op, uint64_t word);

/* memory.c: which values each thread may see, in the models other than SC. */

void memory_begin(void);
/* Makes visible what the running thread has stored since its last event. */
void memory_commit(void);
/* How many values the word has had. */
unsigned int memory_values(unsigned int word);
/* How many of them this thread may see. */
unsigned int memory_choices(unsigned int thread, unsigned int word);
/* The event that stored the value with the number choice. */
uint16_t memory_source(unsigned int word, unsigned int choice);
/* The thread loads the value with the number choice (0: the latest). The value is put into
 * memory. */
uint64_t memory_load(unsigned int thread, unsigned int word, unsigned int choice,
		     enum search_sync sync);
/* The thread will store into these words before its next event. Until then they hold the latest
 * values. */
void memory_store(unsigned int thread, const struct op *op);
void memory_fence(unsigned int thread, enum search_sync sync);
uint64_t memory_latest(unsigned int word);

#endif
