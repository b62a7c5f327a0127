/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A tree of switches, which is a single switch in half of the seeds. Below it are some ranks. Each
 * rank has libinccl's communicator and soft endpoint, which are unchanged (hostlib/src). The seed
 * chooses the collectives and the faults. The simulation checks its rules at every frame that a
 * switch sends, and at the end.
 *
 * A run is in tree.c, and the parts of a run are in other files. The topology is in tree_plan.c,
 * the collectives and their results in tree_call.c, and a rank in tree_rank.c. A switch in
 * termination mode is in tree_term.c, and its death in tree_death.c. Changes of interfaces and MAC
 * addresses are in tree_move.c, and forged packets in tree_forge.c. The controller's answers are in
 * tree_control.c, and the rules for frames and reports in tree_check.c. All of it is one thread.
 */
#ifndef SIM_TREE_PRIV_H
#define SIM_TREE_PRIV_H

#include <stdbool.h>
#include <stdint.h>
#include "daemon.h"
#include "host.h"
#include "hostlib/src/internal.h"
#include "userspace/call.h"
#include "userspace/engine.h"

/* Runs the seed that sim_begin() was given. */
void tree_run(void);

#define RANKS_MOST     6
#define INCIDENTS_MOST 4
#define SWITCHES_MOST  4
#define CALLS_MOST     12
#define PACKETS_MOST   64 /* packets of one call */
#define COMMS_MOST     2  /* at once */
/* The communicators that a job makes one after the other. Each death, and each long stop, may end
 * one. */
#define ROUNDS_MOST (3 * INCIDENTS_MOST)

/* A collective that all ranks call. */
struct tree_call {
	enum inccl_collective what;
	int root;
	enum inccl_dtype dtype;
	enum inccl_op op;
	enum inccl_mode mode;
	/* in a block: a ReduceScatter and an AllGather have one block for each rank, the others
	 * one block */
	size_t count;
	size_t block_bytes;
	bool in_place;
	unsigned int float_block;
	/* floats: all ranks use a known bound; some values are infinite or NaN */
	bool scaled, special;
	uint32_t known; /* a bit for each block of `expected` that was computed */
	uint8_t *expected;
};

struct tree_rank {
	struct host host;
	struct tree_switch *at; /* the switch at its cable */
	struct daemon_port port;
	struct wire up, down;
	unsigned int number;
	struct inccl_group *group;
	unsigned int round; /* counts the job's sets of communicators */
	struct inccl_communicator *comm[COMMS_MOST];
	struct inc_msg_ask asked;
	struct inc_conn_conf made[COMMS_MOST]; /* the switch's ends of its connections */
	/* waits for the controller, or for the end of the others */
	struct task *waits;
	struct {
		uint8_t *given;       /* copy of the input */
		uint8_t *send, *recv; /* NULL if there is no data */
		uint8_t *room[2];     /* memory of both; one piece if the call is in place */
		struct inccl_request *request;
	} call[CALLS_MOST];
};

struct inc_term_worker;
struct inc_term_comm;

/* A switch, and its cable to its parent. */
struct tree_switch {
	struct daemon daemon; /* in termination mode only its process is used */
	unsigned int number;
	enum inc_mode_of_switch mode;
	/* In termination mode: the engine's worker, its communicators, and the host network of each
	 * port. */
	struct inc_term_worker *worker;
	struct inc_term_comm *term_comm[COMMS_MOST];
	unsigned int life[COMMS_MOST]; /* the communicators' lives */
	struct host host[XDP_PORTS];
	bool killed;                /* true until it starts again */
	bool dead, silent;          /* silent: while it dies, packets that it sends are lost */
	struct tree_switch *parent; /* NULL: it is the root */
	struct daemon_port port;    /* the switch's own port at the cable, */
	struct daemon_port there;   /* and the parent's port */
	struct wire up, down;
	uint32_t up_psn, down_psn; /* PSN of the first partial sum, and of the first result */
	bool macs_known;           /* the controller gives both ends the other's MAC address */
	/* How often each port's MAC address has changed, and how many of these changes the daemon
	 * has learned. */
	uint8_t moves[XDP_PORTS], followed[XDP_PORTS];
	/* Each port's condition, and the time of its last loss. */
	enum inc_port_condition port_is[XDP_PORTS];
	uint64_t left_at_ns[XDP_PORTS];
	bool has_stranger; /* the last port has no member */
	unsigned int n_comms;
	uint32_t comm[COMMS_MOST]; /* the communicators' indices in the switch */
};

