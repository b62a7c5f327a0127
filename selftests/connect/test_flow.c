/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The flow control of a socket (hostlib/connect/flow.h): credits, sequence numbers and completions.
 * Two sides are joined by queues. With few buffers the test tries every order of events; with many
 * it makes long random walks. In each state every message must find a receive buffer, and no queue
 * may exceed its size. No side may accuse its peer of a protocol error. Finally all must be done.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/connect/config.h"
#include "hostlib/connect/flow.h"

#define MAX_DEPTH 256
#define MAX_INBOX 128
#define MESSAGE   0 /* entry of an inbox that stands for a message; other entries are immediates */

static bool takes_receive(enum connect_wr_kind kind)
{
	return kind != CONNECT_WR_READ && kind != CONNECT_WR_WRITE;
}

/* ---- two sides ------------------------------------------------------------------------------ */

struct end {
	struct connect_flow flow;
	uint64_t delivered;        /* requests that the device has completed */
	uint32_t receives;         /* number of receives that are posted and unused */
	uint32_t inbox[MAX_INBOX]; /* receives that have completed: an immediate, or MESSAGE */
	uint32_t n_inbox;
	uint32_t to_send, transfers, flushes; /* actions that this side will still begin */
	bool closes, never_looks;
};

struct flow_pair {
	struct end end[2];
	struct connect_wr ring[2][MAX_DEPTH];
	uint32_t recv_wr;
};

struct plan {
	uint32_t buffers, ack_batch, signal_batch, transfer_room;
	uint32_t messages[2], transfers[2], flushes[2];
	bool closes[2];
};

static void pair_init(struct flow_pair *p, const struct plan *plan)
{
	struct inc_connect_settings s;
	struct connect_flow flow;
	int i;

	inc_connect_settings_init(&s, sizeof(s));
	s.send_buf_cnt = plan->buffers;
	s.buf_ack_batch = plan->ack_batch;
	s.buf_signal_batch = plan->signal_batch;
	s.max_rdma_wr = s.max_rdma_wr_per_post = plan->transfer_room;
	assert_null(connect_settings_wrong(&s, NULL));
	assert_true(connect_send_wr(&s) <= MAX_DEPTH && connect_recv_wr(&s) <= MAX_INBOX);
	memset(p, 0, sizeof(*p));
	p->recv_wr = connect_recv_wr(&s);
	for (i = 0; i < 2; i++) {
		assert_int_equal(connect_flow_init(&flow, &s), 0);
		connect_flow_free(&flow);
		memcpy(&p->end[i].flow, &flow, sizeof(flow));
		p->end[i].receives = p->recv_wr;
		p->end[i].to_send = plan->messages[i];
		p->end[i].transfers = plan->transfers[i];
		p->end[i].flushes = plan->flushes[i];
		p->end[i].closes = plan->closes[i];
	}
}

/* Gives the copy of a pair its own rings, because its pointers point to the original's rings. */
static void own_rings(struct flow_pair *p)
{
	p->end[0].flow.ring = p->ring[0];
	p->end[1].flow.ring = p->ring[1];
}

static void post(struct end *e, enum connect_wr_kind kind, uint32_t bytes, bool ask)
{
	bool signalled;
	uint64_t number;

	assert_true(connect_flow_postable(&e->flow, kind) > 0);
	number = connect_flow_post(&e->flow, kind, bytes, ask, &signalled);
	assert_int_equal(number, e->flow.posted);
	assert_true(e->flow.posted - e->flow.ended <= e->flow.depth);
}

static void post_ack_if_due(struct end *e)
{
	const uint32_t n = connect_flow_ack_due(&e->flow);

	if (n)
		post(e, CONNECT_WR_ACK, n, false);
}

/* ---- the events that are possible ----------------------------------------------------------- */

enum act { SEND, DELIVER, COMPLETE, HEAR, RELEASE, FLUSH, TRANSFER, CLOSE, N_ACTS };

