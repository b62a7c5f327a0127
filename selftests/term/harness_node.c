/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "selftests/term/harness_node.h"
#include "selftests/unit/ref_switch.h"
#include "userspace/term/node_priv.h"

struct node_shape node_shape(uint32_t n_children, uint32_t ranks, uint32_t slots, bool has_parent)
{
	struct node_shape shape = {
		.n_children = n_children,
		.slots = slots,
		.has_parent = has_parent,
		.form = {.native_floats = true},
	};
	uint32_t c, r;

	for (c = 0; c < n_children; c++) {
		shape.child[c].is_switch = ranks > 1;
		for (r = 0; r < ranks; r++)
			inc_ranks_add(&shape.child[c].ranks, c * ranks + r);
	}
	return shape;
}

/* Sets the node's counters to the values that they have after `base` messages. */
static void move_on(struct inc_term *t, uint64_t base)
{
	uint32_t i;

	t->partials = t->results = t->freed = base;
	for (i = 0; i < t->n_children + t->has_parent; i++)
		t->peer[i].received = t->peer[i].sent = t->peer[i].acknowledged = base;
}

void node_open_at(struct node_harness *h, const struct node_shape *shape,
		  const struct node_call *calls, uint64_t n_calls, uint64_t base)
{
	const struct inc_term_conf conf = {.communicator = 12,
					   .receives = shape->slots,
					   .has_parent = shape->has_parent,
					   .n_children = shape->n_children,
					   .child = shape->child};
	uint32_t i;

	memset(h, 0, sizeof(*h));
	h->shape = shape;
	h->n_peers = shape->n_children + shape->has_parent;
	h->calls = calls;
	h->n_calls = n_calls;
	h->base = base;
	h->n_buffers = h->n_peers * shape->slots;
	h->bytes = calloc(h->n_buffers, sizeof(*h->bytes));
	h->taken = calloc(h->n_buffers, sizeof(*h->taken));
	h->reading = calloc(h->n_buffers, sizeof(*h->reading));
	h->sends = calloc(h->n_buffers, sizeof(*h->sends));
	assert_true(h->bytes && h->taken && h->reading && h->sends);
	assert_int_equal(inc_term_new(&conf, &h->t, NULL), 0);
	move_on(h->t, base);
	for (i = 0; i < h->n_peers; i++)
		h->peer[i] = (struct node_peer){base + shape->slots, base, base, base};
}

void node_open(struct node_harness *h, const struct node_shape *shape,
	       const struct node_call *calls, uint64_t n_calls)
{
	node_open_at(h, shape, calls, n_calls, 0);
}

void node_close(struct node_harness *h)
{
	inc_term_free(h->t);
	free(h->bytes);
	free(h->taken);
	free(h->reading);
	free(h->sends);
}

/* --- the reference ------------------------------------------------------------------------- */

static const struct node_call *call_of(const struct node_harness *h, uint64_t number)
{
	return &h->calls[(number - h->base) % h->n_calls];
}

static bool is_child(const struct node_harness *h, uint32_t peer)
{
	return peer < h->shape->n_children;
}

/* Is the root of the call at this child? If the peer is the parent: is the root outside this node's
 * tree? */
static bool has_root(const struct node_harness *h, uint32_t peer, uint64_t number)
{
	const uint32_t root = INC_DESC_ROOT(call_of(h, number)->desc);
	uint32_t c;

	if (is_child(h, peer))
		return inc_ranks_have(&h->shape->child[peer].ranks, root);
	for (c = 0; c < h->shape->n_children; c++)
		if (inc_ranks_have(&h->shape->child[c].ranks, root))
			return false;
	return true;
}

static uint32_t ranks_below(const struct node_harness *h)
{
	uint32_t c, n = 0;

	for (c = 0; c < h->shape->n_children; c++)
		n += inc_ranks_count(&h->shape->child[c].ranks);
	return n;
}

/* The length of a peer's message to the node. The parent sends the result for the ranks below the
 * node. */
