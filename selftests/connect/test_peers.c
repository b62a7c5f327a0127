/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* The choice of a pair of ports by round robin (hostlib/connect/peers.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include "hostlib/connect/peers.h"

static void each_peer_has_its_own_counter(void **state)
{
	struct connect_peers peers;
	uint64_t a, b;

	connect_peers_init(&peers);
	a = connect_peers_next(&peers, "a");
	b = connect_peers_next(&peers, "b");
	assert_true(a != b); /* two random numbers of 64 bits are equal only once in 2^64 runs */
	assert_true(connect_peers_next(&peers, "a") == a + 1);
	assert_true(connect_peers_next(&peers, "a") == a + 2);
	assert_true(connect_peers_next(&peers, "b") == b + 1);
	connect_peers_free(&peers);
}

static void counters_begin_at_random(void **state)
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

static void the_least_recent_peer_is_forgotten(void **state)
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
		cmocka_unit_test(each_peer_has_its_own_counter),
		cmocka_unit_test(counters_begin_at_random),
		cmocka_unit_test(the_least_recent_peer_is_forgotten),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("peers", tests, NULL, NULL);
}
