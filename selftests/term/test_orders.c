/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every order in which the messages of some children, the parent's answers and the completions of
 * sends can come. Each order is played, and each must bring every peer the same bytes. The sums are
 * of floats, for which another order of addition has another result. TIMEOUT: 600
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>
#include "lib/proto/desc.h"
#include "selftests/term/harness_paths.h"
#include "selftests/term/harness_node.h"

#define SUM(dtype, seq) INC_DESC(INC_COLL_ALLREDUCE, INC_OPERATOR_SUM, INC_DTYPE_##dtype, 0, seq)

static const struct node_call sums[] = {
	{SUM(FLOAT32, 0), 16, true}, {SUM(FLOAT16, 1), 16, true}, {SUM(FLOAT16, 1), 8, false}};
static const struct node_call others[] = {
	{SUM(BFLOAT16, 0), 16, true}, {SUM(FLOAT32, 1), 8, true}, {SUM(FLOAT32, 1), 12, false}};

/* Plays all orders. The caller knows their number, so that a missing order is noticed. */
static void try(uint32_t children, bool has_parent, uint32_t slots, uint32_t n_calls, bool late,
		uint64_t orders)
{
	const struct states_job job = {node_shape(children, 1, slots, has_parent), sums, n_calls,
				       late};
	uint64_t states, n = states_all(&job, &states);

	print_message("# %u children, %s, %u slots, %u messages, %s: %llu orders, %llu states\n",
		      children, has_parent ? "a parent" : "root", slots, n_calls,
		      late ? "completions at any time" : "completions at once",
		      (unsigned long long)n, (unsigned long long)states);
	assert_int_equal(n, orders);
}

/* the number of orders is (children * 3)! / 3!^children */
static void test_arrivals(void **state)
{
	try(1, false, 4, 3, false, 1);
	try(2, false, 4, 3, false, 20);
	try(3, false, 4, 3, false, 1680);
	try(4, false, 4, 3, false, 369600);
}

static void test_answers(void **state)
{
	try(1, true, 4, 3, false, 5);
	try(2, true, 4, 3, false, 192);
	try(3, true, 4, 3, false, 24444);
	try(4, true, 4, 2, false, 9216);
	try(4, true, 4, 3, false, 7303104);
}

static void test_completions(void **state)
{
	try(2, false, 2, 2, true, 152);
	try(2, false, 4, 3, true, 10948);
	try(3, false, 2, 2, true, 69336);
	try(1, true, 2, 3, true, 2001);
	try(2, true, 2, 2, true, 16784);
	try(4, false, 2, 2, true, 107360640);
	try(4, true, 2, 2, true, 33110508672);
	try(4, false, 4, 3, true, 92445210685440);
#ifndef __SANITIZE_ADDRESS__ /* this search takes ten seconds of CPU time without the sanitizer */
	try(4, true, 4, 3, true, 2865944623571735040);
#endif
}

/* The window is smaller than the job, so peers that are ahead have to wait. */
static void test_windows(void **state)
{
	try(4, false, 1, 3, false, 13824);
	try(3, true, 1, 3, false, 216);
	try(2, false, 1, 3, true, 64);
	try(2, true, 1, 2, true, 256);
	try(3, false, 2, 3, false, 1296);
}

/* Searches with other types, and with elements in the other byte order. */
static void test_types(void **state)
{
	struct states_job job = {node_shape(3, 1, 4, false), others, 3, false};

	assert_int_equal(states_all(&job, NULL), 1680);
	job.shape.form.swapped = true;
	assert_int_equal(states_all(&job, NULL), 1680);
	job.calls = sums;
	assert_int_equal(states_all(&job, NULL), 1680);
}

static void play(struct path *path, void *arg)
{
	const struct states_job *job = arg;
	struct node_harness h;

	node_open(&h, &job->shape, job->calls, job->n_calls);
	while (path_step(path, &h, job->late))
		;
	node_check_done(&h);
	node_close(&h);
}

/* States with equal digests continue alike. This test proves it: playing the orders one by one must
 * give the same number of orders. */
static void test_one_by_one(void **state)
{
	struct states_job answers = {node_shape(3, 1, 4, true), sums, 3, false};
	struct states_job completions = {node_shape(2, 1, 4, false), sums, 3, true};

	assert_int_equal(path_all(play, &answers), states_all(&answers, NULL));
	assert_int_equal(path_all(play, &completions), states_all(&completions, NULL));
}

/* The sums must depend on the order of addition, because otherwise the tests above would show
 * nothing. */
static void test_orders_differ(void **state)
{
	const struct node_shape shape = node_shape(4, 1, 4, false);
	struct node_harness h;
	uint64_t i;

	node_open(&h, &shape, sums, 3);
	for (i = 0; i < 3; i++)
		assert_true(node_order_matters(&h, i));
	node_close(&h);
	node_open(&h, &shape, others, 3);
	for (i = 0; i < 3; i++)
		assert_true(node_order_matters(&h, i));
	node_close(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_arrivals),      cmocka_unit_test(test_answers),
		cmocka_unit_test(test_completions),   cmocka_unit_test(test_windows),
		cmocka_unit_test(test_types),         cmocka_unit_test(test_one_by_one),
		cmocka_unit_test(test_orders_differ),
	};

	return cmocka_run_group_tests_name("term orders", tests, NULL, NULL);
}
