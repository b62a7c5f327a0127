/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The states of a connection, of both sides, as a table. An event in a state leads to another state
 * and to actions. Nothing here uses a device or a TCP connection. The actions are carried out by
 * client.c, by accept.c (the service's side), and by socket_progress.c once the owner has the
 * socket. They report the outcome as the next event. All functions may be called on any thread.
 *
 *	client	NEW -> QUERYING -> ASKING -> AIMING -> PROBING -> READY
 *	service	NEW -> SEEKING -> ANSWERING -> ACCEPTED -> READY
 *	both	READY -> CLOSING -> CLOSED, and FAILED from any state before CLOSED
 *
 * AIMING and SEEKING last until the queue pair is in RTR. If an action fails, CONNECT_EVENT_FAILED
 * follows instead of the event that was expected. In CLOSED and FAILED no event has an effect; the
 * owner can only destroy the connection.
 */
#ifndef INC_CONNECT_STATE_H
#define INC_CONNECT_STATE_H

#include <stdbool.h>
#include <stdint.h>

#define CONNECT_STATES(_)                                        \
	_(NEW, "new")                                            \
	_(QUERYING, "asks which ports there are")  /* client */  \
	_(ASKING, "asks for a queue pair")         /* client */  \
	_(AIMING, "looks for the service's port")  /* client */  \
	_(PROBING, "sends its first message")      /* client */  \
	_(SEEKING, "looks for the client's port")  /* service */ \
	_(ANSWERING, "answers")                    /* service */ \
	_(ACCEPTED, "waits for the first message") /* service */ \
	_(READY, "ready")                                        \
	_(CLOSING, "closing")                                    \
	_(CLOSED, "closed")                                      \
	_(FAILED, "failed")

#define CONNECT_EVENTS(_)                                                       \
	_(OPEN, "the owner asks for a connection")                /* client */  \
	_(DEVICES, "the service has sent its list of ports")      /* client */  \
	_(CONNECTED, "the service has made a queue pair")         /* client */  \
	_(PROBED, "the first message has arrived at the service") /* client */  \
	_(ASKED, "a client asks for a queue pair")                /* service */ \
	_(ANSWERED, "the answer was written")                     /* service */ \
	_(CAN_RECEIVE, "the queue pair can receive (RTR)")                      \
	_(MESSAGE, "a message from the peer has arrived")                       \
	_(PEER_CLOSED, "the peer's close has arrived")                          \
	_(CLOSE, "the owner closes")                                            \
	_(DRAINED, "all messages and the close have arrived at the peer")       \
	_(TIMEOUT, "a time limit has passed")                                   \
	_(LOST, "the TCP connection has ended")                                 \
	_(FAILED, "an action or the socket has failed")

/* The actions of the state machine. Those of one event are carried out in this order. */
#define CONNECT_ACTIONS(_)                                                           \
	_(SEND_QUERY, "ask the service for its ports; the time limit begins")        \
	_(MAKE, "choose ports, make the queue pair (INIT), ask the service for one") \
	_(MAKE_FOR_PEER, "make the queue pair (INIT) as asked; a time limit begins") \
	_(ENTER_RTR, "begin to move the queue pair to RTR, so that it can receive")  \
	_(POST_RECEIVES, "post the buffers for messages")                            \
	_(SEND_ANSWER, "answer; a new time limit begins")                            \
	_(ENTER_RTS, "move the queue pair to RTS, so that it can send")              \
	_(POST_PROBE, "send the first message")                                      \
	_(STOP_CLOCK, "stop the time limit")                                         \
	_(HANG_UP, "close the TCP connection")                                       \
	_(POST_CLOSE, "send the close; its time limit begins")                       \
	_(STOP, "move the queue pair to ERR, so that the device uses no memory")     \
	_(REPORT_READY, "give the socket to the owner")                              \
	_(REPORT_FAILED, "give the error to the owner")

enum connect_state {
#define CONNECT_STATE_(NAME, text) CONNECT_##NAME,
	CONNECT_STATES(CONNECT_STATE_)
#undef CONNECT_STATE_
		CONNECT_N_STATES
};

enum connect_event {
#define CONNECT_EVENT_(NAME, text) CONNECT_EVENT_##NAME,
	CONNECT_EVENTS(CONNECT_EVENT_)
#undef CONNECT_EVENT_
		CONNECT_N_EVENTS
};

enum connect_action_bit {
#define CONNECT_ACTION_(NAME, text) CONNECT_ACTION_##NAME,
	CONNECT_ACTIONS(CONNECT_ACTION_)
#undef CONNECT_ACTION_
		CONNECT_N_ACTIONS
};

#define CONNECT_DO(NAME) (1u << CONNECT_ACTION_##NAME)

struct connect_step {
	enum connect_state to;
	uint32_t actions; /* the actions to carry out: a set of CONNECT_DO() bits */
};

/* Returns the new state and the actions after an event. An event that means nothing in a state
 * changes nothing and has no actions. */
struct connect_step connect_next(enum connect_state from, enum connect_event event);

/* A function that carries out one action of a connection. It returns 0 or -errno. REPORT_READY and
 * REPORT_FAILED cannot fail, and may free the connection. */
typedef int (*connect_act)(void *arg, enum connect_action_bit action);

/*
 * Passes an event to a connection's state machine: carries out its actions and sets the new state.
 * If an action fails, CONNECT_EVENT_FAILED is handled in the old state instead. The new state is
 * set after the other actions and before REPORT_READY or REPORT_FAILED. Returns true if one of
 * these two was carried out, because the memory of *state may be freed then.
 */
bool connect_follow(enum connect_state *state, enum connect_event event, connect_act act,
		    void *arg);

const char *connect_state_text(enum connect_state state);
const char *connect_event_text(enum connect_event event);

#endif
