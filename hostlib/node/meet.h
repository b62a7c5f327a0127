/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connections between the ranks of a node, and the notes on them. meet.c makes and uses the
 * connections, and create.c creates communicators over them, on the thread of the caller.
 */
#ifndef INCCL_NODE_MEET_H
#define INCCL_NODE_MEET_H

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include "hostlib/node/node.h"
#include "lib/base/err.h"

/* A wait looks so often whether the group has failed. */
#define INCCL_NODE_LOOK_MS 100

/* STEP_WAIT is no step by itself. The note's text names the ranks for which the first rank waits,
 * or it is empty, because the first rank has just come. */
enum inccl_node_step {
	STEP_MEET,
	STEP_MET,
	STEP_ASK,
	STEP_MADE,
	STEP_READY,
	STEP_START,
	STEP_WAIT
};

/* The properties of a communicator that the machine's first rank gives to the others. */
struct inccl_node_terms {
	int64_t number;
	uint32_t payload, slots, message_packets, window_messages, messages;
	uint32_t mode;          /* enum inc_tree_mode */
	uint32_t native_floats; /* floats are added as they are */
	/* of the segment: messages under way, and bytes of a message (shared_memory.h) */
	uint32_t segment_slots, message_bytes;
	char peer[80];
	char tree[INC_CONTROL_TREE_LEN];
};

/* A message between a rank and the first rank of its machine. Ranks have their numbers among those
 * of the machine here, counted from 0. */
struct inccl_node_note {
	uint32_t magic;
	uint32_t step; /* enum inccl_node_step */
	uint32_t group;
	int32_t rank;  /* rank of the sender; of an error the rank to blame */
	int32_t error; /* 0, or a positive errno that ends the creation */
	/* of STEP_ASK: enum inccl_byte_order, and packets of a message as the caller wants */
	uint32_t byte_order, message_packets;
	int64_t index; /* index of the communicator in its group */
	/* explanation of the error; of STEP_MEET the name of the meeting; of STEP_WAIT the ranks
	 * for which the first rank waits */
	char text[320];
	struct inccl_node_terms terms; /* of STEP_MADE */
};

struct inccl_node {
	int listener; /* -1 after the meeting */
	char name[INC_CONTROL_MEETING_LEN];
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* index of the communicator that is created next; all ranks create them in this order */
	long long next;
	/* this rank among those of the machine, and their number */
	unsigned int rank, ranks;
	unsigned int member[INC_MAX_NODE_RANKS]; /* their ranks in the group */
	bool spans;                              /* the group has ranks on other machines */
	/* the first rank: to each other rank; others: [0] is to the first rank */
	int sock[INC_MAX_NODE_RANKS];
};

/* A note of this rank, without an error. */
struct inccl_node_note inccl_node_note_of(const struct inccl_group *group,
					  const struct inccl_node *node, enum inccl_node_step step,
					  long long index);
/* Sends a note with n descriptors. Returns 0 or -errno. */
int inccl_node_send(int fd, const struct inccl_node_note *note, const int *fds, unsigned int n);
/* The same, but waits while the kernel has no room. Returns 0, or -errno with the reason in err. */
int inccl_node_send_to(struct inccl_group *group, unsigned int rank, int fd,
		       const struct inccl_node_note *note, const int *fds, unsigned int n,
		       struct inccl_limit *limit, struct inc_err *err);
/* Receives a note, and *n descriptors with it, at most `most`. Returns 0, -EAGAIN, -ECONNRESET if
 * the peer is gone, or another -errno. */
int inccl_node_receive(int fd, struct inccl_node_note *note, int *fds, unsigned int most,
		       unsigned int *n);
/* Closes descriptors, and sets them to -1. Those that are -1 already stay so. */
void inccl_node_close_fds(int *fds, unsigned int n);
/* Returns 0, -ETIMEDOUT after the limit, or the error with which the group has failed, with the
 * reason in err. */
int inccl_node_check(struct inccl_group *group, struct inccl_limit *limit, struct inc_err *err);
/* Waits until a descriptor is readable. Returns 0, -ETIMEDOUT after the limit, or the error with
 * which the group has failed, with the reason in err. */
int inccl_node_wait(struct inccl_group *group, struct pollfd *pfd, unsigned int n,
		    struct inccl_limit *limit, struct inc_err *err);
/* Explains that a rank's connection has ended. Returns the error with which the group has failed,
 * or -ECONNRESET. */
int inccl_node_peer_gone(struct inccl_group *group, unsigned int rank, struct inc_err *err);

#endif
