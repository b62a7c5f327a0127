// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include "sim.h"
#include "tree_priv.h"

#define CREATE_NS (60 * INC_NSEC_PER_SEC)

const struct inccl_transport *const inccl_transports[] = {&inccl_soft, NULL};

static void on_log(void *ctx, const char *line)
{
	if (sim_tracing())
		printf("%12s     %-6s %s\n", "", ((struct tree_rank *)ctx)->host.process.name,
		       line);
}

static void think(uint64_t ns)
{
	const struct timespec ts = {.tv_sec = ns / INC_NSEC_PER_SEC,
				    .tv_nsec = ns % INC_NSEC_PER_SEC};

	ppoll(NULL, 0, &ts, NULL);
}

/* --- the calls --- */

static void begin(struct tree_rank *rank, unsigned int i)
{
	if (sim_chance(200))
		think(sim_between(0, sim_chance(100) ? 30 * INC_NSEC_PER_MSEC : 100000));
	tree_begin_call(rank, i);
}

static void end(struct tree_rank *rank, unsigned int i)
{
	int ret = inccl_wait(rank->call[i].request, -1);
	const char *why = inccl_communicator_error(rank->comm);

	sim_require(!ret, "rank %u, call %u: %s (%s)", rank->number, i, strerror(-ret),
		    why ?: "no reason");
	sim_note(rank->host.process.name, "has its result of call", i, 0, 0);
	tree_check_result(rank, i);
}

void tree_meet(struct tree_rank *rank, unsigned int *count)
{
	unsigned int i;

	if (++*count < tree.n_ranks) {
		rank->waits = task_self();
		while (*count < tree.n_ranks)
			task_sleep();
		rank->waits = NULL;
		return;
	}
	for (i = 0; i < tree.n_ranks; i++)
		if (tree.rank[i].waits)
			task_wake(tree.rank[i].waits);
}

void tree_rank_run(void *arg)
{
	struct tree_rank *rank = arg;
	struct inc_err err = {""};
	unsigned int i;
	int ret;

	ret = inccl_group_new("job", rank->number, tree.n_ranks, on_log, rank, &rank->group);
	sim_require(!ret, "no group: %s", strerror(-ret));
	rank->group->addr = rank->host.addr;
	ret = inccl_comm_create(rank->group, 0, &tree.opts, sim_now_ns() + CREATE_NS, &rank->comm,
				&err);
	sim_require(!ret, "rank %u: no communicator: %s", rank->number, err.msg);
	for (i = 0; i < tree.n_calls + tree.at_once; i++) {
		if (i >= tree.at_once && i - tree.at_once < tree.n_calls)
			end(rank, i - tree.at_once);
		if (i < tree.n_calls)
			begin(rank, i);
	}
	tree_meet(rank, &tree.finished);
	ret = inccl_communicator_destroy(rank->comm);
	sim_require(!ret, "rank %u: the communicator's end: %s", rank->number, strerror(-ret));
	inccl_group_destroy(rank->group);
	tree.ended++;
}
