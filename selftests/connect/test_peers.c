/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* Whose turn it is (hostlib/connect/peers.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include "hostlib/connect/peers.h"

static void each_counts_by_itself(void **state)
{
	struct connect_peers peers;
	uint64_t a, b;

	connect_peers_init(&peers);
	a = connect_peers_next(&peers, "a");
	b = connect_peers_next(&peers, "b");
	assert_true(a != b); /* once in 2^64 runs they are */
	assert_true(connect_peers_next(&peers, "a") == a + 1);
	assert_true(connect_peers_next(&peers, "a") == a + 2);
	assert_true(connect_peers_next(&peers, "b") == b + 1);
	connect_peers_free(&peers);
}

static void begins_anew_elsewhere(void **state)
{
	struct connect_peers peers;
	uint64_t first[2];
	int i;

	for (i = 0; i < 2; i++) {
		connect_peers_init(&peers);
		first[i] = connect_peers_next(&peers, "a");
		connect_peers_free(&peers);
	}
	assert_true(first[0] != first[1]);
}

static void forgets_who_asked_longest_ago(void **state)
{
	struct connect_peers peers;
	uint64_t kept, forgotten;
	char name[16];
	int i;

	connect_peers_init(&peers);
	forgotten = connect_peers_next(&peers, "forgotten");
	kept = connect_peers_next(&peers, "kept");
	for (i = 0; i < CONNECT_PEERS_KEPT - 1; i++) {
		snprintf(name, sizeof(name), "%d", i);
		connect_peers_next(&peers, name);
		if (i == CONNECT_PEERS_KEPT / 2)
			assert_true(connect_peers_next(&peers, "kept") == kept + 1);
	}
	assert_int_equal(peers.n, CONNECT_PEERS_KEPT);
	assert_true(connect_peers_next(&peers, "kept") == kept + 2);
	assert_true(connect_peers_next(&peers, "forgotten") != forgotten + 1);
	assert_int_equal(peers.n, CONNECT_PEERS_KEPT);
	connect_peers_free(&peers);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_counts_by_itself),
		cmocka_unit_test(begins_anew_elsewhere),
		cmocka_unit_test(forgets_who_asked_longest_ago),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("peers", tests, NULL, NULL);
}
