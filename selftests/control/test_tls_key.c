// SPDX-License-Identifier: BSD-2-Clause
// SIZE: check
/* lib/net/tls_key: key files that are damaged, and disks that are full for a moment. test_tls.c has
 * valid files, and the checks of their permissions. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <cmocka.h>
#include "lib/net/tls_key.h"

#define N_KEYS 200 /* number of keys whose text is longer than a buffer of stdio */

static char dir[] = "/tmp/test_tls_key.XXXXXX";
static char path[sizeof(dir) + 8];

static void put(const char *bytes, size_t n)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(chmod(path, 0600), 0);
}

/* Checks that a key file with this text is refused. Each '0' of the text is replaced by a NUL. */
static void refused(const char *text, const char *why)
{
	struct inc_tls_keys keys;
	struct inc_err err = {0};
	char bytes[256];
	size_t n = strlen(text);

	for (size_t i = 0; i < n; i++)
		bytes[i] = text[i] == '0' ? '\0' : text[i];
	put(bytes, n);
	assert_int_equal(inc_tls_keys_read(path, &keys, &err), -EINVAL);
	if (!strstr(err.msg, why))
		fail_msg("\"%s\" is not in \"%s\"", why, err.msg);
	assert_null(strstr(err.msg, "abcdef")); /* no error message contains a secret */
	assert_int_equal(unlink(path), 0);
}

#define SECRET "abcdefabcdefabcdefabcdefabcdefab"

static void test_nul(void **state)
{
	refused("a " SECRET "\nadmin " SECRET "0more\n", "keys:2: ");
	refused("a " SECRET "\nadmin " SECRET "0", "keys:2: ");
	refused("a " SECRET "\nadmin0 " SECRET "\n", "keys:2: ");
	refused("a " SECRET "\n0admin " SECRET "\n", "keys:2: ");
	refused("a " SECRET "\n0\n", "keys:2: ");
	refused("0", "keys:1: ");
	refused("# mine0\na " SECRET "\n", "keys:1: ");
}

static void set_limit(rlim_t bytes)
{
	struct rlimit limit;

	getrlimit(RLIMIT_FSIZE, &limit);
	limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
	setrlimit(RLIMIT_FSIZE, &limit);
}

/* Makes room on the disk again after one write has failed. */
static void on_full(int number)
{
	set_limit(RLIM_INFINITY);
}

static void test_write_that_fails_once(void **state)
{
	const struct sigaction on = {.sa_handler = on_full};
	struct inc_tls_keys keys = {.n = N_KEYS}, got;
	struct inc_err err;
	char name[32];

	keys.key = calloc(N_KEYS, sizeof(*keys.key));
	assert_non_null(keys.key);
	for (int i = 0; i < N_KEYS; i++) {
		snprintf(name, sizeof(name), "switch:s%d", i);
		assert_int_equal(inc_tls_key_make(&keys.key[i], name, &err), 0);
	}
	assert_int_equal(sigaction(SIGXFSZ, &on, NULL), 0);
	for (rlim_t bytes = 0; bytes < 20000; bytes += 499) {
		set_limit(bytes);
		if (inc_tls_keys_write(path, &keys, &err)) {
			assert_int_equal(access(path, F_OK), -1);
			continue;
		}
		assert_int_equal(inc_tls_keys_read(path, &got, &err), 0);
		assert_int_equal(got.n, N_KEYS);
		inc_tls_keys_free(&got);
		assert_int_equal(unlink(path), 0);
	}
	set_limit(RLIM_INFINITY);
	inc_tls_keys_free(&keys);
}

static int set_up(void **state)
{
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/keys", dir);
	return 0;
}

static int tear_down(void **state)
{
	unlink(path);
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nul),
		cmocka_unit_test(test_write_that_fails_once),
	};

	return cmocka_run_group_tests_name("tls_key", tests, set_up, tear_down);
}
