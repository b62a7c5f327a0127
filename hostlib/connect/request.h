/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The common part of a client's requests: an address, a time limit, a TCP connection and one
 * callback. The callback comes from an event, so that the owner of the request may destroy anything
 * in it. question.c and client.c implement the kinds of requests. Their structs begin with struct
 * inc_connect_request.
 *
 * All functions run on the event base's thread. The event loop calls the functions of a kind.
 */
#ifndef INC_CONNECT_REQUEST_H
#define INC_CONNECT_REQUEST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hostlib/connect/call.h"
#include "hostlib/connect/context.h"
#include "hostlib/connect/protocol.h"
#include "lib/base/err.h"
#include "lib/net/hostport.h"

struct connect_request_kind {
	size_t size; /* size in bytes of the struct of this kind of requests */
	struct connect_call_ops call;
	void (*time_out)(struct inc_connect_request *request);
	/* Releases what the request uses of the context, because the owner's callback may destroy
	 * the context. */
	void (*detach)(struct inc_connect_request *request);
	/* Calls the owner's callback with the request's error and why. Called between detach() and
	 * release(). */
	void (*report)(struct inc_connect_request *request);
	/* Frees the kind's own members. */
	void (*release)(struct inc_connect_request *request);
};

struct inc_connect_request {
	const struct connect_request_kind *kind;
	struct inc_connect *ctx;
	LIST_ENTRY(inc_connect_request) entry;
	char *address; /* address of the service as the caller wrote it */
	struct inc_hostport at;
	void *arg; /* argument of the owner's callback */
	struct connect_call *call;
	uint64_t deadline_ns; /* time at which the request's time limit ends */
	struct event *clock;  /* timer of the time limit */
	struct event *finish; /* event that runs the owner's callback */
	int error;            /* result for the owner's callback: 0 or -errno */
	struct inc_err why;
};

/*
 * Creates a request of this kind, whose time limit begins now. The request does not connect yet.
 * `called` is true if the caller has passed a callback. inc_connect_cancel() frees the request.
 * Returns 0, or -errno with the reason in opts->error: -EINVAL for wrong options, a wrong address
 * or a missing callback.
 */
int connect_request_make(struct inc_connect *ctx, const char *address,
			 const struct inc_connect_request_opts *opts, bool called,
			 const struct connect_request_kind *kind, struct inc_connect_request **out);
/* Begins to connect the request to its service. Returns 0, or -errno with the reason in
 * request->why, as the functions below do. */
int connect_request_call(struct inc_connect_request *request);
/* Sends the service a question that has no field but the version. Allowed only once the TCP
 * connection exists. */
int connect_request_ask(struct inc_connect_request *request, enum connect_message_id id);
/* Reads the service's answer, which must be message `id`, into out. Returns -EPROTO for any other
 * message, and the service's error if the service has sent one. */
int connect_request_answer(struct inc_connect_request *request, json_t *object,
			   enum connect_message_id id, void *out);
/* Reads the service's answer CONNECT_MSG_DEVICES, as connect_request_answer() does. The caller
 * frees *devices, even after an error. */
int connect_request_devices(struct inc_connect_request *request, json_t *object,
			    struct inc_connect_devices **devices);
/* Sets request->why to "out of memory", and returns -ENOMEM, for a request that lacks memory. */
int connect_request_no_memory(struct inc_connect_request *request);
/* Ends the request. error: 0, or -errno with the reason in request->why. The event loop calls the
 * owner's callback later. */
void connect_request_finish(struct inc_connect_request *request, int error);

/* connect_request_finish() carries out these two steps, and then the callback. Kinds of requests
 * with a state machine call the steps one by one. */
void connect_request_hang_up(struct inc_connect_request *request);
void connect_request_stop_clock(struct inc_connect_request *request);

#endif
