// SPDX-License-Identifier: BSD-2-Clause
/* The faults of a run. They happen as events at the times that the scenario names. */
#include <stdio.h>
#include <string.h>
#include "cluster.h"
#include "network.h"
#include "process.h"
#include "sim.h"
#include "userspace/engine.h"

/* A process that was killed starts again within this time. */
#define DOWN_MOST_NS  (2 * INC_NSEC_PER_SEC)
#define PAUSE_MOST_NS (1500 * INC_NSEC_PER_MSEC)
/* A rank that stands still for less than the member's timeout without this time is only slow, and
 * not silent. It covers a tick and the delay of messages. */
#define SLOW_LESS_MS 400
/* If an interface is away for so long, communicators may end because of it. Faults and timers
 * account for the rest of the limit. */
#define PORT_ENDS_NS ((INC_PORT_LOST_S - 1) * INC_NSEC_PER_SEC)
/* within this time a daemon notices that a port has returned */
#define NOTICED_NS INC_NSEC_PER_SEC

static void on_daemon_away(const struct cluster_switch *sw, bool ends);

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
	if (cluster_switch_of(arg))
		on_daemon_away(cluster_switch_of(arg), false);
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
	if (for_ns + slower_ns >= (cluster.member_timeout_ms - SLOW_LESS_MS) * INC_NSEC_PER_MSEC) {
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
	cluster.vanished = true;
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
	struct cluster_switch *sw = arg;

	if (!sw->running)
		cluster_switch_start(sw);
}

static void after_daemon_died(struct cluster_switch *sw)
{
	cluster_figures.daemons_killed++;
	on_daemon_away(sw, true);
	sw->ends++;
	if (sw->mode == INC_TERMINATION) {
		cluster.struck = true;
		cluster_figures.struck++;
	}
	controller_switch_died(sw);
	sw->ended = NULL;
	sim_after(sim_between(0, DOWN_MOST_NS), start_switch, sw, 0);
}

static void kill_switch(void *arg, uint64_t unused)
{
	struct cluster_switch *sw = arg;

	if (!sw->running)
		return;
	cluster_switch_kill(sw);
	after_daemon_died(sw);
}

static void cut(void *arg, uint64_t until_ns)
{
	const struct process *process = arg;

	sim_note(process->name, "is cut off for us:", (until_ns - sim_now_ns()) / 1000, 0, 0);
	tcp_cut(process->addr, until_ns);
}

/* Lets the n-th allocation of a process fail. Processes with libevent's HTTP server are spared,
 * because that server (version 2.1) leaks a connection for which it has no memory. */
static void fail_allocation(void *arg, uint64_t n)
{
	const bool has_http = arg == &controller.process || cluster_switch_of(arg);

	if (!memory_failed() && !(has_http && cluster.metrics))
		memory_fail(arg, n);
}

/* The controller or the daemon stands still. */
static void pause_daemon(struct process *process, uint64_t start_at_ns, uint64_t ms)
{
	/* other faults of the run can delay an answer by this time */
	const uint64_t slower_ms = cluster.slowed ? 2 * PAUSE_MOST_NS / INC_NSEC_PER_MSEC : 0;

	/* if the process stands still for less than its peers wait, its answers are only slow */
	if (ms + slower_ms >= CLUSTER_SWITCH_TIMEOUT_MS - 200) {
		cluster.controller_stalls |= process == &controller.process;
		cluster.daemon_stalls |= process != &controller.process;
		if (process != &controller.process && cluster.daemon_stalls_ms < ms)
			cluster.daemon_stalls_ms = ms;
	}
	cluster_figures.standstills++;
	sim_at(start_at_ns, stand_still, process, start_at_ns + ms * INC_NSEC_PER_MSEC);
}

static void after_daemon_ended(struct cluster_switch *sw)
{
	sw->ended = NULL;
	sim_after(cluster.down_ns, start_switch, sw, 0);
}

/* An operator sends SIGTERM to the daemon. Its communicators end with it, and it reports this to
 * the controller. */
