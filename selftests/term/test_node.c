/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* A single node: the calls that it rejects, its place in the tree, and the figures that it
 * reports. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>
#include "lib/base/awake.h"
#include "lib/proto/desc.h"
#include "selftests/term/harness_node.h"
#include "userspace/term/worker.h"

#define SUM INC_DESC(INC_COLL_ALLREDUCE, INC_OPERATOR_SUM, INC_DTYPE_INT32, 0, 0)

static const struct node_call calls[] = {{SUM, 8, true}, {SUM, 8, false}, {SUM, 8, false}};

static void refused(const struct node_shape *shape, const char *why)
{
	const struct inc_term_conf conf = {.communicator = 12,
					   .receives = shape->slots,
					   .has_parent = shape->has_parent,
					   .n_children = shape->n_children,
					   .child = shape->child};
	struct inc_term *t = NULL;
	struct inc_err err;

	assert_int_equal(inc_term_new(&conf, &t, &err), -EINVAL);
	assert_null(t);
	assert_string_equal(err.msg, why);
}

static void test_conf(void **state)
{
	struct node_shape shape = node_shape(2, 1, 4, false);

	shape.slots = 3;
	refused(&shape, "communicator 12: receives are a power of two up to 8192, not 3");
	shape.slots = 0;
	refused(&shape, "communicator 12: receives are a power of two up to 8192, not 0");
	shape.slots = 4;
	shape.n_children = 0;
	refused(&shape, "communicator 12: 1 to 64 children, not 0");
	shape.n_children = INC_COMM_MAX_CHILDREN + 1;
	refused(&shape, "communicator 12: 1 to 64 children, not 65");
	shape.n_children = 3;
	refused(&shape, "communicator 12: no rank is behind child 2");
	inc_ranks_add(&shape.child[2].ranks, 1);
	refused(&shape, "communicator 12: rank 1 is behind two children");
}

/* A call with wrong arguments changes nothing. */
static void test_caller(void **state)
{
	const struct node_shape shape = node_shape(1, 1, 2, false);
	const struct inc_term_message empty = {.has_desc = true, .desc = SUM};
	struct inc_term_action a;
	struct node_harness h;

	node_open(&h, &shape, calls, 3);
	assert_int_equal(inc_term_message(h.t, 1, 0, &empty), -EINVAL);
	assert_int_equal(inc_term_sent(h.t, 0, 0), -EINVAL);
	assert_int_equal(inc_term_sent(h.t, 1, 0), -EINVAL);
	assert_int_equal(inc_term_lost(h.t, 1, INC_TERM_SILENT), -EINVAL);
	assert_int_equal(inc_term_lost(h.t, 0, INC_TERM_MISMATCH), -EINVAL);
	assert_int_equal(inc_term_lost(h.t, 0, INC_TERM_OUT_OF_TURN), -EINVAL);
	assert_false(inc_term_next(h.t, &a));
	node_give(&h, 0);
	node_give(&h, 0);
	assert_int_equal(inc_term_sent(h.t, 0, 1), -EINVAL);
	node_finish(&h, 0);
	assert_int_equal(inc_term_sent(h.t, 0, 0), -EINVAL);
	node_finish(&h, 0);
	node_give(&h, 0);
	node_finish(&h, 0);
	node_check_done(&h);
	node_close(&h);
}

/* The node reports nothing while actions are pending. */
static void test_busy(void **state)
{
	const struct node_shape shape = node_shape(2, 1, 2, false);
	const struct inc_term_message empty = {.has_desc = true, .desc = SUM},
				      wrong = {.has_desc = true, .desc = ~0u};
	struct inc_term_action a;
	struct node_harness h;

	node_open(&h, &shape, NULL, 0);
	assert_int_equal(inc_term_message(h.t, 0, 0, &empty), 0);
	assert_int_equal(inc_term_message(h.t, 1, 0, &empty), 0);
	assert_int_equal(inc_term_message(h.t, 1, 1, &empty), -EBUSY);
	assert_true(inc_term_next(h.t, &a));
	assert_int_equal(a.what, INC_TERM_DO_SEND);
	assert_int_equal(inc_term_sent(h.t, 0, 0), -EBUSY);
	assert_int_equal(inc_term_lost(h.t, 0, INC_TERM_SILENT), -EBUSY);
	assert_int_equal(inc_term_tick(h.t, 1), -EBUSY);
	assert_true(inc_term_next(h.t, &a));
	assert_false(inc_term_next(h.t, &a));
	/* it also reports nothing while a communicator that has ended may have buffers to return */
	assert_int_equal(inc_term_message(h.t, 1, 1, &wrong), 0);
	assert_true(inc_term_next(h.t, &a));
	assert_int_equal(a.what, INC_TERM_DO_END);
	assert_int_equal(inc_term_sent(h.t, 0, 0), -EBUSY);
	assert_false(inc_term_next(h.t, &a));
	assert_int_equal(inc_term_sent(h.t, 0, 0), 0);
	assert_false(inc_term_next(h.t, &a));
	node_close(&h);
}

