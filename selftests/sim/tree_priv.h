/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A tree of switches, which is a single switch in half of the seeds. Below it are some ranks. Each
 * rank has libinccl's communicator and soft endpoint, which are unchanged (hostlib/src). The seed
 * chooses the collectives and the faults. The simulation checks its rules at every frame that a
 * switch sends, and at the end.
 *
 * tree.c is a run. tree_plan.c has the topology, tree_call.c the collectives and their results, and
 * tree_rank.c a rank. tree_term.c is a switch in termination mode, and tree_death.c its death.
 * tree_move.c changes interfaces and MAC addresses, and tree_forge.c sends packets to wrong ports.
 * tree_control.c has the controller's answers, and tree_check.c the rules for frames and reports.
 * One thread, as all of the simulation.
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

/* One run, whose seed sim_begin() has been told. */
void tree_run(void);

#define RANKS_MOST     6
#define INCIDENTS_MOST 4
#define SWITCHES_MOST  4
#define CALLS_MOST     12
#define PACKETS_MOST   64 /* of a call */
#define COMMS_MOST     2  /* at once */
/* Communicators of a job one after the other. Each death, and each long stop, may end one. */
#define ROUNDS_MOST (3 * INCIDENTS_MOST)

/* A collective that all ranks call. */
struct tree_call {
	enum inccl_collective what;
	int root;
	enum inccl_dtype dtype;
	enum inccl_op op;
	enum inccl_mode mode;
	size_t count;       /* of a block, of which a ReduceScatter and an AllGather have one */
	size_t block_bytes; /* for each rank; the others have one in all */
	bool in_place;
	unsigned int float_block;
	bool scaled, special; /* floats: all ranks know a bound; some are infinite or NaN */
	uint32_t known;       /* a bit for each block of expected that is there */
	uint8_t *expected;
};

struct tree_rank {
	struct host host;
	struct tree_switch *at; /* where its cable goes to */
	struct daemon_port port;
	struct wire up, down;
	unsigned int number;
	struct inccl_group *group;
	unsigned int round; /* counts from the first communicators on */
	struct inccl_communicator *comm[COMMS_MOST];
	struct inc_msg_ask asked;
	struct inc_conn_conf made[COMMS_MOST]; /* the switch's ends of its connections */
	struct task *waits;                    /* for the controller, or for the others' end */
	struct {
		uint8_t *given;       /* as it was */
		uint8_t *send, *recv; /* NULL where there is nothing */
		uint8_t *room[2];     /* where both are; one where it is in place */
		struct inccl_request *request;
	} call[CALLS_MOST];
};

struct inc_term_worker;
struct inc_term_comm;

/* A switch, and its cable to its parent. */
struct tree_switch {
	struct daemon daemon; /* in termination mode its process alone */
	unsigned int number;
	enum inc_mode_of_switch mode;
	/* Of termination mode: the engine's worker, its communicators, and what each port is to
	 * its sockets. */
	struct inc_term_worker *worker;
	struct inc_term_comm *term_comm[COMMS_MOST];
	unsigned int life[COMMS_MOST]; /* of those */
	struct host host[XDP_PORTS];
	bool killed;       /* from then until it starts anew */
	bool dead, silent; /* silent: in its last moments, when nothing leaves it any more */
	struct tree_switch *parent; /* NULL: it is the root */
	struct daemon_port port;    /* of its own, where the cable is, */
	struct daemon_port there;   /* and of its parent's */
	struct wire up, down;
	uint32_t up_psn, down_psn; /* of the first partial sum, of the first result */
	bool macs_known;           /* the controller tells both where the other is */
	/* How often each port's MAC address has changed, and how often its daemon knows that it
	 * has. */
	uint8_t moves[XDP_PORTS], followed[XDP_PORTS];
	/* Each port's interface, and the time of its last loss. */
	enum inc_port_condition port_is[XDP_PORTS];
	uint64_t left_at_ns[XDP_PORTS];
	bool has_stranger; /* the peer behind its last port is no member */
	unsigned int n_comms;
	uint32_t comm[COMMS_MOST]; /* their indices in the switch */
};

/* A communicator's life, of which several go on at once. What a switch in termination mode knows of
 * it dies with its daemon: all ranks then have an error, and make the next one. */
struct tree_life {
	unsigned int asked, ready, destroyed; /* ranks that have come so far */
	bool made;

	uint32_t struck; /* a bit for each switch that has died with it */
	uint64_t struck_at_ns, told_at_ns;
	char told[200]; /* the controller to all ranks; empty: nothing */
};

struct tree {
	unsigned int n_ranks, n_switches, n_calls, ended;

	unsigned int removing; /* switches that have not been told yet of the last one's end */
	unsigned int n_comms;  /* at once; calls go by them in turn */
	struct tree_life life[ROUNDS_MOST * COMMS_MOST];
	/* Ranks that are through with the communicators of a round; whether one has failed. */
	unsigned int finished[ROUNDS_MOST];
	bool failed[ROUNDS_MOST];
	enum inc_tree_mode mode;
	enum inc_float_form floats;
	uint32_t slots, message_packets, messages; /* as the controller has them */
	unsigned int at_once;                      /* calls under way */
	struct inccl_communicator_opts opts;
	uint64_t faults_end_at_ns;
	uint64_t quiet_at_ns; /* from then on no fault happens and all switches are there */
	/* The ranks' timeout is longer than all standstills and absences, so no call fails. */
	bool patient;
	bool forged;       /* a forger sends packets */
	bool loses_ports;  /* interfaces disappear */
	bool port_is_told; /* the loss of one has been reported */
	struct tree_call call[CALLS_MOST];
	struct tree_rank rank[RANKS_MOST];
	struct tree_switch sw[SWITCHES_MOST];
};
extern struct tree tree;

