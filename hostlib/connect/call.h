/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One client's TCP connection to a service (a "call"). The name of the service is looked up, its
 * addresses are tried (lib/net/racing.h), and then both sides exchange lines of JSON. All functions
 * run on the event base's thread, and the event loop makes every callback.
 */
#ifndef INC_CONNECT_CALL_H
#define INC_CONNECT_CALL_H

#include <jansson.h>
#include <stdint.h>
#include "hostlib/connect/context.h"
#include "lib/base/err.h"
#include "lib/net/hostport.h"

struct connect_call;

/* Callbacks of a call. Each of them may end the call by connect_call_end(). */
struct connect_call_ops {
	void (*up)(void *arg); /* callback: the TCP connection is established */
	void (*message)(void *arg, json_t *object);
	/* The last callback of a call, with error -errno. The connection could not be made, or has
	 * ended. */
	void (*down)(void *arg, int error, const char *why);
};

/* Starts a call: connects to a service. address is the text for error messages, and at is the same
 * address after parsing. ops and address must outlive the call. The call fails if there is no TCP
 * connection at deadline_ns. Returns 0 or -errno. */
int connect_call_start(struct inc_connect *ctx, const char *address, const struct inc_hostport *at,
		       uint64_t deadline_ns, const struct connect_call_ops *ops, void *arg,
		       struct connect_call **out, struct inc_err *err);
/* Sends the service a message, and releases the reference to object. If object is NULL, it returns
 * -ENOMEM. Allowed only after ops->up() was called. Returns 0 or -errno. */
int connect_call_send(struct connect_call *call, json_t *object);
/* Closes the TCP connection and frees the call, which makes no further callback. call may be
 * NULL. */
void connect_call_end(struct connect_call *call);

#endif
