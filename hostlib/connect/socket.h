/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection's end on the device: queue pair, buffers, what is under way. This is what client.c
 * and accept.c (the service's side) need of it while the connection is made; what its owner calls
 * afterwards is inc_connect.h's inc_connect_socket_*(). Each function but those to event, hand
 * over and stop carries out one action of state.h, or a part of it; where it fails, that is
 * CONNECT_EVENT_FAILED.
 *
 *	client	make, describe; aim, enter_rtr, entered_rtr; post_receives, to_rts, probe;
 *		event: PROBED; hand_over
 *	service	make; aim, enter_rtr, entered_rtr; post_receives, describe; event: MESSAGE;
 *		to_rts; hand_over
 *
 * inc_connect_socket_destroy() ends it at any point, inc_connect_socket_fd() is readable when
 * event() has something to say.
 *
 * Threads: one at a time per socket, but for enter_rtr (rtr.h's). It hears of its port and device
 * by who takes the device's events (lib/rdma/async.h), on whatever thread; once nobody does, a port
 * that goes down is noticed by what is under way alone.
 */
#ifndef INC_CONNECT_SOCKET_H
#define INC_CONNECT_SOCKET_H

#include <stdint.h>
#include "hostlib/connect/protocol.h"
#include "hostlib/connect/state.h"
#include "hostlib/include/inc_connect.h"
#include "lib/base/err.h"
#include "lib/rdma/device.h"
#include "lib/rdma/info.h"

struct connect_counters; /* figures.h */

struct connect_socket_opts {
	struct inc_rdma_device *device; /* the socket takes a reference of its own */
	uint8_t dev;                    /* its number, which the peer is told */
	/* Copied; an Ethernet port must have a GID for connect_gid_of(). */
	const struct inc_rdma_port_info *port;
	const struct inc_connect_settings *settings; /* copied; the client's, on both sides */
	const char *hostname;                        /* ours, which the peer is told; copied */
	struct connect_counters *counters;           /* likewise a reference */
};

/*
 * Makes the queue pair (INIT) and its registered buffers. 0 and *socket, which is the caller's; or
 * -EINVAL: settings that the device cannot do, err has the field; -EADDRNOTAVAIL: the port has no
 * address; -ENOMEM: also a limit on locked memory; or what the device says.
 */
int connect_socket_make(const struct connect_socket_opts *opts, struct inc_connect_socket **socket,
			struct inc_err *err);
/* What the peer must be told of this end. */
void connect_socket_describe(const struct inc_connect_socket *socket, struct connect_info *info);
/* Before RTR: who the peer is. 0; -EINVAL: its link or address does not fit ours. */
int connect_socket_aim(struct inc_connect_socket *socket, const struct connect_info *peer,
		       struct inc_err *err);
/* RTR: the queue pair can receive from this peer, whose Ethernet address the kernel looks for: a
 * second and more, where nobody has it. 0 or -errno. On any thread: it touches nothing that others
 * do, who neither stop nor destroy the socket meanwhile. */
int connect_socket_enter_rtr(struct inc_connect_socket *socket);
/* What came of that: 0, or -errno and why. */
int connect_socket_entered_rtr(const struct inc_connect_socket *socket, int error,
			       struct inc_err *err);
/* 0 or -errno. In INIT or later. */
int connect_socket_post_receives(struct inc_connect_socket *socket, struct inc_err *err);
/* RTS: it can send. 0 or -errno. */
int connect_socket_to_rts(struct inc_connect_socket *socket, struct inc_err *err);
/* Sends the first message. 0 or -errno. */
int connect_socket_probe(struct inc_connect_socket *socket, struct inc_err *err);

/*
 * Until the hand-over: what has happened. 1 and *event: CONNECT_EVENT_MESSAGE (the peer's first
 * message has come), CONNECT_EVENT_PROBED (ours has arrived) or CONNECT_EVENT_PEER_CLOSED, each
 * once, in that order; 0: nothing more now, the descriptor tells when there is; or -errno and why:
 * CONNECT_EVENT_FAILED. What comes behind MESSAGE or PROBED and is not asked for stays for the
 * owner. Does not block.
 */
int connect_socket_event(struct inc_connect_socket *socket, enum connect_event *event,
			 struct inc_err *err);

/* From here on it is its owner's: state is CONNECT_READY, or CONNECT_CLOSED for one that has
 * messages to be read and no peer. latency_ns is what inc_connect_socket_info() says. Counts as a
 * connection until it ends. */
void connect_socket_hand_over(struct inc_connect_socket *socket, enum connect_state state,
			      uint64_t latency_ns);

/* ERR: the device touches no memory for it any more. At any point, any number of times. */
void connect_socket_stop(struct inc_connect_socket *socket);

#endif
