/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The UDP socket of soft endpoints: unprivileged, unconnected, of IPv4 or IPv6, and with the
 * don't-fragment bit. So the kernel gives a single packet of IPv4 the IP ID 0, which the ICRC
 * covers. A kernel that supports it
 * segments a send of many packets (UDP_SEGMENT), and a receive may return many packets that the
 * kernel has merged (UDP_GRO). The socket's owner uses it, on one thread.
 */
#ifndef INC_ROCE_UDP_H
#define INC_ROCE_UDP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/base/addr.h"
#include "lib/base/datagram.h"
#include "lib/base/err.h"
#include "lib/base/opt.h"
#include "lib/proto/roce.h"

/* The range from which Linux takes the ports of soft endpoints by default. */
#define INC_UDP_FIRST_PORT 32768
#define INC_UDP_LAST_PORT  60999
/* The command by which a firewall passes what peers send: to the port of RoCEv2, and to soft
 * endpoints. docs/guide.md has a stricter one. */
#define INC_FIREWALL_COMMAND                                                                    \
	"nft add rule inet filter input udp dport '{ " INC_STR(INC_ROCE_UDP_PORT) ", " INC_STR( \
		INC_UDP_FIRST_PORT) "-" INC_STR(INC_UDP_LAST_PORT) " }' accept"

struct inc_udp {
	int fd;
	bool ipv6;
	uint16_t port; /* UDP port on which the socket receives, in host order */
	bool segment;  /* the kernel knows UDP_SEGMENT; see `uncut` */
	bool gro;      /* the kernel may merge received packets that have UDP checksums */
	bool blocked;  /* the send buffer was full at the last send; see inc_udp_writable() */
	int rcvbuf;    /* size of the receive buffer, as the kernel counts it */
	uint64_t send_calls, recv_calls;
	/* number of sends of many packets that the kernel refused, because their device makes no
	 * checksums */
	uint64_t uncut;
	int send_error; /* errno of the last send that failed, for messages; 0: none failed */
};

/* Opens the socket (`open` of struct inc_os_udp). On failure it returns -errno, and inc_udp_close()
 * is allowed. */
int inc_udp_open(struct inc_udp *udp, struct inc_addr own, uint16_t port, int bytes,
		 struct inc_err *err);
/* Makes the socket's buffers larger (`grow` of struct inc_os_udp). */
void inc_udp_grow(struct inc_udp *udp, int bytes);
/* Makes the kernel report where each datagram arrives. Returns 0 or -errno. */
int inc_udp_show_arrival(struct inc_udp *udp, struct inc_err *err);
void inc_udp_close(struct inc_udp *udp);

/* Whether the socket's send buffer has room for a send. */
bool inc_udp_writable(struct inc_udp *udp);

/* Sends one packet as a datagram. If that fails, the packet counts as lost on the path. to: how
 * struct inc_udp_send describes it, without the packet. */
void inc_udp_send_one(struct inc_udp *udp, const struct inc_udp_send *to, const void *packet,
		      size_t size);

struct inc_udp_inbox {
	struct inc_datagram datagram[INC_UDP_RECVS];
	uint8_t *bytes; /* room for datagrams: [INC_UDP_RECVS * INC_UDP_RECV_BYTES] */
};

int inc_udp_inbox_init(struct inc_udp_inbox *inbox); /* Returns 0 or -ENOMEM. */
void inc_udp_inbox_free(struct inc_udp_inbox *inbox);

/* Receives the datagrams that one system call returns. Returns their number. The datagrams are
 * valid until the next call. If the number is INC_UDP_RECVS, there may be more. */
unsigned int inc_udp_receive(struct inc_udp *udp, struct inc_udp_inbox *inbox);

#endif