static void terminate_switch(void *arg, uint64_t down_ns)
{
	struct cluster_switch *sw = arg;

	if (!sw->ready)
		return;
	sim_note(sw->process.name, "is asked to end", 0, 0, 0);
	cluster_figures.daemons_terminated++;
	cluster.terminated_at_ns = sim_now_ns();
	cluster.down_ns = down_ns;
	on_daemon_away(sw, true);
	sw->ends++;
	sw->ended = after_daemon_ended;
	cluster_switch_stop(sw);
}

static void return_port(void *arg, uint64_t port)
{
	struct cluster_switch *sw = cluster.port.sw;

	if (!cluster_port_is_away(sw, port))
		return;
	cluster.port.back_at_ns = sim_now_ns();
	cluster_port_return(sw, port);
}

static void lose_port(void *arg, uint64_t port)
{
	struct cluster_switch *sw = cluster.port.sw;

	if (cluster_port_is_away(sw, port))
		return;
	cluster_figures.ports_lost++;
	cluster_figures.ports_lost_blind += !sw->ready;
	cluster.port.lost = true;
	cluster.port.lost_at_ns = sim_now_ns();
	cluster.port.unseen |= !sw->ready && !cluster.port.moves && !cluster.port.down;
	if (cluster.port.down)
		cluster_port_down(sw, port);
	else if (cluster.port.moves)
		cluster_port_move(sw, port);
	else
		cluster_port_delete(sw, port);
	sim_after(cluster.port.away_ns, return_port, NULL, port);
}

static void break_device(void *host, uint64_t unused)
{
	cluster.rdma_broken = true;
	cluster_figures.devices_broken++;
	cluster.rdma_silent |= !rdma_break(host);
}

static void repair_device(void *host, uint64_t unused)
{
	rdma_repair(host);
}

/* Called when the daemon of a switch ends or stands still. If the port has returned only shortly
 * before, the daemon may not have observed the return. */
static void on_daemon_away(const struct cluster_switch *sw, bool ends)
{
	const bool is_back =
		cluster.port.back_at_ns && sim_now_ns() >= cluster.port.back_at_ns + NOTICED_NS;

	if (sw != cluster.port.sw)
		return;
	cluster.port.unseen |=
		ends && cluster.port.lost && !is_back && !cluster.port.moves && !cluster.port.down;
	if (!cluster.port.waits)
		return;
	cluster.port.waits = false;
	sim_after(cluster.port.delay_ns, lose_port, NULL, cluster.port.number);
}

/* --- the lines of the scenario --- */

static struct process *process_of(uint64_t which)
{
	if (which == SCENARIO_CONTROLLER)
		return &controller.process;
	if (which < SCENARIO_RANK(0, 0))
		return &cluster.sw[which & 0xf].process;
	return &cluster.group[which >> 4 & 0xf].rank[which & 0xf].process;
}

static struct cluster_rank *rank_of(uint64_t which)
{
	return which < SCENARIO_RANK(0, 0) ? NULL
					   : &cluster.group[which >> 4 & 0xf].rank[which & 0xf];
}

static void start_stop(uint64_t at_ns, uint64_t which, uint64_t for_ns)
{
	if (rank_of(which))
		sim_at(at_ns, pause_rank, rank_of(which), for_ns);
	else
		pause_daemon(process_of(which), at_ns, for_ns / INC_NSEC_PER_MSEC);
}

static void start_kill(uint64_t at_ns, uint64_t which)
{
	if (rank_of(which)) {
		sim_at(at_ns, kill_rank, rank_of(which), 0);
	} else if (which == SCENARIO_CONTROLLER) {
		cluster.controller_dies = true;
		sim_at(at_ns, kill_controller, NULL, 0);
	} else {
		cluster.daemon_dies = true;
		sim_at(at_ns, kill_switch, &cluster.sw[which & 0xf], 0);
	}
}

/* --- before a packet --- */

