/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counts every order of all events of a world by its states. An order is a way through states, and
 * ways that meet in a state continue alike. So each event is played once in each state. Playing the
 * orders one after the other (path.h) would repeat it again and again.
 */
#ifndef TERM_STATES_H
#define TERM_STATES_H

#include <stdbool.h>
#include <stdint.h>
#include "selftests/term/world.h"

/* The job whose orders are counted. */
struct states_job {
	struct world_shape shape;
	const struct world_call *calls;
	uint32_t n_calls;
	bool late; /* sends are completed at any time, not at once */
};

/* Plays all orders and returns how many there are. *states (may be NULL): how many states there
 * are. */
uint64_t states_all(const struct states_job *job, uint64_t *states);

#endif
