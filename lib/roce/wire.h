/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RoCEv2 packets in user space: the ICRC and the headers of each
 * opcode. The slow path, the soft endpoints and the tests use these functions.
 */
#ifndef INC_ROCE_WIRE_H
#define INC_ROCE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/base/addr.h"
#include "lib/proto/frame.h"
#include "lib/roce/crc.h"
#include "lib/proto/roce.h"

/* Length of the longest BTH with extended headers: BTH, RETH and immediate. */
#define INC_MAX_HEAD_LEN (INC_BTH_LEN + INC_RETH_LEN + INC_IMM_LEN)

/* Returns the length of the extended headers that follow the BTH (RETH, ImmDt, AETH). -1: the
 * opcode is not RC SEND, RDMA WRITE or ACK. */
static inline int inc_roce_ext_len(uint8_t opcode)
{
	return inc_op_in(opcode, INC_OPS_DATA | INC_OPBIT(ACK)) ? (int)inc_ext_len(opcode) : -1;
}

static inline bool inc_roce_has_imm(uint8_t opcode)
{
	return inc_op_in(opcode, INC_OPS_IMM);
}

static inline bool inc_roce_has_reth(uint8_t opcode)
{
	return inc_op_in(opcode, INC_OPS_RETH);
}

/* The addresses and ports of the packets of a connection, as the IP and UDP headers have them. Both
 * addresses are of one family. */
struct inc_udp_path {
	struct inc_addr saddr, daddr;
	uint16_t sport, dport;
	bool df; /* IPv4: the don't-fragment bit is set */
};

/* Returns how many bytes an IP packet has at most besides its payload, to or from this address. */
static inline unsigned int inc_roce_overhead(struct inc_addr addr)
{
	return inc_addr_is_ipv4(addr) ? INC_MAX_OVERHEAD : INC_MAX_OVERHEAD_IPV6;
}

/* Returns the largest RoCE payload whose packets fit into an MTU; 0: none fits. overhead: that of
 * inc_roce_overhead(). */
unsigned int inc_roce_payload(unsigned int mtu, unsigned int overhead);

/*
 * Returns the ICRC of a packet over IPv4. At ip is the 20-byte IP header (no options), followed in
 * memory by UDP, BTH, extended headers, payload and pad. The length len is from the IP header up
 * to, not including, the ICRC. This function masks the fields that the ICRC leaves out. On the wire
 * the value is least significant byte first.
 */
uint32_t inc_icrc_ipv4(const void *ip, size_t len);
/* Returns the same of a packet over IPv6 without extension headers. */
uint32_t inc_icrc_ipv6(const void *ip, size_t len);

/*
 * Returns the ICRC for a sender or receiver that has only the UDP payload. The parameters path and
 * ip_id are the IP and UDP fields that are not masked. An IPv6 packet has no IP ID, so ip_id counts
 * for nothing. len: length of the UDP payload without the ICRC.
 */
uint32_t inc_icrc_udp(const struct inc_udp_path *path, uint16_t ip_id, const void *bth, size_t len);

/*
 * The first part of inc_icrc_udp(). Returns the CRC-32 state after head, which is BTH and extended
 * headers of head_len bytes (INC_MAX_HEAD_LEN at most). rest_len: bytes between head and the ICRC.
 */
uint32_t inc_icrc_head(const struct inc_udp_path *path, uint16_t ip_id, const void *head,
		       size_t head_len, size_t rest_len);

/* The most packets into which kernels before 6.9 segment a send (UDP_SEGMENT). */
#define INC_SEND_PACKETS 64

/*
 * Most packets of a connection have the same length, and before their BTH only the IP ID of IPv4
 * changes. So the CRC states at the BTH are computed once, for the IDs of a send's packets.
 */
#define INC_ICRC_IDS INC_SEND_PACKETS
struct inc_icrc_usual {
	/* usual length of packets from BTH to the ICRC, without the ICRC itself; 0: no length is
	 * usual */
	size_t len;
	/* the xor of two CRCs of a packet of usual length: with 0 in its masked byte
	 * (INC_BTH_MASKED_AT), and with 0xff there */
	uint32_t masked;
	uint32_t state[INC_ICRC_IDS]; /* CRC states at the BTH, by IP ID */
};
/* Computes the CRC states at the BTH (struct inc_icrc_usual) for packets that have `payload` bytes
 * of payload and no extended headers. */
void inc_icrc_usual_init(struct inc_icrc_usual *usual, const struct inc_udp_path *path,
			 size_t payload);
/* These do what inc_icrc_udp() and inc_icrc_head() do, but faster for packets of the usual
 * length. */
uint32_t inc_icrc_udp_usual(const struct inc_icrc_usual *usual, const struct inc_udp_path *path,
			    uint16_t ip_id, const void *bth, size_t len);
uint32_t inc_icrc_head_usual(const struct inc_icrc_usual *usual, const struct inc_udp_path *path,
			     uint16_t ip_id, const void *head, size_t head_len, size_t rest_len);

/* Where the payload of a received packet is, and where it is copied to. */
struct inc_payload_copy {
	/* destination of the copy; NULL: the payload is not copied, and the other members have no
	 * meaning */
	uint8_t *to;
	size_t at;  /* length of BTH and extended headers */
	size_t len; /* length of the payload */
};
/* Does what inc_icrc_udp_usual() does, and copies the payload in the same pass. The copy is made
 * before anyone can know whether the ICRC is right. */
uint32_t inc_icrc_udp_copy(const struct inc_icrc_usual *usual, const struct inc_udp_path *path,
			   uint16_t ip_id, const void *bth, size_t len,
			   const struct inc_payload_copy *copy);

/*
 * Tables that combine CRC states. The CRC is linear: the state after two parts is the state after
 * the first, advanced over the length of the second, xor the state of the second from 0. So the CRC
 * of a payload for many peers is computed once. The tables are for one length.
 */
struct inc_crc32_jump {
	size_t len;
	uint32_t by_byte[4][256];
};
void inc_crc32_jump_init(struct inc_crc32_jump *jump, size_t len);

static inline uint32_t inc_crc32_jump(const struct inc_crc32_jump *jump, uint32_t state)
{
	return jump->by_byte[0][state & 0xff] ^ jump->by_byte[1][state >> 8 & 0xff] ^
	       jump->by_byte[2][state >> 16 & 0xff] ^ jump->by_byte[3][state >> 24];
}

/* Returns the delay that the 5-bit timer code in the syndrome of an RNR NAK requests. */
uint64_t inc_rnr_timeout_ns(uint8_t syndrome);

#endif
