/* SPDX-License-Identifier: BSD-2-Clause */
/* Paths over UDP, of which both ends are here, on the loopback interface, and comms with such a
 * path. Then a worker of the plugin that can have no more threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "hostlib/nccl/comm_priv.h"
#include "lib/base/clock.h"
#include "selftests/nccl/harness_flow.h"

enum { SENDER, RECEIVER, N_ENDS };

#define BYTES     (1u << 20)
#define PIECE     4096u
#define PATIENT_S 60

static struct ha_config config = {.qp_timeout = 20, .qp_retry_cnt = 7, .transport = "soft"};
static struct ha_devices devices = {.config = &config};
static const struct ha_rail rail = {.interface = "lo", .port = 1};
static struct ha_slot_wire ring[HA_SLOTS];
static struct ha_path *path[N_ENDS];
static uint8_t source[BYTES], target[BYTES + 1];
static struct inc_err err;

#define MAX_SEEN 1024u
/* the events of each end so far, of which the test has taken some */
static struct ha_path_event seen[N_ENDS][MAX_SEEN];
static uint8_t seen_msg[N_ENDS][MAX_SEEN][HA_MSG_BYTES];
static unsigned int n_seen[N_ENDS], taken[N_ENDS];

/* ---- both ends ------------------------------------------------------------------------------ */

static void make_end(int end)
{
	const struct ha_path_opts opts = {
		.devices = &devices,
		.rail = &rail,
		.epoch = 3,
		.ring = end == SENDER ? ring : NULL,
		.what = "the path",
	};

	assert_int_equal(ha_path_make(&path[end], &opts, &err), 0);
}

static int begin(void **state)
{
	memset(ring, 0, sizeof(ring));
	memset(target, 0xee, sizeof(target));
	for (uint32_t i = 0; i < BYTES; i++)
		source[i] = i * 7 + i / 256;
	make_end(SENDER);
	make_end(RECEIVER);
	for (int end = 0; end < N_ENDS; end++)
		assert_int_equal(ha_path_enter(path[end], &path[!end]->own, &config, &err), 0);
	return 0;
}

static int end_all(void **state)
{
	for (int end = 0; end < N_ENDS; end++) {
		ha_path_destroy(path[end]);
		path[end] = NULL;
		n_seen[end] = taken[end] = 0;
	}
	return 0;
}

/* Keeps all events of an end, because it sends and receives nothing while events wait. */
static void pump(int end)
{
	struct ha_path_event event;

	while (ha_path_poll(path[end], &event, 1)) {
		assert_true(n_seen[end] < MAX_SEEN);
		if (event.kind == HA_PATH_MSG)
			event.msg = memcpy(seen_msg[end][n_seen[end]], event.msg, HA_MSG_BYTES);
		seen[end][n_seen[end]++] = event;
	}
}

static struct ha_path_event next_event(int end)
{
	const uint64_t since_at_ns = inc_now_ns();

	while (taken[end] == n_seen[end]) {
		pump(SENDER);
		pump(RECEIVER);
		if (inc_now_ns() - since_at_ns > PATIENT_S * INC_NSEC_PER_SEC)
			fail_msg("no event within %d s", PATIENT_S);
	}
	return seen[end][taken[end]++];
}

static struct ha_slot describe(uint32_t sequence, uint32_t bytes)
{
	const struct ha_slot slot = {.address = (uintptr_t)target,
				     .bytes = bytes,
				     .epoch = 3,
				     .sequence = sequence,
				     .slots = 1};

	assert_int_equal(ha_path_describe(path[RECEIVER], sequence, &slot), 0);
	return slot;
}

static void expect_completed(int end, uint64_t wr_id)
{
	const struct ha_path_event event = next_event(end);

	assert_int_equal(event.kind, HA_PATH_COMPLETED);
	assert_int_equal(event.wr_id, wr_id);
	assert_true(event.ok);
}

static void write_payload(uint64_t wr_id, uint32_t bytes, uint32_t sequence)
{
	assert_int_equal(ha_path_write(path[SENDER], wr_id, source, 0, bytes, 0, 0, sequence), 0);
}

static void expect_dead(int end, const char *why)
{
	const struct ha_path_event event = next_event(end);

	assert_int_equal(event.kind, HA_PATH_DEAD);
	assert_non_null(strstr(event.why, why));
}

