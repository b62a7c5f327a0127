/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A communicator of the termination engine on endpoints without a wire. Messages and
 * acknowledgements arrive in every order, peers die at every moment, are slow or never read. After
 * each step the test accounts for all buffers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <cmocka.h>
#include "lib/base/clock.h"
#include "lib/proto/desc.h"
#include "lib/proto/roce.h"
#include "selftests/fakes/channel.h"
#include "selftests/term/harness_paths.h"
#include "selftests/term/fixture_comm.h"

/* --- every order ----------------------------------------------------------------------------- */

struct job {
	uint32_t children, messages, window;
	bool has_parent, batched;
	uint64_t deaths;
};

/* Lists the next possible moves. Move i: peer i sends its next message. Move n + i: peer i
 * acknowledges a message. */
static uint32_t moves(struct comm_fixture *fx, uint32_t messages, uint32_t *move)
{
	uint32_t n = 0, i;

	for (i = 0; i < fx->n; i++) {
		/* a host sends within the window, which begins at the oldest result that the host
		 * lacks */
		const uint64_t window = fx->taken[i] + fx->conf.messages;
		const uint64_t most = comm_is_parent(fx, i) ? fx->taken[i] : messages;

		const struct fake_channel_state ch = fake_channel_state(comm_qpn(fx, i));

		/* without a posted receive the peer would get an RNR NAK */
		if (fx->given[i] < most && ch.given < ch.posted &&
		    (comm_is_parent(fx, i) || fx->given[i] < window))
			move[n++] = i;
		if (fx->acknowledged[i] < fx->taken[i])
			move[n++] = fx->n + i;
	}
	return n;
}

static void make(struct comm_fixture *fx, uint32_t move)
{
	if (move < fx->n) {
		assert_true(comm_give(fx, move));
		return;
	}
	assert_true(fake_channel_acknowledge(comm_qpn(fx, move - fx->n)));
	fx->acknowledged[move - fx->n]++;
}

static void play_order(struct path *path, void *arg)
{
	const struct job *job = arg;
	uint32_t move[2 * MAX_PEERS], n;
	struct comm_fixture fx;

	comm_open(&fx, job->children, job->window, job->has_parent);
	while ((n = moves(&fx, job->messages, move))) {
		make(&fx, move[path_choose(path, n)]);
		/* without this step the worker finds several events at once, like a worker that
		 * polls rarely */
		if (!job->batched || path_choose(path, 2)) {
			comm_turn(&fx);
			comm_take_all(&fx);
		} else if (!moves(&fx, job->messages, move)) {
			comm_turn(&fx);
			comm_take_all(&fx);
		}
	}
	comm_check_rest(&fx, job->messages);
	assert_int_equal(fx.n_told, 0);
	comm_close(&fx);
}

static void try_orders(uint32_t children, uint32_t messages, uint32_t window, bool has_parent,
		       bool batched)
{
	struct job job = {children, messages, window, has_parent, batched, 0};
	uint64_t n = path_all(play_order, &job);

	print_message("# %u children%s, %u messages, window %u%s: %llu orders\n", children,
		      has_parent ? " and a parent" : "", messages, window,
		      batched ? ", several at a time" : "", (unsigned long long)n);
}

static void test_orders(void **state)
{
	try_orders(1, 4, 1, false, false);
	try_orders(2, 3, 1, false, false);
	try_orders(2, 2, 2, false, false);
	try_orders(3, 1, 1, false, false);
	try_orders(4, 1, 1, false, false);
	try_orders(1, 2, 2, true, false);
	try_orders(2, 1, 1, true, false);
	try_orders(2, 2, 1, true, false);
}

static void test_orders_at_a_time(void **state)
{
	try_orders(1, 3, 2, false, true);
	try_orders(2, 1, 1, false, true);
	try_orders(3, 1, 1, false, true);
	try_orders(1, 1, 1, true, true);
}

/* --- deaths ---------------------------------------------------------------------------------- */

