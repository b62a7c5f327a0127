// SPDX-License-Identifier: BSD-2-Clause
// SIZE: check
/* lib/net/tls_link. Sent data arrives at the other side, however the bytes in between are cut. No
 * data is delivered before both sides are authenticated. Errors distinguish ends, violations and
 * floods. A peer's behaviour on one link affects neither another link of the thread nor the
 * caller's own use of OpenSSL.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <cmocka.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include "lib/net/tls_link.h"
#include "selftests/fakes/tls_hostile.h"

static char path[] = "/tmp/test_tls_link.XXXXXX";
static struct inc_tls *server, *client;

static int set_up(void **state)
{
	static const char line[] = "job:a 00112233445566778899aabbccddeeff\n";
	const struct inc_tls_files files = {.key = path};
	const int fd = mkstemp(path);
	struct inc_err err;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, line, strlen(line)), strlen(line));
	close(fd);
	server = inc_tls_server(&files, &err);
	client = inc_tls_client(&files, &err);
	assert_non_null(server);
	assert_non_null(client);
	return 0;
}

static int tear_down(void **state)
{
	inc_tls_free(server);
	inc_tls_free(client);
	return unlink(path);
}

struct link_pair {
	struct inc_tls_link *host, *controller;
};

static struct link_pair new_pair(void)
{
	struct inc_err err;
	const struct link_pair p = {inc_tls_link_new(client, "ctl", &err),
				    inc_tls_link_new(server, NULL, &err)};

	assert_non_null(p.host);
	assert_non_null(p.controller);
	return p;
}

static void free_pair(struct link_pair p)
{
	inc_tls_link_free(p.host);
	inc_tls_link_free(p.controller);
}

/* Carries the bytes that one side wants to send to the other side, in pieces. Returns their number.
 * *ret: the result of the last piece. */
static size_t carry(struct inc_tls_link *from, struct inc_tls_link *to, size_t piece, int *ret)
{
	size_t n;
	const void *bytes = inc_tls_link_output(from, &n);
	char *copy = malloc(n + 1);
	struct inc_err err;

	memcpy(copy, bytes, n);
	inc_tls_link_sent(from);
	*ret = 0;
	for (size_t at = 0; at < n && !*ret; at += piece)
		*ret = inc_tls_link_take(to, copy + at, n - at < piece ? n - at : piece, &err);
	free(copy);
	return n;
}

static void shake(struct link_pair p, size_t piece)
{
	int ret;

	while (carry(p.host, p.controller, piece, &ret) + carry(p.controller, p.host, piece, &ret))
		assert_int_equal(ret, 0);
	assert_true(inc_tls_link_done(p.host));
	assert_true(inc_tls_link_done(p.controller));
}

static void however_it_is_cut(void **state)
{
	static const size_t pieces[] = {1, 2, 5, 7, 100, 1 << 20};
	static char said[100000], received[sizeof(said)];
	struct inc_err err;

	for (size_t i = 0; i < sizeof(said); i++)
		said[i] = random();
	for (size_t k = 0; k < sizeof(pieces) / sizeof(pieces[0]); k++) {
		const struct link_pair p = new_pair();
		size_t got = 0;
		ssize_t n;
		int ret;

		/* the host sends at once, and its data is delivered after authentication */
		assert_int_equal(inc_tls_link_write(p.host, said, sizeof(said), &err), 0);
		assert_int_equal(inc_tls_link_kept(p.host), sizeof(said));
		assert_null(inc_tls_link_identity(p.controller));
		shake(p, pieces[k]);
		assert_int_equal(inc_tls_link_kept(p.host), 0);
		assert_string_equal(inc_tls_link_identity(p.controller), "job:a");
		assert_null(inc_tls_link_identity(p.host));
		while ((n = inc_tls_link_read(p.controller, received + got, 777, &err)) > 0)
			got += n;
		assert_int_equal(n, 0);
		assert_int_equal(got, sizeof(said));
		assert_memory_equal(said, received, sizeof(said));
		assert_int_equal(inc_tls_link_write(p.controller, "yes", 3, &err), 0);
		carry(p.controller, p.host, pieces[k], &ret);
		assert_int_equal(inc_tls_link_read(p.host, received, 100, &err), 3);
		free_pair(p);
	}
}