/* ---- data ----------------------------------------------------------------------------------- */

static void payloads(void **state)
{
	static const uint32_t sizes[] = {0,         1,         PIECE - 1, PIECE,
					 PIECE + 1, 2 * PIECE, 100000,    BYTES};
	uint32_t sequence = 0xfffffffc;
	struct ha_path_event event;
	struct ha_slot slot;

	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(*sizes); i++, sequence++) {
		describe(sequence, sizes[i]);
		expect_completed(RECEIVER, sequence);
		assert_int_equal(ha_slot_read(&ring[sequence % HA_SLOTS], sequence, 3, &slot, &err),
				 1);
		assert_int_equal(slot.bytes, sizes[i]);
		memset(target, 0xee, sizeof(target));
		write_payload(i, sizes[i], sequence);
		event = next_event(RECEIVER);
		assert_int_equal(event.kind, HA_PATH_LANDED);
		assert_int_equal(event.sequence, sequence);
		assert_int_equal(event.bytes, sizes[i]);
		assert_memory_equal(target, source, sizes[i]);
		assert_int_equal(target[sizes[i]], 0xee);
		expect_completed(SENDER, i);
	}
	assert_int_equal(path[SENDER]->writes + path[RECEIVER]->writes, 0);
	assert_int_equal(path[RECEIVER]->receives, 0);
}

/* Control messages in both directions, a payload shorter than its receive, and a probe. */
static void messages(void **state)
{
	uint8_t msg[HA_MSG_BYTES];
	struct ha_path_event event;

	for (unsigned int i = 0; i < 100; i++) {
		const int end = i % 2;

		memset(msg, i, sizeof(msg));
		assert_int_equal(ha_path_send(path[end], msg), 0);
		event = next_event(!end);
		assert_int_equal(event.kind, HA_PATH_MSG);
		assert_int_equal(event.bytes, HA_MSG_BYTES);
		assert_memory_equal(event.msg, msg, sizeof(msg));
	}
	describe(7, 1000);
	expect_completed(RECEIVER, 7);
	write_payload(9, 10, 7);
	assert_int_equal(next_event(RECEIVER).bytes, 10);
	expect_completed(SENDER, 9);
	assert_int_equal(ha_path_probe(path[SENDER], 77), 0);
	expect_completed(SENDER, 77);
	assert_int_equal(path[SENDER]->msgs + path[RECEIVER]->msgs, 0);
}

/* All that the comm may have under way at once, while the peer does not poll. */
static void all_at_once(void **state)
{
	uint8_t msg[HA_MSG_BYTES] = {0};
	uint32_t i;

	for (i = 0; i < HA_SLOTS; i++)
		describe(i, 8);
	for (i = 0; i < HA_SLOTS; i++)
		expect_completed(RECEIVER, i);
	for (i = 0; i < HA_SLOTS; i++)
		write_payload(i, 8, i);
	for (i = 0; i < HA_PROBES; i++)
		assert_int_equal(ha_path_probe(path[SENDER], 1000), 0);
	assert_int_equal(ha_path_probe(path[SENDER], 1000), -EAGAIN);
	for (i = 0; i < HA_MSGS_AHEAD; i++)
		assert_int_equal(ha_path_send(path[SENDER], msg), 0);
	assert_int_equal(ha_path_send(path[SENDER], msg), -EAGAIN);
	for (i = 0; i < HA_SLOTS; i++)
		assert_int_equal(next_event(RECEIVER).sequence, i);
	for (i = 0; i < HA_MSGS_AHEAD; i++)
		assert_int_equal(next_event(RECEIVER).kind, HA_PATH_MSG);
	for (i = 0; i < HA_SLOTS; i++)
		expect_completed(SENDER, i);
}

/* The descriptor of a path wakes its owner. */
static void descriptor(void **state)
{
	struct pollfd fd = {.fd = ha_path_fd(path[SENDER]), .events = POLLIN};

	assert_int_equal(ha_path_probe(path[RECEIVER], 1), 0);
	assert_int_equal(poll(&fd, 1, PATIENT_S * 1000), 1);
	expect_completed(RECEIVER, 1);
}

/* ---- ends ----------------------------------------------------------------------------------- */

