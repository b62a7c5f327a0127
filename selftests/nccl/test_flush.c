/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/*
 * Comms whose memory is a GPU's (hostlib/nccl/comm_flush.c). The devices are fakes, and the memory
 * of the GPU is a memfd. Data that a device has written there are not visible before a flush.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "hostlib/nccl/comm_priv.h"
#include "lib/base/clock.h"
#include "selftests/fakes/verbs.h"
#include "selftests/nccl/harness_flow.h"

#define GPU   HA_NCCL_PTR_CUDA
#define BYTES (16 * 4096ul)

static uint8_t *memory;
static struct inc_err err;

static int memfd_of(size_t bytes)
{
	const int fd = memfd_create("gpu", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	return fd;
}

/* Data that have landed in GPU memory are there after their flush, and not before. */
static void flushes(void **state)
{
	struct flow flow = {.gpu = true};
	const uint64_t began_at_ns = inc_now_ns();

	flow_connect(&flow);
	flow_receive(&flow, 2000);
	flow_finish(&flow);
	flow.hold_flushes = true;
	while (fake_verbs_unflushed(FLOW_RECEIVER(0)) < FLOW_DEPTH) {
		flow_step(&flow);
		assert_false(flow_is_late(began_at_ns));
	}
	flow.hold_flushes = false;
	flow_finish(&flow);
	assert_int_equal(fake_verbs_unflushed(FLOW_RECEIVER(0)), 0);
	assert_true(flow.n_flushes >= 2000);
	assert_int_equal(flow_logged("a flush through"), 0);
	flow_disconnect(&flow);
}

/* Nothing has to be flushed: the buffers are empty or of the host, or have been flushed already. */
static void nothing_to_flush(void **state)
{
	struct flow flow = {.gpu = true}, host = {0};
	const uint64_t began_at_ns = inc_now_ns();
	struct ha_request *request;
	int none = 0, some = 8;
	void *at;
	bool done;

	flow_connect(&flow);
	flow_receive(&flow, 100);
	flow_finish(&flow);
	at = flow.in.at;
	assert_int_equal(ha_iflush(flow.receive, 1, &at, &none, &flow.in_region, &request), 0);
	assert_null(request);
	assert_int_equal(ha_iflush(flow.receive, 0, NULL, NULL, NULL, &request), 0);
	assert_null(request);
	assert_int_equal(ha_iflush(flow.receive, 1, &at, &some, &flow.in_region, &request), 0);
	for (done = false; !done; assert_false(flow_is_late(began_at_ns)))
		assert_int_equal(ha_test(request, &done, NULL), 0);
	flow_connect(&host);
	at = host.in.at;
	assert_int_equal(ha_iflush(host.receive, 1, &at, &some, &host.in_region, &request), 0);
	assert_null(request);
	flow_disconnect(&host);
	flow_disconnect(&flow);
}

/* Runs a flow through a failover while receives are complete and not flushed, and back again. The
 * data that have come by the receiver's first rail wait until its device can read. */
static void leave_rail(unsigned int device, unsigned int faults, bool port)
{
	struct flow flow = {.gpu = true};

	flow_connect(&flow);
	flow_until_standby(&flow, 1, 1);
	flow_receive(&flow, 100);
	flow_finish(&flow); /* a flush under way would flush what lands now, too */
	flow.hold_flushes = true;
	while (!fake_verbs_unflushed(FLOW_RECEIVER(0)))
		flow_step(&flow);
	if (port)
		fake_verbs_port(device, false);
	fake_verbs_faults(device, faults);
	flow.hold_flushes = false;
	flow_until_failover(&flow, 1);
	if (device == FLOW_SENDER(0))
		flow_receive(&flow, 100);
	else
		flow_until_logged(&flow, "a flush through fake2 has failed", 1);
	fake_verbs_faults(device, 0);
	fake_verbs_let_go(device);
	if (port)
		fake_verbs_port(device, true);
	flow_receive(&flow, 100);
	/* on a slow machine a second passes without a READ, and then none is needed */
	if (!flow_logged("so its data count as complete"))
		assert_int_equal(fake_verbs_unflushed(FLOW_RECEIVER(0)), 0);
	/* the first rail flushes again, after its port has been down */
	flow_until_standby(&flow, 0, 2);
	flow_receive(&flow, 100);
	fake_verbs_faults(FLOW_SENDER(1), FAKE_VERBS_CUT);
	flow_until_failover(&flow, 2);
	flow_receive(&flow, 100);
	fake_verbs_faults(FLOW_SENDER(1), 0);
	flow_finish(&flow);
	assert_int_equal(flow.failed, 0);
	flow_disconnect(&flow);
}

