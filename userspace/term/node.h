/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Termination mode: the state of one communicator at one switch of its tree. The caller passes
 * events to the node and performs the actions that the node returns. The node uses no socket, no
 * device and no clock, so that tests can try every order of events (selftests/term).
 *
 * Between the switch and each peer runs a reliable connection that carries whole messages. Message
 * m of every child is its contribution to result m, and message m to every child is result m. A
 * result mirrors the child's own message: it has the descriptor as immediate if that message had
 * it (docs/protocol.md, where a packet is what a message is here). Below the root the partial sum
 * is sent to the parent as message m, always with the descriptor, and the parent's message m is
 * result m. Message numbers count from 0 in 64 bits.
 *
 * The caller is the communicator (comm.h), on the thread that it belongs to. Its channels
 * (lib/channel) send and receive. Their reports become events of the node, and the communicator
 * performs the actions (comm_run.c):
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
 * Endpoints receive messages in buffers. The buffer of a message belongs to the node until the
 * node releases it, once. Results are made in a buffer of one of their contributions, from which
 * the device then sends, so there are no other buffers. Each peer has at most as many receives
 * posted as there are slots. The next one is posted when all peers have acknowledged a result and
 * its slot is free. So a slow peer stops the others by their windows, and memory is bounded: a
 * communicator has at most as many buffers as slots times peers.
 */
#ifndef INC_TERM_NODE_H
#define INC_TERM_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/base/err.h"
#include "lib/conf/comm_conf.h"
#include "lib/conf/event_kind.h"
#include "lib/conf/ranks.h"
#include "lib/proto/maps.h"
#include "userspace/call.h"
#include "userspace/engine.h"

/* Limit of the receives that are posted with each peer, which suffices for two windows. */
#define INC_TERM_MAX_RECEIVES (2 * INC_MAX_SLOTS)

struct inc_term_child {
	bool is_switch;
	struct inc_ranks ranks; /* the ranks behind the child; for a host its own rank */
};

struct inc_term_conf {
	uint32_t communicator; /* number of the communicator at the controller */
	/* number of receives that are posted with each peer, and number of slots; a power of two */
	uint32_t receives;
	bool has_parent;
	uint32_t n_children;
	/* the children, in the order in which floats are added */
	const struct inc_term_child *child;
};

/* A node: the state of one communicator at one switch. Its functions name a peer by the number of a
 * child, or by n_children for the parent. */
struct inc_term;

/* The reasons for which a communicator ends or a peer is reported: _(NAME, name, kind, syndrome,
 * text). The kind is that of the event that reports it. The syndrome is that of the NAK that the
 * switch has sent or received. The text says what the peer has done, with %llu for the message's
 * number. */
/* clang-format off */
#define INC_TERM_REASONS(_) \
	_(MISMATCH, mismatch, MISMATCH, INC_AETH_NAK_OPERATION, \
	  "called something else as message %llu") \
	_(OUT_OF_TURN, out_of_turn, MISMATCH, INC_AETH_NAK_OPERATION, \
	  "sent message %llu out of turn") \
	/* a connection has failed */ \
	_(INVALID, invalid, CONNECTION_ERROR, INC_AETH_NAK_INVALID, \
	  "sent an invalid request as message %llu") \
	_(REFUSED, refused, PEER_NAK, INC_AETH_NAK_INVALID, "refused message %llu") \
	_(SILENT, silent, UNRESPONSIVE, INC_AETH_NAK_OPERATION, \
	  "has not acknowledged message %llu") \
	_(ENDED_THERE, ended_there, ENDED, INC_AETH_NAK_OPERATION, \
	  "says that the communicator has ended there (message %llu)") \
	/* this end of the connection has failed, by the switch's device, port or memory */ \
	_(CUT, cut, CONNECTION_ERROR, INC_AETH_NAK_OPERATION, \
	  "has no connection to this switch any more (message %llu)")
/* clang-format on */

enum inc_term_reason {
#define _(NAME, name, kind, syndrome, text) INC_TERM_##NAME,
	INC_TERM_REASONS(_)
#undef _
};

struct inc_term_reason_info {
	const char *name, *text;
	enum inc_event_kind kind;
	uint8_t syndrome;
};
extern const struct inc_term_reason_info inc_term_reasons[];

enum inc_term_do {
	/* The caller sets buffer = source[0] op source[1] op ..., where operator and type are those
	 * of desc, and each source has length bytes. buffer is source[0]. The caller does this
	 * before it asks for the next action. */
	INC_TERM_DO_REDUCE,
	/* the caller sends buffer to the peer; buffer is NULL if length is 0 */
	INC_TERM_DO_SEND,
	/* the caller puts buffer back into its pool, because the node does not need it any more */
	INC_TERM_DO_RELEASE,
	INC_TERM_DO_RECEIVE,
	/* the caller reports that a peer is unresponsive; the communicator goes on */
	INC_TERM_DO_REPORT,
	/* The caller reports that the switch's own port to the peer has been lost, or down and
	 * needed, for INC_PORT_LOST_S. The communicator goes on. */
	INC_TERM_DO_PORT_LOST,
	/* The communicator has ended. The caller closes its connections, and calls inc_term_sent()
	 * for each message that is not acknowledged, whether or not it was sent. Only RELEASE
	 * follows. */
	INC_TERM_DO_END,
};

struct inc_term_action {
	enum inc_term_do what;
	uint32_t peer;   /* peer of SEND and PORT_LOST */
	uint64_t number; /* number of the message */
	void *buffer;
	uint32_t length;
	bool has_desc;             /* SEND: the message has desc as its immediate */
	uint32_t desc;             /* INC_DESC */
	const void *const *source; /* REDUCE: the sources, n_sources of them, which is 2 or more */
	uint32_t n_sources;
	enum inc_term_reason reason; /* reason of REPORT and END */
	/* REPORT and END: mask of the children that are concerned; 0: the parent is */
	uint64_t children;
};

