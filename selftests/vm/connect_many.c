/* SPDX-License-Identifier: BSD-2-Clause */
/* Many connections: all at once, one after the other, and by round robin. */
#include <errno.h>
#include <inttypes.h>
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
static void echo_all(struct connect_sides *s, struct outcome *out, struct held *served)
{
	const void *got;
	uint32_t word;
	size_t size;
	int i, ret;

	for (i = 0; i < HUNDRED; i++) {
		word = i;
		send_message(s, &out[i].held, &word, sizeof(word));
	}
	for (i = 0; i < HUNDRED; i++) {
		UNTIL(s,
		      (ret = inc_connect_socket_receive(served[i].socket, &got, &size)) != -EAGAIN);
		assert_int_equal(ret, 0);
		send_message(s, &served[i], got, size);
		inc_connect_socket_release(served[i].socket);
	}
	for (i = 0; i < HUNDRED; i++) {
		word = i;
		expect_message(s, &out[i].held, &word, sizeof(word));
	}
}

static void close_all(struct connect_sides *s, struct outcome *out, struct held *served)
{
	int i, ret;

	for (i = 0; i < HUNDRED; i++) {
		inc_connect_socket_close(out[i].held.socket);
		inc_connect_socket_close(served[i].socket);
	}
	for (i = 0; i < HUNDRED; i++) {
		UNTIL(s, (ret = inc_connect_socket_close(out[i].held.socket)) != -EAGAIN);
		assert_int_equal(ret, 0);
		UNTIL(s, (ret = inc_connect_socket_close(served[i].socket)) != -EAGAIN);
		assert_int_equal(ret, 0);
		let_go(&out[i].held);
		let_go(&served[i]);
	}
}

void test_hundred_at_once(void **state)
{
	struct outcome *out = calloc(HUNDRED, sizeof(*out));
	const struct connect_sides_opts opts = {.quiet = true};
	struct held served[HUNDRED];
	struct resources before;
	uint64_t since_ns;
	struct connect_sides s;
	int i;

	assert_non_null(out);
	sides_open(&s, &opts);
	resources_now(&before);
	since_ns = inc_now_ns();
	for (i = 0; i < HUNDRED; i++)
		open_begin(&s, s.address, 0, &out[i]);
	UNTIL(&s, done_of(out) == HUNDRED);
	for (i = 0; i < HUNDRED; i++)
		if (out[i].error)
			fail_msg("client %d: %s", i, out[i].why);
	for (i = 0; i < HUNDRED; i++)
		take(&s, &served[i]);
	printf("# a hundred clients at once: %.0f connects a second\n",
	       HUNDRED / ((inc_now_ns() - since_ns) / 1e9));
	assert_true(figure(&s, SERVICE, "inc_connect_connections") == HUNDRED);
	echo_all(&s, out, served);
	close_all(&s, out, served);
	resources_returned(&s, &before);
	sides_close(&s);
	free(out);
}

/* ---- one after the other -------------------------------------------------------------------- */

#define WARM_UP 50
/* Tolerance for the growth of the heap per connection, because some tables grow in steps. It is
 * less than malloc()'s smallest piece of 32 bytes. */
#define HEAP_SLACK_BYTES 16

static uint64_t connect_and_close(struct connect_sides *s)
{
	uint64_t since_ns = inc_now_ns(), ns;
	struct held held[SIDES];

	open_pair(s, held);
	ns = inc_now_ns() - since_ns;
	exchange(s, held);
	close_pair(s, held);
	return ns;
}

