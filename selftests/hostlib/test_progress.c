/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The progress of a communicator: which thread makes it, and when callers get results and errors. A
 * real group and communicator run between a fake controller and a fake switch.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "lib/base/thread.h"
#include "selftests/hostlib/fixture_rank.h"

/* WATCHED: the program has a sanitizer, which loses track of a thread that is cancelled in an
 * intercepted call. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WATCHED true
#else
#define WATCHED false
#endif

static const char NOTICE[] =
	"{\"type\":\"failed\",\"group\":7,\"communicator\":12,\"rank\":2,\"errno\":\"EREMOTEIO\","
	"\"message\":\"rank 2 called a barrier\"}\n";
static const char GROUP_NOTICE[] = "{\"type\":\"failed\",\"group\":7,\"rank\":3,\"errno\":"
				   "\"ECONNRESET\",\"message\":\"rank 3 left the group\"}\n";

static bool in_grace(struct inccl_communicator *comm)
{
	return comm->grace_error;
}

static bool two_wait(struct inccl_communicator *comm)
{
	return waiter_sleeps(comm) && comm->waiters == 2;
}

static bool acknowledged(struct inccl_communicator *comm)
{
	return endpoint_stats(comm->ep).acks_received;
}

/* The switch sends NAK 63. The controller names the responsible rank a moment later, and the error
 * of the call must name that rank. */
static void notice_names_the_rank_in_time(void **state)
{
	struct rank_fixture *fx = *state;
	struct inc_roce_packet pkt;
	struct waiter t;

	waiter_start(&t, rank_start(fx, 0));
	rank_receive(fx, &pkt, 0);
	rc_peer_ack(&fx->peer, INC_AETH_NAK_OPERATION, pkt.psn);
	rank_until(fx, in_grace);
	fake_controller_send(&fx->controller, NOTICE);
	pthread_join(t.thread, NULL);
	assert_int_equal(t.result, -EREMOTEIO);
	assert_string_equal(inccl_communicator_error(fx->comm), "rank 2 called a barrier");
	assert_int_equal(inccl_communicator_failed_rank(fx->comm), 2);
}

static void notice_reaches_the_thread_in_time(void **state)
{
	struct rank_fixture *fx = *state;
	struct inccl_request *req = rank_start(fx, 0);
	struct inc_roce_packet pkt;

	rank_receive(fx, &pkt, 0);
	rank_until(fx, thread_drives);
	rc_peer_ack(&fx->peer, INC_AETH_NAK_OPERATION, pkt.psn);
	rank_until(fx, in_grace);
	fake_controller_send(&fx->controller, NOTICE);
	assert_int_equal(inccl_wait(req, WAIT_MS), -EREMOTEIO);
	assert_string_equal(inccl_communicator_error(fx->comm), "rank 2 called a barrier");
}

static unsigned int gave_way;

static void count_ways(void)
{
	__atomic_add_fetch(&gave_way, 1, __ATOMIC_SEQ_CST);
	inc_os_kernel.wait.give_way();
}

/* A waiter polls before it sleeps, unless the setting is 0. */
static void polls_before_it_sleeps(void **state)
{
	struct rank_fixture *fx = *state;
	struct inc_roce_packet pkt;
	struct waiter t[2];
	unsigned int i;

	inc_os.wait.give_way = count_ways;
	for (i = 0; i < 2; i++) {
		gave_way = 0;
		inc_spin_init(&fx->comm->spin, i ? 0 : 1000 * INC_NSEC_PER_USEC);
		waiter_start(&t[i], rank_start(fx, i));
		rank_receive(fx, &pkt, i);
		rank_until(fx, waiter_sleeps);
		assert_int_equal(!gave_way, i);
		rc_peer_mirror(&fx->peer, &pkt, i, fx->data[i]);
		pthread_join(t[i].thread, NULL);
		assert_int_equal(t[i].result, 0);
		rank_receive_ack(fx, i);
	}
	inc_os.wait.give_way = inc_os_kernel.wait.give_way;
}

