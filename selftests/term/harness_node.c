/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "selftests/term/ref_floats.h"
#include "selftests/term/harness_node.h"
#include "selftests/unit/ref_switch.h"
#include "userspace/term/node_priv.h"

struct world_shape world_shape(uint32_t n_children, uint32_t ranks, uint32_t slots, bool has_parent)
{
	struct world_shape shape = {
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

void world_open_at(struct world *w, const struct world_shape *shape, const struct world_call *calls,
		   uint64_t n_calls, uint64_t base)
{
	const struct inc_term_conf conf = {.communicator = 12,
					   .receives = shape->slots,
					   .has_parent = shape->has_parent,
					   .n_children = shape->n_children,
					   .child = shape->child};
	uint32_t i;

	memset(w, 0, sizeof(*w));
	w->shape = shape;
	w->n_peers = shape->n_children + shape->has_parent;
	w->calls = calls;
	w->n_calls = n_calls;
	w->base = base;
	w->n_buffers = w->n_peers * shape->slots;
	w->bytes = calloc(w->n_buffers, sizeof(*w->bytes));
	w->taken = calloc(w->n_buffers, sizeof(*w->taken));
	w->reading = calloc(w->n_buffers, sizeof(*w->reading));
	w->sends = calloc(w->n_buffers, sizeof(*w->sends));
	assert_true(w->bytes && w->taken && w->reading && w->sends);
	assert_int_equal(inc_term_new(&conf, &w->t, NULL), 0);
	move_on(w->t, base);
	for (i = 0; i < w->n_peers; i++)
		w->peer[i] = (struct world_peer){base + shape->slots, base, base, base};
}

void world_open(struct world *w, const struct world_shape *shape, const struct world_call *calls,
		uint64_t n_calls)
{
	world_open_at(w, shape, calls, n_calls, 0);
}

void world_close(struct world *w)
{
	inc_term_free(w->t);
	free(w->bytes);
	free(w->taken);
	free(w->reading);
	free(w->sends);
}

/* --- the reference ------------------------------------------------------------------------- */

static const struct world_call *call_of(const struct world *w, uint64_t number)
{
	return &w->calls[(number - w->base) % w->n_calls];
}

static bool is_child(const struct world *w, uint32_t peer)
{
	return peer < w->shape->n_children;
}

/* Is the root of the call at this child? If the peer is the parent: is the root outside this node's
 * tree? */
static bool has_root(const struct world *w, uint32_t peer, uint64_t number)
{
	const uint32_t root = INC_DESC_ROOT(call_of(w, number)->desc);
	uint32_t c;

	if (is_child(w, peer))
		return inc_ranks_have(&w->shape->child[peer].ranks, root);
	for (c = 0; c < w->shape->n_children; c++)
		if (inc_ranks_have(&w->shape->child[c].ranks, root))
			return false;
	return true;
}

static uint32_t ranks_below(const struct world *w)
{
	uint32_t c, n = 0;

	for (c = 0; c < w->shape->n_children; c++)
		n += inc_ranks_count(&w->shape->child[c].ranks);
	return n;
}

/* The length of a peer's message to the node. The parent sends the result for the ranks below the
 * node. */
static uint32_t given_length(const struct world *w, uint32_t peer, uint64_t number)
{
	const struct world_call *call = call_of(w, number);
	const bool root = has_root(w, peer, number);

	switch (INC_DESC_COLL(call->desc)) {
	case INC_COLL_ALLREDUCE:
		return call->length;
	case INC_COLL_REDUCE:
	case INC_COLL_REDUCE_SCATTER:
		return is_child(w, peer) || !root ? call->length : 0;
	case INC_COLL_BROADCAST:
	case INC_COLL_ALL_GATHER:
		if (is_child(w, peer))
			return root ? call->length : 0;
		return root || ranks_below(w) > 1 ? call->length : 0;
	}
	return 0;
}

/* The length of the node's message to a peer: a child must get its result, the parent the partial
 * sum. */
static uint32_t owed_length(const struct world *w, uint32_t peer, uint64_t number)
{
	const struct world_call *call = call_of(w, number);
	const bool root = has_root(w, peer, number);

	switch (INC_DESC_COLL(call->desc)) {
	case INC_COLL_ALLREDUCE:
		return call->length;
	case INC_COLL_REDUCE:
	case INC_COLL_REDUCE_SCATTER:
		return !is_child(w, peer) || root ? call->length : 0;
	case INC_COLL_BROADCAST:
	case INC_COLL_ALL_GATHER:
		if (!is_child(w, peer))
			return root ? 0 : call->length;
		return !root || inc_ranks_count(&w->shape->child[peer].ranks) > 1 ? call->length
										  : 0;
	}
	return 0;
}

/* Does a message of this peer carry its descriptor? A message of the parent always does. */
static bool brings_desc(const struct world *w, uint32_t peer, uint64_t number)
{
	return !is_child(w, peer) || call_of(w, number)->first || (number * 7 + peer) % 3 == 0;
}

static bool are_floats(const struct world *w, uint64_t number)
{
	return w->shape->form.native_floats && ref_are_floats(call_of(w, number)->desc);
}

static struct ref_floats floats_of(const struct world *w, uint64_t number)
{
	const struct world_call *call = call_of(w, number);

