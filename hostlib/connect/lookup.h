/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A host's addresses, without waiting for them: numbers are read at once, names are asked for by a
 * thread of its own, as getaddrinfo() knows no other way. Part of call.c.
 *
 * Threads: start, cancel and the callback belong to the thread of the event base.
 */
#ifndef INC_CONNECT_LOOKUP_H
#define INC_CONNECT_LOOKUP_H

#include "lib/base/err.h"
#include "lib/net/hostport.h"

struct addrinfo;
struct event_base;
struct connect_lookup;

/* From the loop, once; the lookup is gone then. list is the callee's, for freeaddrinfo(); NULL:
 * error is -errno, why says it. */
typedef void (*connect_lookup_done)(void *arg, struct addrinfo *list, int error, const char *why);

/* 0 or -errno. */
int connect_lookup_start(struct event_base *base, const struct inc_hostport *at,
			 connect_lookup_done done, void *arg, struct connect_lookup **out,
			 struct inc_err *err);
/* Whose callback has not come, and will not. NULL is fine. */
void connect_lookup_cancel(struct connect_lookup *lookup);

#endif