static void check_waiting(const struct node_harness *h, uint64_t number, uint64_t arrived, bool up,
			  uint64_t seen_at_ns)
{
	struct inc_term_waiting found;

	assert_true(inc_term_waiting(h->t, &found));
	assert_int_equal(found.number, number);
	assert_int_equal(found.arrived, arrived);
	assert_int_equal(found.up, up);
	assert_int_equal(found.seen_at_ns, seen_at_ns);
}

static void test_waiting(void **state)
{
	const struct node_shape shape = node_shape(2, 1, 2, true);
	const uint64_t second = INC_NSEC_PER_SEC;
	struct inc_term_waiting none;
	struct node_harness h;

	node_open(&h, &shape, calls, 3);
	assert_false(inc_term_waiting(h.t, &none));
	node_tick(&h, second);
	node_give(&h, 1);
	check_waiting(&h, 0, 2, false, 0);
	node_tick(&h, 2 * second);
	node_tick(&h, 3 * second);
	check_waiting(&h, 0, 2, false, 2 * second);
	node_give(&h, 0);
	check_waiting(&h, 0, 3, true, 2 * second);
	node_give(&h, 0);
	node_give(&h, 1);
	check_waiting(&h, 0, 3, true, 2 * second);
	node_give(&h, 2);
	check_waiting(&h, 1, 3, true, 0);
	node_tick(&h, 4 * second);
	check_waiting(&h, 1, 3, true, 4 * second);
	node_give(&h, 2);
	assert_false(inc_term_waiting(h.t, &none));
	node_tick(&h, 5 * second);
	node_lose(&h, 0, INC_TERM_SILENT);
	node_check_ended(&h);
	node_close(&h);
}

static void check_peer(const struct node_harness *h, uint32_t peer,
		       const struct inc_term_peer_figures *want)
{
	struct inc_term_peer_figures f;

	inc_term_peer_figures(h->t, peer, &f);
	assert_int_equal(f.rank, want->rank);
	assert_int_equal(f.received, want->received);
	assert_int_equal(f.sent, want->sent);
	assert_int_equal(f.acknowledged, want->acknowledged);
	assert_int_equal(f.unresponsive, want->unresponsive);
}

/* Calls the tick as a worker does that never stands still. */
static void tick_until(struct node_harness *h, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t at_ns;

	for (at_ns = from_ns; at_ns <= to_ns; at_ns += INC_TERM_TICK_MS * INC_NSEC_PER_MSEC)
		node_tick(h, at_ns);
}

/* Opens a job of two children, of which child 0 has not acknowledged result 0. */
static void open_unacknowledged(struct node_harness *h, const struct node_shape *shape)
{
	node_open(h, shape, calls, 3);
	node_give(h, 0);
	node_give(h, 1);
	node_finish(h, 1);
}

/* Lets child 0 be silent for silence_ns, and then lets the process stand still for pause_ns. The
 * node must not blame child 0 before the respite is over, and must never blame it if it
 * acknowledges until then. */
static void stand_still(uint64_t silence_ns, uint64_t pause_ns, bool acknowledges)
{
	const uint64_t second = INC_NSEC_PER_SEC, limit_ns = INC_UNRESPONSIVE_S * second;
	const struct node_shape shape = node_shape(2, 1, 2, false);
	const uint64_t resumed_ns = second + silence_ns + pause_ns;
	const uint64_t left_ns = limit_ns > silence_ns + INC_AWAKE_STEP_NS + INC_AWAKE_RESPITE_NS
					 ? limit_ns - silence_ns - INC_AWAKE_STEP_NS
					 : INC_AWAKE_RESPITE_NS;
	struct node_harness h;

	open_unacknowledged(&h, &shape);
	tick_until(&h, second, second + silence_ns);
	tick_until(&h, resumed_ns, resumed_ns + left_ns - INC_NSEC_PER_MSEC);
	assert_int_equal(h.n_told, 0);
	if (acknowledges)
		node_finish(&h, 0);
	tick_until(&h, resumed_ns + left_ns, resumed_ns + left_ns + second);
	assert_int_equal(h.n_told, !acknowledges);
	node_lose(&h, 1, INC_TERM_CUT);
	node_check_ended(&h);
	node_close(&h);
}