static void sender_cut(void **state)
{
	leave_rail(FLOW_SENDER(0), FAKE_VERBS_CUT, false);
	assert_int_equal(flow_logged("a flush through"), 0);
}

/* The READ to oneself gets lost with the port, so it is repeated when the port works again. */
static void receiver_port_down(void **state)
{
	leave_rail(FLOW_RECEIVER(0), 0, true);
}

static void acks_lost(void **state)
{
	leave_rail(FLOW_SENDER(0), FAKE_VERBS_LOSE_ACKS_IN, false);
	assert_int_equal(flow_logged("a flush through"), 0);
}

/* Brings a flow to the point at which receives are complete, but not flushed. */
static void until_unflushed(struct flow *flow)
{
	flow_receive(flow, 100);
	flow_finish(flow);
	flow->hold_flushes = true;
	while (flow->asked - flow->received < FLOW_DEPTH)
		flow_step(flow);
	flow_until_landed(flow);
	assert_true(fake_verbs_unflushed(FLOW_RECEIVER(0)) > 0);
}

/* The port stays down, so nothing reads through its device. The other path goes on all the same,
 * when the bus has delivered for certain what the device has written. The receiver's RTO is this
 * one after the failover, because a busy machine may cause another failover with a short one. */
static void leave_port_down(uint64_t rto_ms)
{
	struct flow flow = {.gpu = true};
	uint64_t down_at_ns;

	flow_connect(&flow);
	flow_until_standby(&flow, 1, 1);
	until_unflushed(&flow);
	down_at_ns = inc_now_ns();
	fake_verbs_port(FLOW_RECEIVER(0), false);
	flow_until_failover(&flow, 1);
	pthread_mutex_lock(&flow.receive->lock);
	flow.receive->end->times.rto_ns = rto_ms * INC_NSEC_PER_MSEC;
	pthread_mutex_unlock(&flow.receive->lock);
	flow.hold_flushes = false;
	fake_verbs_deliver(FLOW_RECEIVER(0));
	flow_until_logged(&flow, "so its data count as complete", 1);
	assert_true(inc_now_ns() - down_at_ns >= INC_NSEC_PER_SEC);
	flow_receive(&flow, 100);
	flow_finish(&flow);
	assert_int_equal(flow.failed, 0);
	flow_disconnect(&flow);
}

static void port_stays_down(void **state)
{
	leave_port_down(FLOW_RTO_MS);
}

/* Three RTOs are shorter than the time in which data settle. */
static void port_stays_down_for_a_short_rto(void **state)
{
	leave_port_down(200);
}

/* The first half of a payload is on its way to the GPU when its path ends. The flush of the payload
 * that is sent again waits for it, or it could overwrite what comes after that. */
static void cut_off(void **state)
{
	struct flow flow = {.gpu = true};

	flow_connect(&flow);
	flow_until_standby(&flow, 1, 1);
	flow_receive(&flow, 100);
	flow_finish(&flow);
	fake_verbs_faults(FLOW_RECEIVER(0), FAKE_VERBS_CUT_WRITES_IN);
	flow_until_failover(&flow, 1);
	flow_receive(&flow, 100);
	assert_int_equal(fake_verbs_unflushed(FLOW_RECEIVER(0)), 0);
	flow_finish(&flow);
	flow_disconnect(&flow);
}

