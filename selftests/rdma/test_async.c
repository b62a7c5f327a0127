/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* The subscribers of asynchronous events, which may subscribe and unsubscribe during an event.
 * Most cases need no device, and the last ones have a fake one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include "lib/rdma/device_priv.h"
#include "selftests/fakes/verbs.h"

struct listener {
	/* must be the first member, because pointers to it are cast to this struct */
	struct inc_rdma_subscriber subscriber;
	struct inc_rdma_device *device;
	unsigned int heard;
	enum inc_rdma_event_kind last;
	/* the last event was reported by a peer */
	bool by_peer;
	void (*act)(struct listener *self); /* function that the subscriber's callback calls */
	struct listener *other;
};

static void hear(struct inc_rdma_subscriber *subscriber, const struct inc_rdma_event *event)
{
	struct listener *self = (struct listener *)subscriber;

	self->heard++;
	self->last = event->kind;
	self->by_peer = event->by_peer;
	if (self->act)
		self->act(self);
}

static struct inc_rdma_device *make_device(void)
{
	struct inc_rdma_device *device = calloc(1, sizeof(*device));

	assert_non_null(device);
	inc_rdma_async_init(&device->async);
	return device;
}

static void end_device(struct inc_rdma_device *device)
{
	assert_null(device->async.first);
	inc_rdma_async_destroy(&device->async);
	free(device);
}

static void listen_to(struct listener *l, struct inc_rdma_device *device, uint8_t port,
		      const void *qp, const void *cq)
{
	l->subscriber =
		(struct inc_rdma_subscriber){.on_event = hear, .port = port, .qp = qp, .cq = cq};
	l->device = device;
	inc_rdma_subscribe(device, &l->subscriber);
}

static void say(struct inc_rdma_device *device, enum inc_rdma_event_kind kind, uint8_t port,
		const void *qp, const void *cq)
{
	const struct inc_rdma_event event = {
		.kind = kind, .port = port, .qp = qp, .cq = cq, .text = "said"};

	inc_rdma_tell(device, &event);
}

static void subscribers_get_their_events(void **state)
{
	struct inc_rdma_device *device = make_device();
	struct listener all = {0}, one = {0}, two = {0};
	int qp[2], cq[2];

	listen_to(&all, device, 0, NULL, NULL);
	listen_to(&one, device, 1, &qp[0], &cq[0]);
	listen_to(&two, device, 2, &qp[1], &cq[1]);
	say(device, INC_RDMA_PORT_WENT_DOWN, 1, NULL, NULL);
	assert_true(all.heard == 1 && one.heard == 1 && two.heard == 0);
	say(device, INC_RDMA_QP_FATAL, 0, &qp[1], NULL);
	assert_true(all.heard == 2 && one.heard == 1 && two.heard == 1);
	say(device, INC_RDMA_CQ_FATAL, 0, NULL, &cq[0]);
	assert_true(all.heard == 3 && one.heard == 2 && two.heard == 1);
	say(device, INC_RDMA_DEVICE_GONE, 0, NULL, NULL);
	assert_true(all.heard == 4 && one.heard == 3 && two.heard == 2);
	assert_int_equal(two.last, INC_RDMA_DEVICE_GONE);
	inc_rdma_unsubscribe(device, &one.subscriber);
	inc_rdma_unsubscribe(device, &one.subscriber); /* unsubscribing twice is harmless */
	say(device, INC_RDMA_GID_CHANGE, 1, NULL, NULL);
	assert_true(all.heard == 5 && one.heard == 3 && two.heard == 2);
	inc_rdma_unsubscribe(device, &all.subscriber);
	inc_rdma_unsubscribe(device, &two.subscriber);
	end_device(device);
}

static void leave_and_free(struct listener *self)
{
	inc_rdma_unsubscribe(self->device, &self->subscriber);
	free(self);
}

static void take_other_along(struct listener *self)
{
	inc_rdma_unsubscribe(self->device, &self->other->subscriber);
	free(self->other);
	leave_and_free(self);
}

static void add_other(struct listener *self)
{
	listen_to(self->other, self->device, 0, NULL, NULL);
	self->act = NULL;
}

/* Each subscriber gets an event once, whatever other subscribers unsubscribe before or after it. A
 * subscriber may be freed once it has unsubscribed. */
