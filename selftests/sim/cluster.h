/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The scenario with a controller: hosts, one switch with its daemon, the controller. Groups are
 * made through the control plane, compute, lose ranks, shrink and compute again, while processes
 * are killed and stopped. A run is in cluster.c, its faults are in cluster_faults.c, and hostile
 * peers in cluster_hostile.c. A rank, and what must hold of it, is in cluster_rank.c. The
 * controller is in cluster_controller.c, and the switch in cluster_switch.c and cluster_kernel.c.
 */
#ifndef SIM_CLUSTER_H
#define SIM_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>
#include "cluster_switch.h"
#include "host.h"
#include "hostlib/include/inccl.h"

#define CLUSTER_CONTROLLER "10.77.255.1"
/* A member that is silent for so long is lost, by the controller's command line. */
#define CLUSTER_MEMBER_TIMEOUT_MS 3000
/* Likewise: a switch must answer a request within this time. */
#define CLUSTER_SWITCH_TIMEOUT_MS 5000

#define CLUSTER_HOSTS_MOST  4
#define CLUSTER_GROUPS_MOST 2
#define CLUSTER_ROUNDS_MOST 3
#define CLUSTER_CALLS_MOST  4
#define CLUSTER_MADE_MOST   32
#define CLUSTER_PAUSES_MOST 16

/* Files of keys in the working directory; cluster_switch.h has the switch's. */
#define CLUSTER_KEY_MEMBER  "key.member"
#define CLUSTER_KEY_HOSTILE "key.hostile"
#define CLUSTER_JOB_HOSTILE "other" /* the job of hostile peers */

/* Each kind of fault is drawn from the seed by a number of its own (rng_mix()). So the faults of a
 * seed remain the same when another kind is added. */
enum cluster_draw {
	DRAW_SILENCE = 0x51,
	DRAW_FAILING_START = 0x52,
	DRAW_STANDSTILL = 0x53,
	DRAW_TERMINATION = 0x54,
	DRAW_PORT = 0x55,
	DRAW_PAUSES = 0x56,
	DRAW_HOSTILE = 0x58,
	DRAW_KEYS = 0x59,
};

struct cluster_rank {
	struct process process;
	struct cluster_group *group;
	unsigned int number;
	bool formed;           /* it has come into its group */
	bool through;          /* it has ended by itself */
	uint64_t called_at_ns; /* the call that it is in; 0: it is in none */
	bool silenced;         /* stood still so long that it may be called silent, or was killed */
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
		daemons_killed, standstills, daemons_terminated, ports_lost, ports_lost_blind,
		hostile_peers, hostile_connections, with_keys;
};
extern struct cluster_figures cluster_figures;

struct cluster {
	unsigned int hosts, n_groups;
	bool tls;           /* all speak TLS, with keys */
	bool hostile;       /* there are hostile peers */
	bool metrics;       /* controller and daemon answer with their figures over HTTP */
	bool ranks_through; /* hostile peers end */
	bool controller_dies, daemon_dies; /* in this run */
	/* In this run the process stands still for so long that others may give it up. */
	bool controller_stalls, daemon_stalls;
	uint64_t daemon_stalls_ms; /* for so long */
	bool slowed;               /* something is paused or cut off for a short time */
	/* Pauses that have begun. The short ones of slowed are not among them. */
	struct cluster_pause {
		const struct process *process;
		uint64_t from_ns, until_ns;
	} pause[CLUSTER_PAUSES_MOST];
	unsigned int n_pauses;
	bool daemon_may_end; /* by any incident of this run */
	/* the interface of a port goes, and comes again */
	struct {
		bool goes, moves; /* in this run; it is not deleted, but moved */
		bool waits;       /* for the daemon's end or standstill */
		bool lost;        /* it went */
		bool unseen;      /* it was deleted, and no daemon saw how it came again */
		unsigned int number;
		uint64_t delay_ns, away_ns, back_at_ns;
	} port;
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
/* Draws from the seed what goes wrong in the run that begins (cluster_faults.c). */
void cluster_choose_faults(void);
/* Hostile peers (cluster_hostile.c). Draws from the seed whether there are any in this run. */
void cluster_hostile_open(void);
void cluster_hostile_start(void);
bool cluster_hostile_ended(void);
/* When the last of the pauses that are over ended; 0: none is over. */
uint64_t cluster_resumed_at_ns(void);
/* How long the process has stood still since then. */
uint64_t cluster_still_ns(const struct process *process, uint64_t since_ns);
/* The process of a rank. */
void cluster_rank_run(void *rank);
/* Fails where its call takes longer than any may. */
void cluster_rank_overdue(const struct cluster_rank *rank);

/*
 * --- cluster_controller.c: the controller as a process ---
 * Its main(), with a command line, on a real libevent and a real database in a directory. It can be
 * killed at any moment, also in the middle of a transaction, and started again from its database.
 */

struct controller {
	struct process process;
	bool running;
	bool ready;      /* the process has reported that it is ready */
	uint64_t killed; /* times */
	/* killed in the middle of a step of the database, with this chance of 1,000 */
	uint32_t dies_in_store;
	void (*died)(void);
};
extern struct controller controller;

/* A new run: an empty database in the working directory, and a topology of so many hosts. */
void controller_open(unsigned int hosts, bool tls, bool metrics);
void controller_start(void);
void controller_kill(void);
/* The daemon of the switch, which shares its libraries' memory here, is dead. */
void controller_switch_died(void);
/* SIGTERM. */
void controller_stop(void);
/* Numbers of a group of honest ranks and of a communicator of it, as far as there are any; else 1.
 */
void controller_numbers(uint32_t *group, uint32_t *communicator);
/* Descriptors and pieces of memory that it has more than when it was ready. */
int controller_descriptors(void);
long controller_pieces(void);
/* Groups that it knows, and whether it knows anything else that began. */
unsigned int controller_knows(void);
/* Rows of the database of a controller that has ended, but for the numbers given away. */
unsigned int controller_rows(void);

#endif
