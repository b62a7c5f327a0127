/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/*
 * A client and a service (hostlib/connect/state.h) with all possible events between them, in every
 * order. TCP and RDMA are independent of each other, a completion and a message may be polled in
 * either order, and owners may close at any time. One case is not promised, and is counted here:
 * one side can be ready after the other has given up. The ready side notices that at its next
 * message or at inc_connect_socket_check(). No protocol can avoid this if the last message may be
 * lost.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "selftests/connect/model_side.h"

#define MAX_STATES (1u << 20)

enum { CLIENT, SERVICE };

/* Lines on the way on the TCP connection, or received and not yet processed by the program. */
enum {
	QUERY = 1 << 0, /* a query, which the client sends on the TCP connection */
	REQUEST = 1 << 1,
	DEVICES = 1 << 2,
	ANSWER = 1 << 3,
	/* the report that the service's answer has been sent, not yet processed by the service */
	WRITTEN = 1 << 4,
	CUT = 1 << 5,   /* the TCP connection has ended */
	BEGUN = 1 << 6, /* the client's owner has made its request, which happens only once */
	ASKED = 1 << 7,
};

/* Bits for the RDMA messages of one side. */
enum {
	/* on the wire: the first message, which is the client's probe or the service's data */
	FIRST = 1 << 0,
	CLOSING = 1 << 1,  /* on the wire: the close of this side */
	FIRST_IN = 1 << 2, /* the first message was received by the peer's device */
	CLOSE_IN = 1 << 3, /* the close was received by the peer's device */
	/* the completion of the first message has come, but was not polled yet */
	FIRST_OUT = 1 << 4,
	CLOSE_OUT = 1 << 5, /* the completion of the close has come, but was not polled yet */
	BROKEN = 1 << 6,    /* a failed completion has come, but was not polled yet */
	SENT = 1 << 7,      /* the service has sent its data, which happens only once */
};

struct connection {
	struct model_side side[2];
	uint8_t tcp;
	uint8_t rdma[2];
};

struct channel {
	bool lossy;      /* any message may be lost, and any device call may fail */
	bool unordered;  /* messages of one side may arrive in another order than they were sent */
	bool owners_end; /* the owners may close at any time */
};

static struct connection *states;
static uint32_t *places, n_states, n_ends, n_ready, n_half;

static void add(const struct connection *conn)
{
	const uint8_t *byte = (const uint8_t *)conn;
	uint32_t hash = 2166136261u;
	size_t i;

	for (i = 0; i < sizeof(*conn); i++)
		hash = (hash ^ byte[i]) * 16777619u;
	for (;; hash++) {
		uint32_t *place = &places[hash % (2 * MAX_STATES)];

		if (!*place) {
			assert_true(n_states < MAX_STATES);
			states[n_states++] = *conn;
			*place = n_states;
			return;
		}
		if (!memcmp(&states[*place - 1], conn, sizeof(*conn)))
			return;
	}
}

/* Applies an event to one side, and sends the messages that follow from the side's actions. */
static void step(struct connection conn, int who, enum connect_event event)
{
	struct model_side *s = &conn.side[who];
	const struct model_side was = *s;
	const uint32_t actions = connect_next(s->state, event).actions;
	const char *wrong = model_side_step(s, event);

	if (wrong)
		fail_msg("%s: %s", connect_state_text(was.state), wrong);
	if (actions & CONNECT_DO(SEND_QUERY))
		conn.tcp |= QUERY;
	if (actions & CONNECT_DO(MAKE))
		conn.tcp |= REQUEST;
	if (actions & CONNECT_DO(SEND_ANSWER))
		conn.tcp |= ANSWER | WRITTEN;
	if (actions & CONNECT_DO(POST_PROBE))
		conn.rdma[who] |= FIRST;
	if (actions & CONNECT_DO(POST_CLOSE))
		conn.rdma[who] |= CLOSING;
	add(&conn);
}

/* Lets a line arrive at the client's or the service's end of TCP, unless that side has stopped
 * reading. */
static unsigned int move_tcp(const struct connection *conn)
{
	const bool reads[2] = {
		conn->side[CLIENT].tcp && !(conn->tcp & CUT),
		/* until the request for a queue pair the service itself reads the TCP connection */
		!(conn->tcp & CUT) && (conn->side[SERVICE].tcp || !(conn->tcp & ASKED)),
	};
	static const struct {
		int line, to;
		enum connect_event event;
	} lines[] = {
		{REQUEST, SERVICE, CONNECT_EVENT_ASKED},
		{DEVICES, CLIENT, CONNECT_EVENT_DEVICES},
		{ANSWER, CLIENT, CONNECT_EVENT_CONNECTED},
	};
	struct connection next;
	unsigned int n = 0;
	size_t i;

	if (conn->tcp & QUERY) {
		next = *conn;
		next.tcp &= ~QUERY;
		next.tcp |= reads[SERVICE] ? DEVICES : 0;
		add(&next);
		n++;
	}
	for (i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		if (!(conn->tcp & lines[i].line))
			continue;
		n++;
		next = *conn;
		next.tcp &= ~lines[i].line;
		if (!reads[lines[i].to]) {
			add(&next);
			continue;
		}
		next.tcp |= lines[i].line == REQUEST ? ASKED : 0;
		step(next, lines[i].to, lines[i].event);
	}
	return n;
}