/* The process that sends the packet may be the one that is killed, so it is killed behind it. */
static void kill_before_packet(void *arg, uint64_t which)
{
	cluster.faults_at_packets++;
	start_kill(sim_now_ns(), which);
}

static void cut_wire(struct wire *wire, uint64_t for_ns)
{
	wire->cut_from_ns = sim_now_ns();
	wire->cut_to_ns = sim_now_ns() + for_ns;
}

static void cut_cable_before_packet(void *wire, uint64_t for_ns)
{
	cluster.faults_at_packets++;
	sim_figures.cuts++;
	cut_wire(wire, for_ns);
}

/* All cables of a switch are cut, so the packet is the first that is lost. */
static void cut_before_packet(void *arg, uint64_t for_ns)
{
	struct cluster_switch *sw = arg;
	unsigned int i;

	cluster.faults_at_packets++;
	sim_figures.cuts++;
	for (i = 0; i < cluster.hosts; i++) {
		if (cluster.host[i].port->sw != sw)
			continue;
		cut_wire(&cluster.host[i].up, for_ns);
		cut_wire(&cluster.host[i].down, for_ns);
	}
	for (i = 0; i < cluster.n_switches; i++) {
		if (!cluster.sw[i].parent || (&cluster.sw[i] != sw && cluster.sw[i].parent != sw))
			continue;
		cut_wire(&cluster.sw[i].up, for_ns);
		cut_wire(&cluster.sw[i].down, for_ns);
	}
}

void cluster_packets_count(void)
{
	const struct scenario_line *l;

	for (l = cluster_scenario.line; l < cluster_scenario.line + cluster_scenario.n; l++) {
		const uint64_t *v = l->value;

		if (l->kind == SCENARIO_PACKET_KILL)
			wire_before(v[0], kill_before_packet, NULL, v[1]);
		else if (l->kind == SCENARIO_PACKET_CUT)
			wire_before(v[0], cut_before_packet, &cluster.sw[v[1]], v[2]);
		else if (l->kind == SCENARIO_PACKET_CABLE)
			wire_before(v[0], cut_cable_before_packet, cluster_cable(v[1]), v[2]);
	}
}

/* The fault of a port. There is one such fault in a scenario. */
static void start_port(const struct scenario_line *l, bool waits)
{
	cluster.port.goes = true;
	cluster.port.moves = l->kind == SCENARIO_AWAY || l->kind == SCENARIO_AWAY_BESIDE;
	cluster.port.down = l->kind == SCENARIO_DOWN || l->kind == SCENARIO_DOWN_BESIDE;
	cluster.port.waits = waits;
	cluster.port.delay_ns = l->value[0];
	cluster.port.sw = &cluster.sw[l->value[1] >> 4];
	cluster.port.number = l->value[1] & 0xf;
	cluster.port.away_ns = l->value[2];
	cluster.port.ends = cluster.port.away_ns >= PORT_ENDS_NS;
	cluster_figures.ports_lost_long += cluster.port.ends;
	if (!waits)
		sim_after(cluster.port.delay_ns, lose_port, NULL, cluster.port.number);
}

/* Notes when the last fault is over. */
static void note_end(const struct scenario_line *l)
{
	const bool lasts = l->kind != SCENARIO_KILL && l->kind != SCENARIO_HOST_OFF &&
			   l->kind != SCENARIO_MEMORY;
	const uint64_t at_ns = sim_now_ns() + l->value[0] + (lasts ? l->value[2] : 0);

	if (l->kind >= SCENARIO_PAUSE && cluster.quiet_at_ns < at_ns)
		cluster.quiet_at_ns = at_ns;
}

