/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Several ranks of one job in one process, and the switch between them in the hands of a test: it
 * takes packet r of every rank, insists that they are parts of one chunk as docs/protocol.md has
 * it, reduces them, and sends every rank the mirror of its own packet with what it gets. Or it ends
 * their connections, as in termination mode: takes message m of every rank, and sends each one
 * message m with what it gets, in as many packets as that needs.
 */
#ifndef SELFTESTS_LOCKSTEP_H
#define SELFTESTS_LOCKSTEP_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include "hostlib/include/inccl.h"
#include "lib/proto/roce.h"
#include "selftests/hostlib/fake.h"
#include "selftests/hostlib/peer.h"

#define LOCKSTEP_RANKS   4
#define LOCKSTEP_PAYLOAD 256
#define LOCKSTEP_SLOTS   64
#define LOCKSTEP_TRACE   512
/* In termination mode, of a message and of those under way. */
#define LOCKSTEP_MESSAGE_BYTES (16 * LOCKSTEP_PAYLOAD)
#define LOCKSTEP_MESSAGES      64

struct lockstep;

struct lockstep_conf {
	unsigned int ranks;
	unsigned int window, message_packets; /* that the ranks ask for */
	enum inccl_byte_order byte_order;
	/* What the controller makes of that. */
	enum inc_tree_mode mode; /* termination: packets are not in step */
	bool native;             /* floats, which then */
	void (*reduce_floats)(const struct lockstep *ls, uint32_t desc, uint8_t *result,
			      size_t len); /* reduces, of what lockstep_given() has */
	/* 0: not said */
	unsigned int agreed_packets; /* of a message */
	unsigned int messages;       /* under way at most */
};

/* In termination mode: what a rank gives. */
struct lockstep_message {
	uint32_t desc; /* its own, or inherited */
	bool has_imm;
	size_t len;
	uint8_t bytes[LOCKSTEP_MESSAGE_BYTES];
};

/* A contribution, as it came. */
struct lockstep_packet {
	struct inc_roce_packet head;
	uint32_t desc; /* its own, or inherited */
	uint8_t payload[LOCKSTEP_PAYLOAD];
};

struct lockstep_rank {
	struct fake fake;
	struct peer peer;
	const char *answers[5];
	char joined[128], conn[512];
	struct inccl_group *group;
	struct inccl_communicator *comm;
	int ended;                                   /* what its destruction is to return */
	struct lockstep_packet ring[LOCKSTEP_SLOTS]; /* of packet r: r modulo their number */
	uint64_t heard;                              /* packets; in termination mode messages */
	uint32_t desc;
	/* in termination mode: of message m: m modulo their number; packets heard and sent, */
	struct lockstep_message *message;
	uint64_t packets, said;
	unsigned int longest; /* packets of a message, since lockstep_reset() */
	/* bytes of payload since lockstep_reset(), given and got, and most packets under way */
	uint64_t gave, got;
	unsigned int most_under_way;
	struct lockstep_packet trace[LOCKSTEP_TRACE]; /* the first ones since then */
	unsigned int traced;
};

struct lockstep {
	struct lockstep_conf conf;
	struct lockstep_rank rank[LOCKSTEP_RANKS];
	uint64_t results;
	pthread_mutex_t log_lock;
	char log[4096]; /* of all ranks */
};

void lockstep_up(struct lockstep *ls, const struct lockstep_conf *conf);
void lockstep_down(struct lockstep *ls);
void lockstep_reset(struct lockstep *ls);
/* Takes what has come. */
void lockstep_hear(struct lockstep *ls);
/* Takes it, and sends the results that can be made. */
void lockstep_serve(struct lockstep *ls);
/* Serves all ranks until each one's request is done; asserts that none failed. */
void lockstep_finish(struct lockstep *ls, struct inccl_request *const *requests);
/* True where a rank's log has it. */
bool lockstep_said(struct lockstep *ls, const char *text);
/* The same for lockstep.c, of messages. */
void lockstep_hear_messages(struct lockstep *ls);
void lockstep_serve_messages(struct lockstep *ls);
/* into = into op from, of the operator and type of desc, in the byte order of the wire. */
void lockstep_combine(const struct lockstep *ls, uint32_t desc, uint8_t *into, const uint8_t *from,
		      size_t len);
/* What the rank has given for the result that is being made, in termination mode. */
const uint8_t *lockstep_given(const struct lockstep *ls, unsigned int rank);
/* Nothing comes from any rank that has not been asked for. */
void lockstep_silent(struct lockstep *ls);

#endif
