// SPDX-License-Identifier: BSD-2-Clause
/* The faults of a run of the scenario with a controller. cluster_choose_faults() draws them from
 * the seed, and they happen as events of the run. */
#include <stdio.h>
#include <string.h>
#include "cluster.h"
#include "memory.h"
#include "sim.h"
#include "tcp.h"

#define INCIDENTS_MOST 3
/* A process that was killed starts again within this time. */
#define DOWN_MOST_NS  (2 * INC_NSEC_PER_SEC)
#define PAUSE_MOST_NS (1500 * INC_NSEC_PER_MSEC)
/* The controller counts ticks, so a rank that stands still for this long is certainly silent. */
#define SILENT_LEAST_MS (CLUSTER_MEMBER_TIMEOUT_MS + 500)
#define SILENT_MOST_MS  (2 * SILENT_LEAST_MS)
/* A rank that stands still for less than this time is only slow, and not silent. The difference to
 * the timeout covers a tick and the delay of messages. */
#define SLOW_MOST_MS         (CLUSTER_MEMBER_TIMEOUT_MS - 400)
#define SILENCE_ONE_OF       8 /* a rank is silent in one of so many seeds */
#define FAILING_START_ONE_OF 8 /* the daemon's start fails in one of so many seeds */
/* number of allocations that a start of the daemon needs at most */
#define FAILING_START_MOST 128
#define STANDSTILL_ONE_OF  8 /* a daemon stands still in one of so many seeds */
/* Least standstill of the controller or the daemon. A standstill always exceeds the member's
 * timeout, and mostly the switch's timeout (5 s). */
#define STANDSTILL_LEAST_MS SILENT_LEAST_MS
#define STANDSTILL_MOST_MS  30000
#define TERMINATION_ONE_OF  8 /* an operator ends the daemon in one of so many seeds */
/* How long the daemon is down at most after SIGTERM. This time exceeds a rank's limit for progress,
 * so that some jobs fail before the switch returns. */
#define DOWN_AFTER_TERMINATION_MOST_MS 40000
#define PORT_ONE_OF                    4 /* a port's interface disappears in one of so many seeds */
/* if the daemon ends or stands still, a port's interface disappears in one of so many seeds */
#define PORT_BESIDE_ONE_OF 2
#define PORT_AWAY_MOST_MS  7000
/* within this time a daemon notices that a port has returned */
#define NOTICED_NS       INC_NSEC_PER_SEC
#define PAUSES_ONE_OF    4 /* several processes stand still in one of so many seeds */
#define PAUSE_LONGEST_MS 60000
/* Limits of the product near which pauses are drawn: the silence of a member, a switch's answer,
 * the first message of a client, and the progress of a collective. */
#define PAUSE_LIMITS_MS CLUSTER_MEMBER_TIMEOUT_MS, CLUSTER_SWITCH_TIMEOUT_MS, 10000, 30000

static void on_daemon_away(bool ends);

/* The group loses this rank, either at once or after the member's timeout. */
static void lose_rank(struct cluster_rank *rank)
{
	if (!rank->group->died_at_ns || rank->formed)
		rank->group->died_at_ns = sim_now_ns();
}

static void stand_still(void *arg, uint64_t until_ns)
{
	struct cluster_pause *pause = &cluster.pause[cluster.n_pauses];

	sim_require(cluster.n_pauses++ < CLUSTER_PAUSES_MOST, "too many pauses");
	*pause = (struct cluster_pause){arg, sim_now_ns(), until_ns};
	task_stop(arg, until_ns);
	if (arg == &cluster.sw.process)
		on_daemon_away(false);
}

uint64_t cluster_resumed_at_ns(void)
{
	uint64_t at_ns = 0;
	unsigned int i;

	for (i = 0; i < cluster.n_pauses; i++)
		if (cluster.pause[i].until_ns <= sim_now_ns() && cluster.pause[i].until_ns > at_ns)
			at_ns = cluster.pause[i].until_ns;
	return at_ns;
}