static bool try_deliver(struct end *e, struct end *peer)
{
	const struct connect_wr *r;

	if (e->delivered == e->flow.posted)
		return false;
	r = &e->flow.ring[++e->delivered % e->flow.depth];
	if (!takes_receive(r->kind))
		return true;
	assert_true(peer->receives > 0); /* else the device sends an RNR NAK */
	peer->receives--;
	assert_true(peer->n_inbox < MAX_INBOX);
	peer->inbox[peer->n_inbox++] =
		r->kind == CONNECT_WR_MESSAGE ? MESSAGE
		: r->kind == CONNECT_WR_ACK   ? connect_immediate(CONNECT_IMM_ACK, r->bytes)
		: r->kind == CONNECT_WR_PROBE ? connect_immediate(CONNECT_IMM_PROBE, 0)
					      : connect_immediate(CONNECT_IMM_CLOSE, 0);
	return true;
}

static bool try_complete(struct end *e)
{
	uint64_t n;

	for (n = e->flow.ended + 1; n <= e->delivered; n++) {
		if (!e->flow.ring[n % e->flow.depth].signalled)
			continue;
		assert_int_equal(connect_flow_complete(&e->flow, n), n - e->flow.ended);
		assert_true(connect_flow_ended(&e->flow, n));
		post_ack_if_due(e);
		return true;
	}
	return false;
}

static bool try_hear(struct end *e)
{
	enum connect_received got;
	const char *why;
	uint32_t first = e->inbox[0];

	if (!e->n_inbox || e->flow.peer_closed)
		return false;
	memmove(e->inbox, e->inbox + 1, --e->n_inbox * sizeof(e->inbox[0]));
	e->inbox[e->n_inbox] = 0;
	if (connect_flow_receive(&e->flow, first != MESSAGE, first, first == MESSAGE, &got, &why))
		fail_msg("%s", why);
	if (got == CONNECT_RECEIVED_CONTROL)
		e->receives++;
	assert_int_equal(got == CONNECT_RECEIVED_MESSAGE, first == MESSAGE);
	return true;
}

static bool try_act(struct flow_pair *p, int side, enum act act)
{
	struct end *e = &p->end[side];

	switch (act) {
	case SEND:
		if (!e->to_send || !connect_flow_postable(&e->flow, CONNECT_WR_MESSAGE))
			return false;
		e->to_send--;
		post(e, CONNECT_WR_MESSAGE, 1, false);
		return true;
	case DELIVER:
		return try_deliver(e, &p->end[!side]);
	case COMPLETE:
		return !e->never_looks && try_complete(e);
	case HEAR:
		return !e->never_looks && try_hear(e);
	case RELEASE:
		if (!connect_flow_held(&e->flow))
			return false;
		e->receives++;
		connect_flow_release(&e->flow);
		post_ack_if_due(e);
		return true;
	case FLUSH:
		if (!e->flushes || e->flow.last_message <= e->flow.signalled ||
		    !connect_flow_postable(&e->flow, CONNECT_WR_WRITE))
			return false;
		e->flushes--;
		post(e, CONNECT_WR_WRITE, 0, true);
		return true;
	case TRANSFER:
		if (!e->transfers || !connect_flow_postable(&e->flow, CONNECT_WR_READ))
			return false;
		e->transfers--;
		post(e, CONNECT_WR_READ, 1, true);
		return true;
	case CLOSE:
		if (!e->closes)
			return false;
		e->closes = false;
		e->to_send = e->transfers = e->flushes = 0;
		post(e, CONNECT_WR_CLOSE, 0, true);
		return true;
	default:
		return false;
	}
}

static void check(const struct flow_pair *p)
{
	const struct end *e;
	int i;

	for (i = 0; i < 2; i++) {
		e = &p->end[i];
		assert_true(e->receives + e->n_inbox + connect_flow_held(&e->flow) == p->recv_wr ||
			    e->flow.peer_closed);
		assert_true(connect_flow_held(&e->flow) <= e->flow.buffers);
		assert_true(e->flow.given_back <= e->flow.sent);
		assert_true(e->flow.sent - e->flow.given_back <= e->flow.buffers);
		assert_true(e->flow.acked <= e->flow.released);
		assert_true(e->flow.ended <= e->delivered);
	}
}

