/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Comms with all parts except real devices. Both ends are in one process, with its progress thread
 * and workers, over two rails that fail when the test makes them fail.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "hostlib/nccl/abi.h"
#include "hostlib/nccl/comm_priv.h"
#include "lib/base/clock.h"
#include "selftests/belongings.h"
#include "selftests/fakes/verbs.h"
#include "selftests/nccl/harness_flow.h"

/* ---- without faults ------------------------------------------------------------------------- */

static void data_goes(void **state)
{
	struct flow flow = {0};

	flow_connect(&flow);
	flow_receive(&flow, 2000);
	flow_finish(&flow);
	assert_int_equal(flow_logged("failover"), 0);
	flow_disconnect(&flow);
}

static void several_on_one_listener(void **state)
{
	struct flow flow[4] = {0};
	unsigned int i, round;

	for (i = 0; i < 4; i++) {
		flow[i].listener = i ? flow[0].listener : NULL;
		flow_connect(&flow[i]);
	}
	for (round = 0; round < 50; round++)
		for (i = 0; i < 4; i++)
			flow_receive(&flow[i], 10);
	for (i = 4; i-- > 0;) {
		flow_finish(&flow[i]);
		if (i)
			flow[i].listener = NULL;
		flow_disconnect(&flow[i]);
	}
}

static void send_hello(int fd, uint64_t nonce)
{
	const struct ha_control_msg msg = {
		.type = HA_MSG_HELLO, .nonce = nonce, .hello.name = "a stranger"};
	uint8_t bytes[HA_MSG_BYTES];

	ha_control_msg_encode(&msg, bytes);
	assert_int_equal(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
}

/* Has the plugin closed the connection without sending a message? A message would reveal the comm's
 * nonce to the stranger. */
static bool is_hung_up(int fd)
{
	uint8_t byte;
	const ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);

	assert_true(n <= 0);
	return !n || errno == ECONNRESET;
}

/* NCCL's thread runs under SCHED_FIFO on one CPU while it opens the plugin and connects. The
 * plugin's threads must inherit neither. */
static void threads_inherit_nothing(void **state)
{
	const cpu_set_t before = become_busy();
	struct flow flow = {0};
	bool inherit = false;
	unsigned int n;

	flow_open(state);
	flow_connect(&flow);
	n = become_idle(&before, &inherit);
	flow_disconnect(&flow);
	flow_close(state);
	assert_true(n >= 2); /* the progress thread and a worker */
	assert_false(inherit);
}

/* The connect call returns "not yet" until the peer accepts. Connections of strangers to the
 * listener's port must not delay that. */
static void never_blocks(void **state)
{
	struct ha_comm *comm = NULL, *accepted = NULL;
	struct sockaddr_in to = {.sin_family = AF_INET};
	struct ha_listener *listener;
	union ha_address address;
	struct ha_handle handle;
	struct inc_err err;
	unsigned int flags, i;
	uint64_t nonce, began_at_ns;
	int strangers[4];

	assert_int_equal(ha_listen(flow_plugin, 2, &handle, &listener, &err), 0);
	assert_int_equal(ha_handle_read(&handle, &address, &flags, &nonce, &err), 0);
	to = address.in4;
	for (i = 0; i < 4; i++) {
		strangers[i] = socket(AF_INET, SOCK_STREAM, 0);
		assert_int_equal(connect(strangers[i], (struct sockaddr *)&to, sizeof(to)), 0);
	}
	assert_int_equal(write(strangers[1], "GET / HTTP/1.0\r\n\r\n", 18), 18);
	close(strangers[2]);
	send_hello(strangers[3], nonce ^ 1);
	for (i = 0; i < 1000; i++) {
		began_at_ns = inc_now_ns();
		assert_int_equal(ha_connect(flow_plugin, 0, &handle, -1, &comm, &err), 0);
		assert_null(comm);
		assert_true(inc_now_ns() - began_at_ns < INC_NSEC_PER_SEC);
	}
	began_at_ns = inc_now_ns();
	while (!comm || !accepted) {
		if (!comm)
			assert_int_equal(ha_connect(flow_plugin, 0, &handle, -1, &comm, &err), 0);
		if (!accepted)
			assert_int_equal(ha_accept(listener, &accepted, &err), 0);
		assert_false(flow_is_late(began_at_ns));
		usleep(FLOW_POLL_US);
	}
	ha_comm_close(comm);
	ha_comm_close(accepted);
	while (!is_hung_up(strangers[3])) {
		assert_int_equal(ha_accept(listener, &accepted, &err), 0);
		assert_null(accepted);
		assert_false(flow_is_late(began_at_ns));
		usleep(FLOW_POLL_US);
	}
	ha_listener_close(listener);
	close(strangers[0]);
	close(strangers[1]);
	close(strangers[3]);
}

