/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Asynchronous events of a device, given to whom they concern. Who has a device's descriptor
 * (device->ctx->async_fd, non-blocking, or the inventory's) in its loop calls
 * inc_rdma_device_take() when it is readable; subscribers are called from there.
 *
 * Threads: subscribe and unsubscribe by any; take by one at a time per device. No lock is held
 * while a subscriber is called, so it may subscribe, unsubscribe (itself, too), destroy queue pairs
 * and give references back. An event is acknowledged before anybody hears of it, so that
 * destroying its queue pair does not wait for it.
 */
#ifndef INC_RDMA_ASYNC_H
#define INC_RDMA_ASYNC_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>

struct inc_rdma_device;

enum inc_rdma_event_kind {
	/* of a port */
	INC_RDMA_PORT_UP,
	INC_RDMA_PORT_WENT_DOWN,
	INC_RDMA_GID_CHANGE,
	INC_RDMA_PKEY_CHANGE,
	INC_RDMA_LID_CHANGE,
	INC_RDMA_PORT_OTHER, /* subnet manager, re-registration: worth a line in a log */
	/* of a queue pair or a completion queue: it is of no use any more */
	INC_RDMA_QP_FATAL,
	INC_RDMA_CQ_FATAL,
	/* of the device, with all that was made on it */
	INC_RDMA_DEVICE_FATAL,
	INC_RDMA_DEVICE_GONE, /* a refresh did not find it any more */
	INC_RDMA_DEVICE_OTHER,
};

struct inc_rdma_event {
	enum inc_rdma_event_kind kind;
	uint8_t port;            /* of what is of a port, else 0 */
	const struct ibv_qp *qp; /* QP_FATAL; to compare with only: it may be destroyed by now */
	const struct ibv_cq *cq; /* CQ_FATAL; likewise */
	const char *text;        /* for people: "port error". Static. */
	bool by_peer;            /* QP_FATAL: the peer has asked for what it may not */
};

/*
 * Lies in the subscriber's own struct (container_of). What it sets says which events it gets: those
 * of the device always, those of a port, a queue pair or a completion queue if it named that one,
 * or none.
 */
struct inc_rdma_subscriber {
	void (*on_event)(struct inc_rdma_subscriber *self, const struct inc_rdma_event *event);
	uint8_t port;            /* 0: all ports */
	const struct ibv_qp *qp; /* NULL: all */
	const struct ibv_cq *cq; /* NULL: all */
	/* async.c's */
	struct inc_rdma_subscriber *next;
	uint64_t told; /* number of the last event that it got or need not get */
};

/* A device's part; async.c's alone. */
struct inc_rdma_async {
	pthread_mutex_t lock;
	pthread_cond_t called; /* a subscriber's call is over */
	struct inc_rdma_subscriber *first;
	struct inc_rdma_subscriber *calling; /* whose call is under way */
	bool left;                           /* it has unsubscribed meanwhile */
	pthread_t caller;
	uint64_t events;
};

/* Subscriber, with its first four fields set, hears of what happens from now on. */
void inc_rdma_subscribe(struct inc_rdma_device *device, struct inc_rdma_subscriber *subscriber);
/* It hears nothing any more once this returns: where its call is under way on another thread, this
 * waits for the end of that call. One that has not subscribed is allowed. */
void inc_rdma_unsubscribe(struct inc_rdma_device *device, struct inc_rdma_subscriber *subscriber);

/*
 * Reads, acknowledges and gives out events until there are none. The number of them, or -errno
 * where the device cannot tell any more (-EIO: the kernel took it away); subscribers have heard
 * INC_RDMA_DEVICE_FATAL then. The caller holds a reference.
 */
int inc_rdma_device_take(struct inc_rdma_device *device);

#endif
