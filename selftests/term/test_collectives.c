/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/*
 * Which peer is sent which data: every collective with every root, at a child and elsewhere, with
 * hosts and switches as children, at the root switch and below it. Also every operator on every
 * type, messages of many shapes, and long random jobs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include "lib/base/clock.h"
#include "lib/proto/desc.h"
#include "selftests/term/harness_node.h"

/* Plays one message. The children send it from the last child to the first, so that the order of
 * arrival is not that of the ranks. */
static void play(const struct node_shape *shape, const struct node_call *call, uint32_t n_calls)
{
	struct node_harness h;
	uint32_t i, m;

	node_open(&h, shape, call, n_calls);
	for (m = 0; m < n_calls; m++) {
		for (i = shape->n_children; i-- > 0;)
			node_give(&h, i);
		if (shape->has_parent)
			node_give(&h, shape->n_children);
		for (i = 0; i < h.n_peers; i++)
			node_finish(&h, i);
	}
	node_check_done(&h);
	node_close(&h);
}

static const uint32_t shapes[][2] = {{1, 1}, {1, 3}, {2, 1}, {3, 1}, {3, 2}, {5, 7}};

static void test_roots(void **state)
{
	uint32_t coll, s, root, up;

	for (s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
		for (up = 0; up < 2; up++) {
			const struct node_shape shape =
				node_shape(shapes[s][0], shapes[s][1], 1, up);
			const uint32_t ranks = shapes[s][0] * shapes[s][1];

			for (coll = 0; coll < INC_N_COLLECTIVES; coll++)
				for (root = 0; root < ranks + 2 * up; root++) {
					const struct node_call call = {
						INC_DESC(coll, INC_OPERATOR_SUM, INC_DTYPE_INT32,
							 root < ranks ? root : INC_MAX_RANKS - 1,
							 7),
						coll == INC_COLL_BARRIER ? 0 : 24, true};

					play(&shape, &call, 1);
				}
		}
	}
}

static void test_operators(void **state)
{
	uint32_t op, dtype, way;

	for (way = 0; way < 8; way++)
		for (op = 0; op < INC_N_WIRE_OPERATORS; op++)
			for (dtype = 0; dtype < INC_N_WIRE_DTYPES; dtype++) {
				struct node_shape shape = node_shape(4, 1, 2, way & 1);
				const uint32_t desc = INC_DESC(INC_COLL_ALLREDUCE, op, dtype, 0, 0);
				const struct node_call calls[] = {
					{desc, NODE_BYTES, true},
					{desc, inc_element_bytes(desc), false}};

				shape.form.native_floats = way & 2;
				shape.form.swapped = way & 4;
				if (inc_desc_known(desc, 0))
					play(&shape, calls, 2);
			}
}

/* Messages without data, for which the node reduces and stores nothing. Also vectors of several
 * messages, whose descriptor comes once, or again if a child repeats it. */
static void test_shapes(void **state)
{
	const uint32_t sum = INC_DESC(INC_COLL_ALLREDUCE, INC_OPERATOR_SUM, INC_DTYPE_INT32, 0, 0),
		       max = INC_DESC(INC_COLL_ALLREDUCE, INC_OPERATOR_MAX, INC_DTYPE_INT8, 0, 1);
	const struct node_call calls[] = {{sum, 0, true},  {sum, 64, false}, {sum, 64, false},
					  {sum, 4, false}, {max, 3, true},   {max, 0, false}};
	uint32_t n, up;

	for (n = 1; n <= 5; n++)
		for (up = 0; up < 2; up++) {
			const struct node_shape shape = node_shape(n, 1, 2, up);

			play(&shape, calls, sizeof(calls) / sizeof(calls[0]));
		}
}

