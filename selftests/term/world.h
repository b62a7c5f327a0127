/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A node with everything around it: endpoints without a wire, whose receives, buffers and sends are
 * counted, and a plain reference of what each peer must be sent. What breaks a rule fails the test
 * where it does.
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

/* A message of the job: what its ranks call. */
struct world_call {
	uint32_t desc;
	uint32_t length; /* of those who give */
	bool first;      /* of its collective: all bring the descriptor; else one in three does */
};

struct world_shape {
	uint32_t n_children, slots;
	bool has_parent;
	struct inc_term_form form;
	struct inc_term_child child[INC_COMM_MAX_CHILDREN];
};

/* n children with so many ranks each, from rank 0 on: hosts with one, switches with more. Floats
 * are added as they are, in the machine's byte order. */
struct world_shape world_shape(uint32_t n_children, uint32_t ranks, uint32_t slots,
			       bool has_parent);

struct world_send {
	uint64_t number;
	uint8_t *buffer;
	uint32_t length;
};

struct world_peer {
	uint64_t posted; /* receives, all in all */
	uint64_t given;  /* messages that have filled one */
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
	struct world_send *sends; /* [n_peers][slots], under way */
	/* buffers [n_buffers], as many as all receives that can be posted */
	uint32_t n_buffers, n_taken, most_taken;
	uint8_t (*bytes)[WORLD_BYTES];
	bool *taken;       /* the node has it */
	uint32_t *reading; /* sends under way from it */
	bool ended;
	uint32_t n_told, n_reduced, n_port_lost;
	struct inc_term_report report; /* the last one */
};

void world_open(struct world *w, const struct world_shape *shape, const struct world_call *calls,
		uint64_t n_calls);
/* The same for a node whose next message is number base. */
void world_open_at(struct world *w, const struct world_shape *shape, const struct world_call *calls,
		   uint64_t n_calls, uint64_t base);
/* Nothing may be left with the node but what is being sent. */
void world_close(struct world *w);

/* Can the peer bring its next message of the job: has it one, and room for it? The parent can where
 * the partial sum has come. */
bool world_can_give(const struct world *w, uint32_t peer);
void world_give(struct world *w, uint32_t peer);
/* Any other message: m->buffer is where its bytes are. */
void world_give_this(struct world *w, uint32_t peer, uint64_t number,
		     const struct inc_term_message *m);
bool world_can_finish(const struct world *w, uint32_t peer);
/* What it was sent first has been acknowledged. */
void world_finish(struct world *w, uint32_t peer);
void world_lose(struct world *w, uint32_t peer, enum inc_term_reason reason);
void world_tick(struct world *w, uint64_t now_ns);

/* What can happen: peer i's next message comes (i), or what it was sent first is done (n_peers + i,
 * where late). Returns how many; move has room for WORLD_MOVES. */
uint32_t world_moves(const struct world *w, bool late, uint32_t *move);
/* Makes it happen. Where sends are not late they are done at once. */
void world_move(struct world *w, bool late, uint32_t move);

/* Of a sum that children make of floats: has it other bits where they come in another order? */
bool world_order_matters(const struct world *w, uint64_t number);

/* All has been given, sent and acknowledged, and all buffers are back. */
void world_check_done(const struct world *w);
/* Ended: what is under way comes back, messages that are on their way come; then all is back. */
void world_check_ended(struct world *w);

#endif
