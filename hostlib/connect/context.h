/* SPDX-License-Identifier: BSD-2-Clause */
/* A context, for the files of this room that make something of it. Its event base's thread. */
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

/* Steps to RTR that are under way (rtr.h). Those that were left keep a thread each, and what their
 * sockets have, though whoever asked for them may be gone. */
struct connect_rtrs {
	LIST_HEAD(, connect_rtr) list;
	unsigned int n_left;
	uint64_t left_bytes;
};

struct inc_connect {
	struct event_base *base; /* the caller's */
	struct connect_config config;
	void (*log)(void *ctx, const char *line);
	void *log_ctx;
	char hostname[INC_CONNECT_HOST_SIZE];
	struct inc_rdma_inventory *inventory;
	struct event *device_events;
	struct event *refresh;
	struct connect_counters *counters;
	struct connect_peers peers;
	struct inc_ndjson_draining draining; /* of all TCP connections made here */
	struct connect_services services;
	struct connect_requests requests;
	struct connect_rtrs rtrs;
};

/* A line for the caller's log. From callbacks of the loop alone. */
void connect_log(struct inc_connect *ctx, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* A socket, in INIT, with these settings, on a port of the device that has this number and this
 * name: 0; -ENODEV: there is no such port; -ENETDOWN: it is not active; or as
 * connect_socket_make(). */
int connect_make_on(struct inc_connect *ctx, uint8_t dev, const char *name, uint8_t port,
		    const struct inc_connect_settings *settings, struct inc_connect_socket **socket,
		    struct inc_err *err);

/* Calls back where the socket has something to say (connect_socket_event()); what there is already
 * it says from the loop, as this may be deep in a callback. event_free() ends it. NULL: no memory.
 */
struct event *connect_watch(struct inc_connect *ctx, const struct inc_connect_socket *socket,
			    event_callback_fn on_socket, void *arg);

/* One-shot, in so many milliseconds from now; what it had is forgotten. */
void connect_arm(struct event *timer, unsigned int ms);

#endif
