// SPDX-License-Identifier: BSD-2-Clause
/*
 * Draws the scenario of a seed. Each kind of thing has its own random numbers, which follow from
 * the seed and a number (rng_mix()), so a new kind does not change the others.
 */
#include <string.h>
#include "cluster.h"
#include "lib/base/awake.h"
#include "lib/proto/roce.h"
#include "scenario.h"
#include "sim.h"
#include "userspace/call.h"
#include "userspace/engine.h"

enum draw {
	DRAW_SILENCE = 0x51,
	DRAW_FAILING_START = 0x52,
	DRAW_STANDSTILL = 0x53,
	DRAW_TERMINATION = 0x54,
	DRAW_PORT = 0x55,
	DRAW_PAUSES = 0x56,
	DRAW_HOSTILE = 0x58,
	DRAW_KEYS = 0x59,
	DRAW_TREE = 0x5a,
	DRAW_JOBS = 0x5b,
	DRAW_MOVES = 0x5c,
	DRAW_PATIENCE = 0x5d,
	DRAW_CABLES = 0x5e,
	DRAW_INCIDENTS = 0x5f,
	DRAW_TIMES = 0x60,
	DRAW_CHANNELS = 0x61,
};

/* Faults of cables last at least until the first communicators exist. */
#define FAULTS_LEAST_NS INC_NSEC_PER_MSEC
#define FAULTS_MOST_NS  (4 * INC_NSEC_PER_SEC)
/* One of so many seeds, or of so many switches, has a thing (ONE_OF). Other names are limits. */
#define TREE_ONE_OF        2
#define HOSTILE_ONE_OF     4
#define KEYS_ONE_OF        8
#define KEYS_BESIDE_ONE_OF 2 /* of seeds with hostile peers */
#define PATIENT_ONE_OF     8
#define CHANNELS_ONE_OF    8
#define ORDER_ONE_OF       4
#define HIDES_ONE_OF       3 /* switches whose hello has no MAC addresses */
#define FORGER_ONE_OF      4
#define HOSTS_LEAST        2
#define MORE_HOSTS_MOST    2 /* hosts that a tree has more than a single switch */
#define THREADS_MOST       2
#define MODES_OF           10 /* of so many seeds, */
#define MODES_DRAWN        2  /* in so many each switch draws its own mode, */
#define MODES_TERMINATE    2  /* and in so many all are in termination mode */
#define SHORT_TIMEOUT_NS   (8 * INC_NSEC_PER_SEC)
#define LONG_TIMEOUT_NS    (600 * INC_NSEC_PER_SEC)
/* cables */
#define DELAY_MIN_NS 2000
#define DELAY_MAX_NS 60000
/* faults */
#define INCIDENTS_MOST 3
#define MOVES_ONE_OF   3
#define MOVES_MOST     3
#define PAUSE_MOST_NS  (1500 * INC_NSEC_PER_MSEC)
/* The controller counts ticks, so a rank that stands still for this long is certainly silent. */
#define SILENT_LEAST_MS      (CLUSTER_MEMBER_TIMEOUT_MS + 500)
#define SILENT_MOST_MS       (2 * SILENT_LEAST_MS)
#define SILENCE_ONE_OF       8
#define FAILING_START_ONE_OF 8
/* number of allocations that a start of the daemon needs at most */
#define FAILING_START_MOST 128
#define STANDSTILL_ONE_OF  8
/* A standstill of the controller or of a daemon always exceeds the member's timeout, and mostly the
 * switch's timeout (5 s). */
#define STANDSTILL_LEAST_MS SILENT_LEAST_MS
#define STANDSTILL_MOST_MS  30000
#define TERMINATION_ONE_OF  8
/* How long a daemon is down at most after SIGTERM. This time exceeds a rank's limit for progress,
 * so that some jobs fail before the switch returns. */
