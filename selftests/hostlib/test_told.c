/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When a communicator tells the switch of its results: a real group and communicator between a
 * controller and a switch that do what the case wants.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "hostlib/src/soft.h"
#include "selftests/hostlib/world.h"

static bool told(struct inccl_communicator *comm)
{
	return comm->ep->stats.acks_sent;
}

/* The last result of a caller that does not call again is acknowledged nevertheless, and not
 * as late as the thread takes over: the switch would have paid what it owes by itself. */
static void last_result_is_told(void **state)
{
	struct inccl_communicator *comm;
	struct world *w = *state;
	struct inccl_packet pkt;
	struct waiter t;
	uint64_t tell_at_ns;

	comm = w->comm;
	waiter_start(&t, world_start(w, 0));
	world_hear(w, &pkt, 0);
	world_until(w, waiter_sleeps);
	peer_mirror(&w->peer, &pkt, 0, pkt.payload);
	pthread_join(t.thread, NULL);
	pthread_mutex_lock(&comm->lock);
	/* a machine that was busy for so long has told it */
	tell_at_ns = comm->ep->tell_at_ns;
	assert_true(told(comm) || tell_at_ns <= inc_now_ns() + SOFT_ACK_HOLD_NS);
	/* calls that do not serve keep the thread from taking over */
	while (!told(comm)) {
		comm->activity++;
		pthread_mutex_unlock(&comm->lock);
		assert_true(inc_now_ns() < tell_at_ns + WAIT_MS * INC_NSEC_PER_MSEC);
		poll(NULL, 0, 1);
		pthread_mutex_lock(&comm->lock);
	}
	assert_true(comm->driver != DRIVER_THREAD);
	pthread_mutex_unlock(&comm->lock);
	world_hear_ack(w, 0);
}

/* Who ends a communicator does not wait with it. */
static void end_is_told(void **state)
{
	struct world *w = *state;
	struct inccl_packet pkt;
	struct waiter t;

	waiter_start(&t, world_start(w, 0));
	world_hear(w, &pkt, 0);
	world_until(w, waiter_sleeps);
	peer_mirror(&w->peer, &pkt, 0, pkt.payload);
	pthread_join(t.thread, NULL);
	pthread_mutex_lock(&w->comm->lock);
	if (!told(w->comm))
		w->comm->ep->tell_at_ns = UINT64_MAX - 1;
	pthread_mutex_unlock(&w->comm->lock);
	assert_int_equal(inccl_communicator_destroy(w->comm), 0);
	w->comm = NULL;
	world_hear_ack(w, 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(last_result_is_told),
		CASE(end_is_told),
	};

	alarm(LIMIT_S);
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