/* How many switches and ranks, and who hangs below whom; before anything is drawn that depends on
 * their numbers. */
void tree_plan(void);
/* Switches and hosts with their cables. */
void tree_build(void);
/* Whose port it is. */
struct tree_switch *tree_switch_of(const struct daemon_port *port);
/* Where a switch's port is: its addresses. */
uint32_t tree_port_addr(const struct daemon_port *port); /* network order */
void tree_port_mac(const struct daemon_port *port, uint8_t mac[6]);
/* Slots that the communicator needs, when all ranks may have so many messages under way. */
uint32_t tree_slots(uint32_t window);

/* A switch in termination mode: its engine's worker, from whose thread's first turn to its end. */
void tree_term_start(struct tree_switch *sw);
void tree_term_add(struct tree_switch *sw, unsigned int life, struct inc_comm_conf *conf);
void tree_term_remove(struct tree_switch *sw, unsigned int life);
void tree_term_stop(struct tree_switch *sw);
/* Reports the condition of the port to all its communicators. */
void tree_term_look(struct tree_switch *sw, unsigned int port, const char *why);

/* Its daemon is killed with all its connections, and started anew at this time. */
void tree_death(void *sw, uint64_t revive_at_ns);
/* MAC addresses that change in the run. */
void tree_choose_moves(void);
/* The daemon of a switch looks at its ports' MAC addresses. */
void tree_follow_macs(void *sw);
/* A frame from the cable at a port (struct daemon_port), whose card accepts its own MAC address. */
void tree_receive(void *port, const uint8_t *frame, size_t len);
/* A frame that the card has accepted. */
void tree_take(const struct daemon_port *port, const uint8_t *frame, size_t len,
	       enum host_from from);
/* Chooses interfaces of switches that disappear in the run, and return. */
void tree_choose_losses(void);
/* The daemon looks at all its ports. */
void tree_look_at_ports(struct tree_switch *sw);
/* Chooses how many packets are forged, before the switches are made. */
void tree_forge_begin(void);
/* The forger sees the frames on the cable at a port. */
void tree_forge_at(const struct daemon_port *port, struct wire *in, struct wire *out);
/* Checks that a switch in termination mode has counted forged packets, before it loses a
 * communicator.
 */
void tree_forge_check(const struct tree_switch *sw);
/* Checks a report of a switch. */
void tree_check_notice(void *sw, const char *event, const char *text);
/* A frame leaves a switch in passthrough mode from the address that its port has, as far as the
 * daemon can know. */
void tree_check_source(const struct tree_switch *sw, unsigned int port, const uint8_t *frame);
/* The controller tells all ranks of a communicator that it has failed, and why. */
void tree_tell(unsigned int life, const char *why);
/* An error that the rank has of its communicator: there must be a reason, in time. */
void tree_check_error(const struct tree_rank *rank, unsigned int life, const char *text,
		      uint64_t since_ns);
/* A rank's communicator has failed there first, so there must be a reason. */
void tree_check_reason(const struct tree_rank *rank, unsigned int life, const char *text);
/* All of them are there, without an earlier communicator: what ranks ask for can be made. */
bool tree_switches_are_there(void);
void tree_make_if_asked(void);
/* Which of a run's communicators has this number. */
unsigned int tree_life_of(uint32_t communicator);
uint32_t tree_number_of(unsigned int life);
unsigned int tree_life_of_qpn(uint32_t qpn); /* of a switch's end */

/* The calls of a run, what the ranks give, and the memory for it. */
void tree_choose_calls(void);
void tree_choose_buffers(struct tree_rank *rank);
void tree_free_buffers(void);
/* All are as before the first call. */
void tree_renew_buffers(struct tree_rank *rank);
/* What a rank gives and gets, bytes. */
size_t tree_send_bytes(const struct tree_call *call, unsigned int rank);
size_t tree_recv_bytes(const struct tree_call *call, unsigned int rank);
/* Are floats added up, compared or multiplied? */
bool tree_reduces_floats(const struct tree_call *call);
/* The communicator by which a call goes. */
static inline struct inccl_communicator *tree_comm_of(const struct tree_rank *rank,
						      unsigned int call)
{
	return rank->comm[call % tree.n_comms];
}
/* The rank's communicators are this life's and the next ones'. */
static inline unsigned int tree_first_life(const struct tree_rank *rank)
{
	return rank->round * tree.n_comms;
}
/* A rank begins a call. Only where its communicator has failed it cannot. */
int tree_begin_call(struct tree_rank *rank, unsigned int call);

/* The process of a rank. */
void tree_rank_run(void *rank);
/* Waits until all ranks have come here; count: how many have. The last one wakes the others. Where
 * may_fail, also until that communicator has failed. */
void tree_meet(struct tree_rank *rank, unsigned int *count, const struct tree_life *may_fail);
/* All that wait look again. */
void tree_wake_ranks(void);
/* Nothing has been sent yet. */
void tree_watch_begin(void);
/* A frame leaves the switch. */
void tree_watch(void *sw, unsigned int port, const uint8_t *frame, size_t len);
/* What all ranks' floats make, where they are added as they are. */
void tree_native_reduce(struct tree_call *call, unsigned int number);
/* A rank has its result of this call. */
void tree_check_result(struct tree_rank *rank, unsigned int call);

#endif
