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
	/* all children have contributed; if they called different collectives, the slot stays in
	 * this state */
	TERM_SLOT_COMPLETE,
	/* the partial sum was sent to the parent, and the node waits for the parent's result */
	TERM_SLOT_AT_PARENT,
	TERM_SLOT_BROADCASTING, /* the result is being sent to the children */
};

struct term_slot {
	enum term_slot_state state; /* state of the slot, which only term_slot_go() changes */
	uint64_t number;            /* number of the message; valid in every state but IDLE */
	uint64_t arrived;           /* mask with a bit for each child that has contributed */
	/* mask of the children whose messages had the descriptor as immediate, so that their
	 * results have it, too */
	uint64_t mirror;
	uint64_t givers;  /* mask of the children whose contributions have data */
	uint64_t sending; /* mask of the children that have not acknowledged the result yet */
	bool sending_up;  /* the parent has not acknowledged the partial sum yet */
	uint32_t desc;    /* descriptor of the collective, which all children have called */
	uint32_t length;  /* number of bytes that each of the givers has contributed */
	void *partial;    /* buffer that is being sent to the parent; NULL: no data */
	void *result;     /* buffer that is being sent to the children; NULL: no data */
	char who[40];     /* name of the slot, for the log */
};

/* A child's contribution to a slot. */
struct term_part {
	/* data of the contribution; NULL: no data, or the data was reduced into another buffer */
	void *buffer;
	uint32_t desc;
	uint32_t length;
};

struct term_peer {
	bool is_switch;
	/* lowest rank behind the peer; for the parent the lowest rank below this node */
	uint32_t rank;
	uint32_t n_ranks; /* number of ranks behind the peer, or below this node */
	bool has_desc;    /* desc is valid: it is the descriptor of the peer's last message */
	uint32_t desc;
	uint64_t received, sent, acknowledged;
	/* value of `acknowledged` at the last tick; UINT64_MAX: there was no tick yet */
	uint64_t seen_acknowledged;
	/* the last tick at which `acknowledged` had grown, or the peer had nothing to acknowledge;
	 * a time of the clock `awake` in struct inc_term */
	uint64_t progress_at_ns;
	bool unresponsive;
	/* condition of the switch's own port on the way to the peer */
	enum inc_port_condition port_condition;
	/* the first tick at which that port was not up, a time of the clock `awake`; 0: the port is
	 * up */
	uint64_t away_at_ns;
};

/* The most actions that one event requests. It releases a message without data, reduces, releases
 * the sources and sends the result, or it reports all peers and one port. END may follow. */
#define TERM_MAX_ACTIONS (2 * INC_COMM_MAX_CHILDREN + 4)

struct inc_term {
	uint32_t communicator;
	uint32_t slots;
	uint32_t n_children;
	uint64_t all; /* mask with a bit for each child */
	bool has_parent;
	struct term_slot *slot; /* [slots]: the slots */
	struct term_part *part; /* [slots][n_children]: the contributions */
	struct term_peer peer[INC_COMM_MAX_CHILDREN + 1];
	/* number of the child that each rank is behind, plus 1; 0: the rank is not below this
	 * node */
	uint8_t child_plus_1[INC_MAX_RANKS];
	/* the partial sums of all messages before this one have been sent to the parent */
	uint64_t partials;
	/* the results of all messages before this one have been sent to the children */
	uint64_t results;
	uint64_t freed; /* the slots of all messages before this one are free */
	/* number of the message that the node waited for at the last tick */
	uint64_t waiting_number;
	/* time since which the node waits for message waiting_number; 0: it waits for none */
	uint64_t waiting_seen_at_ns;
	struct inc_awake awake; /* clock of the ticks, which measures the silence of peers */
	/* the node has reported a lost port; this is cleared when all ports are up again */
	bool port_lost_reported;
	bool ended;
	/* after the end of the communicator: the slot whose buffers are released next */
	uint32_t release_slot;
	const void *source[INC_COMM_MAX_CHILDREN]; /* sources of the action REDUCE */
	uint32_t n_actions, taken;
	struct inc_term_action action[TERM_MAX_ACTIONS];
};

static inline struct term_slot *term_slot(const struct inc_term *t, uint64_t number)
{
	return &t->slot[number & (t->slots - 1)];
}

/* Returns the contributions to a slot, by child. */
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
/* Adds the action that releases a buffer. Does nothing if the buffer is NULL. */
void term_release(struct inc_term *t, void *buffer);
/* Returns the bit of a peer in the mask `children` of an action: the child's bit, or 0 for the
 * parent. */
uint64_t term_peer_bit(const struct inc_term *t, uint32_t peer);
/* Ends the communicator. children: mask of the children at fault (term_peer_bit()); 0: the parent
 * is. number: number of the message. */
void term_end(struct inc_term *t, enum inc_term_reason reason, uint64_t children, uint64_t number);

/* slot.c: handle a message that has arrived from a child, or from the parent, and whose buffer
 * belongs to no slot yet. */
void term_take_part(struct inc_term *t, uint32_t child, uint64_t number,
		    const struct inc_term_message *m);
void term_take_result(struct inc_term *t, uint64_t number, const struct inc_term_message *m);
/* Handles that a peer has acknowledged the message of this number, whose buffer is not read any
 * more. */
void term_take_sent(struct inc_term *t, uint32_t peer, uint64_t number);

#endif
