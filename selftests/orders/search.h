/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Search: a program of a few threads is run again and again, each time in another order of its
 * accesses to shared memory, until no order is left that could end otherwise.
 *
 * The program's threads are coroutines of one thread. Code that is compiled with
 * -fsanitize=thread calls hooks.c before each of its accesses; where the address is shared, the
 * search decides who goes on. docs/orders.md tells what is tried and what is not.
 *
 * What is declared here is for tests; the files of the search share search_priv.h. One search at a
 * time, all on the caller's thread.
 */
#ifndef ORDERS_SEARCH_H
#define ORDERS_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SEARCH_THREADS 8

/* What another thread may see of an access. */
enum search_model {
	SEARCH_SC,    /* one memory, every access at once in it */
	SEARCH_X86,   /* every load acquires, every store releases; a load may see an older value */
	SEARCH_ARM64, /* plain accesses order nothing, atomics that return a value are barriers */
};

/* As words of the C11 model: what an access orders. */
enum search_sync {
	SEARCH_PLAIN = 0,
	SEARCH_ACQUIRE = 1,
	SEARCH_RELEASE = 2,
	SEARCH_FULL = 3,
};

struct search_program {
	const char *name;
	unsigned int threads;
	/* Puts all shared memory back, before each order. */
	void (*reset)(void *arg);
	/* One thread; may use nothing that it has not given back when it is abandoned. */
	void (*thread)(void *arg, unsigned int self);
	/* After the last access of all threads: NULL, or what is wrong. */
	const char *(*check)(void *arg);
	/* What the word at this address is called, for a failure's trace; may be NULL. */
	const char *(*word)(void *arg, const void *address);
	void *arg;
};

struct search_options {
	enum search_model model;
	bool naive; /* all orders, also those that cannot differ: to test the search */
	/* Only orders with at most so many preemptions (changes of thread where the last one could
	 * go on) and loads of older values together. */
	bool bounded;
	unsigned int preemptions;
	uint64_t max_runs; /* 0: as many as there are */
};

struct search_result {
	uint64_t runs;        /* orders tried to their end */
	uint64_t cut;         /* orders left where they became one that had been tried */
	uint64_t accesses;    /* of shared memory, in all of them */
	unsigned int longest; /* accesses of one run */
	bool bound_met;       /* an order was left out because of its preemptions */
	bool complete;        /* false: max_runs was reached */
	char why[512];        /* what is wrong, "" where nothing is; the trace went to stderr */
};

/* Memory that the threads share, until search_forget(): whole words of 8 bytes. */
void search_share(void *memory, size_t size);
/* A 4-byte word in shared memory on which threads spin until it is 0: who reads anything else
 * waits. */
void search_spins_on(const uint32_t *word);
void search_forget(void);

/* Tries all orders. 0, or -1 where one is wrong. */
int search_run(const struct search_program *program, const struct search_options *options,
	       struct search_result *result);

/* For threads of the program, on words of shared memory, in place of instrumented accesses. */
uint64_t search_load(const uint64_t *word, enum search_sync sync);
void search_store(uint64_t *word, uint64_t value, enum search_sync sync);
uint64_t search_fetch_add(uint64_t *word, uint64_t add);
/* Waits until the word is at least this. */
void search_wait(const uint64_t *word, uint64_t at_least);
/* The value that was stored last, without an access of the program. */
uint64_t search_latest(const void *address);
/* All of a range of shared memory becomes what was stored last; no access of the program. */
void search_settle(const void *from, size_t size);
/* Something is wrong: ends this run and the search. */
void search_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Which thread runs; SEARCH_THREADS where none does. */
unsigned int search_self(void);

#endif
