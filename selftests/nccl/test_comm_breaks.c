/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Unusual situations for the comms of test_comm.c: callers and devices that misbehave, messages
 * that are lost for good, other settings than the defaults, and no socket on which the ends usually
 * exchange messages.
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
#include <unistd.h>
#include "hostlib/nccl/comm_priv.h"
#include "lib/base/clock.h"
#include "selftests/fakes/verbs.h"
#include "selftests/nccl/harness_flow.h"

/* Waits for a log line without calls of the comm, so that only the plugin's own threads can make
 * progress. */
static void wait_until_logged(const char *text, unsigned int n)
{
	const uint64_t began_at_ns = inc_now_ns();

	while (flow_logged(text) < n) {
		assert_false(flow_is_late(began_at_ns));
		usleep(FLOW_POLL_US);
	}
}

/* ---- memory --------------------------------------------------------------------------------- */

/* NCCL deregisters memory while requests use it, and then a path fails. The requests are
 * retransmitted on another path, for which they still need the memory's keys. */
static void taken_back_in_use(void **state)
{
	struct flow flow = {0};

	flow_connect(&flow);
	flow_until_standby(&flow, 1, 1);
	flow_receive(&flow, 100);
	flow_finish(&flow);
	fake_verbs_faults(FLOW_SENDER(0), FAKE_VERBS_LOSE_REQUESTS_OUT);
	while (flow.sent - flow.acknowledged < FLOW_DEPTH)
		flow_step(&flow);
	ha_deregister(flow.send, flow.out_region);
	ha_deregister(flow.receive, flow.in_region);
	flow.out_region = flow.in_region = NULL;
	wait_until_logged("epoch 1, ", 2);
	fake_verbs_faults(FLOW_SENDER(0), 0);
	flow.quiet = true;
	flow_finish(&flow);
	assert_int_equal(flow.failed, 0);
	flow_disconnect(&flow);
}

static void until_registered(struct flow *flow, struct ha_comm *comm,
			     const struct ha_comm_region *region, unsigned int rail)
{
	const uint64_t began_at_ns = inc_now_ns();
	bool known;

	do {
		flow_step(flow);
		pthread_mutex_lock(&comm->lock);
		known = region->registered[rail];
		pthread_mutex_unlock(&comm->lock);
		assert_false(flow_is_late(began_at_ns));
	} while (!known);
}

/* The standby's device has rejected the memory. After a failover to the standby, the comm returns
 * to the path whose device has the memory registered. The log must still report the failover
 * correctly. When the rejecting device becomes standby again, the registration is tried again,
 * because the device may have room then. */
static void refused_on_standby(struct flow *flow, struct ha_comm *comm, struct ha_region *region)
{
	struct ha_comm_region *known = (struct ha_comm_region *)region;

	pthread_mutex_lock(&comm->lock);
	while (known->busy)
		pthread_cond_wait(&comm->idle_region, &comm->lock);
	known->registered[FLOW_SENDER(1)] = false;
	known->refused[FLOW_SENDER(1)] = true;
	pthread_mutex_unlock(&comm->lock);
	fake_verbs_port(FLOW_SENDER(0), false);
	flow_until_logged(flow, "cause port down, epoch 1, ", 1);
	fake_verbs_port(FLOW_SENDER(0), true);
	flow_receive(flow, 100);
	until_registered(flow, comm, known, FLOW_SENDER(1));
	flow_until_logged(flow, "fake1 stands by for epoch ", 2);
	/* the first port may have come up too late for epoch 2, which then uses the standby once
	 * more */
	if (flow_logged("fake1 stands by for epoch 2")) {
		flow_until_failover(flow, 2);
	} else {
		fake_verbs_port(FLOW_SENDER(0), false);
		flow_until_failover(flow, 3);
	}
	flow_receive(flow, 100);
	fake_verbs_port(FLOW_SENDER(0), true);
	flow_finish(flow);
	assert_int_equal(flow->failed, 0);
	assert_int_equal(flow_logged("epoch 0, "), 0);
}

static void receives_refused(void **state)
{
	struct flow flow = {0};

	flow_connect(&flow);
	flow_until_standby(&flow, 1, 1);
	flow_receive(&flow, 100);
	refused_on_standby(&flow, flow.receive, flow.in_region);
	flow_disconnect(&flow);
}

static void sends_refused(void **state)
{
	struct flow flow = {0};

	flow_connect(&flow);
	flow_until_standby(&flow, 1, 1);
	flow_receive(&flow, 100);
	refused_on_standby(&flow, flow.send, flow.out_region);
	flow_disconnect(&flow);
}