static uint32_t given_length(const struct node_harness *h, uint32_t peer, uint64_t number)
{
	const struct node_call *call = call_of(h, number);
	const bool root = has_root(h, peer, number);

	switch (INC_DESC_COLL(call->desc)) {
	case INC_COLL_ALLREDUCE:
		return call->length;
	case INC_COLL_REDUCE:
	case INC_COLL_REDUCE_SCATTER:
		return is_child(h, peer) || !root ? call->length : 0;
	case INC_COLL_BROADCAST:
	case INC_COLL_ALL_GATHER:
		if (is_child(h, peer))
			return root ? call->length : 0;
		return root || ranks_below(h) > 1 ? call->length : 0;
	}
	return 0;
}

/* The length of the node's message to a peer: a child must get its result, the parent the partial
 * sum. */
static uint32_t owed_length(const struct node_harness *h, uint32_t peer, uint64_t number)
{
	const struct node_call *call = call_of(h, number);
	const bool root = has_root(h, peer, number);

	switch (INC_DESC_COLL(call->desc)) {
	case INC_COLL_ALLREDUCE:
		return call->length;
	case INC_COLL_REDUCE:
	case INC_COLL_REDUCE_SCATTER:
		return !is_child(h, peer) || root ? call->length : 0;
	case INC_COLL_BROADCAST:
	case INC_COLL_ALL_GATHER:
		if (!is_child(h, peer))
			return root ? 0 : call->length;
		return !root || inc_ranks_count(&h->shape->child[peer].ranks) > 1 ? call->length
										  : 0;
	}
	return 0;
}

/* Does a message of this peer carry its descriptor? A message of the parent always does. */
static bool brings_desc(const struct node_harness *h, uint32_t peer, uint64_t number)
{
	return !is_child(h, peer) || call_of(h, number)->first || (number * 7 + peer) % 3 == 0;
}

static bool are_floats(const struct node_harness *h, uint64_t number)
{
	return h->shape->form.native_floats && ref_are_floats(call_of(h, number)->desc);
}

static struct ref_floats floats_of(const struct node_harness *h, uint64_t number)
{
	const struct node_call *call = call_of(h, number);

	return (struct ref_floats){call->desc, call->length, number, h->shape->n_children,
				   h->shape->form.swapped};
}

/* Fills in the bytes of a peer's message to the node. */
static void fill(const struct node_harness *h, uint32_t peer, uint64_t number, uint8_t *bytes,
		 uint32_t length)
{
	uint32_t i, x = (uint32_t)number * 2654435761u + peer * 40503u + 1;
	const struct ref_floats f = floats_of(h, number);

	if (are_floats(h, number)) {
		memcpy(bytes, ref_floats_part(&f, peer), length);
		return;
	}
	for (i = 0; i < length; i++) {
		x = x * 1664525u + 1013904223u;
		bytes[i] = x >> 24;
	}
}

/* Adds up the children's contributions, child by child. */
static void sum_of_parts(const struct node_harness *h, uint64_t number, uint8_t sum[NODE_BYTES])
{
	const uint32_t desc = call_of(h, number)->desc;
	const struct ref_floats f = floats_of(h, number);
	uint8_t part[NODE_BYTES];
	bool first = true;
	uint32_t c, length;

	if (are_floats(h, number)) {
		memcpy(sum, ref_floats_sum(&f), f.length);
		return;
	}
	for (c = 0; c < h->shape->n_children; c++) {
		length = given_length(h, c, number);
		if (!length)
			continue;
		fill(h, c, number, part, length);
		if (first)
			memcpy(sum, part, length);
		else
			ref_operate(desc, h->shape->form.swapped, sum, part, length);
		first = false;
	}
}

bool node_order_matters(const struct node_harness *h, uint64_t number)
{
	const struct ref_floats f = floats_of(h, number);

	return ref_floats_order_matters(&f);
}

