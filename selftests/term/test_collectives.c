/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/*
 * Which peer is sent which data: every collective with every root, at a child and elsewhere, with
 * hosts and switches as children, at the root switch and below it. Also every operator on every
 * type, and messages of many shapes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_roots),
		cmocka_unit_test(test_operators),
		cmocka_unit_test(test_shapes),
		cmocka_unit_test(test_most_children),
		cmocka_unit_test(test_nothing_for_nothing),
	};

	return cmocka_run_group_tests_name("term collectives", tests, NULL, NULL);
}
