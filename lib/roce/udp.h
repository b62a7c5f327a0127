/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The UDP socket of soft endpoints: unprivileged and unconnected, with the don't-fragment bit, so
 * that the kernel gives a packet alone the IP ID 0, which the ICRC covers. A send of many packets
 * is cut by the kernel where it can (UDP_SEGMENT), a receive may bring many that it has put
 * together (UDP_GRO). Used by whoever owns the socket, on its thread.
 */
#ifndef INC_ROCE_UDP_H
#define INC_ROCE_UDP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include "lib/base/err.h"

/* Datagrams that one call takes in at most, and the bytes of one. */
#define INC_UDP_RECVS      8
#define INC_UDP_RECV_BYTES 65536

struct inc_udp {
	int fd;
	uint16_t port; /* where it receives, host order */
	bool segment;  /* UDP_SEGMENT works, as far as is known */
	bool gro;      /* packets may come together; they must have UDP checksums for that */
	bool blocked;  /* the send buffer was full; see inc_udp_writable() */
	int rcvbuf;    /* bytes, as the kernel counts them */
	uint64_t send_calls, recv_calls;
	int send_error; /* of the last send that failed, for messages; 0: none did */
};

/* Opens it at an address of this machine; port 0: any free one. Its buffers are as large as this
 * process is allowed, up to `bytes`. On failure -errno, and inc_udp_close() does no harm. */
int inc_udp_open(struct inc_udp *udp, struct in_addr own, uint16_t port, int bytes,
		 struct inc_err *err);
/* From now on datagrams say at which interface they arrived. 0 or -errno. */
int inc_udp_show_ifindex(struct inc_udp *udp, struct inc_err *err);
void inc_udp_close(struct inc_udp *udp);

/* False while the send buffer is full. */
bool inc_udp_writable(struct inc_udp *udp);

/* Sends one packet, as it is; what fails is as if lost on the way. */
void inc_udp_send_one(struct inc_udp *udp, const struct sockaddr_in *to, const void *packet,
		      size_t size);

/* A received datagram: packets of `step` bytes each, the last one shorter perhaps. */
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

/* Takes in what one system call gives, and returns how many datagrams that were, which stand until
 * the next call; INC_UDP_RECVS: there may be more. One from no IPv4 address or too large for the
 * inbox has the size 0. */
unsigned int inc_udp_receive(struct inc_udp *udp, struct inc_udp_inbox *inbox);

#endif
