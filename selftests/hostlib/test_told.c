/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/*
 * When a communicator tells the switch of its results, who is woken for it, and what that costs in
 * calls: a real group and communicator between a controller and a switch that do what the case
 * wants.
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
#include "hostlib/src/soft.h"
#include "selftests/hostlib/world.h"

static bool told(struct inccl_communicator *comm)
{
	return comm->ep->stats.acks_sent;
}

/* As if collectives took no time, however slow the machine is: the ACK of the next one's result
 * waits for others. */
static void in_a_hurry(struct inccl_communicator *comm)
{
	pthread_mutex_lock(&comm->lock);
	SOFT_EP(comm->ep)->took_ns = 0;
	pthread_mutex_unlock(&comm->lock);
}

/* One collective, a single packet r, which pkt gets; the caller gets back what it gave. */
static void collective(struct world *w, struct inc_roce_packet *pkt, unsigned int r)
{
	struct inccl_request *req;

	in_a_hurry(w->comm);
	req = world_start(w, 0);
	world_hear(w, pkt, r);
	peer_mirror(&w->peer, pkt, r, pkt->payload);
	assert_int_equal(inccl_wait(req, WAIT_MS), 0);
}

/* The same, with a caller that sleeps until then. */
static void collective_slept(struct world *w)
{
	struct inc_roce_packet pkt;
	struct waiter t;

	in_a_hurry(w->comm);
	waiter_start(&t, world_start(w, 0));
	world_hear(w, &pkt, 0);
	world_until(w, waiter_sleeps);
	peer_mirror(&w->peer, &pkt, 0, pkt.payload);
	pthread_join(t.thread, NULL);
}

/* The last result of a caller that does not call again is acknowledged nevertheless, and not
 * as late as the thread takes over: the switch would have paid what it owes by itself. */
static void last_result_is_told(void **state)
{
	struct inccl_communicator *comm;
	struct world *w = *state;
	uint64_t tell_at_ns;

	comm = w->comm;
	collective_slept(w);
	pthread_mutex_lock(&comm->lock);
	/* a machine that was busy for so long has told it */
	tell_at_ns = comm->ep->tell_at_ns;
	assert_true(told(comm) || (tell_at_ns <= inc_now_ns() + INC_ACK_HOLD_NS &&
				   comm->alarm_at_ns == tell_at_ns));
	/* calls that do not serve keep the thread from taking over */
	while (!told(comm)) {
		comm->activity++;
		pthread_mutex_unlock(&comm->lock);
		assert_true(inc_now_ns() < tell_at_ns + WAIT_MS * INC_NSEC_PER_MSEC);
		poll(NULL, 0, 1);
		pthread_mutex_lock(&comm->lock);
	}
	pthread_mutex_unlock(&comm->lock);
	world_hear_ack(w, 0);
}

/* Who ends a communicator does not wait with it. */
static void end_is_told(void **state)
{
	struct world *w = *state;

	collective_slept(w);
	pthread_mutex_lock(&w->comm->lock);
	if (!told(w->comm))
		w->comm->ep->tell_at_ns = UINT64_MAX - 1;
	pthread_mutex_unlock(&w->comm->lock);
	assert_int_equal(inccl_communicator_destroy(w->comm), 0);
	w->comm = NULL;
	world_hear_ack(w, 0);
}

static void *nothing(void *arg)
{
	return NULL;
}

/* The case is about the callers alone. What is joined at the end is a thread that does nothing. */
static void stop_thread(struct inccl_communicator *comm)
{
	pthread_mutex_lock(&comm->lock);
	comm->stop = true;
	pthread_mutex_unlock(&comm->lock);
	inc_signal_fd(comm->thread_fd);
	pthread_join(comm->thread, NULL);
	assert_int_equal(inc_thread_create(&comm->thread, nothing, NULL), 0);
}

/* When the thread is to be woken, UINT64_MAX: never. */
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

/* What a small collective costs: one call to send it, one to take its result in where that is there
 * already, and of an ACK and of the thread's alarm a 32nd part. The alarm runs while results are
 * there that the switch has not been told of, and at no other time. */