static void ends(void **state)
{
	const struct link_pair p = new_pair();
	struct inc_err err;
	char received[8];
	int ret;

	shake(p, 1 << 20);
	assert_int_equal(inc_tls_link_write(p.host, "bye", 3, &err), 0);
	inc_tls_link_end(p.host);
	carry(p.host, p.controller, 3, &ret);
	assert_int_equal(inc_tls_link_read(p.controller, received, sizeof(received), &err), 3);
	assert_int_equal(inc_tls_link_read(p.controller, received, sizeof(received), &err),
			 -ECONNRESET);
	/* a side that has ended its stream can still receive */
	assert_int_equal(inc_tls_link_write(p.controller, "so", 2, &err), 0);
	carry(p.controller, p.host, 3, &ret);
	assert_int_equal(inc_tls_link_read(p.host, received, sizeof(received), &err), 2);
	free_pair(p);
}

/* A link that ends before the handshake is complete sends nothing and drops stored data. */
static void ends_early(void **state)
{
	const struct link_pair p = new_pair();
	struct inc_err err;
	size_t n;

	assert_int_equal(inc_tls_link_write(p.controller, "secret", 6, &err), 0);
	inc_tls_link_end(p.controller);
	assert_int_equal(inc_tls_link_kept(p.controller), 0);
	inc_tls_link_output(p.controller, &n);
	assert_int_equal(n, 0);
	free_pair(p);
}

static void does_not_speak_tls(void **state)
{
	static const char plain[] = "{\"type\":\"A\"}\n";
	const struct link_pair p = new_pair();
	const unsigned char *bytes;
	struct inc_err err;
	size_t n;

	assert_int_equal(inc_tls_link_take(p.controller, plain, strlen(plain), &err), -EPROTO);
	assert_string_equal(err.msg, "the other side does not speak TLS");
	bytes = inc_tls_link_output(p.controller, &n);
	assert_int_equal(n, 7);
	assert_int_equal(bytes[0], SSL3_RT_ALERT);
	/* the other direction: a controller answers without TLS */
	assert_int_equal(inc_tls_link_take(p.host, plain, strlen(plain), &err), -EPROTO);
	assert_string_equal(err.msg, "the other side does not speak TLS");
	assert_int_equal(inc_tls_link_write(p.host, plain, 1, &err), -EPROTO);
	free_pair(p);
}

/* Flips each byte that the host's side of a connection sends. No wrong data may be delivered. */
static void damaged(void **state)
{
	struct inc_err err;
	char received[16];
	bool more = true;

	for (size_t at = 0; more; at++) {
		const struct link_pair p = new_pair();
		size_t n, done = 0;
		int ret = 0;

		more = false;
		inc_tls_link_write(p.host, "hello", 5, &err);
		for (int turn = 0; turn < 4 && !ret; turn++) {
			const void *bytes = inc_tls_link_output(p.host, &n);
			char copy[8192];

			assert_true(n <= sizeof(copy));
			memcpy(copy, bytes, n);
			inc_tls_link_sent(p.host);
			if (at >= done && at < done + n) {
				copy[at - done] ^= 1 << random() % 8;
				more = true;
			}
			done += n;
			ret = inc_tls_link_take(p.controller, copy, n, &err);
			carry(p.controller, p.host, 1 << 20, &(int){0});
		}
		/* some bytes of a record's head have no meaning, so flipping them is harmless */
		if (!ret && inc_tls_link_read(p.controller, received, sizeof(received), &err) > 0)
			assert_memory_equal(received, "hello", 5);
		free_pair(p);
	}
}

/* A peer may not send KeyUpdates without end, because each costs the controller two derivations and
 * an answer. */
