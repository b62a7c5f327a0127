/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/*
 * When a communicator acknowledges its results to the switch, which thread wakes up for that, how
 * many system calls an acknowledgement costs, and which channel reports that it waits. A real group
 * and communicator run between a fake controller and a fake switch.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "lib/base/thread.h"
#include "lib/channel/soft_priv.h"
#include "selftests/hostlib/fixture_rank.h"

static bool told(struct inccl_communicator *comm)
{
	return endpoint_stats(comm->ep).acks_sent;
}

/* Makes the endpoint assume that collectives take no time, however slow the machine is. So it holds
 * the ACK of the next result back, to acknowledge more results with it. */
static void in_a_hurry(struct inccl_communicator *comm)
{
	pthread_mutex_lock(&comm->lock);
	endpoint_channel(comm->ep)->mirror->took_ns = 0;
	pthread_mutex_unlock(&comm->lock);
}

/* Runs one collective with the single packet r. The switch returns the contribution. Sets *pkt to
 * the packet. */
static void collective(struct rank_fixture *fx, struct inc_roce_packet *pkt, unsigned int r)
{
	struct inccl_request *req;

	in_a_hurry(fx->comm);
	req = rank_start(fx, 0);
	rank_receive(fx, pkt, r);
	rc_peer_mirror(&fx->peer, pkt, r, pkt->payload);
	assert_int_equal(inccl_wait(req, WAIT_MS), 0);
}

/* Runs one collective, whose caller sleeps until its end. */
static void collective_slept(struct rank_fixture *fx)
{
	struct inc_roce_packet pkt;
	struct waiter t;

	in_a_hurry(fx->comm);
	waiter_start(&t, rank_start(fx, 0));
	rank_receive(fx, &pkt, 0);
	rank_until(fx, waiter_sleeps);
	rc_peer_mirror(&fx->peer, &pkt, 0, pkt.payload);
	pthread_join(t.thread, NULL);
}

/* If the caller does not call again, its last result must be acknowledged nevertheless. That must
 * happen before the communicator's thread takes over, because the switch would retransmit the
 * result otherwise. */
static void last_result_is_acknowledged(void **state)
{
	struct inccl_communicator *comm;
	struct rank_fixture *fx = *state;
	uint64_t ack_at_ns;

	comm = fx->comm;
	collective_slept(fx);
	pthread_mutex_lock(&comm->lock);
	/* a busy machine may have acknowledged the result already */
	ack_at_ns = endpoint_channel(comm->ep)->ack_at_ns;
	assert_true(told(comm) || (ack_at_ns <= inc_now_ns() + INC_ACK_HOLD_NS &&
				   comm->alarm_at_ns == ack_at_ns));
	/* calls that make no progress nevertheless prevent the thread from taking over */
	while (!told(comm)) {
		comm->activity++;
		pthread_mutex_unlock(&comm->lock);
		assert_true(inc_now_ns() < ack_at_ns + WAIT_MS * INC_NSEC_PER_MSEC);
		poll(NULL, 0, 1);
		pthread_mutex_lock(&comm->lock);
	}
	pthread_mutex_unlock(&comm->lock);
	rank_receive_ack(fx, 0);
}

/* Destroying a communicator acknowledges its results at once. */
static void destruction_acknowledges(void **state)
{
	struct rank_fixture *fx = *state;

	collective_slept(fx);
	pthread_mutex_lock(&fx->comm->lock);
	if (!told(fx->comm))
		endpoint_channel(fx->comm->ep)->ack_at_ns = UINT64_MAX - 1;
	pthread_mutex_unlock(&fx->comm->lock);
	assert_int_equal(inccl_communicator_destroy(fx->comm), 0);
	fx->comm = NULL;
	rank_receive_ack(fx, 0);
}

static void *nothing(void *arg)
{
	return NULL;
}

/* Stops the communicator's thread, for cases about callers alone. An empty thread takes its place,
 * because the end of the communicator joins it. */
static void stop_thread(struct inccl_communicator *comm)
{
	pthread_mutex_lock(&comm->lock);
	comm->stop = true;
	pthread_mutex_unlock(&comm->lock);
	inc_signal_fd(comm->thread_fd);
	pthread_join(comm->thread, NULL);
	assert_int_equal(inc_thread_create(&comm->thread, nothing, NULL), 0);
}

