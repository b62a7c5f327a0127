/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* The contents of a handle (hostlib/nccl/handle.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <stdlib.h>
#include "hostlib/nccl/handle.h"

#define NONCE 0x0123456789abcdefull

static union ha_address ipv4(void)
{
	union ha_address address = {.in4 = {.sin_family = AF_INET, .sin_port = htons(4711)}};

	inet_pton(AF_INET, "10.1.2.3", &address.in4.sin_addr);
	return address;
}

static union ha_address ipv6(void)
{
	union ha_address address = {
		.in6 = {.sin6_family = AF_INET6, .sin6_port = htons(4711), .sin6_scope_id = 3}};

	inet_pton(AF_INET6, "2001:db8::17", &address.in6.sin6_addr);
	return address;
}

static void there_and_back(void **state)
{
	const union ha_address given[] = {ipv4(), ipv6()};
	union ha_address address;
	struct ha_handle handle;
	struct inc_err err = {""};
	unsigned int flags, i;
	uint64_t nonce;

	for (i = 0; i < 2; i++) {
		memset(&handle, 0xff, sizeof(handle));
		ha_handle_make(&handle, &given[i], i ? HA_HANDLE_DUAL : 0, NONCE);
		assert_int_equal(handle.comm, 0);
		assert_int_equal(ha_handle_read(&handle, &address, &flags, &nonce, &err), 0);
		assert_int_equal(flags, i ? HA_HANDLE_DUAL : 0);
		assert_true(nonce == NONCE);
		assert_int_equal(address.sa.sa_family, given[i].sa.sa_family);
		assert_int_equal(address.in4.sin_port, htons(4711));
		if (i) {
			assert_memory_equal(&address.in6.sin6_addr, &given[i].in6.sin6_addr, 16);
			assert_int_equal(address.in6.sin6_scope_id, 3);
		} else {
			assert_memory_equal(&address.in4.sin_addr, &given[i].in4.sin_addr, 4);
		}
	}
}

/* The format of a handle is fixed, because a peer on another machine or of another release reads
 * these bytes. */
static void bytes(void **state)
{
	static const uint8_t expected[] = {/* bytes of magic, version, flags, family, 0 */
					   'H', 'A', 'H', 'N', 1, 1, 4, 0, 0x12, 0x67, 10, 1, 2, 3,
					   0, 0, /* bytes of port and address */
					   /* the remaining bytes of an IPv6 address */
					   0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
					   0x23, /* bytes of scope and nonce */
					   0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0, 0};
	const union ha_address address = ipv4();
	struct ha_handle handle;

	assert_int_equal(sizeof(handle), 128);
	ha_handle_make(&handle, &address, HA_HANDLE_DUAL, NONCE);
	assert_memory_equal(&handle, expected, sizeof(expected));
}

static void refused(const struct ha_handle *handle, const char *why)
{
	union ha_address address;
	struct inc_err err = {""};
	unsigned int flags;
	uint64_t nonce;

	assert_int_equal(ha_handle_read(handle, &address, &flags, &nonce, &err), -EPROTO);
	assert_non_null(strstr(err.msg, why));
}

static void foreign(void **state)
{
	const union ha_address address = ipv4();
	struct ha_handle good, handle;

	ha_handle_make(&good, &address, 0, NONCE);
	handle = good;
	handle.magic ^= 1;
	refused(&handle, "magic");
	handle = good;
	handle.version++;
	refused(&handle, "version 2");
	handle = good;
	handle.family = 5;
	refused(&handle, "family 5");
	handle = good;
	handle.tcp_port = 0;
	refused(&handle, "port 0");
	memset(&handle, 0, sizeof(handle));
	refused(&handle, "magic");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(there_and_back),
		cmocka_unit_test(bytes),
		cmocka_unit_test(foreign),
	};

	return cmocka_run_group_tests_name("handles", tests, NULL, NULL);
}