#define DOWN_AFTER_TERMINATION_MOST_MS 40000
#define PORT_ONE_OF                    4
#define PORT_BESIDE_ONE_OF             2 /* of seeds in which the daemon ends or stands still */
#define PORT_AWAY_MOST_MS              7000
#define PORT_LONG_ONE_OF               4 /* of the losses of a port */
#define PORT_LONG_MOST_MS              30000
#define PAUSES_ONE_OF                  4
#define PAUSE_LONGEST_MS               60000

/* The things that were drawn so far. */
struct plan {
	struct scenario *s;
	uint64_t seed, faults_end_ns;
	unsigned int n_switches, parent[CLUSTER_SWITCHES_MOST], ports[CLUSTER_SWITCHES_MOST];
	unsigned int hosts, host_at[CLUSTER_HOSTS_MOST];
	unsigned int jobs, ranks[CLUSTER_GROUPS_MOST];
	bool hostile, patient;
	/* the switch that suffers in this seed, and whether its daemon may end or stands still */
	unsigned int victim;
	bool away;
};

static struct rng rng_of(const struct plan *p, enum draw draw)
{
	return (struct rng){.state = rng_mix(p->seed, draw)};
}

static uint64_t between(struct rng *rng, uint64_t from, uint64_t to)
{
	return from + rng_next(rng) % (to - from + 1);
}

/* --- switches, hosts and jobs --- */

static void draw_switches(struct plan *p, struct rng *rng)
{
	const bool tree = !rng_below(rng, TREE_ONE_OF);
	unsigned int i;

	p->n_switches = tree ? 2 + rng_below(rng, CLUSTER_SWITCHES_MOST - 1) : 1;
	p->hosts =
		HOSTS_LEAST + rng_below(rng, 3) + (tree ? rng_below(rng, MORE_HOSTS_MOST + 1) : 0);
	scenario_add(p->s, SCENARIO_ROOT, 0);
	for (i = 1; i < p->n_switches; i++) {
		p->parent[i] = rng_below(rng, i);
		p->ports[i]++;
		p->ports[p->parent[i]]++;
		scenario_add(p->s, SCENARIO_SWITCH, i, p->parent[i]);
	}
}

static void draw_modes(const struct plan *p, struct rng *rng)
{
	const uint32_t kind = rng_below(rng, MODES_OF);
	enum inc_mode_of_switch mode;
	unsigned int i;
	bool drawn;

	for (i = 0; i < p->n_switches; i++) {
		drawn = kind < MODES_TERMINATE ||
			(rng_below(rng, 2) && kind < MODES_TERMINATE + MODES_DRAWN);
		mode = drawn ? INC_TERMINATION : INC_PASSTHROUGH;
		scenario_add(p->s, SCENARIO_MODE, i, mode);
		if (rng_below(rng, 2)) {
			scenario_add(p->s, SCENARIO_NAMED, i);
			/* the topology's mode counts, whatever the daemon's settings say */
			if (!rng_below(rng, 4))
				scenario_add(p->s, SCENARIO_OWN_MODE, i,
					     mode == INC_PASSTHROUGH ? INC_TERMINATION
								     : INC_PASSTHROUGH);
		}
		scenario_add(p->s, SCENARIO_THREADS, i, 1 + rng_below(rng, THREADS_MOST));
		if (!rng_below(rng, HIDES_ONE_OF))
			scenario_add(p->s, SCENARIO_HIDES, i);
	}
}

/* Attaches a host to each leaf, and the other hosts to any switch. */
static void draw_places(struct plan *p, struct rng *rng)
{
	unsigned int i, k, other, swap, leaves = 0;

	for (i = 0; i < p->n_switches; i++) {
		for (k = i + 1; k < p->n_switches && p->parent[k] != i; k++)
			;
		if (k == p->n_switches)
			p->host_at[leaves++] = i;
	}
	if (p->hosts < leaves)
		p->hosts = leaves;
	for (i = leaves; i < p->hosts; i++)
		p->host_at[i] = rng_below(rng, p->n_switches);
	for (i = p->hosts; i > 1; i--) {
		other = rng_below(rng, i);
		swap = p->host_at[i - 1];
		p->host_at[i - 1] = p->host_at[other];
		p->host_at[other] = swap;
	}
	for (i = 0; i < p->hosts; i++) {
		p->ports[p->host_at[i]]++;
		scenario_add(p->s, SCENARIO_HOST, i, p->host_at[i]);
	}
}

