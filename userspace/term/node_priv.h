/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of a termination node share. */
#ifndef INC_TERM_NODE_PRIV_H
#define INC_TERM_NODE_PRIV_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/base/awake.h"
#include "userspace/engine.h"
#include "userspace/term/node.h"

enum term_slot_state {
	TERM_SLOT_IDLE,
	TERM_SLOT_AGGREGATING,  /* some children have given */
	TERM_SLOT_COMPLETE,     /* all have; it stays so where they called different things */
	TERM_SLOT_AT_PARENT,    /* the partial sum has gone up, the result is waited for */
	TERM_SLOT_BROADCASTING, /* the result goes down */
};

struct term_slot {
	enum term_slot_state state; /* term_slot_go() */
	uint64_t number;            /* of the message; stands in every state but IDLE */
	uint64_t arrived;           /* a bit for each child that has given */
	uint64_t mirror;            /*   and whose message had the descriptor as immediate */
	uint64_t givers;            /*   and gave data */
	uint64_t sending;           /*   that is being sent the result */
	bool sending_up;            /* so is the partial sum */
	uint32_t desc;              /* what all have called */
	uint32_t length;            /* bytes of what the givers gave */
	void *partial;              /* being sent to the parent; NULL: no data */
	void *result;               /* being sent to the children; NULL: no data */
	char who[40];               /* for the log */
};

/* What a child gave for a slot. */
struct term_part {
	void *buffer; /* NULL: no data, or what it gave has been used */
	uint32_t desc;
	uint32_t length;
};

struct term_peer {
	bool is_switch;
	uint32_t rank;    /* the lowest behind it; the parent's: below this node */
	uint32_t n_ranks; /* likewise */
	bool has_desc;    /* desc is that of its last message */
	uint32_t desc;
	uint64_t received, sent, acknowledged;
	uint64_t seen_acknowledged; /* at the last tick; UINT64_MAX: there was none */
	/* the tick that saw it move, or nothing to acknowledge; by inc_term's awake */
	uint64_t progress_at_ns;
	bool unresponsive;
	enum inc_port_condition port_condition; /* of the switch's own port to it */
	uint64_t away_at_ns; /* the tick that saw that it is not up, by awake; 0: none has */
};

/* The most that one event asks for: a message of no data released, a reduction, its sources
 * released and its result sent; or all peers and one port reported. END besides. */
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
	uint8_t child_plus_1[INC_MAX_RANKS]; /* whom a rank is behind; 0: it is not below */
	uint64_t partials;                   /* messages before these: their partial sum is up, */
	uint64_t results;                    /*   their result is on its way down, */
	uint64_t freed;                      /*   their slot is free */
	uint64_t waiting_number;             /* at the last tick, and since when */
	uint64_t waiting_seen_at_ns;         /*   0: nothing was waited for */
	struct inc_awake awake;              /* of ticks: by it peers are silent */
	bool port_lost_reported;             /* since all ports were up */
	bool ended;
	uint32_t release_slot; /* after the end: all of the slots before it is given back */
	const void *source[INC_COMM_MAX_CHILDREN]; /* of the REDUCE among the actions */
	uint32_t n_actions, taken;
	struct inc_term_action action[TERM_MAX_ACTIONS];
};

static inline struct term_slot *term_slot(const struct inc_term *t, uint64_t number)
{
	return &t->slot[number & (t->slots - 1)];
}

/* The parts of a slot, by child. */
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
/* Also of NULL: nothing. */
void term_release(struct inc_term *t, void *buffer);
/* What a reason is about: the child's bit, 0 for the parent. */
uint64_t term_peer_bit(const struct inc_term *t, uint32_t peer);
/* The communicator is over; children: as term_peer_bit() has them. */
void term_end(struct inc_term *t, enum inc_term_reason reason, uint64_t children, uint64_t number);

/* slot.c: what becomes of a message, whose buffer is in no slot yet. */
void term_take_part(struct inc_term *t, uint32_t child, uint64_t number,
		    const struct inc_term_message *m);
void term_take_result(struct inc_term *t, uint64_t number, const struct inc_term_message *m);
/* Message number, sent to the peer, is not read any more. */
void term_take_sent(struct inc_term *t, uint32_t peer, uint64_t number);

#endif
