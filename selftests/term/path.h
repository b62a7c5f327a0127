/* SPDX-License-Identifier: BSD-2-Clause */
/* All that can happen in a world, in every order, one after the other. */
#ifndef TERM_PATH_H
#define TERM_PATH_H

#include <stdbool.h>
#include <stdint.h>
#include "selftests/term/world.h"

#define PATH_STEPS 128

/* At each step one of some choices was taken. */
struct path {
	uint32_t length, at;
	uint8_t taken[PATH_STEPS], of[PATH_STEPS];
};

/* One of n choices, 0 to n - 1, another one in each run. */
uint32_t path_choose(struct path *path, uint32_t n);
/* One of the moves of the world; false: there is none left. */
bool path_step(struct path *path, struct world *w, bool late);
/* Calls run for every path. Returns how many there were. */
uint64_t path_all(void (*run)(struct path *path, void *arg), void *arg);

#endif
