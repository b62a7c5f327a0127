/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include "lib/rdma/device_priv.h"

/* The events of libibverbs that subscribers receive, and the kind of each. Other events are
 * ignored, because completions report the same (a connection is established, a queue is
 * drained). */
static const struct {
	enum ibv_event_type type;
	enum inc_rdma_event_kind kind;
} told[] = {
	{IBV_EVENT_PORT_ACTIVE, INC_RDMA_PORT_UP},
	{IBV_EVENT_PORT_ERR, INC_RDMA_PORT_WENT_DOWN},
	{IBV_EVENT_GID_CHANGE, INC_RDMA_GID_CHANGE},
	{IBV_EVENT_PKEY_CHANGE, INC_RDMA_PKEY_CHANGE},
	{IBV_EVENT_LID_CHANGE, INC_RDMA_LID_CHANGE},
	{IBV_EVENT_SM_CHANGE, INC_RDMA_PORT_OTHER},
	{IBV_EVENT_CLIENT_REREGISTER, INC_RDMA_PORT_OTHER},
	{IBV_EVENT_QP_FATAL, INC_RDMA_QP_FATAL},
	{IBV_EVENT_QP_REQ_ERR, INC_RDMA_QP_FATAL},
	{IBV_EVENT_QP_ACCESS_ERR, INC_RDMA_QP_FATAL},
	{IBV_EVENT_PATH_MIG_ERR, INC_RDMA_QP_FATAL},
	{IBV_EVENT_CQ_ERR, INC_RDMA_CQ_FATAL},
	{IBV_EVENT_DEVICE_FATAL, INC_RDMA_DEVICE_FATAL},
	{IBV_EVENT_PATH_MIG, INC_RDMA_DEVICE_OTHER},
	{IBV_EVENT_SRQ_ERR, INC_RDMA_DEVICE_OTHER},
	{IBV_EVENT_SRQ_LIMIT_REACHED, INC_RDMA_DEVICE_OTHER},
	{IBV_EVENT_WQ_FATAL, INC_RDMA_DEVICE_OTHER},
};

void inc_rdma_async_init(struct inc_rdma_async *async)
{
	*async = (struct inc_rdma_async){0};
	pthread_mutex_init(&async->lock, NULL);
	pthread_cond_init(&async->called, NULL);
}

void inc_rdma_async_destroy(struct inc_rdma_async *async)
{
	pthread_cond_destroy(&async->called);
	pthread_mutex_destroy(&async->lock);
}

void inc_rdma_subscribe(struct inc_rdma_device *device, struct inc_rdma_subscriber *subscriber)
{
	struct inc_rdma_async *async = &device->async;

	pthread_mutex_lock(&async->lock);
	subscriber->told = async->events;
	subscriber->next = async->first;
	async->first = subscriber;
	pthread_mutex_unlock(&async->lock);
}

void inc_rdma_unsubscribe(struct inc_rdma_device *device, struct inc_rdma_subscriber *subscriber)
{
	struct inc_rdma_async *async = &device->async;
	struct inc_rdma_subscriber **p;

	pthread_mutex_lock(&async->lock);
	for (p = &async->first; *p && *p != subscriber; p = &(*p)->next)
		;
	if (*p)
		*p = subscriber->next;
	if (async->calling == subscriber)
		async->left = true;
	if (async->calling == subscriber && pthread_equal(async->caller, pthread_self()))
		/* forget the subscriber, which unsubscribes in its own call and may be freed before
		 * that call returns */
		async->calling = NULL;
	while (async->calling == subscriber)
		pthread_cond_wait(&async->called, &async->lock);
	pthread_mutex_unlock(&async->lock);
}

static bool concerns(const struct inc_rdma_event *event, const struct inc_rdma_subscriber *s)
{
	return (!event->port || !s->port || s->port == event->port) &&
	       (!event->qp || !s->qp || s->qp == event->qp) &&
	       (!event->cq || !s->cq || s->cq == event->cq);
}

/* Returns the number of a new event. Subscribers that are added after this do not receive the
 * event. */
static uint64_t take_number(struct inc_rdma_device *device)
{
	struct inc_rdma_async *async = &device->async;
	uint64_t number;

	pthread_mutex_lock(&async->lock);
	number = ++async->events;
	pthread_mutex_unlock(&async->lock);
	return number;
}

static void tell(struct inc_rdma_device *device, const struct inc_rdma_event *event,
		 uint64_t number)
{
	struct inc_rdma_async *async = &device->async;
	struct inc_rdma_subscriber *s;

	pthread_mutex_lock(&async->lock);
	async->caller = pthread_self();
	for (s = async->first; s;) {
		if (s->told >= number || !concerns(event, s)) {
			s = s->next;
			continue;
		}
		s->told = number;
		async->calling = s;
		async->left = false;
		pthread_mutex_unlock(&async->lock);
		s->on_event(s, event);
		pthread_mutex_lock(&async->lock);
		/* if a subscriber has unsubscribed during the call, `next` may be gone as well, so
		 * begin the list again */
		s = async->left ? async->first : s->next;
		async->calling = NULL;
		pthread_cond_broadcast(&async->called);
	}
	pthread_mutex_unlock(&async->lock);
}

void inc_rdma_tell(struct inc_rdma_device *device, const struct inc_rdma_event *event)
{
	tell(device, event, take_number(device));
}

/* Fills *to from an event of libibverbs. Returns false if events of this type are not delivered. */
static bool translate(const struct ibv_async_event *from, struct inc_rdma_event *to)
{
	unsigned int i, n = sizeof(told) / sizeof(told[0]);

	for (i = 0; i < n && told[i].type != from->event_type; i++)
		;
	if (i == n)
		return false;
	*to = (struct inc_rdma_event){
		.kind = told[i].kind,
		.text = ibv_event_type_str(from->event_type),
	};
	switch (to->kind) {
	case INC_RDMA_QP_FATAL:
		to->qp = from->element.qp;
		to->by_peer = from->event_type == IBV_EVENT_QP_REQ_ERR ||
			      from->event_type == IBV_EVENT_QP_ACCESS_ERR;
		break;
	case INC_RDMA_CQ_FATAL:
		to->cq = from->element.cq;
		break;
	case INC_RDMA_DEVICE_FATAL:
	case INC_RDMA_DEVICE_GONE:
	case INC_RDMA_DEVICE_OTHER:
		break;
	default:
		to->port = from->element.port_num;
	}
	return true;
}

int inc_rdma_device_take(struct inc_rdma_device *device)
{
	struct ibv_async_event ev;
	struct inc_rdma_event event;
	uint64_t number;
	bool wanted;
	int n;

	for (n = 0; !ibv_get_async_event(device->ctx, &ev); n++) {
		wanted = translate(&ev, &event);
		/* the event gets its number first: after the acknowledgement the queue pair may be
		 * destroyed, and another made at its address */
		number = take_number(device);
		ibv_ack_async_event(&ev);
		if (wanted)
			tell(device, &event, number);
	}
	return errno == EAGAIN ? n : -errno;
}