static void subscribers_come_and_go_in_callbacks(void **state)
{
	struct inc_rdma_device *device = make_device();
	struct listener *l[6], stays[2] = {0}, late = {0};
	int i;

	listen_to(&stays[0], device, 0, NULL, NULL);
	for (i = 0; i < 6; i++) {
		l[i] = calloc(1, sizeof(*l[i]));
		assert_non_null(l[i]);
		listen_to(l[i], device, 0, NULL, NULL);
		if (i == 3)
			listen_to(&stays[1], device, 0, NULL, NULL);
	}
	/* the callbacks run in the order 5 4 stays[1] 3 2 1 0 stays[0] */
	l[5]->act = leave_and_free;
	l[4]->act = take_other_along;
	l[4]->other = l[3];
	l[2]->act = leave_and_free;
	l[1]->act = take_other_along;
	l[1]->other = l[0];
	stays[1].act = add_other;
	stays[1].other = &late;
	say(device, INC_RDMA_PORT_UP, 1, NULL, NULL);
	assert_true(stays[0].heard == 1 && stays[1].heard == 1);
	assert_int_equal(late.heard, 0); /* this subscriber subscribed after the event had begun */
	say(device, INC_RDMA_PORT_UP, 1, NULL, NULL);
	assert_true(stays[0].heard == 2 && stays[1].heard == 2 && late.heard == 1);
	inc_rdma_unsubscribe(device, &stays[0].subscriber);
	inc_rdma_unsubscribe(device, &stays[1].subscriber);
	inc_rdma_unsubscribe(device, &late.subscriber);
	end_device(device);
}

/* ---- two threads ------------------------------------------------------------------------ */

static sem_t inside, let_go;
static volatile bool left; /* the thread has returned from the callback */

static void stay_inside(struct listener *self)
{
	sem_post(&inside);
	sem_wait(&let_go);
	left = true;
}

static void *teller(void *arg)
{
	say(arg, INC_RDMA_PORT_UP, 1, NULL, NULL);
	return NULL;
}

static void *unsubscriber(void *arg)
{
	struct listener *l = arg;

	inc_rdma_unsubscribe(l->device, &l->subscriber);
	assert_true(left);
	return NULL;
}

/* Waits until `first` is the first subscriber of the device. NULL: waits until there is no
 * subscriber. */
static void wait_first(struct inc_rdma_device *device, const struct listener *first)
{
	bool there = true;

	while (there) {
		pthread_mutex_lock(&device->async.lock);
		there = device->async.first != (first ? &first->subscriber : NULL);
		pthread_mutex_unlock(&device->async.lock);
	}
}

static void unsubscribing_waits_for_a_running_callback(void **state)
{
	struct inc_rdma_device *device = make_device();
	struct listener l = {.act = stay_inside}, other = {0};
	pthread_t thread[2];

	assert_true(!sem_init(&inside, 0, 0) && !sem_init(&let_go, 0, 0));
	listen_to(&l, device, 0, NULL, NULL);
	assert_int_equal(pthread_create(&thread[0], NULL, teller, device), 0);
	sem_wait(&inside);
	/* no lock is held during a callback, so other threads may subscribe and unsubscribe */
	listen_to(&other, device, 0, NULL, NULL);
	inc_rdma_unsubscribe(device, &other.subscriber);
	assert_int_equal(pthread_create(&thread[1], NULL, unsubscriber, &l), 0);
	wait_first(device, NULL);
	assert_false(left);
	sem_post(&let_go);
	pthread_join(thread[0], NULL);
	pthread_join(thread[1], NULL);
	assert_int_equal(l.heard, 1);
	assert_int_equal(other.heard, 0);
	end_device(device);
}

/* Runs in a callback. It waits until a thread that unsubscribes this subscriber has removed it.
 * Then it removes and frees the next one, too. */
static void outlive_both(struct listener *self)
{
	stay_inside(self);
	inc_rdma_unsubscribe(self->device, &self->other->subscriber);
	memset(self->other, 0xff, sizeof(*self->other));
	free(self->other);
}

/* Two subscribers unsubscribe during a callback: one by a thread that waits for the callback, and
 * the other one meanwhile. The dispatcher must access neither of them afterwards. */