/* The standby's device has refused memory, and the peer enters the epoch of the standby before this
 * end knows that the peer is ready. The device is asked again then. */
static void refused_and_entered(void **state)
{
	struct ha_comm_region *region;
	struct flow flow = {0};

	flow_connect(&flow);
	flow_until_standby(&flow, 1, 1);
	flow_receive(&flow, 100);
	flow_until_logged(&flow, "stands by for epoch 1", 2);
	region = (struct ha_comm_region *)flow.in_region;
	pthread_mutex_lock(&flow.receive->lock);
	while (region->busy)
		pthread_cond_wait(&flow.receive->idle_region, &flow.receive->lock);
	region->registered[1] = false;
	region->refused[1] = true;
	flow.receive->bringup.state = HA_BRINGUP_ENTERED;
	pthread_mutex_unlock(&flow.receive->lock);
	fake_verbs_port(FLOW_SENDER(0), false);
	flow_until_failover(&flow, 1);
	flow_receive(&flow, 100);
	fake_verbs_port(FLOW_SENDER(0), true);
	flow_finish(&flow);
	assert_int_equal(flow_logged("failover"), 2);
	assert_true(region->registered[1]);
	flow_disconnect(&flow);
}

/* ---- calls ---------------------------------------------------------------------------------- */

/* A message larger than the device allows is an error of the caller, not a failure of the path. */
static void too_large(void **state)
{
	const size_t room = FAKE_VERBS_MACHINE_MAX_BYTES + 1ul;
	const uint64_t began_at_ns = inc_now_ns();
	struct ha_request *receive, *send = NULL;
	struct flow flow = {0};
	const int tag = 1;
	void *in;
	int ret = 0;

	flow_connect(&flow);
	/* the buffer is smaller than the receive's size, but nothing will be written there */
	in = flow.in.at;
	assert_int_equal(ha_irecv(flow.receive, 1, &in, &room, &tag, &flow.in_region, &receive), 0);
	while (!ret && !send) {
		ret = ha_isend(flow.send, flow.out.at, room, tag, flow.out_region, &send);
		assert_false(flow_is_late(began_at_ns));
	}
	assert_int_equal(ret, -EMSGSIZE);
	assert_null(send);
	assert_int_equal(flow_logged("failed in epoch"), 0);
	flow_disconnect(&flow);
}

/* ---- messages ------------------------------------------------------------------------------- */

/* The receiver has failed and its last message is lost. The sender has no request in flight that
 * could fail. The sender must notice that the receiver is silent. */
static void silent_when_failed(void **state)
{
	const uint64_t far = 1000;
	struct flow flow = {0};

	flow_connect(&flow);
	flow_until_standby(&flow, 1, 1);
	flow_receive(&flow, 100);
	flow_finish(&flow);
	pthread_mutex_lock(&flow.send->lock);
	assert_int_equal(shutdown(flow.send->socket.fd, SHUT_RDWR), 0);
	pthread_mutex_unlock(&flow.send->lock);
	wait_until_logged("socket: ", 2);
	/* while the test holds both locks, no other thread can post */
	pthread_mutex_lock(&flow.send->lock);
	pthread_mutex_lock(&flow.receive->lock);
	fake_verbs_refuse(FAKE_VERBS_POST_SEND, ENOMEM, 1);
	ha_receiver_landed(&flow.receive->receiver, 0, flow.received + far, 1, inc_now_ns(),
			   &flow.receive->todo);
	ha_comm_do(flow.receive, inc_now_ns());
	fake_verbs_refuse(FAKE_VERBS_POST_SEND, 0, 0);
	pthread_mutex_unlock(&flow.receive->lock);
	pthread_mutex_unlock(&flow.send->lock);
	wait_until_logged("failed in epoch", 2);
	flow_disconnect(&flow);
}

/* ---- strangers ------------------------------------------------------------------------------ */

/* More than twice the connections that a listener examines at a time, but fewer than its backlog
 * allows in addition. */
#define STRANGERS 180
/* a listener waits longer than this for a silent connection */
#define SOON_NS (4 * INC_NSEC_PER_SEC)

