/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets on their way into a UDP socket: many to a send, which the kernel cuts (UDP_SEGMENT), many
 * sends to a system call. Payloads are never copied here: a send is a gather list of headers and
 * ICRCs, made in it, and pieces of the caller's memory. Used by requesters (requester.h), which say
 * what goes.
 */
#ifndef INC_ROCE_SEGMENTS_H
#define INC_ROCE_SEGMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include "lib/proto/frame.h"
#include "lib/roce/wire.h"

/* Of a send: what the UDP length field has room for, and the packets of 1,024 bytes in that. */
#define INC_MAX_SEND_BYTES 65000
#define INC_MAX_SEGMENTS   62
_Static_assert(INC_MAX_SEGMENTS <= INC_SEND_PACKETS,
	       "no more packets than a kernel makes of a send");
/* Packets of so many bytes, from BTH to ICRC, that go together at most. */
static inline unsigned int inc_segments_most(unsigned int wire_bytes)
{
	const unsigned int fit = INC_MAX_SEND_BYTES / wire_bytes;

	return fit < INC_MAX_SEGMENTS ? fit : INC_MAX_SEGMENTS;
}

/* UDP_SEGMENT sends per system call */
#define INC_BATCH_SENDS 8

#define INC_TX_ASK     0x1 /* asks for an ACK, whatever goes with it */
#define INC_TX_HAS_CRC 0x2 /* crc is there */
#define INC_TX_MANY    0x4 /* it went together with others, the last time */
#define INC_TX_ASKED   0x8 /* it has asked for an ACK */

/* A packet to be sent, and sent again. */
struct inc_tx_packet {
	const uint8_t *payload; /* stays as it is until the packet is acknowledged */
	uint64_t va;            /* RETH, first or only packets of WRITE */
	uint32_t rkey;
	uint32_t dmalen;
	uint32_t imm;
	uint32_t crc; /* of the payload from state 0 */
	uint16_t len;
	uint8_t opcode;
	uint8_t flags; /* INC_TX_* */
};

/* One end's way to the other. */
struct inc_tx_peer {
	struct inc_roce_path path;
	struct inc_icrc_usual usual;
	struct sockaddr_in addr;
	uint32_t qpn; /* the peer's */
	uint16_t pkey;
	bool se;                           /* what is sent, but for ACKs, are solicited events */
	const struct inc_crc32_jump *jump; /* over full payloads; NULL: no packet has its crc */
};

/* Pad and ICRC of one segment and the headers of the next. */
#define INC_JOINT_MAX (3 + INC_ICRC_LEN + INC_MAX_HEAD_LEN)

/*
 * One send under construction, which the kernel cuts into packets of `size` bytes each
 * and numbers by their IP IDs from 0 on. Pieces of `bytes`, which hold headers and ICRCs, alternate
 * with payloads.
 */
struct inc_segments {
	struct iovec iov[2 * INC_MAX_SEGMENTS + 1];
	uint8_t bytes[(INC_MAX_SEGMENTS + 1) * INC_JOINT_MAX];
	char control[CMSG_SPACE(sizeof(uint16_t))] __attribute__((aligned(8)));
	unsigned int iovs, segments;
	size_t used;  /* of bytes[] */
	size_t joint; /* in bytes[], where the piece begins that is not in iov[] yet */
	size_t size;  /* of the first packet, from BTH to ICRC */
	size_t total; /* of all packets */
	bool closed;  /* the last packet is shorter than the first: the kernel allows none after it
		       */
};

void inc_segments_begin(struct inc_segments *t);
/* Appends a packet; false: it belongs into another send. psn: with INC_BTH_ACKREQ where it asks.
 * together: it may go with others. */
bool inc_segments_add(struct inc_segments *t, const struct inc_tx_peer *to,
		      const struct inc_tx_packet *p, uint32_t ackreq_psn, bool together);
/* Makes it ready for sendmmsg(). */
void inc_segments_end(struct inc_segments *t, const struct inc_tx_peer *to, struct mmsghdr *msg);

/* An ACK packet, which goes alone: as a send, and at `at`, where it has INC_ACK_PACKET_LEN bytes.
 */
void inc_segments_ack(struct inc_segments *t, const struct inc_tx_peer *to, uint8_t syndrome,
		      uint32_t psn, uint32_t msn);
#define INC_ACK_PACKET_LEN (INC_BTH_LEN + INC_AETH_LEN + INC_ICRC_LEN)
void inc_put_ack_packet(uint8_t *at, const struct inc_tx_peer *to, uint8_t syndrome, uint32_t psn,
			uint32_t msn);

#endif
