/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A tree of switches, which in half of the seeds is a single switch, with some ranks below it. Each
 * rank has libinccl's communicator and soft endpoint, which are unchanged (hostlib/src). The seed
 * chooses the collectives and the faults. The simulation checks its rules at every frame that a
 * switch sends, and at the end.
 *
 * tree.c runs a seed, and other files have the parts of a run. The topology is in tree_plan.c, the
 * collectives and their results in tree_call.c, and a rank in tree_rank.c. A switch in termination
 * mode is in tree_term.c, and its death in tree_death.c. Changes of interfaces and MAC addresses
 * are in tree_move.c, and forged packets in tree_forge.c. The controller's answers are in
 * tree_control.c, and the rules for frames and reports in tree_check.c. Everything runs on one
 * thread.
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

/* Runs the scenario of trees with the seed that sim_begin() was given. */
void tree_run(void);

#define RANKS_MOST     6
#define INCIDENTS_MOST 4
#define SWITCHES_MOST  4
#define CALLS_MOST     12
#define PACKETS_MOST   64 /* packets of one call */
#define COMMS_MOST     2  /* communicators that a job has at the same time */
/* Number of sets of communicators that a job makes one after the other. Each death, and each long
 * stop, may end one set. */
#define ROUNDS_MOST (3 * INCIDENTS_MOST)

/* A collective that all ranks call. */
struct tree_call {
	enum inccl_collective what;
	int root;
	enum inccl_dtype dtype;
	enum inccl_op op;
	enum inccl_mode mode;
	/* number of elements in a block; a ReduceScatter and an AllGather have one block for each
	 * rank, other collectives one block */
	size_t count;
	size_t block_bytes;
	bool in_place;
	unsigned int float_block;
	/* scaled: all ranks use a known bound of the floats; special: some values are infinite or
	 * NaN */
	bool scaled, special;
	uint32_t known; /* mask of the blocks of `expected` that were computed */
	uint8_t *expected;
};

struct tree_rank {
	struct host host;
	struct tree_switch *at; /* the switch at the other end of the rank's cable */
	struct daemon_port port;
	struct wire up, down;
	unsigned int number;
	struct inccl_group *group;
	unsigned int round; /* number of the job's current set of communicators */
	struct inccl_communicator *comm[COMMS_MOST];
	struct inc_msg_ask asked;
	struct inc_conn_conf made[COMMS_MOST]; /* the switch's ends of the rank's connections */
	/* the rank's task while it waits for the controller or for other ranks */
	struct task *waits;
	struct {
		/* copy of the input, for the check that the call did not change it */
		uint8_t *given;
		uint8_t *send, *recv; /* buffers of the call; NULL if there is no data */
		/* allocated memory of send and recv; one piece if they are the same buffer */
		uint8_t *room[2];
		struct inccl_request *request;
	} call[CALLS_MOST];
};

struct inc_term_worker;
struct inc_term_comm;

/* A switch, and its cable to its parent. */
struct tree_switch {
	/* the data path and daemon; in termination mode only its process is used */
	struct daemon daemon;
	unsigned int number;
	enum inc_mode_of_switch mode;
	/* In termination mode: the engine's worker, its communicators, and the host network of each
	 * port. */
	struct inc_term_worker *worker;
	struct inc_term_comm *term_comm[COMMS_MOST];
	/* the life (struct tree_life) of each communicator in `comm` */
	unsigned int life[COMMS_MOST];
	struct host host[XDP_PORTS];
	bool killed; /* the daemon was killed and has not started again */
	/* dead: the process has died; silent: it is dying, and packets that it sends are lost */
	bool dead, silent;
	struct tree_switch *parent; /* the switch's parent; NULL: this switch is the root */
	struct daemon_port port;    /* the switch's port to its parent */
	struct daemon_port there;   /* the parent's port to this switch */
	struct wire up, down;
	uint32_t up_psn, down_psn; /* PSN of the first partial sum, and of the first result */
	/* the controller informs both ends of the cable of the other end's MAC address */
	bool macs_known;
	/* How often the MAC address of each port has changed, and how many of these changes the
	 * daemon has learned. */
	uint8_t moves[XDP_PORTS], followed[XDP_PORTS];
	/* Condition of each port (up, down or lost), and the time of its last loss. */
	enum inc_port_condition port_is[XDP_PORTS];
	uint64_t left_at_ns[XDP_PORTS];
	bool has_stranger; /* the last port has no member, and forged packets arrive by it */
	unsigned int n_comms;
	uint32_t comm[COMMS_MOST]; /* indices of the communicators in the switch */
};

