/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The scenario with a controller: hosts, one switch with its daemon, the controller. Groups are
 * made through the control plane, compute, lose ranks, shrink and compute again, while processes
 * are killed and stopped. cluster.c is a run, cluster_rank.c what a rank does and what must hold of
 * it.
 */
#ifndef SIM_CLUSTER_H
#define SIM_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>
#include "cluster_switch.h"
#include "host.h"
#include "hostlib/include/inccl.h"

#define CLUSTER_HOSTS_MOST  4
#define CLUSTER_GROUPS_MOST 2
#define CLUSTER_ROUNDS_MOST 3
#define CLUSTER_CALLS_MOST  4
#define CLUSTER_MADE_MOST   8

struct cluster_rank {
	struct process process;
	struct cluster_group *group;
	unsigned int number;
	bool formed;              /* it has come into its group */
	bool through;             /* it has ended by itself */
	uint64_t called_at_ns;    /* the call that it is in; 0: it is in none */
	uint64_t silent_until_ns; /* it stands still for longer than the controller waits */
};

/* A job: its ranks are on the first hosts. */
struct cluster_group {
	char job[16];
	unsigned int n_ranks, rounds, calls;
	struct inccl_communicator_opts opts;
	uint64_t died_at_ns; /* its first rank, or has fallen silent; 0: none has */
	bool killed;         /* one of its ranks has been */
	/* the groups there have been, and who has come into each */
	struct cluster_made {
		uint32_t number, members;
		uint32_t created[CLUSTER_ROUNDS_MOST]; /* who has its communicator */
	} made[CLUSTER_MADE_MOST];
	struct cluster_rank rank[CLUSTER_HOSTS_MOST];
};

/* How often what happened, in all runs. */
struct cluster_figures {
	uint64_t ranks_killed, hosts_off, ranks_silent, shrunk, failed, controllers_killed,
		daemons_killed, standstills, daemons_terminated, ports_lost;
};
extern struct cluster_figures cluster_figures;

struct cluster {
	unsigned int hosts, n_groups;
	bool controller_dies, daemon_dies; /* in this run */
	/* In this run the process stands still for longer than the member's timeout. */
	bool controller_stalls, daemon_stalls;
	uint64_t resumes_at_ns;    /* and goes on then; 0: neither stalls */
	bool daemon_may_end;       /* by any incident of this run */
	bool port_goes;            /* and comes again */
	uint64_t terminated_at_ns; /* when the daemon received SIGTERM; 0: it has not */
	uint64_t down_ns;          /* from its end then until the next one starts */
	uint64_t faults_end_at_ns, calm_at_ns;
	struct cluster_group group[CLUSTER_GROUPS_MOST];
	struct {
		struct host host;
		struct wire up, down;
		struct cluster_port port;
	} host[CLUSTER_HOSTS_MOST];
	struct cluster_switch sw;
};
extern struct cluster cluster;

/* One run of the seed's, with its database in the working directory. */
void cluster_run(void);
/* The process of a rank. */
void cluster_rank_run(void *rank);
/* Fails where its call takes longer than any may. */
void cluster_rank_overdue(const struct cluster_rank *rank);

#endif
