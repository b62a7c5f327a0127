/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Life of a connection, of both sides, as a table: what happens in a state, what state follows, and
 * what has to be done. Nothing here touches a device or a socket: client.c, accept.c (the service's
 * side) and, from the hand-over on, socket_progress.c do what they are told, and say what came of
 * it as the next event. Pure. Any thread.
 *
 *	client	NEW -> QUERYING -> ASKING -> AIMING -> PROBING -> READY
 *	service	NEW -> SEEKING -> ANSWERING -> ACCEPTED -> READY
 *	both	READY -> CLOSING -> CLOSED, and FAILED from anywhere before CLOSED
 *
 * What an action needs that can fail ends with CONNECT_EVENT_FAILED instead of what was hoped for.
 * In CLOSED and FAILED nothing happens any more but that the owner takes it down.
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

#define CONNECT_EVENTS(_)                                                   \
	_(OPEN, "the owner wants a connection")               /* client */  \
	_(DEVICES, "the service has said which ports it has") /* client */  \
	_(CONNECTED, "the service has made a queue pair")     /* client */  \
	_(PROBED, "the first message has arrived there")      /* client */  \
	_(ASKED, "a client asks for a queue pair")            /* service */ \
	_(ANSWERED, "the answer has gone out")                /* service */ \
	_(CAN_RECEIVE, "the queue pair can receive (RTR)")                  \
	_(MESSAGE, "a message of the peer's has come")                      \
	_(PEER_CLOSED, "the peer's close has come")                         \
	_(CLOSE, "the owner closes")                                        \
	_(DRAINED, "all that was sent has arrived, the close too")          \
	_(TIMEOUT, "it took too long")                                      \
	_(LOST, "the TCP connection is over")                               \
	_(FAILED, "something went wrong")

/* In the order in which they are to be done. */
#define CONNECT_ACTIONS(_)                                                         \
	_(SEND_QUERY, "ask which ports there are, and begin to count the time")    \
	_(MAKE, "choose the ports, make the queue pair (INIT), ask for the other") \
	_(MAKE_FOR_PEER, "make the queue pair (INIT) as asked, begin to count")    \
	_(RECEIVE, "begin to let the queue pair receive (RTR)")                    \
	_(POST_RECEIVES, "give it the buffers for messages")                       \
	_(SEND_ANSWER, "answer, and count the time anew")                          \
	_(SEND, "let it send (RTS)")                                               \
	_(POST_PROBE, "send the first message")                                    \
	_(STOP_CLOCK, "the time does not count any more")                          \
	_(HANG_UP, "close the TCP connection")                                     \
	_(POST_CLOSE, "send the close, and begin to count the time it has")        \
	_(STOP, "let the device touch no memory any more (ERR)")                   \
	_(TELL_READY, "the owner gets the socket")                                 \
	_(TELL_FAILED, "the owner hears why there is none, or no more")

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
	uint32_t actions; /* CONNECT_DO() */
};

/* What follows. What means nothing in a state leaves it, without actions. */
struct connect_step connect_next(enum connect_state from, enum connect_event event);

/* Carries out one action: 0 or -errno. What the owner is told cannot fail, and may free all. */
typedef int (*connect_act)(void *arg, enum connect_action_bit action);

/*
 * The event with all that follows of it. An action that fails ends it as CONNECT_EVENT_FAILED does
 * in the state that was; a state is entered once its actions are done, and before the owner is told
 * of it. True where the owner was told: what state is in may be gone.
 */
bool connect_follow(enum connect_state *state, enum connect_event event, connect_act act,
		    void *arg);

const char *connect_state_text(enum connect_state state);
const char *connect_event_text(enum connect_event event);

#endif