/* A life is a communicator from its creation to its end; several exist at once. The state of a
 * switch in termination mode is lost with its daemon. All ranks then get an error, and make the
 * next communicator. */
struct tree_life {
	/* number of ranks that have called create, ready and destroy */
	unsigned int asked, ready, destroyed;
	bool made;

	uint32_t struck; /* mask of the switches whose death ended the communicator */
	uint64_t struck_at_ns, told_at_ns;
	char told[200]; /* error that the controller has reported to all ranks; empty: none */
};

struct tree {
	unsigned int n_ranks, n_switches, n_calls, ended;

	/* number of switches that have not removed the last communicator yet */
	unsigned int removing;
	/* number of communicators that exist at the same time; calls use them in turn */
	unsigned int n_comms;
	struct tree_life life[ROUNDS_MOST * COMMS_MOST];
	/* For each round: the number of ranks that have finished with its communicators, and
	 * whether one of these communicators has failed. */
	unsigned int finished[ROUNDS_MOST];
	bool failed[ROUNDS_MOST];
	enum inc_tree_mode mode;
	enum inc_float_form floats;
	/* values on which the controller and the ranks have agreed */
	uint32_t slots, message_packets, messages;
	unsigned int at_once; /* calls that a rank has under way at the same time */
	struct inccl_communicator_opts opts;
	uint64_t faults_end_at_ns;
	uint64_t quiet_at_ns; /* time from which there is no fault, and all switches run */
	/* The ranks' timeout is longer than all standstills and absences of interfaces, so no call
	 * may fail. */
	bool patient;
	bool forged;           /* a forger sends packets */
	bool loses_ports;      /* in this run interfaces of switches disappear */
	bool port_is_reported; /* a switch has reported the loss of a port */
	struct tree_call call[CALLS_MOST];
	struct tree_rank rank[RANKS_MOST];
	struct tree_switch sw[SWITCHES_MOST];
};
extern struct tree tree;

/* Draws the numbers of switches and ranks, and the parent of each switch, before anything that
 * depends on them. */
void tree_plan(void);
/* Makes switches, hosts and their cables. */
void tree_build(void);
/* The switch that owns the port. */
struct tree_switch *tree_switch_of(const struct daemon_port *port);
/* IP address (network order) and MAC address of a switch's port. */
uint32_t tree_port_addr(const struct daemon_port *port); /* the IP address in network order */
void tree_port_mac(const struct daemon_port *port, uint8_t mac[6]);
/* The number of slots that a communicator needs if all ranks may have `window` messages under
 * way. */
uint32_t tree_slots(uint32_t window);

/* Functions for a switch in termination mode: they start and stop its engine's worker, and add and
 * remove communicators. */
void tree_term_start(struct tree_switch *sw);
void tree_term_add(struct tree_switch *sw, unsigned int life, struct inc_comm_conf *conf);
void tree_term_remove(struct tree_switch *sw, unsigned int life);
void tree_term_stop(struct tree_switch *sw);
/* Reports the condition of the port to all communicators of the worker. */
void tree_term_look(struct tree_switch *sw, unsigned int port, const char *why);

/* Kills the daemon of a switch with all its connections, and restarts it at the given time. */
void tree_death(void *sw, uint64_t revive_at_ns);
/* Chooses which MAC addresses change in the run, and when. */
void tree_choose_moves(void);
/* The daemon of a switch reads its ports' MAC addresses. */
void tree_follow_macs(void *sw);
/* A frame arrives by the cable at a port (struct daemon_port). The port's network card accepts only
 * frames for its own MAC address. */
