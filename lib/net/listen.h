/* SPDX-License-Identifier: BSD-2-Clause */
/* Listeners that bear a process without descriptors. Part of libinc_event.a. */
#ifndef INC_LISTEN_H
#define INC_LISTEN_H

#include <event2/listener.h>

/* Leaves connections in the kernel's queue for a tenth of a second; for an error callback of one's
 * own. */
void inc_listener_rest(struct evconnlistener *l);

/*
 * When accept() fails (out of descriptors or memory), connections stay in the kernel's queue
 * and the listener rests for a moment instead of spinning; the log has one line in ten seconds.
 * Without this libevent tries again at once, for ever, with a line each.
 */
void inc_listener_guard(struct evconnlistener *l);

#endif
