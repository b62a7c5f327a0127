/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A node with all that surrounds it. Endpoints without a wire count its receives, buffers and
 * sends. A plain reference computes what each peer must be sent. A broken rule fails the test at
 * once.
 */
#ifndef TERM_WORLD_H
#define TERM_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "selftests/term/ref_floats.h"
#include "userspace/term/arithmetic.h"
#include "userspace/term/node.h"

#define WORLD_MOVES (2 * (INC_COMM_MAX_CHILDREN + 1))
#define WORLD_BYTES REF_FLOATS_BYTES /* of a buffer, and of the longest message */

/* A message of the job: which collective its ranks call. */
struct world_call {
	uint32_t desc;
	uint32_t length; /* length that a rank gives, if it gives data */
	/* the first message of its collective: all peers send the descriptor; else one in three
	 * does */
	bool first;
};

struct world_shape {
	uint32_t n_children, slots;
	bool has_parent;
	struct inc_term_form form;
	struct inc_term_child child[INC_COMM_MAX_CHILDREN];
};

/* A shape with n children of this number of ranks each, from rank 0 on. A child with one rank is a
 * host, with more a switch. Floats are native, in the machine's byte order. */
struct world_shape world_shape(uint32_t n_children, uint32_t ranks, uint32_t slots,
			       bool has_parent);

struct world_send {
	uint64_t number;
	uint8_t *buffer;
	uint32_t length;
};

struct world_peer {
	uint64_t posted; /* receives posted since the start */
	uint64_t given;  /* messages that have filled a receive */
	uint64_t sent, done;
};

struct world {
	struct inc_term *t;
	const struct world_shape *shape;
	uint32_t n_peers;
	const struct world_call *calls;
	uint64_t n_calls;
	uint64_t base; /* number of the first message */
	struct world_peer peer[INC_COMM_MAX_CHILDREN + 1];
	struct world_send *sends; /* [n_peers][slots]: sends under way */
	/* buffers [n_buffers], one for each receive that can be posted */
	uint32_t n_buffers, n_taken, most_taken;
	uint8_t (*bytes)[WORLD_BYTES];
	bool *taken;       /* the node owns the buffer */
	uint32_t *reading; /* number of sends under way that read it */
	bool ended;
	uint32_t n_told, n_reduced, n_port_lost;
	struct inc_msg_event report; /* the last report */
};

void world_open(struct world *w, const struct world_shape *shape, const struct world_call *calls,
		uint64_t n_calls);
/* The same, for a node whose next message has the number base. */
void world_open_at(struct world *w, const struct world_shape *shape, const struct world_call *calls,
		   uint64_t n_calls, uint64_t base);
/* Checks that the node has no buffers but those being sent, and frees all. */
void world_close(struct world *w);

/* Can the peer give its next message: is there one, and a posted receive? The parent can after the
 * partial sum has come. */
bool world_can_give(const struct world *w, uint32_t peer);
void world_give(struct world *w, uint32_t peer);
/* Gives any other message: m->buffer has its bytes. */
void world_give_this(struct world *w, uint32_t peer, uint64_t number,
		     const struct inc_term_message *m);
bool world_can_finish(const struct world *w, uint32_t peer);
/* Acknowledges the oldest message that the peer was sent. */
void world_finish(struct world *w, uint32_t peer);
void world_lose(struct world *w, uint32_t peer, enum inc_term_reason reason);
void world_tick(struct world *w, uint64_t now_ns);

/* Lists the possible moves and returns their number. i: the next message of peer i comes. n_peers +
 * i (if late): the oldest send to peer i completes. `move` has room for WORLD_MOVES. */
uint32_t world_moves(const struct world *w, bool late, uint32_t *move);
/* Makes a move. If sends are not late they complete at once. */
void world_move(struct world *w, bool late, uint32_t move);

/* Do the children's floats have another sum if they arrive in another order? */
bool world_order_matters(const struct world *w, uint64_t number);

/* Checks that all messages were given, sent and acknowledged, and that all buffers are returned. */
void world_check_done(const struct world *w);
/* After the end: the sends under way complete, and messages on their way arrive. Checks that all
 * buffers are returned. */
void world_check_ended(struct world *w);

#endif