/* A message that has arrived. */
struct inc_term_message {
	/* the message had desc as its immediate; otherwise the descriptor of the peer's message
	 * before it applies */
	bool has_desc;
	uint32_t desc;
	uint32_t length; /* length in bytes */
	void *buffer;    /* the message's data; may be NULL if length is 0 */
};

/*
 * Creates a node. Returns -EINVAL if there are no children or too many, receives is not a power of
 * two, a rank is behind two children, or a child has no ranks. The caller posts conf->receives
 * receives with each peer before anything is sent.
 */
int inc_term_new(const struct inc_term_conf *conf, struct inc_term **out, struct inc_err *err);
void inc_term_free(struct inc_term *t);

/*
 * The next four functions pass an event to the node. After each event the caller performs all
 * actions. Before that, another event returns -EBUSY. -EINVAL: there is no such peer or reason, or
 * the peer's oldest unacknowledged message has another number. Both are errors of the caller, and
 * change nothing.
 */
/* Reports that a message of the peer has arrived. number: its number among this peer's messages.
 * The node owns the buffer from now on, also after the end of the communicator. */
int inc_term_message(struct inc_term *t, uint32_t peer, uint64_t number,
		     const struct inc_term_message *m);
/* Reports that the peer has acknowledged a message, or never will, because its channel was closed.
 * The device does not read the message's buffer any more. The caller reports messages in the order
 * in which they were sent. */
int inc_term_sent(struct inc_term *t, uint32_t peer, uint64_t number);
/* Reports that the connection to a peer has failed, which ends the communicator. reason:
 * INC_TERM_INVALID, or one behind it in INC_TERM_REASONS. */
int inc_term_lost(struct inc_term *t, uint32_t peer, enum inc_term_reason reason);
/* Sets the time, because the node has no clock. How long it and its peers have waited is as exact
 * as these calls are frequent. If two calls are further apart than INC_AWAKE_STEP_NS, this process
 * stood still, so the time between them does not count against a peer. */
int inc_term_tick(struct inc_term *t, uint64_t now_ns);

/* Returns the time of the last tick, by a clock that leaves out the time in which this process
 * stood still. */
uint64_t inc_term_awake_ns(const struct inc_term *t);

/* Stores the condition of the switch's own port on the way to a peer. While the port is not up, the
 * node does not report the peer as unresponsive. This requests no action, so it may be called
 * between any two other calls. */
void inc_term_port(struct inc_term *t, uint32_t peer, enum inc_port_condition condition);

/* Returns the next action, or false if there is none. Pointers in it hold until the next event. */
bool inc_term_next(struct inc_term *t, struct inc_term_action *out);

/* Fills out with the event of a REPORT or END action: kind, ranks, r and message. */
void inc_term_describe(const struct inc_term *t, const struct inc_term_action *action,
		       struct inc_msg_event *out);

/*
 * Figures of a node, from which the figures of a communicator (userspace/engine.h) are made. They
 * count messages, where the channels count packets.
 */
struct inc_term_figures {
	/* number of results that this node has made, or received from the parent */
	uint64_t results;
	uint64_t partials; /* number of partial sums sent to the parent */
	bool ended;
};
void inc_term_figures(const struct inc_term *t, struct inc_term_figures *out);

struct inc_term_peer_figures {
	/* lowest rank behind the peer; for the parent the lowest rank below this node */
	uint32_t rank;
	uint64_t received;     /* number of messages received from the peer */
	uint64_t sent;         /* number of messages sent to the peer */
	uint64_t acknowledged; /* number of sent messages that the peer has acknowledged */
	/* the peer was reported as unresponsive, and has acknowledged nothing since then */
	bool unresponsive;
};
/* Fills out with the figures of a peer, which must exist. */
void inc_term_peer_figures(const struct inc_term *t, uint32_t peer,
			   struct inc_term_peer_figures *out);

/* The message for which a node waits: the oldest one that has contributions of some children, and
 * no result yet. */
struct inc_term_waiting {
	uint64_t number;
	uint64_t arrived; /* mask with a bit for each child that has contributed */
	/* all children have contributed, and the node waits for the parent's result */
	bool up;
	/* time of the first tick at which the node waited for this message; 0: no tick has come
	 * since */
	uint64_t seen_at_ns;
};
/* Fills out with the message for which the node waits. Returns false if it waits for none. */
bool inc_term_waiting(const struct inc_term *t, struct inc_term_waiting *out);

/* --- the reduction that a node requests by INC_TERM_DO_REDUCE ---
 *
 * The function keeps no state, and may be called on any thread (arithmetic.c). */

/* In what form a communicator's elements are reduced. */
struct inc_term_form {
	/* floats are reduced as floats (docs/floats.md); if this is false, as the integers of their
	 * size. AND, OR and XOR work on the bits in either case */
	bool native_floats;
	bool swapped; /* the elements are not in this machine's byte order */
};

/*
 * Sets into = source[0] op source[1] op ..., always in this order. bytes: length of each source.
 * Operator and type are those of desc, which inc_desc_known() must accept. AVG adds, because the
 * ranks divide. n: 1 to INC_COMM_MAX_CHILDREN. into may be one of the sources.
 */
void inc_term_reduce(const struct inc_term_form *form, uint32_t desc, void *into,
		     const void *const *source, uint32_t n, size_t bytes);

#endif
