/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/*
 * A rank and the controller agree on payload and channels, and the rank names its use of the
 * communicator. A member offers its largest payload, and
 * accepts no larger one. A communicator has as many channels as the controller names, and they work
 * and fail as one. The controller and the switch are fakes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/clock.h"
#include "lib/proto/roce.h"
#include "selftests/hostlib/fixture_rank.h"

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

#define USE(bytes, floats, products, writes)                                        \
	"\"use\":{\"bytes\":" bytes ",\"floats\":" floats ",\"products\":" products \
	",\"writes\":" writes "}"

/* A member tells the controller what the communicator is for, by the option or the variable, and
 * refuses what it cannot read. */
static void uses(void **state)
{
	static const struct {
		const char *option, *variable;
		const char *asks; /* in the message; NULL: the use is wrong */
		const char *why;
	} cases[] = {
		{"float32,16M", NULL, USE("16777216", "true", "false", "false"), NULL},
		{"64K,int8,prod,write", NULL, USE("65536", "false", "true", "true"), NULL},
		{"4", "float16,8", USE("4", "false", "false", "false"), NULL},
		{NULL, "sum,prod,bfloat16,0", USE("0", "true", "true", "false"), NULL},
		{NULL, NULL, "\"channels\":2}", NULL},
		{"float32", NULL, NULL, "use: 'float32' has no size of vectors"},
		{NULL, "", "\"channels\":2}", NULL},
		{NULL, "float33,4", NULL, "INCCL_USE: 'float33' is no type, operator"},
		{"4,5", NULL, NULL, "use: '5' is no type"},
		{"-4", NULL, NULL, "use: '-4' is no type"},
		{"4K4", NULL, NULL, "use: '4K4' is no type"},
		{"99999999999999999999", NULL, NULL, "is no type"},
		{"", NULL, NULL, "use: '' has no size"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *const answers[] = {JOINED, CONN("5", "2048", "8"), NULL};
		INCCL_OPTS(inccl_communicator_opts, opts, .transport = INCCL_TRANSPORT_SOFT,
			   .window = 8, .payload = 1024, .channels = 2, .use = cases[i].option);
		struct inccl_communicator *comm;
		struct inccl_group *group;
		struct fake_controller f;
		char error[256] = "";

		opts.error = error;
		opts.error_size = sizeof(error);
		unsetenv("INCCL_USE");
		if (cases[i].variable)
			setenv("INCCL_USE", cases[i].variable, 1);
		assert_int_equal(join(&f, answers, &group, error), 0);
		/* the answer has a payload that the member has not asked for */
		assert_int_equal(inccl_communicator_create(group, &opts, &comm),
				 cases[i].asks ? -EPROTO : -EINVAL);
		assert_int_equal(inccl_group_destroy(group), 0);
		fake_controller_stop(&f);
		if (!strstr(cases[i].asks ? f.received : error, cases[i].asks ?: cases[i].why))
			fail_msg("case %zu: received %s, error %s", i, f.received, error);
	}
	unsetenv("INCCL_USE");
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

static bool nothing_under_way(struct inccl_communicator *comm)
{
	return !comm->head;
}

/* Starts an AllReduce in place, which is cut into two parts, and waits for it on a thread. Receives
 * the contributions of both channels. */
static void wide_start(struct wide *w, struct waiter *t, struct inc_roce_packet pkt[2])
{
	struct inccl_request *req;

	wide_connect(w);
	for (int i = 0; i < 128; i++)
		w->numbers[i] = i;
	assert_int_equal(inccl_allreduce_start(w->fx.comm, w->numbers, w->numbers, 128, INCCL_INT32,
					       INCCL_SUM, NULL, &req),
			 0);
	waiter_start(t, req);
	assert_true(rc_peer_receive(&w->fx.peer, &pkt[0], WAIT_MS));
	assert_true(rc_peer_receive(&w->second, &pkt[1], WAIT_MS));
	for (unsigned int k = 0; k < 2; k++) {
		assert_int_equal(pkt[k].len, sizeof(w->numbers) / 2);
		assert_memory_equal(pkt[k].payload, w->numbers + 64 * k, pkt[k].len);
	}
}

/* Each channel gets its part, and its result lands behind that of the channel before. The request
 * is done when both are. */
static void parts_of_channels(void **state)
{
	struct wide *w = *state;
	struct inc_roce_packet pkt[2];
	int32_t result[2][64];
	struct waiter t;

	wide_start(w, &t, pkt);
	for (int i = 0; i < 64; i++) {
		result[0][i] = 1000 + i;
		result[1][i] = 2000 + i;
	}
	rc_peer_mirror(&w->fx.peer, &pkt[0], 0, result[0]);
	rank_until(&w->fx, nothing_under_way);
	assert_int_equal(inccl_test(t.req), -EAGAIN);
	rc_peer_mirror(&w->second, &pkt[1], 0, result[1]);
	pthread_join(t.thread, NULL);
	assert_int_equal(t.result, 0);
	assert_memory_equal(w->numbers, result, sizeof(result));
}

static unsigned int count_packets(struct rc_peer *peer)
{
	struct inc_roce_packet pkt;
	unsigned int n = 0;

	while (rc_peer_receive(peer, &pkt, 100))
		n++;
	return n;
}

/* Both parts of a long collective have as many packets under way as one window, which is 8. */
static void shared_window(void **state)
{
	static int32_t numbers[2 * 8 * 1024 / sizeof(int32_t)];
	struct wide *w = *state;
	struct inccl_request *req;

	wide_connect(w);
	assert_int_equal(inccl_allreduce_start(w->fx.comm, numbers, numbers,
					       sizeof(numbers) / sizeof(numbers[0]), INCCL_INT32,
					       INCCL_SUM, NULL, &req),
			 0);
	assert_int_equal(count_packets(&w->fx.peer), 4);
	assert_int_equal(count_packets(&w->second), 4);
}

/* The controller reports the failure of channel 1: the request ends, and the communicator has that
 * error. */
static void told_failure_of_a_channel(void **state)
{
	struct wide *w = *state;
	struct inc_roce_packet pkt[2];
	struct waiter t;

	wide_start(w, &t, pkt);
	fake_controller_send(&w->fx.controller,
			     "{\"type\":\"failed\",\"group\":7,\"communicator\":13,\"rank\":0,"
			     "\"errno\":\"ECONNABORTED\",\"message\":\"port p1 is away\"}\n");
	pthread_join(t.thread, NULL);
	assert_int_equal(t.result, -ECONNABORTED);
	assert_string_equal(inccl_communicator_error(w->fx.comm), "port p1 is away");
	assert_int_equal(inccl_communicator_failed_rank(w->fx.comm), 0);
	assert_int_equal(inccl_barrier(w->fx.comm, NULL), -ECONNABORTED);
	rank_destroy(&w->fx, -ECONNABORTED);
	assert_false(rank_reported(&w->fx, "\"errno\""));
}

/* Channel 1 fails by itself: the communicator has that error, and only channel 1 is reported. */
static void own_failure_of_a_channel(void **state)
{
	struct wide *w = *state;
	struct inc_roce_packet pkt[2];
	struct waiter t;

	wide_start(w, &t, pkt);
	pkt[1].imm++;
	rc_peer_mirror(&w->second, &pkt[1], 0, w->numbers + 64);
	pthread_join(t.thread, NULL);
	assert_int_equal(t.result, -EPROTO);
	assert_non_null(strstr(inccl_communicator_error(w->fx.comm), "immediate"));
	rank_destroy(&w->fx, -EPROTO);
	assert_true(rank_reported(&w->fx, "\"communicator\":13,\"errno\":\"EPROTO\""));
	assert_false(rank_reported(&w->fx, "\"communicator\":12,\"errno\""));
}

/* A channel that is refused is missing, and the caller's buffer for errors has the reason. */
static void refused_channel(void **state)
{
	struct wide *w = *state;

	assert_int_equal(wide_up(w,
				 "{\"type\":\"error\",\"comm\":" FURTHER
				 ",\"errno\":\"EDQUOT\",\"message\":\"the quota is used up\"}\n",
				 LEFT),
			 0);
	assert_int_equal(channels_of(w->fx.comm), 1);
	assert_string_equal(w->why, "1 channels instead of 2: the quota is used up");
	assert_null(inccl_communicator_error(w->fx.comm));
}

/* The controller is lost before it has started channel 1. The other ranks may have the channel, so
 * the communicator cannot be created. */
static void unknown_end_of_a_channel(void **state)
{
	struct wide *w = *state;

	assert_true(wide_up(w, NULL, HANG_UP) < 0);
	assert_null(w->fx.comm);
	assert_string_not_equal(w->why, "");
}

/* Channel 1 starts on all ranks and fails on this one. The others may ask for channel 2 already, so
 * this rank reports that channel 2 fails, too. */
static void failure_between_channels(void **state)
{
	struct wide *w = *state;

	w->channels = 3;
	assert_int_equal(wide_up(w, NULL,
				 "{\"type\":\"failed\",\"communicator\":13,\"errno\":\"EIO\","
				 "\"message\":\"a cable broke\"}\n" STARTED_2),
			 -EIO);
	assert_null(w->fx.comm);
	assert_non_null(strstr(w->why, "a cable broke"));
	assert_true(rank_reported(&w->fx, "\"type\":\"failed\",\"comm\":268435456"));
}

/* The channel of an earlier communicator has the next number, so no more communicators are made,
 * and the controller is not asked. */
static void last_number(void **state)
{
	char why[256] = "";
	INCCL_OPTS(inccl_communicator_opts, opts, .transport = INCCL_TRANSPORT_SOFT, .error = why,
		   .error_size = sizeof(why));
	struct inccl_communicator *comm;
	struct wide *w = *state;

	wide_connect(w);
	w->fx.group->next_comm = 134217728;
	assert_int_equal(inccl_communicator_create(w->fx.group, &opts, &comm), -EDQUOT);
	assert_non_null(strstr(why, "134217728 communicators"));
	assert_null(inccl_communicator_error(w->fx.comm));
	assert_false(rank_reported(&w->fx, "\"errno\""));
}

#define WIDE(f) cmocka_unit_test_setup_teardown(f, wide_setup, wide_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(large_payloads),
		cmocka_unit_test(uses),
		cmocka_unit_test(window_of_large_packets),
		WIDE(parts_of_channels),
		WIDE(shared_window),
		WIDE(told_failure_of_a_channel),
		WIDE(own_failure_of_a_channel),
		WIDE(refused_channel),
		WIDE(unknown_end_of_a_channel),
		WIDE(failure_between_channels),
		WIDE(last_number),
	};

	alarm(2 * LIMIT_S);
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
