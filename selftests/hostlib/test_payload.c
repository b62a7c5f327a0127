/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* A member offers its largest payload to the controller, and accepts no larger one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "lib/proto/roce.h"
#include "selftests/fakes/controller.h"

#define TERMINATED(payload)                                                                      \
	"{\"type\":\"C\",\"comm\":0,\"communicator\":12,\"payload\":" payload ",\"slots\":4096," \
	"\"mode\":\"termination\",\"message_packets\":1,\"messages\":4096,\"connection\":{"      \
	"\"switch\":\"s0\",\"peer_ip\":\"127.0.0.1\",\"peer_port\":4791,\"peer_qp\":5,"          \
	"\"peer_psn\":77,\"own_ip\":\"127.0.0.1\"}}\n"

static int join(struct fake_controller *f, const char *const *answers, struct inccl_group **group,
		char error[256])
{
	return fake_controller_create(f, answers, false, group, error, NULL, NULL);
}

/* A member offers more than 2048 bytes in a field of its own, because a controller of an earlier
 * version refuses more than 2048 in `payload`. It accepts more only from a tree of switches in
 * termination mode. */
static void large_payloads(void **state)
{
	static const struct {
		unsigned int payload;
		const char *asks, *answer, *part;
	} cases[] = {
		{1024, "\"payload\":1024,\"message_packets\"", CONN("5", "2048", "8"),
		 "1024 at most"},
		{2048, "\"payload\":2048,\"message_packets\"", CONN("5", "4096", "8"),
		 "2048 at most"},
		{4096, "\"payload\":2048,\"termination_payload\":4096,", CONN("5", "4096", "8"),
		 "2048 at most"},
		/* the loopback interface has room for it */
		{0, "\"payload\":2048,\"termination_payload\":4096,", CONN("5", "8192", "8"),
		 INC_RC_PAYLOADS_TEXT},
	};
	INCCL_OPTS(inccl_communicator_opts, opts, .transport = INCCL_TRANSPORT_SOFT, .window = 8);
	struct inccl_communicator *comm;
	struct inccl_group *group;
	struct fake_controller f;
	char error[256];

	opts.error = error;
	opts.error_size = sizeof(error);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *const answers[] = {JOINED, cases[i].answer, NULL};

		opts.payload = cases[i].payload;
		assert_int_equal(join(&f, answers, &group, error), 0);
		assert_int_equal(inccl_communicator_create(group, &opts, &comm), -EPROTO);
		assert_int_equal(inccl_group_destroy(group), 0);
		fake_controller_stop(&f);
		if (!strstr(f.received, cases[i].asks) || !strstr(error, cases[i].part))
			fail_msg("case %zu: received %s, error %s", i, f.received, error);
	}
}

/* The window has as many bytes with packets of 4096 bytes as with those of 2048, because the
 * socket's receive buffer has to hold it. */
static void window_of_large_packets(void **state)
{
	static const char *const made[] = {TERMINATED("2048"), TERMINATED("4096")};
	INCCL_OPTS(inccl_communicator_opts, opts, .transport = INCCL_TRANSPORT_SOFT);
	unsigned int window[2];
	char error[256];

	for (unsigned int i = 0; i < 2; i++) {
		const char *const answers[] = {JOINED, made[i], STARTED, NULL};
		INCCL_OPTS(inccl_communicator_info, info, .rank = 0);
		struct inccl_communicator *comm;
		struct inccl_group *group;
		struct fake_controller f;

		assert_int_equal(join(&f, answers, &group, error), 0);
		assert_int_equal(inccl_communicator_create(group, &opts, &comm), 0);
		assert_int_equal(inccl_communicator_info(comm, &info), 0);
		assert_int_equal(info.payload, 2048 << i);
		window[i] = info.window;
		inccl_communicator_destroy(comm);
		assert_int_equal(inccl_group_destroy(group), 0);
		fake_controller_stop(&f);
	}
	assert_true(window[0] > 1);
	assert_int_equal(window[1], window[0] / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(large_payloads),
		cmocka_unit_test(window_of_large_packets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
