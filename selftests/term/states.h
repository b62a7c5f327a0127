/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every order of all that can happen in a world, by its states: an order is a way through them,
 * and ways that meet in a state go on alike. So each event is played once in each state that there
 * is, where playing the orders one after the other (path.h) would play it again and again.
 */
#ifndef TERM_STATES_H
#define TERM_STATES_H

#include <stdbool.h>
#include <stdint.h>
#include "selftests/term/world.h"

/* The job of all orders. */
struct states_job {
	struct world_shape shape;
	const struct world_call *calls;
	uint32_t n_calls;
	bool late; /* sends are completed at any time, not at once */
};

/* Plays them; returns how many orders there are. *states: of how many states, NULL where nobody
 * wants to know. */
uint64_t states_all(const struct states_job *job, uint64_t *states);

#endif
