/* SPDX-License-Identifier: BSD-2-Clause */
/* Declarations that the files of a node share. */
#ifndef INC_TERM_NODE_PRIV_H
#define INC_TERM_NODE_PRIV_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/base/awake.h"
#include "userspace/engine.h"
#include "userspace/term/node.h"

enum term_slot_state {
	TERM_SLOT_IDLE,
	TERM_SLOT_AGGREGATING, /* some children have contributed */
	/* all children have contributed; final if they called different collectives */
	TERM_SLOT_COMPLETE,
	TERM_SLOT_AT_PARENT,    /* the partial sum was sent to the parent; the result is awaited */
	TERM_SLOT_BROADCASTING, /* the result is being sent to the children */
};

struct term_slot {
	enum term_slot_state state; /* changed by term_slot_go() only */
	uint64_t number;            /* of the message; valid in every state but IDLE */
	uint64_t arrived;           /* a bit for each child that has contributed */
	uint64_t mirror;  /* a bit for each child whose message had the descriptor as immediate */
	uint64_t givers;  /* a bit for each child that has contributed data */
	uint64_t sending; /* a bit for each child that has not acknowledged the result */
	bool sending_up;  /* the parent has not acknowledged the partial sum */
	uint32_t desc;    /* descriptor that all children have called */
	uint32_t length;  /* bytes of data of each giver */
	void *partial;    /* being sent to the parent; NULL: no data */
	void *result;     /* being sent to the children; NULL: no data */
	char who[40];     /* the slot's name, for the log */
};

/* A child's contribution to a slot. */
struct term_part {
	void *buffer; /* NULL: no data, or it was reduced into another buffer */
	uint32_t desc;
	uint32_t length;
};

struct term_peer {
	bool is_switch;
	uint32_t rank; /* lowest rank behind the peer; of the parent, the lowest below this node */
	uint32_t n_ranks; /* number of ranks there */
	bool has_desc;    /* desc is valid: that of the peer's last message */
	uint32_t desc;
	uint64_t received, sent, acknowledged;
	uint64_t seen_acknowledged; /* acknowledged at the last tick; UINT64_MAX: no tick yet */
	/* the last tick at which acknowledged had moved, or the peer had nothing to acknowledge; by
	 * inc_term's awake */
	uint64_t progress_at_ns;
	bool unresponsive;
	/* of the switch's own port on the way to the peer */
	enum inc_port_condition port_condition;
	uint64_t away_at_ns; /* the first tick at which that port was not up, by awake; 0: none */
};

/* The most actions of one event. It releases a message without data, reduces, releases the sources
 * and sends the result, or it reports all peers and one port. END may be added. */
#define TERM_MAX_ACTIONS (2 * INC_COMM_MAX_CHILDREN + 4)

struct inc_term {
	uint32_t communicator;
	uint32_t slots;
	uint32_t n_children;
	uint64_t all; /* a bit per child */
	bool has_parent;
	struct term_slot *slot; /* [slots] */
	struct term_part *part; /* [slots][n_children] */
	struct term_peer peer[INC_COMM_MAX_CHILDREN + 1];
	/* by rank: the child that it is behind, plus 1; 0: it is not below this node */
	uint8_t child_plus_1[INC_MAX_RANKS];
	uint64_t partials; /* all messages before this one have been sent up as partial sums */
	uint64_t results;  /* all messages before this one have been sent down as results */
	uint64_t freed;    /* the slots of all messages before this one are free */
	uint64_t waiting_number;     /* the message that was waited for at the last tick */
	uint64_t waiting_seen_at_ns; /* since when; 0: none was waited for */
	struct inc_awake awake;      /* the clock of ticks, by which silence of peers is measured */
	bool port_lost_reported; /* a lost port was reported; false again when all ports are up */
	bool ended;
	/* after the end: the buffers of all slots before this one have been released */
	uint32_t release_slot;
	const void *source[INC_COMM_MAX_CHILDREN]; /* sources of the REDUCE among the actions */
	uint32_t n_actions, taken;
	struct inc_term_action action[TERM_MAX_ACTIONS];
};

static inline struct term_slot *term_slot(const struct inc_term *t, uint64_t number)
{
	return &t->slot[number & (t->slots - 1)];
}

/* The contributions to a slot, by child. */
static inline struct term_part *term_parts(const struct inc_term *t, uint64_t number)
{
	return &t->part[(number & (t->slots - 1)) * t->n_children];
}

static inline bool term_is_parent(const struct inc_term *t, uint32_t peer)
{
	return peer == t->n_children;
}

/* node.c */
void term_do(struct inc_term *t, const struct inc_term_action *action);
/* Requests the release of a buffer. Does nothing if it is NULL. */
void term_release(struct inc_term *t, void *buffer);
/* The bit of a peer in inc_term_action.children: the child's, or 0 for the parent. */
uint64_t term_peer_bit(const struct inc_term *t, uint32_t peer);
/* Ends the communicator. children: bits as in term_peer_bit(). */
void term_end(struct inc_term *t, enum inc_term_reason reason, uint64_t children, uint64_t number);

/* slot.c: handle a message of a child, or of the parent, whose buffer is in no slot yet. */
void term_take_part(struct inc_term *t, uint32_t child, uint64_t number,
		    const struct inc_term_message *m);
void term_take_result(struct inc_term *t, uint64_t number, const struct inc_term_message *m);
/* The peer has acknowledged message number, so its buffer is not read any more. */
void term_take_sent(struct inc_term *t, uint32_t peer, uint64_t number);

#endif