static void start_fault(const struct scenario_line *l)
{
	const uint64_t *v = l->value, at_ns = sim_now_ns() + v[0];

	switch (l->kind) {
	case SCENARIO_DATABASE:
		cluster.controller_dies = true;
		controller.dies_in_store = v[0];
		break;
	case SCENARIO_PAUSE:
		sim_at(at_ns, task_stop, process_of(v[1]), at_ns + v[2]);
		break;
	case SCENARIO_CUT_OFF:
		sim_at(at_ns, cut, process_of(v[1]), at_ns + v[2]);
		break;
	case SCENARIO_STOP:
		start_stop(at_ns, v[1], v[2]);
		break;
	case SCENARIO_KILL:
		start_kill(at_ns, v[1]);
		break;
	case SCENARIO_HOST_OFF:
		sim_at(at_ns, kill_host, NULL, v[1]);
		break;
	case SCENARIO_MEMORY:
		sim_at(at_ns, fail_allocation, process_of(v[2]), v[1]);
		break;
	case SCENARIO_END:
		sim_at(at_ns, terminate_switch, &cluster.sw[v[1]], v[2]);
		break;
	case SCENARIO_BREAK:
		sim_at(at_ns, break_device, &cluster.sw[v[1] >> 4].port[v[1] & 0xf].host, 0);
		sim_at(at_ns + v[2], repair_device, &cluster.sw[v[1] >> 4].port[v[1] & 0xf].host,
		       0);
		break;
	case SCENARIO_DELETE:
	case SCENARIO_AWAY:
	case SCENARIO_DOWN:
		start_port(l, false);
		break;
	case SCENARIO_DELETE_BESIDE:
	case SCENARIO_AWAY_BESIDE:
	case SCENARIO_DOWN_BESIDE:
		start_port(l, true);
		break;
	case SCENARIO_HOST_MAC:
		cluster_move_host(at_ns, v[1]);
		break;
	case SCENARIO_PORT_MAC:
		cluster_move_port(at_ns, &cluster.sw[v[1] >> 4], v[1] & 0xf);
		break;
	default:
		break; /* the line is no fault */
	}
}

void cluster_start_faults(const struct scenario *s)
{
	unsigned int i;

	controller.died = after_controller_died;
	for (i = 0; i < cluster.n_switches; i++)
		cluster.sw[i].failed = after_daemon_died;
	/* short delays lengthen all others, so they are known first */
	for (i = 0; i < s->n; i++)
		cluster.slowed |=
			s->line[i].kind == SCENARIO_PAUSE || s->line[i].kind == SCENARIO_CUT_OFF;
	for (i = 0; i < s->n; i++) {
		note_end(&s->line[i]);
		start_fault(&s->line[i]);
	}
}

/* Changes of MAC addresses in the middle of a run: of a host, or of a switch's port. A card with a
 * new address drops frames for the old one. */

/* Greatest delay until a kernel has learned a peer's new MAC address, and until a daemon is
 * notified of a new one of its own port. */
#define LEARN_MOST_NS  (50 * INC_NSEC_PER_MSEC)
#define FOLLOW_MOST_NS INC_NSEC_PER_MSEC

/* The kernel of the peer learns the new MAC address, for the sockets of its processes. */
static void learn(void *arg, uint64_t unused)
{
	struct host *own = arg, *peer = cluster_peer_of(own);

	if (peer)
		memcpy(peer->gateway, own->mac, sizeof(own->mac));
}

static void notify(void *port, uint64_t unused)
{
	cluster_port_changed(port);
}

static void move(void *arg, uint64_t unused)
{
	struct host *own = arg;
	struct cluster_port *port = cluster_port_of(own);

	own->mac[2]++;
	sim_figures.moves++;
	sim_note(port ? port->sw->process.name : own->process.name, "moves",
		 port ? port->number : 0, own->mac[2], 0);
	neighbour_moves(own->addr, own->mac);
	sim_after(sim_between(0, LEARN_MOST_NS), learn, own, 0);
	if (port)
		sim_after(sim_between(0, FOLLOW_MOST_NS), notify, port, 0);
}

void cluster_move_host(uint64_t at_ns, unsigned int host)
{
	sim_at(at_ns, move, &cluster.host[host].host, 0);
}

void cluster_move_port(uint64_t at_ns, struct cluster_switch *sw, unsigned int port)
{
	sim_at(at_ns, move, &sw->port[port].host, 0);
}
