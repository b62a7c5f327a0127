/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The scenario with a controller: hosts, a tree of switches with their daemons, and the controller.
 * Ranks form groups through the control plane, compute, lose ranks, shrink and compute again, while
 * processes are killed and stopped. Other jobs have a fallback, and their calls never fail.
 *
 * cluster.c runs a seed, cluster_tree.c makes its topology, cluster_faults.c makes its faults, and
 * cluster_hostile.c has hostile peers. A rank and the checks of its calls are in cluster_rank.c,
 * and the calls of a job with a fallback in cluster_fallback.c. The controller is in
 * cluster_controller.c, and a switch in cluster_switch.c and cluster_kernel.c.
 */
#ifndef SIM_CLUSTER_H
#define SIM_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "cluster_switch.h"
#include "collective.h"
#include "hostlib/include/inccl.h"
#include "network.h"
#include "scenario.h"

#define CLUSTER_CONTROLLER "10.77.255.1"
/* The controller loses a member that is silent for this time. The controller's command line sets
 * the value. In patient runs it is longer than any standstill. */
#define CLUSTER_MEMBER_TIMEOUT_MS  3000
#define CLUSTER_MEMBER_PATIENCE_MS 100000
/* The controller waits for the ranks of a group, and of a communicator, for this time, which is the
 * default of its command line. */
#define CLUSTER_GROUP_TIMEOUT_MS 60000
/* The controller loses a switch that does not answer a request within this time. The controller's
 * command line sets the value. */
#define CLUSTER_SWITCH_TIMEOUT_MS 5000

#define CLUSTER_HOSTS_MOST  6
#define CLUSTER_GROUPS_MOST 2
#define CLUSTER_ROUNDS_MOST 3
#define CLUSTER_CALLS_MOST  4
#define CLUSTER_MADE_MOST   32
/* communicators that a group has at the same time */
#define CLUSTER_COMMS_AT_ONCE 2
#define CLUSTER_CHANNELS_MOST 3 /* of a communicator */
#define CLUSTER_PAUSES_MOST   32
#define CLUSTER_HOSTILE_MOST  3

/* Key files in the working directory. */
#define CLUSTER_KEY_MEMBER  "key.member"
#define CLUSTER_KEY_HOSTILE "key.hostile"
#define CLUSTER_JOB_HOSTILE "other" /* name of the hostile peers' job */

struct cluster_rank {
	struct process process;
	struct cluster_group *group;
	unsigned int number;
	bool formed;           /* the rank has joined its group */
	bool through;          /* the rank's process has ended by itself */
	uint64_t called_at_ns; /* when the rank's current call began; 0: the rank is in no call */
	/* the rank was killed, or stood still so long that others may report it as silent */
	bool silenced;
	bool all_have_it; /* every rank of the group has created its communicators */
	bool connects;    /* the rank's current call connects to the controller */
	bool collects;    /* the rank's current call waits for the result of a collective */
	/* when the library has logged, during this call, that a communicator has failed; 0: it has
	 * not */
	uint64_t failed_at_ns;
	char error[256]; /* text of the last error */
};

/* A job, whose ranks are on the first hosts. */
struct cluster_group {
	char job[16];
	unsigned int n_ranks, rounds, calls;
	unsigned int comms;   /* communicators that the group has at the same time */
	unsigned int at_once; /* calls that a rank has under way at the same time */
	bool falls_back;      /* its calls end without the switch if need be */
	struct inccl_communicator_opts opts;
	/* time when the job's first rank died or fell silent; 0: all ranks are alive */
	uint64_t died_at_ns;
	bool killed; /* one of the job's ranks was killed */
	/* the groups that the job has formed, and how many members have joined each group */
	struct cluster_made {
		uint32_t number, members;
		/* mask of the members that have created the communicators of each round */
		uint32_t created[CLUSTER_ROUNDS_MOST];
		/* The trees of these communicators, as the controller has them. has_tree: mask of
		 * those that are known. */
		struct collective_tree tree[CLUSTER_ROUNDS_MOST][CLUSTER_COMMS_AT_ONCE];
		uint32_t has_tree[CLUSTER_ROUNDS_MOST];
		/* their channels on the first rank that has created them; 0: none has */
		unsigned int channels[CLUSTER_ROUNDS_MOST][CLUSTER_COMMS_AT_ONCE];
		/* checksum of the first rank's sums of floats; 0: there is none yet */
		uint64_t sum[CLUSTER_ROUNDS_MOST * CLUSTER_CALLS_MOST];
	} made[CLUSTER_MADE_MOST];
	struct cluster_rank rank[CLUSTER_HOSTS_MOST];
};

