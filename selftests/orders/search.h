/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The search runs a program of a few threads again and again, each time in another order of its
 * accesses to shared memory. It ends when no order is left that could have another outcome.
 *
 * The program's threads are coroutines of one thread. Code that is compiled with -fsanitize=thread
 * calls hooks.c before each of its accesses. If the address is shared, the search decides which
 * thread runs next. docs/orders.md describes what is tried and what is not.
 *
 * This header is for tests; the files of the search share search_priv.h. There is one search at a
 * time, all on the caller's thread.
 */
#ifndef ORDERS_SEARCH_H
#define ORDERS_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SEARCH_THREADS 8

/* Memory models, which define the stores of a thread that another thread may see. */
enum search_model {
	SEARCH_SC, /* sequential consistency: every access takes effect at once, for all threads */
	/* every load acquires, every store releases; a load may return an older value */
	SEARCH_X86,
	SEARCH_ARM64, /* plain accesses order nothing, atomics that return a value are barriers */
};

/* The ordering that an access requests, with the names of C11. */
enum search_sync {
	SEARCH_PLAIN = 0,
	SEARCH_ACQUIRE = 1,
	SEARCH_RELEASE = 2,
	SEARCH_FULL = 3,
};

struct search_program {
	const char *name;
	unsigned int threads;
	/* Resets all shared memory. It is called before each order. */
	void (*reset)(void *arg);
	/* The code of one thread. The search may abandon it at any access, so it must own no
	 * resources then. */
	void (*thread)(void *arg, unsigned int self);
	/* Checks the outcome of a run. Returns NULL, or what is wrong. */
	const char *(*check)(void *arg);
	/* The name of the word at this address, for the trace of a failure. May be NULL. */
	const char *(*word)(void *arg, const void *address);
	void *arg;
};

struct search_options {
	enum search_model model;
	/* try all orders, also those with equal outcomes, which tests the search itself */
	bool naive;
	/* Try only orders with at most `preemptions` preemptions and loads of older values
	 * together. A preemption is a change of thread although the last thread could go on. */
	bool bounded;
	unsigned int preemptions;
	uint64_t max_runs; /* greatest number of runs; 0: no limit */
};

struct search_result {
	uint64_t runs; /* number of orders that were tried to their end */
	/* number of orders that were abandoned because they became equal to an earlier one */
	uint64_t cut;
	uint64_t accesses;    /* number of accesses to shared memory in all runs */
	unsigned int longest; /* number of accesses in the longest run */
	bool bound_met;       /* some order was not tried because it had too many preemptions */
	bool complete;        /* all orders were tried; false: max_runs was reached */
	char why[512];        /* the error, or ""; with an error the trace was printed to stderr */
};

/* Declares that this memory is shared by the threads, in whole words of 8 bytes, until
 * search_forget(). */
void search_share(void *memory, size_t size);
/* Declares that threads spin on a 4-byte word in shared memory until it is 0. The search does not
 * run a thread that has read another value. */
void search_spins_on(const uint32_t *word);
void search_forget(void);

/* Tries all orders of the program. Returns 0, or -1 if one of them has a wrong outcome. */
int search_run(const struct search_program *program, const struct search_options *options,
	       struct search_result *result);

/* Accesses to words of shared memory, for code of a thread that is not instrumented. */
uint64_t search_load(const uint64_t *word, enum search_sync sync);
void search_store(uint64_t *word, uint64_t value, enum search_sync sync);
uint64_t search_fetch_add(uint64_t *word, uint64_t add);
/* Waits until the word is at least this value. */
void search_wait(const uint64_t *word, uint64_t at_least);
/* Reads the latest value of a word. This does not count as an access of the program. */
uint64_t search_latest(const void *address);
/* Sets a range of shared memory to the latest values. This does not count as an access of the
 * program. */
void search_settle(const void *from, size_t size);
/* Reports an error. It ends this run and the search. */
void search_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The number of the running thread; SEARCH_THREADS if none runs. */
unsigned int search_self(void);

#endif
