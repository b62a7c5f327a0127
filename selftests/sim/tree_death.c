// SPDX-License-Identifier: BSD-2-Clause
/* The death of a switch in termination mode: its connections end with its process and send nothing.
 * This file has the reaction of the controller, and the checks of the ranks' errors. Events and
 * ranks' tasks call it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "sim.h"
#include "tree_priv.h"

/* LAST: how long a killed process may still run, for a few system calls. START: how long the start
 * of a process takes. TELL: the delay of the controller's messages. */
#define LAST_MOST_NS  (20 * INC_NSEC_PER_USEC)
#define START_MOST_NS (5 * INC_NSEC_PER_MSEC)
#define TELL_MOST_NS  (2 * INC_NSEC_PER_MSEC)
#define LATE_MOST_NS  (100 * INC_NSEC_PER_MSEC)
/* Longest time after a death in which packets may still arrive at the surviving peers, and count as
 * progress. */
#define MOVES_MOST_NS (2 * INC_NSEC_PER_SEC)
/* Because of faults and timers, ranks may miss a process for longer than it stood still, by at most
 * this time. */
#define LAGS_MOST_NS (3 * INC_NSEC_PER_SEC)

/* Can the switch make a communicator now? It cannot do so while its daemon stands still, or after
 * it has lost an interface. */
static bool is_there(const struct tree_switch *sw)
{
	unsigned int i;

	for (i = 0; i < sw->daemon.ports; i++)
		if (sw->port_is[i] == INC_PORT_LOST)
			return false;
	return !sw->dead && sim_now_ns() >= sw->daemon.process.paused_until_ns;
}

bool tree_switches_are_there(void)
{
	unsigned int i;

	for (i = 0; i < tree.n_switches; i++)
		if (!is_there(&tree.sw[i]))
			return false;
	return !tree.removing;
}

/* The library learns from the controller that the communicator has failed. */
static void take_failure(void *arg, uint64_t life)
{
	const struct tree_rank *rank = arg;
	struct inccl_communicator *comm;

	if (!rank->group)
		return;
	for (comm = rank->group->comms; comm; comm = comm->next)
		if (comm->number == tree_number_of(life))
			inccl_comm_fail(comm, ENETRESET, -1, tree.life[life].told);
}

static void tell(unsigned int number, const char *why)
{
	struct tree_life *life = &tree.life[number];
	unsigned int i;

	if (life->told[0])
		return;
	snprintf(life->told, sizeof(life->told), "%s", why);
	life->told_at_ns = sim_now_ns();
	sim_note("", "ranks are told of the end of communicator", tree_number_of(number), 0, 0);
	for (i = 0; i < tree.n_ranks; i++)
		sim_after(sim_between(0, TELL_MOST_NS), take_failure, &tree.rank[i], number);
	tree_wake_ranks();
}

/* A rank that has lost one communicator makes no more calls on the other one, where the other ranks
 * would wait for it. So all communicators of a job end together, as in a job that ends. */
void tree_report_failure(unsigned int number, const char *why)
{
	const unsigned int first = number - number % tree.n_comms;
	unsigned int i;

	for (i = first; i < first + tree.n_comms; i++) {
		if (!tree.life[i].struck)
			tree.life[i].struck_at_ns = sim_now_ns();
		tree.life[i].struck |= tree.life[number].struck;
		tell(i, why);
	}
}

/* The new daemon's first message (hello) shows the controller that the daemon has no
 * communicators. */
static void hello(void *arg, uint64_t unused)
{
	const struct tree_switch *sw = arg;
	char text[sizeof(tree.life[0].told)];
	unsigned int i;

	if (sw->dead)
		return;
	for (i = 0; i < ROUNDS_MOST * tree.n_comms; i++) {
		snprintf(text, sizeof(text), "switch %s has restarted without communicator %u",
			 sw->daemon.process.name, tree_number_of(i));
		if (tree.life[i].struck >> sw->number & 1)
			tree_report_failure(i, text);
	}
	tree_make_if_asked();
}

static void start_anew(void *arg, uint64_t unused)
{
	struct tree_switch *sw = arg;

	sim_note(sw->daemon.process.name, "starts anew", 0, 0, 0);
	sw->killed = sw->dead = sw->silent = false;
	sw->daemon.process.dead = false;
	tree_term_start(sw);
	sim_after(sim_between(0, START_MOST_NS), hello, sw, 0);
}

