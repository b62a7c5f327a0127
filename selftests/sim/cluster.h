/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The scenario with a controller: hosts, one switch with its daemon, and the controller. Ranks make
 * groups through the control plane, compute, lose ranks, shrink and compute again, while processes
 * are killed and stopped.
 *
 * cluster.c has a run, cluster_faults.c its faults, and cluster_hostile.c hostile peers.
 * cluster_rank.c has a rank and the checks of its calls. The controller is in cluster_controller.c,
 * and the switch in cluster_switch.c and cluster_kernel.c.
 */
#ifndef SIM_CLUSTER_H
#define SIM_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>
#include "cluster_switch.h"
#include "host.h"
#include "hostlib/include/inccl.h"

#define CLUSTER_CONTROLLER "10.77.255.1"
/* The controller's command line sets this: a member that is silent for so long is lost. */
#define CLUSTER_MEMBER_TIMEOUT_MS 3000
/* Likewise: a switch must answer a request within this time. */
#define CLUSTER_SWITCH_TIMEOUT_MS 5000

#define CLUSTER_HOSTS_MOST  4
#define CLUSTER_GROUPS_MOST 2
#define CLUSTER_ROUNDS_MOST 3
#define CLUSTER_CALLS_MOST  4
#define CLUSTER_MADE_MOST   32
#define CLUSTER_PAUSES_MOST 16

/* Key files in the working directory; cluster_switch.h has the switch's. */
#define CLUSTER_KEY_MEMBER  "key.member"
#define CLUSTER_KEY_HOSTILE "key.hostile"
#define CLUSTER_JOB_HOSTILE "other" /* the job of hostile peers */

/* Each kind of fault has random numbers of its own, from the seed and this number (rng_mix()). So
 * the faults of a seed remain the same when another kind is added. */
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
	bool formed;           /* it has joined its group */
	bool through;          /* its process has ended by itself */
	uint64_t called_at_ns; /* when its current call began; 0: it is in no call */
	/* it was killed, or stood still so long that others may call it silent */
	bool silenced;
};

/* A job: its ranks are on the first hosts. */
struct cluster_group {
	char job[16];
	unsigned int n_ranks, rounds, calls;
	struct inccl_communicator_opts opts;
	uint64_t died_at_ns; /* when its first rank died or fell silent; 0: none has */
	bool killed;         /* one of its ranks was killed */
	/* the groups that were made, and how many members have joined each */
	struct cluster_made {
		uint32_t number, members;
		/* members that have the communicator of a round */
		uint32_t created[CLUSTER_ROUNDS_MOST];
	} made[CLUSTER_MADE_MOST];
	struct cluster_rank rank[CLUSTER_HOSTS_MOST];
};

/* How often each kind of event has happened, in all runs. */
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
	bool controller_dies, daemon_dies; /* at some time in this run */
	/* in this run the process stands still for so long that others may consider it dead */
	bool controller_stalls, daemon_stalls;
	uint64_t daemon_stalls_ms; /* how long the daemon stands still */
	bool slowed;               /* a process is paused, or a machine cut off, for a short time */
	/* Pauses that have begun, without the short ones of `slowed`. */
	struct cluster_pause {
		const struct process *process;
		uint64_t from_ns, until_ns;
	} pause[CLUSTER_PAUSES_MOST];
	unsigned int n_pauses;
	bool daemon_may_end; /* some incident of this run may end the daemon */
	/* the interface of a port disappears and returns */
	struct {
		bool goes, moves; /* goes: in this run; moves: it is moved, not deleted */
		bool waits;       /* until the daemon ends or stands still */
		bool lost;        /* it has disappeared */
		bool unseen;      /* it was deleted, and no daemon observed its return */
		unsigned int number;
		uint64_t delay_ns, away_ns, back_at_ns;
	} port;
	uint64_t terminated_at_ns; /* when the daemon received SIGTERM; 0: it has not */
	uint64_t down_ns;          /* from the daemon's end until the next one starts */
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

/* One run of the seed, with its database in the working directory. */
void cluster_run(void);
/* Draws the faults of the run that begins from the seed (cluster_faults.c). */
void cluster_choose_faults(void);
/* Hostile peers (cluster_hostile.c). Draws from the seed whether there are any in this run. */
void cluster_hostile_open(void);
void cluster_hostile_start(void);
bool cluster_hostile_ended(void);
/* When the last of the pauses that are over ended; 0: none is over. */
uint64_t cluster_resumed_at_ns(void);
/* How long the process has stood still since since_ns. */
uint64_t cluster_still_ns(const struct process *process, uint64_t since_ns);
/* The process of a rank. */
void cluster_rank_run(void *rank);
/* Fails the run if the rank's call lasts longer than any call may. */
void cluster_rank_overdue(const struct cluster_rank *rank);

/*
 * --- cluster_controller.c: the controller as a process ---
 *
 * This is its main(), with a command line, a real libevent, and a real database in a directory. It
 * can be killed at any moment, also in the middle of a transaction, and restarted with its
 * database.
 */

struct controller {
	struct process process;
	bool running;
	bool ready;      /* the process has reported that it is ready */
	uint64_t killed; /* how often */
	/* chance in 1,000 to be killed at a step of the database */
	uint32_t dies_in_store;
	void (*died)(void);
};
extern struct controller controller;

/* Starts a new run: an empty database in the working directory, and a topology with this number of
 * hosts. */
void controller_open(unsigned int hosts, bool tls, bool metrics);
void controller_start(void);
void controller_kill(void);
/* The switch's daemon, which uses the same static variables here, has died. */
void controller_switch_died(void);
/* Sends SIGTERM. */
void controller_stop(void);
/* Returns the numbers of a group of honest ranks and of a communicator of that group, or 1 if there
 * is none.
 */
void controller_numbers(uint32_t *group, uint32_t *communicator);
/* How many more descriptors and pieces of memory it has than when it became ready. */
int controller_descriptors(void);
long controller_pieces(void);
/* The number of its groups, derivations and orphans. */
unsigned int controller_objects(void);
/* Rows in the database of a controller that has ended, without those of numbers that were given
 * away. */
unsigned int controller_rows(void);

#endif
