/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Unusual situations for the comms of test_comm.c: callers and devices that misbehave, and messages
 * that are lost for good.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
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
		sched_yield();
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
	in = flow.in;
	assert_int_equal(ha_irecv(flow.receive, 1, &in, &room, &tag, &flow.in_region, &receive), 0);
	while (!ret && !send) {
		ret = ha_isend(flow.send, flow.out, room, tag, flow.out_region, &send);
		assert_false(flow_is_late(began_at_ns));
	}
	assert_int_equal(ret, -EMSGSIZE);
	assert_null(send);
	assert_int_equal(flow_logged("failed in epoch"), 0);
	flow_disconnect(&flow);
}

/* ---- messages
 * ---------------------------------------------------------------------------------- */

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
		sched_yield();
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, flow_open, flow_close)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(taken_back_in_use), TEST(receives_refused),   TEST(sends_refused),
		TEST(too_large),         TEST(silent_when_failed), TEST(log_names_path_and_cause),
		TEST(silent_strangers),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
