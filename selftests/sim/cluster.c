// SPDX-License-Identifier: BSD-2-Clause
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cluster.h"
#include "network.h"
#include "process.h"
#include "sim.h"
#include "xdp.h"

#define CONVERGE_NS (400 * INC_NSEC_PER_SEC)
#define SETTLE_NS   (150 * INC_NSEC_PER_SEC)
/* This long after the last rank has ended, all messages that were under way have arrived. */
#define CALM_NS (3 * INC_NSEC_PER_SEC)
/* How many more pieces of memory the controller may have at the end of a run than at its start, for
 * each switch. At the end it has the switch's connection and hello, and it stores addresses for
 * some seconds. */
#define MEMORY_PIECES_MOST 800

struct cluster_figures cluster_figures;
struct cluster cluster;
struct scenario cluster_scenario;

/* --- jobs --- */

static const char *add_job(const uint64_t *v)
{
	struct cluster_group *g = &cluster.group[v[0]];

	if (v[0] != cluster.n_groups)
		return "the numbers of jobs begin at 0, without gaps";
	if (!v[1] || v[1] > CLUSTER_HOSTS_MOST)
		return "a job has 1 to 6 ranks";
	if (!v[2] || v[2] > CLUSTER_ROUNDS_MOST || !v[3] || v[3] > CLUSTER_CALLS_MOST)
		return "a job has 1 to 3 rounds of 1 to 4 calls";
	if (!v[4] || v[4] > CLUSTER_COMMS_AT_ONCE || !v[5])
		return "a job has 1 or 2 communicators, and at least one call at once";
	cluster.n_groups++;
	snprintf(g->job, sizeof(g->job), "job%u", (unsigned int)v[0]);
	g->n_ranks = v[1];
	g->rounds = v[2];
	g->calls = v[3];
	g->comms = v[4];
	g->at_once = v[5];
	g->opts = (struct inccl_communicator_opts){.sz = sizeof(g->opts),
						   .transport = INCCL_TRANSPORT_SOFT,
						   .payload = 1024,
						   .window = 16,
						   .channels = 1};
	return NULL;
}

static const char *set_options(const uint64_t *v)
{
	struct inccl_communicator_opts *opts = &cluster.group[v[0]].opts;

	opts->payload = v[1];
	opts->window = v[2];
	opts->message_packets = v[3];
	opts->timeout_ms = v[4] / INC_NSEC_PER_MSEC;
	return NULL;
}

static void start_job(struct cluster_group *g)
{
	unsigned int i;

	for (i = 0; i < g->n_ranks; i++) {
		struct cluster_rank *rank = &g->rank[i];

		snprintf(rank->process.name, sizeof(rank->process.name), "j%ur%u",
			 (unsigned int)(g - cluster.group) % 10, i % 10);
		rank->process.addr = cluster.host[i].host.addr;
		rank->group = g;
		rank->number = i;
		task_new(&rank->process, cluster_rank_run, rank);
	}
}

/* --- the scenario --- */

static const char *add_line(const struct scenario_line *l)
{
	const uint64_t *v = l->value;

	switch (l->kind) {
	case SCENARIO_FAULTS:
		cluster.faults_end_at_ns = sim_now_ns() + v[0];
		return NULL;
	case SCENARIO_KEYS:
		cluster.tls = true;
		return NULL;
	case SCENARIO_FIGURES:
		cluster.metrics = true;
		return NULL;
	case SCENARIO_PATIENT:
		cluster.patient = true;
		return NULL;
	case SCENARIO_FORGER:
		cluster.forged = true;
		return NULL;
	case SCENARIO_HOSTILE:
		cluster.hostiles = v[0];
		return v[0] <= CLUSTER_HOSTILE_MOST ? NULL : "there are at most 3 hostile peers";
	case SCENARIO_JOB:
		return v[0] < CLUSTER_GROUPS_MOST ? add_job(v) : "there are at most 2 jobs";
	case SCENARIO_OPTIONS:
		return v[0] < cluster.n_groups ? set_options(v) : "there is no such job";
	case SCENARIO_CHANNELS:
		if (v[0] >= cluster.n_groups || !v[1] || v[1] > CLUSTER_CHANNELS_MOST)
			return "there is no such job, or it cannot have so many channels";
		cluster.group[v[0]].opts.channels = v[1];
		return NULL;
	case SCENARIO_FALLBACK:
		if (v[0] >= cluster.n_groups || cluster.group[v[0]].comms > 1)
			return "there is no such job, or it has several communicators";
		cluster.group[v[0]].falls_back = true;
		return NULL;
	case SCENARIO_ORDER:
		if (v[0] >= cluster.n_groups)
			return "there is no such job";
		cluster.group[v[0]].opts.byte_order = INCCL_ORDER_NETWORK;
		return NULL;
	default:
		return cluster_add_line(l);
	}
}