static void check_sent(const struct node_harness *h, const struct inc_term_action *a)
{
	const uint32_t length = owed_length(h, a->peer, a->number);
	uint8_t bytes[NODE_BYTES];

	assert_int_equal(a->length, length);
	assert_int_equal(a->has_desc, brings_desc(h, a->peer, a->number));
	assert_int_equal(a->desc, call_of(h, a->number)->desc);
	if (h->shape->has_parent && is_child(h, a->peer))
		fill(h, h->shape->n_children, a->number, bytes, length);
	else if (length)
		sum_of_parts(h, a->number, bytes);
	if (length)
		assert_memory_equal(a->buffer, bytes, length);
}

/* --- the endpoints ------------------------------------------------------------------------- */

/* The index of a buffer that the node uses. */
static uint32_t place_of(const struct node_harness *h, const void *buffer)
{
	const size_t offset = (const uint8_t *)buffer - h->bytes[0];
	const uint32_t i = offset / NODE_BYTES;

	assert_true(offset < (size_t)h->n_buffers * NODE_BYTES && offset % NODE_BYTES == 0);
	assert_true(h->taken[i]);
	return i;
}

static uint8_t *take_buffer(struct node_harness *h)
{
	uint32_t i = 0;

	while (i < h->n_buffers && h->taken[i])
		i++;
	assert_true(i < h->n_buffers);
	h->taken[i] = true;
	h->n_taken++;
	if (h->n_taken > h->most_taken)
		h->most_taken = h->n_taken;
	return h->bytes[i];
}

static struct node_send *send_of(struct node_harness *h, uint32_t peer, uint64_t number)
{
	return &h->sends[peer * h->shape->slots + number % h->shape->slots];
}

static void on_reduce(struct node_harness *h, const struct inc_term_action *a)
{
	uint32_t i;

	assert_true(a->n_sources > 1 && a->source[0] == a->buffer && !h->ended);
	for (i = 0; i < a->n_sources; i++)
		assert_int_equal(h->reading[place_of(h, a->source[i])], 0);
	inc_term_reduce(&h->shape->form, a->desc, a->buffer, a->source, a->n_sources, a->length);
	h->n_reduced++;
}

static void on_send(struct node_harness *h, const struct inc_term_action *a)
{
	struct node_peer *p = &h->peer[a->peer];

	assert_true(a->peer < h->n_peers && !h->ended && a->number == p->sent);
	assert_true(p->sent - p->done < h->shape->slots);
	assert_int_equal(!a->buffer, !a->length);
	if (h->calls)
		check_sent(h, a);
	if (a->buffer)
		h->reading[place_of(h, a->buffer)]++;
	*send_of(h, a->peer, p->sent++) = (struct node_send){a->number, a->buffer, a->length};
}

static void on_release(struct node_harness *h, const struct inc_term_action *a)
{
	const uint32_t i = place_of(h, a->buffer);

	assert_int_equal(h->reading[i], 0);
	h->taken[i] = false;
	h->n_taken--;
	memset(h->bytes[i], 0xee, NODE_BYTES);
}

/* Carries out the actions that the node requests. */
static void act(struct node_harness *h)
{
	struct inc_term_action a;
	uint32_t i;

	while (inc_term_next(h->t, &a)) {
		assert_true(!h->ended || a.what == INC_TERM_DO_RELEASE);
		switch (a.what) {
		case INC_TERM_DO_REDUCE:
			on_reduce(h, &a);
			break;
		case INC_TERM_DO_SEND:
			on_send(h, &a);
			break;
		case INC_TERM_DO_RELEASE:
			on_release(h, &a);
			break;
		case INC_TERM_DO_RECEIVE:
			for (i = 0; i < h->n_peers; i++)
				h->peer[i].posted++;
			break;
		case INC_TERM_DO_REPORT:
			h->n_told++;
			inc_term_describe(h->t, &a, &h->report);
			break;
		case INC_TERM_DO_PORT_LOST:
			h->n_port_lost++;
			break;
		case INC_TERM_DO_END:
			h->ended = true;
			inc_term_describe(h->t, &a, &h->report);
			break;
		}
	}
}

