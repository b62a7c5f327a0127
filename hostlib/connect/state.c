/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdbool.h>
#include "hostlib/connect/state.h"

#define DO(NAME) CONNECT_DO(NAME)

/* The actions that end a connection. An action has no effect if there is nothing to stop. */
#define END (DO(STOP_CLOCK) | DO(HANG_UP) | DO(STOP))

/* The step after a failure while the owner has no socket yet. The owner receives the error. */
#define GIVE_UP                                         \
	{                                               \
		CONNECT_FAILED, END | DO(REPORT_FAILED) \
	}
/* The step after a failure when the owner has the socket. Its next call returns the error. */
#define BREAK                       \
	{                           \
		CONNECT_FAILED, END \
	}
#define FINISH                      \
	{                           \
		CONNECT_CLOSED, END \
	}

struct entry {
	struct connect_step step;
	bool defined;
};

#define ON(EVENT, ...) [CONNECT_EVENT_##EVENT] = {.step = __VA_ARGS__, .defined = true}

static const struct entry table[CONNECT_N_STATES][CONNECT_N_EVENTS] =
	{
		[CONNECT_NEW] =
			{
				ON(OPEN, {CONNECT_QUERYING, DO(SEND_QUERY)}),
				ON(ASKED, {CONNECT_SEEKING, DO(MAKE_FOR_PEER) | DO(ENTER_RTR)}),
				ON(FAILED, GIVE_UP),
				ON(CLOSE, FINISH),
			},
		[CONNECT_QUERYING] =
			{
				ON(DEVICES, {CONNECT_ASKING, DO(MAKE)}),
				ON(TIMEOUT, GIVE_UP),
				ON(LOST, GIVE_UP),
				ON(FAILED, GIVE_UP),
				ON(CLOSE, FINISH),
			},
		[CONNECT_ASKING] =
			{
				ON(CONNECTED, {CONNECT_AIMING, DO(ENTER_RTR)}),
				ON(TIMEOUT, GIVE_UP),
				ON(LOST, GIVE_UP),
				ON(FAILED, GIVE_UP),
				ON(CLOSE, FINISH),
			},
		/* In AIMING the loss of the TCP connection means nothing, because the service has
		 * answered. If the service has died, the client's first message will fail. */
		[CONNECT_AIMING] =
			{
				ON(CAN_RECEIVE,
				   {CONNECT_PROBING,
				    DO(POST_RECEIVES) | DO(ENTER_RTS) | DO(POST_PROBE)}),
				ON(TIMEOUT, GIVE_UP),
				ON(FAILED, GIVE_UP),
				ON(CLOSE, FINISH),
			},
		/* In PROBING the loss of the TCP connection means nothing, because the service may
		 * close it. A close from the peer proves that the first message has arrived, even
		 * if its completion comes later. Messages that the peer sent before its close are
		 * for the owner to read. */
		[CONNECT_PROBING] =
			{
				ON(PROBED, {CONNECT_READY,
					    DO(STOP_CLOCK) | DO(HANG_UP) | DO(REPORT_READY)}),
				ON(PEER_CLOSED, {CONNECT_CLOSED, END | DO(REPORT_READY)}),
				ON(TIMEOUT, GIVE_UP),
				ON(FAILED, GIVE_UP),
				ON(CLOSE, FINISH),
			},
		/* In SEEKING the client has no answer yet. If it closes the TCP connection, it will
		 * never send a first message, so the connection fails. */
		[CONNECT_SEEKING] =
			{
				ON(CAN_RECEIVE,
				   {CONNECT_ANSWERING, DO(POST_RECEIVES) | DO(SEND_ANSWER)}),
				ON(TIMEOUT, GIVE_UP),
				ON(LOST, GIVE_UP),
				ON(FAILED, GIVE_UP),
				ON(CLOSE, FINISH),
			},
		/* In ANSWERING the client's first message may arrive before the event that the
		 * answer was written. */
		[CONNECT_ANSWERING] =
			{
				ON(ANSWERED, {CONNECT_ACCEPTED, 0}),
				ON(MESSAGE,
				   {CONNECT_READY, DO(ENTER_RTS) | DO(STOP_CLOCK) |
							   DO(HANG_UP) | DO(REPORT_READY)}),
				ON(PEER_CLOSED, GIVE_UP),
				ON(TIMEOUT, GIVE_UP),
				ON(LOST, GIVE_UP),
				ON(FAILED, GIVE_UP),
				ON(CLOSE, FINISH),
			},
		/* In ACCEPTED the loss of the TCP connection means nothing, because the client may
		 * be READY already. Only the time limit decides. */
		[CONNECT_ACCEPTED] =
			{
				ON(MESSAGE,
				   {CONNECT_READY, DO(ENTER_RTS) | DO(STOP_CLOCK) |
							   DO(HANG_UP) | DO(REPORT_READY)}),
				ON(PEER_CLOSED, GIVE_UP),
				ON(TIMEOUT, GIVE_UP),
				ON(FAILED, GIVE_UP),
				ON(CLOSE, FINISH),
			},
		[CONNECT_READY] =
			{
				ON(CLOSE, {CONNECT_CLOSING, DO(POST_CLOSE)}),
				ON(PEER_CLOSED, FINISH),
				ON(FAILED, BREAK),
			},
		/* In CLOSING both sides may close at once. The side that receives the peer's close
		 * then ends. It has received all that the other side sent, because the close comes
		 * last. Its own last messages may be lost. It cannot wait for their
		 * acknowledgments, because the other side may have ended, too. */
		[CONNECT_CLOSING] =
			{
				ON(DRAINED, FINISH),
				ON(PEER_CLOSED, FINISH),
				ON(TIMEOUT, FINISH),
				ON(FAILED, BREAK),
			},
};

struct connect_step connect_next(enum connect_state from, enum connect_event event)
{
	const struct entry *e = &table[from][event];

	return e->defined ? e->step : (struct connect_step){from, 0};
}

bool connect_follow(enum connect_state *state, enum connect_event event, connect_act act, void *arg)
{
	const struct connect_step step = connect_next(*state, event);
	enum connect_action_bit action;

	for (action = 0; action < CONNECT_ACTION_REPORT_READY; action++)
		if (step.actions & (1u << action) && act(arg, action))
			return connect_follow(state, CONNECT_EVENT_FAILED, act, arg);
	*state = step.to;
	for (; action < CONNECT_N_ACTIONS; action++)
		if (step.actions & (1u << action)) {
			act(arg, action);
			return true;
		}
	return false;
}

const char *connect_state_text(enum connect_state state)
{
	static const char *const text[] = {
#define TEXT(NAME, text) text,
		CONNECT_STATES(TEXT)
#undef TEXT
	};

	return text[state];
}

const char *connect_event_text(enum connect_event event)
{
	static const char *const text[] = {
#define TEXT(NAME, text) text,
		CONNECT_EVENTS(TEXT)
#undef TEXT
	};

	return text[event];
}
