// SPDX-License-Identifier: BSD-2-Clause
/*
 * RUNS: 40000
 *
 * Target: key files. The keys of an accepted file are found by their identities, which are valid
 * and unique. The error of a rejected file names file and line, but repeats nothing of the file's
 * contents, because they are secret.
 */
#include <string.h>
#include <sys/stat.h>
#include "lib/net/tls_key.h"
#include "selftests/fuzz/fuzz.h"

static void check_key(const struct inc_tls_keys *keys, size_t i)
{
	const struct inc_tls_key *key = &keys->key[i];

	fuzz_require(!inc_tls_identity_check(key->identity, NULL), "key %zu: no identity", i);
	fuzz_require(key->secret_bytes >= INC_TLS_SECRET_MIN &&
			     key->secret_bytes <= INC_TLS_SECRET_MAX,
		     "key %zu: a secret of %zu bytes", i, key->secret_bytes);
	fuzz_require(inc_tls_keys_find(keys, key->identity) == key, "key %zu is not found", i);
	fuzz_require(!i || strcmp(keys->key[i - 1].identity, key->identity) < 0,
		     "key %zu is out of order", i);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *path = fuzz_file(data, size);
	struct inc_err err = {""};
	struct inc_tls_keys keys;

	fuzz_require(!chmod(path, 0600), "no mode");
	if (inc_tls_keys_read(path, &keys, &err)) {
		fuzz_check_refusal(&err, path);
		fuzz_require(!keys.n && !keys.key, "keys beside a refusal");
		return 0;
	}
	fuzz_require(keys.n > 0, "no key, and no refusal");
	for (size_t i = 0; i < keys.n; i++)
		check_key(&keys, i);
	inc_tls_keys_free(&keys);
	return 0;
}
