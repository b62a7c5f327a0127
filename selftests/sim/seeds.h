/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts that the simulation's programs share: their command line, and the loop over the
 * seeds. */
#ifndef SIM_SEEDS_H
#define SIM_SEEDS_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/base/opt.h"

struct seeds {
	uint64_t first, count;
	bool hashes, trace;
};

/* The options for inc_opt_parse(), which fill a struct seeds. */
extern const struct inc_opt seeds_options[];

/* Runs all seeds: for each calls sim_begin() and run(). Afterwards prints one line with their
 * number, their time and the packets. */
void seeds_run(const struct seeds *seeds, void (*run)(void));

#endif
