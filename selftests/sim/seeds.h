/* SPDX-License-Identifier: BSD-2-Clause */
/* What the simulation's programs have in common: their command line, and one seed after the other.
 */
#ifndef SIM_SEEDS_H
#define SIM_SEEDS_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/base/opt.h"

struct seeds {
	uint64_t first, count;
	bool hashes, trace;
};

/* Their fields, for inc_opt_parse(). */
extern const struct inc_opt seeds_options[];

/* run() is one of them, between sim_begin() and what is printed of it. Afterwards a line of how
 * many there were, of their time and of what moved. */
void seeds_run(const struct seeds *seeds, void (*run)(void));

#endif