static void a_payload_without_a_receive(void **state)
{
	describe(4, 100);
	expect_completed(RECEIVER, 4);
	write_payload(1, 100, 5);
	expect_dead(RECEIVER, "no receive waits");
	assert_int_equal(target[0], 0xee);
}

static void a_payload_that_is_too_long(void **state)
{
	describe(4, PIECE + 100);
	expect_completed(RECEIVER, 4);
	write_payload(1, PIECE + 101, 4);
	expect_dead(RECEIVER, "longer than its receive");
	assert_int_equal(target[PIECE], 0xee);
}

static void a_payload_twice(void **state)
{
	describe(4, 100);
	expect_completed(RECEIVER, 4);
	write_payload(1, 100, 4);
	write_payload(2, 100, 4);
	assert_int_equal(next_event(RECEIVER).kind, HA_PATH_LANDED);
	expect_dead(RECEIVER, "no receive waits");
}

/* A receiver has no ring, so a description that comes to it has a wrong length. */
static void a_description_for_a_receiver(void **state)
{
	const struct ha_slot slot = {.epoch = 3, .sequence = 1, .slots = 1};

	assert_int_equal(ha_path_describe(path[SENDER], 1, &slot), 0);
	expect_dead(RECEIVER, "a wrong length");
}

static void silence(void **state)
{
	struct ha_path_event event;
	unsigned int i;

	config.qp_timeout = 12;
	end_all(state);
	begin(state);
	config.qp_timeout = 20;
	for (i = 0; i < 3; i++)
		write_payload(i, BYTES, i);
	/* the peer never polls */
	while (!ha_path_poll(path[SENDER], &event, 1))
		;
	assert_int_equal(event.kind, HA_PATH_DEAD);
	assert_non_null(strstr(event.why, "the peer has not answered for "));
	assert_int_equal(ha_path_fd(path[SENDER]), -1);
	/* work for a dead path fails like what it had before */
	write_payload(i, 1, i);
	for (i = 0; i < 4; i++) {
		assert_int_equal(ha_path_poll(path[SENDER], &event, 1), 1);
		assert_int_equal(event.kind, HA_PATH_COMPLETED);
		assert_int_equal(event.wr_id, i);
		assert_true(!event.ok && event.flushed);
	}
	assert_int_equal(ha_path_fence(path[SENDER], &err), 0);
	assert_true(ha_path_drained(path[SENDER]));
}

/* A fenced path reports what it had received, and receives nothing more. */
static void fence(void **state)
{
	uint8_t msg[HA_MSG_BYTES] = {0};
	struct ha_path_event event;
	unsigned int landed = 0;

	for (uint32_t i = 0; i < 3; i++)
		describe(i, 100);
	for (uint32_t i = 0; i < 3; i++)
		expect_completed(RECEIVER, i);
	write_payload(0, 100, 0);
	write_payload(1, 100, 1);
	assert_int_equal(ha_path_send(path[SENDER], msg), 0);
	/* a poll for no event receives all the same, unless events wait */
	while (!path[RECEIVER]->receives)
		ha_path_poll(path[RECEIVER], NULL, 0);
	assert_int_equal(ha_path_fence(path[RECEIVER], &err), 0);
	assert_false(ha_path_drained(path[RECEIVER]));
	while (!ha_path_drained(path[RECEIVER])) {
		assert_int_equal(ha_path_poll(path[RECEIVER], &event, 1), 1);
		assert_int_equal(event.kind, landed < 2 ? HA_PATH_LANDED : HA_PATH_MSG);
		landed++;
	}
	assert_true(landed > 0);
	write_payload(2, 100, 2);
	assert_int_equal(ha_path_fence(path[SENDER], &err), 0);
	while (!ha_path_drained(path[SENDER])) {
		assert_int_equal(ha_path_poll(path[SENDER], &event, 1), 1);
		assert_int_equal(event.kind, HA_PATH_COMPLETED);
	}
	assert_int_equal(event.wr_id, 2);
	assert_true(event.flushed);
	assert_int_equal(ha_path_poll(path[RECEIVER], &event, 1), 0);
}