/* Reports that the answer has been sent. Reports the end of TCP to a side that has read everything
 * before it. */
static unsigned int move_tcp_ends(const struct connection *conn)
{
	static const int to[2] = {DEVICES | ANSWER, QUERY | REQUEST | WRITTEN};
	struct connection next = *conn;
	unsigned int n = 0;
	int who;

	if (conn->tcp & WRITTEN) {
		next.tcp &= ~WRITTEN;
		step(next, SERVICE, CONNECT_EVENT_ANSWERED);
		n++;
	}
	for (who = 0; who < 2; who++) {
		const struct model_side *peer = &conn->side[!who];
		const bool over =
			conn->tcp & CUT || (!peer->tcp && (who == SERVICE || conn->tcp & ASKED));

		if (!conn->side[who].tcp || !over || conn->tcp & to[who])
			continue;
		next = *conn;
		next.side[who].tcp = 0; /* the end of TCP is reported only once */
		step(next, who, CONNECT_EVENT_LOST);
		n++;
	}
	return n;
}

static bool can_receive(const struct model_side *s)
{
	return (s->qp == QP_RTR || s->qp == QP_RTS) && s->receives;
}

/* Moves a message from the wire into the peer's device, or lets its sender get a failed
 * completion. */
static unsigned int move_wire(const struct connection *conn, int who, const struct channel *c)
{
	unsigned int n = 0;
	int bit;

	for (bit = FIRST; bit <= CLOSING; bit <<= 1) {
		struct connection next = *conn;

		if (!(conn->rdma[who] & bit) ||
		    (bit == CLOSING && conn->rdma[who] & FIRST && !c->unordered))
			continue;
		n++;
		next.rdma[who] &= ~bit;
		if (!can_receive(&conn->side[!who])) {
			next.rdma[who] |= BROKEN;
			add(&next);
			continue;
		}
		next.rdma[who] |= bit << 2 | bit << 4;
		add(&next);
		if (!c->lossy)
			continue;
		next.rdma[who] = (conn->rdma[who] & ~bit) | BROKEN; /* the message was lost */
		add(&next);
		/* the message arrived, but its acknowledgement was lost */
		next.rdma[who] |= bit << 2;
		add(&next);
	}
	return n;
}

/* Lets the program poll completions and received messages of its device, in any order. */
static unsigned int move_seen(const struct connection *conn, int who, const struct channel *c)
{
	const struct {
		uint8_t of; /* index of the side that has sent these messages */
		uint8_t bit;
		enum connect_event event;
	} kinds[] = {
		{!who, FIRST_IN, CONNECT_EVENT_MESSAGE},
		{!who, CLOSE_IN, CONNECT_EVENT_PEER_CLOSED},
		{who, FIRST_OUT, CONNECT_EVENT_PROBED},
		{who, CLOSE_OUT, CONNECT_EVENT_DRAINED},
		{who, BROKEN, CONNECT_EVENT_FAILED},
	};
	unsigned int n = 0;
	size_t i;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct connection next = *conn;

		if (!(conn->rdma[kinds[i].of] & kinds[i].bit) ||
		    (kinds[i].bit == CLOSE_IN && conn->rdma[!who] & FIRST_IN && !c->unordered))
			continue;
		n++;
		next.rdma[kinds[i].of] &= ~kinds[i].bit;
		if (kinds[i].bit == FIRST_OUT && who == SERVICE)
			/* this is the completion of the service's data, not of a client's probe */
			add(&next);
		else
			step(next, who, kinds[i].event);
	}
	return n;
}

/* Lets the kernel resolve the peer's address, or fail to do so if failures are possible. */
static unsigned int move_device(const struct connection *conn, const struct channel *c)
{
	unsigned int n = 0;
	int who;

	for (who = 0; who < 2; who++) {
		if (!conn->side[who].aiming)
			continue;
		step(*conn, who, CONNECT_EVENT_CAN_RECEIVE);
		if (c->lossy)
			step(*conn, who, CONNECT_EVENT_FAILED);
		n++;
	}
	return n;
}

static bool is_final(const struct model_side *s)
{
	return s->state == CONNECT_CLOSED || s->state == CONNECT_FAILED;
}

