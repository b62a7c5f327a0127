/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The UDP socket of soft endpoints: unprivileged, unconnected, with the don't-fragment bit. So the
 * kernel gives a single packet the IP ID 0, which the ICRC covers. If the kernel supports it, it
 * segments a send of many packets (UDP_SEGMENT), and a receive may return many packets that it has
 * merged (UDP_GRO). The socket's owner uses it, on one thread.
 */
#ifndef INC_ROCE_UDP_H
#define INC_ROCE_UDP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include "lib/base/err.h"

/* Datagrams that one call receives at most, and the bytes of one. */
#define INC_UDP_RECVS      8
#define INC_UDP_RECV_BYTES 65536

struct inc_udp {
	int fd;
	uint16_t port; /* on which it receives, host order */
	bool segment;  /* UDP_SEGMENT has not failed so far */
	bool gro;      /* packets may be merged, if they have UDP checksums */
	bool blocked;  /* the send buffer was full; see inc_udp_writable() */
	int rcvbuf;    /* bytes, as the kernel counts them */
	uint64_t send_calls, recv_calls;
	int send_error; /* errno of the last send that failed, for messages; 0: none failed */
};

/* Opens the socket at an address of this machine; port 0: any free port. Its buffers are as
 * large as the kernel allows for this process, up to `bytes`. On failure -errno, and
 * inc_udp_close() is allowed. */
int inc_udp_open(struct inc_udp *udp, struct in_addr own, uint16_t port, int bytes,
		 struct inc_err *err);
/* Makes the kernel report the interface at which each datagram arrives. 0 or -errno. */
int inc_udp_show_ifindex(struct inc_udp *udp, struct inc_err *err);
void inc_udp_close(struct inc_udp *udp);

/* Whether the send buffer has room. */
bool inc_udp_writable(struct inc_udp *udp);

/* Sends one packet; if that fails, it counts as lost on the path. */
void inc_udp_send_one(struct inc_udp *udp, const struct sockaddr_in *to, const void *packet,
		      size_t size);

/* A received datagram: packets of `step` bytes each; the last one may be shorter. */
struct inc_datagram {
	struct sockaddr_in from;
	const uint8_t *data;
	size_t size, step;
	unsigned int ifindex; /* where it arrived; 0: unknown, or inc_udp_show_ifindex() is off */
};

struct inc_udp_inbox {
	struct inc_datagram datagram[INC_UDP_RECVS];
	uint8_t *bytes; /* [INC_UDP_RECVS * INC_UDP_RECV_BYTES] */
};

int inc_udp_inbox_init(struct inc_udp_inbox *inbox); /* -ENOMEM */
void inc_udp_inbox_free(struct inc_udp_inbox *inbox);

/* Receives what one system call returns. Returns the number of datagrams, which are valid until
 * the next call; INC_UDP_RECVS: there may be more. A datagram has the size 0 if it is too large
 * for the inbox, or its sender has no IPv4 address. */
unsigned int inc_udp_receive(struct inc_udp *udp, struct inc_udp_inbox *inbox);

#endif