/* How often each kind of event has happened in all runs. */
struct cluster_figures {
	uint64_t ranks_killed, hosts_off, ranks_silent, shrunk, failed, controllers_killed,
		daemons_killed, standstills, daemons_terminated, ports_lost, ports_lost_blind,
		ports_lost_long, hostile_peers, hostile_connections, with_keys, trees, terminating,
		struck, patient, devices, devices_broken, wide, waits_reported;
	/* of jobs that fall back: ranks that lost the switch, calls that a rank repeated, and calls
	 * in which a rank lost the switch but had its result, or got it from another rank */
	uint64_t switch_lost, calls_repeated, results_of_others;
};
extern struct cluster_figures cluster_figures;

struct cluster {
	unsigned int hosts, n_groups, n_switches;
	bool tls;              /* all processes speak TLS, with keys */
	unsigned int hostiles; /* number of hostile peers */
	bool forged;           /* a forger sends packets to the switches */
	bool patient;          /* the controller waits for any standstill of a member */
	uint64_t member_timeout_ms;
	bool metrics;       /* controller and daemon serve metrics over HTTP */
	bool ranks_through; /* all ranks have ended, so hostile peers end, too */
	/* hosts have RDMA devices; a device has failed; it has done so without an event */
	bool rdma_hosts, rdma_broken, rdma_silent;
	/* the controller, or a daemon, dies at some time in this run */
	bool controller_dies, daemon_dies;
	/* a daemon in termination mode has died, and its communicators with it */
	bool struck;
	bool vanished; /* a host was switched off */
	/* in this run the controller, or a daemon, stands still so long that others may consider it
	 * dead */
	bool controller_stalls, daemon_stalls;
	uint64_t daemon_stalls_ms; /* length of the longest standstill of a daemon */
	/* in this run a process is paused, or a machine is cut off, for a short time */
	bool slowed;
	/* The pauses that have begun, except the short ones that `slowed` stands for. */
	struct cluster_pause {
		const struct process *process;
		uint64_t from_ns, until_ns;
	} pause[CLUSTER_PAUSES_MOST];
	unsigned int n_pauses;
	/* the fault of this run in which the interface of a port disappears and returns */
	struct {
		/* goes: this fault happens in this run; moves: the interface is moved to another
		 * namespace, not deleted; down: it is only down */
		bool goes, moves, down;
		/* the interface is away for so long that communicators end because of it */
		bool ends;
		bool waits;  /* the fault waits until the daemon ends or stands still */
		bool lost;   /* the interface has disappeared */
		bool unseen; /* the interface was deleted, and no daemon observed its return */
		struct cluster_switch *sw;
		unsigned int number;
		uint64_t delay_ns, away_ns, lost_at_ns, back_at_ns;
	} port;
	uint64_t terminated_at_ns; /* when a daemon received SIGTERM; 0: none received it */
	uint64_t down_ns;          /* time from that daemon's end until the next daemon starts */
	uint64_t faults_end_at_ns;
	uint64_t faults_at_packets; /* number of faults that have happened before a packet */
	/* quiet: the last fault of the scenario is over; calm: what remains must be gone */
	uint64_t quiet_at_ns, calm_at_ns;
	struct cluster_group group[CLUSTER_GROUPS_MOST];
	struct {
		struct host host;
		struct wire up, down;
		struct cluster_port *port; /* the port of the switch to which it is attached */
		bool rdma;                 /* it has an RDMA device */
	} host[CLUSTER_HOSTS_MOST];
	struct cluster_switch sw[CLUSTER_SWITCHES_MOST]; /* the first one is the root */
};
extern struct cluster cluster;

/* cluster_tree.c: adds a switch, a host or a property of one to the run, as a line of the scenario
 * says. Returns NULL, or what is wrong with the line. */
