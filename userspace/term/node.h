/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Termination mode: a switch's place in the tree of one communicator. What happens is told to it,
 * and what is to be done is asked of it: it knows no socket, no device and no clock, so that every
 * order of events can be tried (selftests/term).
 *
 * Between the switch and each peer runs a reliable connection that carries whole messages. Message
 * m of every child is its part of result m, message m to every child is result m, and it mirrors
 * the child's own: with the descriptor as immediate where that had one (docs/protocol.md, where a
 * packet is what a message is here). Below the root the partial sum goes up as message m of the
 * parent's connection, always with the descriptor, and result m comes down there. Numbers count
 * from 0 in 64 bits.
 *
 * Who calls: the communicator (comm.h), from the one thread that it belongs to. Who sends and
 * receives: its channels (endpoint.h). What these report becomes an event here, and the
 * communicator does what is asked for (comm_run.c):
 *
 *	handler's message()	inc_term_message()
 *	handler's sent()	inc_term_sent()
 *	handler's lost()	inc_term_lost()
 *	engine's check_port()	inc_term_port()
 *
 *	INC_TERM_DO_SEND	send() on the peer's channel
 *	INC_TERM_DO_RECEIVE	post() on every channel
 *	INC_TERM_DO_RELEASE	the buffer goes back to the pool
 *	INC_TERM_DO_REDUCE	inc_term_reduce()
 *	INC_TERM_DO_REPORT, _END	a notice, by inc_term_describe()
 *	INC_TERM_DO_PORT_LOST	a notice that names the port
 *
 * Buffers are the endpoints', where messages are received. One that comes with a message is the
 * node's until it is released, once, and the device's meanwhile where it is sent from: results are
 * made in a buffer that they are made of, so that there are no others. Each peer has as many
 * receives posted at most as there are slots; the next one when all peers have acknowledged a
 * result and its slot is free. So a slow peer stops the others by their windows, and nothing grows:
 * slots times peers buffers are all that a communicator can hold.
 */
#ifndef INC_TERM_NODE_H
#define INC_TERM_NODE_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/base/err.h"
#include "lib/conf/comm_conf.h"
#include "lib/conf/ranks.h"
#include "lib/proto/maps.h"
#include "userspace/call.h"
#include "userspace/engine.h"

/* Posted with each peer: two windows. */
#define INC_TERM_MAX_RECEIVES (2 * INC_MAX_SLOTS)

struct inc_term_child {
	bool is_switch;
	struct inc_ranks ranks; /* behind it: a host's own */
};

struct inc_term_conf {
	uint32_t communicator; /* the controller's number */
	uint32_t receives;     /* posted with each peer, and slots: a power of two */
	bool has_parent;
	uint32_t n_children;
	const struct inc_term_child *child; /* in the order in which floats are added */
};

/* A peer is a child, by its place, or the parent: n_children. */
struct inc_term;

/* Why a peer's connection or the communicator ends, or is reported.
 * _(NAME, name, event, syndrome, text): event: as in docs/control.md; syndrome: of the NAK that the
 * switch sent or received; text: what the peer did, with %llu for the message's number */
/* clang-format off */
#define INC_TERM_REASONS(_) \
	_(MISMATCH, mismatch, "mismatch", INC_AETH_NAK_OPERATION, \
	  "called something else as message %llu") \
	_(OUT_OF_TURN, out_of_turn, "mismatch", INC_AETH_NAK_OPERATION, \
	  "sent message %llu out of turn") \
	/* what a connection can break for */ \
	_(INVALID, invalid, "connection_error", INC_AETH_NAK_INVALID, \
	  "sent an invalid request as message %llu") \
	_(REFUSED, refused, "peer_nak", INC_AETH_NAK_INVALID, "refused message %llu") \
	_(SILENT, silent, "unresponsive", INC_AETH_NAK_OPERATION, \
	  "has not acknowledged message %llu") \
	_(ENDED_THERE, ended_there, "ended", INC_AETH_NAK_OPERATION, \
	  "says that the communicator has ended there (message %llu)") \
	/* the switch's own end: its device or port has failed */ \
	_(CUT, cut, "connection_error", INC_AETH_NAK_OPERATION, \
	  "has no connection to this switch any more (message %llu)")
/* clang-format on */

enum inc_term_reason {
#define _(NAME, name, event, syndrome, text) INC_TERM_##NAME,
	INC_TERM_REASONS(_)
#undef _
};

struct inc_term_reason_info {
	const char *name, *event, *text;
	uint8_t syndrome;
};
extern const struct inc_term_reason_info inc_term_reasons[];

