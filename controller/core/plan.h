/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Predicts what an AllReduce costs on a topology: its time, the CPU time of hosts and switches, and
 * the resource that limits it. The prediction uses costs that `selftests/bench modes` has measured
 * with soft endpoints (docs/modes.md, "A plan"). This code needs no network.
 */
#ifndef INC_PLAN_H
#define INC_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/base/err.h"
#include "lib/conf/comm_conf.h"
#include "lib/topology/topology.h"

/* The types with measured costs. Another integer costs about as much as INT32, and another float as
 * FLOAT32. */
enum inc_plan_type {
	INC_PLAN_INT32,
	INC_PLAN_FLOAT32,
	INC_PLAN_TYPES,
};

/* A cost as CPU time in ns: for each AllReduce, for each packet, and for each byte of the
 * vector. */
struct inc_plan_cost {
	double call_ns;
	double packet_ns;
	double byte_ns;
};

/* The costs of one host, and those of a switch for one child. On shared cores each rank also has a
 * cost `rest`, for threads of the kernel and idle cores. */
struct inc_plan_costs {
	struct inc_plan_cost host, child, rest;
};

/*
 * The costs for each mode and type. In `alone` every process has a core of its own, on which it
 * polls while it waits. In `crowded` and `packed` processes share cores, so they sleep while they
 * wait, and the kernel switches between them. In `packed` more than two hosts share each core, so a
 * collective needs more such switches.
 */
struct inc_plan_table {
	struct inc_plan_costs alone[INC_N_MODES][INC_PLAN_TYPES];
	struct inc_plan_costs crowded[INC_N_MODES][INC_PLAN_TYPES];
	struct inc_plan_costs packed[INC_N_MODES][INC_PLAN_TYPES];
};

/* The costs of the machine that docs/modes.md describes. */
extern const struct inc_plan_table inc_plan_measured;

struct inc_plan_job {
	unsigned int ranks; /* number of ranks, one on each of the first hosts of the topology */
	uint64_t bytes;     /* size of the vector */
	enum inc_plan_type type;
	/* number of cores that all hosts and switches share, as in a lab; 0: each of them is a
	 * machine of its own */
	unsigned int cores;
};

enum inc_plan_limit {
	INC_PLAN_CORES,  /* the shared cores */
	INC_PLAN_HOST,   /* the CPU of each host */
	INC_PLAN_SWITCH, /* the CPU of one switch */
	INC_PLAN_LINK,   /* the rate of a link */
};

struct inc_plan_switch {
	unsigned int sw;       /* index in the topology of the switch that the plan uses */
	unsigned int children; /* number of hosts and switches below the switch */
	double cpu_us;         /* for each AllReduce */
};

struct inc_plan {
	/* termination if all switches are in that mode, else passthrough */
	enum inc_mode_of_switch mode;
	unsigned int payload; /* largest payload of a packet, in bytes */
	/* number of packets that each host sends, and also receives */
	uint64_t packets;
	unsigned int slots; /* slots that the communicator has on each of its switches */
	double time_us;
	double host_cpu_us; /* CPU time of one host for each AllReduce */
	enum inc_plan_limit limit;
	/* index of the switch in `switches`, or of the link in the topology, that limits the
	 * time */
	unsigned int limit_index;
	/* the switches in the order of the tree, the root first */
	struct inc_plan_switch *switches;
	unsigned int n_switches;
};

/*
 * Makes the plan of a job. mode is for switches to which the topology gives no mode. Returns 0,
 * -EINVAL if the topology has fewer hosts than the job has ranks, or an error of
 * inc_route_compute(). inc_plan_free() frees the plan's array.
 */
int inc_plan_make(const struct inc_topology *topo, const struct inc_plan_table *costs,
		  const struct inc_plan_job *job, enum inc_mode_of_switch mode,
		  struct inc_plan *plan, struct inc_err *err);
void inc_plan_free(struct inc_plan *plan);

#endif
