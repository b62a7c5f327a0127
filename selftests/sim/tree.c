// SPDX-License-Identifier: BSD-2-Clause
#include "neighbour.h"
#include "sim.h"
#include "tree_priv.h"

/* FAULTS_MOST_NS: the longest time with faults. The next value is the time from their end until all
 * ranks must have ended. No retransmission timer is longer than a second. */
#define FAULTS_MOST_NS INC_NSEC_PER_SEC
#define CONVERGE_NS    (5 * INC_NSEC_PER_SEC)
/* The ranks' timeout for missing progress, which exceeds every fault except a death. A switch that
 * has died may return later than this. */
#define TIMEOUT_MS   8000
#define AWAY_MOST_NS (20 * INC_NSEC_PER_SEC)
/* Limit of early times. A time drawn from the whole time with faults would mostly lie after the end
 * of the run. */
#define EARLY_NS (2 * INC_NSEC_PER_MSEC)
/* The longest stop of a process in seeds with long stops. Ranks with this timeout wait for such a
 * process. */
#define LONG_STOP_MOST_NS (60 * INC_NSEC_PER_SEC)
#define PATIENT_MS        600000
#define STOPS_MOST        3
#define AFTER_MOST_NS     (20 * INC_NSEC_PER_MSEC)

struct tree tree;

/* --- the choice of faults --- */

static void revive(void *arg, uint64_t unused)
{
	struct daemon *daemon = arg;

	if (!daemon->slow_path)
		daemon_revive(daemon);
}

static void kill_daemon(void *arg, uint64_t revive_at_ns)
{
	struct daemon *daemon = arg;

	if (!daemon->slow_path)
		return;
	daemon_kill(daemon);
	sim_at(revive_at_ns, revive, daemon, 0);
}

static void go_on(void *arg, uint64_t unused)
{
	tree_make_if_asked();
}

static void stop(void *process, uint64_t until_ns)
{
	task_stop(process, until_ns);
	sim_at(until_ns, go_on, NULL, 0);
}

/* Draws the length of a process's stop: short, near a limit, or long. */
static uint64_t stop_ns(void)
{
	static const uint64_t limits_ns[] = {INC_AWAKE_STEP_NS, INC_AWAKE_RESPITE_NS,
					     INC_PORT_LOST_S * INC_NSEC_PER_SEC,
					     INC_UNRESPONSIVE_S * INC_NSEC_PER_SEC};

	switch (sim_below(3)) {
	case 0:
		return sim_between(0, 2 * INC_NSEC_PER_SEC);
	case 1:
		return limits_ns[sim_below(4)] + sim_between(0, INC_NSEC_PER_SEC) -
		       INC_NSEC_PER_SEC / 2;
	}
	return sim_between(0, LONG_STOP_MOST_NS);
}

static struct process *any_process(void)
{
	const uint32_t which = sim_below(tree.n_ranks + tree.n_switches);

	return which < tree.n_ranks ? &tree.rank[which].host.process
				    : &tree.sw[which - tree.n_ranks].daemon.process;
}

/* Draws long stops. Each stop begins together with the one before it, or shortly after that one's
 * end. */
static void choose_long_stops(void)
{
	const uint32_t n = 1 + sim_below(STOPS_MOST);
	uint64_t from = sim_now_ns() + sim_between(0, EARLY_NS), to = from, ns;
	uint32_t i;

	if (sim_chance(300))
		from = sim_between(sim_now_ns(), tree.faults_end_at_ns);
	for (i = 0; i < n; i++) {
		if (i && sim_chance(500))
			from = to + sim_between(0, AFTER_MOST_NS);
		ns = stop_ns();
		to = from + ns;
		sim_figures.long_stops += ns >= INC_PORT_LOST_S * INC_NSEC_PER_SEC;
		if (tree.quiet_at_ns < to)
			tree.quiet_at_ns = to;
		sim_at(from, stop, any_process(), to);
	}
}

