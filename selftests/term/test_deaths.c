/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connection of each peer breaks at every moment of every order of events. The communicator
 * ends once, and its report names the peer. Nothing more is sent. Every buffer is returned; buffers
 * that are being sent are returned when their sends are complete.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "lib/proto/desc.h"
#include "selftests/term/harness_paths.h"
#include "selftests/term/harness_node.h"

#define SUM(seq) INC_DESC(INC_COLL_ALLREDUCE, INC_OPERATOR_SUM, INC_DTYPE_FLOAT32, 0, seq)

static const struct node_call sums[] = {{SUM(0), 8, true}, {SUM(1), 8, true}};

static const struct {
	enum inc_term_reason reason;
	const char *event;
} reasons[] = {{INC_TERM_INVALID, "connection_error"},
	       {INC_TERM_REFUSED, "peer_nak"},
	       {INC_TERM_SILENT, "unresponsive"},
	       {INC_TERM_ENDED_THERE, "ended"},
	       {INC_TERM_CUT, "connection_error"}};

struct job {
	struct node_shape shape;
	uint64_t deaths;
};

static void check_story(const struct node_harness *h, uint32_t peer, uint32_t why)
{
	char who[32] = "the parent ";

	assert_string_equal(inc_event_info[h->report.kind].name, reasons[why].event);
	if (peer < h->shape->n_children) {
		assert_int_equal(h->report.n_ranks, 1);
		assert_int_equal(h->report.ranks[0], peer);
		snprintf(who, sizeof(who), "rank %u ", peer);
	} else {
		assert_int_equal(h->report.n_ranks, 0);
	}
	assert_memory_equal(h->report.message, who, strlen(who));
}

/* Lets a second peer die. That must change nothing more. */
static void die(struct path *path, struct node_harness *h, uint32_t peer)
{
	const uint32_t why = path_choose(path, sizeof(reasons) / sizeof(reasons[0]));
	struct inc_term_figures f;

	node_lose(h, peer, reasons[why].reason);
	assert_true(h->ended);
	check_story(h, peer, why);
	node_lose(h, 0, INC_TERM_SILENT);
	check_story(h, peer, why);
	node_tick(h, 1ull << 40);
	assert_int_equal(h->n_told, 0);
	inc_term_figures(h->t, &f);
	assert_true(f.ended);
	node_check_ended(h);
}

static void play(struct path *path, void *arg)
{
	struct job *job = arg;
	struct node_harness h;
	uint32_t peer;

	node_open(&h, &job->shape, sums, 2);
	do {
		peer = path_choose(path, h.n_peers + 1);
		if (peer < h.n_peers) {
			die(path, &h, peer);
			job->deaths++;
			break;
		}
	} while (path_step(path, &h, true));
	if (!h.ended)
		node_check_done(&h);
	node_close(&h);
}

static void try(uint32_t children, uint32_t slots, bool has_parent)
{
	struct job job = {node_shape(children, 1, slots, has_parent), 0};
	uint64_t n = path_all(play, &job);

	print_message("# %u children, %u slots%s: %llu deaths in %llu orders\n", children, slots,
		      has_parent ? ", a parent" : "", (unsigned long long)job.deaths,
		      (unsigned long long)n);
	assert_true(job.deaths > 0);
}

static void test_at_the_root(void **state)
{
	try(1, 2, false);
	try(2, 1, false);
	try(2, 2, false);
	try(3, 1, false);
}

static void test_below_the_root(void **state)
{
	try(1, 2, true);
	try(2, 1, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_at_the_root),
		cmocka_unit_test(test_below_the_root),
	};

	return cmocka_run_group_tests_name("term deaths", tests, NULL, NULL);
}