static void peers_that_do_not_fit(void **state)
{
	struct ha_path_info peer = path[RECEIVER]->own;

	end_all(state);
	make_end(SENDER);
	make_end(RECEIVER);
	peer.link_layer = INC_RDMA_LINK_ETHERNET;
	assert_int_equal(ha_path_enter(path[SENDER], &peer, &config, &err), -EPROTO);
	assert_non_null(strstr(err.msg, "HA_NCCL_TRANSPORT=soft"));
	assert_int_equal(ha_path_enter(path[RECEIVER], &path[RECEIVER]->own, &config, &err),
			 -EPROTO);
	assert_non_null(strstr(err.msg, "no ring"));
}

/* The end with the smaller MTU decides. */
static void different_mtus(void **state)
{
	struct ha_path_info small;

	end_all(state);
	make_end(SENDER);
	make_end(RECEIVER);
	small = path[RECEIVER]->own;
	small.mtu_bytes = 512;
	assert_int_equal(ha_path_enter(path[SENDER], &small, &config, &err), 0);
	small = path[SENDER]->own;
	small.mtu_bytes = 512;
	assert_int_equal(ha_path_enter(path[RECEIVER], &small, &config, &err), 0);
	payloads(state);
}

static void no_such_interface(void **state)
{
	static const struct ha_rail gone = {.interface = "no-such-if", .port = 1};
	const struct ha_path_opts opts = {.devices = &devices, .rail = &gone, .what = "the path"};
	struct ha_path *none;

	assert_int_equal(ha_path_make(&none, &opts, &err), -ENODEV);
	assert_string_equal(err.msg, "no-such-if: gone");
}

/* ---- comms over UDP -------------------------------------------------------------------------- */

static int open_comms(void **state)
{
	setenv("HA_NCCL_TRANSPORT", "soft", 1);
	return flow_open(state);
}

static int close_comms(void **state)
{
	unsetenv("HA_NCCL_TRANSPORT");
	return flow_close(state);
}

/* NCCL deregisters memory while a receive uses it, and may free the memory then. The comm must end,
 * and a payload that comes later must not be written there. */
static void taken_back_in_use(void **state)
{
	const uint64_t began_at_ns = inc_now_ns();
	struct ha_request *receive = NULL, *send = NULL;
	const size_t room = FLOW_MAX_BYTES;
	struct flow flow = {0};
	const int tag = 1;
	bool done = false;
	void *in;
	int ret = 0;

	flow_connect(&flow);
	flow_receive(&flow, 100);
	flow_finish(&flow);
	for (in = flow.in.at; !receive; assert_false(flow_is_late(began_at_ns)))
		assert_int_equal(
			ha_irecv(flow.receive, 1, &in, &room, &tag, &flow.in_region, &receive), 0);
	ha_deregister(flow.receive, flow.in_region);
	flow.in_region = NULL;
	memset(flow.in.memory, 0xee, room);
	/* the description of the receive may reach the sender before the end of the comm does */
	for (; !ret && !send; assert_false(flow_is_late(began_at_ns)))
		ret = ha_isend(flow.send, flow.out.at, room, tag, flow.out_region, &send);
	for (; send && !done; assert_false(flow_is_late(began_at_ns)))
		ret = ha_test(send, &done, NULL);
	assert_true(ret < 0);
	for (done = false; !done; assert_false(flow_is_late(began_at_ns)))
		ret = ha_test(receive, &done, NULL);
	assert_int_equal(ret, -ECANCELED);
	for (size_t i = 0; i < room; i++)
		assert_int_equal(flow.in.memory[i], 0xee);
	flow_disconnect(&flow);
}

/* How often this descriptor's number is in the process's epoll sets. */
static unsigned int times_watched(int fd)
{
	DIR *directory = opendir("/proc/self/fdinfo");
	struct dirent *entry;
	char line[300];
	unsigned int n = 0;
	int number;
	FILE *f;

	assert_non_null(directory);
	while ((entry = readdir(directory))) {
		snprintf(line, sizeof(line), "/proc/self/fdinfo/%.255s", entry->d_name);
		f = fopen(line, "re");
		while (f && fgets(line, sizeof(line), f))
			n += sscanf(line, "tfd: %d", &number) == 1 && number == fd;
		if (f)
			fclose(f);
	}
	closedir(directory);
	return n;
}

/* While a comm ends, a child of the process has copies of the comm's sockets. Then the close of a
 * socket does not remove it from the epoll set of the progress thread, which would get no rest as
 * soon as the peer sends once more. A copy that the test makes has the same effect. */
