/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A call to a service: its name is looked up, its addresses are tried (racing.h), and then
 * lines go to and fro. The event base's thread; every callback comes from the loop.
 */
#ifndef INC_CONNECT_CALL_H
#define INC_CONNECT_CALL_H

#include <jansson.h>
#include <stdint.h>
#include "hostlib/connect/context.h"
#include "lib/base/err.h"
#include "lib/net/hostport.h"

struct connect_call;

/* Each may end the call. */
struct connect_call_ops {
	void (*up)(void *arg); /* somebody is there */
	void (*message)(void *arg, json_t *object);
	/* It came to nothing or is over, and why: -errno. Once; nothing comes afterwards. */
	void (*down)(void *arg, int error, const char *why);
};

/* address is what stands in errors, at is what it means; ops and address must outlive the call.
 * Until the deadline somebody must be reached. 0 or -errno. */
int connect_call_start(struct inc_connect *ctx, const char *address, const struct inc_hostport *at,
		       uint64_t deadline_ns, const struct connect_call_ops *ops, void *arg,
		       struct connect_call **out, struct inc_err *err);
/* Steals the object (NULL is -ENOMEM). Once somebody is there. 0 or -errno. */
int connect_call_send(struct connect_call *call, json_t *object);
/* Hangs up: no callback comes any more. NULL is fine. */
void connect_call_end(struct connect_call *call);

#endif