/* A READ that cannot be posted is repeated on a new queue pair. The comm keeps its path. */
static void loop_breaks(void **state)
{
	struct flow flow = {.gpu = true};

	flow_connect(&flow);
	until_unflushed(&flow);
	flow.hold_flushes = false;
	fake_verbs_refuse(FAKE_VERBS_POST_WRITE, ENOMEM, 1);
	flow_until_logged(&flow, "a flush through fake2 has failed: Cannot allocate memory", 1);
	flow_receive(&flow, 100);
	flow_finish(&flow);
	assert_int_equal(flow_logged("failover"), 0);
	flow_disconnect(&flow);
}

/* Without an answer to the READ, a flush is not complete, and its data are not in GPU memory. */
static void reads_lost(void **state)
{
	struct flow flow = {.gpu = true};
	uint32_t received;

	flow_connect(&flow);
	until_unflushed(&flow);
	flow.hold_flushes = false;
	fake_verbs_faults(FLOW_RECEIVER(0), FAKE_VERBS_LOSE_READS_OUT);
	received = flow.received;
	flow_until_logged(&flow, "a flush through fake2 has failed: ", 2);
	assert_int_equal(flow.received, received);
	assert_true(fake_verbs_unflushed(FLOW_RECEIVER(0)) > 0);
	fake_verbs_faults(FLOW_RECEIVER(0), 0);
	flow_receive(&flow, 100);
	flow_finish(&flow);
	assert_int_equal(flow_logged("failover"), 0);
	flow_disconnect(&flow);
}

/* Runs a flow until its comm ends, because no READ succeeds. */
static void until_given_up(struct flow *flow)
{
	const uint64_t began_at_ns = inc_now_ns();

	while (!flow->receive_error) {
		flow_step(flow);
		assert_false(flow_is_late(began_at_ns));
	}
	assert_int_equal(flow->receive_error, -EIO);
	assert_int_equal(flow_logged("no READ of GPU memory through its device succeeds"), 1);
	assert_int_equal(flow_logged("so its data count as complete"), 0);
}

/* If no READ ever succeeds, the comm ends with an error that blames the network. */
static void reads_lost_for_ever(void **state)
{
	struct flow flow = {.gpu = true};

	flow_connect(&flow);
	until_unflushed(&flow);
	flow.hold_flushes = false;
	fake_verbs_faults(FLOW_RECEIVER(0), FAKE_VERBS_LOSE_READS_OUT);
	until_given_up(&flow);
	assert_int_equal(flow_logged("failover"), 0);
	flow_until_failed(&flow);
	fake_verbs_faults(FLOW_RECEIVER(0), 0);
	flow_disconnect(&flow);
}

/* The device may not read the GPU's memory any more, so its data may be missing there for good.
 * They do not count as complete when the port goes down, and is left. */
static void reads_denied(void **state)
{
	struct flow flow = {.gpu = true};

	flow_connect(&flow);
	flow_until_standby(&flow, 1, 1);
	until_unflushed(&flow);
	fake_verbs_faults(FLOW_RECEIVER(0), FAKE_VERBS_DENY_READS_OUT);
	flow.hold_flushes = false;
	flow_until_logged(&flow, "a flush through fake2 has failed: ", 1);
	fake_verbs_port(FLOW_RECEIVER(0), false);
	flow_until_failover(&flow, 1);
	until_given_up(&flow);
	flow_until_failed(&flow);
	fake_verbs_faults(FLOW_RECEIVER(0), 0);
	flow_disconnect(&flow);
}

/* The READ gets no answer, and the device makes no new queue pair for another one, although its
 * port works. So its data may be missing for good, and they do not count as complete when the comm
 * has left the rail. */
static void no_new_loop(void **state)
{
	struct flow flow = {.gpu = true};

	flow_connect(&flow);
	flow_until_standby(&flow, 1, 1);
	until_unflushed(&flow);
	fake_verbs_refuse(FAKE_VERBS_CREATE_QP, ENOMEM, UINT_MAX);
	fake_verbs_faults(FLOW_RECEIVER(0), FAKE_VERBS_LOSE_READS_OUT);
	flow.hold_flushes = false;
	flow_until_logged(&flow, "a flush through fake2 has failed: ", 1);
	fake_verbs_port(FLOW_SENDER(0), false);
	flow_until_failover(&flow, 1);
	until_given_up(&flow);
	flow_until_failed(&flow);
	fake_verbs_refuse(FAKE_VERBS_CREATE_QP, 0, 0);
	fake_verbs_faults(FLOW_RECEIVER(0), 0);
	fake_verbs_port(FLOW_SENDER(0), true);
	flow_disconnect(&flow);
}