/* Checks that the failure of peer `dead` has ended the communicator. All other peers were informed,
 * and the worker has done what a handler must not do itself. */
static void check_over(struct comm_fixture *fx, uint32_t dead, const char *event)
{
	const struct inc_term_view *v = comm_view(fx);
	uint64_t posted = 0;
	uint32_t i;

	assert_true(v->comm.ended);
	assert_int_equal(v->comm.error, INC_AETH_NAK_OPERATION);
	assert_int_equal(fx->n_told, 1);
	assert_string_equal(inc_event_info[fx->report.kind].name, event);
	assert_int_equal(fx->report.n_ranks, !comm_is_parent(fx, dead));
	if (!comm_is_parent(fx, dead))
		assert_int_equal(fx->report.ranks[0], fx->conf.conn[dead].rank);
	for (i = 0; i < fx->n; i++) {
		const struct fake_channel_state ch = fake_channel_state(comm_qpn(fx, i));

		assert_false(ch.open);
		assert_int_equal(ch.told, INC_AETH_NAK_OPERATION);
		posted += ch.posted - ch.received;
		assert_int_equal(v->conn[i].health, INC_CONN_ENDED);
	}
	assert_int_equal(v->counters.received,
			 v->counters.kept + v->counters.dropped + v->counters.results +
				 v->counters.from_parent + v->counters.partials);
	/* all buffers that were not posted are back in the pool */
	assert_int_equal(v->buffers_taken, posted);
}

static void play_death(struct path *path, void *arg)
{
	static const struct {
		enum inc_channel_reason reason;
		const char *event;
	} reasons[] = {{INC_CHANNEL_INVALID, "connection_error"},
		       {INC_CHANNEL_SILENT, "unresponsive"},
		       {INC_CHANNEL_ENDED, "ended"}};
	struct job *job = arg;
	uint32_t move[2 * MAX_PEERS], n, dead = 0, why = 0;
	bool over = false;
	struct comm_fixture fx;

	comm_open(&fx, job->children, job->window, job->has_parent);
	while (!over && (n = moves(&fx, job->messages, move))) {
		if (path_choose(path, 2)) {
			dead = path_choose(path, fx.n);
			why = path_choose(path, sizeof(reasons) / sizeof(reasons[0]));
			fake_channel_lose(comm_qpn(&fx, dead), reasons[why].reason);
			/* another peer sends a message at the same moment */
			make(&fx, move[path_choose(path, n)]);
			over = true;
		} else {
			make(&fx, move[path_choose(path, n)]);
		}
		comm_turn(&fx);
		comm_take_all(&fx);
	}
	if (over) {
		check_over(&fx, dead, reasons[why].event);
		inc_term_worker_turn(fx.w, 0);
		job->deaths++;
	}
	comm_close(&fx);
}

static void test_deaths(void **state)
{
	struct job jobs[] = {{2, 1, 1, false, false, 0},
			     {1, 2, 2, false, false, 0},
			     {3, 1, 1, false, false, 0},
			     {1, 1, 1, true, false, 0},
			     {2, 1, 1, true, false, 0}};
	uint32_t i;

	for (i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++) {
		path_all(play_death, &jobs[i]);
		print_message("# %u children: %llu deaths\n", jobs[i].children,
			      (unsigned long long)jobs[i].deaths);
		assert_true(jobs[i].deaths > 0);
	}
}

static void test_send_that_fails(void **state)
{
	struct comm_fixture fx;

	comm_open(&fx, 2, 2, false);
	fake_channel_refuse_sends(comm_qpn(&fx, 1));
	comm_give(&fx, 0);
	comm_give(&fx, 1);
	comm_turn(&fx);
	comm_turn(&fx);
	check_over(&fx, 1, "peer_nak");
	comm_close(&fx);
}

