/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "selftests/term/harness_paths.h"
#include "userspace/term/node_priv.h"

uint32_t path_choose(struct path *path, uint32_t n)
{
	const uint32_t at = path->at++;

	assert_true(at < PATH_STEPS && n > 0);
	if (at == path->length) {
		path->taken[at] = 0;
		path->length++;
	}
	path->of[at] = n;
	return path->taken[at];
}

bool path_step(struct path *path, struct node_harness *h, bool late)
{
	uint32_t moves[NODE_MOVES], n = node_moves(h, late, moves);

	if (n)
		node_move(h, late, moves[path_choose(path, n)]);
	return n;
}

/* Advances to the next path: changes the last choice that has another alternative left. */
static bool advance(struct path *path)
{
	while (path->length && path->taken[path->length - 1] + 1 == path->of[path->length - 1])
		path->length--;
	if (!path->length)
		return false;
	path->taken[path->length - 1]++;
	path->at = 0;
	return true;
}

uint64_t path_all(void (*run)(struct path *path, void *arg), void *arg)
{
	struct path path = {};
	uint64_t n = 0;

	do {
		run(&path, arg);
		n++;
	} while (advance(&path));
	return n;
}

#define STEPS       128
#define PLACES_BITS 21
#define PLACES      (1u << PLACES_BITS)

struct place {
	uint64_t state;  /* digest of the harness's state */
	uint64_t orders; /* number of orders from this state to the end; 0: the entry is free */
};

struct search {
	const struct states_job *job;
	uint32_t move[STEPS]; /* the moves that lead from the start to the current state */
	uint32_t n_moves;
	struct place *places; /* hash table of PLACES entries, with the digest for its key */
	uint64_t n_states;
};

/* --- a digest of all state on which further events depend ------------------------------------ */

/* A digest of a state. It numbers buffers in the order in which they are met, because it makes no
 * difference which of the free buffers the node has used. */
struct digest {
	const struct node_harness *h;
	uint64_t sum;
	uint32_t n_met;
	uint32_t met[STEPS]; /* indices of buffers, in the order in which they were met */
};

static void add(struct digest *d, const void *bytes, size_t n)
{
	uint64_t x;
	size_t i;

	for (i = 0; i < n; i += sizeof(x)) {
		x = 0;
		memcpy(&x, (const uint8_t *)bytes + i, n - i < sizeof(x) ? n - i : sizeof(x));
		/* This mixer is that of splitmix64. Each of its steps is reversible, so it loses no
		 * information except by the size of the sum.
		 */
		x += d->sum + 0x9e3779b97f4a7c15ull;
		x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
		x = (x ^ x >> 27) * 0x94d049bb133111ebull;
		d->sum = x ^ x >> 31;
	}
}

static void add_number(struct digest *d, uint64_t number)
{
	add(d, &number, sizeof(number));
}

/* Adds the buffer's number to the digest. When the buffer is met for the first time, also adds its
 * contents. */
static void add_buffer(struct digest *d, const void *buffer)
{
	const struct node_harness *h = d->h;
	uint32_t place, i;

	if (!buffer) {
		add_number(d, UINT64_MAX);
		return;
	}
	place = ((const uint8_t *)buffer - h->bytes[0]) / NODE_BYTES;
	assert_true(place < h->n_buffers);
	for (i = 0; i < d->n_met && d->met[i] != place; i++)
		;
	add_number(d, i);
	if (i < d->n_met)
		return;
	assert_true(d->n_met < STEPS);
	d->met[d->n_met++] = place;
	add_number(d, h->taken[place]);
	add_number(d, h->reading[place]);
	add(d, h->bytes[place], NODE_BYTES);
}