/* A flush of a complete receive, which begins in the next round of the comm. */
static struct ha_flush *ask_for_flush(struct flow *flow)
{
	struct flow_message *message = &flow->receiving[flow->received % FLOW_DEPTH];
	void *at = flow->in.at;
	int bytes = 8;

	assert_int_equal(
		ha_iflush(flow->receive, 1, &at, &bytes, &flow->in_region, &message->request), 0);
	assert_non_null(message->request);
	message->flushing = true;
	return message->request->flush;
}

/* Completes all receives of the flow, whose flushes it holds. */
static void until_complete(struct flow *flow)
{
	const uint64_t began_at_ns = inc_now_ns();
	unsigned int complete;

	do {
		pthread_mutex_lock(&flow->receive->lock);
		complete =
			flow->receive->receiver.first_open == flow->receive->receiver.next_sequence;
		pthread_mutex_unlock(&flow->receive->lock);
		flow_step(flow);
		assert_false(flow_is_late(began_at_ns));
	} while (!complete || flow->receiving[flow->received % FLOW_DEPTH].request);
}

/* The thread that polls is stopped while a READ is under way. The READ is complete when the thread
 * goes on, so it is not late. */
static void completed_during_a_pause(void **state)
{
	struct flow flow = {.gpu = true};
	const struct ha_region *reads;
	struct ha_flush *flush;
	uint8_t rails;

	flow_connect(&flow);
	until_unflushed(&flow);
	until_complete(&flow);
	pthread_mutex_lock(&flow.receive->lock);
	fake_verbs_faults(FLOW_RECEIVER(0), FAKE_VERBS_LOSE_READS_OUT);
	flush = ask_for_flush(&flow);
	ha_comm_flush_round(flow.receive, inc_now_ns());
	reads = flush->reads[0];
	fake_verbs_faults(FLOW_RECEIVER(0), 0);
	ha_comm_flush_round(flow.receive, inc_now_ns() + 2ull * FLOW_RTO_MS * INC_NSEC_PER_MSEC);
	rails = flush->rails;
	pthread_mutex_unlock(&flow.receive->lock);
	assert_ptr_equal(reads, flow.in_region);
	assert_int_equal(rails, 0);
	assert_int_equal(flow_logged("a flush through"), 0);
	flow.hold_flushes = false;
	flow_finish(&flow);
	assert_int_equal(flow_logged("failover"), 0);
	flow_disconnect(&flow);
}

/* NCCL deregisters memory that a READ returns for the flush of other memory. */
static void read_for_another_flush(void **state)
{
	const int fd = memfd_of(4096);
	struct flow flow = {.gpu = true};
	struct ha_comm_region *own;
	struct ha_region *other;
	const struct ha_region *reads;
	struct ha_flush *flush;
	bool uses;

	flow_connect(&flow);
	assert_int_equal(ha_register(flow.receive, memory, 64, GPU, fd, 0, &other, &err), 0);
	until_unflushed(&flow);
	until_complete(&flow);
	own = (struct ha_comm_region *)flow.in_region;
	pthread_mutex_lock(&flow.receive->lock);
	fake_verbs_faults(FLOW_RECEIVER(0), FAKE_VERBS_LOSE_READS_OUT);
	own->registered[0] = false;
	flush = ask_for_flush(&flow);
	ha_comm_flush_round(flow.receive, inc_now_ns());
	reads = flush->reads[0];
	uses = ha_comm_flush_uses(flow.receive, other);
	own->registered[0] = true;
	fake_verbs_faults(FLOW_RECEIVER(0), 0);
	pthread_mutex_unlock(&flow.receive->lock);
	assert_ptr_equal(reads, other);
	assert_true(uses);
	ha_deregister(flow.receive, other);
	flow.hold_flushes = false;
	flow_finish(&flow);
	assert_int_equal(flow_logged("a flush through"), 0);
	flow_disconnect(&flow);
	close(fd);
}

