// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include "sim.h"
#include "tree_priv.h"

/* Timeout of a creation. It is longer than all standstills of a run, so that no creation fails by
 * it. */
#define CREATE_MS (1000 * 1000)

const struct inccl_transport inccl_transports[] = {{INCCL_TRANSPORT_SOFT, &inc_channel_soft}, {}};

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

static void check_error(struct tree_rank *rank, unsigned int call, uint64_t begun_at_ns)
{
	tree_check_error(rank, tree_first_life(rank) + call % tree.n_comms,
			 inccl_communicator_error(tree_comm_of(rank, call)), begun_at_ns);
}

/* Starts call i. False: the communicator has failed. */
static bool begin(struct tree_rank *rank, unsigned int i)
{
	int ret;

	if (sim_chance(200))
		think(sim_between(0, sim_chance(100) ? 30 * INC_NSEC_PER_MSEC : 100000));
	ret = tree_begin_call(rank, i);
	if (ret)
		check_error(rank, i, sim_now_ns());
	return !ret;
}

static bool end(struct tree_rank *rank, unsigned int i)
{
	/* at this time the earlier calls on other communicators have ended */
	const uint64_t begin_ns = sim_now_ns();
	int ret = inccl_wait(rank->call[i].request, -1);

	if (ret) {
		check_error(rank, i, begin_ns);
		return false;
	}
	sim_note(rank->host.process.name, "has its result of call", i, 0, 0);
	tree_check_result(rank, i);
	return true;
}

/* Makes all calls of a set of communicators. After an error the calls that have begun must end,
 * too, with their results or with the error. */
static bool compute(struct tree_rank *rank)
{
	unsigned int begun = 0, ended = 0;
	bool good = true;

	while (ended < begun || (good && begun < tree.n_calls)) {
		if (good && begun < tree.n_calls && begun - ended < tree.at_once) {
			good = begin(rank, begun);
			begun += good;
		} else {
			good &= end(rank, ended++);
		}
	}
	return good;
}

void tree_wake_ranks(void)
{
	unsigned int i;

	for (i = 0; i < tree.n_ranks; i++)
		if (tree.rank[i].waits)
			task_wake(tree.rank[i].waits);
}

void tree_meet(struct tree_rank *rank, unsigned int *count, const struct tree_life *may_fail)
{

	if (++*count == tree.n_ranks)
		tree_wake_ranks();
	rank->waits = task_self();
	while (*count < tree.n_ranks && !(may_fail && may_fail->told[0]))
		task_sleep();
	rank->waits = NULL;
}

/* Creates all communicators of a round one after the other, even if one fails, because the other
 * ranks do the same. */
static bool create(struct tree_rank *rank)
{
	const unsigned int first = tree_first_life(rank);
	bool good = true;
	unsigned int i;
	int ret;

	for (i = 0; i < tree.n_comms; i++) {
		struct inccl_limit limit = inccl_limit_ms(CREATE_MS);
		struct inc_err err = {""};

		ret = inccl_comm_create(rank->group, first + i, &tree.opts, &limit, &rank->comm[i],
					&err);
		if (ret)
			tree_check_error(rank, first + i, err.msg, sim_now_ns());
		good &= !ret;
	}
	return good;
}

static void destroy(struct tree_rank *rank)
{
	unsigned int i;
	int ret;

	for (i = 0; i < tree.n_comms; i++) {
		ret = inccl_communicator_destroy(rank->comm[i]);
		rank->comm[i] = NULL;
		sim_require(!ret || tree.life[tree_first_life(rank) + i].told[0],
			    "rank %u: the communicator's end: %s", rank->number, strerror(-ret));
	}
}

/* Creates the communicators of a round, uses them and destroys them. Returns false if a
 * communicator has failed for some rank. */
static bool live(struct tree_rank *rank)
{
	bool *failed = &tree.failed[rank->round];
	const bool good = create(rank) && compute(rank);

	*failed |= !good;
	if (!good)
		destroy(rank);
	tree_meet(rank, &tree.finished[rank->round], NULL);
	if (good)
		destroy(rank);
	return !*failed;
}

void tree_rank_run(void *arg)
{
	struct tree_rank *rank = arg;
	struct inccl_log *log;
	int ret = inccl_log_new(on_log, rank, &log);

	sim_require(!ret, "no log: %s", strerror(-ret));
	ret = inccl_group_new("job", rank->number, tree.n_ranks, log, &rank->group);
	inccl_log_put(log);
	sim_require(!ret, "no group: %s", strerror(-ret));
	rank->group->addr = rank->host.addr;
	/* A failed job starts again only if all switches are in termination mode. */
	while (!live(rank) && tree.mode == INC_TREE_TERMINATION) {
		rank->round++;
		sim_require(rank->round < ROUNDS_MOST,
			    "too many communicators, one after the other");
		tree_renew_buffers(rank);
	}
	inccl_group_destroy(rank->group);
	rank->group = NULL;
	tree.ended++;
}