/* The time at which the communicator's thread wakes up; UINT64_MAX: never. */
static uint64_t alarm_ns(struct inccl_communicator *comm)
{
	struct itimerspec left;
	bool runs;

	assert_int_equal(timerfd_gettime(comm->alarm_fd, &left), 0);
	runs = left.it_value.tv_sec || left.it_value.tv_nsec;
	if (comm->alarm_at_ns == UINT64_MAX)
		assert_false(runs);
	else
		assert_true(runs || comm->alarm_at_ns <= inc_now_ns());
	return comm->alarm_at_ns;
}

/* Counts the system calls of small collectives. Each needs one call to send and one to receive, if
 * the result has arrived already. 32 collectives share one ACK and one alarm. The alarm is set
 * exactly while some results are not acknowledged. */
static void small_collectives_cost(void **state)
{
	struct inccl_transport_stats stats;
	struct inccl_communicator *comm;
	/* number of calls before, because the thread may already have received */
	uint64_t recv_calls;
	const uint64_t never_ns = UINT64_MAX / 2;
	struct rank_fixture *fx = *state;
	struct inc_roce_packet pkt;
	unsigned int i;

	comm = fx->comm;
	stop_thread(comm);
	recv_calls = endpoint_stats(comm->ep).recv_calls;
	assert_true(alarm_ns(comm) == UINT64_MAX);
	for (i = 0; i < 2 * INC_ACK_EVERY; i++) {
		collective(fx, &pkt, i);
		assert_true(alarm_ns(comm) == endpoint_channel(comm->ep)->ack_at_ns);
		if (i % INC_ACK_EVERY == 0) {
			assert_true(endpoint_channel(comm->ep)->ack_at_ns <=
				    inc_now_ns() + INC_ACK_HOLD_NS);
			/* far in the future, so that even a slow machine does not reach this
			 * time */
			endpoint_channel(comm->ep)->ack_at_ns = never_ns;
		}
		if (i % INC_ACK_EVERY == INC_ACK_EVERY - 1)
			rank_receive_ack(fx, i);
	}
	assert_true(alarm_ns(comm) == UINT64_MAX);
	stats = endpoint_stats(comm->ep);
	assert_int_equal(stats.acks_sent, 2);
	assert_int_equal(stats.send_calls, 2 * INC_ACK_EVERY + 2);
	assert_int_equal(stats.recv_calls - recv_calls, 2 * INC_ACK_EVERY);
}

/* If a caller leaves while a collective is in flight, the communicator's thread takes over soon,
 * however late its next regular look is. After that the alarm for the next look stays set. */
static void collective_in_flight_is_served(void **state)
{
	struct inccl_communicator *comm;
	struct rank_fixture *fx = *state;
	struct inccl_request *req;
	struct inc_roce_packet pkt;
	uint64_t at_ns;

	comm = fx->comm;
	stop_thread(comm);
	comm->look_at_ns = UINT64_MAX;
	req = rank_start(fx, 0);
	at_ns = alarm_ns(comm);
	/* TAKE_OVER_NS (progress.c) plus a margin */
	assert_true(at_ns <= inc_now_ns() + 5 * INC_NSEC_PER_MSEC);
	rank_receive(fx, &pkt, 0);
	rc_peer_mirror(&fx->peer, &pkt, 0, pkt.payload);
	assert_int_equal(inccl_wait(req, WAIT_MS), 0);
	rank_receive_ack(fx, 0);
	assert_true(comm->alarm_at_ns == at_ns);
}

/* A result is acknowledged, too, if a caller finds it by inccl_test(). */
static void polled_result_is_acknowledged(void **state)
{
	uint64_t end_ns = deadline_after_ms(WAIT_MS);
	struct inccl_communicator *comm;
	struct rank_fixture *fx = *state;
	struct inccl_request *req;
	struct inc_roce_packet pkt;
	int ret;

	comm = fx->comm;
	stop_thread(comm);
	in_a_hurry(comm);
	req = rank_start(fx, 0);
	rank_receive(fx, &pkt, 0);
	rc_peer_mirror(&fx->peer, &pkt, 0, pkt.payload);
	while ((ret = inccl_test(req)) == -EAGAIN)
		assert_true(inc_now_ns() < end_ns);
	assert_int_equal(ret, 0);
	assert_false(told(comm));
	assert_true(alarm_ns(comm) == endpoint_channel(comm->ep)->ack_at_ns);
}