static void test_standstill(void **state)
{
	static const uint64_t pauses_s[] = {2, 5, 9, 10, 11, 14, 60, 3600, 86400, 100000000};
	uint64_t silence_ns;
	unsigned int i;

	for (i = 0; i < sizeof(pauses_s) / sizeof(*pauses_s); i++)
		for (silence_ns = 0; silence_ns < INC_UNRESPONSIVE_S * INC_NSEC_PER_SEC;
		     silence_ns += 1750 * INC_NSEC_PER_MSEC) {
			stand_still(silence_ns, pauses_s[i] * INC_NSEC_PER_SEC, false);
			stand_still(silence_ns, pauses_s[i] * INC_NSEC_PER_SEC, true);
		}
}

/* The node reports a child that is always silent, even if the process stands still again and
 * again. */
static void test_standstills(void **state)
{
	const struct node_shape shape = node_shape(2, 1, 2, false);
	uint64_t at_ns = INC_NSEC_PER_SEC, lived_ns = 0;
	struct node_harness h;

	open_unacknowledged(&h, &shape);
	while (!h.n_told && lived_ns < 3 * INC_UNRESPONSIVE_S * INC_NSEC_PER_SEC) {
		tick_until(&h, at_ns, at_ns + 3 * INC_NSEC_PER_SEC);
		lived_ns += 3 * INC_NSEC_PER_SEC;
		at_ns += 103 * INC_NSEC_PER_SEC;
	}
	assert_in_range(lived_ns, 6 * INC_NSEC_PER_SEC, 2 * INC_UNRESPONSIVE_S * INC_NSEC_PER_SEC);
	node_lose(&h, 1, INC_TERM_CUT);
	node_check_ended(&h);
	node_close(&h);
}

/* Opens a job whose child 0 is silent. Port 0, the switch's port to that child, is in this
 * condition. */
static void open_without_port(struct node_harness *h, const struct node_shape *shape,
			      enum inc_port_condition condition)
{
	open_unacknowledged(h, shape);
	inc_term_port(h->t, 0, condition);
}

static void close_cut(struct node_harness *h)
{
	node_lose(h, 1, INC_TERM_CUT);
	node_check_ended(h);
	node_close(h);
}

/* While the switch's own port is away, the node does not blame the child, and reports the port
 * once. When the port is back, the child has the whole limit again. */
static void test_port_away(void **state)
{
	static const enum inc_port_condition away[] = {INC_PORT_DOWN, INC_PORT_LOST};
	const struct node_shape shape = node_shape(2, 1, 2, false);
	const uint64_t second = INC_NSEC_PER_SEC, limit_ns = INC_UNRESPONSIVE_S * second;
	struct node_harness h;
	unsigned int i;

	for (i = 0; i < sizeof(away) / sizeof(*away); i++) {
		open_without_port(&h, &shape, away[i]);
		tick_until(&h, second, second + INC_PORT_LOST_S * second - INC_NSEC_PER_MSEC);
		assert_int_equal(h.n_port_lost, 0);
		tick_until(&h, second + INC_PORT_LOST_S * second, 60 * second);
		assert_int_equal(h.n_port_lost, 1);
		assert_int_equal(h.n_told, 0);
		inc_term_port(h.t, 0, INC_PORT_UP);
		tick_until(&h, 60 * second, 60 * second + limit_ns - second);
		assert_int_equal(h.n_told, 0);
		tick_until(&h, 60 * second + limit_ns, 61 * second + limit_ns);
		assert_int_equal(h.n_told, 1);
		assert_int_equal(h.n_port_lost, 1);
		close_cut(&h);
	}
}

/* One port is away all the time, and another one comes and goes. The node does not report the first
 * port again until both have been up. */