/* A switch with only one port needs a port without a member, by which forged packets arrive. */
static void draw_forger(struct plan *p, struct rng *rng)
{
	unsigned int i;

	if (rng_below(rng, FORGER_ONE_OF))
		return;
	scenario_add(p->s, SCENARIO_FORGER);
	for (i = 0; i < p->n_switches; i++)
		if (p->ports[i] == 1 || rng_below(rng, 2)) {
			p->ports[i]++;
			scenario_add(p->s, SCENARIO_STRANGER, i);
		}
}

static void draw_topology(struct plan *p)
{
	struct rng rng = rng_of(p, DRAW_TREE);

	draw_switches(p, &rng);
	draw_modes(p, &rng);
	draw_places(p, &rng);
	draw_forger(p, &rng);
	p->victim = rng_below(&rng, p->n_switches);
}

/* In some seeds the controller waits for ranks however long they stand still, and the ranks' own
 * limits are short or long. */
static void draw_patience(struct plan *p)
{
	struct rng rng = rng_of(p, DRAW_PATIENCE);

	p->patient = !rng_below(&rng, PATIENT_ONE_OF);
	if (p->patient)
		scenario_add(p->s, SCENARIO_PATIENT);
}

static void draw_job(struct plan *p, struct rng *rng, unsigned int job)
{
	const unsigned int ranks = 1 + rng_below(rng, p->hosts);
	const unsigned int rounds = 1 + rng_below(rng, CLUSTER_ROUNDS_MOST);
	const unsigned int calls = 1 + rng_below(rng, CLUSTER_CALLS_MOST);
	const unsigned int comms = 1 + rng_chance(rng, 300);
	const unsigned int at_once = 1 + rng_below(rng, 4);
	const unsigned int payload = INC_MIN_PAYLOAD << rng_below(rng, INC_N_RC_PAYLOADS);
	const unsigned int window = 1 + rng_below(rng, 16);
	const unsigned int packets = 1 + (rng_chance(rng, 300) ? rng_below(rng, 8) : 0);
	const bool is_short = rng_chance(rng, 500);

	p->ranks[job] = ranks;
	scenario_add(p->s, SCENARIO_JOB, job, ranks, rounds, calls, comms, at_once);
	scenario_add(p->s, SCENARIO_OPTIONS, job, payload, window, packets,
		     !p->patient ? 30 * INC_NSEC_PER_SEC
		     : is_short  ? SHORT_TIMEOUT_NS
				 : LONG_TIMEOUT_NS);
}

static void draw_jobs(struct plan *p)
{
	struct rng rng = rng_of(p, DRAW_JOBS);
	unsigned int i;

	p->jobs = 1 + rng_below(&rng, CLUSTER_GROUPS_MOST);
	for (i = 0; i < p->jobs; i++)
		draw_job(p, &rng, i);
}

/* In one of so many jobs communicators have several channels, or elements are in network order. */
static void draw_channels(struct plan *p)
{
	struct rng rng = rng_of(p, DRAW_CHANNELS);

	for (unsigned int job = 0; job < p->jobs; job++) {
		const unsigned int n = 2 + rng_below(&rng, CLUSTER_CHANNELS_MOST - 1);

		if (!rng_below(&rng, CHANNELS_ONE_OF))
			scenario_add(p->s, SCENARIO_CHANNELS, job, n);
		if (!rng_below(&rng, ORDER_ONE_OF))
			scenario_add(p->s, SCENARIO_ORDER, job);
	}
}