static void test_most_children(void **state)
{
	const struct node_call calls[] = {
		{INC_DESC(INC_COLL_ALLREDUCE, INC_OPERATOR_SUM, INC_DTYPE_FLOAT32, 0, 0), 64, true},
		{INC_DESC(INC_COLL_BROADCAST, 0, INC_DTYPE_INT64, 63 * 64, 1), 64, true},
		{INC_DESC(INC_COLL_BARRIER, 0, 0, 0, 2), 0, true}};
	uint32_t up;

	for (up = 0; up < 2; up++) {
		const struct node_shape shape = node_shape(INC_COMM_MAX_CHILDREN, 64, 1, up);

		play(&shape, calls, 3);
	}
}

/* The node copies no buffer without need. It sends the data of a Broadcast, and of a single child,
 * from the buffer in which they came. It computes nothing of a Reduce whose root is in another
 * tree. */
static void test_nothing_for_nothing(void **state)
{
	const struct node_shape shape = node_shape(3, 1, 1, false),
				one = node_shape(1, 1, 1, false);
	const struct node_call broadcast = {INC_DESC(INC_COLL_BROADCAST, 0, INC_DTYPE_INT32, 1, 0),
					    64, true},
			       sum = {INC_DESC(INC_COLL_ALLREDUCE, 0, INC_DTYPE_INT32, 1, 0), 64,
				      true};
	struct node_harness h;
	uint32_t i;

	node_open(&h, &shape, &broadcast, 1);
	for (i = 0; i < 3; i++)
		node_give(&h, i);
	assert_int_equal(h.n_reduced, 0);
	assert_int_equal(h.n_taken, 1);
	for (i = 0; i < 3; i++)
		node_finish(&h, i);
	node_check_done(&h);
	node_close(&h);

	node_open(&h, &one, &sum, 1);
	node_give(&h, 0);
	assert_int_equal(h.n_reduced, 0);
	node_finish(&h, 0);
	node_check_done(&h);
	node_close(&h);
}

/*
 * Random jobs of every shape, whose results are compared with the plain reference. Message
 * numbers pass the limits of 24, 32 and 64 bits. A slow peer makes the others wait, while the use
 * of memory does not grow.
 */

#define MAX_CALLS 2000

static uint64_t seed;

static uint32_t below(uint32_t n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (seed >> 33) % n;
}

/* Draws the calls of a job. elsewhere: the root may be a rank that is not below the node. */
static void make_calls(struct node_call *calls, uint32_t n, uint32_t ranks, bool elsewhere)
{
	uint32_t i, seq = below(1024);

	for (i = 0; i < n; i++) {
		struct node_call *c = &calls[i];
		uint32_t dtype = below(INC_N_WIRE_DTYPES), element;

		c->first = !i || !below(3);
		c->desc = INC_DESC(below(INC_N_COLLECTIVES), below(INC_N_WIRE_OPERATORS), dtype,
				   !elsewhere || below(8) ? below(ranks) : INC_MAX_RANKS - 1, seq);
		/* an element of two numbers has two operators only */
		if (!inc_desc_known(c->desc, 0))
			c->desc = INC_DESC(INC_COLL_ALLREDUCE, INC_OPERATOR_MAX, dtype, 0, seq);
		if (c->first)
			seq++;
		else
			c->desc = calls[i - 1].desc;
		element = inc_element_bytes(c->desc);
		c->length = below(8) ? element * below(NODE_BYTES / element + 1) : 0;
		if (INC_DESC_COLL(c->desc) == INC_COLL_BARRIER)
			c->length = 0;
	}
}

/* Makes random moves until none is possible. At times all moves are equally likely, at times some
 * are more frequent. */
static void run(struct node_harness *h)
{
	uint32_t moves[NODE_MOVES], n, i;

	for (i = 0; (n = node_moves(h, true, moves)); i++)
		node_move(h, true, moves[below(i / 50 % 2 ? 1 + below(n) : n)]);
}

