// SPDX-License-Identifier: BSD-2-Clause
/*
 * RUNS: 1500
 *
 * Target: two connections on one thread. The peer of the first has a valid key and sends anything;
 * both ends of the second are honest. An input is a first byte and then steps. The first byte
 * selects the side of the hostile peer, and the error that the caller has left in OpenSSL's queue.
 *
 * After each step the honest connection must carry a message each way, and the state of the thread
 * must be the caller's. OpenSSL's queue of errors must have what the caller left there, and no
 * error message may contain an unrelated errno.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include "lib/net/tls_link.h"
#include "selftests/fakes/tls_hostile.h"
#include "selftests/fuzz/fuzz.h"

#define STRANGE_ERRNO ENOTEMPTY /* a value of errno that no call of a link sets */
#define STEPS_MOST    64

enum step { UPDATES, RECORD, RAW, DELIVER, SAY, END, N_STEPS };

static struct inc_tls *side[2]; /* contexts of the connecting and the listening side */
/* links of the connecting and the listening side, open for the whole run */
static struct inc_tls_link *honest[2];
/* the error that the caller has left in OpenSSL's queue; 0: none */
static unsigned long left;

/* Leaves the caller's error in OpenSSL's queue and an unrelated errno, before a call of a link. */
static void leave(void)
{
	ERR_clear_error();
	if (left)
		ERR_put_error(ERR_GET_LIB(left), 0, ERR_GET_REASON(left), __FILE__, __LINE__);
	errno = STRANGE_ERRNO;
}

/* Checks the queue and errno after a call that returned ret and err. */
static void check_left(int ret, const struct inc_err *err)
{
	const unsigned long first = ERR_get_error();

	fuzz_require(first == left && !ERR_peek_error(),
		     "the caller's queue had error %lx, and has %lx and then %lx", left, first,
		     ERR_peek_error());
	fuzz_require(ret >= 0 || ret == -ECONNRESET || !strstr(err->msg, strerror(STRANGE_ERRNO)),
		     "an error of somebody else: %s", err->msg);
}

static void carry(struct inc_tls_link *from, struct inc_tls_link *to)
{
	struct inc_err err = {""};
	size_t n;
	const void *bytes = inc_tls_link_output(from, &n);
	int ret;

	leave();
	ret = inc_tls_link_take(to, bytes, n, &err);
	check_left(ret, &err);
	fuzz_require(!ret, "the honest connection: %s", err.msg);
	inc_tls_link_sent(from);
}

static void say(struct inc_tls_link *from, struct inc_tls_link *to)
{
	static const char text[] = "as ever";
	struct inc_err err = {""};
	char received[16];
	ssize_t n;
	int ret;

	/* the side without data is read as well, because an event loop does so */
	leave();
	n = inc_tls_link_read(to, received, sizeof(received), &err);
	check_left(n, &err);
	fuzz_require(!n, "the honest connection before a message: %s", err.msg);
	leave();
	ret = inc_tls_link_write(from, text, sizeof(text), &err);
	check_left(ret, &err);
	fuzz_require(!ret, "the honest connection: %s", err.msg);
	carry(from, to);
	leave();
	n = inc_tls_link_read(to, received, sizeof(received), &err);
	check_left(n, &err);
	fuzz_require(n == sizeof(text) && !memcmp(received, text, n), "the honest connection: %s",
		     err.msg);
}

static void set_up(void)
{
	static const char key[] = "viewer 00112233445566778899aabbccddeeff\n";
	const struct inc_tls_files files = {.key = fuzz_file(key, strlen(key))};
	struct inc_err err = {""};
	int i;

	fuzz_require(!chmod(files.key, 0600), "no mode");
	side[0] = inc_tls_client(&files, &err);
	side[1] = inc_tls_server(&files, &err);
	fuzz_require(side[0] && side[1], "%s", err.msg);
	for (i = 0; i < 2; i++) {
		honest[i] = inc_tls_link_new(side[i], NULL, &err);
		fuzz_require(honest[i], "%s", err.msg);
	}
	for (i = 0; i < 2; i++) {
		carry(honest[0], honest[1]);
		carry(honest[1], honest[0]);
	}
	fuzz_require(inc_tls_link_done(honest[0]) && inc_tls_link_done(honest[1]), "no handshake");
}