static unsigned int move_owners(const struct connection *conn, const struct channel *c)
{
	const struct model_side *service = &conn->side[SERVICE];
	struct connection next = *conn;
	unsigned int n = 0;
	int who;

	if (!(conn->tcp & BEGUN)) {
		next.tcp |= BEGUN;
		step(next, CLIENT, CONNECT_EVENT_OPEN);
		return 1;
	}
	if (service->state == CONNECT_READY && !(conn->rdma[SERVICE] & SENT)) {
		next.rdma[SERVICE] |= SENT | FIRST;
		add(&next);
		n++;
	}
	for (who = 0; who < 2 && c->owners_end; who++)
		if (!is_final(&conn->side[who]) && conn->side[who].state != CONNECT_NEW &&
		    conn->side[who].state != CONNECT_CLOSING) {
			step(*conn, who, CONNECT_EVENT_CLOSE);
			n++;
		}
	return n;
}

/* Lets time pass if no other event is possible. If a step can take long, time may also pass before
 * that step. */
static unsigned int move_time(const struct connection *conn)
{
	unsigned int n = 0;
	int who;

	for (who = 0; who < 2; who++)
		if (conn->side[who].clock) {
			step(*conn, who, CONNECT_EVENT_TIMEOUT);
			n++;
		}
	return n;
}

static void move_faults(const struct connection *conn)
{
	struct connection next = *conn;
	int who;

	if (!(conn->tcp & CUT)) {
		next.tcp = (conn->tcp | CUT) & ~(QUERY | REQUEST | DEVICES | ANSWER);
		add(&next);
	}
	for (who = 0; who < 2; who++)
		if (!is_final(&conn->side[who]) && conn->side[who].state != CONNECT_NEW)
			step(*conn, who, CONNECT_EVENT_FAILED);
}

/* Lets a side that is ready check whether its peer still exists. */
static unsigned int move_check(const struct connection *conn)
{
	unsigned int n = 0;
	int who;

	for (who = 0; who < 2; who++)
		if (conn->side[who].state == CONNECT_READY && !can_receive(&conn->side[!who])) {
			n_half++;
			step(*conn, who, CONNECT_EVENT_FAILED);
			n++;
		}
	return n;
}

static void visit(const struct connection *conn, const struct channel *c)
{
	const struct model_side *client = &conn->side[CLIENT], *service = &conn->side[SERVICE];
	unsigned int n = move_owners(conn, c) + move_device(conn, c);
	int who;

	if (conn->tcp & BEGUN)
		n += move_tcp(conn) + move_tcp_ends(conn);
	for (who = 0; who < 2; who++)
		n += move_wire(conn, who, c) + move_seen(conn, who, c);
	if (c->lossy && conn->tcp & BEGUN)
		move_faults(conn);
	if (!n || c->lossy)
		n += move_time(conn);
	if (!n)
		n = move_check(conn);
	if (n)
		return;
	/* in this state no event is possible any more */
	n_ends++;
	assert_int_equal(client->state == CONNECT_READY, service->state == CONNECT_READY);
	assert_true(client->state == CONNECT_READY || is_final(client));
	assert_true(service->state == CONNECT_READY || is_final(service) ||
		    /* the client's request has never reached the service */
		    service->state == CONNECT_NEW);
	n_ready += client->state == CONNECT_READY;
}

static void explore(const struct channel *c)
{
	const struct connection first = {0};
	uint32_t i;

	states = calloc(MAX_STATES, sizeof(*states));
	places = calloc(2 * MAX_STATES, sizeof(*places));
	assert_true(states && places);
	n_states = n_ends = n_ready = n_half = 0;
	add(&first);
	for (i = 0; i < n_states; i++) {
		const struct connection conn = states[i];

		visit(&conn, c);
	}
	print_message("%u states, %u ends, %u of them ready\n", n_states, n_ends, n_ready);
	free(states);
	free(places);
}

static void reliable_both_are_ready(void **state)
{
	explore(&(struct channel){0});
	assert_true(n_ends > 0);
	assert_int_equal(n_ready, n_ends);
	assert_int_equal(n_half, 0);
}

static void reordering_both_are_ready(void **state)
{
	explore(&(struct channel){.unordered = true});
	assert_true(n_ends > 0);
	assert_int_equal(n_ready, n_ends);
	assert_int_equal(n_half, 0);
}

static void owners_that_close_end_both(void **state)
{
	explore(&(struct channel){.owners_end = true});
	assert_true(n_ends > 0);
	assert_int_equal(n_ready, 0);
	explore(&(struct channel){.owners_end = true, .unordered = true});
	assert_true(n_ends > 0);
	assert_int_equal(n_ready, 0);
}

static void lossy_both_or_neither(void **state)
{
	explore(&(struct channel){.lossy = true});
	assert_true(n_ready > 0 && n_ready < n_ends);
	assert_true(n_half > 0); /* the case that is not promised must occur in the search */
}

static void everything_at_once(void **state)
{
	explore(&(struct channel){.lossy = true, .owners_end = true, .unordered = true});
	assert_true(n_ends > 0);
	assert_int_equal(n_ready, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reliable_both_are_ready),
		cmocka_unit_test(reordering_both_are_ready),
		cmocka_unit_test(owners_that_close_end_both),
		cmocka_unit_test(lossy_both_or_neither),
		cmocka_unit_test(everything_at_once),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("two sides", tests, NULL, NULL);
}