const char *cluster_add_line(const struct scenario_line *l);
/* Makes the switches, the hosts and their cables. */
void cluster_build(void);
/* The cable between the two ends of a value %C, in this direction; NULL: there is none. */
struct wire *cluster_cable(uint64_t ends);
/* Sets delay and faults of a cable, as a line of the scenario says. */
const char *cluster_set_cable(const struct scenario_line *l);
/* The network at the other end of the cable; NULL: it is not simulated. */
struct host *cluster_peer_of(const struct host *host);
/* Writes the topology as the controller reads it. */
void cluster_write_topology(FILE *f);
/* The switch of this process; NULL: the process is no switch. */
struct cluster_switch *cluster_switch_of(const struct process *process);

/* One run of cluster_scenario, with its database in the working directory. */
void cluster_run(void);
extern struct scenario cluster_scenario;
/* Checks whether the scenario can run. Returns 0, or -EINVAL with an error that names the line. */
int cluster_check(const struct scenario *s, struct inc_err *err);
/* Starts the faults of the scenario (cluster_faults.c). */
void cluster_start_faults(const struct scenario *s);
/* Packets count from now on, for the faults that happen before a certain one. */
void cluster_packets_count(void);
/* A host, or a port of a switch, gets another MAC address at this time. */
void cluster_move_host(uint64_t at_ns, unsigned int host);
void cluster_move_port(uint64_t at_ns, struct cluster_switch *sw, unsigned int port);
/* A forger (cluster_forge.c). The first function starts a run, and the second lets the forger
 * observe the frames on the cable at a port. */
void cluster_forge_begin(void);
void cluster_forge_at(struct cluster_port *port, struct wire *in, struct wire *out);
/* The port with this network; NULL: the network is that of a host. */
struct cluster_port *cluster_port_of(const struct host *host);
/* Hostile peers (cluster_hostile.c). */
void cluster_hostile_start(void);
bool cluster_hostile_ended(void);
/* The end of the last pause that is over; 0: no pause is over. */
uint64_t cluster_resumed_at_ns(void);
/* How long the process has stood still since the time since_ns. */
uint64_t cluster_still_ns(const struct process *process, uint64_t since_ns);
/* The main function of a rank's process. */
void cluster_rank_run(void *rank);
/* cluster_fallback.c: makes the calls of a job that falls back, on this communicator, which ends
 * with them. Each call must end with the right result. The first function is called before a
 * run. */
void cluster_fallback_begin(void);
void cluster_fallback_run(struct cluster_rank *rank, struct inccl_communicator *comm);
/* cluster_reason.c: a call of the rank begins, and ends with this result. The call must end in
 * time, and an error must have a reason. Returns the result. */
void cluster_call_begins(struct cluster_rank *rank, const char *what);
int cluster_call_ended(struct cluster_rank *rank, const char *what, int ret);
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

/* Starts a new run: an empty database and the topology in the working directory. */
void controller_open(void);
/* The key file of the switch with this number. */
const char *controller_key(unsigned int sw);
void controller_start(void);
void controller_kill(void);
/* Called when the daemon of a switch has died, which shares static variables with the controller
 * here. */
void controller_switch_died(const struct cluster_switch *sw);
/* Sends SIGTERM to the controller. */
void controller_stop(void);
/* Returns the numbers of a group of honest ranks and of a communicator of that group, or 1 if there
 * is none.
 */
void controller_numbers(uint32_t *group, uint32_t *communicator);
/* Reads the tree of the communicator with this number. Returns false if the controller does not run
 * or lacks the communicator. */
bool controller_tree(uint32_t communicator, struct collective_tree *out);
/* How many more descriptors and pieces of memory the controller has than when it became ready. */
int controller_descriptors(void);
long controller_pieces(void);
/* The number of the controller's groups, derivations and orphans. */
unsigned int controller_objects(void);
/* Rows in the database of a controller that has ended. Rows of numbers that were given away do not
 * count. */
unsigned int controller_rows(void);

/*
 * database.c: the disk and the memory of the controller's database. A VFS of SQLite has the files
 * in memory, which outlive a controller that is killed. The controller is killed at writes,
 * truncations and syncs, with the chance that the scenario names. SQLite's memory belongs to the
 * process that runs, so it ends with a process that is killed.
 */

/* Called once in a program, before SQLite is used. */
void database_open(void);
/* Called before a run. Empties the disk. */
void database_begin(void);

#endif
