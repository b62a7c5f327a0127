/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Chooses the CPU of each communicator by load, and moves communicators between CPUs (inc_steer.h
 * in bpf/). The load of a communicator is the rate of the packets that its route has counted. The
 * daemon calls these functions on its only thread.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/thread.h"
#include "loader/inc_comm_plan.h"
#include "loader/inc_loader_priv.h"
#include "loader/inc_state.h"

/* A rate below this many packets a second is not worth a move. */
#define BUSY_RATE 1000
/* How long to wait for packets of a removed communicator that are in queues. */
#define DRAIN_MOST_MS 100
#define DRAIN_LOOK_US 100

/* The load of a CPU: the rates of its communicators, and their number. */
struct load {
	uint64_t rate;
	uint32_t comms;
};

/* Whether the communicator exists and has this CPU. */
static bool is_on(const struct inc_switch *sw, uint32_t comm, uint32_t cpu)
{
	return inc_switch_comm(sw, comm) && inc_switch_cpu_of(sw, comm) == (int)cpu;
}

static struct load load_of(const struct inc_switch *sw, uint32_t cpu)
{
	struct load load = {};
	uint32_t cm;

	for (cm = 0; cm < sw->opts.max_comms; cm++) {
		if (!is_on(sw, cm, cpu))
			continue;
		load.rate += sw->steering.rate[cm].rate;
		load.comms++;
	}
	return load;
}

static bool is_less(struct load a, struct load b)
{
	return a.rate != b.rate ? a.rate < b.rate : a.comms < b.comms;
}

/* Returns the least loaded CPU that is online, or -1 if none is. */
static int least_loaded(const struct inc_switch *sw, struct load *least)
{
	uint32_t i;
	int best = -1;

	for (i = 0; i < sw->steering.n; i++) {
		struct load load = load_of(sw, sw->steering.cpu[i]);

		if (sw->steering.queue[i].offline || (best >= 0 && !is_less(load, *least)))
			continue;
		*least = load;
		best = sw->steering.cpu[i];
	}
	return best;
}

static bool has_cpu(const struct inc_switch *sw, int cpu)
{
	uint32_t i;

	for (i = 0; i < sw->steering.n; i++)
		if ((int)sw->steering.cpu[i] == cpu)
			return true;
	return false;
}

int inc_switch_cpu_of(const struct inc_switch *sw, uint32_t comm)
{
	uint64_t word;

	if (!sw->steering.n)
		return -1;
	word = __atomic_load_n(&sw->routes[comm].word, __ATOMIC_RELAXED);
	return (int)inc_route_cpu_plus_1(word) - 1;
}

void inc_steer_place(struct inc_switch *sw, uint32_t comm)
{
	struct inc_route *route = &sw->routes[comm];
	struct load least;
	int cpu;

	if (!sw->steering.n)
		return;
	cpu = least_loaded(sw, &least);
	sw->steering.rate[comm] = (struct inc_steer_rate){};
	route->refused = route->done = 0;
	__atomic_store_n(&route->word, (uint64_t)(cpu + 1) << INC_ROUTE_CPU_SHIFT,
			 __ATOMIC_RELEASE);
}

void inc_steer_forget(struct inc_switch *sw, uint32_t comm)
{
	const struct timespec pause = {.tv_nsec = DRAIN_LOOK_US * INC_NSEC_PER_USEC};
	const uint64_t until_ns = inc_now_ns() + DRAIN_MOST_MS * INC_NSEC_PER_MSEC;
	int cpu = inc_switch_cpu_of(sw, comm);
	const struct inc_queue *queue;
	uint64_t put;

	if (cpu < 0)
		return;
	queue = &sw->queues[cpu];
	put = __atomic_load_n(&queue->put, __ATOMIC_ACQUIRE);
	while (__atomic_load_n(&queue->taken, __ATOMIC_ACQUIRE) < put && inc_now_ns() < until_ns)
		nanosleep(&pause, NULL);
	__atomic_store_n(&sw->routes[comm].word, 0, __ATOMIC_RELEASE);
}

/* Makes the queue to a CPU, with the program of this daemon. If a predecessor has left a queue, the
 * kernel lets the old program handle what is in it. */
static int make_queue(struct inc_switch *sw, uint32_t cpu, struct inc_err *err)
{
	struct bpf_cpumap_val val = {.qsize = INC_QUEUE_PACKETS,
				     .bpf_prog.fd = inc_switch_prog_fd(sw, INC_PROG_STEERED)};

	if (bpf_map_update_elem(inc_switch_map_fd(sw, INC_MAP_CPU), &cpu, &val, BPF_ANY))
		return inc_err_set(err, errno, "map %s: no queue to CPU %u: %s", INC_MAP_CPU, cpu,
				   strerror(errno));
	return 0;
}