void tree_receive(void *port, const uint8_t *frame, size_t len);
/* Delivers a frame that the port's network card has accepted. */
void tree_take(const struct daemon_port *port, const uint8_t *frame, size_t len,
	       enum host_from from);
/* Chooses which interfaces of switches disappear in the run and return, and when. */
void tree_choose_losses(void);
/* The daemon reads the condition of all its ports. */
void tree_look_at_ports(struct tree_switch *sw);
/* Chooses how many packets are forged in the run, before the switches are made. */
void tree_forge_begin(void);
/* Lets the forger observe the frames on the cable at a port. */
void tree_forge_at(const struct daemon_port *port, struct wire *in, struct wire *out);
/* Checks that a switch in termination mode has counted all forged packets. It is called before the
 * switch loses a communicator. */
void tree_forge_check(const struct tree_switch *sw);
/* Checks whether a switch may send this report. */
void tree_check_notice(void *sw, enum inc_event_kind kind, const char *text);
/* Checks a frame that leaves a switch in passthrough mode. Its source address must be that of the
 * port, unless the daemon cannot have learned that address yet. */
void tree_check_source(const struct tree_switch *sw, unsigned int port, const uint8_t *frame);
/* The controller reports to all ranks of a communicator that it has failed, and why. */
void tree_report_failure(unsigned int life, const char *why);
/* Checks the error with which a rank's communicator has failed. It must have a reason, and come in
 * time. */
void tree_check_error(const struct tree_rank *rank, unsigned int life, const char *text,
		      uint64_t since_ns);
/* Checks that there is a reason for the first failure of a communicator, which this rank has
 * observed. */
void tree_check_reason(const struct tree_rank *rank, unsigned int life, const char *text);
/* tree_switches_are_there(): do all switches run, without an earlier communicator? If so,
 * tree_make_if_asked() makes the communicators that the ranks have requested. */
bool tree_switches_are_there(void);
void tree_make_if_asked(void);
/* Conversions from a communicator's number, or a switch's queue pair number, to the life. */
unsigned int tree_life_of(uint32_t communicator);
uint32_t tree_number_of(unsigned int life);
/* the life to which a queue pair number of a switch belongs */
unsigned int tree_life_of_qpn(uint32_t qpn);

/* The calls of a run, the ranks' data, and the memory for it. */
void tree_choose_calls(void);
void tree_choose_buffers(struct tree_rank *rank);
void tree_free_buffers(void);
/* Restores the buffers to their contents before the first call. */
void tree_renew_buffers(struct tree_rank *rank);
/* Lengths of the data that a rank contributes to a call, and receives from it. */
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
/* The life of the first of the rank's current communicators. The lives of the others follow it. */
static inline unsigned int tree_first_life(const struct tree_rank *rank)
{
	return rank->round * tree.n_comms;
}
/* Starts a call of a rank. It fails only if the communicator has failed. */
int tree_begin_call(struct tree_rank *rank, unsigned int call);

/* The main function of a rank's process. */
void tree_rank_run(void *rank);
/* Waits until all ranks have called this function. count: how many have called it; the last one
 * wakes the others. With may_fail, it also returns when the communicator has failed. */
void tree_meet(struct tree_rank *rank, unsigned int *count, const struct tree_life *may_fail);
/* Wakes all ranks that wait, so that they check their conditions again. */
void tree_wake_ranks(void);
/* Starts the checks of frames for a new run, in which no frame was sent yet. */
void tree_watch_begin(void);
/* Checks a frame that leaves the switch. */
void tree_watch(void *sw, unsigned int port, const uint8_t *frame, size_t len);
/* Computes the expected native sum of all ranks' floats. */
void tree_native_reduce(struct tree_call *call, unsigned int number);
/* Checks the result that a rank has received from this call. */
void tree_check_result(struct tree_rank *rank, unsigned int call);

#endif