static void sockets_that_a_child_has(void **state)
{
	const uint64_t began_at_ns = inc_now_ns();
	struct flow flow = {0};
	int fd[2], copy[2], i;

	flow_connect(&flow);
	flow_receive(&flow, 100);
	flow_finish(&flow);
	pthread_mutex_lock(&flow.send->lock);
	fd[0] = ha_path_fd(flow.send->path);
	fd[1] = flow.send->socket.fd;
	pthread_mutex_unlock(&flow.send->lock);
	for (i = 0; i < 2; i++) {
		assert_int_equal(times_watched(fd[i]), 1);
		copy[i] = fcntl(fd[i], F_DUPFD_CLOEXEC, 0);
		assert_true(copy[i] >= 0);
	}
	flow_disconnect(&flow);
	for (i = 0; i < 2; i++) {
		while (fcntl(fd[i], F_GETFD) >= 0) {
			assert_false(flow_is_late(began_at_ns));
			usleep(FLOW_POLL_US);
		}
		assert_int_equal(times_watched(fd[i]), 0);
	}
	close(copy[0]);
	close(copy[1]);
}

/* NCCL's class of a communicator may not have ECN 3, which only routers set. */
static void class_of_a_communicator(void **state)
{
	struct ha_listener *listener;
	struct ha_handle handle;
	struct ha_comm *send;

	assert_int_equal(ha_listen(flow_plugin, 0, &handle, &listener, &err), 0);
	assert_int_equal(ha_connect(flow_plugin, 0, &handle, 107, &send, &err), -EINVAL);
	assert_null(send);
	assert_non_null(strstr(err.msg, "traffic class 107: want DSCP * 4 + ECN"));
	ha_listener_close(listener);
}

/* ---- threads -------------------------------------------------------------------------------- */

static atomic_bool no_threads;

/* Replaces the C library's function, which fails while there can be no more threads. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
	int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
		dlsym(RTLD_NEXT, "pthread_create");

	return no_threads ? EAGAIN : real(thread, attr, fn, arg);
}

struct step {
	struct ha_job job;
	atomic_bool runs, ends;
};

static void run_step(struct ha_job *job)
{
	struct step *step = (struct step *)job;

	step->runs = true;
	while (!step->ends)
		usleep(FLOW_POLL_US);
}

static void until_it_runs(const struct step *step)
{
	const uint64_t began_at_ns = inc_now_ns();

	while (!step->runs) {
		assert_false(flow_is_late(began_at_ns));
		usleep(FLOW_POLL_US);
	}
}

/* A step hangs for which no second thread could be started. As soon as threads can be started
 * again, the steps after it do not wait for it. */
static void threads_run_out(void **state)
{
	/* static, because threads of a test that fails still use these */
	static struct step hangs = {.job.run = run_step}, waits = {.job.run = run_step},
			   later = {.job.run = run_step};
	struct ha_worker *worker;

	waits.ends = later.ends = true;
	assert_int_equal(ha_worker_start(&worker, flow_plugin, true, &err), 0);
	no_threads = true;
	ha_worker_do(worker, &hangs.job);
	until_it_runs(&hangs);
	ha_worker_do(worker, &waits.job);
	assert_int_equal(flow_logged("cannot be started: Resource temporarily unavailable"), 1);
	assert_false(waits.runs);
	no_threads = false;
	ha_worker_do(worker, &later.job);
	until_it_runs(&waits);
	until_it_runs(&later);
	hangs.ends = true;
	ha_worker_stop(worker);
}

int main(void)
{
#define TEST(name)      cmocka_unit_test_setup_teardown(name, begin, end_all)
#define COMM_TEST(name) cmocka_unit_test_setup_teardown(name, open_comms, close_comms)
	const struct CMUnitTest tests[] = {
		TEST(payloads),
		TEST(messages),
		TEST(all_at_once),
		TEST(descriptor),
		TEST(a_payload_without_a_receive),
		TEST(a_payload_that_is_too_long),
		TEST(a_payload_twice),
		TEST(a_description_for_a_receiver),
		TEST(silence),
		TEST(fence),
		TEST(peers_that_do_not_fit),
		TEST(different_mtus),
		cmocka_unit_test(no_such_interface),
		COMM_TEST(taken_back_in_use),
		COMM_TEST(sockets_that_a_child_has),
		COMM_TEST(class_of_a_communicator),
		COMM_TEST(threads_run_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
