/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The comms of test_comm.c with other settings than the defaults, and without the socket on which
 * their ends usually exchange messages.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include "hostlib/nccl/comm_priv.h"
#include "selftests/fakes/verbs.h"
#include "selftests/nccl/harness_flow.h"

static int open_with(const char *key, const char *value)
{
	setenv(key, value, 1);
	return flow_open(NULL);
}

static int close_without(const char *key)
{
	unsetenv(key);
	return flow_close(NULL);
}

#define WITH(key, value, name)                \
	static int open_##name(void **state)  \
	{                                     \
		return open_with(key, value); \
	}                                     \
	static int close_##name(void **state) \
	{                                     \
		return close_without(key);    \
	}

WITH("HA_NCCL_FAILBACK", "1", failback)
WITH("HA_NCCL_ENABLE_BACKUP", "0", single)
WITH("HA_NCCL_RTO_ADAPTIVE", "1", adaptive)
WITH("HA_NCCL_FAILBACK", "0", default)

/* With failback, the comm returns to the first rail once, as soon as that rail is up, without
 * errors for the traffic. */
static void goes_back(void **state)
{
	struct flow flow = {0};

	flow_connect(&flow);
	flow_until_standby(&flow, 1, 1);
	flow_receive(&flow, 100);
	fake_verbs_port(FLOW_SENDER(0), false);
	flow_until_failover(&flow, 1);
	flow_receive(&flow, 100);
	assert_int_equal(flow_logged("cause failback"), 0);
	fake_verbs_port(FLOW_SENDER(0), true);
	flow_until_failover(&flow, 2);
	assert_int_equal(flow_logged("cause failback"), 1);
	flow_until_standby(&flow, 1, 3);
	flow_receive(&flow, 500);
	assert_int_equal(flow_logged("failover"), 4);
	flow_finish(&flow);
	assert_int_equal(flow.failed, 0);
	flow_disconnect(&flow);
}

/* Without failback, the comm stays on the standby. */
static void stays(void **state)
{
	struct flow flow = {0};

	flow_connect(&flow);
	flow_until_standby(&flow, 1, 1);
	fake_verbs_port(FLOW_SENDER(0), false);
	flow_until_failover(&flow, 1);
	fake_verbs_port(FLOW_SENDER(0), true);
	flow_until_standby(&flow, 0, 2);
	flow_receive(&flow, 500);
	assert_int_equal(flow_logged("failover"), 2);
	flow_finish(&flow);
	flow_disconnect(&flow);
}

/* Without a standby, both ends fail within the time that the device needs to give up. */
static void single_path(void **state)
{
	struct flow flow = {0};

	flow_connect(&flow);
	flow_receive(&flow, 500);
	assert_int_equal(flow_logged("stands by"), 0);
	fake_verbs_faults(FLOW_SENDER(0), FAKE_VERBS_CUT);
	flow_until_failed(&flow);
	assert_int_equal(flow_logged("failover"), 0);
	flow_disconnect(&flow);
}

/* After three successive recoveries of less than 100 ms, the comm makes its timeout half as long
 * again. */
static void waits_longer(void **state)
{
	struct flow flow = {0};
	unsigned int epoch;

	flow_connect(&flow);
	for (epoch = 1; flow_logged("HA_NCCL_RTO_MS is now 1500 for it") < 2; epoch++) {
		const unsigned int rail = (epoch - 1) % 2;

		assert_true(epoch < 12); /* on a busy machine some recoveries are slower */
		flow_until_standby(&flow, !rail, epoch);
		fake_verbs_port(FLOW_SENDER(rail), false);
		flow_until_failover(&flow, epoch);
		fake_verbs_port(FLOW_SENDER(rail), true);
	}
	assert_true(epoch > 3);
	flow_finish(&flow);
	flow_disconnect(&flow);
}

/* The socket between the ends is closed. Messages then use the standby path. New paths come up by
 * messages on the path in use. */
static void no_socket(void **state)
{
	struct flow flow = {0};
	unsigned int epoch;

	flow_connect(&flow);
	flow_until_standby(&flow, 1, 1);
	flow_receive(&flow, 100);
	pthread_mutex_lock(&flow.send->lock);
	assert_int_equal(shutdown(flow.send->socket.fd, SHUT_RDWR), 0);
	pthread_mutex_unlock(&flow.send->lock);
	flow_until_logged(&flow, "socket: ", 2);
	for (epoch = 1; epoch <= 6; epoch++) {
		const unsigned int rail = (epoch - 1) % 2;

		flow_until_standby(&flow, !rail, epoch);
		flow_receive(&flow, 50);
		fake_verbs_port(FLOW_SENDER(rail), false);
		flow_until_failover(&flow, epoch);
		fake_verbs_port(FLOW_SENDER(rail), true);
	}
	flow_finish(&flow);
	assert_int_equal(flow.failed, 0);
	flow_disconnect(&flow);
}

