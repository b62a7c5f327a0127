/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One end of a connection on an RDMA device: its queue pair, its buffers and its posted requests.
 * This is the interface for client.c and accept.c (the service's side) while the connection is
 * made. Afterwards the owner calls inc_connect_socket_*() of inc_connect.h. connect_socket_event(),
 * _hand_over() and _stop() aside, each function carries out one action of state.h or a part of it.
 * Its failure is CONNECT_EVENT_FAILED.
 *
 * The order of calls, and of the events from connect_socket_event():
 *
 *	client	make, describe; aim, enter_rtr, entered_rtr; post_receives, to_rts, probe;
 *		event: PROBED; hand_over
 *	service	make; aim, enter_rtr, entered_rtr; post_receives, describe; event: MESSAGE;
 *		to_rts; hand_over
 *
 * inc_connect_socket_destroy() is allowed at any time. inc_connect_socket_fd() is readable when
 * connect_socket_event() has something to report.
 *
 * Threads: one at a time per socket, except that enter_rtr runs on a thread of rtr.h. Events of the
 * port and the device arrive on the thread that reads the device's events (lib/rdma/async.h). If no
 * thread reads them any more, only failing requests reveal that the port is down.
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

struct connect_counters; /* the struct of counters (figures.h) */

struct connect_socket_opts {
	struct inc_rdma_device *device; /* RDMA device; the socket holds its own reference */
	/* number of the device in this machine, which is sent to the peer */
	uint8_t dev;
	/* Attributes of the device's port, which are copied. An Ethernet port must have a GID that
	 * connect_gid_of() finds. */
	const struct inc_rdma_port_info *port;
	/* Settings of the connection, which are copied. Both sides use those of the client. */
	const struct inc_connect_settings *settings;
	/* name of this machine, which is sent to the peer; copied */
	const char *hostname;
	/* counters of the context; the socket holds its own reference */
	struct connect_counters *counters;
};

/*
 * Makes a socket: its queue pair (in INIT) and its registered buffers. Returns 0, and the caller
 * owns *socket, or an error of the device. It returns -EINVAL if the device does not support the
 * settings, and err names the field. Without an address of the port it returns -EADDRNOTAVAIL. A
 * limit on locked memory causes -ENOMEM, too.
 */
int connect_socket_make(const struct connect_socket_opts *opts, struct inc_connect_socket **socket,
			struct inc_err *err);
/* Fills in what the peer must know about this end of the connection. */
void connect_socket_describe(const struct inc_connect_socket *socket, struct connect_info *info);
/* Sets the peer of a socket, before RTR. Returns 0, or -EINVAL if the peer's link layer or address
 * does not fit this end. */
int connect_socket_aim(struct inc_connect_socket *socket, const struct connect_info *peer,
		       struct inc_err *err);
/* Moves the queue pair to RTR, so that it can receive from the peer. The kernel resolves the peer's
 * Ethernet address, which takes a second or more if no machine has it. Returns 0 or -errno. Any
 * thread may call this, but the socket must not be stopped or destroyed meanwhile. */
int connect_socket_enter_rtr(struct inc_connect_socket *socket);
/* Describes a failure of connect_socket_enter_rtr() in err. error is the result of that function,
 * which is returned. */
int connect_socket_entered_rtr(const struct inc_connect_socket *socket, int error,
			       struct inc_err *err);
/* Posts all receives of a socket. Allowed from state INIT on. Returns 0 or -errno. */
int connect_socket_post_receives(struct inc_connect_socket *socket, struct inc_err *err);
/* Moves the queue pair to RTS, so that it can send. Returns 0 or -errno. */
int connect_socket_to_rts(struct inc_connect_socket *socket, struct inc_err *err);
/* Sends the client's first message (CONNECT_IMM_PROBE). Returns 0 or -errno. */
int connect_socket_probe(struct inc_connect_socket *socket, struct inc_err *err);

/*
 * Reports events of a socket before its hand-over. Returns 1 and an event, each at most once, in
 * this order: CONNECT_EVENT_MESSAGE (the peer's first message was received), CONNECT_EVENT_PROBED
 * (our first message has arrived), CONNECT_EVENT_PEER_CLOSED. Returns 0 if there is no event; the
 * descriptor becomes readable at the next one. Returns -errno, with the reason in err, for
 * CONNECT_EVENT_FAILED. Messages that arrive after the first one are kept for the owner. Does not
 * block.
 */
int connect_socket_event(struct inc_connect_socket *socket, enum connect_event *event,
			 struct inc_err *err);

/* Gives a socket to its owner. state is CONNECT_READY, or CONNECT_CLOSED if the peer has already
 * closed, so that only its messages can be read. inc_connect_socket_info() returns latency_ns. The
 * socket counts as a connection until it is destroyed. */
void connect_socket_hand_over(struct inc_connect_socket *socket, enum connect_state state,
			      uint64_t latency_ns);

/* Moves a socket's queue pair to ERR, so that the device does not access the socket's memory any
 * more. May be called at any time, and more than once. */
void connect_socket_stop(struct inc_connect_socket *socket);

#endif