/* Many strangers connect and send nothing. They must not delay a real peer for long. */
static void silent_strangers(void **state)
{
	struct ha_comm *comm = NULL, *accepted = NULL;
	struct ha_listener *listener;
	union ha_address address;
	struct ha_handle handle;
	int stranger[STRANGERS];
	unsigned int flags, i;
	uint64_t nonce, began_at_ns;
	struct inc_err err;

	assert_int_equal(ha_listen(flow_plugin, 2, &handle, &listener, &err), 0);
	assert_int_equal(ha_handle_read(&handle, &address, &flags, &nonce, &err), 0);
	for (i = 0; i < STRANGERS; i++) {
		stranger[i] = socket(AF_INET, SOCK_STREAM, 0);
		assert_true(stranger[i] >= 0);
		assert_int_equal(connect(stranger[i], &address.sa, sizeof(address.in4)), 0);
		assert_int_equal(ha_accept(listener, &accepted, &err), 0);
		assert_null(accepted);
	}
	began_at_ns = inc_now_ns();
	while (!comm || !accepted) {
		if (!comm)
			assert_int_equal(ha_connect(flow_plugin, 0, &handle, -1, &comm, &err), 0);
		if (!accepted)
			assert_int_equal(ha_accept(listener, &accepted, &err), 0);
		assert_true(inc_now_ns() - began_at_ns < SOON_NS);
		usleep(FLOW_POLL_US);
	}
	ha_comm_close(comm);
	ha_comm_close(accepted);
	ha_listener_close(listener);
	for (i = 0; i < STRANGERS; i++)
		close(stranger[i]);
}

/* ---- log ------------------------------------------------------------------------------------ */

/* If the path in use fails and no other path can follow, the log must name the path and the
 * cause. */
static void log_names_path_and_cause(void **state)
{
	const uint64_t began_at_ns = inc_now_ns();
	struct flow flow = {0};
	unsigned int i;

	flow_connect(&flow);
	flow_until_standby(&flow, 1, 1);
	fake_verbs_refuse(FAKE_VERBS_CREATE_QP, ENOMEM, UINT_MAX);
	fake_verbs_port(FLOW_SENDER(1), false);
	flow_until_logged(&flow, "no path for epoch 1", 1);
	for (i = 0; i < 4; i++)
		fake_verbs_faults(i, FAKE_VERBS_CUT);
	while (flow_logged("failed in epoch") < 2) {
		flow_step(&flow);
		assert_false(flow_is_late(began_at_ns));
	}
	assert_true(flow_logged("no other path is ready") >= 1);
	assert_true(flow_logged("cause error completion, and no other") >= 1);
	fake_verbs_refuse(FAKE_VERBS_CREATE_QP, 0, 0);
	flow_disconnect(&flow);
}

/* ---- other settings ------------------------------------------------------------------------- */

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
WITH("NCCL_IB_PKEY", "1", second_pkey)
WITH("NCCL_IB_PKEY", "2", third_pkey)

/* The same with figures, of which no file is needed. */
static int open_counted_third_pkey(void **state)
{
	setenv("HA_NCCL_METRICS", "/no/such/place/%p.prom", 1);
	return open_third_pkey(state);
}

static int close_counted_third_pkey(void **state)
{
	unsetenv("HA_NCCL_METRICS");
	return close_third_pkey(state);
}

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

/* ---- calls that the device rejects ---------------------------------------------------------- */

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

/* The queue pairs have the partition key that the variable names. */
static void partition_key(void **state)
{
	struct flow flow = {0};

	flow_connect(&flow);
	flow_receive(&flow, 20);
	assert_int_equal(fake_verbs_pkey_indices(), 1 << 1);
	flow_finish(&flow);
	flow_disconnect(&flow);
}

/* The ports have two partition keys. A comm that never comes up counts as failed. */
static void partition_key_that_is_missing(void **state)
{
	struct flow flow = {0};
	uint64_t failed = 0;

	assert_false(flow_try_to_connect(&flow));
	assert_true(flow_logged("NCCL_IB_PKEY is 2, but the port has 2 partition keys") > 0);
	for (unsigned int dev = 0; dev < 4; dev++) {
		const struct ha_device_metrics *d = ha_metrics_device(flow_plugin->metrics, dev);

		failed += __atomic_load_n(&d->figures.failed_comms, __ATOMIC_RELAXED);
	}
	assert_true(failed > 0);
	flow_disconnect(&flow);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, flow_open, flow_close)
#define UNDER(name, settings) \
	cmocka_unit_test_setup_teardown(name, open_##settings, close_##settings)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(taken_back_in_use),
		TEST(receives_refused),
		TEST(sends_refused),
		TEST(refused_and_entered),
		TEST(too_large),
		TEST(silent_when_failed),
		TEST(log_names_path_and_cause),
		TEST(silent_strangers),
		UNDER(goes_back, failback),
		UNDER(stays, default),
		UNDER(single_path, single),
		UNDER(waits_longer, adaptive),
		UNDER(no_socket, default),
		UNDER(refused_at_first, default),
		UNDER(refused_standby, default),
		UNDER(refused_post, default),
		UNDER(refused_msgs, default),
		UNDER(partition_key, second_pkey),
		UNDER(partition_key_that_is_missing, counted_third_pkey),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
