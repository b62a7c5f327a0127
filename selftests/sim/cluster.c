// SPDX-License-Identifier: BSD-2-Clause
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include "cluster.h"
#include "cluster_controller.h"
#include "memory.h"
#include "sim.h"
#include "tcp.h"

#define FAULTS_MOST_NS (4 * INC_NSEC_PER_SEC)
#define CONVERGE_NS    (400 * INC_NSEC_PER_SEC)
#define SETTLE_NS      (150 * INC_NSEC_PER_SEC)
#define INCIDENTS_MOST 3
/* What is under way when the last rank ends is there after this. */
#define CALM_NS (3 * INC_NSEC_PER_SEC)
/* A controller that starts again is there after this, most. */
#define DOWN_MOST_NS  (2 * INC_NSEC_PER_SEC)
#define PAUSE_MOST_NS (1500 * INC_NSEC_PER_MSEC)
/* The controller counts ticks: a rank that stands still for so long is silent for certain. */
#define SILENT_LEAST_MS   (CLUSTER_MEMBER_TIMEOUT_MS + 500)
#define SILENT_MOST_MS    (2 * SILENT_LEAST_MS)
#define SILENCE           0x51 /* what is drawn from the seed by this is nothing else's */
#define SILENCE_ONE_OF    8    /* seeds */
#define FIRST_STEPS       0x52 /* drawn from the seed in the same way */
#define FIRST_ONE_OF      8    /* seeds */
#define FIRST_MOST        128  /* allocations that a daemon's start needs, at most */
#define STANDSTILL        0x53 /* drawn from the seed in the same way */
#define STANDSTILL_ONE_OF 8    /* seeds */
/* A standstill exceeds the member's timeout always, and the switch's timeout (5 s) mostly. */
#define STANDSTILL_LEAST_MS SILENT_LEAST_MS
#define STANDSTILL_MOST_MS  30000
#define TERMINATION         0x54 /* drawn from the seed in the same way */
#define TERMINATION_ONE_OF  8    /* seeds */
/* How long the daemon is down at most after SIGTERM. It exceeds a rank's time limit for progress,
 * so that some jobs fail before the switch returns. */
#define DOWN_AFTER_TERMINATION_MOST_MS 40000
#define PORT                           0x55 /* drawn from the seed in the same way */
#define PORT_ONE_OF                    4    /* seeds, where the daemon does not end */
#define PORT_AWAY_MOST_MS              7000

struct cluster_figures cluster_figures;
struct cluster cluster;

/* --- what there is --- */

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

/* --- what goes wrong --- */

/* Its group loses it, at once or after the member's timeout. */
static void lose_rank(struct cluster_rank *rank)
{
	if (!rank->group->died_at_ns || rank->formed)
		rank->group->died_at_ns = sim_now_ns();
}

/* It stands still for longer than the controller waits, and then goes on. */
static void silence_rank(void *arg, uint64_t for_ns)
{
	struct cluster_rank *rank = arg;

	if (rank->through || rank->process.dead)
		return;
	cluster_figures.ranks_silent++;
	lose_rank(rank);
	rank->silent_until_ns = sim_now_ns() + for_ns;
	task_stop(&rank->process, rank->silent_until_ns);
}

/* SIGKILL, or with the whole machine, of which nobody hears any more. */
static void kill_rank(void *arg, uint64_t unused)
{
	struct cluster_rank *rank = arg;

	if (rank->through || rank->process.dead)
		return;
	sim_note(rank->process.name, "is killed", 0, 0, 0);
	cluster_figures.ranks_killed++;
	rank->group->killed = true;
	lose_rank(rank);
	task_kill(&rank->process);
	memory_free(&rank->process);
}

static void kill_host(void *arg, uint64_t number)
{
	unsigned int g;

	sim_note(cluster.host[number].host.process.name, "is off", 0, 0, 0);
	cluster_figures.hosts_off++;
	tcp_vanish(cluster.host[number].host.addr);
	for (g = 0; g < cluster.n_groups; g++)
		if (number < cluster.group[g].n_ranks)
			kill_rank(&cluster.group[g].rank[number], 0);
}

static void start_controller(void *arg, uint64_t unused)
{
	if (!controller.running)
		controller_start();
}

/* It comes back some time later. */
static void after_controller_died(void)
{
	cluster_figures.controllers_killed++;
	sim_after(sim_between(0, DOWN_MOST_NS), start_controller, NULL, 0);
}

static void kill_controller(void *arg, uint64_t unused)
{
	if (!controller.running)
		return;
	after_controller_died();
	controller_kill();
}

static void start_switch(void *arg, uint64_t unused)
{
	if (!cluster.sw.running)
		cluster_switch_start(&cluster.sw);
}

static void after_daemon_died(void)
{
	cluster_figures.daemons_killed++;
	controller_switch_died();
	cluster.sw.ended = NULL;
	sim_after(sim_between(0, DOWN_MOST_NS), start_switch, NULL, 0);
}