/* Delivers everything that the hostile peer has to send, as one segment. Returns false if the link
 * has failed. */
static bool deliver(struct inc_tls_link *link, struct tls_hostile *h)
{
	struct inc_err err = {""};
	char received[64];
	size_t size;
	const void *bytes = tls_hostile_output(h, &size);
	ssize_t n;

	leave();
	n = inc_tls_link_take(link, bytes, size, &err);
	check_left(n, &err);
	tls_hostile_sent(h);
	while (!n) {
		leave();
		n = inc_tls_link_read(link, received, sizeof(received), &err);
		check_left(n, &err);
		if (!n)
			break;
		n = n > 0 ? 0 : n;
	}
	bytes = inc_tls_link_output(link, &size);
	tls_hostile_take(h, bytes, size);
	inc_tls_link_sent(link);
	if (n && n != -ECONNRESET)
		fuzz_check_refusal(&err, NULL);
	return !n;
}

static bool take_step(struct inc_tls_link *link, struct tls_hostile *h, struct fuzz_bytes *bytes)
{
	const enum step step = fuzz_take8(bytes) % N_STEPS;
	const uint8_t with = fuzz_take8(bytes);
	size_t n = with % 64 < bytes->size ? with % 64 : bytes->size;
	struct inc_err err = {""};
	int ret;

	switch (step) {
	case UPDATES:
		for (unsigned int i = 0; i < with % 32u; i++)
			tls_hostile_update(h, with >> 7);
		return true;
	case RECORD:
		tls_hostile_record(h, SSL3_RT_CHANGE_CIPHER_SPEC + with / 64 % 4, bytes->data, n);
		break;
	case RAW:
		tls_hostile_raw(h, bytes->data, n);
		break;
	case DELIVER:
		return deliver(link, h);
	case SAY:
		leave();
		ret = inc_tls_link_write(link, "what the owner says", 1 + with % 16, &err);
		check_left(ret, &err);
		return !ret;
	case END:
		leave();
		inc_tls_link_end(link);
		check_left(0, &err);
		return true;
	default:
		return true;
	}
	bytes->data += n;
	bytes->size -= n;
	return true;
}

static void shake_hands(struct inc_tls_link *link, struct tls_hostile *h)
{
	for (int turn = 0; turn < 3; turn++)
		deliver(link, h);
	fuzz_require(inc_tls_link_done(link) && tls_hostile_done(h), "no handshake");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_bytes bytes = {data, size};
	struct inc_err err = {""};
	struct inc_tls_link *link;
	struct tls_hostile *h;
	uint8_t how;
	bool goes;

	if (!side[0])
		set_up();
	how = fuzz_take8(&bytes);
	left = how & 2 ? ERR_PACK(ERR_LIB_SSL, 0, SSL_R_WRONG_VERSION_NUMBER) : 0;
	h = tls_hostile_new(side[how % 2]);
	leave();
	link = inc_tls_link_new(side[!(how % 2)], NULL, &err);
	check_left(0, &err);
	fuzz_require(link, "%s", err.msg);
	shake_hands(link, h);
	goes = true;
	for (int i = 0; i < STEPS_MOST && goes && bytes.size; i++) {
		goes = take_step(link, h, &bytes);
		say(honest[0], honest[1]);
		say(honest[1], honest[0]);
	}
	/* ends the link, as its owner does after the peer has left or the link has failed */
	leave();
	inc_tls_link_end(link);
	check_left(0, &err);
	say(honest[how % 2], honest[!(how % 2)]);
	leave();
	inc_tls_link_free(link);
	check_left(0, &err);
	say(honest[how % 2], honest[!(how % 2)]);
	tls_hostile_free(h);
	return 0;
}