/* ---- calls that the device rejects ---- ---- */

static const enum fake_verbs_call of_a_path[] = {FAKE_VERBS_CREATE_CQ, FAKE_VERBS_REG_MR,
						 FAKE_VERBS_CREATE_QP, FAKE_VERBS_TO_INIT,
						 FAKE_VERBS_TO_RTR, FAKE_VERBS_TO_RTS,
						 /* this call must be the last one of the list */
						 FAKE_VERBS_POST_RECV};

#define N_OF_A_PATH (sizeof(of_a_path) / sizeof(of_a_path[0]))

/* The device rejects each call for the first path, at either end. Either the comm comes up
 * nevertheless, or the end reports the reason. The comm may not hang, and no resource may be
 * left. */
static void refused_at_first(void **state)
{
	unsigned int i, times, up = 0;

	for (i = 0; i < N_OF_A_PATH; i++) {
		for (times = 1; times <= 4; times++) {
			struct flow flow = {0};

			fake_verbs_refuse(of_a_path[i], ENOMEM, times);
			if (flow_try_to_connect(&flow)) {
				flow_receive(&flow, 20);
				flow_finish(&flow);
				up++;
			}
			fake_verbs_refuse(of_a_path[i], 0, 0);
			flow_disconnect(&flow);
		}
	}
	assert_true(up > 0);
}

/* The device repeatedly rejects each call for a standby path. The standby must come up once the
 * calls succeed. */
static void refused_standby(void **state)
{
	struct flow flow = {0};
	unsigned int i, epoch = 0;

	flow_connect(&flow);
	/* tries all calls but POST_RECV, because the path in use needs that one, too */
	for (i = 0; of_a_path[i] != FAKE_VERBS_POST_RECV; i++) {
		flow_until_standby(&flow, epoch % 2 ? 0 : 1, epoch + 1);
		fake_verbs_refuse(of_a_path[i], ENOMEM, UINT_MAX);
		fake_verbs_port(FLOW_SENDER(epoch % 2 ? 1 : 0), false);
		epoch++;
		flow_until_failover(&flow, epoch);
		flow_until_logged(&flow, "no path for epoch", 2 * i + 2);
		fake_verbs_refuse(of_a_path[i], 0, 0);
		fake_verbs_port(FLOW_SENDER(epoch % 2 ? 0 : 1), true);
		flow_receive(&flow, 50);
	}
	flow_finish(&flow);
	assert_int_equal(flow.failed, 0);
	flow_disconnect(&flow);
}

/* A path fails if its queue pair rejects a payload or a description. */
static void refused_post(void **state)
{
	struct flow flow = {0};
	unsigned int epoch;

	flow_connect(&flow);
	for (epoch = 1; epoch <= 20; epoch++) {
		flow_until_standby(&flow, epoch % 2 ? 1 : 0, epoch);
		flow_receive(&flow, 20);
		fake_verbs_refuse(FAKE_VERBS_POST_WRITE, ENOMEM, 1);
		flow_until_failover(&flow, epoch);
	}
	flow_finish(&flow);
	assert_int_equal(flow.failed, 0);
	flow_disconnect(&flow);
}

/* A message that the device rejects counts as lost. The comm must not leave the path, because it
 * still carries payloads. */
static void refused_msgs(void **state)
{
	struct flow flow = {0};
	unsigned int i;

	flow_connect(&flow);
	flow_until_standby(&flow, 1, 1);
	for (i = 0; i < 20; i++) {
		fake_verbs_refuse(FAKE_VERBS_POST_SEND, ENOMEM, 1);
		while (fake_verbs_refusals_left(FAKE_VERBS_POST_SEND))
			flow_receive(&flow, 1);
	}
	flow_finish(&flow);
	assert_int_equal(flow_logged("failover"), 0);
	assert_int_equal(flow.failed, 0);
	flow_disconnect(&flow);
}

#define TEST(name, settings) \
	cmocka_unit_test_setup_teardown(name, open_##settings, close_##settings)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(goes_back, failback),      TEST(stays, default),
		TEST(single_path, single),      TEST(waits_longer, adaptive),
		TEST(no_socket, default),       TEST(refused_at_first, default),
		TEST(refused_standby, default), TEST(refused_post, default),
		TEST(refused_msgs, default),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