static void the_next_subscriber_may_leave_meanwhile(void **state)
{
	struct inc_rdma_device *device = make_device();
	struct listener last = {0}, *other = calloc(1, sizeof(*other));
	struct listener l = {.act = outlive_both, .other = other};
	pthread_t thread[2];

	assert_non_null(other);
	left = false;
	assert_true(!sem_init(&inside, 0, 0) && !sem_init(&let_go, 0, 0));
	listen_to(&last, device, 0, NULL, NULL);
	listen_to(other, device, 0, NULL, NULL);
	listen_to(&l, device, 0, NULL, NULL);
	assert_int_equal(pthread_create(&thread[0], NULL, teller, device), 0);
	sem_wait(&inside);
	assert_int_equal(pthread_create(&thread[1], NULL, unsubscriber, &l), 0);
	wait_first(device, other);
	sem_post(&let_go);
	pthread_join(thread[0], NULL);
	pthread_join(thread[1], NULL);
	assert_int_equal(last.heard, 1);
	inc_rdma_unsubscribe(device, &last.subscriber);
	end_device(device);
}

/* ---- reading of events from a fake device -------------------------------------------------- */

static struct ibv_qp queue_pair;
static struct listener old_one, new_one;

static struct inc_rdma_device *open_device(void)
{
	struct inc_rdma_port_info port;

	return fake_verbs_device("fake", &port);
}

static void report(struct inc_rdma_device *device, enum ibv_event_type type)
{
	const struct ibv_async_event event = {.event_type = type, .element.qp = &queue_pair};

	fake_verbs_report(device, &event);
}

/* Runs during an acknowledgement. A thread that waits for it to destroy the queue pair continues
 * now. It may create another queue pair at the same address. */
static void replace_queue_pair(void)
{
	inc_rdma_unsubscribe(old_one.device, &old_one.subscriber);
	listen_to(&new_one, old_one.device, 0, &queue_pair, NULL);
}

static void a_new_queue_pair_gets_no_old_event(void **state)
{
	struct inc_rdma_device *device = open_device();
	struct listener all = {0};

	listen_to(&all, device, 0, NULL, NULL);
	listen_to(&old_one, device, 0, &queue_pair, NULL);
	fake_verbs_before_ack(replace_queue_pair);
	report(device, IBV_EVENT_QP_FATAL);
	assert_int_equal(inc_rdma_device_take(device), 1);
	assert_true(all.heard == 1 && all.last == INC_RDMA_QP_FATAL);
	assert_true(old_one.heard == 0 && new_one.heard == 0);
	say(device, INC_RDMA_QP_FATAL, 0, &queue_pair, NULL);
	assert_true(all.heard == 2 && new_one.heard == 1);
	inc_rdma_unsubscribe(device, &new_one.subscriber);
	inc_rdma_unsubscribe(device, &all.subscriber);
	assert_null(device->async.first);
}

static void events_caused_by_the_peer(void **state)
{
	static const struct {
		enum ibv_event_type type;
		bool by_peer;
	} events[] = {{IBV_EVENT_QP_FATAL, false},
		      {IBV_EVENT_QP_REQ_ERR, true},
		      {IBV_EVENT_QP_ACCESS_ERR, true},
		      {IBV_EVENT_PATH_MIG_ERR, false}};
	struct inc_rdma_device *device = open_device();
	struct listener all = {0};
	size_t i;

	listen_to(&all, device, 0, NULL, NULL);
	for (i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
		report(device, events[i].type);
		assert_int_equal(inc_rdma_device_take(device), 1);
		assert_true(all.heard == i + 1 && all.last == INC_RDMA_QP_FATAL);
		assert_int_equal(all.by_peer, events[i].by_peer);
	}
	inc_rdma_unsubscribe(device, &all.subscriber);
	assert_null(device->async.first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(subscribers_get_their_events),
		cmocka_unit_test(subscribers_come_and_go_in_callbacks),
		cmocka_unit_test(unsubscribing_waits_for_a_running_callback),
		cmocka_unit_test(the_next_subscriber_may_leave_meanwhile),
		cmocka_unit_test(a_new_queue_pair_gets_no_old_event),
		cmocka_unit_test(events_caused_by_the_peer),
	};

	return cmocka_run_group_tests_name("async", tests, NULL, NULL) ? 1 : 0;
}
