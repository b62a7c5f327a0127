// SPDX-License-Identifier: BSD-2-Clause
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cluster.h"
#include "memory.h"
#include "sim.h"
#include "tcp.h"

#define FAULTS_MOST_NS (4 * INC_NSEC_PER_SEC)
#define CONVERGE_NS    (400 * INC_NSEC_PER_SEC)
#define SETTLE_NS      (150 * INC_NSEC_PER_SEC)
/* This long after the last rank has ended, all messages that were under way have arrived. */
#define CALM_NS            (3 * INC_NSEC_PER_SEC)
#define KEYS_ONE_OF        8 /* one of so many seeds has keys (TLS) */
#define KEYS_BESIDE_ONE_OF 2 /* one of so many seeds with hostile peers has keys */
/* How many more pieces of memory the controller may have at the end of a run than at its start. At
 * the end it has the switch's connection and messages, and it stores addresses for some seconds. */
#define MEMORY_PIECES_MOST 250

struct cluster_figures cluster_figures;
struct cluster cluster;

/* --- hosts, switch and controller --- */

static void add_host(unsigned int n)
{
	struct host *host = &cluster.host[n].host;
	char up[8], down[8];

	snprintf(host->process.name, sizeof(host->process.name), "h%u", n % 10);
	snprintf(up, sizeof(up), "h%u>s0", n % 10);
	snprintf(down, sizeof(down), "s0>h%u", n % 10);
	memcpy(host->mac, (const uint8_t[]){2, 0, 0, 0, 1, n}, 6);
	memcpy(host->gateway, (const uint8_t[]){2, 0, 0, 0, 2, n}, 6);
	host->addr = htonl(CLUSTER_PORT_ADDR(n) - 0xfe + 1);
	host->up = &cluster.host[n].up;
	cluster.host[n].port = (struct cluster_port){&cluster.sw, n};
	wire_init(&cluster.host[n].up, up, cluster_switch_receive, &cluster.host[n].port,
		  cluster.faults_end_at_ns);
	wire_init(&cluster.host[n].down, down, host_receive, host, cluster.faults_end_at_ns);
	cluster.sw.down[n] = &cluster.host[n].down;
	host_add(host);
}