/* The messages of one group of receives, which are sent in another order. */
struct group {
	uint32_t out[HA_GROUP], in[HA_GROUP];
	struct ha_region *out_region, *in_region;
	struct ha_request *receive, *send[HA_GROUP];
	int sizes[HA_GROUP];
	bool done;
	unsigned int left;
};

/* The size of the i-th message. Some are shorter than their receive. */
static int size_in_group(unsigned int i)
{
	return i % 2 ? 4 : 2;
}

static void post_group(struct flow *flow, struct group *group)
{
	const uint64_t began_at_ns = inc_now_ns();
	struct ha_region *regions[HA_GROUP];
	size_t bytes[HA_GROUP];
	void *data[HA_GROUP];
	int tags[HA_GROUP];
	unsigned int i;

	for (i = 0; i < HA_GROUP; i++) {
		group->out[i] = 100 + i;
		data[i] = &group->in[i];
		bytes[i] = sizeof(group->in[i]);
		tags[i] = i;
		regions[i] = group->in_region;
	}
	while (!group->receive) {
		assert_int_equal(ha_irecv(flow->receive, HA_GROUP, data, bytes, tags, regions,
					  &group->receive),
				 0);
		assert_false(flow_is_late(began_at_ns));
	}
	for (i = HA_GROUP; i-- > 0;)
		while (!group->send[i]) {
			assert_int_equal(ha_isend(flow->send, &group->out[i], size_in_group(i), i,
						  group->out_region, &group->send[i]),
					 0);
			assert_false(flow_is_late(began_at_ns));
		}
	group->left = HA_GROUP;
}

static void test_group(struct group *group)
{
	unsigned int i;

	for (i = 0; i < HA_GROUP; i++) {
		bool sent = false;

		if (group->send[i])
			assert_int_equal(ha_test(group->send[i], &sent, NULL), 0);
		if (sent) {
			group->send[i] = NULL;
			group->left--;
		}
	}
	if (!group->done)
		assert_int_equal(ha_test(group->receive, &group->done, group->sizes), 0);
}

static void groups(void **state)
{
	const uint64_t began_at_ns = inc_now_ns();
	struct group group = {0};
	struct flow flow = {0};
	struct inc_err err;
	unsigned int i;

	flow_connect(&flow);
	assert_int_equal(ha_register(flow.send, group.out, sizeof(group.out), HA_NCCL_PTR_HOST, -1,
				     0, &group.out_region, &err),
			 0);
	assert_int_equal(ha_register(flow.receive, group.in, sizeof(group.in), HA_NCCL_PTR_HOST, -1,
				     0, &group.in_region, &err),
			 0);
	post_group(&flow, &group);
	while (group.left || !group.done) {
		test_group(&group);
		assert_false(flow_is_late(began_at_ns));
	}
	for (i = 0; i < HA_GROUP; i++) {
		assert_int_equal(group.sizes[i], size_in_group(i));
		assert_int_equal(group.in[i], 100 + i);
	}
	ha_deregister(flow.send, group.out_region);
	ha_deregister(flow.receive, group.in_region);
	flow_disconnect(&flow);
}

/* ---- a rail fails --------------------------------------------------------------------------- */

