/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* Ranks call different collectives, and peers send messages that they must not send. The report
 * must name the right peer and the fault. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "lib/proto/desc.h"
#include "selftests/term/harness_node.h"

#define CALL(coll, op, dtype, root, seq) \
	INC_DESC(INC_COLL_##coll, INC_OPERATOR_##op, INC_DTYPE_##dtype, root, seq)
#define SUM CALL(ALLREDUCE, SUM, INT32, 0, 7)

static const uint8_t data[NODE_BYTES] = {1, 2, 3};

static struct inc_term_message message(uint32_t desc, uint32_t length)
{
	return (struct inc_term_message){true, desc, length, (void *)data};
}

static void check_story(const struct node_harness *h, const char *event, const char *ranks,
			const char *text)
{
	char named[64] = "";
	uint32_t i, n = 0;

	assert_true(h->ended);
	assert_string_equal(inc_event_info[h->report.kind].name, event);
	for (i = 0; i < h->report.n_ranks; i++)
		n += snprintf(named + n, sizeof(named) - n, "%s%u", i ? "," : "",
			      h->report.ranks[i]);
	assert_string_equal(named, ranks);
	assert_string_equal(h->report.message, text);
}

/* Messages of three children. Child 0 contributes to a sum of 8 bytes, and the other two send the
 * messages in this row. */
struct odd {
	uint32_t first, first_length, desc[2], length[2];
	const char *ranks, *text;
};

#define CALLED_8 "rank 0 called allreduce (sum of int32, root 0, sequence 7) with 8 bytes"

static const struct odd odds[] = {
	{SUM,
	 8,
	 {SUM, SUM},
	 {8, 4},
	 "2",
	 CALLED_8 ", but rank 2 called allreduce (sum of int32, root 0, sequence 7) with 4 bytes; "
		  "different: size"},
	{SUM,
	 8,
	 {SUM, SUM},
	 {0, 8},
	 "1",
	 CALLED_8 ", but rank 1 called allreduce (sum of int32, root 0, sequence 7) with 0 bytes; "
		  "different: size"},
	{SUM,
	 8,
	 {CALL(REDUCE, SUM, INT32, 0, 7), SUM},
	 {8, 8},
	 "1",
	 CALLED_8 ", but rank 1 called reduce (sum of int32, root 0, sequence 7) with 8 bytes; "
		  "different: collective"},
	{SUM,
	 8,
	 {SUM, CALL(ALLREDUCE, MAX, INT32, 0, 7)},
	 {8, 8},
	 "2",
	 CALLED_8 ", but rank 2 called allreduce (max of int32, root 0, sequence 7) with 8 bytes; "
		  "different: operator"},
	{SUM,
	 8,
	 {SUM, CALL(ALLREDUCE, AVG, INT32, 0, 7)},
	 {8, 8},
	 "2",
	 CALLED_8 ", but rank 2 called allreduce (avg of int32, root 0, sequence 7) with 8 bytes; "
		  "different: operator"},
	{SUM,
	 8,
	 {CALL(ALLREDUCE, SUM, FLOAT32, 0, 7), SUM},
	 {8, 8},
	 "1",
	 CALLED_8 ", but rank 1 called allreduce (sum of float32, root 0, sequence 7) with 8 "
		  "bytes; different: type"},
	{SUM,
	 8,
	 {SUM, CALL(ALLREDUCE, SUM, INT32, 2, 7)},
	 {8, 8},
	 "2",
	 CALLED_8 ", but rank 2 called allreduce (sum of int32, root 2, sequence 7) with 8 bytes; "
		  "different: root"},
	{SUM,
	 8,
	 {SUM, CALL(ALLREDUCE, SUM, INT32, 0, 8)},
	 {8, 8},
	 "2",
	 CALLED_8 ", but rank 2 called allreduce (sum of int32, root 0, sequence 8) with 8 bytes; "
		  "different: size of sequence 7"},
	{SUM,
	 8,
	 {CALL(BARRIER, SUM, INT32, 0, 7), CALL(BARRIER, SUM, INT32, 0, 7)},
	 {0, 0},
	 "1,2",
	 CALLED_8
	 ", but rank 1 called barrier (root 0, sequence 7) with 0 bytes; different: collective"},
	/* in these rows child 0 differs from both other children */
	{SUM,
	 0,
	 {SUM, SUM},
	 {8, 8},
	 "0",
	 "rank 0 called allreduce (sum of int32, root 0, sequence 7) with 0 bytes"},
	{CALL(BROADCAST, SUM, INT8, 1, 7),
	 8,
	 {CALL(BROADCAST, SUM, INT8, 1, 7), CALL(BROADCAST, SUM, INT8, 1, 7)},
	 {8, 0},
	 "0",
	 "rank 0 called broadcast (int8, root 1, sequence 7) with 8 bytes"},
	{CALL(BROADCAST, SUM, INT8, 0, 7),
	 8,
	 {CALL(BROADCAST, SUM, INT8, 0, 7), CALL(BROADCAST, SUM, INT8, 0, 7)},
	 {0, 3},
	 "2",
	 "rank 0 called broadcast (int8, root 0, sequence 7) with 8 bytes, but "
	 "rank 2 called broadcast (int8, root 0, sequence 7) with 3 bytes; different: size"},
	{CALL(ALL_GATHER, SUM, INT8, 2, 7),
	 0,
	 {CALL(ALL_GATHER, SUM, INT8, 2, 7), CALL(ALL_GATHER, SUM, INT8, 2, 7)},
	 {5, 5},
	 "1",
	 "rank 0 called allgather (int8, root 2, sequence 7) with 0 bytes, but "
	 "rank 1 called allgather (int8, root 2, sequence 7) with 5 bytes; different: size"},
	{CALL(REDUCE_SCATTER, MIN, INT8, 2, 7),
	 5,
	 {CALL(REDUCE_SCATTER, MIN, INT8, 2, 7), CALL(REDUCE_SCATTER, MIN, INT8, 2, 7)},
	 {5, 6},
	 "2",
	 "rank 0 called reducescatter (min of int8, root 2, sequence 7) with 5 bytes, but "
	 "rank 2 called reducescatter (min of int8, root 2, sequence 7) with 6 bytes; different: "
	 "size"},
	{CALL(BARRIER, SUM, INT32, 0, 7),
	 0,
	 {CALL(BARRIER, SUM, INT32, 0, 7), CALL(BARRIER, SUM, INT32, 0, 7)},
	 {0, 4},
	 "2",
	 "rank 0 called barrier (root 0, sequence 7) with 0 bytes, but "
	 "rank 2 called barrier (root 0, sequence 7) with 4 bytes; different: size"},
};

/* Tries each row in every order of arrival, at the root switch and below it. */
static void test_children(void **state)
{
	static const uint8_t orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
					    {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
	uint32_t o, k, i, up;

	for (o = 0; o < sizeof(odds) / sizeof(odds[0]); o++)
		for (k = 0; k < 6; k++)
			for (up = 0; up < 2; up++) {
				const struct node_shape shape = node_shape(3, 1, 2, up);
				const struct odd *odd = &odds[o];
				const struct inc_term_message m[] = {
					message(odd->first, odd->first_length),
					message(odd->desc[0], odd->length[0]),
					message(odd->desc[1], odd->length[1])};
				struct node_harness h;

				node_open(&h, &shape, NULL, 0);
				for (i = 0; i < 3; i++) {
					assert_false(h.ended);
					node_give_this(&h, orders[k][i], 0, &m[orders[k][i]]);
				}
				check_story(&h, "mismatch", odd->ranks, odd->text);
				node_check_ended(&h);
				node_close(&h);
			}
}

/* A child that is a switch stands for its ranks, and the report names the switch. */
static void test_switches(void **state)
{
	const struct node_shape shape = node_shape(2, 3, 1, false);
	const struct inc_term_message m = message(SUM, 8), other = message(SUM, 4);
	struct node_harness h;

	node_open(&h, &shape, NULL, 0);
	node_give_this(&h, 0, 0, &m);
	node_give_this(&h, 1, 0, &other);
	check_story(&h, "mismatch", "3",
		    "the switch of rank 0 called allreduce (sum of int32, root 0, sequence 7) with "
		    "8 bytes, but the switch of rank 3 called allreduce (sum of int32, root 0, "
		    "sequence 7) with 4 bytes; different: size");
	node_check_ended(&h);
	node_close(&h);
}

/* One child alone sends an invalid message, either after a good one or as its first. */
static void try_invalid(uint64_t number, const struct inc_term_message *m, bool second,
			const char *event, const char *text)
{
	const struct node_shape shape = node_shape(2, 1, 2, false);
	const struct inc_term_message good = message(SUM, 8);
	struct node_harness h;

	node_open(&h, &shape, NULL, 0);
	if (second)
		node_give_this(&h, 1, 0, &good);
	assert_false(h.ended);
	node_give_this(&h, 1, number, m);
	check_story(&h, event, "1", text);
	node_give_this(&h, 0, 0, &good);
	node_check_ended(&h);
	node_close(&h);
}

static void test_invalid(void **state)
{
	const struct inc_term_message good = message(SUM, 8), part = message(SUM, 7),
				      inherited = {false, 0, 8, (void *)data},
				      coll = message(INC_DESC(6, 0, 0, 0, 0), 0),
				      op = message(INC_DESC(0, INC_N_WIRE_OPERATORS, 0, 0, 0), 8),
				      dtype = message(INC_DESC(0, 0, 31, 0, 0), 8);
	const struct inc_term_message pair =
		message(INC_DESC(0, INC_OPERATOR_SUM, INC_DTYPE_FLOAT64_INDEX, 0, 0), 16);
	const struct inc_term_message half_pair =
		message(INC_DESC(0, INC_OPERATOR_MIN, INC_DTYPE_INT64_INDEX, 0, 0), 24);
	const struct inc_term_message half_double =
		message(INC_DESC(0, INC_OPERATOR_SUM, INC_DTYPE_FLOAT64, 0, 0), 12);
	/* a Broadcast has no operator, but whole elements */
	const struct inc_term_message passed_half =
		message(INC_DESC(INC_COLL_BROADCAST, 0, INC_DTYPE_INT64_INDEX, 1, 0), 8);
	const struct inc_term_message inherited_part = {false, 0, 6, (void *)data};

	try_invalid(0, &part, false, "connection_error",
		    "rank 1 sent an invalid request as message 0");
	try_invalid(0, &coll, false, "connection_error",
		    "rank 1 sent an invalid request as message 0");
	try_invalid(0, &pair, false, "connection_error",
		    "rank 1 sent an invalid request as message 0");
	try_invalid(0, &half_pair, false, "connection_error",
		    "rank 1 sent an invalid request as message 0");
	try_invalid(0, &half_double, false, "connection_error",
		    "rank 1 sent an invalid request as message 0");
	try_invalid(0, &passed_half, false, "connection_error",
		    "rank 1 sent an invalid request as message 0");
	try_invalid(0, &op, false, "connection_error",
		    "rank 1 sent an invalid request as message 0");
	try_invalid(0, &dtype, false, "connection_error",
		    "rank 1 sent an invalid request as message 0");
	try_invalid(0, &inherited, false, "connection_error",
		    "rank 1 sent an invalid request as message 0");
	try_invalid(1, &inherited_part, true, "connection_error",
		    "rank 1 sent an invalid request as message 1");
	/* messages with a repeated number, with a gap before their number, or beyond the window */
	try_invalid(0, &good, true, "mismatch", "rank 1 sent message 0 out of turn");
	try_invalid(2, &good, true, "mismatch", "rank 1 sent message 2 out of turn");
	try_invalid(1, &good, false, "mismatch", "rank 1 sent message 1 out of turn");
	try_invalid(UINT64_MAX, &good, false, "mismatch",
		    "rank 1 sent message 18446744073709551615 out of turn");
}

static void test_beyond_the_window(void **state)
{
	const struct node_shape shape = node_shape(2, 1, 2, false);
	const struct inc_term_message m = message(SUM, 8);
	struct node_harness h;
	uint32_t i;

	node_open(&h, &shape, NULL, 0);
	for (i = 0; i < 2; i++)
		node_give_this(&h, 1, i, &m);
	assert_false(h.ended);
	/* no receive is posted for this message, so it uses the receive buffer of child 0 */
	node_give_this(&h, 1, 2, &m);
	check_story(&h, "mismatch", "1", "rank 1 sent message 2 out of turn");
	node_check_ended(&h);
	node_close(&h);
}

/* Tries an answer of the parent to partial sum 0, of two children with one rank each. */
static void try_parent(uint32_t desc, uint32_t given, uint64_t number,
		       const struct inc_term_message *m, bool good)
{
	const struct node_shape shape = node_shape(2, 1, 2, true);
	const struct inc_term_message mine = message(desc, given),
				      none = message(desc, inc_all_give(desc) ? given : 0);
	char text[80];
	struct node_harness h;

	node_open(&h, &shape, NULL, 0);
	node_give_this(&h, 0, 0, &mine);
	node_give_this(&h, 1, 0, &none);
	assert_false(h.ended);
	assert_int_equal(h.peer[2].sent, 1);
	node_give_this(&h, 2, number, m);
	assert_int_equal(!h.ended, good);
	if (!good) {
		snprintf(text, sizeof(text), "the parent sent an invalid request as message %llu",
			 (unsigned long long)number);
		check_story(&h, "connection_error", "", text);
		node_check_ended(&h);
	} else {
		assert_int_equal(h.peer[0].sent, 1);
		assert_int_equal(h.peer[1].sent, 1);
	}
	node_close(&h);
}

static void test_parent(void **state)
{
	const uint32_t here = CALL(BROADCAST, SUM, INT32, 0, 7),
		       there = CALL(BROADCAST, SUM, INT32, 9, 7),
		       reduce = CALL(REDUCE, SUM, INT32, 9, 7);
	struct inc_term_message m = message(SUM, 8);

	try_parent(SUM, 8, 0, &m, true);
	try_parent(SUM, 8, 1, &m, false);
	m.has_desc = false;
	try_parent(SUM, 8, 0, &m, false);
	m = message(CALL(ALLREDUCE, SUM, INT32, 0, 8), 8);
	try_parent(SUM, 8, 0, &m, false);
	m = message(SUM, 4);
	try_parent(SUM, 8, 0, &m, false);
	m = message(SUM, 0);
	try_parent(SUM, 8, 0, &m, false);
	/* a node must get no bytes if none of its ranks gets a result */
	m = message(reduce, 8);
	try_parent(reduce, 8, 0, &m, false);
	m = message(reduce, 0);
	try_parent(reduce, 8, 0, &m, true);
	/* data of a rank below the node must return with its length; data from elsewhere may have
	 * any whole number of elements */
	m = message(here, 12);
	try_parent(here, 8, 0, &m, false);
	m = message(here, 8);
	try_parent(here, 8, 0, &m, true);
	m = message(there, 12);
	try_parent(there, 0, 0, &m, true);
	m = message(there, 13);
	try_parent(there, 0, 0, &m, false);
}

/* The parent answers a partial sum that it was not sent, or answers one twice. */
static void test_unasked(void **state)
{
	const struct inc_term_message m = message(SUM, 8);
	struct node_harness h;
	uint32_t again;

	for (again = 0; again < 3; again++) {
		const struct node_shape shape = node_shape(1, 1, again == 2 ? 1 : 2, true);

		node_open(&h, &shape, NULL, 0);
		if (again) {
			node_give_this(&h, 0, 0, &m);
			node_give_this(&h, 1, 0, &m);
			assert_false(h.ended);
		}
		/* case 2: the slot is free again, and still contains this message */
		if (again == 2) {
			node_finish(&h, 1);
			node_finish(&h, 0);
		}
		node_give_this(&h, 1, again / 2, &m);
		check_story(&h, "connection_error", "",
			    again == 2 ? "the parent sent an invalid request as message 1"
				       : "the parent sent an invalid request as message 0");
		node_check_ended(&h);
		node_close(&h);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_children), cmocka_unit_test(test_switches),
		cmocka_unit_test(test_invalid),  cmocka_unit_test(test_beyond_the_window),
		cmocka_unit_test(test_parent),   cmocka_unit_test(test_unasked),
	};

	return cmocka_run_group_tests_name("term mismatch", tests, NULL, NULL);
}