static void test_mismatch(void **state)
{
	const struct fake_channel_message other = {
		.length = 4, .has_imm = true, .imm = SUM(1), .bytes = {1}};
	struct comm_fixture fx;

	comm_open(&fx, 3, 2, false);
	comm_give(&fx, 0);
	comm_give(&fx, 2);
	/* connection 1 has rank 1; the report compares its message with that of child 0, which is
	 * rank 0 */
	assert_true(fake_channel_give(comm_qpn(&fx, 1), &other));
	comm_turn(&fx);
	check_over(&fx, 1, "mismatch");
	assert_non_null(strstr(fx.report.message, "rank 0 called allreduce"));
	assert_non_null(strstr(fx.report.message, "but rank 1 called allreduce"));
	assert_int_equal(comm_view(&fx)->counters.mismatches, 1);
	comm_close(&fx);
}

/* --- slow and silent peers ------------------------------------------------------------------- */

/* All peers send messages while there is room. All peers but the slow one receive and
 * acknowledge. */
static void go_on(struct comm_fixture *fx, uint32_t slow)
{
	bool any = true;
	uint32_t i;

	while (any) {
		any = false;
		for (i = 0; i < fx->n; i++)
			any |= comm_give(fx, i);
		comm_turn(fx);
		for (i = 0; i < fx->n; i++) {
			if (i == slow)
				continue;
			comm_take(fx, i);
			while (fake_channel_acknowledge(comm_qpn(fx, i)))
				fx->acknowledged[i]++;
		}
		comm_turn(fx);
	}
}

static void test_slow_peer(void **state)
{
	const uint32_t window = 8, slots = 2 * window;
	uint32_t round, i;
	struct comm_fixture fx;

	comm_open(&fx, 4, window, false);
	for (round = 1; round <= 20; round++) {
		go_on(&fx, 2);
		/* the other peers wait for the slow one, two windows ahead of it, and use no more
		 * buffers */
		for (i = 0; i < fx.n; i++)
			assert_int_equal(fx.given[i], round * slots);
		assert_true(comm_view(&fx)->buffers_taken <= fx.n * slots);
		comm_take(&fx, 2);
		for (i = 0; i < slots; i++)
			assert_true(fake_channel_acknowledge(comm_qpn(&fx, 2)));
		comm_turn(&fx);
	}
	comm_check_rest(&fx, 20 * slots);
	comm_close(&fx);
}

static void test_peer_that_never_reads(void **state)
{
	uint64_t now = inc_now_ns();
	const struct inc_term_view *v;
	struct comm_fixture fx;
	uint32_t i;

	comm_open(&fx, 3, 4, false);
	go_on(&fx, 0);
	for (i = 0; i < 12; i++, now += INC_NSEC_PER_SEC)
		inc_term_comm_tick(fx.cm, now);
	assert_int_equal(fx.n_told, 1);
	assert_string_equal(inc_event_info[fx.report.kind].name, "unresponsive");
	assert_int_equal(fx.report.ranks[0], fx.conf.conn[0].rank);
	v = comm_view(&fx);
	assert_false(v->comm.ended);
	/* figures list connections by rank, and connection 0 has the highest rank */
	assert_int_equal(v->conn[2].rank, fx.conf.conn[0].rank);
	assert_int_equal(v->conn[2].health, INC_CONN_UNRESPONSIVE);
	assert_int_equal(v->conn[0].health, INC_CONN_ACTIVE);
	/* the peer was only slow, and now receives its results */
	comm_take(&fx, 0);
	while (fake_channel_acknowledge(comm_qpn(&fx, 0)))
		fx.acknowledged[0]++;
	comm_turn(&fx);
	inc_term_comm_tick(fx.cm, now);
	assert_int_equal(comm_view(&fx)->conn[2].health, INC_CONN_ACTIVE);
	comm_close(&fx);
}

/* Nothing of what is sent to a peer arrives. The report has the time for which that was so, without
 * the minute for which the switch stood still meanwhile. */
