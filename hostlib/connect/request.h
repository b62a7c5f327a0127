/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What all requests of a client have: an address, a time limit, a call, and one callback, which
 * comes from an event of its own, so that its owner may do there whatever he likes. question.c and
 * client.c are the kinds; their structs begin with this one.
 *
 * The event base's thread. What it tells its kind comes from the loop.
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
	size_t size; /* of its struct */
	struct connect_call_ops call;
	void (*late)(struct inc_connect_request *request);
	/* Takes back what it has of the context, which may be gone afterwards. */
	void (*leave)(struct inc_connect_request *request);
	/* Calls the owner: error and why are set. Between leave() and release(). */
	void (*tell)(struct inc_connect_request *request);
	/* Frees what is its own. */
	void (*release)(struct inc_connect_request *request);
};

struct inc_connect_request {
	const struct connect_request_kind *kind;
	struct inc_connect *ctx;
	LIST_ENTRY(inc_connect_request) entry;
	char *address; /* as the caller has it */
	struct inc_hostport at;
	void *arg; /* of the owner's callback */
	struct connect_call *call;
	uint64_t deadline_ns; /* its time limit */
	struct event *clock;  /* which this keeps */
	struct event *finish; /* its callback is due */
	int error;            /* what that is told */
	struct inc_err why;
};

/*
 * A request of this kind: its clock runs, no call has begun. inc_connect_cancel() frees it.
 * 0, or -errno, which opts->error explains; -EINVAL: options, no address, no callback (called is
 * false).
 */
int connect_request_make(struct inc_connect *ctx, const char *address,
			 const struct inc_connect_request_opts *opts, bool called,
			 const struct connect_request_kind *kind, struct inc_connect_request **out);
/* Calls the service. 0 or -errno and why. */
int connect_request_call(struct inc_connect_request *request);
/* Asks it something, once it is there: a message of a version alone. 0 or -errno and why. */
int connect_request_ask(struct inc_connect_request *request, enum connect_message_id id);
/* The answer, which is to be this message, into out: 0, or -errno and why: of the service; -EPROTO:
 * it is none. */
int connect_request_answer(struct inc_connect_request *request, json_t *object,
			   enum connect_message_id id, void *out);
/* The same for devices: *devices is the caller's to free in every case. */
int connect_request_devices(struct inc_connect_request *request, json_t *object,
			    struct inc_connect_devices **devices);
/* -ENOMEM and why. */
int connect_request_no_memory(struct inc_connect_request *request);
/* It is over: 0, or -errno, whose why is set. Its owner hears it from the loop. */
void connect_request_finish(struct inc_connect_request *request, int error);

/* These two are the end of it, in the kinds' actions. */
void connect_request_hang_up(struct inc_connect_request *request);
void connect_request_stop_clock(struct inc_connect_request *request);

#endif