static void new_keys_on_and_on(void **state)
{
	const struct link_pair p = new_pair();
	/* the SSL object is the link's second member, and there is no function to get it */
	SSL *ssl = *(SSL **)((char *)p.host + sizeof(void *));
	unsigned int updates = 0;
	struct inc_err err;
	char received[8];
	ssize_t n = 0;
	int ret;

	shake(p, 1 << 20);
	while (n >= 0 && updates < 1000) {
		assert_int_equal(SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED), 1);
		assert_int_equal(inc_tls_link_write(p.host, "x", 1, &err), 0);
		carry(p.host, p.controller, 1 << 20, &ret);
		n = inc_tls_link_read(p.controller, received, sizeof(received), &err);
		carry(p.controller, p.host, 1 << 20, &ret);
		inc_tls_link_read(p.host, received, sizeof(received), &err);
		updates++;
	}
	assert_int_equal(n, -EPROTO);
	assert_in_range(updates, 10, 20);
	free_pair(p);
}

/* --- several links on one thread --- */

/* Connects a hostile peer that has authenticated itself to a controller's link. */
static struct tls_hostile *hostile_peer(struct inc_tls_link *controller)
{
	struct tls_hostile *h = tls_hostile_new(client);
	struct inc_err err;
	const void *bytes;
	size_t n;

	for (int turn = 0; turn < 2; turn++) {
		bytes = tls_hostile_output(h, &n);
		assert_int_equal(inc_tls_link_take(controller, bytes, n, &err), 0);
		tls_hostile_sent(h);
		bytes = inc_tls_link_output(controller, &n);
		tls_hostile_take(h, bytes, n);
		inc_tls_link_sent(controller);
	}
	assert_true(tls_hostile_done(h));
	assert_true(inc_tls_link_done(controller));
	return h;
}

/* Checks that both sides receive what the other side sends, and nothing else. */
static void still_talk(struct link_pair p)
{
	struct inc_err err = {""};
	char received[8];
	ssize_t n;
	int ret;

	n = inc_tls_link_read(p.controller, received, sizeof(received), &err);
	if (n)
		fail_msg("%s", err.msg);
	assert_int_equal(inc_tls_link_write(p.host, "so", 2, &err), 0);
	carry(p.host, p.controller, 7, &ret);
	assert_int_equal(ret, 0);
	assert_int_equal(inc_tls_link_read(p.controller, received, sizeof(received), &err), 2);
	assert_int_equal(inc_tls_link_read(p.host, received, sizeof(received), &err), 0);
	assert_int_equal(inc_tls_link_write(p.controller, "yes", 3, &err), 0);
	carry(p.controller, p.host, 1 << 20, &ret);
	assert_int_equal(ret, 0);
	assert_int_equal(inc_tls_link_read(p.host, received, sizeof(received), &err), 3);
}

/* Reads the controller's side as lib/net/ndjson.c does, until no more data comes. Returns the last
 * result. */
static ssize_t take_all(struct inc_tls_link *controller, struct tls_hostile *h, struct inc_err *err)
{
	char received[64];
	size_t size;
	const void *bytes = tls_hostile_output(h, &size);
	ssize_t n = inc_tls_link_take(controller, bytes, size, err);

	tls_hostile_sent(h);
	while (!n && (n = inc_tls_link_read(controller, received, sizeof(received), err)) > 0)
		n = 0;
	return n;
}

static void a_flood_concerns_its_own_link(void **state)
{
	const struct link_pair p = new_pair();
	struct inc_err err = {""};
	struct inc_tls_link *controller = inc_tls_link_new(server, NULL, &err);
	struct tls_hostile *h = hostile_peer(controller);

	shake(p, 1 << 20);
	tls_hostile_flood(h);
	assert_int_equal(take_all(controller, h, &err), -EPROTO);
	assert_string_equal(err.msg, "TLS: the other side changes keys too often");
	assert_int_equal(ERR_peek_error(), 0);
	still_talk(p);
	inc_tls_link_end(controller);
	inc_tls_link_free(controller);
	assert_int_equal(ERR_peek_error(), 0);
	still_talk(p);
	tls_hostile_free(h);
	free_pair(p);
}