/* Checks a state in which no event is possible any more. Only a close may have cut off messages. */
static void check_end(const struct flow_pair *p)
{
	const struct end *e, *peer;
	int i;

	for (i = 0; i < 2; i++) {
		e = &p->end[i];
		peer = &p->end[!i];
		assert_int_equal(e->delivered, e->flow.posted);
		if (e->never_looks || peer->never_looks)
			continue;
		assert_true(e->flow.ended >= e->flow.signalled);
		if (!e->flow.peer_closed)
			assert_int_equal(e->to_send, 0);
		assert_int_equal(!!e->flow.close, peer->flow.peer_closed);
		assert_int_equal(peer->flow.released, peer->flow.received);
		assert_int_equal(peer->flow.received, e->flow.sent);
	}
}

/* ---- search of all orders ------------------------------------------------------------------- */

#define SEEN_SIZE (1u << 20)
static uint64_t *seen;
static uint32_t n_seen;

static uint64_t hash_more(uint64_t hash, const void *at, size_t size)
{
	const uint64_t *word = at;

	for (; size; size -= sizeof(*word)) {
		hash = (hash ^ *word++) * 0x9e3779b97f4a7c15u;
		hash ^= hash >> 32;
	}
	return hash;
}

_Static_assert(!(sizeof(struct end) % sizeof(uint64_t)) &&
		       !(sizeof(struct connect_wr) % sizeof(uint64_t)),
	       "they are hashed by words");

/* Stores the state. Returns false if it is not new, apart from values that no longer matter. */
static bool is_new(struct flow_pair *p)
{
	uint64_t hash = 0, n;
	struct connect_flow *f;
	size_t i;
	int side;

	for (side = 0; side < 2; side++) {
		f = &p->end[side].flow;
		for (n = f->posted + 1; n <= f->ended + f->depth; n++)
			p->ring[side][n % f->depth] = (struct connect_wr){0};
		f->ring = NULL;
	}
	for (side = 0; side < 2; side++) {
		hash = hash_more(hash, &p->end[side], sizeof(p->end[side]));
		hash = hash_more(hash, p->ring[side],
				 p->end[side].flow.depth * sizeof(p->ring[0][0]));
	}
	own_rings(p);
	hash |= !hash;
	for (i = hash % SEEN_SIZE; seen[i]; i = (i + 1) % SEEN_SIZE)
		if (seen[i] == hash)
			return false;
	assert_true(++n_seen < SEEN_SIZE / 4 * 3);
	seen[i] = hash;
	return true;
}

static void copy_pair(struct flow_pair *to, const struct flow_pair *from)
{
	int i;

	to->recv_wr = from->recv_wr;
	memcpy(to->end, from->end, sizeof(to->end));
	for (i = 0; i < 2; i++)
		memcpy(to->ring[i], from->ring[i],
		       from->end[i].flow.depth * sizeof(to->ring[i][0]));
	own_rings(to);
}

static void explore(const struct flow_pair *from)
{
	struct flow_pair *next = malloc(sizeof(*next));
	bool goes_on = false, is_from = false;
	enum act act;
	int side;

	assert_non_null(next);
	for (side = 0; side < 2; side++)
		for (act = 0; act < N_ACTS; act++) {
			if (!is_from)
				copy_pair(next, from);
			/* an action that is impossible must have changed nothing */
			is_from = !try_act(next, side, act);
			if (is_from)
				continue;
			goes_on = goes_on || act < FLUSH;
			check(next);
			if (is_new(next))
				explore(next);
		}
	if (!goes_on)
		check_end(from);
	free(next);
}

