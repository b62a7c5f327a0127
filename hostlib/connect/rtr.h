/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Moves a queue pair to RTR without blocking the event loop. Over RoCE the kernel resolves the
 * peer's Ethernet address in ibv_modify_qp(), which blocks until it has an answer. So each socket
 * makes this call on a thread of its own, and a peer that does not answer delays no other
 * connection.
 *
 * The socket must not be destroyed while the call runs. If its owner gives the connection up
 * meanwhile, connect_rtr_stop() hands the socket over, and the loop destroys it when the call
 * returns. The thread uses nothing but the socket's queue pair.
 *
 * All functions and the callback run on the thread of the context's event base.
 */
#ifndef INC_CONNECT_RTR_H
#define INC_CONNECT_RTR_H

#include <stdint.h>
#include "hostlib/connect/context.h"
#include "lib/base/err.h"

struct connect_rtr;

/* A function that the event loop calls once, when the move to RTR has ended and the struct
 * connect_rtr is freed. error is 0, or -errno with the reason in why. */
typedef void (*connect_rtr_done)(void *arg, int error, const char *why);

/* Starts to move a socket from INIT to RTR, with this peer. bytes is the socket's memory, which
 * connect_rtrs.abandoned_bytes counts if its owner gives it up. Returns 0, or -errno with the
 * reason in err; then no thread runs. */
int connect_rtr_start(struct inc_connect *ctx, struct inc_connect_socket *socket,
		      const struct connect_info *peer, uint64_t bytes, connect_rtr_done done,
		      void *arg, struct connect_rtr **rtr, struct inc_err *err);

/* Stops a socket, as CONNECT_ACTION_STOP asks. While its move to RTR runs (*rtr is not NULL), it
 * cannot be stopped. Then it is left to the loop, which destroys it when the move ends, and *rtr
 * and *socket become NULL. */
void connect_rtr_stop(struct connect_rtr **rtr, struct inc_connect_socket **socket);

/* Waits for all moves to RTR that still run, and destroys the sockets that their owners have given
 * up. */
void connect_rtr_stop_all(struct inc_connect *ctx);

#endif