static void add_slot(struct digest *d, const struct inc_term *t, uint32_t i)
{
	struct term_slot slot = t->slot[i];
	uint32_t c;

	add_buffer(d, slot.partial);
	add_buffer(d, slot.result);
	slot.partial = slot.result = NULL;
	add(d, &slot, sizeof(slot));
	for (c = 0; c < t->n_children; c++) {
		struct term_part part = t->part[i * t->n_children + c];

		add_buffer(d, part.buffer);
		part.buffer = NULL;
		add(d, &part, sizeof(part));
	}
}

/* Adds the whole node to the digest, so that it also covers fields that are added to the node
 * later. */
static void add_node(struct digest *d, const struct inc_term *t)
{
	struct inc_term rest = *t;
	uint32_t i;

	assert_int_equal(t->n_actions, t->taken);
	for (i = 0; i < t->slots; i++)
		add_slot(d, t, i);
	add(d, t->peer, (t->n_children + t->has_parent) * sizeof(t->peer[0]));
	/* leaves out the arrays whose entries were added above, and actions that have been carried
	 * out */
	memset(rest.peer, 0, sizeof(rest.peer));
	memset(rest.source, 0, sizeof(rest.source));
	memset(rest.action, 0, sizeof(rest.action));
	rest.slot = NULL;
	rest.part = NULL;
	rest.n_actions = rest.taken = 0;
	add(d, &rest, offsetof(struct inc_term, action));
}

static uint64_t digest(const struct node_harness *h)
{
	struct digest d = {.h = h};
	uint32_t i;

	add_node(&d, h->t);
	for (i = 0; i < h->n_peers; i++) {
		const struct node_peer *p = &h->peer[i];
		uint64_t n;

		add(&d, p, sizeof(*p));
		for (n = p->done; n != p->sent; n++) {
			const struct node_send *s =
				&h->sends[i * h->shape->slots + n % h->shape->slots];

			add_number(&d, s->length);
			add_buffer(&d, s->buffer);
		}
	}
	add_number(&d, h->n_taken);
	add_number(&d, h->ended);
	add_number(&d, h->n_told);
	return d.sum;
}

/* --- all orders ----------------------------------------------------------------------------- */

static struct place *place_of(struct search *s, uint64_t state)
{
	uint32_t i = state >> (64 - PLACES_BITS);

	while (s->places[i].orders && s->places[i].state != state)
		i = (i + 1) % PLACES;
	return &s->places[i];
}

/* Replays the moves to the current state, and lists the moves from there. If the state was met
 * before, sets *orders to its number of orders. */
static uint32_t go(struct search *s, uint32_t moves[NODE_MOVES], uint64_t *state, uint64_t *orders)
{
	const struct states_job *job = s->job;
	struct node_harness h;
	uint32_t i, n;

	node_open(&h, &job->shape, job->calls, job->n_calls);
	for (i = 0; i < s->n_moves; i++)
		node_move(&h, job->late, s->move[i]);
	n = node_moves(&h, job->late, moves);
	*state = digest(&h);
	*orders = place_of(s, *state)->orders;
	if (!n)
		node_check_done(&h);
	node_close(&h);
	return n;
}

static uint64_t explore(struct search *s)
{
	uint32_t moves[NODE_MOVES], n, i;
	uint64_t state, orders;

	n = go(s, moves, &state, &orders);
	if (orders)
		return orders;
	orders = n == 0;
	assert_true(s->n_moves < STEPS);
	for (i = 0; i < n; i++) {
		s->move[s->n_moves++] = moves[i];
		assert_false(__builtin_add_overflow(orders, explore(s), &orders));
		s->n_moves--;
	}
	assert_true(++s->n_states < PLACES / 2);
	*place_of(s, state) = (struct place){state, orders};
	return orders;
}

uint64_t states_all(const struct states_job *job, uint64_t *states)
{
	struct search s = {.job = job, .places = calloc(PLACES, sizeof(*s.places))};
	uint64_t orders;

	assert_non_null(s.places);
	orders = explore(&s);
	free(s.places);
	if (states)
		*states = s.n_states;
	return orders;
}