static void every_order(void **state)
{
	/* columns: buffers, receives per ACK, sends per completion, transfers; each side's actions
	 * */
	static const struct plan plans[] = {
		{1, 1, 1, 1, {4, 0}, {2, 0}, {0, 0}, {false, false}},
		{1, 1, 1, 1, {2, 2}, {0, 0}, {0, 0}, {false, false}},
		{1, 1, 1, 1, {2, 0}, {0, 0}, {0, 0}, {true, true}},
		{2, 1, 1, 1, {6, 0}, {0, 0}, {0, 0}, {false, false}},
		{2, 1, 2, 1, {5, 0}, {1, 0}, {2, 0}, {false, false}},
		{2, 2, 1, 1, {6, 0}, {0, 0}, {0, 0}, {false, false}},
		{2, 2, 2, 1, {5, 0}, {1, 0}, {2, 0}, {false, false}},
		{2, 2, 2, 1, {2, 2}, {0, 0}, {0, 0}, {false, false}},
		{2, 2, 2, 1, {3, 0}, {0, 1}, {0, 0}, {true, false}},
		{2, 1, 2, 1, {3, 0}, {0, 0}, {0, 0}, {false, true}},
		{3, 2, 2, 1, {7, 0}, {0, 0}, {1, 0}, {false, false}},
		{3, 2, 3, 1, {7, 0}, {0, 0}, {0, 0}, {false, false}},
		{3, 3, 3, 2, {7, 0}, {2, 0}, {1, 0}, {false, false}},
		{5, 4, 3, 1, {9, 0}, {0, 0}, {0, 0}, {false, false}},
		{2, 1, 1, 1, {4, 3}, {0, 0}, {0, 0}, {false, false}},
		{3, 2, 2, 1, {5, 4}, {0, 0}, {0, 0}, {false, false}},
		{2, 2, 2, 1, {3, 3}, {0, 0}, {0, 0}, {true, true}},
	};
	struct flow_pair *p = malloc(sizeof(*p));
	size_t i;

	seen = malloc(SEEN_SIZE * sizeof(*seen));
	assert_true(p && seen);
	for (i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
		memset(seen, 0, SEEN_SIZE * sizeof(*seen));
		n_seen = 0;
		pair_init(p, &plans[i]);
		own_rings(p);
		explore(p);
		print_message("# plan %zu: %u states\n", i, n_seen);
		assert_true(n_seen > 100);
	}
	free(seen);
	free(p);
}

/* ---- long random walks ---------------------------------------------------------------------- */

static void walk(struct flow_pair *p, unsigned int seed, bool deaf)
{
	unsigned int idle = 0, side, act, start, i;

	p->end[1].never_looks = deaf;
	/* a side that acts rarely, so that the queues fill up */
	while (idle < 64) {
		side = rand_r(&seed) >> 4 & 1;
		start = (rand_r(&seed) >> 4) % N_ACTS;
		act = start;
		for (i = rand_r(&seed) >> 4 & 15; i && try_act(p, side, act); i--)
			idle = 0;
		check(p);
		idle++;
	}
	for (side = 0; side < 2; side++)
		for (act = 0; act < FLUSH; act++)
			if (try_act(p, side, act))
				return walk(p, seed + 1, deaf);
	check_end(p);
}

static const struct plan walks[] = {
	{32, 8, 8, 128, {3000, 3000}, {500, 500}, {100, 100}, {false, false}},
	{7, 3, 5, 2, {3000, 3000}, {500, 500}, {100, 100}, {false, false}},
	{16, 16, 16, 4, {3000, 3000}, {100, 0}, {0, 100}, {false, false}},
	{5, 4, 1, 1, {3000, 10}, {0, 0}, {0, 0}, {false, false}},
	{33, 1, 33, 1, {3000, 3000}, {0, 0}, {100, 0}, {false, false}},
	{1, 1, 1, 1, {3000, 3000}, {10, 10}, {0, 0}, {false, false}},
	{32, 8, 8, 128, {3000, 3000}, {50, 50}, {10, 10}, {true, false}},
	{9, 2, 4, 3, {300, 300}, {50, 50}, {10, 10}, {true, true}},
};