static bool has_process(uint64_t which)
{
	const unsigned int job = which >> 4 & 0xf, n = which & 0xf;

	if (which < SCENARIO_RANK(0, 0))
		return which == SCENARIO_CONTROLLER || n < cluster.n_switches;
	return job < cluster.n_groups && n < cluster.group[job].n_ranks;
}

/* Does the run have what this value names? */
static bool has_value(char code, uint64_t v)
{
	switch (code) {
	case 'S':
		return v < cluster.n_switches;
	case 'H':
		return v < cluster.hosts;
	case 'P':
		return has_process(v);
	case 'p':
		return v >> 4 < cluster.n_switches && (v & 0xf) < cluster.sw[v >> 4].ports;
	}
	return true;
}

static const char *check_names(const struct scenario_line *l)
{
	const uint64_t *v = l->value;
	const char *at = scenario_format(l->kind);

	if (l->kind == SCENARIO_BREAK && !cluster.sw[v[1] >> 4 & 3].rdma)
		return "the switch has no RDMA devices";

	if (scenario_is_at_packet(l->kind) && !v[0])
		return "packets count from 1";
	while ((at = strchr(at, '%')))
		if (!has_value(*++at, *v++))
			return "it names a switch, a host, a process or a port that there is not";
	return NULL;
}

static const char *check_all(void)
{
	unsigned int i;

	if (!cluster.n_switches || !cluster.n_groups)
		return "there is no switch, or no job";
	for (i = 0; i < cluster.n_groups; i++)
		if (cluster.group[i].n_ranks > cluster.hosts)
			return "a job has more ranks than there are hosts";
	for (i = 0; cluster.forged && i < cluster.n_switches; i++)
		if (cluster.sw[i].ports == 1)
			return "a switch has one port, so a forger has no other port there";
	return NULL;
}

/* Makes of a scenario what the run has. */
static int set_up(const struct scenario *s, struct inc_err *err)
{
	const char *wrong = NULL;
	unsigned int i;

	cluster = (struct cluster){.faults_end_at_ns = sim_now_ns()};
	for (i = 0; i < s->n; i++) {
		wrong = add_line(&s->line[i]);
		if (wrong)
			return scenario_error(s, &s->line[i], err, "%s", wrong);
	}
	for (i = 0; i < s->n; i++) {
		wrong = check_names(&s->line[i]) ?: cluster_set_cable(&s->line[i]);
		if (wrong)
			return scenario_error(s, &s->line[i], err, "%s", wrong);
	}
	wrong = check_all();
	return wrong ? scenario_error(s, &s->line[s->n - 1], err, "%s", wrong) : 0;
}

int cluster_check(const struct scenario *s, struct inc_err *err)
{
	sim_begin(0, false);
	return set_up(s, err);
}

/* --- one run of a seed --- */

static bool all_through(void)
{
	unsigned int g, r;
	bool all = true;

	for (g = 0; g < cluster.n_groups; g++)
		for (r = 0; r < cluster.group[g].n_ranks; r++) {
			const struct cluster_rank *rank = &cluster.group[g].rank[r];

			cluster_rank_overdue(rank);
			all = all && (rank->through || rank->process.dead);
		}
	return all;
}

static bool is_empty(const struct cluster_switch *sw)
{
	struct inc_usage u;

	inc_switch_usage(xdp_switch(sw->xdp), &u);
	return !u.communicators.used && !u.connections.used && !u.rows.used && !u.slots.used &&
	       !u.root_rows.used && !xdp_entries(sw->xdp) && !cluster_switch_sockets(sw) &&
	       !cluster_switch_queue_pairs(sw);
}

/* The controller must have no connections but those to the switches. Connections to peers that are
 * gone, also to hostile ones, must be closed. */
static bool nothing_left(void)
{
	unsigned int i;

	for (i = 0; i < cluster.n_switches; i++)
		if (!cluster.sw[i].ready || cluster.sw[i].ended || !is_empty(&cluster.sw[i]))
			return false;
	return controller.ready && !controller_objects() &&
	       controller_descriptors() == (int)cluster.n_switches;
}

static bool is_ready(void)
{
	return controller.ready;
}

static bool all_ended(void)
{
	unsigned int i;

	for (i = 0; i < cluster.n_switches; i++)
		if (cluster.sw[i].running)
			return false;
	return !controller.running;
}