static void draw_hostile(struct plan *p)
{
	struct rng rng = rng_of(p, DRAW_HOSTILE), keys = rng_of(p, DRAW_KEYS);
	const unsigned int n = 1 + rng_below(&rng, CLUSTER_HOSTILE_MOST);

	p->hostile = !rng_below(&rng, HOSTILE_ONE_OF);
	if (p->hostile)
		scenario_add(p->s, SCENARIO_HOSTILE, n);
	if (p->hostile && rng_below(&rng, 2))
		scenario_add(p->s, SCENARIO_FIGURES);
	if (!rng_below(&keys, p->hostile ? KEYS_BESIDE_ONE_OF : KEYS_ONE_OF))
		scenario_add(p->s, SCENARIO_KEYS);
}

/* --- cables --- */

/* Draws a rate, which is mostly small and sometimes great. */
static uint32_t draw_rate(struct rng *rng, uint32_t most)
{
	switch (rng_below(rng, 4)) {
	case 0:
		return 0;
	case 1:
		return rng_below(rng, most / 20 + 1);
	case 2:
		return rng_below(rng, most / 4 + 1);
	}
	return rng_below(rng, most + 1);
}

static void draw_cable(const struct plan *p, struct rng *rng, uint64_t cable)
{
	const uint64_t delay_ns = between(rng, DELAY_MIN_NS, DELAY_MAX_NS);
	const uint64_t jitter_ns = rng_below(rng, 4) ? 0 : between(rng, 0, 2 * DELAY_MAX_NS);
	const uint64_t lost = draw_rate(rng, 200), repeated = draw_rate(rng, 100);
	const uint64_t damaged = draw_rate(rng, 100), delayed = draw_rate(rng, 100);
	const uint64_t late_ns =
		rng_chance(rng, 300) ? 50 * INC_NSEC_PER_MSEC : 500 * INC_NSEC_PER_USEC;
	const uint64_t burst = rng_chance(rng, 200) ? 50 : 1;
	uint64_t from_ns;

	scenario_add(p->s, SCENARIO_DELAY, cable, delay_ns, jitter_ns);
	if (lost)
		scenario_add(p->s, SCENARIO_LOSS, cable, lost, burst);
	if (repeated || damaged || delayed)
		scenario_add(p->s, SCENARIO_FAULTY, cable, repeated, damaged, delayed, late_ns);
	if (!rng_chance(rng, 150))
		return;
	from_ns = between(rng, 0, p->faults_end_ns);
	scenario_add(p->s, SCENARIO_CABLE_CUT, cable, from_ns,
		     between(rng, from_ns, p->faults_end_ns));
}

static void draw_cables(const struct plan *p)
{
	struct rng rng = rng_of(p, DRAW_CABLES);
	unsigned int i, low, high;

	for (i = 0; i < p->hosts + p->n_switches - 1; i++) {
		const unsigned int sw = 1 + i - p->hosts;

		low = i < p->hosts ? SCENARIO_HOST_END(i) : sw;
		high = i < p->hosts ? p->host_at[i] : p->parent[sw];
		draw_cable(p, &rng, SCENARIO_CABLE(low, high));
		draw_cable(p, &rng, SCENARIO_CABLE(high, low));
	}
}

/* --- faults --- */

/* Draws a time before the faults end; early times are as frequent as late ones. */
static uint64_t some_time(const struct plan *p, struct rng *rng)
{
	const uint64_t at_ns = between(rng, 0, 1ull << (16 + rng_below(rng, 16)));

	return at_ns < p->faults_end_ns ? at_ns : p->faults_end_ns;
}

/* Draws how long after the start a fault happens: up to 2.1 s, and as often early as late. */
static uint64_t some_delay(struct rng *rng)
{
	return rng_below(rng, 1u << (16 + rng_below(rng, 16)));
}

