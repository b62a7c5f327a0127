/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The addresses of the controller, for switch_client.c. A name is looked up when the daemon starts,
 * and again whenever its addresses have been of no use. At most one look-up is under way, and the
 * event loop does not wait for it. Until it has an answer, and where it fails, the last addresses
 * stay. All of it is on the loop's thread.
 */
#ifndef INC_ADDRESSES_H
#define INC_ADDRESSES_H

#include <event2/event.h>
#include "lib/base/err.h"

struct addrinfo;
struct inc_addresses;

/*
 * text: HOST[:PORT], which must outlive them. Waits a moment for a name's addresses, so that a
 * wrong name is refused at the start. 0, or -errno: the text is wrong, or there is no such name.
 * Where no name server answers, the look-up goes on, or is begun anew by inc_addresses_refresh().
 */
int inc_addresses_open(struct event_base *base, const char *text, struct inc_addresses **out,
		       struct inc_err *err);
/* NULL is fine. */
void inc_addresses_close(struct inc_addresses *a);
/* Begins a look-up, unless one is under way or the host is a number. */
void inc_addresses_refresh(struct inc_addresses *a);
/* The newest ones, which stay until the next call. NULL and why: there are none yet. */
const struct addrinfo *inc_addresses_take(struct inc_addresses *a, const char **why);
/* The host, as given. */
const char *inc_addresses_host(const struct inc_addresses *a);

#endif
