/* SPDX-License-Identifier: BSD-2-Clause */
/* Listeners that bear a process without descriptors. Part of libinc_event.a. */
#ifndef INC_LISTEN_H
#define INC_LISTEN_H

#include <event2/listener.h>

/*
 * When accept() fails (out of descriptors or memory), connections stay in the kernel's queue
 * and the listener rests for a tenth of a second instead of spinning. Without this libevent tries
 * again at once, for ever, with a line in the log each. To be called of each listener that is made:
 * 0, or -ENOMEM where it does not listen.
 */
int inc_listener_guard(struct evconnlistener *l);

/* Logs that connections come to nothing, and why. Anybody out there can cause it at will, so there
 * is one line a minute, with the number of those that had none. */
void inc_listener_refused(const char *why);

#endif
