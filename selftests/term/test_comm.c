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
static uint32_t moves(struct scene *s, uint32_t messages, uint32_t *move)
{
	uint32_t n = 0, i;

	for (i = 0; i < s->n; i++) {
		/* a host sends within the window, which begins at the oldest result that the host
		 * lacks */
		const uint64_t window = s->taken[i] + s->conf.messages;
		const uint64_t most = scene_is_parent(s, i) ? s->taken[i] : messages;

		const struct loop_channel_state ch = loop_state(scene_qpn(s, i));

		/* without a posted receive the peer would get an RNR NAK */
		if (s->given[i] < most && ch.given < ch.posted &&
		    (scene_is_parent(s, i) || s->given[i] < window))
			move[n++] = i;
		if (s->acknowledged[i] < s->taken[i])
			move[n++] = s->n + i;
	}
	return n;
}

static void make(struct scene *s, uint32_t move)
{
	if (move < s->n) {
		assert_true(scene_give(s, move));
		return;
	}
	assert_true(loop_acknowledge(scene_qpn(s, move - s->n)));
	s->acknowledged[move - s->n]++;
}

static void play_order(struct path *path, void *arg)
{
	const struct job *job = arg;
	uint32_t move[2 * MAX_PEERS], n;
	struct scene s;

	scene_open(&s, job->children, job->window, job->has_parent);
	while ((n = moves(&s, job->messages, move))) {
		make(&s, move[path_choose(path, n)]);
		/* without this step the worker finds several events at once, like a worker that
		 * polls rarely */
		if (!job->batched || path_choose(path, 2)) {
			scene_turn(&s);
			scene_take_all(&s);
		} else if (!moves(&s, job->messages, move)) {
			scene_turn(&s);
			scene_take_all(&s);
		}
	}
	scene_check_rest(&s, job->messages);
	assert_int_equal(s.n_told, 0);
	scene_close(&s);
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
static void check_over(struct scene *s, uint32_t dead, const char *event)
{
	const struct inc_term_view *v = scene_view(s);
	uint64_t posted = 0;
	uint32_t i;

	assert_true(v->comm.ended);
	assert_int_equal(v->comm.error, INC_AETH_NAK_OPERATION);
	assert_int_equal(s->n_told, 1);
	assert_string_equal(inc_event_info[s->report.kind].name, event);
	assert_int_equal(s->report.n_ranks, !scene_is_parent(s, dead));
	if (!scene_is_parent(s, dead))
		assert_int_equal(s->report.ranks[0], s->conf.conn[dead].rank);
	for (i = 0; i < s->n; i++) {
		const struct loop_channel_state ch = loop_state(scene_qpn(s, i));

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
	struct scene s;

	scene_open(&s, job->children, job->window, job->has_parent);
	while (!over && (n = moves(&s, job->messages, move))) {
		if (path_choose(path, 2)) {
			dead = path_choose(path, s.n);
			why = path_choose(path, sizeof(reasons) / sizeof(reasons[0]));
			loop_lose(scene_qpn(&s, dead), reasons[why].reason);
			/* another peer sends a message at the same moment */
			make(&s, move[path_choose(path, n)]);
			over = true;
		} else {
			make(&s, move[path_choose(path, n)]);
		}
		scene_turn(&s);
		scene_take_all(&s);
	}
	if (over) {
		check_over(&s, dead, reasons[why].event);
		inc_term_worker_turn(s.w, 0);
		job->deaths++;
	}
	scene_close(&s);
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
	struct scene s;

	scene_open(&s, 2, 2, false);
	loop_refuse_sends(scene_qpn(&s, 1));
	scene_give(&s, 0);
	scene_give(&s, 1);
	scene_turn(&s);
	scene_turn(&s);
	check_over(&s, 1, "peer_nak");
	scene_close(&s);
}

static void test_mismatch(void **state)
{
	const struct loop_message other = {
		.length = 4, .has_imm = true, .imm = SUM(1), .bytes = {1}};
	struct scene s;

	scene_open(&s, 3, 2, false);
	scene_give(&s, 0);
	scene_give(&s, 2);
	/* connection 1 has rank 1; the report compares its message with that of child 0, which is
	 * rank 0 */
	assert_true(loop_give(scene_qpn(&s, 1), &other));
	scene_turn(&s);
	check_over(&s, 1, "mismatch");
	assert_non_null(strstr(s.report.message, "rank 0 called allreduce"));
	assert_non_null(strstr(s.report.message, "but rank 1 called allreduce"));
	assert_int_equal(scene_view(&s)->counters.mismatches, 1);
	scene_close(&s);
}

/* --- slow and silent peers ------------------------------------------------------------------- */

/* All peers send messages while there is room. All peers but the slow one receive and
 * acknowledge. */
static void go_on(struct scene *s, uint32_t slow)
{
	bool any = true;
	uint32_t i;

	while (any) {
		any = false;
		for (i = 0; i < s->n; i++)
			any |= scene_give(s, i);
		scene_turn(s);
		for (i = 0; i < s->n; i++) {
			if (i == slow)
				continue;
			scene_take(s, i);
			while (loop_acknowledge(scene_qpn(s, i)))
				s->acknowledged[i]++;
		}
		scene_turn(s);
	}
}

static void test_slow_peer(void **state)
{
	const uint32_t window = 8, slots = 2 * window;
	uint32_t round, i;
	struct scene s;

	scene_open(&s, 4, window, false);
	for (round = 1; round <= 20; round++) {
		go_on(&s, 2);
		/* the other peers wait for the slow one, two windows ahead of it, and use no more
		 * buffers */
		for (i = 0; i < s.n; i++)
			assert_int_equal(s.given[i], round * slots);
		assert_true(scene_view(&s)->buffers_taken <= s.n * slots);
		scene_take(&s, 2);
		for (i = 0; i < slots; i++)
			assert_true(loop_acknowledge(scene_qpn(&s, 2)));
		scene_turn(&s);
	}
	scene_check_rest(&s, 20 * slots);
	scene_close(&s);
}

static void test_peer_that_never_reads(void **state)
{
	uint64_t now = inc_now_ns();
	const struct inc_term_view *v;
	struct scene s;
	uint32_t i;

	scene_open(&s, 3, 4, false);
	go_on(&s, 0);
	for (i = 0; i < 12; i++, now += INC_NSEC_PER_SEC)
		inc_term_comm_tick(s.cm, now);
	assert_int_equal(s.n_told, 1);
	assert_string_equal(inc_event_info[s.report.kind].name, "unresponsive");
	assert_int_equal(s.report.ranks[0], s.conf.conn[0].rank);
	v = scene_view(&s);
	assert_false(v->comm.ended);
	/* figures list connections by rank, and connection 0 has the highest rank */
	assert_int_equal(v->conn[2].rank, s.conf.conn[0].rank);
	assert_int_equal(v->conn[2].health, INC_CONN_UNRESPONSIVE);
	assert_int_equal(v->conn[0].health, INC_CONN_ACTIVE);
	/* the peer was only slow, and now receives its results */
	scene_take(&s, 0);
	while (loop_acknowledge(scene_qpn(&s, 0)))
		s.acknowledged[0]++;
	scene_turn(&s);
	inc_term_comm_tick(s.cm, now);
	assert_int_equal(scene_view(&s)->conn[2].health, INC_CONN_ACTIVE);
	scene_close(&s);
}

/* --- reports and figures --------------------------------------------------------------------- */

static void test_waiting(void **state)
{
	const struct inc_term_view *v;
	struct scene s;

	scene_open(&s, 3, 2, true);
	scene_turn(&s);
	assert_false(scene_view(&s)->waits);
	scene_give(&s, 0); /* connection 0 has rank 2 */
	scene_turn(&s);
	v = scene_view(&s);
	assert_true(v->waits && !v->waiting.up);
	assert_int_equal(v->waiting.chunk, 0);
	assert_int_equal(v->waiting.arrived, 1 << 2);
	inc_term_comm_tick(s.cm, inc_now_ns() - 3000 * INC_NSEC_PER_MSEC);
	v = scene_view(&s);
	assert_true(v->waiting.waited_ms >= 3000 && v->waiting.waited_ms < 60000);
	scene_give(&s, 1);
	scene_give(&s, 2);
	scene_turn(&s);
	assert_true(scene_view(&s)->waiting.up);
	scene_take_all(&s);
	scene_give(&s, 3);
	scene_turn(&s);
	assert_false(scene_view(&s)->waits);
	scene_close(&s);
}

static void test_figures(void **state)
{
	const struct inc_term_view *v;
	struct scene s;
	uint32_t i;

	scene_open(&s, 2, 2, true);
	for (i = 0; i < 2; i++)
		scene_give(&s, i);
	scene_turn(&s);
	scene_take_all(&s);
	scene_give(&s, 2);
	scene_turn(&s);
	scene_take_all(&s);
	assert_true(loop_acknowledge(scene_qpn(&s, 0)));
	scene_turn(&s);
	v = scene_view(&s);
	assert_int_equal(v->comm.communicator, 12);
	assert_int_equal(v->comm.children, 2);
	assert_int_equal(v->comm.connections, 3);
	assert_int_equal(v->comm.slots, 2);
	assert_int_equal(v->comm.receives, 4);
	assert_int_equal(v->comm.rows, 0);
	assert_int_equal(v->comm.payload_bytes, PAYLOAD);
	assert_int_equal(v->comm.results, 1);
	/* figures list children by rank, and then the parent */
	assert_int_equal(v->conn[0].own.qpn, scene_qpn(&s, 1));
	assert_int_equal(v->conn[1].own.qpn, scene_qpn(&s, 0));
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
	scene_close(&s);
}

/* --- the creation of communicators ----------------------------------------------------------- */

static void test_most_children(void **state)
{
	struct scene s;
	uint32_t i, r;

	scene_open(&s, INC_COMM_MAX_CHILDREN, 2, true);
	assert_int_equal(loop_open().devices, (s.n + 1) / 2);
	for (r = 0; r < 5; r++) {
		for (i = 0; i < s.n - 1; i++)
			assert_true(scene_give(&s, i));
		scene_turn(&s);
		scene_take_all(&s);
		assert_true(scene_give(&s, s.n - 1));
		scene_turn(&s);
		scene_take_all(&s);
		for (i = 0; i < s.n; i++)
			assert_true(loop_acknowledge(scene_qpn(&s, i)));
		scene_turn(&s);
	}
	scene_check_rest(&s, 5);
	scene_close(&s);
}

/* Queue pair numbers and PSNs in the configuration are used. Missing ones are chosen, in the order
 * of the connections. */
static void test_numbers(void **state)
{
	struct loop_channel_state ch;
	struct scene s;
	uint32_t i;

	scene_open_worker(&s);
	s.conf = scene_conf(3, 2, false);
	s.conf.conn[1].own.psn = 0x123456;
	s.conf.conn[1].has_own_psn = true;
	s.conf.conn[2].own.udp_port = 9000;
	assert_int_equal(inc_term_worker_add(s.w, &s.conf, &s.cm, NULL), 0);
	for (i = 0; i < 3; i++) {
		const struct inc_conn_conf *c = &s.conf.conn[i];

		assert_int_equal(c->rank, 2 - i);
		ch = loop_state(c->own.qpn);
		assert_int_equal(ch.opts.psn, c->own.psn);
		assert_true(c->has_own_psn);
		assert_int_equal(ch.posted, 4);
		assert_int_equal(ch.opts.max_message_bytes, PACKETS * PAYLOAD);
		assert_false(ch.connected);
	}
	assert_int_equal(s.conf.conn[1].own.psn, 0x123456);
	assert_int_equal(s.conf.conn[0].own.udp_port, INC_ROCE_UDP_PORT);
	assert_int_equal(s.conf.conn[2].own.udp_port, 9000);
	assert_int_equal(inc_term_worker_start_comm(s.w, s.cm, NULL), 0);
	ch = loop_state(s.conf.conn[2].own.qpn);
	assert_true(ch.connected);
	assert_int_equal(ch.peer.end.qpn, 79);
	assert_int_equal(ch.peer.end.psn, 5);
	assert_int_equal(ch.peer.end.udp_port, 5002);
	assert_int_equal(ch.peer.end.ip, s.conf.conn[2].peer.ip);
	scene_close(&s);
}

static void test_connect_later(void **state)
{
	struct inc_msg_peer peers[] = {
		{.rank = 1, .peer.qpn = 500, .peer.psn = 9, .peer.udp_port = 6000},
		{.up = true, .peer.qpn = 501, .peer.udp_port = 6001}};
	const struct inc_msg_peer absent = {.rank = 7, .peer.qpn = 5};
	const struct inc_msg_peer twice[] = {peers[0], peers[0]};
	struct loop_channel_state ch;
	struct scene s;

	scene_open_worker(&s);
	s.conf = scene_conf(2, 2, true);
	s.conf.conn[0].peer.qpn = s.conf.conn[2].peer.qpn = 0;
	s.n = 3;
	s.has_parent = true;
	assert_int_equal(inc_term_worker_add(s.w, &s.conf, &s.cm, NULL), 0);
	assert_int_equal(inc_term_worker_start_comm(s.w, s.cm, NULL), 0);
	assert_false(loop_state(scene_qpn(&s, 0)).connected);
	assert_true(loop_state(scene_qpn(&s, 1)).connected);
	assert_int_equal(inc_term_worker_connect(s.w, s.cm, &absent, 1, NULL), -ENOENT);
	assert_int_equal(inc_term_worker_connect(s.w, s.cm, twice, 2, NULL), -EALREADY);
	assert_false(loop_state(scene_qpn(&s, 0)).connected);
	assert_int_equal(inc_term_worker_connect(s.w, s.cm, peers, 2, NULL), 0);
	ch = loop_state(scene_qpn(&s, 0));
	assert_int_equal(ch.peer.end.qpn, 500);
	assert_int_equal(ch.peer.end.psn, 9);
	assert_int_equal(ch.peer.end.udp_port, 6000);
	assert_int_equal(loop_state(scene_qpn(&s, 2)).peer.end.qpn, 501);
	assert_int_equal(inc_term_worker_connect(s.w, s.cm, peers, 1, NULL), -EALREADY);
	scene_give(&s, 0);
	scene_give(&s, 1);
	scene_turn(&s);
	scene_take_all(&s);
	scene_give(&s, 2);
	scene_turn(&s);
	scene_take_all(&s);
	assert_int_equal(s.taken[0], 1);
	scene_close(&s);
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
	struct scene s;
	uint32_t i;

	scene_open_worker(&s);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		conf = scene_conf(3, 2, true);
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
		assert_int_equal(inc_term_worker_add(s.w, &conf, &s.cm, &err), cases[i].code);
		if (!strstr(err.msg, cases[i].text))
			fail_msg("'%s' is not in: %s", cases[i].text, err.msg);
		assert_int_equal(loop_open().devices + loop_open().channels + loop_open().maps, 0);
	}
	scene_close(&s);
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
		cmocka_unit_test(test_waiting),
		cmocka_unit_test(test_figures),
		cmocka_unit_test(test_most_children),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_connect_later),
		cmocka_unit_test(test_refusals),
	};

	return cmocka_run_group_tests_name("term comm", tests, NULL, NULL);
}
