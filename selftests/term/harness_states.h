/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counts every order of all events of a node by its states. An order is a way through states, and
 * ways that meet in a state continue alike. So each event is played once in each state. If whole
 * orders were played one after the other (harness_paths.h), an event would be repeated many times.
 */
#ifndef SELFTESTS_TERM_HARNESS_STATES_H
#define SELFTESTS_TERM_HARNESS_STATES_H

#include <stdbool.h>
#include <stdint.h>
#include "selftests/term/harness_node.h"

/* The job whose orders states_all() counts. */
struct states_job {
	struct node_shape shape;
	const struct node_call *calls;
	uint32_t n_calls;
	bool late; /* sends may complete at any time; otherwise they complete at once */
};

/* Plays all orders, and returns their number. *states: the number of states; the pointer may be
 * NULL. */
uint64_t states_all(const struct states_job *job, uint64_t *states);

#endif
