/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs a test once for every sequence of events that can happen to a node, or plays each event once
 * in each state of the node.
 */
#ifndef SELFTESTS_TERM_HARNESS_PATHS_H
#define SELFTESTS_TERM_HARNESS_PATHS_H

#include <stdbool.h>
#include <stdint.h>
#include "selftests/term/harness_node.h"

#define PATH_STEPS 128

/* The choices of one run. Each step has several alternatives, of which the run takes one. */
struct path {
	uint32_t length, at;
	uint8_t taken[PATH_STEPS], of[PATH_STEPS];
};

/* Returns the run's choice among n alternatives, 0 to n - 1. Each run makes another sequence of
 * choices. */
uint32_t path_choose(struct path *path, uint32_t n);
/* Makes one of the possible moves of the node; false: no move is left. */
bool path_step(struct path *path, struct node_harness *h, bool late);
/* Calls run() for every path (sequence of choices). Returns the number of paths. */
uint64_t path_all(void (*run)(struct path *path, void *arg), void *arg);

/*
 * Counts every order of all events of a node by its states. An order is a way through states, and
 * ways that meet in a state continue alike. So each event is played once in each state. If whole
 * orders were played one after the other by path_all(), an event would be repeated many times.
 */
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