static void step_until(bool (*done)(void), uint64_t until_ns, const char *what)
{
	while (!done()) {
		sim_require(sim_step(), "nothing happens any more: %s", what);
		sim_require(sim_now_ns() < until_ns, "%s", what);
	}
}

static void check_process(const struct process *process)
{
	size_t size, n = memory_pieces(process, &size);

	sim_require(!n, "%s has left %zu pieces of memory, the first of %zu bytes", process->name,
		    n, size);
	sim_require(!memory_apart(process), "%s has left memory of its database", process->name);
	sim_require(!descriptors_of(process), "%s has left %u descriptors", process->name,
		    descriptors_of(process));
}

static bool is_calm(void)
{
	return sim_now_ns() >= cluster.calm_at_ns && nothing_left();
}

static void finish(void)
{
	const uint64_t settle_ns =
		SETTLE_NS + (cluster.patient ? cluster.member_timeout_ms * INC_NSEC_PER_MSEC : 0);
	unsigned int i;
	long pieces;

	cluster.ranks_through = true;
	step_until(cluster_hostile_ended, sim_now_ns() + SETTLE_NS, "a hostile peer does not end");
	cluster.calm_at_ns =
		CALM_NS + (sim_now_ns() < cluster.quiet_at_ns ? cluster.quiet_at_ns : sim_now_ns());
	step_until(is_calm, sim_now_ns() + settle_ns,
		   "something is left of what has ended, in the controller or in the switch");
	pieces = controller_pieces();
	sim_require(pieces < MEMORY_PIECES_MOST * (long)cluster.n_switches,
		    "the controller has %ld pieces of memory more than it began with", pieces);
	controller_stop();
	for (i = 0; i < cluster.n_switches; i++)
		cluster_switch_stop(&cluster.sw[i]);
	step_until(all_ended, sim_now_ns() + SETTLE_NS, "a daemon does not end");
	sim_require(!task_alive(), "%u threads are left", task_alive());
	sim_require(!controller_rows(), "%u rows are left in the database", controller_rows());
	check_process(&controller.process);
	for (i = 0; i < cluster.n_switches; i++)
		check_process(&cluster.sw[i].process);
}

static void set_cables(const struct scenario *s)
{
	unsigned int i;

	for (i = 0; i < s->n; i++) {
		cluster_set_cable(&s->line[i]);
		sim_figures.cuts += s->line[i].kind == SCENARIO_CABLE_CUT;
	}
}

static void open_cluster(void)
{
	struct inc_err err = {""};
	unsigned int i;

	sim_require(!set_up(&cluster_scenario, &err), "%s", err.msg);
	sim_faults_end(cluster.faults_end_at_ns);
	cluster.member_timeout_ms =
		cluster.patient ? CLUSTER_MEMBER_PATIENCE_MS : CLUSTER_MEMBER_TIMEOUT_MS;
	if (cluster.tls)
		setenv("INCCL_KEY", CLUSTER_KEY_MEMBER, 1);
	else
		unsetenv("INCCL_KEY");
	controller_open();
	cluster_forge_begin();
	cluster_fallback_begin();
	for (i = 0; i < cluster.n_switches; i++) {
		cluster.sw[i].key = cluster.tls ? controller_key(i) : NULL;
		cluster.sw[i].metrics = cluster.metrics;
	}
	cluster_build();
	set_cables(&cluster_scenario);
}

static void count_properties(void)
{
	unsigned int i;

	cluster_figures.with_keys += cluster.tls;
	cluster_figures.patient += cluster.patient;
	cluster_figures.trees += cluster.n_switches > 1;
	for (i = 0; i < cluster.n_switches; i++)
		cluster_figures.terminating += cluster.sw[i].mode == INC_TERMINATION;
}

void cluster_run(void)
{
	unsigned int i;

	task_begin();
	descriptor_begin();
	wire_begin();
	host_begin();
	rdma_begin();
	neighbour_begin();
	watch_begin();
	tcp_begin();
	memory_begin();
	open_cluster();
	count_properties();
	controller_start();
	/* members that connect before the controller is ready are refused, and ranks cannot know
	 * when it is ready */
	step_until(is_ready, UINT64_MAX, "the controller does not start");
	for (i = 0; i < cluster.n_switches; i++)
		cluster_switch_start(&cluster.sw[i]);
	for (i = 0; i < cluster.n_groups; i++)
		start_job(&cluster.group[i]);
	cluster_start_faults(&cluster_scenario);
	cluster_hostile_start();
	step_until(all_through, cluster.faults_end_at_ns + CONVERGE_NS,
		   "ranks are not through, so long after the last fault");
	finish();
	for (i = 0; i < cluster.n_switches; i++)
		cluster_switch_close(&cluster.sw[i]);
	tcp_end();
}
