/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kinds of events that a switch reports to its log, to queries and to the controller, one row
 * for each (docs/control.md, "event"). The switch and the controller store a kind as its number.
 * The name stands in messages, logs and metrics only. Events of the data path have kinds of their
 * own (lib/proto/maps.h).
 */
#ifndef INC_EVENT_KIND_H
#define INC_EVENT_KIND_H

/* The object that events of a kind are about, and which is at fault if there is a failure. */
enum inc_event_about {
	/* a peer: the ranks that the event names; if it names none, the parent */
	INC_EVENT_ABOUT_PEER,
	/* a port of the switch; if the event's communicator is 0, the event is about the port
	 * alone */
	INC_EVENT_ABOUT_PORT,
	INC_EVENT_ABOUT_SWITCH, /* the switch itself */
};

/* The rows: _(NAME, name, code, about, text). code is the error with which the controller ends the
 * communicator of such an event; 0: the controller does not end it because of this event alone. */
#define INC_EVENT_KINDS(_)                                                                        \
	_(MISMATCH, mismatch, EREMOTEIO, PEER, "ranks have called different collectives")         \
	_(CONNECTION_ERROR, connection_error, ECONNABORTED, PEER,                                 \
	  "a peer has sent an invalid packet, or the connection to it has failed")                \
	_(PEER_NAK, peer_nak, ECONNABORTED, PEER, "a peer has refused a packet with a fatal NAK") \
	_(UNRESPONSIVE, unresponsive, ETIMEDOUT, PEER,                                            \
	  "a peer does not acknowledge what the switch has sent to it")                           \
	_(PORT_LOST, port_lost, ENETDOWN, PORT,                                                   \
	  "a port of the switch is lost, or it is down and a communicator waits for it")          \
	_(PORT_BACK, port_back, 0, PORT, "a port of the switch works again")                      \
	_(PORT_UNFIT, port_unfit, 0, PORT,                                                        \
	  "a port is down, has no carrier, or has another MTU or address than a communicator "    \
	  "needs, or a peer there does not answer ARP requests")                                  \
	_(PORT_FIT, port_fit, 0, PORT, "the communicator's ports are as it needs them again")     \
	_(UNDELIVERED, undelivered, 0, PEER,                                                      \
	  "nearly nothing that the switch sends to a peer arrives at once")                       \
	_(DELIVERED, delivered, 0, PEER, "what the switch sends to that peer arrives again")      \
	_(ENDED, ended, 0, PEER,                                                                  \
	  "a neighbour switch has ended the communicator, and that switch reports the cause")     \
	_(STOPPED, stopped, ENETRESET, SWITCH,                                                    \
	  "the switch's daemon stops, and the communicator ends with it")

enum inc_event_kind {
#define _(NAME, name, code, about, text) INC_EVENT_KIND_##NAME,
	INC_EVENT_KINDS(_)
#undef _
		INC_EVENT_KIND_OTHER, /* a kind whose name the receiver does not know */
	INC_EVENT_KIND_MAX
};

/* Whether an event of this kind is a notice, which ends no communicator. The controller passes it
 * to the communicator's members, which add it to the error if a time limit ends their call later.
 */
static inline _Bool inc_event_is_notice(enum inc_event_kind kind)
{
	return kind == INC_EVENT_KIND_PORT_UNFIT || kind == INC_EVENT_KIND_PORT_FIT ||
	       kind == INC_EVENT_KIND_UNDELIVERED || kind == INC_EVENT_KIND_DELIVERED;
}

/* The name of INC_EVENT_KIND_OTHER in logs and metrics. */
#define INC_EVENT_OTHER "other"

struct inc_event_info {
	const char *name;
	int code;
	enum inc_event_about about;
	const char *text;
};

extern const struct inc_event_info inc_event_info[INC_EVENT_KIND_MAX];
/* The names of all kinds for a schema (schema.h), without that of INC_EVENT_KIND_OTHER. */
extern const char *const inc_event_names[];

#endif
