/* SPDX-License-Identifier: BSD-2-Clause */
/* UDP sockets and datagrams, as the functions of struct inc_os_udp (os.h) receive and return them.
 * A socket's owner uses it, on one thread. */
#ifndef INC_DATAGRAM_H
#define INC_DATAGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <netinet/in.h>
#include <sys/uio.h>
#include "lib/base/addr.h"
#include "lib/base/os.h"
#include "lib/proto/roce.h"

/* The limit of the sends (struct inc_udp_send) that one call passes to the kernel. */
#define INC_UDP_SENDS 32
/* The limit of the datagrams that one call receives, and of the bytes of one datagram. */
#define INC_UDP_RECVS      8
#define INC_UDP_RECV_BYTES 65536

/* A UDP socket that was opened. */
struct inc_udp_socket {
	int fd;
	uint16_t port; /* UDP port on which the socket receives, in host order */
	bool segment;  /* the socket supports UDP_SEGMENT, so one send may have several packets */
	/* the socket uses UDP_GRO, so the kernel may merge received packets that have UDP
	 * checksums */
	bool gro;
	int rcvbuf; /* size of the receive buffer, as the kernel counts it */
};

/* A send: one packet, or several, which the kernel separates. */
struct inc_udp_send {
	const union inc_sockaddr *to; /* of the socket's family */
	/* own address from which the send leaves; zeros: the address of the socket, which is bound
	 * to one */
	struct inc_addr source;
	const struct iovec *iov;
	unsigned int iovs;
	/* length of each packet but the last, which may be shorter; 0: the send is one packet */
	uint16_t segment_bytes;
	uint8_t tos; /* TOS byte or traffic class of the packets; 0: that of the socket */
	/* priority of the packets in the kernel, from which a VLAN device makes that of their tag;
	 * 0: that of the socket, or that which follows from tos */
	uint8_t priority;
};

/* A received datagram. It has packets of `step` bytes each, of which the last may be shorter. */
struct inc_datagram {
	union inc_sockaddr from;
	const uint8_t *data;
	size_t size, step;
	/* the interface at which the datagram arrived, and the own address to which it was sent; 0
	 * and zeros: unknown, or show_arrival() was not called */
	unsigned int ifindex;
	struct inc_addr to;
	uint8_t tos; /* TOS byte or traffic class of the packets; 0: unknown */
};

#endif
