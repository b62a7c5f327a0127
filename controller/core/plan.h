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

/* The types whose costs are known. Others cost about as much as the one of their kind. */
enum inc_plan_type {
	INC_PLAN_INT32,
	INC_PLAN_FLOAT32,
	INC_PLAN_TYPES,
};

/* CPU time in ns: for each AllReduce, for each packet, and for each byte of the vector. */
struct inc_plan_cost {
	double call_ns;
	double packet_ns;
	double byte_ns;
};

/* The costs of a host, the costs of a switch for one child, and what is left of the time of shared
 * cores for each rank. The kernel's threads use it, or cores are idle in it. */
struct inc_plan_costs {
	struct inc_plan_cost host, child, rest;
};

/*
 * The costs of both modes and types, by the number of hosts that share a core. A process that waits
 * polls where it has a core of its own (alone). Where processes share cores, it sleeps, and the
 * kernel switches between them. If more than two hosts share a core (packed), a collective needs
 * more such switches than with two (crowded).
 */
struct inc_plan_table {
	struct inc_plan_costs alone[INC_N_MODES][INC_PLAN_TYPES];
	struct inc_plan_costs crowded[INC_N_MODES][INC_PLAN_TYPES];
	struct inc_plan_costs packed[INC_N_MODES][INC_PLAN_TYPES];
};

/* The costs of the machine that docs/modes.md describes. */
extern const struct inc_plan_table inc_plan_measured;

struct inc_plan_job {
	unsigned int ranks; /* one on each of the first hosts of the topology */
	uint64_t bytes;     /* of the vector */
	enum inc_plan_type type;
	/* cores that all hosts and switches share, as in a lab; 0: each is a machine of its own */
	unsigned int cores;
};

enum inc_plan_limit {
	INC_PLAN_CORES,  /* the shared cores */
	INC_PLAN_HOST,   /* the CPU of each host */
	INC_PLAN_SWITCH, /* the CPU of one switch */
	INC_PLAN_LINK,   /* the rate of a link */
};

struct inc_plan_switch {
	unsigned int sw;       /* index of the switch in the topology */
	unsigned int children; /* its hosts and switches below it */
	double cpu_us;         /* for each AllReduce */
};

struct inc_plan {
	enum inc_mode_of_switch mode; /* termination: of all switches; else passthrough */
	unsigned int payload;         /* of a packet, in bytes */
	uint64_t packets;             /* that a host sends, and receives */
	unsigned int slots;           /* of the communicator, on each of its switches */
	double time_us;
	double host_cpu_us; /* of one host, for each AllReduce */
	enum inc_plan_limit limit;
	unsigned int limit_index; /* of the switch (in switches) or link (in the topology) */
	struct inc_plan_switch *switches; /* in the order of the tree, from the root */
	unsigned int n_switches;
};

/*
 * Makes the plan of a job. mode: of switches for which the topology has none. Returns 0 or -errno:
 * -EINVAL if the topology has fewer hosts than the job has ranks; the errors of
 * inc_route_compute(). inc_plan_free() frees the plan's array.
 */
int inc_plan_make(const struct inc_topology *topo, const struct inc_plan_table *costs,
		  const struct inc_plan_job *job, enum inc_mode_of_switch mode,
		  struct inc_plan *plan, struct inc_err *err);
void inc_plan_free(struct inc_plan *plan);

#endif
