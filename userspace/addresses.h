/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The addresses of the controller, for switch_client.c. The daemon looks up the name when it
 * starts, and again whenever the connection to the controller failed or was lost. At most one
 * look-up is under way, and the event loop does not wait for it. The last addresses stay in use
 * until a look-up has succeeded. All functions are called on the event loop's thread.
 */
#ifndef INC_ADDRESSES_H
#define INC_ADDRESSES_H

#include <event2/event.h>
#include "lib/base/err.h"

struct addrinfo;
struct inc_addresses;

/*
 * Creates the object. text: HOST[:PORT], which must outlive the object. Waits up to a second for
 * the addresses of a name, so that a wrong name is refused at the start. Returns 0, or -errno if
 * the text is wrong or the name does not exist. If no name server answers, this returns 0. The
 * look-up then goes on, or inc_addresses_refresh() begins a new one.
 */
int inc_addresses_open(struct event_base *base, const char *text, struct inc_addresses **out,
		       struct inc_err *err);
/* Frees the object. a may be NULL. */
void inc_addresses_close(struct inc_addresses *a);
/* Begins a look-up, unless one is under way or the host is a numeric address. */
void inc_addresses_refresh(struct inc_addresses *a);
/* Returns the newest addresses, which are valid until the next call. If there are none yet, returns
 * NULL, with the reason in why. */
const struct addrinfo *inc_addresses_take(struct inc_addresses *a, const char **why);
/* Returns the host part of the text that inc_addresses_open() received. */
const char *inc_addresses_host(const struct inc_addresses *a);

#endif
