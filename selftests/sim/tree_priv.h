/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the tree share: tree.c (a run), tree_plan.c (which switches and ranks there are
 * and what lies between them), tree_call.c (what they compute), tree_rank.c (what a rank does),
 * tree_term.c (a switch in termination mode), tree_control.c (the controller's answers to it),
 * tree_check.c (what must hold of frames), tree_result.c (of results). One thread, as all of the
 * simulation. */
#ifndef SIM_TREE_PRIV_H
#define SIM_TREE_PRIV_H

#include <stdbool.h>
#include <stdint.h>
#include "daemon.h"
#include "host.h"
#include "hostlib/src/internal.h"
#include "tree.h"

#define RANKS_MOST    6
#define SWITCHES_MOST 4
#define CALLS_MOST    12
#define PACKETS_MOST  64   /* of a call */
#define CHUNKS_MOST   4096 /* of a run */

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
	struct inccl_communicator *comm;
	struct inc_msg_ask asked;
	struct inc_conn_conf made; /* the switch's end of its connection */
	struct task *waits;        /* for the controller, or for the others' end */
	struct {
		uint8_t *given;       /* as it was */
		uint8_t *send, *recv; /* NULL where there is nothing */
		uint8_t *room[2];     /* where both are; one where it is in place */
		struct inccl_request *request;
	} call[CALLS_MOST];
};

/* What a switch has sent of a chunk, so that what is sent again is the same. */
struct tree_sent {
	uint64_t sum;         /* over its bytes, plus 1 */
	uint32_t full, empty; /* a bit for each child that was sent it, or a packet of length 0 */
};

struct inc_term_worker;
struct inc_term_comm;

/* A switch, and its cable to its parent. */
struct tree_switch {
	struct daemon daemon; /* in termination mode its process alone */
	unsigned int number;
	enum inc_mode_of_switch mode;
	/* Of termination mode: the engine's worker, its communicator, and what each port is to
	 * its sockets. */
	struct inc_term_worker *worker;
	struct inc_term_comm *term_comm;
	struct host host[XDP_PORTS];
	struct tree_switch *parent; /* NULL: it is the root */
	struct daemon_port port;    /* of its own, where the cable is, */
	struct daemon_port there;   /* and of its parent's */
	struct wire up, down;
	uint32_t up_psn, down_psn; /* of the first partial sum, of the first result */
	bool macs_known;           /* the controller tells both where the other is */
	uint32_t comm;             /* its index in the switch */
	struct tree_sent sent[CHUNKS_MOST], sent_up[CHUNKS_MOST]; /* results, partial sums */
};

struct tree {
	unsigned int n_ranks, n_switches, n_calls, asked, ready, finished, ended;
	enum inc_tree_mode mode;
	uint32_t slots, message_packets, messages; /* as the controller has them */
	unsigned int at_once;                      /* calls under way */
	struct inccl_communicator_opts opts;
	uint64_t faults_end_at_ns;
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
void tree_term_add(struct tree_switch *sw, struct inc_comm_conf *conf);
void tree_term_stop(struct tree_switch *sw);

/* The calls of a run, what the ranks give, and the memory for it. */
void tree_choose_calls(void);
void tree_choose_buffers(struct tree_rank *rank);
void tree_free_buffers(void);
/* What a rank gives and gets, bytes. */
size_t tree_send_bytes(const struct tree_call *call, unsigned int rank);
size_t tree_recv_bytes(const struct tree_call *call, unsigned int rank);
/* Are floats added up, compared or multiplied? */
bool tree_reduces_floats(const struct tree_call *call);
/* A rank begins a call. */
void tree_begin_call(struct tree_rank *rank, unsigned int call);

/* The process of a rank. */
void tree_rank_run(void *rank);
/* Waits until all ranks have come here; count: how many have. The last one wakes the others. */
void tree_meet(struct tree_rank *rank, unsigned int *count);
/* A frame leaves the switch. */
void tree_watch(void *sw, unsigned int port, const uint8_t *frame, size_t len);
/* A rank has its result of this call. */
void tree_check_result(struct tree_rank *rank, unsigned int call);

#endif