static void draw_incident(struct plan *p, struct rng *rng)
{
	const unsigned int job = rng_below(rng, p->jobs), rank = rng_below(rng, p->ranks[job]);
	const unsigned int sw = rng_below(rng, p->n_switches);
	const uint64_t choices[] = {SCENARIO_RANK(job, rank), SCENARIO_CONTROLLER,
				    SCENARIO_SWITCH(sw)};
	const uint64_t process = choices[rng_below(rng, 3)];
	const uint64_t at_ns = some_time(p, rng), for_ns = between(rng, 0, PAUSE_MOST_NS);
	uint64_t n;

	switch (rng_below(rng, 7)) {
	case 0:
		scenario_add(p->s, SCENARIO_PAUSE, at_ns, process, for_ns);
		break;
	case 1:
		scenario_add(p->s, SCENARIO_CUT_OFF, at_ns, process, for_ns);
		break;
	case 2:
		scenario_add(p->s, SCENARIO_KILL, at_ns, SCENARIO_RANK(job, rank));
		break;
	case 3:
		scenario_add(p->s, SCENARIO_HOST_OFF, at_ns, rank);
		break;
	case 4:
		if (rng_chance(rng, 300))
			scenario_add(p->s, SCENARIO_DATABASE, 1 + rng_below(rng, 100));
		else
			scenario_add(p->s, SCENARIO_KILL, at_ns, SCENARIO_CONTROLLER);
		break;
	case 5:
		p->away |= sw == p->victim;
		scenario_add(p->s, SCENARIO_KILL, at_ns, SCENARIO_SWITCH(sw));
		break;
	case 6:
		p->away |= process == SCENARIO_SWITCH(p->victim);
		n = 1 + rng_below(rng, 1u << rng_below(rng, 13));
		scenario_add(p->s, SCENARIO_MEMORY, rng_chance(rng, 500) ? 0 : at_ns, n, process);
		break;
	}
}

static void draw_incidents(struct plan *p)
{
	struct rng rng = rng_of(p, DRAW_INCIDENTS);
	uint32_t n = rng_chance(&rng, 700) ? rng_below(&rng, INCIDENTS_MOST + 1) : 0;

	while (n--)
		draw_incident(p, &rng);
}

/* In some seeds one of the daemon's first allocations fails, so that its start fails. Random
 * failures of allocations hit a start too rarely. */
static void draw_failing_start(struct plan *p)
{
	struct rng rng = rng_of(p, DRAW_FAILING_START);
	const uint64_t n = 1 + rng_below(&rng, FAILING_START_MOST);

	if (rng_below(&rng, FAILING_START_ONE_OF))
		return;
	p->away = true;
	scenario_add(p->s, SCENARIO_MEMORY, 0, n, SCENARIO_SWITCH(p->victim));
}

/* In some seeds a rank stands still for longer than the controller waits for it. */
static void draw_silence(const struct plan *p)
{
	struct rng rng = rng_of(p, DRAW_SILENCE);
	const unsigned int job = rng_below(&rng, p->jobs), rank = rng_below(&rng, p->ranks[job]);
	const uint64_t delay_ns = some_delay(&rng);
	const uint64_t ms = between(&rng, SILENT_LEAST_MS, SILENT_MOST_MS);

	if (!rng_below(&rng, SILENCE_ONE_OF))
		scenario_add(p->s, SCENARIO_STOP, delay_ns, SCENARIO_RANK(job, rank),
			     ms * INC_NSEC_PER_MSEC);
}

/* In some seeds the controller or a daemon stands still for longer than others wait for it. */
static void draw_standstill(struct plan *p)
{
	struct rng rng = rng_of(p, DRAW_STANDSTILL);
	const bool of_controller = rng_below(&rng, 2);
	const uint64_t delay_ns = some_delay(&rng);
	const uint64_t ms = between(&rng, STANDSTILL_LEAST_MS, STANDSTILL_MOST_MS);

	if (rng_below(&rng, STANDSTILL_ONE_OF))
		return;
	p->away |= !of_controller;
	scenario_add(p->s, SCENARIO_STOP, delay_ns,
		     of_controller ? SCENARIO_CONTROLLER : SCENARIO_SWITCH(p->victim),
		     ms * INC_NSEC_PER_MSEC);
}

