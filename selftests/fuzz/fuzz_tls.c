// SPDX-License-Identifier: BSD-2-Clause
/*
 * RUNS: 4000
 *
 * Target: TLS with a peer that has no key and sends anything, in pieces, to a listening and to a
 * connecting side. The side must never authenticate the peer, deliver none of its data, and send it
 * no data. OpenSSL is not instrumented, so only the code around it guides the fuzzer.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "lib/net/tls_link.h"
#include "selftests/fuzz/fuzz.h"

#define SECRET "what only a peer with a key may read"

static struct inc_tls *side[2];

static void set_up(void)
{
	static const char key[] = "job:a 00112233445566778899aabbccddeeff\n";
	const struct inc_tls_files files = {.key = fuzz_file(key, strlen(key))};
	struct inc_err err = {""};

	fuzz_require(!chmod(files.key, 0600), "no mode");
	side[0] = inc_tls_server(&files, &err);
	side[1] = inc_tls_client(&files, &err);
	fuzz_require(side[0] && side[1], "%s", err.msg);
}

static void check_output(struct inc_tls_link *link)
{
	size_t n;
	const void *bytes = inc_tls_link_output(link, &n);

	fuzz_require(!n || !memmem(bytes, n, SECRET, strlen(SECRET)), "data was sent to it");
	inc_tls_link_sent(link);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_bytes bytes = {data, size};
	struct inc_err err = {""};
	struct inc_tls_link *link;
	char received[64];
	int ret = 0;

	if (!side[0])
		set_up();
	link = inc_tls_link_new(side[fuzz_take8(&bytes) % 2], "a host", &err);
	fuzz_require(link, "%s", err.msg);
	fuzz_require(!inc_tls_link_write(link, SECRET, strlen(SECRET), &err), "%s", err.msg);
	check_output(link);
	while (bytes.size && !ret) {
		size_t piece = 1 + fuzz_take8(&bytes);

		if (piece > bytes.size)
			piece = bytes.size;
		ret = inc_tls_link_take(link, bytes.data, piece, &err);
		bytes.data += piece;
		bytes.size -= piece;
		fuzz_require(ret || inc_tls_link_read(link, received, sizeof(received), &err) == 0,
			     "data was delivered");
		check_output(link);
	}
	if (ret)
		fuzz_check_refusal(&err, NULL);
	fuzz_require(!inc_tls_link_done(link) && !inc_tls_link_identity(link), "it is proved");
	inc_tls_link_free(link);
	return 0;
}
