/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The step of a queue pair to RTR without waiting for it: over RoCE the kernel looks for the peer's
 * Ethernet address, and knows no other way than to let the caller wait. So a thread of its own
 * makes the call, one per socket: a peer that nobody finds holds up no other.
 *
 * While it is under way the socket must not go. Who does not want it any more leaves it here
 * (connect_rtr_stop()): the loop destroys it once the call is over. The thread touches the socket's
 * queue pair alone.
 *
 * Threads: all here, and the callback, is of the thread of the context's event base.
 */
#ifndef INC_CONNECT_RTR_H
#define INC_CONNECT_RTR_H

#include <stdint.h>
#include "hostlib/connect/context.h"
#include "lib/base/err.h"

struct connect_rtr;

/* From the loop, once; the rtr is gone then. 0, or -errno and why. */
typedef void (*connect_rtr_done)(void *arg, int error, const char *why);

/* Brings a socket that was made (INIT) to RTR for this peer. bytes: what the socket has, for
 * connect_rtrs.left_bytes. 0, or -errno and why: nothing is under way then. */
int connect_rtr_start(struct inc_connect *ctx, struct inc_connect_socket *socket,
		      const struct connect_info *peer, uint64_t bytes, connect_rtr_done done,
		      void *arg, struct connect_rtr **rtr, struct inc_err *err);

/* Carries out CONNECT_ACTION_STOP. While a step to RTR is under way (*rtr is not NULL) the socket
 * is left to that call, which destroys it at its end, and *rtr and *socket are NULL afterwards.
 * Else *socket, where there is one, is stopped. */
void connect_rtr_stop(struct connect_rtr **rtr, struct inc_connect_socket **socket);

/* Waits for the calls that are still under way, and destroys their sockets, which were left. */
void connect_rtr_stop_all(struct inc_connect *ctx);

#endif