void test_connects_leave_nothing(void **state)
{
	const struct connect_sides_opts opts = {.quiet = true};
	const unsigned int n = full ? 10000 : 500;
	uint64_t connecting_ns = 0, since_ns;
	struct resources before, after;
	struct connect_sides s;
	unsigned int i;
	int64_t grown;

	sides_open(&s, &opts);
	resources_now(&before);
	for (i = 0; i < WARM_UP; i++)
		connect_and_close(&s);
	resources_returned(&s, &before);
	resources_now(&before); /* this count includes memory that is allocated only once */
	since_ns = inc_now_ns();
	for (i = 0; i < n; i++)
		connecting_ns += connect_and_close(&s);
	printf("# %u connects one after the other: %.0f a second; with a message each way and both "
	       "closes %.0f a second\n",
	       n, n / (connecting_ns / 1e9), n / ((inc_now_ns() - since_ns) / 1e9));
	resources_returned(&s, &before);
	resources_now(&after);
	grown = after.heap_bytes - before.heap_bytes;
	printf("# the heap has grown by %" PRId64 " bytes\n", grown);
	assert_true(grown <= (int64_t)n * HEAP_SLACK_BYTES);
	assert_true(figure(&s, CLIENT, "inc_connect_connect_failed_total") == 0);
	assert_true(figure(&s, SERVICE, "inc_connect_accept_failed_total") == 0);
	assert_true(figure(&s, CLIENT, "inc_connect_registered_bytes") == 0);
	assert_true(figure(&s, SERVICE, "inc_connect_registered_bytes") == 0);
	sides_close(&s);
}

/* ---- round robin ---------------------------------------------------------------------------- */

static unsigned int pairs_with(const struct outcome *out, enum inc_connect_reason reason)
{
	unsigned int i, n = 0;

	for (i = 0; i < out->pairs; i++)
		n += out->pair[i].reason == reason;
	return n;
}

static unsigned int chosen_of(const struct outcome *out)
{
	unsigned int i;

	for (i = 0; i < out->pairs && out->pair[i].reason != INC_CONNECT_CHOSEN; i++)
		;
	assert_true(i < out->pairs);
	return i;
}

/* Makes `fitting` connections. Each of them must use another pair of ports. With `zones`, only
 * pairs of devices with the same name fit. */
static void take_turns(struct connect_sides *s, unsigned int fitting, bool zones)
{
	struct held held[SIDES];
	struct outcome out;
	unsigned int i, chosen, taken = 0;
	uint64_t first = 0;

	for (i = 0; i < fitting; i++) {
		open_address(s, s->address, 0, &out);
		if (out.error)
			fail_msg("%s", out.why);
		first = i ? first : out.counter;
		assert_int_equal(out.counter, first + i);
		assert_int_equal(out.pairs, 4);
		assert_int_equal(pairs_with(&out, INC_CONNECT_CHOSEN), 1);
		assert_int_equal(pairs_with(&out, INC_CONNECT_NOT_ITS_TURN), fitting - 1);
		assert_int_equal(pairs_with(&out, INC_CONNECT_NO_ZONE), 4 - fitting);
		assert_int_equal(out.zones_ignored, !zones);
		chosen = chosen_of(&out);
		if (zones)
			assert_string_equal(out.pair[chosen].local_name,
					    out.pair[chosen].remote_name);
		taken |= 1u << chosen;
		open_adopt(s, &out, held);
		exchange(s, held);
		close_pair(s, held);
	}
	assert_int_equal(__builtin_popcount(taken), fitting);
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
	struct connect_sides_opts opts = {.file = {all, all}};
	struct outcome out;
	struct connect_sides s;

	sides_open(&s, &opts);
	take_turns(&s, 4, false);
	sides_close(&s);
	opts.file[CLIENT] = opts.file[SERVICE] = zones;
	sides_open(&s, &opts);
	take_turns(&s, 2, true);
	sides_close(&s);
	opts.file[CLIENT] = elsewhere;
	sides_open(&s, &opts);
	open_address(&s, s.address, 0, &out);
	assert_int_equal(out.error, -ENODEV);
	assert_true(out.chosen);
	assert_int_equal(pairs_with(&out, INC_CONNECT_NO_ZONE), 4);
	assert_non_null(strstr(out.why, inc_connect_reason_text(INC_CONNECT_NO_ZONE)));
	printf("# %s\n", out.why);
	sides_close(&s);
}
