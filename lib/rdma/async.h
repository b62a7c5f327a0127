/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Asynchronous events of a device, delivered to subscribers. An event loop waits for the device's
 * descriptor (device->ctx->async_fd, non-blocking, or the inventory's), and calls
 * inc_rdma_device_take() when it is readable. Subscribers are called from there.
 *
 * Threads: any may subscribe and unsubscribe; one at a time per device may call
 * inc_rdma_device_take(). No lock is held while a subscriber is called, so it may subscribe,
 * unsubscribe (itself, too), destroy queue pairs and release references. An event is acknowledged
 * before subscribers receive it, so that destroying its queue pair does not wait for it.
 */
#ifndef INC_RDMA_ASYNC_H
#define INC_RDMA_ASYNC_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>

struct inc_rdma_device;

enum inc_rdma_event_kind {
	/* events of a port */
	INC_RDMA_PORT_UP,
	INC_RDMA_PORT_WENT_DOWN,
	INC_RDMA_GID_CHANGE,
	INC_RDMA_PKEY_CHANGE,
	INC_RDMA_LID_CHANGE,
	/* any other event of a port, such as one about the subnet manager, which is only logged */
	INC_RDMA_PORT_OTHER,
	/* the queue pair, or the completion queue, of the event is unusable from now on */
	INC_RDMA_QP_FATAL,
	INC_RDMA_CQ_FATAL,
	/* the device has failed, with everything made on it */
	INC_RDMA_DEVICE_FATAL,
	/* the device is gone, because a refresh of the inventory has not found it */
	INC_RDMA_DEVICE_GONE,
	INC_RDMA_DEVICE_OTHER,
};

struct inc_rdma_event {
	enum inc_rdma_event_kind kind;
	uint8_t port; /* number of the port, in an event of a port; else 0 */
	/* queue pair of a QP_FATAL event; only to compare with, because it may be destroyed by
	 * now */
	const struct ibv_qp *qp;
	const struct ibv_cq *cq; /* completion queue of a CQ_FATAL event; only to compare with */
	const char *text;        /* static text for people, such as "port error" */
	/* in a QP_FATAL event: the peer's invalid request has caused the failure */
	bool by_peer;
};

/*
 * A subscriber to a device's events, which is a member of a struct of its owner (container_of). It
 * receives all events of the device itself. Its fields port, qp and cq select which events of
 * ports, queue pairs and completion queues it receives.
 */
struct inc_rdma_subscriber {
	void (*on_event)(struct inc_rdma_subscriber *self, const struct inc_rdma_event *event);
	uint8_t port;            /* port whose events it receives; 0: all ports */
	const struct ibv_qp *qp; /* queue pair whose events it receives; NULL: all */
	const struct ibv_cq *cq; /* completion queue whose events it receives; NULL: all */
	/* These are internal to async.c. */
	struct inc_rdma_subscriber *next;
	/* number of the latest event that the subscriber has received, or that came before it
	 * subscribed */
	uint64_t told;
};

/* A device's list of subscribers, and the state of the delivery of events. It is internal to
 * async.c. */
struct inc_rdma_async {
	pthread_mutex_t lock;
	/* condition that is signalled when a subscriber's on_event() has returned */
	pthread_cond_t called;
	struct inc_rdma_subscriber *first;
	struct inc_rdma_subscriber *calling; /* the subscriber that is being called */
	/* a subscriber has unsubscribed during the present call of on_event() */
	bool left;
	pthread_t caller;
	uint64_t events;
};

/* Adds a subscriber, whose first four fields are set. It receives the events from now on. */
void inc_rdma_subscribe(struct inc_rdma_device *device, struct inc_rdma_subscriber *subscriber);
/* Removes a subscriber. It is not called any more once this returns: if another thread is
 * calling it, this waits for the end of that call. A subscriber that was not added is allowed. */
void inc_rdma_unsubscribe(struct inc_rdma_device *device, struct inc_rdma_subscriber *subscriber);

/*
 * Reads, acknowledges and delivers events until there are none. Returns their number, or -errno if
 * the device cannot report events any more (-EIO: the kernel has removed it). Subscribers have
 * received INC_RDMA_DEVICE_FATAL then. The caller holds a reference.
 */
int inc_rdma_device_take(struct inc_rdma_device *device);

#endif
