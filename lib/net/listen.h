/* SPDX-License-Identifier: BSD-2-Clause */
/* Listeners that survive a shortage of descriptors in the process. This is part of
 * libinc_event.a. */
#ifndef INC_LISTEN_H
#define INC_LISTEN_H

#include <event2/listener.h>

/*
 * Listens for TCP connections at an address. fn: called for each connection, with a descriptor that
 * its owner closes. inc_os.stream.peer() returns the peer's address. The listener is guarded.
 * Returns 0 or -errno.
 */
int inc_listener_open(struct event_base *base, const struct sockaddr *at, socklen_t len,
		      int backlog, evconnlistener_cb fn, void *arg, struct evconnlistener **out);

/*
 * Prepares a listener for failures of accept() (out of descriptors or memory). The connections
 * then stay in the kernel's queue, and the listener pauses for a tenth of a second. Without this
 * libevent retries at once and for ever, with a line in the log each time. Call it for each
 * listener that inc_listener_open() has not made. 0, or -ENOMEM if the listener does not listen.
 */
int inc_listener_guard(struct evconnlistener *l);

/* Logs that connections wait or are refused, and why. Peers can cause that at will, so there is
 * at most one line a minute, with the number of lines that were left out. */
void inc_listener_refused(const char *why);

#endif