enum inc_term_do {
	/* buffer = source[0] op source[1] op ... , elements of desc, length bytes each. buffer is
	 * source[0]. Is done before the next action is asked for. */
	INC_TERM_DO_REDUCE,
	INC_TERM_DO_SEND,    /* buffer is NULL where length is 0 */
	INC_TERM_DO_RELEASE, /* the node is done with buffer */
	INC_TERM_DO_RECEIVE,
	INC_TERM_DO_REPORT, /* a peer is unresponsive; the communicator goes on */
	/* The switch's own port to peer is lost, or is down and needed, and has been so for
	 * INC_PORT_LOST_S. The communicator goes on. */
	INC_TERM_DO_PORT_LOST,
	/* The communicator is over: connections are to end, what is being sent comes back by
	 * inc_term_sent(), whether or not it went out. Only RELEASE follows. */
	INC_TERM_DO_END,
};

struct inc_term_action {
	enum inc_term_do what;
	uint32_t peer;   /* SEND, PORT_LOST */
	uint64_t number; /* of the message that it is about */
	void *buffer;
	uint32_t length;
	bool has_desc;             /* SEND: desc is its immediate */
	uint32_t desc;             /* INC_DESC */
	const void *const *source; /* REDUCE: n_sources, 2 or more */
	uint32_t n_sources;
	enum inc_term_reason reason; /* TELL, END; with number: */
	uint64_t children;           /*   a bit for each that it is about; 0: the parent */
};

/* A message as it has come. */
struct inc_term_message {
	bool has_desc; /* desc came as its immediate; else it is that of the message before */
	uint32_t desc;
	uint32_t length; /* bytes */
	void *buffer;    /* where it is; NULL is allowed where length is 0 */
};

/*
 * -EINVAL: no children, too many, receives not a power of two, a rank behind two children or a
 * child without ranks. The endpoints post so many receives with each peer before anything is sent.
 */
int inc_term_new(const struct inc_term_conf *conf, struct inc_term **out, struct inc_err *err);
void inc_term_free(struct inc_term *t);

/*
 * Events. After each of them the actions are taken, all of them, before the next one: -EBUSY.
 * -EINVAL: there is no such peer or reason, or nothing of that number is being sent to it. Neither
 * changes anything; both are errors of the caller.
 */
/* number: of messages of this peer. The buffer is the node's now, also after the end. */
int inc_term_message(struct inc_term *t, uint32_t peer, uint64_t number,
		     const struct inc_term_message *m);
/* The peer has acknowledged message number, or never will because its channel was shut: the buffer
 * is not read any more. Messages come here in the order in which they were sent. */
int inc_term_sent(struct inc_term *t, uint32_t peer, uint64_t number);
/* The peer's connection is broken, which ends the communicator. reason: from INVALID on. */
int inc_term_lost(struct inc_term *t, uint32_t peer, enum inc_term_reason reason);
/* The node has no clock: it learns the time here, so the figures of who is waited for and who is
 * silent are as exact as these calls are frequent. Time between two calls that are further apart
 * than INC_AWAKE_STEP_NS is not held against a peer, for this process stood still meanwhile. */
int inc_term_tick(struct inc_term *t, uint64_t now_ns);

/* Reports the condition of the switch's own port to a peer. While the port is not up, the node
 * does not report the peer as unresponsive. This asks for no action, so it may come between any two
 * calls. */
void inc_term_port(struct inc_term *t, uint32_t peer, enum inc_port_condition condition);

/* The next thing to do; false: there is none. What it points to stands until the next event. */
bool inc_term_next(struct inc_term *t, struct inc_term_action *out);

/* What a TELL or an END is about, for struct inc_notice (userspace/engine.h). */
struct inc_term_report {
	const char *event;
	uint32_t n_ranks;                      /* 0: the parent alone */
	uint32_t ranks[INC_COMM_MAX_CHILDREN]; /* of a switch, the lowest behind it */
	char text[INC_CALL_TEXT];              /* one line */
};
void inc_term_describe(const struct inc_term *t, const struct inc_term_action *action,
		       struct inc_term_report *out);

/*
 * Figures, from which the engine fills those of userspace/engine.h: all count messages, where an
 * endpoint knows its packets.
 */
struct inc_term_figures {
	uint64_t results;  /* made, or passed on from the parent */
	uint64_t partials; /* sent to the parent */
	bool ended;
};
void inc_term_figures(const struct inc_term *t, struct inc_term_figures *out);

struct inc_term_peer_figures {
	uint32_t rank;         /* the lowest behind it; the parent's: the lowest below this node */
	uint64_t received;     /* taken of it */
	uint64_t sent;         /* to it */
	uint64_t acknowledged; /* of them */
	bool unresponsive;     /* has been told of, and not been heard since */
};
/* peer: one that there is. */
void inc_term_peer_figures(const struct inc_term *t, uint32_t peer,
			   struct inc_term_peer_figures *out);

/* The oldest message that some children have given and that has no result yet. */
struct inc_term_waiting {
	uint64_t number;
	uint64_t arrived;    /* a bit per child */
	bool up;             /* all have given: it waits for the parent */
	uint64_t seen_at_ns; /* the first tick that saw it so; 0: none has */
};
/* False where nobody waits for anybody. */
bool inc_term_waiting(const struct inc_term *t, struct inc_term_waiting *out);

#endif
