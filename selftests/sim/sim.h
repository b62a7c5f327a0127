/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel of the simulation: one seed, one clock, one queue of events, one thread. Whatever
 * happens is an event; nothing else moves the clock. All chance is drawn from the seed, in the
 * order of the events, so that a seed is one run, the same each time. Each thing worth knowing is
 * noted: the notes make the trace that people read, and the hash that tells two runs apart.
 */
#ifndef SIM_H
#define SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/base/clock.h"
#include "selftests/unit/report.h"

typedef void (*sim_fn)(void *arg, uint64_t arg2);

/* What a run has come to. */
struct sim_figures {
	uint64_t events, packets, lost, repeated, damaged, delayed, crashes, ends, pauses, cuts,
		full, moves, long_stops, forged, short_losses, long_losses;
};
extern struct sim_figures sim_figures;

/* Begins a run: no event waits, no time has passed. */
void sim_begin(uint64_t seed, bool trace);
uint64_t sim_seed(void);
uint64_t sim_now_ns(void);
/* Of the seed's numbers: 0..n-1, a chance of so many in 1,000, and from..to. */
uint32_t sim_below(uint32_t n);
bool sim_chance(uint32_t permille);
uint64_t sim_between(uint64_t from, uint64_t to);

/* Faults end at this time; until then one happens with a chance of so many in 1,000. */
void sim_faults_end(uint64_t at_ns);
bool sim_faults(void);
static inline bool sim_fault(uint32_t permille)
{
	return sim_faults() && sim_chance(permille);
}

/* fn(arg, arg2) happens at this time; of those at the same time the one asked for first. */
void sim_at(uint64_t at_ns, sim_fn fn, void *arg, uint64_t arg2);
static inline void sim_after(uint64_t ns, sim_fn fn, void *arg, uint64_t arg2)
{
	sim_at(sim_now_ns() + ns, fn, arg, arg2);
}
/* Lets the next event happen; false: there is none. */
bool sim_step(void);

/* A line of the trace, which counts for the hash as well: what happened, where, and up to three
 * numbers. Nothing of it may hang on an address. */
void sim_note(const char *where, const char *what, uint64_t a, uint64_t b, uint64_t c);
/* Adds bytes to the hash. */
void sim_hash_bytes(const void *data, size_t size);
bool sim_tracing(void);
uint64_t sim_hash(void);

/* The run has shown something wrong: prints the seed and the sentence, and ends the program. */
void sim_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
/* Once in a program: a crash of the product's code is told with its seed, too. */
void sim_catch_crashes(void);
#define sim_require(good, ...)                 \
	do {                                   \
		if (!(good))                   \
			sim_fail(__VA_ARGS__); \
	} while (0)

#endif