bool node_can_give(const struct node_harness *h, uint32_t peer)
{
	const struct node_peer *p = &h->peer[peer];

	if (p->given - h->base == h->n_calls)
		return false;
	if (!is_child(h, peer))
		return p->given != p->sent;
	return p->given != p->posted;
}

void node_give_this(struct node_harness *h, uint32_t peer, uint64_t number,
		    const struct inc_term_message *m)
{
	struct inc_term_message in = *m;

	in.buffer = take_buffer(h);
	if (m->length)
		memcpy(in.buffer, m->buffer, m->length);
	assert_int_equal(inc_term_message(h->t, peer, number, &in), 0);
	act(h);
}

void node_give(struct node_harness *h, uint32_t peer)
{
	struct node_peer *p = &h->peer[peer];
	uint8_t bytes[NODE_BYTES];
	const struct inc_term_message m = {
		.has_desc = brings_desc(h, peer, p->given),
		.desc = brings_desc(h, peer, p->given) ? call_of(h, p->given)->desc : 0xdeadbeef,
		.length = given_length(h, peer, p->given),
		.buffer = bytes,
	};

	/* the window guarantees that a receive is posted for each message */
	assert_true(p->given != p->posted);
	fill(h, peer, p->given, bytes, m.length);
	node_give_this(h, peer, p->given++, &m);
}

bool node_can_finish(const struct node_harness *h, uint32_t peer)
{
	return h->peer[peer].done != h->peer[peer].sent;
}

void node_finish(struct node_harness *h, uint32_t peer)
{
	struct node_peer *p = &h->peer[peer];
	const struct node_send *s = send_of(h, peer, p->done);

	assert_true(node_can_finish(h, peer));
	if (s->buffer) {
		assert_true(h->reading[place_of(h, s->buffer)] > 0);
		h->reading[place_of(h, s->buffer)]--;
	}
	assert_int_equal(inc_term_sent(h->t, peer, p->done++), 0);
	act(h);
}

void node_lose(struct node_harness *h, uint32_t peer, enum inc_term_reason reason)
{
	assert_int_equal(inc_term_lost(h->t, peer, reason), 0);
	act(h);
}

void node_tick(struct node_harness *h, uint64_t now_ns)
{
	assert_int_equal(inc_term_tick(h->t, now_ns), 0);
	act(h);
}

uint32_t node_moves(const struct node_harness *h, bool late, uint32_t *move)
{
	uint32_t n = 0, i;

	for (i = 0; i < h->n_peers; i++) {
		if (node_can_give(h, i))
			move[n++] = i;
		if (late && node_can_finish(h, i))
			move[n++] = h->n_peers + i;
	}
	return n;
}

void node_move(struct node_harness *h, bool late, uint32_t move)
{
	uint32_t i;

	if (move < h->n_peers)
		node_give(h, move);
	else
		node_finish(h, move - h->n_peers);
	for (i = 0; !late && i < h->n_peers; i++)
		while (node_can_finish(h, i))
			node_finish(h, i);
}

void node_check_done(const struct node_harness *h)
{
	uint32_t i;

	assert_false(h->ended);
	assert_int_equal(h->n_taken, 0);
	for (i = 0; i < h->n_peers; i++) {
		const struct node_peer *p = &h->peer[i];

		assert_int_equal(p->given - h->base, h->n_calls);
		assert_int_equal(p->sent - h->base, h->n_calls);
		assert_int_equal(p->done, p->sent);
		assert_int_equal(p->posted, p->given + h->shape->slots);
	}
}

void node_check_ended(struct node_harness *h)
{
	uint32_t i;

	assert_true(h->ended);
	for (i = 0; i < h->n_peers; i++) {
		if (node_can_give(h, i))
			node_give(h, i);
		while (node_can_finish(h, i))
			node_finish(h, i);
	}
	assert_int_equal(h->n_taken, 0);
}