/* A third of the pauses is shorter than the member's timeout, a third is near one of the limits,
 * and a third is anything up to a minute. */
static uint64_t draw_stop_ns(struct rng *rng)
{
	/* the silence of a member, a switch's answer, the first message of a client, the progress
	 * of a collective, and those of the switches */
	static const uint64_t limits_ms[] = {CLUSTER_MEMBER_TIMEOUT_MS,
					     CLUSTER_SWITCH_TIMEOUT_MS,
					     10000,
					     30000,
					     INC_AWAKE_STEP_NS / INC_NSEC_PER_MSEC,
					     INC_AWAKE_RESPITE_NS / INC_NSEC_PER_MSEC,
					     INC_PORT_LOST_S * 1000,
					     INC_UNRESPONSIVE_S * 1000};
	const uint64_t limit_ms =
		limits_ms[rng_below(rng, sizeof(limits_ms) / sizeof(limits_ms[0]))];
	const uint32_t kind = rng_below(rng, 3);

	if (kind == 0)
		return rng_below(rng, CLUSTER_MEMBER_TIMEOUT_MS) * INC_NSEC_PER_MSEC;
	if (kind == 1)
		return (limit_ms - limit_ms / 8 + rng_below(rng, limit_ms / 4)) * INC_NSEC_PER_MSEC;
	return rng_below(rng, PAUSE_LONGEST_MS + 1) * INC_NSEC_PER_MSEC;
}

/* A process stands still with a chance of 1 in one_of. */
static void draw_stop(struct plan *p, struct rng *rng, uint32_t one_of, uint64_t at_ns,
		      uint64_t process)
{
	if (rng_below(rng, one_of))
		return;
	p->away |= process == SCENARIO_SWITCH(p->victim);
	scenario_add(p->s, SCENARIO_STOP, at_ns, process, draw_stop_ns(rng));
}

/* A rank or a daemon alone stands still for long. */
static void draw_lone_stop(struct plan *p, struct rng *rng)
{
	const unsigned int job = rng_below(rng, p->jobs), rank = rng_below(rng, p->ranks[job]);
	const unsigned int sw = rng_below(rng, p->n_switches);
	const bool of_rank = rng_below(rng, 2);
	const uint64_t at_ns = some_delay(rng);
	const uint64_t for_ns =
		between(rng, SHORT_TIMEOUT_NS, PAUSE_LONGEST_MS * INC_NSEC_PER_MSEC);

	p->away |= !of_rank && sw == p->victim;
	scenario_add(p->s, SCENARIO_STOP, at_ns,
		     of_rank ? SCENARIO_RANK(job, rank) : SCENARIO_SWITCH(sw), for_ns);
}

/* In some seeds several processes stand still, each once: one after the other, or all at the same
 * moment. Returns false if the processes do not in this seed. */
static bool draw_stops(struct plan *p)
{
	struct rng rng = rng_of(p, DRAW_PAUSES);
	const uint32_t one_of = 1 + rng_below(&rng, 4);
	const bool together = rng_below(&rng, 2);
	const uint64_t together_ns = some_delay(&rng);
	unsigned int job, i;

	if (rng_below(&rng, PAUSES_ONE_OF) && !p->patient)
		return false;
	if (p->patient && rng_below(&rng, 2)) {
		draw_lone_stop(p, &rng);
		return true;
	}
	draw_stop(p, &rng, one_of, together ? together_ns : some_delay(&rng), SCENARIO_CONTROLLER);
	for (i = 0; i < p->n_switches; i++)
		draw_stop(p, &rng, one_of, together ? together_ns : some_delay(&rng),
			  SCENARIO_SWITCH(i));
	for (job = 0; job < p->jobs; job++)
		for (i = 0; i < p->ranks[job]; i++)
			draw_stop(p, &rng, one_of, together ? together_ns : some_delay(&rng),
				  SCENARIO_RANK(job, i));
	return true;
}

