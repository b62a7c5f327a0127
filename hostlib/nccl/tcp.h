/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The TCP socket of a comm, opened by connect with the address in the handle, and kept open as long
 * as the comm. Both ends send control messages of fixed size. The functions never block. Messages
 * that the kernel does not accept yet wait in a queue; if it is full, the peer does not read, which
 * is an error.
 *
 * Only one thread at a time uses a socket (under the comm's lock).
 */
#ifndef HA_TCP_H
#define HA_TCP_H

#include <assert.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include "hostlib/nccl/abi.h"
#include "hostlib/nccl/control_msg.h"
#include "lib/base/err.h"

#define HA_SOCKET_QUEUE 64u /* most control messages that wait in a socket's queue to be sent */

struct ha_socket {
	int fd;      /* descriptor of the socket; -1: none */
	int watcher; /* epoll descriptor that has fd; 0: none */
	bool connected;
	/* -errno with which the socket has failed; -ECONNRESET: the peer has closed it */
	int error;
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

/* Makes a socket that listens on any port of the first usable address. ifname names the interfaces
 * that may be used (NCCL_SOCKET_IFNAME, see choose.h). If it is NULL, loopback and bridges of
 * containers come last. Link-local addresses are never used. Returns the descriptor, or -errno. */
int ha_socket_listen(const char *ifname, union ha_address *address, struct inc_err *err);
/* Accepts a connection into a socket. Returns 1 if one was accepted, 0 if none is waiting, or
 * -errno. */
int ha_socket_accept(int listen_fd, struct ha_socket *socket, struct inc_err *err);
/* Begins to connect a socket to an address. Returns 0 or -errno. */
int ha_socket_connect(struct ha_socket *socket, const union ha_address *address,
		      struct inc_err *err);
/* Checks whether a socket that connects is up. Returns 1 if it is, 0 if it is not yet, or
 * -errno. */
int ha_socket_connected(struct ha_socket *socket, struct inc_err *err);
/* Queues a control message, and sends what the kernel accepts. Returns 0, or -errno for the rest of
 * the socket's life; -ENOBUFS means that the queue is full. */
int ha_socket_send(struct ha_socket *socket, const uint8_t msg[HA_MSG_BYTES]);
/* Receives a control message, and sends queued ones, too. Returns 1 with a message, or 0 if none
 * has arrived. Returns -errno only after all messages of the peer have been read. */
int ha_socket_receive(struct ha_socket *socket, uint8_t msg[HA_MSG_BYTES]);
void ha_socket_close(struct ha_socket *socket);

/*
 * The handle that listen fills, NCCL carries to the other rank, and connect reads. NCCL passes the
 * same memory to each call of connect, so the last member, which only that process uses, holds the
 * connection that is being made. The functions are pure, and control_msg.c has them.
 */

#define HA_HANDLE_DUAL 0x1u /* the listener's device has two rails */

/* The handle is packed, because NCCL stores it in an array of char, at any address. */
struct ha_handle {
	uint32_t magic; /* magic number; all members but `comm` are in network order */
	uint8_t version, flags, family /* 4 or 6 */, zero;
	uint16_t tcp_port;
	/* address on which the listener listens; IPv4 uses the first 4 bytes */
	uint8_t address[16];
	uint8_t scope[4]; /* IPv6 */
	uint8_t nonce[8];
	uint8_t rest[82]; /* 0 */
	/* struct ha_comm of the connecting process, which only that process uses; listen sets 0 */
	uint64_t comm;
} __attribute__((packed, aligned(1)));
static_assert(sizeof(struct ha_handle) == HA_NCCL_HANDLE_BYTES, "NCCL's handles");

/* Fills a handle. The caller has chosen the nonce at random. */
void ha_handle_make(struct ha_handle *handle, const union ha_address *address, unsigned int flags,
		    uint64_t nonce);
/* Reads a handle. Returns 0, or -EPROTO and the reason: it is of another plugin or another version,
 * or has no valid address. */
int ha_handle_read(const struct ha_handle *handle, union ha_address *address, unsigned int *flags,
		   uint64_t *nonce, struct inc_err *err);

#endif