static void test_ports_away(void **state)
{
	const struct node_shape shape = node_shape(2, 1, 2, false);
	const uint64_t second = INC_NSEC_PER_SEC;
	struct node_harness h;
	uint64_t s;

	open_without_port(&h, &shape, INC_PORT_LOST);
	for (s = 1; s < 40; s++) {
		inc_term_port(h.t, 1, s % 2 ? INC_PORT_DOWN : INC_PORT_UP);
		tick_until(&h, s * second, (s + 1) * second - INC_NSEC_PER_MSEC);
	}
	assert_int_equal(h.n_port_lost, 1);
	inc_term_port(h.t, 0, INC_PORT_UP);
	inc_term_port(h.t, 1, INC_PORT_UP);
	tick_until(&h, 40 * second, 41 * second);
	inc_term_port(h.t, 1, INC_PORT_LOST);
	tick_until(&h, 41 * second, 50 * second);
	assert_int_equal(h.n_port_lost, 2);
	close_cut(&h);
}

/* The node reports a port that is down only if the communicator waits for a peer behind it. It
 * always reports a port that is lost. */
static void test_port_not_needed(void **state)
{
	const struct node_shape shape = node_shape(2, 1, 2, false);
	const uint64_t second = INC_NSEC_PER_SEC;
	struct node_harness h;

	node_open(&h, &shape, calls, 3);
	inc_term_port(h.t, 0, INC_PORT_DOWN);
	tick_until(&h, second, 60 * second);
	assert_int_equal(h.n_port_lost, 0);
	inc_term_port(h.t, 0, INC_PORT_LOST);
	tick_until(&h, 60 * second, 61 * second);
	assert_int_equal(h.n_port_lost, 1);
	close_cut(&h);
}

/* A standstill of the process does not count as time in which the port was away. */
static void test_port_standstill(void **state)
{
	const struct node_shape shape = node_shape(2, 1, 2, false);
	const uint64_t second = INC_NSEC_PER_SEC;
	struct node_harness h;

	open_without_port(&h, &shape, INC_PORT_LOST);
	tick_until(&h, second, 3 * second);
	tick_until(&h, 1000 * second, 1001 * second);
	assert_int_equal(h.n_port_lost, 0);
	close_cut(&h);
}

static void test_figures(void **state)
{
	struct node_shape shape = node_shape(2, 1, 2, true);
	struct inc_term_figures f;
	struct node_harness h;

	memset(shape.child, 0, sizeof(shape.child));
	inc_ranks_add(&shape.child[0].ranks, 9);
	inc_ranks_add(&shape.child[1].ranks, 5);
	node_open(&h, &shape, calls, 3);
	node_give(&h, 0);
	node_give(&h, 0);
	node_give(&h, 1);
	node_give(&h, 1);
	node_give(&h, 2);
	node_finish(&h, 1);
	inc_term_figures(h.t, &f);
	assert_true(f.results == 1 && f.partials == 2 && !f.ended);
	check_peer(&h, 0, &(struct inc_term_peer_figures){9, 2, 1, 0, false});
	check_peer(&h, 1, &(struct inc_term_peer_figures){5, 2, 1, 1, false});
	check_peer(&h, 2, &(struct inc_term_peer_figures){5, 1, 2, 0, false});
	tick_until(&h, INC_NSEC_PER_SEC, (1 + INC_UNRESPONSIVE_S) * INC_NSEC_PER_SEC);
	assert_int_equal(h.n_told, 2);
	assert_string_equal(inc_event_info[h.report.kind].name, "unresponsive");
	assert_string_equal(h.report.message, "the parent has not acknowledged message 0");
	check_peer(&h, 0, &(struct inc_term_peer_figures){9, 2, 1, 0, true});
	node_lose(&h, 1, INC_TERM_REFUSED);
	assert_string_equal(h.report.message, "rank 5 refused message 1");
	node_check_ended(&h);
	node_close(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_conf),
		cmocka_unit_test(test_caller),
		cmocka_unit_test(test_busy),
		cmocka_unit_test(test_waiting),
		cmocka_unit_test(test_standstill),
		cmocka_unit_test(test_standstills),
		cmocka_unit_test(test_port_away),
		cmocka_unit_test(test_ports_away),
		cmocka_unit_test(test_port_not_needed),
		cmocka_unit_test(test_port_standstill),
		cmocka_unit_test(test_figures),
	};

	return cmocka_run_group_tests_name("term node", tests, NULL, NULL);
}
