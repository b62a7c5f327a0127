/* SPDX-License-Identifier: BSD-2-Clause */
/* The context (struct inc_connect) as the files of this folder see it. Only the event base's thread
 * uses it. */
#ifndef INC_CONNECT_CONTEXT_H
#define INC_CONNECT_CONTEXT_H

#include <stdint.h>
#include <sys/queue.h>
#include <event2/event.h>
#include "hostlib/connect/config.h"
#include "hostlib/connect/figures.h"
#include "hostlib/connect/peers.h"
#include "hostlib/connect/socket.h"
#include "hostlib/include/inc_connect.h"
#include "lib/base/err.h"
#include "lib/net/ndjson.h"
#include "lib/rdma/inventory.h"

LIST_HEAD(connect_services, inc_connect_service);
LIST_HEAD(connect_requests, inc_connect_request);

/* The sockets that are being moved to RTR (rtr.h). If the owner of one gives it up, the socket
 * counts as abandoned, because it uses a thread and memory until the move has ended. */
struct connect_rtrs {
	LIST_HEAD(, connect_rtr) list;
	unsigned int n_abandoned;
	uint64_t abandoned_bytes;
};

struct inc_connect {
	/* event loop on which the context runs; its caller owns the loop */
	struct event_base *base;
	struct connect_config config;
	void (*log)(void *ctx, const char *line);
	void *log_ctx;
	char hostname[INC_CONNECT_HOST_SIZE];
	struct inc_rdma_inventory *inventory;
	struct event *device_events;
	struct event *refresh;
	struct connect_counters *counters;
	struct connect_peers peers;
	/* TCP connections that are closed as soon as their last message was sent */
	struct inc_ndjson_draining draining;
	struct connect_services services;
	struct connect_requests requests;
	struct connect_rtrs rtrs;
};

/* Writes a line to the caller's log. Only callbacks of the event loop may call it. */
void connect_log(struct inc_connect *ctx, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Makes a socket (its queue pair in INIT) on this port of the device with this number and name.
 * Returns 0, -ENODEV if there is no such port, -ENETDOWN if the port is not active, or an error of
 * connect_socket_make(). */
int connect_make_on(struct inc_connect *ctx, uint8_t dev, const char *name, uint8_t port,
		    const struct inc_connect_settings *settings, struct inc_connect_socket **socket,
		    struct inc_err *err);

/* Makes an event that calls on_socket when connect_socket_event() has something to report. If that
 * is so already, the loop calls on_socket later, because this function may run inside another
 * callback. The caller frees the event. Returns NULL if there is no memory. */
struct event *connect_watch(struct inc_connect *ctx, const struct inc_connect_socket *socket,
			    event_callback_fn on_socket, void *arg);

/* Makes a timer fire once, in so many milliseconds from now. A time limit that it had before is
 * replaced. */
void connect_arm(struct event *timer, unsigned int ms);

#endif