static void add_group(unsigned int n)
{
	struct cluster_group *g = &cluster.group[n];
	unsigned int i;

	snprintf(g->job, sizeof(g->job), "job%u", n);
	g->n_ranks = 1 + sim_below(cluster.hosts);
	g->rounds = 1 + sim_below(CLUSTER_ROUNDS_MOST);
	g->calls = 1 + sim_below(CLUSTER_CALLS_MOST);
	g->opts = (struct inccl_communicator_opts){.sz = sizeof(g->opts),
						   .transport = INCCL_TRANSPORT_SOFT,
						   .payload = 256u << sim_below(4),
						   .window = 1 + sim_below(16)};
	for (i = 0; i < g->n_ranks; i++) {
		struct cluster_rank *rank = &g->rank[i];

		snprintf(rank->process.name, sizeof(rank->process.name), "j%ur%u", n % 10, i % 10);
		rank->process.addr = cluster.host[i].host.addr;
		rank->group = g;
		rank->number = i;
		task_new(&rank->process, cluster_rank_run, rank);
	}
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

/* The controller must have no connection but that to the switch. Connections to peers that are
 * gone, also to hostile ones, must be closed. */
static bool nothing_left(void)
{
	struct inc_usage u;

	if (!controller.ready || !cluster.sw.ready)
		return false;
	inc_switch_usage(xdp_switch(cluster.sw.xdp), &u);
	return !controller_objects() && controller_descriptors() == 1 && !u.communicators.used &&
	       !u.connections.used && !u.rows.used && !u.slots.used && !u.root_rows.used &&
	       !xdp_entries(cluster.sw.xdp);
}

static bool is_ready(void)
{
	return controller.ready;
}

static bool all_ended(void)
{
	return !controller.running && !cluster.sw.running;
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
	sim_require(!task_fds_of(process), "%s has left %u descriptors", process->name,
		    task_fds_of(process));
}

static bool is_calm(void)
{
	return sim_now_ns() >= cluster.calm_at_ns && nothing_left();
}

static void finish(void)
{
	long pieces;
	uint64_t resumes_at_ns; /* end of the last standstill of a daemon */

	cluster.ranks_through = true;
	step_until(cluster_hostile_ended, sim_now_ns() + SETTLE_NS, "a hostile peer does not end");
	resumes_at_ns = sim_now_ns();
	if (resumes_at_ns < controller.process.paused_until_ns)
		resumes_at_ns = controller.process.paused_until_ns;
	if (resumes_at_ns < cluster.sw.process.paused_until_ns)
		resumes_at_ns = cluster.sw.process.paused_until_ns;
	cluster.calm_at_ns = resumes_at_ns + CALM_NS;
	step_until(is_calm, sim_now_ns() + SETTLE_NS,
		   "something is left of what has ended, in the controller or in the switch");
	pieces = controller_pieces();
	sim_require(pieces < MEMORY_PIECES_MOST,
		    "the controller has %ld pieces of memory more than it began with", pieces);
	controller_stop();
	cluster_switch_stop(&cluster.sw);
	step_until(all_ended, sim_now_ns() + SETTLE_NS, "a daemon does not end");
	sim_require(!task_alive(), "%u threads are left", task_alive());
	sim_require(!controller_rows(), "%u rows are left in the database", controller_rows());
	check_process(&controller.process);
	check_process(&cluster.sw.process);
}

/* In some seeds all processes speak TLS. */
static void choose_keys(void)
{
	struct rng rng = {.state = rng_mix(sim_seed(), DRAW_KEYS)};

	cluster.tls = !rng_below(&rng, cluster.hostile ? KEYS_BESIDE_ONE_OF : KEYS_ONE_OF);
	cluster_figures.with_keys += cluster.tls;
	if (cluster.tls)
		setenv("INCCL_KEY", CLUSTER_KEY_MEMBER, 1);
	else
		unsetenv("INCCL_KEY");
}

void cluster_run(void)
{
	unsigned int i;

	task_begin();
	wire_begin();
	host_begin();
	tcp_begin();
	memory_begin();
	cluster = (struct cluster){.hosts = 2 + sim_below(CLUSTER_HOSTS_MOST - 1),
				   .n_groups = 1 + sim_below(CLUSTER_GROUPS_MOST)};
	cluster.faults_end_at_ns = sim_now_ns() + sim_between(0, 1ull << (16 + sim_below(16)));
	if (cluster.faults_end_at_ns > sim_now_ns() + FAULTS_MOST_NS)
		cluster.faults_end_at_ns = sim_now_ns() + FAULTS_MOST_NS;
	sim_faults_end(cluster.faults_end_at_ns);
	cluster_hostile_open();
	choose_keys();
	controller_open(cluster.hosts, cluster.tls, cluster.metrics);
	cluster.sw.tls = cluster.tls;
	cluster.sw.metrics = cluster.metrics;
	cluster_switch_open(&cluster.sw, cluster.hosts);
	for (i = 0; i < cluster.hosts; i++)
		add_host(i);
	controller_start();
	/* members that connect before the controller is ready are refused, and ranks cannot know
	 * when it is ready */
	step_until(is_ready, UINT64_MAX, "the controller does not start");
	cluster_switch_start(&cluster.sw);
	for (i = 0; i < cluster.n_groups; i++)
		add_group(i);
	cluster_choose_faults();
	cluster_hostile_start();
	step_until(all_through, cluster.faults_end_at_ns + CONVERGE_NS,
		   "ranks are not through, so long after the last fault");
	finish();
	cluster_switch_close(&cluster.sw);
	tcp_end();
}