static void small_collectives_cost(void **state)
{
	const struct inccl_transport_stats *stats;
	struct inccl_communicator *comm;
	uint64_t recv_calls; /* before: the thread may have driven already */
	const uint64_t never_ns = UINT64_MAX / 2;
	struct world *w = *state;
	struct inc_roce_packet pkt;
	unsigned int i;

	comm = w->comm;
	stats = &comm->ep->stats;
	stop_thread(comm);
	recv_calls = stats->recv_calls;
	assert_true(alarm_ns(comm) == UINT64_MAX);
	for (i = 0; i < 2 * INC_ACK_EVERY; i++) {
		collective(w, &pkt, i);
		assert_true(alarm_ns(comm) == comm->ep->tell_at_ns);
		if (i % INC_ACK_EVERY == 0) {
			assert_true(comm->ep->tell_at_ns <= inc_now_ns() + INC_ACK_HOLD_NS);
			/* a slow machine is as fast as any */
			comm->ep->tell_at_ns = never_ns;
		}
		if (i % INC_ACK_EVERY == INC_ACK_EVERY - 1)
			world_hear_ack(w, i);
	}
	assert_true(alarm_ns(comm) == UINT64_MAX);
	assert_int_equal(stats->acks_sent, 2);
	assert_int_equal(stats->send_calls, 2 * INC_ACK_EVERY + 2);
	assert_int_equal(stats->recv_calls - recv_calls, 2 * INC_ACK_EVERY);
}

/* Who leaves something under way is relieved soon, however late the thread would look; the alarm
 * for that is left to run. */
static void what_is_under_way_is_served(void **state)
{
	struct inccl_communicator *comm;
	struct world *w = *state;
	struct inccl_request *req;
	struct inc_roce_packet pkt;
	uint64_t at_ns;

	comm = w->comm;
	stop_thread(comm);
	comm->look_at_ns = UINT64_MAX;
	req = world_start(w, 0);
	at_ns = alarm_ns(comm);
	/* TAKE_OVER_NS (progress.c), and some */
	assert_true(at_ns <= inc_now_ns() + 5 * INC_NSEC_PER_MSEC);
	world_hear(w, &pkt, 0);
	peer_mirror(&w->peer, &pkt, 0, pkt.payload);
	assert_int_equal(inccl_wait(req, WAIT_MS), 0);
	world_hear_ack(w, 0);
	assert_true(comm->alarm_at_ns == at_ns);
}

/* Who polls for the end is told for, too, when it has come. */
static void polled_is_told(void **state)
{
	uint64_t end_ns = deadline_after_ms(WAIT_MS);
	struct inccl_communicator *comm;
	struct world *w = *state;
	struct inccl_request *req;
	struct inc_roce_packet pkt;
	int ret;

	comm = w->comm;
	stop_thread(comm);
	in_a_hurry(comm);
	req = world_start(w, 0);
	world_hear(w, &pkt, 0);
	peer_mirror(&w->peer, &pkt, 0, pkt.payload);
	while ((ret = inccl_test(req)) == -EAGAIN)
		assert_true(inc_now_ns() < end_ns);
	assert_int_equal(ret, 0);
	assert_false(told(comm));
	assert_true(alarm_ns(comm) == comm->ep->tell_at_ns);
}

/* A call whose end is there as it begins, for what was under way before brought it along: nobody
 * waits, and yet its result is told. */