static void strike(const struct tree_switch *sw, struct tree_life *life)
{
	sim_figures.ends += !life->struck;
	life->struck |= 1u << sw->number;
	life->struck_at_ns = sim_now_ns();
}

/* Frees the memory of the dead process through the product's own functions. The packets that these
 * functions send are dropped. */
static void free_dead(void *arg, uint64_t revive_at_ns)
{
	struct tree_switch *sw = arg;
	unsigned int i;

	sim_note(sw->daemon.process.name, "is dead", 0, 0, 0);
	for (i = 0; i < tree.n_comms; i++)
		if (sw->term_comm[i])
			strike(sw, &tree.life[sw->life[i]]);
	sw->silent = sw->dead = true;
	tree_term_stop(sw);
	task_kill(&sw->daemon.process);
	if (revive_at_ns < sim_now_ns())
		revive_at_ns = sim_now_ns();
	if (tree.quiet_at_ns < revive_at_ns + START_MOST_NS)
		tree.quiet_at_ns = revive_at_ns + START_MOST_NS;
	sim_at(revive_at_ns, start_anew, sw, 0);
}

/* Kills the daemon just before it sends one of its next frames. */
void tree_death(void *arg, uint64_t revive_at_ns)
{
	struct tree_switch *sw = arg;

	if (sw->killed)
		return;
	sw->killed = true;
	sim_figures.crashes++;
	sw->silent = sim_chance(500);
	sim_note(sw->daemon.process.name, "is killed", sw->silent, 0, 0);
	sim_after(sim_between(0, LAST_MOST_NS), free_dead, sw, revive_at_ns);
}

/* Does the error name a connection of this rank's switch, or of a switch that has died? An error
 * that repeats the text of another rank's error was checked at that rank. */
static bool names(const struct tree_rank *rank, const struct tree_life *life, const char *text)
{
	const uint32_t struck = life->struck | 1u << rank->at->number;
	unsigned int i;

	if (!strcmp(text, life->told))
		return true;
	for (i = 0; i < tree.n_switches; i++)
		if (struck >> i & 1 && strstr(text, tree.sw[i].daemon.process.name))
			return true;
	return false;
}

void tree_check_reason(const struct tree_rank *rank, unsigned int number, const char *text)
{
	uint64_t stood_ns = 0;
	unsigned int i;

	for (i = 0; i < tree.n_ranks; i++)
		stood_ns += &tree.rank[i] == rank ? 0 : tree.rank[i].host.process.stood_ns;
	for (i = 0; i < tree.n_switches; i++)
		stood_ns += tree.sw[i].daemon.process.stood_ns;
	sim_require(tree.life[number].struck ||
			    stood_ns + LAGS_MOST_NS > tree.opts.timeout_ms * INC_NSEC_PER_MSEC,
		    "rank %u: an error, and no switch has died and nobody else stood still: %s",
		    rank->number, text);
}

void tree_check_error(const struct tree_rank *rank, unsigned int number, const char *text,
		      uint64_t since_ns)
{
	const struct tree_life *life = &tree.life[number];
	/* the last time of progress: the death of a switch, or the end of all faults and
	 * standstills */
	const uint64_t last_ns = life->struck ? life->struck_at_ns : tree.quiet_at_ns;
	uint64_t until_ns = (since_ns > last_ns ? since_ns : last_ns) +
			    tree.opts.timeout_ms * INC_NSEC_PER_MSEC + MOVES_MOST_NS;

	if (life->told[0] && life->told_at_ns < until_ns)
		until_ns = since_ns > life->told_at_ns ? since_ns : life->told_at_ns;
	if (until_ns < rank->host.process.paused_until_ns)
		until_ns = rank->host.process.paused_until_ns;
	sim_note(rank->host.process.name, "has an error of communicator", tree_number_of(number), 0,
		 0);
	sim_require(text, "rank %u: an error without a reason", rank->number);
	if (strcmp(text, life->told) != 0)
		tree_check_reason(rank, number, text);
	sim_require(names(rank, life, text), "rank %u: an error that names no connection: %s",
		    rank->number, text);
	sim_require(sim_now_ns() < until_ns + LATE_MOST_NS,
		    "rank %u: an error that comes %llu ms late: %s", rank->number,
		    (unsigned long long)((sim_now_ns() - until_ns) / INC_NSEC_PER_MSEC), text);
}
