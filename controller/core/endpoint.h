/* SPDX-License-Identifier: BSD-2-Clause */
/* The endpoints at which members receive. endpoint.c checks that no two communicators use the same
 * one. */
#ifndef INC_CORE_ENDPOINT_H
#define INC_CORE_ENDPOINT_H

#include "lib/base/err.h"

struct inc_comm_member;
struct inc_core;
struct inc_route_member;

/* Checks whether another member already receives at this endpoint. Returns 0 or -EADDRINUSE. */
int inc_endpoint_check(const struct inc_core *core, const struct inc_route_member *at,
		       struct inc_err *err);
/* Marks the endpoint at which the member receives as used, until the member destroys its
 * communicator or leaves. */
void inc_endpoint_take(struct inc_core *core, struct inc_comm_member *m);
/* Marks the endpoint of a member as unused; does nothing if the member has none. */
void inc_endpoint_leave(struct inc_comm_member *m);

#endif