static void kill_switch(void *arg, uint64_t unused)
{
	if (!cluster.sw.running)
		return;
	cluster_switch_kill(&cluster.sw);
	after_daemon_died();
}

static void cut(void *arg, uint64_t until_ns)
{
	const struct process *process = arg;

	sim_note(process->name, "is cut off for us:", (until_ns - sim_now_ns()) / 1000, 0, 0);
	tcp_cut(process->addr, until_ns);
}

/* Some time before faults end, as often early as late. */
static uint64_t some_time(void)
{
	uint64_t at_ns = sim_now_ns() + sim_between(0, 1ull << (16 + sim_below(16)));

	return at_ns < cluster.faults_end_at_ns ? at_ns : cluster.faults_end_at_ns;
}

static void fail_allocation(void *arg, uint64_t n)
{
	if (!memory_failed())
		memory_fail(arg, n);
}

static void choose_incident(void)
{
	struct cluster_group *g = &cluster.group[sim_below(cluster.n_groups)];
	struct cluster_rank *rank = &g->rank[sim_below(g->n_ranks)];
	struct process *const whom[] = {&rank->process, &controller.process, &cluster.sw.process};
	struct process *process = whom[sim_below(3)];
	const uint64_t at_ns = some_time();

	switch (sim_below(7)) {
	case 0:
		sim_at(at_ns, task_stop, process, at_ns + sim_between(0, PAUSE_MOST_NS));
		break;
	case 1:
		sim_at(at_ns, cut, process, at_ns + sim_between(0, PAUSE_MOST_NS));
		break;
	case 2:
		sim_at(at_ns, kill_rank, rank, 0);
		break;
	case 3:
		sim_at(at_ns, kill_host, NULL, rank->number);
		break;
	case 4:
		cluster.controller_dies = true;
		if (sim_chance(300))
			controller.dies_in_store = 1 + sim_below(100);
		else
			sim_at(at_ns, kill_controller, NULL, 0);
		break;
	case 5:
		cluster.daemon_dies = cluster.daemon_may_end = true;
		sim_at(at_ns, kill_switch, NULL, 0);
		break;
	case 6:
		cluster.daemon_may_end |= process == &cluster.sw.process;
		sim_at(sim_chance(500) ? sim_now_ns() : at_ns, fail_allocation, process,
		       1 + sim_below(1u << sim_below(13)));
		break;
	}
}

/* Draws how long after the start something happens: up to 2.1 s, and as often early as late. */
static uint64_t draw_delay_ns(struct rng *rng)
{
	return rng_below(rng, 1u << (16 + rng_below(rng, 16)));
}

static void choose_incidents(void)
{
	uint32_t n = sim_chance(700) ? sim_below(INCIDENTS_MOST + 1) : 0;

	while (n--)
		choose_incident();
}

/* In some seeds, beside what else there is. Drawn apart, so that the other seeds are as they were
 * before ranks could be silent. */
static void choose_silence(void)
{
	struct rng rng = {.state = rng_mix(sim_seed(), SILENCE)};
	struct cluster_group *g = &cluster.group[rng_below(&rng, cluster.n_groups)];
	struct cluster_rank *rank = &g->rank[rng_below(&rng, g->n_ranks)];
	const uint64_t delay_ns = draw_delay_ns(&rng);
	const uint64_t ms = SILENT_LEAST_MS + rng_below(&rng, SILENT_MOST_MS - SILENT_LEAST_MS + 1);

	if (rng_below(&rng, SILENCE_ONE_OF))
		return;
	sim_after(delay_ns, silence_rank, rank, ms * INC_NSEC_PER_MSEC);
}

/* In some seeds one of the first allocations of the daemon fails, so that its start does. Of the
 * incidents above too few meet a start. */
static void choose_failing_start(void)
{
	struct rng rng = {.state = rng_mix(sim_seed(), FIRST_STEPS)};
	const uint64_t n = 1 + rng_below(&rng, FIRST_MOST);

	if (rng_below(&rng, FIRST_ONE_OF))
		return;
	cluster.daemon_may_end = true;
	sim_at(sim_now_ns(), fail_allocation, &cluster.sw.process, n);
}

static void stand_still(void *arg, uint64_t until_ns)
{
	cluster_figures.standstills++;
	task_stop(arg, until_ns);
}

/* In some seeds the controller or the daemon stands still for longer than others wait for it. */
static void choose_standstill(void)
{
	struct rng rng = {.state = rng_mix(sim_seed(), STANDSTILL)};
	const bool of_controller = rng_below(&rng, 2);
	const uint64_t start_at_ns = sim_now_ns() + draw_delay_ns(&rng);
	const uint64_t ms =
		STANDSTILL_LEAST_MS + rng_below(&rng, STANDSTILL_MOST_MS - STANDSTILL_LEAST_MS + 1);

	if (rng_below(&rng, STANDSTILL_ONE_OF))
		return;
	cluster.controller_stalls = of_controller;
	cluster.daemon_stalls = !of_controller;
	cluster.resumes_at_ns = start_at_ns + ms * INC_NSEC_PER_MSEC;
	sim_at(start_at_ns, stand_still, of_controller ? &controller.process : &cluster.sw.process,
	       cluster.resumes_at_ns);
}