static void leave_rail(unsigned int device, unsigned int faults)
{
	struct flow flow = {0};

	flow_connect(&flow);
	flow_until_standby(&flow, 1, 1);
	flow_receive(&flow, 100);
	fake_verbs_faults(device, faults);
	flow_until_failover(&flow, 1);
	flow_receive(&flow, 100);
	fake_verbs_faults(device, 0);
	fake_verbs_let_go(device);
	flow_receive(&flow, 100);
	flow_finish(&flow);
	assert_int_equal(flow_logged("failover"), 2);
	flow_disconnect(&flow);
}

static void acks_lost(void **state)
{
	leave_rail(FLOW_SENDER(0), FAKE_VERBS_LOSE_ACKS_IN);
}

static void data_lost(void **state)
{
	leave_rail(FLOW_SENDER(0), FAKE_VERBS_LOSE_REQUESTS_OUT);
}

static void descriptions_lost(void **state)
{
	leave_rail(FLOW_RECEIVER(0), FAKE_VERBS_LOSE_REQUESTS_OUT);
}

static void data_late(void **state)
{
	leave_rail(FLOW_SENDER(0), FAKE_VERBS_HOLD_OUT);
}

static void all_lost(void **state)
{
	leave_rail(FLOW_RECEIVER(0), FAKE_VERBS_CUT);
}

/* The device reports that its port is down, so no timer is needed. */
static void port_down(void **state)
{
	struct flow flow = {0};
	uint64_t began_at_ns;

	flow_connect(&flow);
	flow_until_standby(&flow, 1, 1);
	flow_receive(&flow, 100);
	began_at_ns = inc_now_ns();
	fake_verbs_port(FLOW_SENDER(0), false);
	flow_until_failover(&flow, 1);
	assert_true(flow_logged("port down") >= 1);
	print_message("# port down to flowing: %llu us\n",
		      (unsigned long long)((inc_now_ns() - began_at_ns) / 1000));
	flow_receive(&flow, 100);
	/* soon after its port, the first rail comes up again as standby */
	began_at_ns = inc_now_ns();
	fake_verbs_port(FLOW_SENDER(0), true);
	flow_until_standby(&flow, 0, 2);
	assert_true(inc_now_ns() - began_at_ns < INC_NSEC_PER_SEC);
	flow_finish(&flow);
	flow_disconnect(&flow);
}

static void gid_moves(void **state)
{
	struct flow flow = {0};

	flow_connect(&flow);
	flow_until_standby(&flow, 1, 1);
	flow_receive(&flow, 100);
	fake_verbs_move_gid(FLOW_SENDER(0));
	flow_until_failover(&flow, 1);
	flow_until_standby(&flow, 0, 2);
	flow_receive(&flow, 100);
	flow_finish(&flow);
	flow_disconnect(&flow);
}

/* Finds another descriptor of the same file. Returns -1 if there is none. */
static int copy_of(int fd)
{
	struct stat own, other;
	int i;

	assert_int_equal(fstat(fd, &own), 0);
	for (i = 0; i < 1024; i++)
		if (i != fd && !fstat(i, &other) && other.st_dev == own.st_dev &&
		    other.st_ino == own.st_ino)
			return i;
	return -1;
}

/* NCCL soon closes its descriptor of a GPU's memory. The plugin's copy for the other rail must be
 * close-on-exec. */
static void copy_of_gpu_memory(void **state)
{
	static uint8_t memory[4096] __attribute__((aligned(4096)));
	const int fd = memfd_create("gpu", 0);
	struct ha_region *region;
	struct flow flow = {0};
	struct rlimit limit, none;
	struct inc_err err;
	int copy, ret;

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, sizeof(memory)), 0);
	flow_connect(&flow);
	/* a path that is made later would need descriptors while their number is limited */
	flow_until_logged(&flow, "stands by for epoch 1", 2);
	assert_int_equal(copy_of(fd), -1);
	assert_int_equal(
		ha_register(flow.receive, memory, 64, HA_NCCL_PTR_CUDA, fd, 0, &region, &err), 0);
	copy = copy_of(fd);
	assert_true(copy > STDERR_FILENO);
	assert_int_equal(fcntl(copy, F_GETFD), FD_CLOEXEC);
	ha_deregister(flow.receive, region);
	assert_int_equal(copy_of(fd), -1);
	/* if the descriptor cannot be copied, nothing is registered, because the address alone
	 * could refer to other memory later */
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	copy = dup(fd); /* returns the lowest free number, which limits further descriptors */
	assert_int_equal(close(copy), 0);
	none = (struct rlimit){.rlim_cur = copy, .rlim_max = limit.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	ret = ha_register(flow.receive, memory, 64, HA_NCCL_PTR_CUDA, fd, 0, &region, &err);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(ret, -EMFILE);
	assert_non_null(strstr(err.msg, "descriptor"));
	flow_finish(&flow);
	flow_disconnect(&flow);
	close(fd);
}