static void found_ended_is_told(void **state)
{
	struct inccl_communicator *comm;
	struct world *w = *state;
	struct inc_roce_packet pkt, next;
	struct inccl_request *req;
	unsigned int i;

	comm = w->comm;
	stop_thread(comm);
	collective(w, &pkt, 0);
	in_a_hurry(comm);
	req = world_start(w, 0);
	world_hear(w, &pkt, 1);
	/* what one call receives; the call after it finds both results, and the second one's
	 * contribution has been sent in between */
	for (i = 0; i < INC_UDP_RECVS; i++)
		peer_mirror(&w->peer, &pkt, 0, pkt.payload);
	next = pkt;
	next.imm++;
	next.rkey++;
	peer_mirror(&w->peer, &pkt, 1, pkt.payload);
	peer_mirror(&w->peer, &next, 2, pkt.payload);
	assert_int_equal(
		inccl_allreduce(comm, w->data[1], w->data[1], 4, INCCL_INT32, INCCL_SUM, NULL), 0);
	assert_true(comm->ep->tell_at_ns != UINT64_MAX);
	assert_true(alarm_ns(comm) == comm->ep->tell_at_ns);
	assert_int_equal(inccl_wait(req, WAIT_MS), 0);
}

/* While the caller polls for what is under way, each alarm that went off is followed by one. */
static void alarm_follows_alarm(void **state)
{
	uint64_t end_ns = deadline_after_ms(WAIT_MS), first_ns, at_ns;
	struct inccl_communicator *comm;
	struct world *w = *state;
	struct inccl_request *req;

	comm = w->comm;
	pthread_mutex_lock(&comm->lock);
	comm->look_at_ns = UINT64_MAX;
	pthread_mutex_unlock(&comm->lock);
	req = world_start(w, 0);
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

/* However seldom the thread has looked while calls left nothing behind: from its first look at
 * something under way it looks as often as it takes over. */
static void looks_as_needed(void **state)
{
	uint64_t end_ns = deadline_after_ms(WAIT_MS), look_at_ns;
	struct inccl_communicator *comm;
	struct world *w = *state;
	bool seldom, looked, soon;

	comm = w->comm;
	do {
		assert_true(inc_now_ns() < end_ns);
		poll(NULL, 0, 1);
		pthread_mutex_lock(&comm->lock);
		inccl_comm_enter(comm);
		seldom = comm->look_at_ns > inc_now_ns() + 8 * INC_NSEC_PER_MSEC;
		pthread_mutex_unlock(&comm->lock);
	} while (!seldom);
	world_start(w, 0);
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

/* Of what has failed nobody is told: an alarm for it would go off at once, again and again. */
static void failed_wakes_nobody(void **state)
{
	struct inccl_communicator *comm;
	struct world *w = *state;
	struct inc_roce_packet pkt;

	comm = w->comm;
	stop_thread(comm);
	collective(w, &pkt, 0);
	assert_true(alarm_ns(comm) == comm->ep->tell_at_ns && !told(comm));
	inccl_comm_fail(comm, EIO, 0, "that was it");
	pthread_mutex_lock(&comm->lock);
	inccl_comm_leave(comm);
	pthread_mutex_unlock(&comm->lock);
	assert_true(alarm_ns(comm) == UINT64_MAX);
}

/* While nothing is under way and the switch has been told of everything, nobody is woken. */
static void idle_wakes_nobody(void **state)
{
	struct world *w = *state;
	struct inc_roce_packet pkt;
	struct timespec before, after;
	uint64_t end_ns;
	clockid_t clock;

	collective(w, &pkt, 0);
	world_hear_ack(w, 0);
	world_until(w, thread_drives);
	assert_int_equal(pthread_getcpuclockid(w->comm->thread, &clock), 0);
	/* until it has fallen asleep */
	end_ns = deadline_after_ms(WAIT_MS);
	do {
		assert_true(inc_now_ns() < end_ns);
		assert_int_equal(clock_gettime(clock, &before), 0);
		poll(NULL, 0, 50);
		assert_int_equal(clock_gettime(clock, &after), 0);
	} while (before.tv_sec != after.tv_sec || before.tv_nsec != after.tv_nsec);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(last_result_is_told),    CASE(end_is_told),
		CASE(small_collectives_cost), CASE(what_is_under_way_is_served),
		CASE(polled_is_told),         CASE(found_ended_is_told),
		CASE(alarm_follows_alarm),    CASE(looks_as_needed),
		CASE(failed_wakes_nobody),    CASE(idle_wakes_nobody),
	};

	alarm(LIMIT_S);
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