/* A life is a communicator from its creation to its end; several exist at once. The state of a
 * switch in termination mode is lost with its daemon. All ranks then get an error, and make the
 * next communicator. */
struct tree_life {
	unsigned int asked, ready, destroyed; /* number of ranks that have called the step */
	bool made;

	uint32_t struck; /* a bit for each switch that died with it */
	uint64_t struck_at_ns, told_at_ns;
	char told[200]; /* the controller's error to all ranks; empty: none */
};

struct tree {
	unsigned int n_ranks, n_switches, n_calls, ended;

	/* switches that have not received the removal of the last communicator yet */
	unsigned int removing;
	unsigned int n_comms; /* at once; calls use them in turn */
	struct tree_life life[ROUNDS_MOST * COMMS_MOST];
	/* Ranks that have finished with the communicators of a round, and whether a communicator
	 * has failed. */
	unsigned int finished[ROUNDS_MOST];
	bool failed[ROUNDS_MOST];
	enum inc_tree_mode mode;
	enum inc_float_form floats;
	uint32_t slots, message_packets, messages; /* as the controller has agreed on them */
	unsigned int at_once;                      /* calls under way */
	struct inccl_communicator_opts opts;
	uint64_t faults_end_at_ns;
	uint64_t quiet_at_ns; /* from then on there is no fault, and all switches run */
	/* The ranks' timeout is longer than all standstills and absences, so no call fails. */
	bool patient;
	bool forged;           /* a forger sends packets */
	bool loses_ports;      /* interfaces disappear */
	bool port_is_reported; /* the loss of a port was reported */
	struct tree_call call[CALLS_MOST];
	struct tree_rank rank[RANKS_MOST];
	struct tree_switch sw[SWITCHES_MOST];
};
extern struct tree tree;

/* Draws the numbers of switches and ranks, and their parents, before anything that depends on
 * them. */
void tree_plan(void);
/* Makes switches, hosts and their cables. */
void tree_build(void);
/* The switch that owns the port. */
struct tree_switch *tree_switch_of(const struct daemon_port *port);
/* IP address (network order) and MAC address of a switch's port. */
uint32_t tree_port_addr(const struct daemon_port *port); /* network order */
void tree_port_mac(const struct daemon_port *port, uint8_t mac[6]);
/* The slots that a communicator needs if all ranks may have `window` messages under way. */
uint32_t tree_slots(uint32_t window);

/* A switch in termination mode: starts and stops its engine's worker, and adds and removes
 * communicators. */
void tree_term_start(struct tree_switch *sw);
void tree_term_add(struct tree_switch *sw, unsigned int life, struct inc_comm_conf *conf);
void tree_term_remove(struct tree_switch *sw, unsigned int life);
void tree_term_stop(struct tree_switch *sw);
/* Reports the condition of the port to all its communicators. */
void tree_term_look(struct tree_switch *sw, unsigned int port, const char *why);

/* Kills the daemon with all its connections, and restarts it at this time. */
void tree_death(void *sw, uint64_t revive_at_ns);
/* Chooses MAC addresses that change in the run. */
void tree_choose_moves(void);
/* The daemon of a switch reads its ports' MAC addresses. */
void tree_follow_macs(void *sw);
/* A frame arrives by the cable at a port (struct daemon_port). The network card accepts only its
 * own MAC address. */
void tree_receive(void *port, const uint8_t *frame, size_t len);
/* A frame that the card has accepted. */
void tree_take(const struct daemon_port *port, const uint8_t *frame, size_t len,
	       enum host_from from);