int inc_steer_open(struct inc_switch *sw, struct inc_err *err)
{
	int cpus = libbpf_num_possible_cpus(), cpu, ret = 0;

	if (!sw->opts.steer)
		return 0;
	if (cpus > INC_ROUTE_MAX_CPUS)
		cpus = INC_ROUTE_MAX_CPUS;
	sw->steering.cpu = calloc(cpus > 0 ? cpus : 1, sizeof(*sw->steering.cpu));
	sw->steering.queue = calloc(cpus > 0 ? cpus : 1, sizeof(*sw->steering.queue));
	sw->steering.rate = calloc(sw->opts.max_comms, sizeof(*sw->steering.rate));
	if (!sw->steering.cpu || !sw->steering.queue || !sw->steering.rate)
		return inc_err_set(err, ENOMEM, "no memory for the steering");
	for (cpu = 0; !ret && cpu < cpus; cpu++) {
		if (!inc_cpu_usable(cpu))
			continue;
		ret = make_queue(sw, cpu, err);
		if (!ret)
			sw->steering.cpu[sw->steering.n++] = cpu;
	}
	return ret;
}

void inc_steer_close(struct inc_switch *sw)
{
	free(sw->steering.cpu);
	free(sw->steering.queue);
	free(sw->steering.rate);
}

void inc_steer_adopt(struct inc_switch *sw)
{
	int cpu, cpus = libbpf_num_possible_cpus();
	uint32_t cm;

	for (cm = 0; cm < sw->opts.max_comms; cm++) {
		if (!sw->opts.steer)
			__atomic_store_n(&sw->routes[cm].word, 0, __ATOMIC_RELEASE);
		else if (inc_switch_comm(sw, cm) && !has_cpu(sw, inc_switch_cpu_of(sw, cm)))
			inc_steer_place(sw, cm);
		/* packets that were counted before do not belong to the rate */
		if (sw->steering.n)
			sw->steering.rate[cm].count = inc_route_count(
				__atomic_load_n(&sw->routes[cm].word, __ATOMIC_RELAXED));
	}
	for (cpu = 0; cpu < cpus; cpu++)
		if (!has_cpu(sw, cpu))
			bpf_map_delete_elem(inc_switch_map_fd(sw, INC_MAP_CPU), &cpu);
}

/*
 * Corrects how many packets of a communicator have been handled, after a second without a packet.
 * The count may be wrong, because a packet's port moved while the packet was in the queue, or
 * because the communicator got a new CPU when a daemon took over. The communicator would never
 * count as idle then. If a packet comes now, the count may be too small until the next such second.
 */
static void settle(struct inc_switch *sw, uint32_t comm)
{
	struct inc_route *route = &sw->routes[comm];
	int cpu = inc_switch_cpu_of(sw, comm);
	uint64_t word;

	if (cpu < 0 || inc_switch_route_idle(sw, comm, &word) ||
	    __atomic_load_n(&sw->queues[cpu].taken, __ATOMIC_ACQUIRE) !=
		    __atomic_load_n(&sw->queues[cpu].put, __ATOMIC_ACQUIRE))
		return;
	if (inc_route_count(word) == sw->steering.rate[comm].count)
		__atomic_store_n(&route->done, inc_route_count(word) - route->refused,
				 __ATOMIC_RELEASE);
}

/* Measures the rates of all communicators. A rate is an average of the last seconds. */
static void measure(struct inc_switch *sw)
{
	uint32_t cm;

	for (cm = 0; cm < sw->opts.max_comms; cm++) {
		struct inc_steer_rate *r = &sw->steering.rate[cm];
		uint64_t count;

		if (!inc_switch_comm(sw, cm))
			continue;
		settle(sw, cm);
		count = inc_route_count(__atomic_load_n(&sw->routes[cm].word, __ATOMIC_RELAXED));
		r->rate = (3 * r->rate + (count - r->count)) / 4;
		r->count = count;
	}
}

/* The communicator of a CPU whose move to a CPU with so much less load helps most; -1: none. */
static int best_to_move(const struct inc_switch *sw, int from, uint64_t less)
{
	uint64_t most = 0;
	int best = -1;
	uint32_t cm;

	for (cm = 0; cm < sw->opts.max_comms; cm++) {
		uint64_t rate = sw->steering.rate[cm].rate, gain;

		if (!is_on(sw, cm, from))
			continue;
		/* the greater of the two loads falls by this */
		gain = rate < less ? (rate < less - rate ? rate : less - rate) : 0;
		if (gain > most) {
			most = gain;
			best = cm;
		}
	}
	return most > less / 8 ? best : -1;
}