static void test_standstill(void **state)
{
	static const uint64_t steps_ms[] = {0, 200, 200, 60000, 200};
	const size_t n = sizeof(steps_ms) / sizeof(steps_ms[0]);
	uint64_t now = inc_now_ns();
	struct comm_fixture fx;
	const char *told;
	size_t i;

	comm_open(&fx, 2, 2, false);
	go_on(&fx, 0);
	for (i = 0; i < n && !fx.n_told; i++) {
		now += steps_ms[i] * INC_NSEC_PER_MSEC;
		fake_channel_time_out(comm_qpn(&fx, 0), 1);
		inc_term_comm_tick(fx.cm, now);
	}
	assert_int_equal(fx.n_told, 1);
	assert_int_equal(fx.report.kind, INC_EVENT_KIND_UNDELIVERED);
	told = strstr(fx.report.message, "timeouts in ");
	assert_non_null(told);
	assert_in_range(atoi(told + strlen("timeouts in ")), 450, 1500);
	comm_close(&fx);
}

/* --- reports and figures --------------------------------------------------------------------- */

static void test_waiting(void **state)
{
	const struct inc_term_view *v;
	struct comm_fixture fx;

	comm_open(&fx, 3, 2, true);
	comm_turn(&fx);
	assert_false(comm_view(&fx)->waits);
	comm_give(&fx, 0); /* connection 0 has rank 2 */
	comm_turn(&fx);
	v = comm_view(&fx);
	assert_true(v->waits && !v->waiting.up);
	assert_int_equal(v->waiting.chunk, 0);
	assert_int_equal(v->waiting.arrived, 1 << 2);
	inc_term_comm_tick(fx.cm, inc_now_ns() - 3000 * INC_NSEC_PER_MSEC);
	v = comm_view(&fx);
	assert_true(v->waiting.waited_ms >= 3000 && v->waiting.waited_ms < 60000);
	comm_give(&fx, 1);
	comm_give(&fx, 2);
	comm_turn(&fx);
	assert_true(comm_view(&fx)->waiting.up);
	comm_take_all(&fx);
	comm_give(&fx, 3);
	comm_turn(&fx);
	assert_false(comm_view(&fx)->waits);
	comm_close(&fx);
}

static void test_figures(void **state)
{
	const struct inc_term_view *v;
	struct comm_fixture fx;
	uint32_t i;

	comm_open(&fx, 2, 2, true);
	for (i = 0; i < 2; i++)
		comm_give(&fx, i);
	comm_turn(&fx);
	comm_take_all(&fx);
	comm_give(&fx, 2);
	comm_turn(&fx);
	comm_take_all(&fx);
	assert_true(fake_channel_acknowledge(comm_qpn(&fx, 0)));
	comm_turn(&fx);
	v = comm_view(&fx);
	assert_int_equal(v->comm.communicator, 12);
	assert_int_equal(v->comm.children, 2);
	assert_int_equal(v->comm.connections, 3);
	assert_int_equal(v->comm.slots, 2);
	assert_int_equal(v->comm.receives, 4);
	assert_int_equal(v->comm.rows, 0);
	assert_int_equal(v->comm.payload_bytes, PAYLOAD);
	assert_int_equal(v->comm.results, 1);
	/* figures list children by rank, and then the parent */
	assert_int_equal(v->conn[0].own.qpn, comm_qpn(&fx, 1));
	assert_int_equal(v->conn[1].own.qpn, comm_qpn(&fx, 0));
	assert_true(v->conn[2].up && !v->conn[1].up);
	assert_int_equal(v->conn[1].peer.qpn, 77);
	assert_int_equal(v->conn[1].peer.udp_port, 5000);
	assert_int_equal(v->conn[1].received, 1);
	assert_int_equal(v->conn[1].acknowledged, 1);
	assert_int_equal(v->conn[0].acknowledged, 0);
	assert_int_equal(v->conn[0].results, 1);
	assert_int_equal(v->conn[2].results, 1);
	assert_int_equal(v->conn[0].retransmits, 7);
	assert_int_equal(v->conn[0].rtt_us, 33);
	assert_int_equal(v->counters.received, 3);
	assert_int_equal(v->counters.copies, 3);
	assert_int_equal(v->counters.kept, 1);
	assert_int_equal(v->counters.partials, 1);
	assert_int_equal(v->counters.from_parent, 1);
	assert_int_equal(v->counters.results, 0);
	assert_int_equal(v->counters.reduced_bytes, 16);
	comm_close(&fx);
}

