/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdbool.h>
#include "hostlib/connect/state.h"

#define DO(NAME) CONNECT_DO(NAME)

/* Every end leaves nothing behind; what is not there is easily stopped. */
#define END (DO(STOP_CLOCK) | DO(HANG_UP) | DO(STOP))

/* Before the owner has a socket: it hears that there will be none. */
#define GIVE_UP                                       \
	{                                             \
		CONNECT_FAILED, END | DO(TELL_FAILED) \
	}
/* It has one: its next call says so. */
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
	bool there;
};

#define ON(EVENT, ...) [CONNECT_EVENT_##EVENT] = {.step = __VA_ARGS__, .there = true}

static const struct entry table[CONNECT_N_STATES][CONNECT_N_EVENTS] =
	{
		[CONNECT_NEW] =
			{
				ON(OPEN, {CONNECT_QUERYING, DO(SEND_QUERY)}),
				ON(ASKED, {CONNECT_SEEKING, DO(MAKE_FOR_PEER) | DO(RECEIVE)}),
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
				ON(CONNECTED, {CONNECT_AIMING, DO(RECEIVE)}),
				ON(TIMEOUT, GIVE_UP),
				ON(LOST, GIVE_UP),
				ON(FAILED, GIVE_UP),
				ON(CLOSE, FINISH),
			},
		/* The service has answered: from here on neither side needs the TCP connection, and
		 * whether the service is still there the first message tells. */
		[CONNECT_AIMING] =
			{
				ON(CAN_RECEIVE, {CONNECT_PROBING,
						 DO(POST_RECEIVES) | DO(SEND) | DO(POST_PROBE)}),
				ON(TIMEOUT, GIVE_UP),
				ON(FAILED, GIVE_UP),
				ON(CLOSE, FINISH),
			},
		/* The service may hang up. Its close says that the first message has come there,
		 * whose completion it may overtake; what it has sent before is the owner's to read.
		 */
		[CONNECT_PROBING] =
			{
				ON(PROBED,
				   {CONNECT_READY, DO(STOP_CLOCK) | DO(HANG_UP) | DO(TELL_READY)}),
				ON(PEER_CLOSED, {CONNECT_CLOSED, END | DO(TELL_READY)}),
				ON(TIMEOUT, GIVE_UP),
				ON(FAILED, GIVE_UP),
				ON(CLOSE, FINISH),
			},
		/* a client that hangs up now has no answer, and will not send */
		[CONNECT_SEEKING] =
			{
				ON(CAN_RECEIVE,
				   {CONNECT_ANSWERING, DO(POST_RECEIVES) | DO(SEND_ANSWER)}),
				ON(TIMEOUT, GIVE_UP),
				ON(LOST, GIVE_UP),
				ON(FAILED, GIVE_UP),
				ON(CLOSE, FINISH),
			},
		/* the first message may overtake word that the answer is out */
		[CONNECT_ANSWERING] =
			{
				ON(ANSWERED, {CONNECT_ACCEPTED, 0}),
				ON(MESSAGE,
				   {CONNECT_READY,
				    DO(SEND) | DO(STOP_CLOCK) | DO(HANG_UP) | DO(TELL_READY)}),
				ON(PEER_CLOSED, GIVE_UP),
				ON(TIMEOUT, GIVE_UP),
				ON(LOST, GIVE_UP),
				ON(FAILED, GIVE_UP),
				ON(CLOSE, FINISH),
			},
		/* a client that hangs up now may have done so because it is ready: the time decides
		 */
		[CONNECT_ACCEPTED] =
			{
				ON(MESSAGE,
				   {CONNECT_READY,
				    DO(SEND) | DO(STOP_CLOCK) | DO(HANG_UP) | DO(TELL_READY)}),
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
		/* Two that close at once: who hears the other's close has all that the other has
		 * sent, as the close came behind it, and ends. What it has sent itself may not have
		 * arrived, and does not any more: to wait for that would be to wait for a side that
		 * may have ended, too, and acknowledges nothing then. */
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

	return e->there ? e->step : (struct connect_step){from, 0};
}

bool connect_follow(enum connect_state *state, enum connect_event event, connect_act act, void *arg)
{
	const struct connect_step step = connect_next(*state, event);
	enum connect_action_bit action;

	for (action = 0; action < CONNECT_ACTION_TELL_READY; action++)
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
