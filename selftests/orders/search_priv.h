/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the search share. */
#ifndef ORDERS_SEARCH_PRIV_H
#define ORDERS_SEARCH_PRIV_H

#include "search.h"

#define MAX_EVENTS  4096 /* of one run */
#define MAX_WORDS   1024 /* of shared memory that are used */
#define MAX_CHOICES 64
#define NOBODY      SEARCH_THREADS
#define NO_EVENT    0xffff

enum wait_for {
	WAIT_NOT,
	WAIT_ZERO,     /* of a 4-byte word */
	WAIT_AT_LEAST, /* of an 8-byte word */
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
	uint16_t seq;                   /* of its thread, from 1 */
	uint16_t clock[SEARCH_THREADS]; /* how many of each thread's events come before it */
	uint64_t before;                /* the first word, before a write */
	uint16_t source; /* a plain load in a model with views: the store that it sees */
};

/* A state of the search tree: what was done there, and what is to be done. */
struct node {
	uint8_t thread; /* whose turn it is now */
	uint8_t choice; /* which of the values that the load may see */
	uint8_t choices;
	uint8_t enabled;   /* masks of threads: who can go on, */
	uint8_t backtrack; /*   whose turn must be tried, */
	uint8_t done;      /*   has been, */
	uint8_t sleep;     /*   or need not be: it was tried before, and nothing that it does
			    *   depends on what came since */
	uint8_t last;      /* who came here, NOBODY in the first state */
	uint8_t preempted; /* what counts for the bound on the way here */
	/* So many values of the word that a thread is about to load need not be tried: it was tried
	 * with them before others were stored. */
	uint8_t tried[SEARCH_THREADS];
};

struct search {
	const struct search_program *program;
	struct search_options options;
	struct search_result *result;
	struct node node[MAX_EVENTS];
	struct event event[MAX_EVENTS];
	unsigned int events; /* of this run */
	unsigned int prefix; /* as many nodes are followed, then new ones are made */
	unsigned int self;   /* the thread that runs */
	bool cut;
};

extern struct search search;

/* search.c */

/* The running thread is about to do this; returns when it is its turn. The number of the event. */
unsigned int search_point(const struct op *op);

/* words.c: shared memory in words of 8 bytes, numbered in the order of first use. */

bool words_shared(const void *at, size_t size);
bool words_spun_on(const void *at);
/* The number of the word that holds this byte. */
unsigned int words_number(const void *at);
uint64_t *words_memory(unsigned int word);
unsigned int words_used(void);

/* For each word of an operation: w is its number. */
#define FOR_WORDS(op, w)                                                         \
	for (const uint8_t *at_ = (const uint8_t *)((uintptr_t)(op)->at & ~7ul); \
	     at_ < (op)->at + (op)->size && ((w) = words_number(at_), true); at_ += 8)

/* races.c: which orders are to be tried because of what a run has shown. */

void races_begin(void);
/* Event i is about to happen. */
void races_event(unsigned int i);
/* Of an operation that is about to come and one that comes before it: may they be swapped without a
 * difference? */
bool races_independent(const struct op *next, const struct op *now);
/* A load that may see what it could have seen earlier? */
bool races_is_view(const struct op *op);
/* Could the operation go on where the word that it waits for has this value? */
bool races_ready(const struct op *op, uint64_t word);

/* memory.c: who sees what, in the models other than SC. */

void memory_begin(void);
/* What the running thread has stored since its last event becomes visible. */
void memory_commit(void);
/* How many values the word has had. */
unsigned int memory_values(unsigned int word);
/* How many of them this thread may see. */
unsigned int memory_choices(unsigned int thread, unsigned int word);
/* The event that stored the one that choice stands for. */
uint16_t memory_source(unsigned int word, unsigned int choice);
/* The thread loads the value that choice stands for, 0 the latest; it stands in memory then. */
uint64_t memory_load(unsigned int thread, unsigned int word, unsigned int choice,
		     enum search_sync sync);
/* The thread will store into these words before its next event; they hold the latest now. */
void memory_store(unsigned int thread, const struct op *op);
void memory_fence(unsigned int thread, enum search_sync sync);
uint64_t memory_latest(unsigned int word);

#endif