uint64_t cluster_still_ns(const struct process *process, uint64_t since_ns)
{
	const uint64_t now_ns = sim_now_ns();
	uint64_t sum_ns = 0;
	unsigned int i;

	for (i = 0; i < cluster.n_pauses; i++) {
		const struct cluster_pause *p = &cluster.pause[i];
		const uint64_t from_ns = p->from_ns > since_ns ? p->from_ns : since_ns;
		const uint64_t to_ns = p->until_ns < now_ns ? p->until_ns : now_ns;

		if (p->process == process && from_ns < to_ns)
			sum_ns += to_ns - from_ns;
	}
	return sum_ns;
}

/* The rank stands still, perhaps for longer than the controller waits for it, and then goes on. */
static void pause_rank(void *arg, uint64_t for_ns)
{
	/* other faults of the run can lengthen the rank's silence by this time */
	const uint64_t slower_ns = cluster.slowed ? 2 * PAUSE_MOST_NS : 0;
	struct cluster_rank *rank = arg;

	if (rank->through || rank->process.dead)
		return;
	if (for_ns + slower_ns >= SLOW_MOST_MS * INC_NSEC_PER_MSEC) {
		cluster_figures.ranks_silent++;
		lose_rank(rank);
		rank->silenced = true;
	}
	stand_still(&rank->process, sim_now_ns() + for_ns);
}