/* A collective may be finished before its call begins to wait, because the progress of an earlier
 * call has brought its result. The result must be acknowledged although no call waits for it. */
static void result_of_another_call_is_acknowledged(void **state)
{
	struct inccl_communicator *comm;
	struct rank_fixture *fx = *state;
	struct inc_roce_packet pkt, next;
	struct inccl_request *req;
	unsigned int i;

	comm = fx->comm;
	stop_thread(comm);
	collective(fx, &pkt, 0);
	in_a_hurry(comm);
	req = rank_start(fx, 0);
	rank_receive(fx, &pkt, 1);
	/* These packets fill one receive call. The next receive call finds both results, after the
	 * second contribution has been sent. */
	for (i = 0; i < INC_UDP_RECVS; i++)
		rc_peer_mirror(&fx->peer, &pkt, 0, pkt.payload);
	next = pkt;
	next.imm++;
	next.rkey++;
	rc_peer_mirror(&fx->peer, &pkt, 1, pkt.payload);
	rc_peer_mirror(&fx->peer, &next, 2, pkt.payload);
	assert_int_equal(
		inccl_allreduce(comm, fx->data[1], fx->data[1], 4, INCCL_INT32, INCCL_SUM, NULL),
		0);
	assert_true(endpoint_channel(comm->ep)->ack_at_ns != UINT64_MAX);
	assert_true(alarm_ns(comm) == endpoint_channel(comm->ep)->ack_at_ns);
	assert_int_equal(inccl_wait(req, WAIT_MS), 0);
}

/* While a caller polls for a collective in flight, each alarm that expires is set again. */
static void alarm_follows_alarm(void **state)
{
	uint64_t end_ns = deadline_after_ms(WAIT_MS), first_ns, at_ns;
	struct inccl_communicator *comm;
	struct rank_fixture *fx = *state;
	struct inccl_request *req;

	comm = fx->comm;
	pthread_mutex_lock(&comm->lock);
	comm->look_at_ns = UINT64_MAX;
	pthread_mutex_unlock(&comm->lock);
	req = rank_start(fx, 0);
	pthread_mutex_lock(&comm->lock);
	first_ns = comm->alarm_at_ns;
	pthread_mutex_unlock(&comm->lock);
	do {
		assert_true(inc_now_ns() < end_ns);
		poll(NULL, 0, 1);
		pthread_mutex_lock(&comm->lock);
		comm->look_at_ns = UINT64_MAX;
		pthread_mutex_unlock(&comm->lock);
		assert_int_equal(inccl_test(req), -EAGAIN);
		pthread_mutex_lock(&comm->lock);
		at_ns = comm->alarm_at_ns;
		pthread_mutex_unlock(&comm->lock);
	} while (at_ns == first_ns || at_ns == UINT64_MAX);
}

/* While calls leave no collective in flight, the communicator's thread looks for packets rarely.
 * Once it finds a collective in flight, it looks as often as it would take over. */
static void looks_as_needed(void **state)
{
	uint64_t end_ns = deadline_after_ms(WAIT_MS), look_at_ns;
	struct inccl_communicator *comm;
	struct rank_fixture *fx = *state;
	bool seldom, looked, soon;

	comm = fx->comm;
	do {
		assert_true(inc_now_ns() < end_ns);
		poll(NULL, 0, 1);
		pthread_mutex_lock(&comm->lock);
		inccl_comm_enter(comm);
		seldom = comm->look_at_ns > inc_now_ns() + 8 * INC_NSEC_PER_MSEC;
		pthread_mutex_unlock(&comm->lock);
	} while (!seldom);
	rank_start(fx, 0);
	pthread_mutex_lock(&comm->lock);
	look_at_ns = comm->look_at_ns;
	pthread_mutex_unlock(&comm->lock);
	do {
		assert_true(inc_now_ns() < end_ns);
		poll(NULL, 0, 1);
		pthread_mutex_lock(&comm->lock);
		looked = comm->look_at_ns != look_at_ns || comm->driver == DRIVER_THREAD;
		soon = comm->look_at_ns == look_at_ns ||
		       comm->look_at_ns <= inc_now_ns() + 5 * INC_NSEC_PER_MSEC;
		pthread_mutex_unlock(&comm->lock);
		assert_true(soon);
	} while (!looked);
}

/* A failed communicator acknowledges nothing, and sets no alarm, because such an alarm would expire
 * at once, again and again. */