/* The epoch of a comm's end. *rail: the rail that the end uses in this epoch. */
static uint32_t epoch_of(struct ha_comm *comm, unsigned int *rail)
{
	uint32_t epoch;

	pthread_mutex_lock(&comm->lock);
	epoch = comm->end->epoch;
	if (rail)
		*rail = comm->rail;
	pthread_mutex_unlock(&comm->lock);
	return epoch;
}

static void until_epoch(struct flow *flow, uint32_t epoch)
{
	const uint64_t began_at_ns = inc_now_ns();

	while (ha_before(epoch_of(flow->send, NULL), epoch) ||
	       ha_before(epoch_of(flow->receive, NULL), epoch)) {
		flow_step(flow);
		assert_false(flow_is_late(began_at_ns));
	}
}

/* Makes 200 failovers with alternating faults. On a busy machine a path may also fail without a
 * fault, so epoch and rail are read each time. */
static void many_failovers(void **state)
{
	static const unsigned int faults[] = {FAKE_VERBS_LOSE_ACKS_IN, FAKE_VERBS_LOSE_REQUESTS_OUT,
					      FAKE_VERBS_HOLD_OUT, FAKE_VERBS_CUT};
	struct flow flow = {0};
	unsigned int i, rail, device;
	uint32_t epoch;
	char text[64];

	flow_connect(&flow);
	for (i = 1; i <= 200; i++) {
		flow_receive(&flow, 20);
		epoch = epoch_of(flow.send, &rail);
		snprintf(text, sizeof(text), "stands by for epoch %u", epoch + 1);
		flow_until_logged(&flow, text, 1);
		device = i % 3 ? FLOW_SENDER(rail) : FLOW_RECEIVER(rail);
		if (i % 8)
			fake_verbs_port(device, false);
		else
			fake_verbs_faults(device, faults[i / 8 % 4]);
		until_epoch(&flow, epoch + 1);
		fake_verbs_faults(device, 0);
		fake_verbs_let_go(device);
		fake_verbs_port(device, true);
	}
	flow_finish(&flow);
	assert_int_equal(flow.failed, 0);
	flow_disconnect(&flow);
}

/* ---- all paths fail ------------------------------------------------------------------------- */

/* If all paths fail, every request must end with an error in bounded time. */
static void both_dead(void **state)
{
	struct flow flow = {0};
	unsigned int i;

	flow_connect(&flow);
	flow_until_standby(&flow, 1, 1);
	flow_receive(&flow, 100);
	for (i = 0; i < 4; i++)
		fake_verbs_faults(i, FAKE_VERBS_CUT);
	flow_until_failed(&flow);
	assert_true(flow_logged("failed in epoch") == 2);
	flow_disconnect(&flow);
}

/* ---- the end of a comm ---------------------------------------------------------------------- */

/* Closes both ends with requests in flight. No resource may be left. */
static void close_in_flight(void **state)
{
	unsigned int i;

	for (i = 0; i < 20; i++) {
		struct flow flow = {0};

		flow_connect(&flow);
		flow_receive(&flow, 5 * i);
		flow_disconnect(&flow);
	}
}

/* The receiver has all messages and is closed, but its acknowledgements are lost. The sender must
 * still get the completion of each send. */