static void play_job(uint32_t children, uint32_t ranks, uint32_t slots, bool has_parent, uint32_t n,
		     uint64_t base)
{
	static struct node_call calls[MAX_CALLS];
	const struct node_shape shape = node_shape(children, ranks, slots, has_parent);
	struct node_harness h;

	make_calls(calls, n, children * ranks, has_parent);
	node_open_at(&h, &shape, calls, n, base);
	run(&h);
	node_check_done(&h);
	node_close(&h);
}

static void test_jobs(void **state)
{
	uint32_t i;

	for (seed = 1, i = 0; i < 60; i++)
		play_job(1 + below(6), 1 + below(3) * below(4), 1u << below(5), below(2), 500, 0);
}

static void test_many_children(void **state)
{
	for (uint32_t up = 0; up < 2; up++) {
		seed = 7;
		play_job(INC_COMM_MAX_CHILDREN, 1 + 63 * up, 4, up, 100, 0);
		play_job(INC_COMM_MAX_CHILDREN - 1, 1, 1, up, 50, 0);
	}
}

static void test_wrap(void **state)
{
	static const uint64_t ends[] = {1ull << 10, 1ull << 24, 1ull << 32, 0};
	uint32_t i, up;

	for (i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		for (up = 0; up < 2; up++) {
			seed = i + 1;
			play_job(3, 1, 8, up, 100, ends[i] - 50);
		}
}

/* One peer acknowledges nothing. The others advance to the end of their windows and no further. */
static void stall(uint32_t children, bool has_parent, uint32_t slow)
{
	struct node_call calls[20];
	const struct node_shape shape = node_shape(children, 1, 4, has_parent);
	const uint64_t second = INC_NSEC_PER_SEC;
	struct inc_term_peer_figures f;
	struct node_harness h;
	uint32_t i, round;

	for (i = 0; i < 20; i++)
		calls[i] = (struct node_call){
			INC_DESC(INC_COLL_ALLREDUCE, INC_OPERATOR_SUM, INC_DTYPE_INT32, 0, i), 16,
			true};
	node_open(&h, &shape, calls, 20);
	for (round = 0; round < 20; round++)
		for (i = 0; i < h.n_peers; i++) {
			if (node_can_give(&h, i))
				node_give(&h, i);
			if (i != slow && node_can_finish(&h, i))
				node_finish(&h, i);
		}
	for (i = 0; i < h.n_peers; i++)
		assert_int_equal(h.peer[i].given, 4);
	assert_true(h.n_taken <= 4 * h.n_peers);
	for (i = 0; i < 15; i++) {
		node_tick(&h, (1000 + i) * second);
		assert_int_equal(h.n_told, i >= INC_UNRESPONSIVE_S);
	}
	assert_string_equal(inc_event_info[h.report.kind].name, "unresponsive");
	assert_int_equal(h.report.n_ranks, slow < children);
	inc_term_peer_figures(h.t, slow, &f);
	assert_true(f.unresponsive && f.sent == 4 && f.acknowledged == 0);
	node_finish(&h, slow);
	node_tick(&h, 1020 * second);
	inc_term_peer_figures(h.t, slow, &f);
	assert_true(!f.unresponsive && h.n_told == 1 && !h.ended);
	run(&h);
	for (i = 0; i < h.n_peers; i++)
		assert_int_equal(h.peer[i].done, 20);
	assert_int_equal(h.n_taken, 0);
	node_close(&h);
}

static void test_slow(void **state)
{
	uint32_t n, slow;

	for (n = 1; n <= 4; n++)
		for (slow = 0; slow < n; slow++) {
			stall(n, false, slow);
			stall(n, true, slow);
			stall(n, true, n);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_roots),
		cmocka_unit_test(test_operators),
		cmocka_unit_test(test_shapes),
		cmocka_unit_test(test_most_children),
		cmocka_unit_test(test_nothing_for_nothing),
		cmocka_unit_test(test_jobs),
		cmocka_unit_test(test_many_children),
		cmocka_unit_test(test_wrap),
		cmocka_unit_test(test_slow),
	};

	return cmocka_run_group_tests_name("term collectives", tests, NULL, NULL);
}