static void choose_incidents(void)
{
	uint32_t n = sim_chance(500) ? sim_below(INCIDENTS_MOST + 1) : 0, i;

	for (i = 0; i < n; i++) {
		uint64_t from = sim_between(sim_now_ns(), tree.faults_end_at_ns);
		uint64_t to = sim_between(from, tree.faults_end_at_ns);
		uint32_t which = sim_below(tree.n_ranks + 2 * tree.n_switches);
		struct tree_switch *sw = &tree.sw[(which - tree.n_ranks) / 2 % SWITCHES_MOST];

		if (which < tree.n_ranks)
			sim_at(from, stop, &tree.rank[which].host.process, to);
		else if ((which - tree.n_ranks) % 2)
			sim_at(from, stop, &sw->daemon.process, to);
		else if (sw->mode == INC_PASSTHROUGH)
			sim_at(from, kill_daemon, &sw->daemon, to);
		else if (tree.mode == INC_TREE_TERMINATION)
			sim_at(sim_chance(500) ? sim_now_ns() + sim_between(0, EARLY_NS) : from,
			       tree_death, sw,
			       sim_chance(100) ? from + sim_between(0, AWAY_MOST_NS) : to);
	}
}

/* --- one run of a seed --- */

static void choose(void)
{
	tree = (struct tree){.n_calls = 1 + sim_below(CALLS_MOST)};
	tree_plan();
	tree.n_comms = 1 + sim_chance(300);
	tree.at_once = 1 + sim_below(4);
	if (tree.mode == INC_TREE_TERMINATION && sim_chance(500))
		tree.floats = INC_FLOATS_NATIVE;
	tree.opts.sz = sizeof(tree.opts);
	tree.opts.transport = INCCL_TRANSPORT_SOFT;
	tree.opts.payload = 256u << sim_below(4);
	tree.opts.message_packets = 1 + (sim_chance(300) ? sim_below(8) : 0);
	tree.opts.window = 1 + sim_below(32);
	tree.patient = sim_chance(120);
	tree.opts.timeout_ms = tree.patient ? PATIENT_MS : TIMEOUT_MS;
	tree.faults_end_at_ns = sim_now_ns() + sim_between(0, 1u << (16 + sim_below(15)));
	if (tree.faults_end_at_ns > sim_now_ns() + FAULTS_MOST_NS)
		tree.faults_end_at_ns = sim_now_ns() + FAULTS_MOST_NS;
	tree.quiet_at_ns = tree.faults_end_at_ns;
	tree_choose_calls();
}

static void begin(void)
{
	unsigned int i;

	task_begin();
	wire_begin();
	host_begin();
	neighbour_begin();
	choose();
	sim_faults_end(tree.faults_end_at_ns);
	tree_watch_begin();
	tree_forge_begin();
	tree_build();
	for (i = 0; i < tree.n_ranks; i++) {
		tree_choose_buffers(&tree.rank[i]);
		task_new(&tree.rank[i].host.process, tree_rank_run, &tree.rank[i]);
	}
	tree_choose_moves();
	if (sim_chance(tree.patient ? 600 : 60)) {
		choose_long_stops();
		/* Ports are lost only if the ranks are patient. Otherwise a call could fail because
		 * of a port, without a stop as its reason. */
		if (!tree.patient)
			return;
	} else {
		choose_incidents();
	}
	tree_choose_losses();
}

static void remove_all(struct tree_switch *sw)
{
	unsigned int i;

	for (i = 0; i < sw->n_comms; i++)
		daemon_remove(&sw->daemon, sw->comm[i]);
}

static void end(void)
{
	unsigned int i;

	for (i = 0; i < tree.n_switches; i++)
		if (tree.sw[i].mode == INC_PASSTHROUGH)
			remove_all(&tree.sw[i]);
	for (i = 0; i < tree.n_switches; i++)
		if (tree.sw[i].mode == INC_PASSTHROUGH)
			daemon_stop(&tree.sw[i].daemon);
		else
			tree_term_stop(&tree.sw[i]);
	tree_free_buffers();
}

void tree_run(void)
{
	begin();
	while (tree.ended < tree.n_ranks) {
		sim_require(sim_step(), "nothing happens any more, and %u threads wait",
			    task_alive());
		sim_require(sim_now_ns() < tree.quiet_at_ns + CONVERGE_NS,
			    "%u of %u ranks are not through, so long after the last fault",
			    tree.n_ranks - tree.ended, tree.n_ranks);
	}
	end();
}