/* Moves the communicator if none of its packets is under way. Writing its rows of inc_comm_ports
 * waits until all programs that run now have ended and their packets have left. */
static void move(struct inc_switch *sw, uint32_t comm, uint32_t cpu)
{
	struct inc_comm_build b = {.comm = comm, .cfg = sw->comm[comm]};
	uint64_t word;

	if (!inc_switch_route_idle(sw, comm, &word))
		return;
	memcpy(b.conn, &sw->conn[b.cfg.conn_base], inc_comm_conns(&b.cfg) * sizeof(b.conn[0]));
	if (inc_comm_make_ports(sw, &b, NULL) || !inc_switch_move_comm(sw, comm, word, cpu))
		return;
	sw->steering.moves++;
	inc_debug("communicator %u: moved to CPU %u", b.cfg.communicator, cpu);
}

/* The kernel has no file for a CPU that cannot go offline. */
static bool is_online(uint32_t cpu)
{
	char path[64], state = '1';
	FILE *f;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/online", cpu);
	f = fopen(path, "re");
	if (!f)
		return true;
	if (fread(&state, 1, 1, f) != 1)
		state = '1';
	fclose(f);
	return state != '0';
}

/* Removes the queue to a CPU that has gone offline, and gives its communicators to other CPUs. The
 * kernel runs the thread of the queue on any CPU then, where the program counts in the wrong queue.
 * Results may overtake each other while that thread empties the queue. */
static void leave_cpu(struct inc_switch *sw, uint32_t cpu)
{
	uint32_t cm;

	inc_warn("CPU %u is offline, so its communicators get other CPUs", cpu);
	bpf_map_delete_elem(inc_switch_map_fd(sw, INC_MAP_CPU), &cpu);
	for (cm = 0; cm < sw->opts.max_comms; cm++)
		if (is_on(sw, cm, cpu))
			inc_steer_place(sw, cm);
}

/* Makes the queue to a CPU that is online again, so that communicators may get this CPU. */
static void return_to_cpu(struct inc_switch *sw, struct inc_steer_queue *seen, uint32_t cpu)
{
	struct inc_err err;

	if (make_queue(sw, cpu, &err)) {
		inc_warn("CPU %u is online again, but gets no communicators: %s", cpu, err.msg);
		return;
	}
	seen->offline = false;
	inc_info("CPU %u is online again", cpu);
}

/*
 * Follows CPUs that go offline or come back. Also corrects a queue whose counts differ and have not
 * changed for a second. That queue is empty, because its thread needs a moment only. The kernel
 * has dropped its packets by itself, or a thread on another CPU has counted them.
 */
static void follow_queues(struct inc_switch *sw)
{
	uint32_t i;

	for (i = 0; i < sw->steering.n; i++) {
		struct inc_steer_queue *seen = &sw->steering.queue[i];
		const uint32_t cpu = sw->steering.cpu[i];
		struct inc_queue *queue = &sw->queues[cpu];
		const uint64_t put = __atomic_load_n(&queue->put, __ATOMIC_ACQUIRE);
		const uint64_t taken = __atomic_load_n(&queue->taken, __ATOMIC_ACQUIRE);
		const bool offline = !is_online(cpu);

		if (offline && !seen->offline) {
			seen->offline = true;
			leave_cpu(sw, cpu);
		} else if (!offline && seen->offline) {
			return_to_cpu(sw, seen, cpu);
		}
		if (put != taken && put == seen->put && taken == seen->taken)
			__atomic_store_n(&queue->taken, put, __ATOMIC_RELEASE);
		seen->put = put;
		seen->taken = taken;
	}
}

void inc_switch_balance(struct inc_switch *sw)
{
	struct load least = {}, most = {}, load;
	uint32_t from = 0, i;
	int comm, to;

	if (!sw->steering.n)
		return;
	follow_queues(sw);
	measure(sw);
	to = least_loaded(sw, &least);
	for (i = 0; i < sw->steering.n; i++) {
		load = load_of(sw, sw->steering.cpu[i]);
		if (is_less(most, load)) {
			most = load;
			from = sw->steering.cpu[i];
		}
	}
	if (to < 0 || most.rate < BUSY_RATE || most.rate - least.rate < most.rate / 4)
		return;
	comm = best_to_move(sw, from, most.rate - least.rate);
	if (comm >= 0)
		move(sw, comm, to);
}