/* The address of the standby's port goes and comes back. So the queue pair for flushes is a new
 * one, before data come by that rail. */
static void address_comes_back(void **state)
{
	struct flow flow = {.gpu = true};

	flow_connect(&flow);
	flow_until_standby(&flow, 1, 1);
	flow_receive(&flow, 100);
	fake_verbs_move_gid(FLOW_RECEIVER(1));
	flow_until_logged(&flow, "fake1 stands by for epoch 1", 2);
	flow_receive(&flow, 100);
	fake_verbs_faults(FLOW_SENDER(0), FAKE_VERBS_CUT);
	flow_until_failover(&flow, 1);
	flow_receive(&flow, 100);
	fake_verbs_faults(FLOW_SENDER(0), 0);
	flow_finish(&flow);
	assert_int_equal(flow_logged("a flush through"), 0);
	flow_disconnect(&flow);
}

/* Another request makes the comm leave the path, while data of complete receives are unflushed. */
static void left_before_the_flush(void **state)
{
	const uint64_t began_at_ns = inc_now_ns();
	struct ha_request *request = NULL;
	struct flow flow = {.gpu = true};
	const int tag = FLOW_TAGS;
	const size_t bytes = 8;
	void *at;

	flow_connect(&flow);
	flow_until_standby(&flow, 1, 1);
	flow_receive(&flow, 100);
	flow_finish(&flow);
	flow.hold_flushes = true;
	while (flow.asked - flow.received < FLOW_DEPTH)
		flow_step(&flow);
	flow_until_landed(&flow);
	at = flow.in.at;
	fake_verbs_refuse(FAKE_VERBS_POST_WRITE, ENOMEM, 1);
	while (!request) {
		assert_int_equal(
			ha_irecv(flow.receive, 1, &at, &bytes, &tag, &flow.in_region, &request), 0);
		assert_false(flow_is_late(began_at_ns));
	}
	flow_until_failover(&flow, 1);
	flow.hold_flushes = false;
	flow_receive(&flow, 100);
	assert_int_equal(flow_logged("a flush through"), 0);
	flow_disconnect(&flow);
}

static void flushes_disabled(void **state)
{
	struct flow flow = {.gpu = true};

	flow_connect(&flow);
	flow.hold_flushes = true;
	while (!fake_verbs_unflushed(FLOW_RECEIVER(0)))
		flow_step(&flow);
	assert_null(flow.receive->loop[0]);
	flow_disconnect(&flow);
}

/* memory for tests that register it and do not use it */
static int open_flow(void **state)
{
	memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return memory == MAP_FAILED || flow_open(state);
}

static int close_flow(void **state)
{
	munmap(memory, BYTES);
	return flow_close(state);
}

static int open_disabled(void **state)
{
	setenv("NCCL_GDR_FLUSH_DISABLE", "1", 1);
	return open_flow(state);
}

static int close_settings(void **state)
{
	unsetenv("NCCL_GDR_FLUSH_DISABLE");
	return close_flow(state);
}

int main(int argc, char **argv)
{
#define COMM(name)           cmocka_unit_test_setup_teardown(name, open_flow, close_flow)
#define WITH(name, settings) cmocka_unit_test_setup_teardown(name, open_##settings, close_settings)
	const struct CMUnitTest tests[] = {
		COMM(flushes),
		COMM(nothing_to_flush),
		COMM(sender_cut),
		COMM(receiver_port_down),
		COMM(acks_lost),
		COMM(port_stays_down),
		COMM(port_stays_down_for_a_short_rto),
		COMM(cut_off),
		COMM(loop_breaks),
		COMM(reads_lost),
		COMM(reads_lost_for_ever),
		COMM(reads_denied),
		COMM(no_new_loop),
		COMM(completed_during_a_pause),
		COMM(read_for_another_flush),
		COMM(address_comes_back),
		COMM(left_before_the_flush),
		WITH(flushes_disabled, disabled),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("flush", tests, NULL, NULL);
}
