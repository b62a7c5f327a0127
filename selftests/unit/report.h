/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Prints results for selftests/run: "ok NAME", "not ok NAME: reason" or "skip NAME: reason" on
 * stdout, one line for each test.
 */
#ifndef UNIT_REPORT_H
#define UNIT_REPORT_H

#include <stdbool.h>
#include <stdint.h>

void report_ok(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void report_skip(const char *name, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void report_fail(const char *name, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The program's exit code: 1 if a test has failed. */
int report_exit(void);

/* A generator of random numbers (splitmix64). From the same seed it makes the same numbers on every
 * machine. */
struct rng {
	uint64_t state;
};

uint64_t rng_next(struct rng *rng);
uint32_t rng_below(struct rng *rng, uint32_t n); /* a number in 0..n-1; n > 0 */
bool rng_chance(struct rng *rng, uint32_t permille);
uint64_t rng_mix(uint64_t a, uint64_t b); /* a hash of two numbers */

#endif
