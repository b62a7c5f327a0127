/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel's messages about interfaces of this network namespace. The engine of passthrough mode
 * opens it once, because connections send from the MAC address of their port.
 */
#ifndef INC_LINKS_H
#define INC_LINKS_H

#include <event2/event.h>
#include "lib/base/err.h"

struct inc_links;

/* From now on fn(arg) runs on the base's thread when an interface has changed, or may have. */
int inc_links_open(struct event_base *base, void (*fn)(void *arg), void *arg,
		   struct inc_links **out, struct inc_err *err);
/* NULL is fine. */
void inc_links_close(struct inc_links *links);

#endif