static void long_walks(void **state)
{
	struct flow_pair *p = malloc(sizeof(*p));
	unsigned int seed;
	size_t i;

	assert_non_null(p);
	for (i = 0; i < sizeof(walks) / sizeof(walks[0]); i++)
		for (seed = 1; seed <= 10; seed++) {
			pair_init(p, &walks[i]);
			own_rings(p);
			walk(p, seed, false);
		}
	free(p);
}

/* One side posts messages and never polls its completions. */
static void one_side_never_polls(void **state)
{
	struct flow_pair *p = malloc(sizeof(*p));
	size_t i;

	assert_non_null(p);
	for (i = 0; i < sizeof(walks) / sizeof(walks[0]); i++) {
		pair_init(p, &walks[i]);
		own_rings(p);
		walk(p, 7 + i, true);
		if (!walks[i].closes[0] && !walks[i].closes[1])
			assert_int_equal(p->end[0].flow.sent, walks[i].buffers);
	}
	free(p);
}

/* ---- single cases --------------------------------------------------------------------------- */

static void flow_of(struct connect_flow *flow, uint32_t buffers, uint32_t acks, uint32_t signals)
{
	struct inc_connect_settings s;

	inc_connect_settings_init(&s, sizeof(s));
	s.send_buf_cnt = buffers;
	s.buf_ack_batch = acks;
	s.buf_signal_batch = signals;
	assert_int_equal(connect_flow_init(flow, &s), 0);
}

static void only_signalled_requests_complete(void **state)
{
	struct connect_flow flow;
	bool signalled;
	int i;

	flow_of(&flow, 8, 4, 4);
	for (i = 1; i <= 8; i++) {
		assert_int_equal(connect_flow_postable(&flow, CONNECT_WR_MESSAGE), 9 - i);
		assert_int_equal(
			connect_flow_post(&flow, CONNECT_WR_MESSAGE, 10, false, &signalled), i);
		assert_int_equal(signalled, i % 4 == 0);
	}
	assert_int_equal(connect_flow_post(&flow, CONNECT_WR_READ, 100, false, &signalled), 9);
	assert_false(signalled);
	assert_int_equal(connect_flow_post(&flow, CONNECT_WR_WRITE, 1000, true, &signalled), 10);
	assert_true(signalled);
	assert_int_equal(connect_flow_postable(&flow, CONNECT_WR_READ), 126);
	assert_int_equal(connect_flow_complete(&flow, 0), -EIO);
	assert_int_equal(connect_flow_complete(&flow, 3), -EIO);
	assert_int_equal(connect_flow_complete(&flow, 11), -EIO);
	assert_int_equal(connect_flow_complete(&flow, 4), 4);
	assert_int_equal(connect_flow_complete(&flow, 4), -EIO);
	assert_int_equal(connect_flow_complete(&flow, 2), -EIO);
	assert_true(connect_flow_ended(&flow, 4) && !connect_flow_ended(&flow, 5));
	assert_int_equal(flow.bytes_read + flow.bytes_written, 0);
	assert_int_equal(connect_flow_complete(&flow, 10), 6);
	assert_int_equal(flow.bytes_read, 100);
	assert_int_equal(flow.bytes_written, 1000);
	assert_int_equal(connect_flow_postable(&flow, CONNECT_WR_WRITE), 128);
	/* the send queue has room, but there is no credit */
	assert_int_equal(connect_flow_postable(&flow, CONNECT_WR_MESSAGE), 0);
	connect_flow_free(&flow);
}

static void nothing_is_posted_after_a_close(void **state)
{
	enum connect_wr_kind kind;
	struct connect_flow flow;
	bool signalled;

	flow_of(&flow, 8, 1, 4);
	for (kind = 0; kind < CONNECT_N_WRS; kind++)
		assert_true(connect_flow_postable(&flow, kind) > 0);
	connect_flow_post(&flow, CONNECT_WR_CLOSE, 0, false, &signalled);
	flow.received = flow.released = 1;
	assert_int_equal(connect_flow_ack_due(&flow), 0);
	for (kind = 0; kind < CONNECT_N_WRS; kind++)
		assert_int_equal(connect_flow_postable(&flow, kind), 0);
	connect_flow_free(&flow);
}