static void no_alarm_after_a_failure(void **state)
{
	struct inccl_communicator *comm;
	struct rank_fixture *fx = *state;
	struct inc_roce_packet pkt;

	comm = fx->comm;
	stop_thread(comm);
	collective(fx, &pkt, 0);
	assert_true(alarm_ns(comm) == endpoint_channel(comm->ep)->ack_at_ns && !told(comm));
	inccl_comm_fail(comm, EIO, 0, "that was it");
	pthread_mutex_lock(&comm->lock);
	inccl_comm_leave(comm);
	pthread_mutex_unlock(&comm->lock);
	assert_true(alarm_ns(comm) == UINT64_MAX);
}

/* While no collective is in flight and all results are acknowledged, no thread wakes up. */
static void no_wake_up_while_idle(void **state)
{
	struct rank_fixture *fx = *state;
	struct inc_roce_packet pkt;
	uint64_t before_ns, after_ns, end_ns;
	clockid_t clock;

	collective(fx, &pkt, 0);
	rank_receive_ack(fx, 0);
	rank_until(fx, thread_drives);
	assert_int_equal(pthread_getcpuclockid(fx->comm->thread, &clock), 0);
	/* waits until the communicator's thread sleeps */
	end_ns = deadline_after_ms(WAIT_MS);
	do {
		assert_true(inc_now_ns() < end_ns);
		before_ns = inc_clock_ns(clock);
		poll(NULL, 0, 50);
		after_ns = inc_clock_ns(clock);
	} while (before_ns != after_ns);
}

static bool reported_a_wait(struct inccl_communicator *comm)
{
	return comm->wait_reports;
}

/* Makes the communicator a further channel of `lead`, or channel 0 again, and makes its request
 * older than the limit after which it reports that it waits. */
static void wait_as(struct rank_fixture *fx, struct inccl_communicator *lead)
{
	const uint64_t age_ns = (INC_WAIT_FIRST_MS + 1000) * INC_NSEC_PER_MSEC;

	pthread_mutex_lock(&fx->comm->lock);
	fx->comm->lead = lead;
	fx->comm->result_at_ns = 0;
	if (fx->comm->head)
		fx->comm->head->begun_at_ns -= age_ns;
	pthread_mutex_unlock(&fx->comm->lock);
	inc_signal_fd(fx->comm->wake_fd); /* the thread sleeps for the old limit */
}

/* Lets a further channel wait for too long. Another channel may have logged that it waits, too. */
static void wait_in_a_further_channel(struct rank_fixture *fx, uint64_t logged_at_ns)
{
	struct inccl_communicator lead = {.waited_at_ns = logged_at_ns};
	struct inccl_request *req = rank_start(fx, 0);
	struct inc_roce_packet pkt;

	__atomic_store_n(&fx->curious, true, __ATOMIC_RELEASE);
	rank_receive(fx, &pkt, 0);
	rank_until(fx, thread_drives);
	wait_as(fx, &lead);
	rank_until(fx, reported_a_wait);
	wait_as(fx, NULL);
	rc_peer_mirror(&fx->peer, &pkt, 0, pkt.payload);
	assert_int_equal(inccl_wait(req, WAIT_MS), 0);
}

/* Any channel may be the only one that waits, so each reports its wait. */
static void further_channel_reports_its_wait(void **state)
{
	struct rank_fixture *fx = *state;

	wait_in_a_further_channel(fx, 0);
	while (!__atomic_load_n(&fx->lines, __ATOMIC_ACQUIRE))
		poll(NULL, 0, 1);
}

static void channels_report_one_wait_once(void **state)
{
	struct rank_fixture *fx = *state;

	wait_in_a_further_channel(fx, inc_now_ns());
	rank_receive_ack(fx, 0);
	assert_int_equal(__atomic_load_n(&fx->lines, __ATOMIC_ACQUIRE), 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, rank_setup, rank_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(last_result_is_acknowledged),
		CASE(destruction_acknowledges),
		CASE(small_collectives_cost),
		CASE(collective_in_flight_is_served),
		CASE(polled_result_is_acknowledged),
		CASE(result_of_another_call_is_acknowledged),
		CASE(alarm_follows_alarm),
		CASE(looks_as_needed),
		CASE(no_alarm_after_a_failure),
		CASE(no_wake_up_while_idle),
		CASE(further_channel_reports_its_wait),
		CASE(channels_report_one_wait_once),
	};

	alarm(LIMIT_S);
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