/* The rank receives SIGKILL, or its whole machine is switched off (kill_host()). */
static void kill_rank(void *arg, uint64_t unused)
{
	struct cluster_rank *rank = arg;

	if (rank->through || rank->process.dead)
		return;
	sim_note(rank->process.name, "is killed", 0, 0, 0);
	cluster_figures.ranks_killed++;
	rank->group->killed = rank->silenced = true;
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

/* The controller is started again some time later. */
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
	on_daemon_away(true);
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

/* Draws a time before the faults end; early times are as frequent as late ones. */
static uint64_t some_time(void)
{
	uint64_t at_ns = sim_now_ns() + sim_between(0, 1ull << (16 + sim_below(16)));

	return at_ns < cluster.faults_end_at_ns ? at_ns : cluster.faults_end_at_ns;
}

/* Lets the n-th allocation of a process fail. Processes with libevent's HTTP server are spared,
 * because that server (version 2.1) leaks a connection for which it has no memory. */
static void fail_allocation(void *arg, uint64_t n)
{
	const bool has_http = arg == &controller.process || arg == &cluster.sw.process;

	if (!memory_failed() && !(has_http && cluster.metrics))
		memory_fail(arg, n);
}

static void choose_incident(void)
{
	struct cluster_group *g = &cluster.group[sim_below(cluster.n_groups)];
	struct cluster_rank *rank = &g->rank[sim_below(g->n_ranks)];
	struct process *const choices[] = {&rank->process, &controller.process,
					   &cluster.sw.process};
	struct process *process = choices[sim_below(3)];
	const uint64_t at_ns = some_time();

	switch (sim_below(7)) {
	case 0:
		cluster.slowed = true;
		sim_at(at_ns, task_stop, process, at_ns + sim_between(0, PAUSE_MOST_NS));
		break;
	case 1:
		cluster.slowed = true;
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

/* Draws how long after the daemon's start a fault happens: up to 2.1 s, and as often early as
 * late. */
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

/* In some seeds a rank stands still for longer than the controller waits for it. */
static void choose_silence(void)
{
	struct rng rng = {.state = rng_mix(sim_seed(), DRAW_SILENCE)};
	struct cluster_group *g = &cluster.group[rng_below(&rng, cluster.n_groups)];
	struct cluster_rank *rank = &g->rank[rng_below(&rng, g->n_ranks)];
	const uint64_t delay_ns = draw_delay_ns(&rng);
	const uint64_t ms = SILENT_LEAST_MS + rng_below(&rng, SILENT_MOST_MS - SILENT_LEAST_MS + 1);

	if (rng_below(&rng, SILENCE_ONE_OF))
		return;
	sim_after(delay_ns, pause_rank, rank, ms * INC_NSEC_PER_MSEC);
}

/* In some seeds one of the daemon's first allocations fails, so that its start fails. Random
 * failures of allocations hit a start too rarely. */
static void choose_failing_start(void)
{
	struct rng rng = {.state = rng_mix(sim_seed(), DRAW_FAILING_START)};
	const uint64_t n = 1 + rng_below(&rng, FAILING_START_MOST);

	if (rng_below(&rng, FAILING_START_ONE_OF))
		return;
	cluster.daemon_may_end = true;
	sim_at(sim_now_ns(), fail_allocation, &cluster.sw.process, n);
}

/* The controller or the daemon stands still. */
static void pause_daemon(struct process *process, uint64_t start_at_ns, uint64_t ms)
{
	/* other faults of the run can delay an answer by this time */
	const uint64_t slower_ms = cluster.slowed ? 2 * PAUSE_MOST_NS / INC_NSEC_PER_MSEC : 0;

	/* if the process stands still for less than its peers wait, its answers are only slow */
	if (ms + slower_ms >= CLUSTER_SWITCH_TIMEOUT_MS - 200) {
		cluster.controller_stalls |= process == &controller.process;
		cluster.daemon_stalls |= process == &cluster.sw.process;
		if (process == &cluster.sw.process)
			cluster.daemon_stalls_ms = ms;
	}
	cluster_figures.standstills++;
	sim_at(start_at_ns, stand_still, process, start_at_ns + ms * INC_NSEC_PER_MSEC);
}

/* In some seeds the controller or the daemon stands still for longer than others wait for it. */
static void choose_standstill(void)
{
	struct rng rng = {.state = rng_mix(sim_seed(), DRAW_STANDSTILL)};
	const bool of_controller = rng_below(&rng, 2);
	const uint64_t start_at_ns = sim_now_ns() + draw_delay_ns(&rng);
	const uint64_t ms =
		STANDSTILL_LEAST_MS + rng_below(&rng, STANDSTILL_MOST_MS - STANDSTILL_LEAST_MS + 1);

	if (rng_below(&rng, STANDSTILL_ONE_OF))
		return;
	pause_daemon(of_controller ? &controller.process : &cluster.sw.process, start_at_ns, ms);
}

/* A third of the pauses is shorter than the member's timeout, a third is near one of the limits,
 * and a third is anything up to a minute. */
static uint64_t draw_pause_ms(struct rng *rng)
{
	static const uint64_t limits_ms[] = {PAUSE_LIMITS_MS};
	const uint64_t limit_ms =
		limits_ms[rng_below(rng, sizeof(limits_ms) / sizeof(limits_ms[0]))];
	const uint32_t kind = rng_below(rng, 3);

	if (kind == 0)
		return rng_below(rng, CLUSTER_MEMBER_TIMEOUT_MS);
	if (kind == 1)
		return limit_ms - limit_ms / 8 + rng_below(rng, limit_ms / 4);
	return rng_below(rng, PAUSE_LONGEST_MS + 1);
}

/* In some seeds several processes stand still, each once: one after the other, or all at the same
 * moment. Returns false if the processes do not in this seed. */
static bool choose_pauses(void)
{
	struct rng rng = {.state = rng_mix(sim_seed(), DRAW_PAUSES)};
	const uint32_t one_of = 1 + rng_below(&rng, 4);
	const bool together = rng_below(&rng, 2);
	const uint64_t together_ns = draw_delay_ns(&rng);
	struct process *const daemons[] = {&controller.process, &cluster.sw.process};
	unsigned int g, r, d;
	uint64_t delay_ns;

	if (rng_below(&rng, PAUSES_ONE_OF))
		return false;
	for (d = 0; d < 2; d++) {
		delay_ns = together ? together_ns : draw_delay_ns(&rng);
		if (!rng_below(&rng, one_of))
			pause_daemon(daemons[d], sim_now_ns() + delay_ns, draw_pause_ms(&rng));
	}
	for (g = 0; g < cluster.n_groups; g++)
		for (r = 0; r < cluster.group[g].n_ranks; r++) {
			delay_ns = together ? together_ns : draw_delay_ns(&rng);
			if (!rng_below(&rng, one_of))
				sim_after(delay_ns, pause_rank, &cluster.group[g].rank[r],
					  draw_pause_ms(&rng) * INC_NSEC_PER_MSEC);
		}
	return true;
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
	on_daemon_away(true);
	cluster.sw.ended = after_daemon_ended;
	cluster_switch_stop(&cluster.sw);
}

/* In some seeds an operator ends the daemon, and starts it again. */
static void choose_termination(void)
{
	struct rng rng = {.state = rng_mix(sim_seed(), DRAW_TERMINATION)};
	const uint64_t delay_ns = draw_delay_ns(&rng);
	const uint64_t down_ns =
		rng_below(&rng, DOWN_AFTER_TERMINATION_MOST_MS) * INC_NSEC_PER_MSEC;

	if (rng_below(&rng, TERMINATION_ONE_OF))
		return;
	cluster.daemon_may_end = true;
	sim_after(delay_ns, terminate_switch, NULL, down_ns);
}

static void return_port(void *arg, uint64_t port)
{
	if (xdp_ifindex_now(cluster.sw.xdp, port))
		return;
	cluster.port.back_at_ns = sim_now_ns();
	cluster_port_return(&cluster.sw, port);
}

static void lose_port(void *arg, uint64_t port)
{
	if (!xdp_ifindex_now(cluster.sw.xdp, port))
		return;
	cluster_figures.ports_lost++;
	cluster_figures.ports_lost_blind += !cluster.sw.ready;
	cluster.port.lost = true;
	cluster.port.unseen |= !cluster.sw.ready && !cluster.port.moves;
	if (cluster.port.moves)
		cluster_port_move(&cluster.sw, port);
	else
		cluster_port_delete(&cluster.sw, port);
	sim_after(cluster.port.away_ns, return_port, NULL, port);
}

/* Called when the daemon ends or stands still. If the port has returned only shortly before, the
 * daemon may not have observed the return. */
static void on_daemon_away(bool ends)
{
	const bool is_back =
		cluster.port.back_at_ns && sim_now_ns() >= cluster.port.back_at_ns + NOTICED_NS;

	cluster.port.unseen |= ends && cluster.port.lost && !is_back && !cluster.port.moves;
	if (!cluster.port.waits)
		return;
	cluster.port.waits = false;
	sim_after(cluster.port.delay_ns, lose_port, NULL, cluster.port.number);
}

/* In some seeds the interface of a port is deleted, or moved to another namespace. It returns
 * before the switch ends the communicators that need it. If the daemon ends or stands still in this
 * seed, the interface mostly disappears at about that time. */
static void choose_port(void)
{
	const bool beside = cluster.daemon_may_end || cluster.daemon_stalls;
	struct rng rng = {.state = rng_mix(sim_seed(), DRAW_PORT)};
	const unsigned int port = rng_below(&rng, cluster.hosts);
	const uint64_t delay_ns = draw_delay_ns(&rng);
	const uint64_t away_ns = rng_below(&rng, PORT_AWAY_MOST_MS) * INC_NSEC_PER_MSEC;

	if (rng_below(&rng, beside ? PORT_BESIDE_ONE_OF : PORT_ONE_OF))
		return;
	cluster.port.goes = true;
	cluster.port.number = port;
	cluster.port.delay_ns = delay_ns;
	cluster.port.away_ns = away_ns;
	cluster.port.moves = rng_below(&rng, 2);
	cluster.port.waits = beside && rng_below(&rng, 4);
	if (!cluster.port.waits)
		sim_after(delay_ns, lose_port, NULL, port);
}

void cluster_choose_faults(void)
{
	controller.died = after_controller_died;
	cluster.sw.failed = after_daemon_died;
	choose_incidents();
	choose_failing_start();
	if (!choose_pauses()) {
		choose_silence();
		choose_standstill();
	}
	choose_termination();
	choose_port();
}
