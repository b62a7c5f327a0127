/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdbool.h>
#include "hostlib/connect/state.h"

#define DO(NAME) CONNECT_DO(NAME)

/* Before the owner has a socket: it hears that there will be none. */
#define GIVE_UP                                                                           \
	{                                                                                 \
		CONNECT_FAILED, DO(STOP_CLOCK) | DO(HANG_UP) | DO(STOP) | DO(TELL_FAILED) \
	}
/* It has one: its next call says so. */
#define BREAK                                             \
	{                                                 \
		CONNECT_FAILED, DO(STOP_CLOCK) | DO(STOP) \
	}

struct entry {
	struct connect_step step;
	bool there;
};

#define ON(EVENT, ...) [CONNECT_EVENT_##EVENT] = {.step = __VA_ARGS__, .there = true}

static const struct entry table[CONNECT_N_STATES][CONNECT_N_EVENTS] = {
	[CONNECT_NEW] =
		{
			ON(OPEN, {CONNECT_QUERYING, DO(SEND_QUERY)}),
			ON(ASKED, {CONNECT_ANSWERING,
				   DO(MAKE_FOR_PEER) | DO(POST_RECEIVES) | DO(SEND_ANSWER)}),
			ON(LOST, GIVE_UP),
			ON(FAILED, GIVE_UP),
		},
	[CONNECT_QUERYING] =
		{
			ON(DEVICES, {CONNECT_ASKING, DO(MAKE)}),
			ON(TIMEOUT, GIVE_UP),
			ON(LOST, GIVE_UP),
			ON(FAILED, GIVE_UP),
			ON(CLOSE, {CONNECT_CLOSED, DO(STOP_CLOCK) | DO(HANG_UP)}),
		},
	[CONNECT_ASKING] =
		{
			ON(CONNECTED, {CONNECT_PROBING, DO(RECEIVE) | DO(POST_RECEIVES) | DO(SEND) |
								DO(POST_PROBE)}),
			ON(TIMEOUT, GIVE_UP),
			ON(LOST, GIVE_UP),
			ON(FAILED, GIVE_UP),
			ON(CLOSE, {CONNECT_CLOSED, DO(STOP_CLOCK) | DO(HANG_UP) | DO(STOP)}),
		},
	/* the service has answered: it needs the TCP connection no more, and may hang up */
	[CONNECT_PROBING] =
		{
			ON(PROBED, {CONNECT_READY, DO(STOP_CLOCK) | DO(HANG_UP) | DO(TELL_READY)}),
			ON(PEER_CLOSED, GIVE_UP),
			ON(TIMEOUT, GIVE_UP),
			ON(FAILED, GIVE_UP),
			ON(CLOSE, {CONNECT_CLOSED, DO(STOP_CLOCK) | DO(HANG_UP) | DO(STOP)}),
		},
	/* the first message may overtake word that the answer is out */
	[CONNECT_ANSWERING] =
		{
			ON(ANSWERED, {CONNECT_ACCEPTED, 0}),
			ON(MESSAGE, {CONNECT_READY, DO(SEND) | DO(STOP_CLOCK) | DO(HANG_UP) |
							    DO(TELL_READY)}),
			ON(PEER_CLOSED, GIVE_UP),
			ON(TIMEOUT, GIVE_UP),
			ON(LOST, GIVE_UP),
			ON(FAILED, GIVE_UP),
			ON(CLOSE, {CONNECT_CLOSED, DO(STOP_CLOCK) | DO(HANG_UP) | DO(STOP)}),
		},
	/* a client that hangs up now may have done so because it is ready: the time decides */
	[CONNECT_ACCEPTED] =
		{
			ON(MESSAGE, {CONNECT_READY, DO(SEND) | DO(STOP_CLOCK) | DO(HANG_UP) |
							    DO(TELL_READY)}),
			ON(PEER_CLOSED, GIVE_UP),
			ON(TIMEOUT, GIVE_UP),
			ON(FAILED, GIVE_UP),
			ON(CLOSE, {CONNECT_CLOSED, DO(STOP_CLOCK) | DO(HANG_UP) | DO(STOP)}),
		},
	[CONNECT_READY] =
		{
			ON(CLOSE, {CONNECT_CLOSING, DO(POST_CLOSE)}),
			ON(PEER_CLOSED, {CONNECT_CLOSED, DO(STOP)}),
			ON(FAILED, BREAK),
		},
	/* two that close at once: each has all that the other one sent before its close */
	[CONNECT_CLOSING] =
		{
			ON(DRAINED, {CONNECT_CLOSED, DO(STOP_CLOCK) | DO(STOP)}),
			ON(PEER_CLOSED, {CONNECT_CLOSED, DO(STOP_CLOCK) | DO(STOP)}),
			ON(TIMEOUT, {CONNECT_CLOSED, DO(STOP)}),
			ON(FAILED, BREAK),
		},
};

struct connect_step connect_next(enum connect_state from, enum connect_event event)
{
	const struct entry *e = &table[from][event];

	return e->there ? e->step : (struct connect_step){from, 0};
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