static void half_a_message_concerns_its_own_link(void **state)
{
	const struct link_pair p = new_pair();
	struct inc_err err = {""};
	struct inc_tls_link *controller = inc_tls_link_new(server, NULL, &err);
	struct tls_hostile *h = hostile_peer(controller);

	shake(p, 1 << 20);
	tls_hostile_half(h);
	assert_int_equal(take_all(controller, h, &err), 0);
	/* the stream has ended, so the owner ends the link */
	inc_tls_link_end(controller);
	assert_int_equal(ERR_peek_error(), 0);
	still_talk(p);
	inc_tls_link_free(controller);
	still_talk(p);
	tls_hostile_free(h);
	free_pair(p);
}

/* --- a caller that uses OpenSSL itself on the same thread --- */

#define CALLERS_ERRORS 3

/* Leaves one error of each kind in OpenSSL's queue: with a text, of the system, and without
 * data. */
static void leave_errors(void)
{
	ERR_clear_error();
	ERR_raise_data(ERR_LIB_USER, 100, "the caller's %d", 1);
	ERR_raise(ERR_LIB_SYS, ECONNREFUSED);
	ERR_raise(ERR_LIB_SSL, SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC);
}

struct left {
	unsigned long code;
	int line, flags;
	char file[100], function[100], data[100];
};

static struct left next_error(void)
{
	const char *file, *function, *data;
	struct left left;

	left.code = ERR_get_error_all(&file, &left.line, &function, &data, &left.flags);
	snprintf(left.file, sizeof(left.file), "%s", file);
	snprintf(left.function, sizeof(left.function), "%s", function);
	snprintf(left.data, sizeof(left.data), "%s", data);
	return left;
}

/* Checks that the queue has exactly the caller's errors, and puts them there again. */
static void errors_are_the_callers(void)
{
	struct left found[CALLERS_ERRORS], wanted;

	for (int i = 0; i < CALLERS_ERRORS; i++)
		found[i] = next_error();
	assert_int_equal(ERR_peek_error(), 0);
	leave_errors();
	for (int i = 0; i < CALLERS_ERRORS; i++) {
		wanted = next_error();
		assert_int_equal(found[i].code, wanted.code);
		assert_int_equal(found[i].line, wanted.line);
		assert_int_equal(found[i].flags & ERR_TXT_STRING, wanted.flags & ERR_TXT_STRING);
		assert_string_equal(found[i].file, wanted.file);
		assert_string_equal(found[i].function, wanted.function);
		assert_string_equal(found[i].data, wanted.data);
	}
	leave_errors();
}

/* With the caller's errors in OpenSSL's queue, every call works as without them, and leaves them
 * unchanged. */
static void a_callers_errors_stay(void **state)
{
	struct inc_tls_files files = {.key = path};
	struct inc_err err = {""};
	struct inc_tls *tls;
	struct inc_tls_link *controller;
	struct tls_hostile *h;
	struct link_pair p;

	leave_errors();
	p = new_pair();
	errors_are_the_callers();
	shake(p, 7);
	errors_are_the_callers();
	still_talk(p);
	errors_are_the_callers();
	controller = inc_tls_link_new(server, NULL, &err);
	h = hostile_peer(controller);
	tls_hostile_flood(h);
	leave_errors();
	assert_int_equal(take_all(controller, h, &err), -EPROTO);
	errors_are_the_callers();
	tls_hostile_free(h);
	leave_errors();
	inc_tls_link_free(controller);
	inc_tls_link_end(p.host);
	errors_are_the_callers();
	free_pair(p);
	errors_are_the_callers();
	tls = inc_tls_client(&files, &err);
	assert_non_null(tls);
	errors_are_the_callers();
	inc_tls_free(tls);
	errors_are_the_callers();
	files = (struct inc_tls_files){.cert = path, .cert_key = path, .ca = path};
	assert_null(inc_tls_client(&files, &err));
	assert_non_null(strstr(err.msg, "no start line"));
	errors_are_the_callers();
	ERR_clear_error();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(however_it_is_cut),
		cmocka_unit_test(ends),
		cmocka_unit_test(ends_early),
		cmocka_unit_test(does_not_speak_tls),
		cmocka_unit_test(damaged),
		cmocka_unit_test(new_keys_on_and_on),
		cmocka_unit_test(a_flood_concerns_its_own_link),
		cmocka_unit_test(half_a_message_concerns_its_own_link),
		cmocka_unit_test(a_callers_errors_stay),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
