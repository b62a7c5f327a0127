/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A node of a tree with everything that surrounds it. Endpoints without a wire count its receives,
 * buffers and sends. A plain reference computes what the node must send to each peer. A broken rule
 * fails the test at once.
 */
#ifndef SELFTESTS_TERM_HARNESS_NODE_H
#define SELFTESTS_TERM_HARNESS_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "userspace/term/node.h"

/*
 * ref_floats.c: a reference for sums of native floats. The children's values are such that every
 * order of addition has another sum.
 */

#define REF_FLOATS_BYTES 64

/* One message of all children, of which there are at most 64. */
struct ref_floats {
	uint32_t desc;   /* a descriptor for which ref_are_floats() is true */
	uint32_t length; /* length of the message, at most REF_FLOATS_BYTES */
	uint64_t number;
	uint32_t n_children;
	bool swapped; /* the elements' byte order is not the machine's */
};

/* Does this descriptor add native floats? */
bool ref_are_floats(uint32_t desc);
/* The values of a child's message, or of the parent's answer (child n_children). The memory is
 * valid until the next call. */
const uint8_t *ref_floats_part(const struct ref_floats *f, uint32_t child);
/* The sum of the children's values, added from the first child to the last. The test fails if this
 * sum differs from one in double precision by more than docs/floats.md allows. The memory is valid
 * until the next call. */
const uint8_t *ref_floats_sum(const struct ref_floats *f);
/* Would the sum have other bits if the addition began with the child that comes third? */
bool ref_floats_order_matters(const struct ref_floats *f);

#define NODE_MOVES (2 * (INC_COMM_MAX_CHILDREN + 1))
#define NODE_BYTES REF_FLOATS_BYTES /* bytes of a buffer, and of the longest message */

/* A message of the job, with the collective that its ranks call. */
struct node_call {
	uint32_t desc;
	uint32_t length; /* length that a rank contributes, if it contributes data */
	/* the message is the first one of its collective, with which all peers send the descriptor;
	 * of other messages one in three has it */
	bool first;
};

struct node_shape {
	uint32_t n_children, slots;
	bool has_parent;
	struct inc_term_form form;
	struct inc_term_child child[INC_COMM_MAX_CHILDREN];
};

/* A shape with n children of this number of ranks each, from rank 0 on. A child with one rank is a
 * host, a child with more ranks is a switch. Floats are native, in the machine's byte order. */
struct node_shape node_shape(uint32_t n_children, uint32_t ranks, uint32_t slots, bool has_parent);

struct node_send {
	uint64_t number;
	uint8_t *buffer;
	uint32_t length;
};

struct node_peer {
	uint64_t posted; /* receives posted since the start */
	uint64_t given;  /* messages that have filled a receive */
	uint64_t sent, done;
};

struct node_harness {
	struct inc_term *t;
	const struct node_shape *shape;
	uint32_t n_peers;
	const struct node_call *calls;
	uint64_t n_calls;
	uint64_t base; /* number of the node's first message */
	struct node_peer peer[INC_COMM_MAX_CHILDREN + 1];
	struct node_send *sends; /* sends under way, as [n_peers][slots] */
	/* numbers of buffers: all (one for each receive that can be posted), those in use, and the
	 * most in use so far */
	uint32_t n_buffers, n_taken, most_taken;
	uint8_t (*bytes)[NODE_BYTES];
	bool *taken;       /* for each buffer: the node owns it */
	uint32_t *reading; /* for each buffer: number of sends under way that read it */
	bool ended;
	uint32_t n_told, n_reduced, n_port_lost;
	struct inc_msg_event report; /* the last report of the node */
};

void node_open(struct node_harness *h, const struct node_shape *shape,
	       const struct node_call *calls, uint64_t n_calls);
/* Opens a node that has processed `base` messages already. */
void node_open_at(struct node_harness *h, const struct node_shape *shape,
		  const struct node_call *calls, uint64_t n_calls, uint64_t base);
/* Checks that the node has no buffers but those being sent, and frees everything. */
void node_close(struct node_harness *h);

/* Can the peer send its next message? Such a message must exist, and a receive must be posted for
 * it. The parent can send after the partial sum has come. */
bool node_can_give(const struct node_harness *h, uint32_t peer);
void node_give(struct node_harness *h, uint32_t peer);
/* Sends a message of the caller's choice to the node; m->buffer has its bytes. */
void node_give_this(struct node_harness *h, uint32_t peer, uint64_t number,
		    const struct inc_term_message *m);
bool node_can_finish(const struct node_harness *h, uint32_t peer);
/* Acknowledges the oldest message that the peer was sent and has not acknowledged. */
void node_finish(struct node_harness *h, uint32_t peer);
void node_lose(struct node_harness *h, uint32_t peer, enum inc_term_reason reason);
void node_tick(struct node_harness *h, uint64_t now_ns);

/* Lists the possible moves, and returns their number. Move i: the next message of peer i comes.
 * Move n_peers + i (if late): the oldest send to peer i completes. `move` has room for
 * NODE_MOVES. */
uint32_t node_moves(const struct node_harness *h, bool late, uint32_t *move);
/* Makes one move. If `late` is false, sends complete at once. */
void node_move(struct node_harness *h, bool late, uint32_t move);

/* Do the children's floats have another sum if they arrive in another order? */
bool node_order_matters(const struct node_harness *h, uint64_t number);

/* Checks that all messages were given, sent and acknowledged, and that all buffers are returned. */
void node_check_done(const struct node_harness *h);
/* Called after the end of the communicator. Lets the sends under way complete, and the messages on
 * their way arrive. Checks that all buffers are returned. */
void node_check_ended(struct node_harness *h);

#endif
