/* SPDX-License-Identifier: BSD-2-Clause */
/* Many connections: all at once, one after the other, and by round robin. */
#include <inttypes.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "lib/base/clock.h"
#include "selftests/vm/connect_live.h"

/* ---- at once -------------------------------------------------------------------------------- */

#define HUNDRED 100

static unsigned int done_of(const struct outcome *out)
{
	unsigned int i, n = 0;

	for (i = 0; i < HUNDRED; i++)
		n += out[i].done;
	return n;
}

/* Each client's message must come back from the socket that was made for that client. */
static void echo_all(struct held *clients, struct held *served)
{
	const void *got;
	size_t size;
	int i;

	for (i = 0; i < HUNDRED; i++)
		send_message(&clients[i], &i, sizeof(i));
	for (i = 0; i < HUNDRED; i++) {
		assert_int_equal(DONE(inc_connect_socket_receive(served[i].socket, &got, &size)),
				 0);
		send_message(&served[i], got, size);
		inc_connect_socket_release(served[i].socket);
	}
	for (i = 0; i < HUNDRED; i++)
		expect_message(&clients[i], &i, sizeof(i));
}

void test_hundred_at_once(void **state)
{
	static struct outcome outcomes[HUNDRED];
	const struct connect_sides_opts opts = {.quiet = true};
	struct held all[2 * HUNDRED]; /* the clients' sockets, then the service's */
	uint64_t since_ns;
	int i;

	sides_open(&opts);
	since_ns = inc_now_ns();
	for (i = 0; i < HUNDRED; i++)
		open_begin(sides.address, 0, &outcomes[i]);
	UNTIL(done_of(outcomes) == HUNDRED);
	for (i = 0; i < HUNDRED; i++) {
		adopt(&all[i], &outcomes[i]);
		take(&all[HUNDRED + i]);
	}
	printf("# a hundred clients at once: %.0f connects a second\n",
	       HUNDRED / ((inc_now_ns() - since_ns) / 1e9));
	assert_true(figure(SERVICE, "inc_connect_connections") == HUNDRED);
	echo_all(all, all + HUNDRED);
	close_all(all, 2 * HUNDRED);
	sides_close();
}

/* ---- one after the other -------------------------------------------------------------------- */

#define WARM_UP 50
/* Tolerance for the growth of the heap per connection, because some tables grow in steps. It is
 * less than malloc()'s smallest piece of 32 bytes. */
#define HEAP_SLACK_BYTES 16

static uint64_t heap_bytes(void)
{
	return mallinfo2().uordblks + mallinfo2().hblkhd;
}

void test_connects_leave_nothing(void **state)
{
	const struct connect_sides_opts opts = {.quiet = true};
	const unsigned int n = full ? 10000 : 500;
	uint64_t connecting_ns = 0, since_ns, heap_before_bytes;
	unsigned int i;
	int64_t grown;

	sides_open(&opts);
	for (i = 0; i < WARM_UP; i++)
		connect_and_close();
	resources_returned(&sides.before);
	heap_before_bytes = heap_bytes(); /* includes memory that is allocated only once */
	since_ns = inc_now_ns();
	for (i = 0; i < n; i++)
		connecting_ns += connect_and_close();
	printf("# %u connects one after the other: %.0f a second; with a message each way and both "
	       "closes %.0f a second\n",
	       n, n / (connecting_ns / 1e9), n / ((inc_now_ns() - since_ns) / 1e9));
	resources_returned(&sides.before);
	grown = heap_bytes() - heap_before_bytes;
	printf("# the heap has grown by %" PRId64 " bytes\n", grown);
	assert_true(grown <= (int64_t)n * HEAP_SLACK_BYTES);
	assert_true(figure(CLIENT, "inc_connect_connect_failed_total") == 0);
	assert_true(figure(SERVICE, "inc_connect_accept_failed_total") == 0);
	assert_true(figure(CLIENT, "inc_connect_registered_bytes") == 0);
	assert_true(figure(SERVICE, "inc_connect_registered_bytes") == 0);
	sides_close();
}

/* ---- round robin ---------------------------------------------------------------------------- */

static unsigned int pairs_with(enum inc_connect_reason reason)
{
	unsigned int i, n = 0;

	for (i = 0; i < opened.choice.n_pairs; i++)
		n += opened.pair[i].reason == reason;
	return n;
}

/* Makes `fitting` connections. Each of them must use another pair of ports. With `zones`, only
 * pairs of devices with the same name fit. */
static void take_turns(const struct connect_sides_opts *opts, unsigned int fitting, bool zones)
{
	unsigned int i, chosen, taken = 0;
	uint64_t first = 0;

	sides_open(opts);
	for (i = 0; i < fitting; i++) {
		open_pair(held);
		first = i ? first : opened.choice.counter;
		assert_int_equal(opened.choice.counter, first + i);
		assert_int_equal(opened.choice.n_pairs, 4);
		assert_int_equal(pairs_with(INC_CONNECT_CHOSEN), 1);
		assert_int_equal(pairs_with(INC_CONNECT_NOT_ITS_TURN), fitting - 1);
		assert_int_equal(pairs_with(INC_CONNECT_NO_ZONE), 4 - fitting);
		assert_int_equal(opened.choice.zones_ignored, !zones);
		for (chosen = 0; opened.pair[chosen].reason != INC_CONNECT_CHOSEN; chosen++)
			;
		if (zones)
			assert_string_equal(opened.pair[chosen].local_name,
					    opened.pair[chosen].remote_name);
		taken |= 1u << chosen;
		exchange(held);
		close_all(held, SIDES);
	}
	assert_int_equal(__builtin_popcount(taken), fitting);
	sides_close();
}

/* With two devices on each side, connections use all four pairs in turn, or only the pairs that
 * share a zone. */
void test_turns_and_zones(void **state)
{
	static const char all[] = "zones: []\n";
	static const char zones[] = "zones:\n"
				    "- {subnet: 10.77.0.0/24, zones: [left]}\n"
				    "- {subnet: 10.77.1.0/24, zones: [right, far]}\n";
	static const char elsewhere[] = "default_zones: [moon]\nallow_unknown_zone: false\n";

	take_turns(&(struct connect_sides_opts){.file = {all, all}}, 4, false);
	take_turns(&(struct connect_sides_opts){.file = {zones, zones}}, 2, true);
	sides_open(&(struct connect_sides_opts){.file = {elsewhere, zones}});
	open_fails(sides.address, 0, -ENODEV, inc_connect_reason_text(INC_CONNECT_NO_ZONE));
	assert_int_equal(pairs_with(INC_CONNECT_NO_ZONE), 4);
	sides_close();
}