	return (struct ref_floats){call->desc, call->length, number, w->shape->n_children,
				   w->shape->form.swapped};
}

/* Fills in the bytes of a peer's message to the node. */
static void fill(const struct world *w, uint32_t peer, uint64_t number, uint8_t *bytes,
		 uint32_t length)
{
	uint32_t i, x = (uint32_t)number * 2654435761u + peer * 40503u + 1;
	const struct ref_floats f = floats_of(w, number);

	if (are_floats(w, number)) {
		memcpy(bytes, ref_floats_part(&f, peer), length);
		return;
	}
	for (i = 0; i < length; i++) {
		x = x * 1664525u + 1013904223u;
		bytes[i] = x >> 24;
	}
}

/* Adds up the children's contributions, child by child. */
static void sum_of_parts(const struct world *w, uint64_t number, uint8_t sum[WORLD_BYTES])
{
	const uint32_t desc = call_of(w, number)->desc;
	const struct ref_floats f = floats_of(w, number);
	uint8_t part[WORLD_BYTES];
	bool first = true;
	uint32_t c, length;

	if (are_floats(w, number)) {
		memcpy(sum, ref_floats_sum(&f), f.length);
		return;
	}
	for (c = 0; c < w->shape->n_children; c++) {
		length = given_length(w, c, number);
		if (!length)
			continue;
		fill(w, c, number, part, length);
		if (first)
			memcpy(sum, part, length);
		else
			ref_operate(desc, w->shape->form.swapped, sum, part, length);
		first = false;
	}
}

bool world_order_matters(const struct world *w, uint64_t number)
{
	const struct ref_floats f = floats_of(w, number);

	return ref_floats_order_matters(&f);
}

static void check_sent(const struct world *w, const struct inc_term_action *a)
{
	const uint32_t length = owed_length(w, a->peer, a->number);
	uint8_t bytes[WORLD_BYTES];

	assert_int_equal(a->length, length);
	assert_int_equal(a->has_desc, brings_desc(w, a->peer, a->number));
	assert_int_equal(a->desc, call_of(w, a->number)->desc);
	if (w->shape->has_parent && is_child(w, a->peer))
		fill(w, w->shape->n_children, a->number, bytes, length);
	else if (length)
		sum_of_parts(w, a->number, bytes);
	if (length)
		assert_memory_equal(a->buffer, bytes, length);
}

/* --- the endpoints ------------------------------------------------------------------------- */

/* The index of a buffer that the node uses. */
static uint32_t place_of(const struct world *w, const void *buffer)
{
	const size_t offset = (const uint8_t *)buffer - w->bytes[0];
	const uint32_t i = offset / WORLD_BYTES;

	assert_true(offset < (size_t)w->n_buffers * WORLD_BYTES && offset % WORLD_BYTES == 0);
	assert_true(w->taken[i]);
	return i;
}

static uint8_t *take_buffer(struct world *w)
{
	uint32_t i = 0;

	while (i < w->n_buffers && w->taken[i])
		i++;
	assert_true(i < w->n_buffers);
	w->taken[i] = true;
	w->n_taken++;
	if (w->n_taken > w->most_taken)
		w->most_taken = w->n_taken;
	return w->bytes[i];
}

static struct world_send *send_of(struct world *w, uint32_t peer, uint64_t number)
{
	return &w->sends[peer * w->shape->slots + number % w->shape->slots];
}

static void on_reduce(struct world *w, const struct inc_term_action *a)
{
	uint32_t i;

	assert_true(a->n_sources > 1 && a->source[0] == a->buffer && !w->ended);
	for (i = 0; i < a->n_sources; i++)
		assert_int_equal(w->reading[place_of(w, a->source[i])], 0);
	inc_term_reduce(&w->shape->form, a->desc, a->buffer, a->source, a->n_sources, a->length);
	w->n_reduced++;
}

static void on_send(struct world *w, const struct inc_term_action *a)
{
	struct world_peer *p = &w->peer[a->peer];

	assert_true(a->peer < w->n_peers && !w->ended && a->number == p->sent);
	assert_true(p->sent - p->done < w->shape->slots);
	assert_int_equal(!a->buffer, !a->length);
	if (w->calls)
		check_sent(w, a);
	if (a->buffer)
		w->reading[place_of(w, a->buffer)]++;
	*send_of(w, a->peer, p->sent++) = (struct world_send){a->number, a->buffer, a->length};
}

static void on_release(struct world *w, const struct inc_term_action *a)
{
	const uint32_t i = place_of(w, a->buffer);

	assert_int_equal(w->reading[i], 0);
	w->taken[i] = false;
	w->n_taken--;
	memset(w->bytes[i], 0xee, WORLD_BYTES);
}

/* Carries out the actions that the node requests. */
static void act(struct world *w)
{
	struct inc_term_action a;
	uint32_t i;

	while (inc_term_next(w->t, &a)) {
		assert_true(!w->ended || a.what == INC_TERM_DO_RELEASE);
		switch (a.what) {
		case INC_TERM_DO_REDUCE:
			on_reduce(w, &a);
			break;
		case INC_TERM_DO_SEND:
			on_send(w, &a);
			break;
		case INC_TERM_DO_RELEASE:
			on_release(w, &a);
			break;
		case INC_TERM_DO_RECEIVE:
			for (i = 0; i < w->n_peers; i++)
				w->peer[i].posted++;
			break;
		case INC_TERM_DO_REPORT:
			w->n_told++;
			inc_term_describe(w->t, &a, &w->report);
			break;
		case INC_TERM_DO_PORT_LOST:
			w->n_port_lost++;
			break;
		case INC_TERM_DO_END:
			w->ended = true;
			inc_term_describe(w->t, &a, &w->report);
			break;
		}
	}
}

bool world_can_give(const struct world *w, uint32_t peer)
{
	const struct world_peer *p = &w->peer[peer];

	if (p->given - w->base == w->n_calls)
		return false;
	if (!is_child(w, peer))
		return p->given != p->sent;
	return p->given != p->posted;
}

void world_give_this(struct world *w, uint32_t peer, uint64_t number,
		     const struct inc_term_message *m)
{
	struct inc_term_message in = *m;

	in.buffer = take_buffer(w);
	if (m->length)
		memcpy(in.buffer, m->buffer, m->length);
	assert_int_equal(inc_term_message(w->t, peer, number, &in), 0);
	act(w);
}

void world_give(struct world *w, uint32_t peer)
{
	struct world_peer *p = &w->peer[peer];
	uint8_t bytes[WORLD_BYTES];
	const struct inc_term_message m = {
		.has_desc = brings_desc(w, peer, p->given),
		.desc = brings_desc(w, peer, p->given) ? call_of(w, p->given)->desc : 0xdeadbeef,
		.length = given_length(w, peer, p->given),
		.buffer = bytes,
	};

	/* the window guarantees that a receive is posted for each message */
	assert_true(p->given != p->posted);
	fill(w, peer, p->given, bytes, m.length);
	world_give_this(w, peer, p->given++, &m);
}

bool world_can_finish(const struct world *w, uint32_t peer)
{
	return w->peer[peer].done != w->peer[peer].sent;
}

void world_finish(struct world *w, uint32_t peer)
{
	struct world_peer *p = &w->peer[peer];
	const struct world_send *s = send_of(w, peer, p->done);

	assert_true(world_can_finish(w, peer));
	if (s->buffer) {
		assert_true(w->reading[place_of(w, s->buffer)] > 0);
		w->reading[place_of(w, s->buffer)]--;
	}
	assert_int_equal(inc_term_sent(w->t, peer, p->done++), 0);
	act(w);
}

void world_lose(struct world *w, uint32_t peer, enum inc_term_reason reason)
{
	assert_int_equal(inc_term_lost(w->t, peer, reason), 0);
	act(w);
}

void world_tick(struct world *w, uint64_t now_ns)
{
	assert_int_equal(inc_term_tick(w->t, now_ns), 0);
	act(w);
}

uint32_t world_moves(const struct world *w, bool late, uint32_t *move)
{
	uint32_t n = 0, i;

	for (i = 0; i < w->n_peers; i++) {
		if (world_can_give(w, i))
			move[n++] = i;
		if (late && world_can_finish(w, i))
			move[n++] = w->n_peers + i;
	}
	return n;
}

void world_move(struct world *w, bool late, uint32_t move)
{
	uint32_t i;

	if (move < w->n_peers)
		world_give(w, move);
	else
		world_finish(w, move - w->n_peers);
	for (i = 0; !late && i < w->n_peers; i++)
		while (world_can_finish(w, i))
			world_finish(w, i);
}

void world_check_done(const struct world *w)
{
	uint32_t i;

	assert_false(w->ended);
	assert_int_equal(w->n_taken, 0);
	for (i = 0; i < w->n_peers; i++) {
		const struct world_peer *p = &w->peer[i];

		assert_int_equal(p->given - w->base, w->n_calls);
		assert_int_equal(p->sent - w->base, w->n_calls);
		assert_int_equal(p->done, p->sent);
		assert_int_equal(p->posted, p->given + w->shape->slots);
	}
}

void world_check_ended(struct world *w)
{
	uint32_t i;

	assert_true(w->ended);
	for (i = 0; i < w->n_peers; i++) {
		if (world_can_give(w, i))
			world_give(w, i);
		while (world_can_finish(w, i))
			world_finish(w, i);
	}
	assert_int_equal(w->n_taken, 0);
}
