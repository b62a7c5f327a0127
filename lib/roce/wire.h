/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RoCEv2 packets in user space: ICRC (isa-l's carry-less CRC) and the shapes that
 * opcodes allow. Used by the slow path, the soft endpoints and the tests.
 */
#ifndef INC_ROCE_WIRE_H
#define INC_ROCE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/proto/frame.h"

/* BTH, RETH, immediate */
#define INC_MAX_HEAD_LEN (INC_BTH_LEN + INC_RETH_LEN + INC_IMM_LEN)

/* Length of the extended headers that follow the BTH (RETH, ImmDt, AETH), or -1 for an
 * opcode that is not RC SEND, RDMA WRITE or ACK. */
int inc_roce_ext_len(uint8_t opcode);
bool inc_roce_has_imm(uint8_t opcode);
bool inc_roce_has_reth(uint8_t opcode);

/* The largest payload that packets of an MTU carry; 0: none. */
unsigned int inc_roce_payload(unsigned int mtu);

/* CRC-32 state over len bytes from a start state: no initial, no final xor. */
uint32_t inc_crc32_update(uint32_t state, const void *data, size_t len);

/*
 * ICRC of a packet over IPv4. ip: the 20-byte IP header (no options), followed in
 * memory by UDP, BTH, extended headers, payload and pad; len: bytes from the IP header
 * up to, not including, the ICRC. Masked fields are masked here. The value is stored
 * least significant byte first on the wire.
 */
uint32_t inc_icrc_ipv4(const void *ip, size_t len);

/*
 * The same for a sender or receiver that sees only the UDP payload: addresses, ports
 * and the IP fields that are not masked are given. len: UDP payload without the ICRC.
 */
uint32_t inc_icrc_udp(const struct inc_roce_path *path, uint16_t ip_id, const void *bth,
		      size_t len);

/*
 * The first part of that: the CRC-32 state behind `head`, BTH and extended headers of head_len
 * bytes (INC_MAX_HEAD_LEN at most), where rest_len bytes stand between them and the ICRC.
 */
uint32_t inc_icrc_head(const struct inc_roce_path *path, uint16_t ip_id, const void *head,
		       size_t head_len, size_t rest_len);

/* A send (UDP_SEGMENT) is cut into so many packets at most, by kernels before 6.9. */
#define INC_SEND_PACKETS 64

/*
 * Most packets of a connection have one length, and of what the ICRC covers before their BTH only
 * the IP ID changes. So the CRC states there are made once, for the IDs of a send's packets.
 */
#define INC_ICRC_IDS INC_SEND_PACKETS
struct inc_icrc_usual {
	size_t len; /* from BTH to ICRC, without that; 0: no length is usual */
	/* the CRC of such a packet whose masked byte (INC_BTH_MASKED_AT) is 0, xor that of the same
	 * packet with 0xff there */
	uint32_t masked;
	uint32_t state[INC_ICRC_IDS]; /* behind the UDP header, by ID */
};
/* For full packets without extended headers. */
void inc_icrc_usual_init(struct inc_icrc_usual *usual, const struct inc_roce_path *path,
			 size_t payload);
/* inc_icrc_udp() and inc_icrc_head(), quicker for packets as `usual` has them. */
uint32_t inc_icrc_udp_usual(const struct inc_icrc_usual *usual, const struct inc_roce_path *path,
			    uint16_t ip_id, const void *bth, size_t len);
uint32_t inc_icrc_head_usual(const struct inc_icrc_usual *usual, const struct inc_roce_path *path,
			     uint16_t ip_id, const void *head, size_t head_len, size_t rest_len);

/*
 * The CRC is linear: the state behind two parts is that behind the first, carried over as many
 * bytes as the second has, xor the second's own from state 0. So a payload that goes to many peers
 * is looked at once. Tables for one length.
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

/* How long the 5-bit timer code of an RNR NAK's syndrome asks to wait. */
uint64_t inc_rnr_timeout_ns(uint8_t syndrome);

#endif
