/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The RC peer of a soft channel. The peer receives the channel's packets one by one, and checks
 * every ICRC with the IP ID that the network must have assigned. It sends the packets that the test
 * describes. Its socket is one of inc_os (lib/base/os.h), as that was when the peer was opened. So
 * the peer works with the kernel's sockets, and with those of memory_os.c.
 */
#ifndef SELFTESTS_RC_PEER_H
#define SELFTESTS_RC_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/base/datagram.h"
#include "lib/roce/parse.h"
#include "lib/roce/wire.h"

#define RC_PEER_QPN   0x4321
#define RC_PEER_ADDR  0x7f000001
#define RC_PEER_BYTES 16384 /* greatest length of a datagram of the peer */

struct rc_peer {
	struct inc_os_udp udp; /* functions of the network to which the peer belongs */
	int fd;
	struct inc_udp_path from_channel, to_channel;
	uint32_t channel_qpn, channel_psn, own_psn;
	/* datagrams that were received and not read yet: numbers [next, n); `at` is the position in
	 * the first one */
	struct inc_datagram datagram[INC_UDP_RECVS];
	unsigned int n, next;
	size_t at;
	uint8_t *room;
	/* number of packets that arrived together with the last one, in one send of the channel */
	unsigned int together;
	/* the datagram under construction: its packets, and the length of the first one */
	uint8_t out[RC_PEER_BYTES];
	size_t out_bytes, out_step;
	unsigned int out_packets;
	bool becn;        /* the packets that the peer sends report congestion */
	uint8_t tos;      /* TOS byte of the packets that the peer sends */
	uint8_t from_tos; /* TOS byte of the last packet that was received */
};

/* A packet of the peer. It is right unless one of the last members is set. */
struct rc_packet {
	uint8_t opcode;
	uint32_t psn;
	bool ackreq, se;
	uint64_t va;
	uint32_t rkey, dmalen;
	uint32_t imm; /* the immediate; of an ACK packet, the AETH */
	const void *payload;
	size_t len;
	/* bits that are flipped in the packet's fields */
	uint32_t flip_qpn, flip_icrc;
	uint16_t flip_pkey, flip_ip_id;
	size_t cut; /* number of bytes that are cut off at the end of the packet */
};

/* Opens the peer's socket on RC_PEER_ADDR, or on another address, and returns its UDP port. */
uint16_t rc_peer_open(struct rc_peer *peer);
uint16_t rc_peer_open_at(struct rc_peer *peer, uint32_t address);
/* Sets the channel with which the peer exchanges packets. rc_peer_channel_at(): the channel's
 * address is not that of the peer. */
void rc_peer_connect(struct rc_peer *peer, uint16_t udp_port, uint32_t qpn, uint32_t channel_psn,
		     uint32_t own_psn);
void rc_peer_channel_at(struct rc_peer *peer, uint32_t address);
void rc_peer_close(struct rc_peer *peer);

/* Receives the channel's next packet, within timeout_ms. Returns false if no packet arrives. A
 * packet that a peer could not parse, or a wrong ICRC, fails the test. The payload is valid until
 * the next call. */
bool rc_peer_receive(struct rc_peer *peer, struct inc_roce_packet *pkt, int timeout_ms);

/* Sends a packet. */
void rc_peer_send(struct rc_peer *peer, const struct rc_packet *packet);
/* Appends a packet to the datagram under construction. Returns false if that has no place for it,
 * because all packets of a datagram but the last have the same length. */
bool rc_peer_append(struct rc_peer *peer, const struct rc_packet *packet);
/* Sends the datagram under construction, if it has any packet. */
void rc_peer_transmit(struct rc_peer *peer);
/* Sends a packet of the peer from another address and port; port 0: any free port. */
void rc_peer_send_from(struct rc_peer *peer, uint32_t address, uint16_t port,
		       const struct rc_packet *packet);
/* Sends a datagram of any bytes. */
void rc_peer_send_bytes(struct rc_peer *peer, const void *bytes, size_t size);
void rc_peer_ack(struct rc_peer *peer, uint8_t syndrome, uint32_t psn);
/* Answers a contribution with its mirror: the same headers, with another payload and the PSN of
 * result r. */
void rc_peer_mirror(struct rc_peer *peer, const struct inc_roce_packet *of, uint64_t r,
		    const void *payload);

#endif