/* --- the creation of communicators ----------------------------------------------------------- */

static void test_most_children(void **state)
{
	struct comm_fixture fx;
	uint32_t i, r;

	comm_open(&fx, INC_COMM_MAX_CHILDREN, 2, true);
	assert_int_equal(fake_channels_open().devices, (fx.n + 1) / 2);
	for (r = 0; r < 5; r++) {
		for (i = 0; i < fx.n - 1; i++)
			assert_true(comm_give(&fx, i));
		comm_turn(&fx);
		comm_take_all(&fx);
		assert_true(comm_give(&fx, fx.n - 1));
		comm_turn(&fx);
		comm_take_all(&fx);
		for (i = 0; i < fx.n; i++)
			assert_true(fake_channel_acknowledge(comm_qpn(&fx, i)));
		comm_turn(&fx);
	}
	comm_check_rest(&fx, 5);
	comm_close(&fx);
}

/* Queue pair numbers and PSNs in the configuration are used. Missing ones are chosen, in the order
 * of the connections. */
static void test_numbers(void **state)
{
	struct fake_channel_state ch;
	struct comm_fixture fx;
	uint32_t i;

	comm_open_worker(&fx);
	fx.conf = comm_conf(3, 2, false);
	fx.conf.conn[1].own.psn = 0x123456;
	fx.conf.conn[1].has_own_psn = true;
	fx.conf.conn[2].own.udp_port = 9000;
	assert_int_equal(inc_term_worker_add(fx.w, &fx.conf, &fx.cm, NULL), 0);
	for (i = 0; i < 3; i++) {
		const struct inc_conn_conf *c = &fx.conf.conn[i];

		assert_int_equal(c->rank, 2 - i);
		ch = fake_channel_state(c->own.qpn);
		assert_int_equal(ch.opts.own.psn, c->own.psn);
		assert_true(c->has_own_psn);
		assert_int_equal(ch.posted, 4);
		assert_int_equal(ch.opts.max_message_bytes, PACKETS * PAYLOAD);
		assert_false(ch.connected);
	}
	assert_int_equal(fx.conf.conn[1].own.psn, 0x123456);
	assert_int_equal(fx.conf.conn[0].own.udp_port, INC_ROCE_UDP_PORT);
	assert_int_equal(fx.conf.conn[2].own.udp_port, 9000);
	assert_int_equal(inc_term_worker_start_comm(fx.w, fx.cm, NULL), 0);
	ch = fake_channel_state(fx.conf.conn[2].own.qpn);
	assert_true(ch.connected);
	assert_int_equal(ch.peer.end.qpn, 79);
	assert_int_equal(ch.peer.end.psn, 5);
	assert_int_equal(ch.peer.end.udp_port, 5002);
	assert_true(inc_addr_same(ch.peer.end.ip, fx.conf.conn[2].peer.ip));
	comm_close(&fx);
}

