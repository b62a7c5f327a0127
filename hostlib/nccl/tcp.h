/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The TCP socket of a comm: opened by connect with the address of the handle, kept for its life.
 * Messages of fixed size, both ways. Never blocks; messages that the kernel does not take wait in a
 * queue here, whose end is an error (a peer that does not read).
 *
 * Threads: one at a time (the comm's lock).
 */
#ifndef HA_TCP_H
#define HA_TCP_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include "hostlib/nccl/control_msg.h"
#include "lib/base/err.h"

#define HA_SOCKET_QUEUE 64u /* messages that wait to be sent, at most */

struct ha_socket {
	int fd; /* -1: none */
	bool connected;
	int error; /* -errno; -ECONNRESET where the peer has closed */
	uint8_t in[HA_MSG_BYTES];
	unsigned int in_bytes;
	uint8_t out[HA_SOCKET_QUEUE * HA_MSG_BYTES];
	unsigned int out_at, out_bytes;
};

union ha_address {
	struct sockaddr sa;
	struct sockaddr_in in4;
	struct sockaddr_in6 in6;
};

/* Listens on the first address of an interface that ifname lets pass (NCCL_SOCKET_IFNAME, see
 * iflist.h; NULL: the first that is neither loopback nor a bridge of containers, then those), any
 * port. Link-local addresses are passed over. The descriptor, or -errno. */
int ha_socket_listen(const char *ifname, union ha_address *address, struct inc_err *err);
/* 1: accepted; 0: nobody yet; -errno. */
int ha_socket_accept(int listen_fd, struct ha_socket *socket, struct inc_err *err);
/* Begins. 0 or -errno. */
int ha_socket_connect(struct ha_socket *socket, const union ha_address *address,
		      struct inc_err *err);
/* 1: connected; 0: not yet; -errno. */
int ha_socket_connected(struct ha_socket *socket, struct inc_err *err);
/* Queues and sends what it can. 0, or -errno (-ENOBUFS: the queue is full), which stays. */
int ha_socket_send(struct ha_socket *socket, const uint8_t msg[HA_MSG_BYTES]);
/* 1: a message has come; 0: none yet; -errno, when all that the peer said has been heard. Sends
 * what waits, too. */
int ha_socket_receive(struct ha_socket *socket, uint8_t msg[HA_MSG_BYTES]);
void ha_socket_close(struct ha_socket *socket);

#endif
