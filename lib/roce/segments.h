/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes packets for a UDP socket. A send has many packets, which the kernel segments (UDP_SEGMENT),
 * and a system call has many sends. Payloads are never copied. A send is a gather list: headers and
 * ICRCs, which are made in its own buffer, and payloads in the caller's memory. Requesters
 * (requester.h) use it and choose the packets.
 */
#ifndef INC_ROCE_SEGMENTS_H
#define INC_ROCE_SEGMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/base/addr.h"
#include "lib/base/datagram.h"
#include "lib/proto/frame.h"
#include "lib/roce/wire.h"
#include "lib/proto/roce.h"

/* Limits of a send: of its bytes, because of the UDP length field, and of its packets, which is how
 * many with payloads of 1,024 bytes fit. */
#define INC_MAX_SEND_BYTES 65000
#define INC_MAX_SEGMENTS   62
_Static_assert(INC_MAX_SEGMENTS <= INC_SEND_PACKETS,
	       "no more packets than a kernel makes of a send");
/* Returns how many packets of wire_bytes, from BTH to ICRC, fit in one send. */
static inline unsigned int inc_segments_most(unsigned int wire_bytes)
{
	const unsigned int fit = INC_MAX_SEND_BYTES / wire_bytes;

	return fit < INC_MAX_SEGMENTS ? fit : INC_MAX_SEGMENTS;
}

#define INC_TX_ASK     0x1 /* the packet requests an ACK, even if it is in the middle of a send */
#define INC_TX_HAS_CRC 0x2 /* the member crc is valid */
#define INC_TX_MANY    0x4 /* the packet was sent in one send with others the last time */
#define INC_TX_ASKED   0x8 /* the packet has requested an ACK when it was sent */
/* Two flags for a requester whose peer keeps packets in any order: */
#define INC_TX_KEPT 0x10 /* the peer has the packet, but lacks one before it */
#define INC_TX_LOST 0x20 /* the packet counts as lost, so it must be sent again */

/* A packet to send and to resend. */
struct inc_tx_packet {
	/* the payload, which must not change until the packet is acknowledged */
	const uint8_t *payload;
	uint64_t va; /* RETH of a WRITE's first or only packet */
	uint32_t rkey;
	uint32_t dmalen;
	uint32_t imm;
	uint32_t crc; /* CRC of the payload from state 0 */
	uint16_t len;
	uint8_t opcode;
	uint8_t flags;  /* INC_TX_* */
	uint32_t round; /* round in which the packet was sent again last; 0: it was not */
};

/* The properties of a connection that all packets to the peer share. */
struct inc_tx_peer {
	struct inc_udp_path path;
	struct inc_icrc_usual usual;
	union inc_sockaddr addr;
	struct inc_addr source; /* `source` of struct inc_udp_send */
	uint8_t tos;            /* `tos` of struct inc_udp_send */
	uint8_t priority;       /* `priority` of struct inc_udp_send */
	uint32_t qpn;           /* queue pair number of the peer */
	uint16_t pkey;
	/* packets to the peer, other than ACKs, have the solicited event bit */
	bool se;
	/* table for CRCs over full payloads; NULL: no packet has a crc */
	const struct inc_crc32_jump *jump;
};

/* Most bytes between the payloads of two packets in a send: pad and ICRC of the first, and headers
 * of the second. */
#define INC_JOINT_MAX (3 + INC_ICRC_LEN + INC_MAX_HEAD_LEN)

/*
 * One send under construction. The kernel segments the send into packets of `size` bytes and
 * numbers the IP IDs of IPv4 from 0 on. In iov[], parts of `bytes` with headers and ICRCs alternate
 * with payloads.
 */
struct inc_segments {
	struct iovec iov[2 * INC_MAX_SEGMENTS + 1];
	uint8_t bytes[(INC_MAX_SEGMENTS + 1) * INC_JOINT_MAX];
	unsigned int iovs, segments;
	size_t used;  /* number of bytes of `bytes` that are in use */
	size_t joint; /* start of the part of `bytes` that no element of iov[] has yet */
	size_t size;  /* length of the first packet, from BTH to ICRC */
	size_t total; /* length of all packets */
	/* the last packet is shorter than the first, so the kernel allows no packet after it */
	bool closed;
};

void inc_segments_begin(struct inc_segments *t);
/* Appends a packet to the send. Returns false if the packet must go into another send. ackreq_psn:
 * the packet's PSN, with INC_BTH_ACKREQ if it requests an ACK. together: the packet may share a
 * send with others. */
bool inc_segments_add(struct inc_segments *t, const struct inc_tx_peer *to,
		      const struct inc_tx_packet *p, uint32_t ackreq_psn, bool together);
/* Completes the send, and fills in `out` for the socket. */
void inc_segments_end(struct inc_segments *t, const struct inc_tx_peer *to,
		      struct inc_udp_send *out);

/* These make an ACK packet, which is sent alone: one makes a send, the other writes the packet to
 * `at`, which has room for INC_ACK_PACKET_LEN bytes. Of a PSN the lowest 24 bits count. If
 * ackreq_psn also has INC_BTH_ACKREQ, the packet is a probe. */
void inc_segments_ack(struct inc_segments *t, const struct inc_tx_peer *to, uint8_t syndrome,
		      uint32_t ackreq_psn, uint32_t msn);
#define INC_ACK_PACKET_LEN (INC_BTH_LEN + INC_AETH_LEN + INC_ICRC_LEN)
/* Writes a CNP, which asks the peer to send less, to `at`, which has room for INC_CNP_PACKET_LEN
 * bytes. */
#define INC_CNP_PACKET_LEN (INC_BTH_LEN + INC_CNP_LEN + INC_ICRC_LEN)
void inc_put_cnp_packet(uint8_t *at, const struct inc_tx_peer *to);
void inc_put_ack_packet(uint8_t *at, const struct inc_tx_peer *to, uint8_t syndrome,
			uint32_t ackreq_psn, uint32_t msn);

#endif