static uint64_t cpu_ns(void)
{
	return inc_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

static void no_busy_loop_without_a_notice(void **state)
{
	struct rank_fixture *fx = *state;
	struct inc_roce_packet pkt;
	struct waiter t;
	uint64_t cpu = cpu_ns();

	waiter_start(&t, rank_start(fx, 0));
	rank_receive(fx, &pkt, 0);
	rc_peer_ack(&fx->peer, INC_AETH_NAK_OPERATION, pkt.psn);
	pthread_join(t.thread, NULL);
	assert_int_equal(t.result, -EREMOTEIO);
	assert_non_null(strstr(inccl_communicator_error(fx->comm), "NAK 63"));
	assert_true(cpu_ns() - cpu < NOTICE_GRACE_MS / 5 * INC_NSEC_PER_MSEC);
}

/* The controller is lost while a collective has already waited long for a slow rank. */
static void slow_rank_then_no_controller(void **state)
{
	struct rank_fixture *fx = *state;
	struct inccl_request *req = rank_start(fx, 0);
	struct inc_roce_packet pkt;
	uint64_t end = deadline_after_ms(WAIT_MS);

	rank_receive(fx, &pkt, 0);
	rc_peer_ack(&fx->peer, INC_AETH_ACK, pkt.psn);
	rank_until(fx, acknowledged);
	pthread_mutex_lock(&fx->comm->lock);
	fx->comm->moved_at_ns -= (ORPHAN_TIMEOUT_MS + 1000) * INC_NSEC_PER_MSEC;
	pthread_mutex_unlock(&fx->comm->lock);
	fake_controller_hang_up(&fx->controller);
	while (!inccl_group_error(fx->group)) {
		assert_true(inc_now_ns() < end);
		poll(NULL, 0, 1);
	}
	assert_int_equal(inccl_wait(req, 100), -EAGAIN);
	/* the slow rank arrives after all */
	rc_peer_mirror(&fx->peer, &pkt, 0, pkt.payload);
	assert_int_equal(inccl_wait(req, WAIT_MS), 0);

	/* the rank's next contribution never arrives, so the collective fails a fixed time after
	 * the loss of the controller */
	req = rank_start(fx, 1);
	pthread_mutex_lock(&fx->comm->lock);
	fx->comm->moved_at_ns -= (ORPHAN_TIMEOUT_MS + 1000) * INC_NSEC_PER_MSEC;
	fx->comm->orphan_at_ns -= (ORPHAN_TIMEOUT_MS + 1000) * INC_NSEC_PER_MSEC;
	pthread_mutex_unlock(&fx->comm->lock);
	assert_int_equal(inccl_wait(req, WAIT_MS), -ETIMEDOUT);
	assert_non_null(strstr(inccl_communicator_error(fx->comm), "the controller is gone"));
}

static void until_logged(struct rank_fixture *fx)
{
	uint64_t end = deadline_after_ms(WAIT_MS);

	while (!__atomic_load_n(&fx->lines, __ATOMIC_ACQUIRE)) {
		assert_true(inc_now_ns() < end);
		poll(NULL, 0, 1);
	}
}

static void log_asks_for_the_error(void **state)
{
	struct rank_fixture *fx = *state;
	struct inc_roce_packet pkt;
	struct waiter t;

	__atomic_store_n(&fx->curious, true, __ATOMIC_RELEASE);
	/* this communicator ignores another communicator's failure */
	fake_controller_send(&fx->controller,
			     "{\"type\":\"failed\",\"communicator\":13,\"errno\":\"EIO\"}\n"
			     "{\"type\":\"error\",\"errno\":\"EINVAL\",\"message\":\"what?\"}\n");
	until_logged(fx);
	assert_string_equal(fx->seen, "");
	waiter_start(&t, rank_start(fx, 0));
	rank_receive(fx, &pkt, 0);
	__atomic_store_n(&fx->lines, 0, __ATOMIC_RELEASE);
	fake_controller_send(&fx->controller, NOTICE);
	pthread_join(t.thread, NULL);
	until_logged(fx);
	assert_string_equal(fx->seen, "rank 2 called a barrier");
	__atomic_store_n(&fx->lines, 0, __ATOMIC_RELEASE);
	fake_controller_send(&fx->controller, GROUP_NOTICE);
	until_logged(fx);
	assert_string_equal(fx->seen_group, "rank 3 left the group");
}

/* The log is called for an error that the caller's own thread finds, too. */
static void log_of_a_caller(void **state)
{
	struct rank_fixture *fx = *state;
	struct inccl_request *req;

	pthread_mutex_lock(&fx->comm->lock);
	__atomic_store_n(&fx->curious, true, __ATOMIC_RELEASE);
	fx->comm->timeout_ns = 50 * INC_NSEC_PER_MSEC;
	pthread_mutex_unlock(&fx->comm->lock);
	req = rank_start(fx, 0);
	assert_int_equal(inccl_wait(req, -1), -ETIMEDOUT);
	until_logged(fx);
	assert_non_null(strstr(fx->seen, "not acknowledged"));
}

/* In network order, elements are big endian on the wire but not in memory. The send buffer is
 * unchanged, even if the collective cannot start. */
static void network_order(void **state)
{
	static const int32_t given[4] = {1, -2, 0x01020304, 5};
	const int32_t sum[4] = {htonl(7), htonl(-8), htonl(0x0a0b0c0d), htonl(0)};
	struct rank_fixture *fx = *state;
	unsigned int round;

	assert_non_null(strstr(fx->controller.received, "\"byte_order\":\"network\""));
	for (round = 0; round < 4; round++) {
		INCCL_OPTS(inccl_collective_opts, opts,
			   .mode = round / 2 ? INCCL_MODE_WRITE : INCCL_MODE_SENDRECV);
		int32_t *send = fx->data[0], *recv = fx->data[round % 2];
		struct inccl_request *req;
		struct inc_roce_packet pkt;
		unsigned int i;

		memcpy(send, given, sizeof(given));
		assert_int_equal(inccl_allreduce_start(fx->comm, send, recv, 4, INCCL_INT32,
						       INCCL_SUM, &opts, &req),
				 0);
		do
			assert_true(rc_peer_receive(&fx->peer, &pkt, WAIT_MS));
		while (pkt.opcode == INC_OP_ACK);
		assert_int_equal(pkt.len, sizeof(given));
		for (i = 0; i < 4; i++) {
			int32_t v;

			memcpy(&v, pkt.payload + 4 * i, 4);
			assert_int_equal((int32_t)ntohl(v), given[i]);
		}
		rc_peer_mirror(&fx->peer, &pkt, round, sum);
		assert_int_equal(inccl_wait(req, WAIT_MS), 0);
		for (i = 0; i < 4; i++)
			assert_int_equal(recv[i], (int32_t)ntohl(sum[i]));
		if (send != recv)
			assert_memory_equal(send, given, sizeof(given));
	}
	fake_controller_send(&fx->controller, NOTICE);
	while (!inccl_communicator_error(fx->comm))
		poll(NULL, 0, 1);
	memcpy(fx->data[0], given, sizeof(given));
	assert_int_equal(inccl_allreduce(fx->comm, fx->data[0], fx->data[0], 4, INCCL_INT32,
					 INCCL_SUM, NULL),
			 -EREMOTEIO);
	assert_memory_equal(fx->data[0], given, sizeof(given));
}

/* Elements of every size are byte-swapped, also if the last ones do not fill a word. */
static void network_order_sizes(void **state)
{
	static const enum inccl_dtype types[] = {INCCL_UINT8, INCCL_INT16, INCCL_UINT32,
						 INCCL_INT64};
	struct rank_fixture *fx = *state;
	unsigned int round, i;

	for (round = 0; round < 8; round++) {
		enum inccl_dtype type = types[round / 2];
		size_t size = inccl_dtype_size(type), count = 15 / size, len = count * size;
		uint8_t *send = (uint8_t *)fx->data[0], *recv = (uint8_t *)fx->data[round % 2];
		uint8_t result[15];
		struct inccl_request *req;
		struct inc_roce_packet pkt;

		for (i = 0; i < sizeof(fx->data[0]); i++)
			send[i] = recv[i] = i + 1;
		assert_int_equal(inccl_allreduce_start(fx->comm, send, recv, count, type, INCCL_MAX,
						       NULL, &req),
				 0);
		do
			assert_true(rc_peer_receive(&fx->peer, &pkt, WAIT_MS));
		while (pkt.opcode == INC_OP_ACK);
		assert_int_equal(pkt.len, len);
		for (i = 0; i < len; i++) {
			/* each byte is at the mirrored place in its element */
			assert_int_equal(pkt.payload[i], (i ^ (size - 1)) + 1);
			result[i] = 100 + (i ^ (size - 1));
		}
		rc_peer_mirror(&fx->peer, &pkt, round, result);
		assert_int_equal(inccl_wait(req, WAIT_MS), 0);
		for (i = 0; i < sizeof(fx->data[0]); i++) {
			assert_int_equal(recv[i], i < len ? 100 + i : i + 1);
			if (send != recv)
				assert_int_equal(send[i], i + 1);
		}
	}
}

static void join_cancelled(struct waiter *t)
{
	void *result;

	assert_int_equal(pthread_cancel(t->thread), 0);
	assert_int_equal(pthread_join(t->thread, &result), 0);
	assert_ptr_equal(result, PTHREAD_CANCELED);
}

static void cancelled_while_it_serves(void **state)
{
	struct rank_fixture *fx = *state;
	struct inc_roce_packet pkt;
	struct waiter t;

	waiter_start(&t, rank_start(fx, 0));
	rank_receive(fx, &pkt, 0);
	rank_until(fx, waiter_sleeps);
	join_cancelled(&t);
	rank_until(fx, thread_drives);
	rc_peer_mirror(&fx->peer, &pkt, 0, pkt.payload);
	assert_int_equal(inccl_wait(t.req, WAIT_MS), 0);
}

static void cancelled_beside_another(void **state)
{
	struct rank_fixture *fx = *state;
	struct inc_roce_packet pkt[2];
	struct waiter t[3];

	waiter_start(&t[0], rank_start(fx, 0));
	rank_until(fx, waiter_sleeps);
	waiter_start(&t[1], rank_start(fx, 1));
	rank_receive(fx, &pkt[0], 0);
	rank_receive(fx, &pkt[1], 1);
	rank_until(fx, two_wait);
	/* cancels the thread that waits and does not make progress */
	join_cancelled(&t[1]);
	/* cancels the thread that makes progress, while the other one waits again */
	waiter_start(&t[2], t[1].req);
	rank_until(fx, two_wait);
	join_cancelled(&t[0]);
	rc_peer_mirror(&fx->peer, &pkt[0], 0, fx->data[0]);
	rc_peer_mirror(&fx->peer, &pkt[1], 1, fx->data[1]);
	pthread_join(t[2].thread, NULL);
	assert_int_equal(t[2].result, 0);
	assert_int_equal(inccl_wait(t[0].req, WAIT_MS), 0);
}

/* A collective that has its own time limit does not wait for the communicator's longer limit. */
static void own_time_limit(void **state)
{
	INCCL_OPTS(inccl_collective_opts, opts, .timeout_ms = 50);
	struct rank_fixture *fx = *state;
	uint64_t begin = inc_now_ns();

	assert_int_equal(inccl_barrier(fx->comm, &opts), -ETIMEDOUT);
	assert_true(inc_now_ns() - begin >= 50 * INC_NSEC_PER_MSEC);
	assert_true(inc_now_ns() - begin < WAIT_MS * INC_NSEC_PER_MSEC);
}

/* A collective's own time limit also works without retransmissions, when no other timer wakes the
 * waiting thread. */
static void own_time_limit_alone(void **state)
{
	INCCL_OPTS(inccl_collective_opts, opts, .timeout_ms = 50);
	struct rank_fixture *fx = *state;
	struct inccl_request *req;
	struct inc_roce_packet pkt;

	assert_int_equal(inccl_barrier_start(fx->comm, &opts, &req), 0);
	rank_receive(fx, &pkt, 0);
	rc_peer_ack(&fx->peer, INC_AETH_ACK, pkt.psn);
	assert_int_equal(inccl_wait(req, -1), -ETIMEDOUT);
}

static bool knows_of_standstill(struct inccl_communicator *comm)
{
	return comm->awake.resumed_at_ns;
}

/* A process stands still for longer than the time limit. Here the reason is that the serving thread
 * cannot get the lock. The process must handle the packets that arrived meanwhile instead of
 * reporting that its switch is silent. */
static void stood_still(void **state)
{
	INCCL_OPTS(inccl_collective_opts, opts, .timeout_ms = 1500);
	const uint64_t longer_ns = 4 * INC_NSEC_PER_SEC;
	struct rank_fixture *fx = *state;
	struct inc_roce_packet pkt;
	struct inccl_request *req;
	struct waiter t;
	uint64_t begin_ns;

	assert_int_equal(inccl_barrier_start(fx->comm, &opts, &req), 0);
	rank_receive(fx, &pkt, 0);
	rc_peer_ack(&fx->peer, INC_AETH_ACK, pkt.psn);
	waiter_start(&t, req);
	rank_until(fx, waiter_sleeps);
	pthread_mutex_lock(&fx->comm->lock);
	begin_ns = inc_now_ns();
	while (inc_now_ns() < begin_ns + longer_ns)
		poll(NULL, 0, 10);
	pthread_mutex_unlock(&fx->comm->lock);
	rank_until(fx, knows_of_standstill);
	rc_peer_mirror(&fx->peer, &pkt, 0, fx->data[0]);
	pthread_join(t.thread, NULL);
	assert_int_equal(t.result, 0);
}

/* Two threads wait, and one of them makes progress for both. Each thread must return when its own
 * request is done. */
static void first_of_two(void **state)
{
	struct rank_fixture *fx = *state;
	struct inc_roce_packet pkt[2];
	struct inccl_request *req;
	struct waiter t[2];

	req = rank_start(fx, 0);
	waiter_start(&t[1], rank_start(fx, 1));
	rank_receive(fx, &pkt[0], 0);
	rank_receive(fx, &pkt[1], 1);
	rank_until(fx, waiter_sleeps);
	waiter_start(&t[0], req);
	rank_until(fx, two_wait);
	rc_peer_mirror(&fx->peer, &pkt[0], 0, fx->data[0]);
	pthread_join(t[0].thread, NULL);
	assert_int_equal(t[0].result, 0);
	rank_until(fx, waiter_sleeps);
	rc_peer_mirror(&fx->peer, &pkt[1], 1, fx->data[1]);
	pthread_join(t[1].thread, NULL);
	assert_int_equal(t[1].result, 0);
}

/* One thread sleeps without a timer. A collective that another thread starts meanwhile must
 * nevertheless be retransmitted in time. */
static void started_beside_a_sleeper(void **state)
{
	struct inccl_request *second;
	struct rank_fixture *fx = *state;
	struct inc_roce_packet pkt[2];
	struct waiter t;

	waiter_start(&t, rank_start(fx, 0));
	rank_receive(fx, &pkt[0], 0);
	rc_peer_ack(&fx->peer, INC_AETH_ACK, pkt[0].psn);
	rank_until(fx, acknowledged);
	rank_until(fx, waiter_sleeps);
	second = rank_start(fx, 1);
	rank_receive(fx, &pkt[1], 1);
	rank_receive(fx, &pkt[1], 1);
	rc_peer_mirror(&fx->peer, &pkt[0], 0, fx->data[0]);
	rc_peer_mirror(&fx->peer, &pkt[1], 1, fx->data[1]);
	pthread_join(t.thread, NULL);
	assert_int_equal(t.result, 0);
	assert_int_equal(inccl_wait(second, WAIT_MS), 0);
}

static struct inccl_communicator *stalled; /* its thread does not wake */
static bool is_stalled;
static uint64_t frozen_ns;

static void stall(void)
{
	struct inccl_communicator *comm;

	while ((comm = __atomic_load_n(&stalled, __ATOMIC_SEQ_CST)) &&
	       pthread_equal(pthread_self(), comm->thread)) {
		__atomic_store_n(&is_stalled, true, __ATOMIC_SEQ_CST);
		poll(NULL, 0, 1);
	}
}

static int stalling_poll(struct pollfd *pfd, unsigned int n, const struct timespec *timeout)
{
	int ret;

	stall();
	ret = inc_os_kernel.wait.poll(pfd, n, timeout);
	stall();
	return ret;
}

static uint64_t frozen_clock(clockid_t clock)
{
	return frozen_ns;
}

/* Starts two collectives at the same time. The packet of the first one is sent. */
static void start_two(struct rank_fixture *fx, unsigned int r, struct inccl_request *req[2],
		      struct inc_roce_packet pkt[2])
{
	frozen_ns = inc_now_ns();
	inc_os.clock_ns = frozen_clock;
	req[0] = rank_start(fx, 0);
	rank_receive(fx, &pkt[0], r);
	req[1] = rank_start(fx, 1);
	inc_os.clock_ns = inc_os_kernel.clock_ns;
	assert_true(fx->comm->unsent_packets);
	assert_false(rc_peer_receive(&fx->peer, &pkt[1], 0));
}

static void finish_two(struct rank_fixture *fx, unsigned int r, struct inccl_request *req[2],
		       struct inc_roce_packet pkt[2])
{
	for (unsigned int i = 0; i < 2; i++)
		rc_peer_mirror(&fx->peer, &pkt[i], r + i, fx->data[i]);
	for (unsigned int i = 0; i < 2; i++)
		assert_int_equal(inccl_wait(req[i], WAIT_MS), 0);
}

/* The packets of collectives that are started in a burst are sent by the next call that makes
 * progress, or soon by the thread. */
static void bursts_share_sends(void **state)
{
	struct rank_fixture *fx = *state;
	struct inc_roce_packet pkt[2];
	struct inccl_request *req[2];

	__atomic_store_n(&stalled, fx->comm, __ATOMIC_SEQ_CST);
	for (; !__atomic_load_n(&is_stalled, __ATOMIC_SEQ_CST); poll(NULL, 0, 1))
		inc_signal_fd(fx->comm->thread_fd); /* the thread may sleep already */
	start_two(fx, 0, req, pkt);
	assert_int_equal(inccl_test(req[1]), -EAGAIN);
	assert_false(fx->comm->unsent_packets);
	rank_receive(fx, &pkt[1], 1);
	finish_two(fx, 0, req, pkt);
	rank_receive_ack(fx, 1);
	start_two(fx, 2, req, pkt);
	__atomic_store_n(&stalled, NULL, __ATOMIC_SEQ_CST);
	rank_receive(fx, &pkt[1], 3);
	finish_two(fx, 2, req, pkt);
}

/* The same right after the thread has driven, which is awake but has not got the lock yet. */
static void burst_beside_the_waking_thread(void **state)
{
	struct rank_fixture *fx = *state;
	struct inc_roce_packet pkt[2];
	struct inccl_request *req[2];

	rank_until(fx, thread_drives);
	__atomic_store_n(&stalled, fx->comm, __ATOMIC_SEQ_CST);
	start_two(fx, 0, req, pkt);
	assert_in_range(fx->comm->alarm_at_ns, frozen_ns, frozen_ns + 100 * INC_NSEC_PER_USEC);
	__atomic_store_n(&stalled, NULL, __ATOMIC_SEQ_CST);
	rank_receive(fx, &pkt[1], 1);
	finish_two(fx, 0, req, pkt);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, rank_setup, rank_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(notice_names_the_rank_in_time),
		CASE(notice_reaches_the_thread_in_time),
		CASE(polls_before_it_sleeps),
		CASE(no_busy_loop_without_a_notice),
		CASE(slow_rank_then_no_controller),
		CASE(log_of_a_caller),
		CASE(log_asks_for_the_error),
		cmocka_unit_test_setup_teardown(network_order, rank_setup_network, rank_teardown),
		cmocka_unit_test_setup_teardown(network_order_sizes, rank_setup_network,
						rank_teardown),
		CASE(own_time_limit),
		CASE(own_time_limit_alone),
		CASE(stood_still),
		CASE(first_of_two),
		CASE(started_beside_a_sleeper),
		CASE(bursts_share_sends),
		CASE(burst_beside_the_waking_thread),
	};
	const struct CMUnitTest cancelling[] = {
		CASE(cancelled_while_it_serves),
		CASE(cancelled_beside_another),
	};
	int failed;

	inc_os.wait.poll = stalling_poll;
	alarm(LIMIT_S);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	if (WATCHED)
		printf("skip cancelled threads: not under this sanitizer\n");
	else
		failed += cmocka_run_group_tests(cancelling, NULL, NULL);
	return failed ? 1 : 0;
}
