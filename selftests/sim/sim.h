/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The core of the simulation: one seed, one clock, one queue of events, one thread. Only events
 * advance the clock. All random numbers come from the seed, in the order of the events, so a seed
 * is the same run each time. Important steps of a run are noted. The notes are the lines of the
 * trace, and their hash shows whether two runs are equal.
 */
#ifndef SIM_H
#define SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/base/clock.h"
#include "selftests/unit/report.h"

typedef void (*sim_fn)(void *arg, uint64_t arg2);

/* Figures of all runs. */
struct sim_figures {
	uint64_t events, packets, lost, repeated, damaged, delayed, crashes, pauses, cuts, full,
		moves, forged;
};
extern struct sim_figures sim_figures;

/* Begins a run, with an empty queue and the clock at its start. */
void sim_begin(uint64_t seed, bool trace);
uint64_t sim_seed(void);
uint64_t sim_now_ns(void);
/* Random numbers of the seed: 0..n-1, true with a chance of permille in 1,000, and from..to. */
uint32_t sim_below(uint32_t n);
bool sim_chance(uint32_t permille);
uint64_t sim_between(uint64_t from, uint64_t to);

/* Sets the time at which faults end. Until then sim_fault() is true with a chance of permille in
 * 1,000. */
void sim_faults_end(uint64_t at_ns);
bool sim_faults(void);
static inline bool sim_fault(uint32_t permille)
{
	return sim_faults() && sim_chance(permille);
}

/* Calls fn(arg, arg2) at this time. Events at the same time happen in the order of these calls. */
void sim_at(uint64_t at_ns, sim_fn fn, void *arg, uint64_t arg2);
static inline void sim_after(uint64_t ns, sim_fn fn, void *arg, uint64_t arg2)
{
	sim_at(sim_now_ns() + ns, fn, arg, arg2);
}
/* Runs the next event. Returns false if there is no event. */
bool sim_step(void);

/* Notes a step of the run, with up to three numbers. The note is a line of the trace and a part of
 * the hash. No number may be a pointer, because pointers differ from run to run. */
void sim_note(const char *where, const char *what, uint64_t a, uint64_t b, uint64_t c);
/* Adds bytes to the hash of the run. */
void sim_hash_bytes(const void *data, size_t size);
bool sim_tracing(void);
uint64_t sim_hash(void);

/* Reports an error of the run: prints the seed and the sentence, and ends the program. */
void sim_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
/* Sets a function that sim_fail() calls after it has printed the sentence. */
void sim_on_failure(void (*fn)(void));
/* Called once in a program. Afterwards a crash of the product's code prints the seed, too. */
void sim_catch_crashes(void);
#define sim_require(good, ...)                 \
	do {                                   \
		if (!(good))                   \
			sim_fail(__VA_ARGS__); \
	} while (0)

#endif