/* In some seeds an operator ends the daemon, and starts it again. */
static void draw_termination(struct plan *p)
{
	struct rng rng = rng_of(p, DRAW_TERMINATION);
	const uint64_t delay_ns = some_delay(&rng);
	const uint64_t down_ms = rng_below(&rng, DOWN_AFTER_TERMINATION_MOST_MS);

	if (rng_below(&rng, TERMINATION_ONE_OF))
		return;
	p->away = true;
	scenario_add(p->s, SCENARIO_END, delay_ns, p->victim, down_ms * INC_NSEC_PER_MSEC);
}

/* In some seeds the interface of a port is deleted, moved to another namespace, or taken down.
 * Mostly it returns before the switch ends the communicators that need it. If the daemon ends or
 * stands still in this seed, the interface mostly disappears at about that time. */
static void draw_port(const struct plan *p)
{
	static const enum scenario_kind kinds[2][3] = {
		{SCENARIO_DELETE, SCENARIO_AWAY, SCENARIO_DOWN},
		{SCENARIO_DELETE_BESIDE, SCENARIO_AWAY_BESIDE, SCENARIO_DOWN_BESIDE}};
	struct rng rng = rng_of(p, DRAW_PORT);
	const uint64_t port = SCENARIO_PORT(p->victim, rng_below(&rng, p->ports[p->victim]));
	const uint64_t delay_ns = some_delay(&rng);
	const uint32_t most_ms =
		rng_below(&rng, PORT_LONG_ONE_OF) ? PORT_AWAY_MOST_MS : PORT_LONG_MOST_MS;
	const uint64_t away_ns = rng_below(&rng, most_ms) * INC_NSEC_PER_MSEC;
	const bool waits = p->away && rng_below(&rng, 4);

	if (rng_below(&rng, p->away ? PORT_BESIDE_ONE_OF : PORT_ONE_OF))
		return;
	scenario_add(p->s, kinds[waits][rng_below(&rng, 4) % 3], delay_ns, port, away_ns);
}

static void draw_moves(const struct plan *p)
{
	struct rng rng = rng_of(p, DRAW_MOVES);
	uint32_t n = rng_below(&rng, MOVES_ONE_OF) ? 0 : 1 + rng_below(&rng, MOVES_MOST), sw;

	while (n--) {
		const uint64_t at_ns = some_time(p, &rng);

		if (rng_below(&rng, 2)) {
			scenario_add(p->s, SCENARIO_HOST_MAC, at_ns, rng_below(&rng, p->hosts));
			continue;
		}
		sw = rng_below(&rng, p->n_switches);
		scenario_add(p->s, SCENARIO_PORT_MAC, at_ns,
			     SCENARIO_PORT(sw, rng_below(&rng, p->ports[sw])));
	}
}

void scenario_draw(struct scenario *s, uint64_t seed)
{
	struct plan p = {.s = s, .seed = seed};
	struct rng rng = rng_of(&p, DRAW_TIMES);

	s->n = 0;
	p.faults_end_ns = FAULTS_LEAST_NS + between(&rng, 0, 1ull << (16 + rng_below(&rng, 16)));
	if (p.faults_end_ns > FAULTS_MOST_NS)
		p.faults_end_ns = FAULTS_MOST_NS;
	scenario_add(s, SCENARIO_SEED, seed);
	scenario_add(s, SCENARIO_FAULTS, p.faults_end_ns);
	draw_topology(&p);
	draw_patience(&p);
	draw_jobs(&p);
	draw_channels(&p);
	draw_hostile(&p);
	draw_cables(&p);
	draw_incidents(&p);
	draw_failing_start(&p);
	if (!draw_stops(&p)) {
		draw_silence(&p);
		draw_standstill(&p);
	}
	draw_termination(&p);
	draw_port(&p);
	draw_moves(&p);
	scenario_draw_devices(s, seed);
}