static void receiver_lingers(void **state)
{
	const uint64_t began_at_ns = inc_now_ns();
	struct flow flow = {0};

	flow_connect(&flow);
	flow_until_standby(&flow, 1, 1);
	flow_receive(&flow, 100);
	flow_finish(&flow);
	fake_verbs_faults(FLOW_SENDER(0), FAKE_VERBS_LOSE_ACKS_IN);
	while (flow.asked == flow.received)
		flow_step(&flow);
	flow.quiet = true;
	while (flow.received != flow.asked) {
		flow_step(&flow);
		assert_false(flow_is_late(began_at_ns));
	}
	ha_deregister(flow.receive, flow.in_region);
	ha_comm_close(flow.receive);
	flow.in_region = NULL;
	flow.receive = NULL;
	while (flow.acknowledged != flow.sent) {
		bool done;
		int bytes;

		assert_int_equal(ha_test(flow.sending[flow.acknowledged % FLOW_DEPTH].request,
					 &done, &bytes),
				 0);
		flow.acknowledged += done;
		assert_false(flow_is_late(began_at_ns));
		usleep(FLOW_POLL_US);
	}
	fake_verbs_faults(FLOW_SENDER(0), 0);
	flow_disconnect(&flow);
}

/* A comm fails while payloads have arrived that it has not seen. NCCL deregisters their memory, and
 * then the comm sees them. */
static void landed_after_the_end(void **state)
{
	const uint64_t far = 1000, began_at_ns = inc_now_ns();
	struct flow flow = {.gpu = true};

	flow_connect(&flow);
	flow_receive(&flow, 100);
	flow_finish(&flow);
	/* while the test holds a comm's lock, only the other end makes progress */
	pthread_mutex_lock(&flow.send->lock);
	while (flow.asked - flow.received < FLOW_DEPTH)
		flow_step(&flow);
	pthread_mutex_lock(&flow.receive->lock);
	pthread_mutex_unlock(&flow.send->lock);
	while (fake_verbs_unflushed(FLOW_RECEIVER(0)) < FLOW_DEPTH) {
		flow_step(&flow);
		assert_false(flow_is_late(began_at_ns));
	}
	ha_receiver_landed(&flow.receive->receiver, 0, flow.asked + far, 1, inc_now_ns(),
			   &flow.receive->todo);
	ha_comm_do(flow.receive, inc_now_ns());
	assert_int_equal(flow.receive->end->state, HA_FAILED);
	assert_ptr_equal(flow.receive->regions, flow.in_region);
	flow.receive->regions = flow.receive->regions->next;
	ha_comm_free_region(flow.receive, (struct ha_comm_region *)flow.in_region);
	flow.in_region = NULL;
	ha_comm_poll(flow.receive, 64, inc_now_ns());
	pthread_mutex_unlock(&flow.receive->lock);
	flow_until_failed(&flow);
	flow_disconnect(&flow);
}

/* NCCL_IB_PKEY is 1 here, where the devices of the two ends have different P_Keys. */
static void other_partition(void **state)
{
	struct flow flow = {0};

	setenv("NCCL_IB_PKEY", "1", 1);
	flow_open(state);
	unsetenv("NCCL_IB_PKEY");
	fake_verbs_pkey(FLOW_RECEIVER(0), 0x8002);
	fake_verbs_pkey(FLOW_RECEIVER(1), 0x8002);
	inc_rdma_inventory_refresh(ha_plugin_devices(flow_plugin)->inventory, NULL);
	assert_false(flow_try_to_connect(&flow));
	assert_true(flow_logged("the P_Key here is 0x8001, and the peer has 0x8002") > 0);
	assert_true(flow_logged("the P_Key here is 0x8002, and the peer has 0x8001") > 0);
	flow_disconnect(&flow);
	flow_close(state);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, flow_open, flow_close)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(data_goes),
		TEST(several_on_one_listener),
		TEST(never_blocks),
		TEST(groups),
		TEST(acks_lost),
		TEST(data_lost),
		TEST(descriptions_lost),
		TEST(data_late),
		TEST(all_lost),
		TEST(port_down),
		TEST(gid_moves),
		TEST(many_failovers),
		TEST(both_dead),
		TEST(close_in_flight),
		TEST(receiver_lingers),
		TEST(copy_of_gpu_memory),
		TEST(landed_after_the_end),
		cmocka_unit_test(other_partition),
		cmocka_unit_test(threads_inherit_nothing),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
