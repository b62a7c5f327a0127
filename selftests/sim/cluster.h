/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The scenario with a controller: hosts, one switch with its daemon, and the controller. Ranks form
 * groups through the control plane, compute, lose ranks, shrink and compute again, while processes
 * are killed and stopped.
 *
 * cluster.c runs a seed, cluster_faults.c makes its faults, and cluster_hostile.c has hostile
 * peers. cluster_rank.c has a rank and the checks of its calls. The controller is in
 * cluster_controller.c, and the switch in cluster_switch.c and cluster_kernel.c.
 */
#ifndef SIM_CLUSTER_H
#define SIM_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>
#include "cluster_switch.h"
#include "host.h"
#include "hostlib/include/inccl.h"

#define CLUSTER_CONTROLLER "10.77.255.1"
/* The controller loses a member that is silent for this time. The controller's command line sets
 * the value. */
#define CLUSTER_MEMBER_TIMEOUT_MS 3000
/* The controller loses a switch that does not answer a request within this time. The controller's
 * command line sets the value. */
#define CLUSTER_SWITCH_TIMEOUT_MS 5000

#define CLUSTER_HOSTS_MOST  4
#define CLUSTER_GROUPS_MOST 2
#define CLUSTER_ROUNDS_MOST 3
#define CLUSTER_CALLS_MOST  4
#define CLUSTER_MADE_MOST   32
#define CLUSTER_PAUSES_MOST 16

/* Key files in the working directory. cluster_switch.h has the name of the switch's key file. */
#define CLUSTER_KEY_MEMBER  "key.member"
#define CLUSTER_KEY_HOSTILE "key.hostile"
#define CLUSTER_JOB_HOSTILE "other" /* name of the hostile peers' job */

/* Each kind of fault has its own random numbers, which follow from the seed and this number
 * (rng_mix()). So a new kind of fault does not change the other faults of a seed. */
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
	bool formed;           /* the rank has joined its group */
	bool through;          /* the rank's process has ended by itself */
	uint64_t called_at_ns; /* when the rank's current call began; 0: the rank is in no call */
	/* the rank was killed, or stood still so long that others may report it as silent */
	bool silenced;
};

/* A job, whose ranks are on the first hosts. */
struct cluster_group {
	char job[16];
	unsigned int n_ranks, rounds, calls;
	struct inccl_communicator_opts opts;
	/* time when the job's first rank died or fell silent; 0: all ranks are alive */
	uint64_t died_at_ns;
	bool killed; /* one of the job's ranks was killed */
	/* the groups that the job has formed, and how many members have joined each group */
	struct cluster_made {
		uint32_t number, members;
		/* number of members that have created the communicator of each round */
		uint32_t created[CLUSTER_ROUNDS_MOST];
	} made[CLUSTER_MADE_MOST];
	struct cluster_rank rank[CLUSTER_HOSTS_MOST];
};

/* How often each kind of event has happened in all runs. */
struct cluster_figures {
	uint64_t ranks_killed, hosts_off, ranks_silent, shrunk, failed, controllers_killed,
		daemons_killed, standstills, daemons_terminated, ports_lost, ports_lost_blind,
		hostile_peers, hostile_connections, with_keys;
};
extern struct cluster_figures cluster_figures;

struct cluster {
	unsigned int hosts, n_groups;
	bool tls;           /* all processes speak TLS, with keys */
	bool hostile;       /* this run has hostile peers */
	bool metrics;       /* controller and daemon serve metrics over HTTP */
	bool ranks_through; /* all ranks have ended, so hostile peers end, too */
	/* the controller, or the daemon, dies at some time in this run */
	bool controller_dies, daemon_dies;
	/* in this run the controller, or the daemon, stands still so long that others may consider
	 * it dead */
	bool controller_stalls, daemon_stalls;
	uint64_t daemon_stalls_ms; /* length of the daemon's standstill */
	/* in this run a process is paused, or a machine is cut off, for a short time */
	bool slowed;
	/* The pauses that have begun, except the short ones that `slowed` stands for. */
	struct cluster_pause {
		const struct process *process;
		uint64_t from_ns, until_ns;
	} pause[CLUSTER_PAUSES_MOST];
	unsigned int n_pauses;
	bool daemon_may_end; /* some incident of this run may end the daemon */
	/* the fault of this run in which the interface of a port disappears and returns */
	struct {
		/* goes: this fault happens in this run; moves: the interface is moved to another
		 * namespace, not deleted */
		bool goes, moves;
		bool waits;  /* the fault waits until the daemon ends or stands still */
		bool lost;   /* the interface has disappeared */
		bool unseen; /* the interface was deleted, and no daemon observed its return */
		unsigned int number;
		uint64_t delay_ns, away_ns, back_at_ns;
	} port;
	uint64_t terminated_at_ns; /* when the daemon received SIGTERM; 0: it received none */
	uint64_t down_ns;          /* time from the daemon's end until the next daemon starts */
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
/* Draws the faults of this run from the seed (cluster_faults.c). */
void cluster_choose_faults(void);
/* Hostile peers (cluster_hostile.c). cluster_hostile_open() draws from the seed whether this run
 * has any. */
void cluster_hostile_open(void);
void cluster_hostile_start(void);
bool cluster_hostile_ended(void);
/* The end of the last pause that is over; 0: no pause is over. */
uint64_t cluster_resumed_at_ns(void);
/* How long the process has stood still since the time since_ns. */
uint64_t cluster_still_ns(const struct process *process, uint64_t since_ns);
/* The main function of a rank's process. */
void cluster_rank_run(void *rank);
/* Fails the run if the rank's call lasts longer than any call may. */
void cluster_rank_overdue(const struct cluster_rank *rank);

/*
 * --- cluster_controller.c: the controller as a process ---
 *
 * The process runs the controller's main() with a command line, a real libevent, and a real
 * database in a directory. The process can be killed at any moment, also in the middle of a
 * transaction, and be restarted with its database.
 */

struct controller {
	struct process process;
	bool running;
	bool ready;      /* the process has reported that it is ready */
	uint64_t killed; /* how often the controller was killed */
	/* chance in 1,000 that the controller is killed at a step of its database */
	uint32_t dies_in_store;
	void (*died)(void);
};
extern struct controller controller;

/* Starts a new run: an empty database in the working directory, and a topology with this number of
 * hosts. */
void controller_open(unsigned int hosts, bool tls, bool metrics);
void controller_start(void);
void controller_kill(void);
/* Called when the switch's daemon has died, which shares static variables with the controller
 * here. */
void controller_switch_died(void);
/* Sends SIGTERM to the controller. */
void controller_stop(void);
/* Returns the numbers of a group of honest ranks and of a communicator of that group, or 1 if there
 * is none.
 */
void controller_numbers(uint32_t *group, uint32_t *communicator);
/* How many more descriptors and pieces of memory the controller has than when it became ready. */
int controller_descriptors(void);
long controller_pieces(void);
/* The number of the controller's groups, derivations and orphans. */
unsigned int controller_objects(void);
/* Rows in the database of a controller that has ended. Rows of numbers that were given away do not
 * count. */
unsigned int controller_rows(void);

#endif