static void test_connect_later(void **state)
{
	struct inc_msg_peer peers[] = {
		{.rank = 1, .peer.qpn = 500, .peer.psn = 9, .peer.udp_port = 6000},
		{.up = true, .peer.qpn = 501, .peer.udp_port = 6001}};
	const struct inc_msg_peer absent = {.rank = 7, .peer.qpn = 5};
	const struct inc_msg_peer twice[] = {peers[0], peers[0]};
	struct fake_channel_state ch;
	struct comm_fixture fx;

	comm_open_worker(&fx);
	fx.conf = comm_conf(2, 2, true);
	fx.conf.conn[0].peer.qpn = fx.conf.conn[2].peer.qpn = 0;
	fx.n = 3;
	fx.has_parent = true;
	assert_int_equal(inc_term_worker_add(fx.w, &fx.conf, &fx.cm, NULL), 0);
	assert_int_equal(inc_term_worker_start_comm(fx.w, fx.cm, NULL), 0);
	assert_false(fake_channel_state(comm_qpn(&fx, 0)).connected);
	assert_true(fake_channel_state(comm_qpn(&fx, 1)).connected);
	assert_int_equal(inc_term_worker_connect(fx.w, fx.cm, &absent, 1, NULL), -ENOENT);
	assert_int_equal(inc_term_worker_connect(fx.w, fx.cm, twice, 2, NULL), -EALREADY);
	assert_false(fake_channel_state(comm_qpn(&fx, 0)).connected);
	assert_int_equal(inc_term_worker_connect(fx.w, fx.cm, peers, 2, NULL), 0);
	ch = fake_channel_state(comm_qpn(&fx, 0));
	assert_int_equal(ch.peer.end.qpn, 500);
	assert_int_equal(ch.peer.end.psn, 9);
	assert_int_equal(ch.peer.end.udp_port, 6000);
	assert_int_equal(fake_channel_state(comm_qpn(&fx, 2)).peer.end.qpn, 501);
	assert_int_equal(inc_term_worker_connect(fx.w, fx.cm, peers, 1, NULL), -EALREADY);
	comm_give(&fx, 0);
	comm_give(&fx, 1);
	comm_turn(&fx);
	comm_take_all(&fx);
	comm_give(&fx, 2);
	comm_turn(&fx);
	comm_take_all(&fx);
	assert_int_equal(fx.taken[0], 1);
	comm_close(&fx);
}

/* A communicator that cannot be made leaves nothing behind. */
static void test_refusals(void **state)
{
	static const struct {
		int code;
		const char *text;
	} cases[] = {
		{-EOPNOTSUPP, "no endpoints of the kind verbs"},
		{-ENODEV, "port broken is broken"},
		{-EINVAL, "two parents"},
		{-EINVAL, "behind two children"},
		{-EINVAL, "power of two"},
	};
	struct inc_comm_conf conf;
	struct inc_err err;
	struct comm_fixture fx;
	uint32_t i;

	comm_open_worker(&fx);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		conf = comm_conf(3, 2, true);
		if (i == 0)
			conf.conn[2].own.kind = INC_ENDPOINT_VERBS;
		else if (i == 1)
			strcpy(conf.conn[2].port, "broken");
		else if (i == 2)
			conf.conn[0].up = true;
		else if (i == 3)
			conf.conn[0].rank = conf.conn[1].rank;
		else
			conf.messages = 3;
		assert_int_equal(inc_term_worker_add(fx.w, &conf, &fx.cm, &err), cases[i].code);
		if (!strstr(err.msg, cases[i].text))
			fail_msg("'%s' is not in: %s", cases[i].text, err.msg);
		assert_int_equal(fake_channels_open().devices + fake_channels_open().channels +
					 fake_channels_open().maps,
				 0);
	}
	comm_close(&fx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_orders),
		cmocka_unit_test(test_orders_at_a_time),
		cmocka_unit_test(test_deaths),
		cmocka_unit_test(test_send_that_fails),
		cmocka_unit_test(test_mismatch),
		cmocka_unit_test(test_slow_peer),
		cmocka_unit_test(test_peer_that_never_reads),
		cmocka_unit_test(test_standstill),
		cmocka_unit_test(test_waiting),
		cmocka_unit_test(test_figures),
		cmocka_unit_test(test_most_children),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_connect_later),
		cmocka_unit_test(test_refusals),
	};

	return cmocka_run_group_tests_name("term comm", tests, NULL, NULL);
}
