/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs a test once for every sequence of events that can happen in a world. */
#ifndef TERM_PATH_H
#define TERM_PATH_H

#include <stdbool.h>
#include <stdint.h>
#include "selftests/term/world.h"

#define PATH_STEPS 128

/* The choices of a run: at each step one of several alternatives was taken. */
struct path {
	uint32_t length, at;
	uint8_t taken[PATH_STEPS], of[PATH_STEPS];
};

/* Returns one of n alternatives, 0 to n - 1; each run gets another sequence of them. */
uint32_t path_choose(struct path *path, uint32_t n);
/* Makes one of the possible moves of the world; false: no move is left. */
bool path_step(struct path *path, struct world *w, bool late);
/* Calls run for every path. Returns how many there were. */
uint64_t path_all(void (*run)(struct path *path, void *arg), void *arg);

#endif