/* Chooses interfaces of switches that disappear in the run, and return. */
void tree_choose_losses(void);
/* The daemon reads the state of all its ports. */
void tree_look_at_ports(struct tree_switch *sw);
/* Chooses how many packets are forged, before the switches are made. */
void tree_forge_begin(void);
/* The forger sees the frames on the cable at a port. */
void tree_forge_at(const struct daemon_port *port, struct wire *in, struct wire *out);
/* Checks that a switch in termination mode has counted all forged packets, before it loses a
 * communicator.
 */
void tree_forge_check(const struct tree_switch *sw);
/* Checks a report of a switch. */
void tree_check_notice(void *sw, enum inc_event_kind kind, const char *text);
/* A frame leaves a switch in passthrough mode. Its source address must be that of the port, unless
 * the daemon cannot have learned it yet. */
void tree_check_source(const struct tree_switch *sw, unsigned int port, const uint8_t *frame);
/* The controller reports to all ranks of a communicator that it has failed, and why. */
void tree_report_failure(unsigned int life, const char *why);
/* A rank's communicator has failed with this error, which must have a reason, and come in time. */
void tree_check_error(const struct tree_rank *rank, unsigned int life, const char *text,
		      uint64_t since_ns);
/* A rank is the first whose communicator has failed, so there must be a reason. */
void tree_check_reason(const struct tree_rank *rank, unsigned int life, const char *text);
/* tree_switches_are_there(): all switches run, and have no earlier communicator.
 * tree_make_if_asked() makes the communicators that the ranks have requested if that is so. */
bool tree_switches_are_there(void);
void tree_make_if_asked(void);
/* Conversions between a communicator's number and its life. */
unsigned int tree_life_of(uint32_t communicator);
uint32_t tree_number_of(unsigned int life);
unsigned int tree_life_of_qpn(uint32_t qpn); /* for the queue pair number of a switch */

/* The calls of a run, the ranks' data, and the memory for it. */
void tree_choose_calls(void);
void tree_choose_buffers(struct tree_rank *rank);
void tree_free_buffers(void);
/* Restores the buffers to their contents before the first call. */
void tree_renew_buffers(struct tree_rank *rank);
/* Lengths of what a rank gives and gets. */
size_t tree_send_bytes(const struct tree_call *call, unsigned int rank);
size_t tree_recv_bytes(const struct tree_call *call, unsigned int rank);
/* Does the call add, compare or multiply floats? */
bool tree_reduces_floats(const struct tree_call *call);
/* The communicator that a call uses. */
static inline struct inccl_communicator *tree_comm_of(const struct tree_rank *rank,
						      unsigned int call)
{
	return rank->comm[call % tree.n_comms];
}
/* The first life of the rank's current communicators; the others follow it. */
static inline unsigned int tree_first_life(const struct tree_rank *rank)
{
	return rank->round * tree.n_comms;
}
/* A rank starts a call, which fails only if the communicator has failed. */
int tree_begin_call(struct tree_rank *rank, unsigned int call);

/* The process of a rank. */
void tree_rank_run(void *rank);
/* Waits until all ranks have called this. count: how many have; the last one wakes the others. With
 * may_fail, also returns when that communicator has failed. */
void tree_meet(struct tree_rank *rank, unsigned int *count, const struct tree_life *may_fail);
/* Wakes all ranks that wait, so that they check their conditions. */
void tree_wake_ranks(void);
/* Starts the checks of frames, with nothing sent yet. */
void tree_watch_begin(void);
/* Checks a frame that leaves the switch. */
void tree_watch(void *sw, unsigned int port, const uint8_t *frame, size_t len);
/* Computes the expected native sum of all ranks' floats. */
void tree_native_reduce(struct tree_call *call, unsigned int number);
/* Checks a rank's result of this call. */
void tree_check_result(struct tree_rank *rank, unsigned int call);

#endif
