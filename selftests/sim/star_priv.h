/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the star share: star.c (a run), star_rank.c (what a rank does, and the
 * controller's answers to it), star_check.c (what must hold). */
#ifndef SIM_STAR_PRIV_H
#define SIM_STAR_PRIV_H

#include <stdbool.h>
#include <stdint.h>
#include "daemon.h"
#include "host.h"
#include "hostlib/src/internal.h"
#include "star.h"

#define RANKS_MOST       6
#define CALLS_MOST       12
#define PACKETS_MOST     64   /* of a call */
#define CHUNKS_MOST      4096 /* of a run */
#define STAR_SWITCH_ADDR 0x0a4d00fe

/* An AllReduce that all ranks call. */
struct star_call {
	enum inccl_dtype dtype;
	enum inccl_op op;
	enum inccl_mode mode;
	size_t count, bytes;
	bool in_place;
	bool known; /* expected is there: one rank has been through */
	uint8_t *expected;
};

struct star_rank {
	struct host host;
	struct daemon_port port;
	struct wire up, down;
	unsigned int number;
	struct inccl_group *group;
	struct inccl_communicator *comm;
	struct inc_msg_ask asked;
	struct task *waits; /* for the controller, or for the others' end */
	struct {
		uint8_t *given; /* as it was */
		uint8_t *send, *recv;
		struct inccl_request *request;
	} call[CALLS_MOST];
};

struct star {
	unsigned int n_ranks, n_calls, asked, ready, finished;
	unsigned int at_once; /* calls under way */
	struct inccl_communicator_opts opts;
	uint64_t faults_end_at_ns;
	struct star_call call[CALLS_MOST];
	struct star_rank rank[RANKS_MOST];
	struct daemon daemon;
	uint32_t comm; /* its index in the switch */
	/* Of each result that the switch has sent, plus 1: what is sent again is the same. */
	uint64_t sent[CHUNKS_MOST];
};
extern struct star star;

/* The process of a rank. */
void star_rank_run(void *rank);
/* A frame leaves the switch. */
void star_watch(void *arg, unsigned int port, const uint8_t *frame, size_t len);
/* A rank has its result of this call. */
void star_check_result(struct star_rank *rank, unsigned int call);

#endif