/* Immediates and messages of a peer, in order: some are valid, others violate the protocol. */
static const struct word {
	bool has_immediate;
	uint32_t immediate, bytes;
	const char *lie; /* part of the expected error; NULL: the peer's word is valid */
} words[] = {
	{true, 0, 0, "unknown immediate"},
	{true, 0xffffffff, 0, "unknown immediate"},
	{true, CONNECT_IMM_PROBE << CONNECT_IMM_SHIFT, 1, "data beside"},
	{true, CONNECT_IMM_PROBE << CONNECT_IMM_SHIFT | 1, 0, "first message"},
	{true, CONNECT_IMM_PROBE << CONNECT_IMM_SHIFT, 0, NULL},
	{true, CONNECT_IMM_PROBE << CONNECT_IMM_SHIFT, 0, "first message"},
	{false, 0, 0, "without data"},
	{false, 0, 1, NULL},
	{false, 0, 1, NULL},
	{false, 0, 1, "more messages"}, /* the peer exceeds its two credits */
	{true, CONNECT_IMM_ACK << CONNECT_IMM_SHIFT, 0, "does not have"},
	/* the peer acknowledges two messages, but only one was sent to it */
	{true, CONNECT_IMM_ACK << CONNECT_IMM_SHIFT | 2, 0, "does not have"},
	{true, CONNECT_IMM_ACK << CONNECT_IMM_SHIFT | CONNECT_IMM_VALUE, 0, "does not have"},
	{true, CONNECT_IMM_ACK << CONNECT_IMM_SHIFT | 1, 1, "data beside"},
	{true, CONNECT_IMM_ACK << CONNECT_IMM_SHIFT | 1, 0, NULL},
	{true, CONNECT_IMM_ACK << CONNECT_IMM_SHIFT | 1, 0, "does not have"},
	{true, CONNECT_IMM_CLOSE << CONNECT_IMM_SHIFT | 1, 0, "unknown immediate"},
	{true, CONNECT_IMM_CLOSE << CONNECT_IMM_SHIFT, 0, NULL},
	{true, CONNECT_IMM_CLOSE << CONNECT_IMM_SHIFT, 0, "after its close"},
	{false, 0, 1, "after its close"},
};

static void protocol_errors_of_a_peer(void **state)
{
	struct connect_flow flow, before;
	enum connect_received got;
	const char *why;
	bool signalled;
	size_t i;
	int ret;

	flow_of(&flow, 2, 1, 1);
	connect_flow_post(&flow, CONNECT_WR_MESSAGE, 1, false, &signalled);
	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		const struct word *w = &words[i];

		before = flow;
		ret = connect_flow_receive(&flow, w->has_immediate, w->immediate, w->bytes, &got,
					   &why);
		if (!w->lie) {
			assert_int_equal(ret, 0);
			continue;
		}
		assert_int_equal(ret, -EPROTO);
		if (!strstr(why, w->lie))
			fail_msg("word %zu: %s", i, why);
		assert_memory_equal(&flow, &before, sizeof(flow));
	}
	connect_flow_free(&flow);
}

/* If a side has sent a first message, it must not receive one. */
static void a_first_message_has_one_direction(void **state)
{
	struct connect_flow flow;
	enum connect_received got;
	const char *why;
	bool signalled;

	flow_of(&flow, 2, 1, 1);
	connect_flow_post(&flow, CONNECT_WR_PROBE, 0, false, &signalled);
	assert_int_equal(connect_flow_receive(&flow, true, connect_immediate(CONNECT_IMM_PROBE, 0),
					      0, &got, &why),
			 -EPROTO);
	connect_flow_free(&flow);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_signalled_requests_complete),
		cmocka_unit_test(nothing_is_posted_after_a_close),
		cmocka_unit_test(protocol_errors_of_a_peer),
		cmocka_unit_test(a_first_message_has_one_direction),
		cmocka_unit_test(long_walks),
		cmocka_unit_test(one_side_never_polls),
		cmocka_unit_test(every_order),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("flow", tests, NULL, NULL);
}