static void after_daemon_ended(void)
{
	cluster.sw.ended = NULL;
	sim_after(cluster.down_ns, start_switch, NULL, 0);
}

/* An operator sends SIGTERM to the daemon. Its communicators end with it, and it reports this to
 * the controller. */
static void terminate_switch(void *arg, uint64_t down_ns)
{
	if (!cluster.sw.ready)
		return;
	sim_note(cluster.sw.process.name, "is asked to end", 0, 0, 0);
	cluster_figures.daemons_terminated++;
	cluster.terminated_at_ns = sim_now_ns();
	cluster.down_ns = down_ns;
	cluster.sw.ended = after_daemon_ended;
	cluster_switch_stop(&cluster.sw);
}

/* In some seeds an operator ends the daemon, and starts it again. */
static void choose_termination(void)
{
	struct rng rng = {.state = rng_mix(sim_seed(), TERMINATION)};
	const uint64_t delay_ns = draw_delay_ns(&rng);
	const uint64_t down_ns =
		rng_below(&rng, DOWN_AFTER_TERMINATION_MOST_MS) * INC_NSEC_PER_MSEC;

	if (rng_below(&rng, TERMINATION_ONE_OF))
		return;
	cluster.daemon_may_end = true;
	sim_after(delay_ns, terminate_switch, NULL, down_ns);
}

static void make_port(void *arg, uint64_t port)
{
	if (xdp_ifindex_now(cluster.sw.xdp, port))
		return;
	cluster_port_make(&cluster.sw, port);
}

static void delete_port(void *arg, uint64_t port)
{
	if (!cluster.sw.ready)
		return; /* a daemon does not start without its ports */
	cluster_figures.ports_lost++;
	cluster_port_delete(&cluster.sw, port);
}

/* In some seeds the interface of a port is deleted, and made again before the switch gives up what
 * needs it. */
static void choose_port(void)
{
	struct rng rng = {.state = rng_mix(sim_seed(), PORT)};
	const unsigned int port = rng_below(&rng, cluster.hosts);
	const uint64_t delay_ns = draw_delay_ns(&rng);
	const uint64_t away_ns = rng_below(&rng, PORT_AWAY_MOST_MS) * INC_NSEC_PER_MSEC;

	if (rng_below(&rng, PORT_ONE_OF) || cluster.daemon_may_end)
		return;
	cluster.port_goes = true;
	sim_after(delay_ns, delete_port, NULL, port);
	sim_after(delay_ns + away_ns, make_port, NULL, port);
}

/* --- a run --- */

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

static bool nothing_left(void)
{
	struct inc_usage u;

	if (!controller.ready || !cluster.sw.ready)
		return false;
	inc_switch_usage(xdp_switch(cluster.sw.xdp), &u);
	return !controller_knows() && !u.communicators.used && !u.connections.used &&
	       !u.rows.used && !u.slots.used && !u.root_rows.used && !xdp_entries(cluster.sw.xdp);
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
	uint64_t resumes_at_ns = sim_now_ns(); /* when no daemon stands still any more */

	if (resumes_at_ns < controller.process.paused_until_ns)
		resumes_at_ns = controller.process.paused_until_ns;
	if (resumes_at_ns < cluster.sw.process.paused_until_ns)
		resumes_at_ns = cluster.sw.process.paused_until_ns;
	cluster.calm_at_ns = resumes_at_ns + CALM_NS;
	step_until(is_calm, sim_now_ns() + SETTLE_NS,
		   "something is left of what has ended, in the controller or in the switch");
	controller_stop();
	cluster_switch_stop(&cluster.sw);
	step_until(all_ended, sim_now_ns() + SETTLE_NS, "a daemon does not end");
	sim_require(!task_alive(), "%u threads are left", task_alive());
	sim_require(!controller_rows(), "%u rows are left in the database", controller_rows());
	check_process(&controller.process);
	check_process(&cluster.sw.process);
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
	controller_open(cluster.hosts);
	cluster_switch_open(&cluster.sw, cluster.hosts);
	for (i = 0; i < cluster.hosts; i++)
		add_host(i);
	controller_start();
	/* what nobody could see: before, members are refused */
	step_until(is_ready, UINT64_MAX, "the controller does not start");
	cluster_switch_start(&cluster.sw);
	for (i = 0; i < cluster.n_groups; i++)
		add_group(i);
	controller.died = after_controller_died;
	cluster.sw.failed = after_daemon_died;
	choose_incidents();
	choose_silence();
	choose_failing_start();
	choose_standstill();
	choose_termination();
	choose_port();
	step_until(all_through, cluster.faults_end_at_ns + CONVERGE_NS,
		   "ranks are not through, so long after the last fault");
	finish();
	cluster_switch_close(&cluster.sw);
	tcp_end();
}
