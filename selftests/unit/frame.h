/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames of the unit suite. They are built field by field, and their ICRC uses zlib's CRC-32. The
 * frames and the code under test share only the layouts of headers.
 */
#ifndef UNIT_FRAME_H
#define UNIT_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/proto/roce.h"

#define FRAME_MAX     4400
#define FRAME_IP      INC_ETH_LEN
#define FRAME_UDP     (FRAME_IP + INC_IP_LEN)
#define FRAME_BTH     (FRAME_UDP + INC_UDP_LEN)
#define FRAME_EXT     (FRAME_BTH + INC_BTH_LEN)
#define FRAME_MIN_RUN INC_ETH_LEN /* the least length that BPF_PROG_TEST_RUN accepts */

/* All fields are in host order, except addresses (network order, as in struct inc_conn_cfg). */
struct frame_spec {
	uint8_t dst_mac[6];
	uint8_t src_mac[6];
	uint32_t saddr;
	uint32_t daddr;
	uint16_t sport;
	uint16_t dport;
	uint16_t ip_id;
	uint8_t tos;
	uint8_t ttl;
	bool df;
	bool udp_csum;
	uint8_t opcode;
	uint8_t bth_flags; /* second byte of the BTH without the pad count: the bits SE, M, TVer */
	uint8_t pad;
	uint16_t pkey;
	uint8_t resv8a; /* byte of the BTH with FECN, BECN, resv6 */
	uint32_t qpn;
	uint8_t ack_byte; /* byte of the BTH with AckReq and resv7 */
	uint32_t psn;
	uint64_t va;
	uint32_t rkey;
	uint32_t dmalen;
	uint32_t imm;
	uint8_t syndrome;
	uint32_t msn;
	const void *payload;
	uint32_t len; /* length of the payload without the pad */
};

struct frame {
	uint32_t len;
	uint8_t data[FRAME_MAX];
};

void put16(void *p, uint16_t v); /* writes v in network order */
void put24(void *p, uint32_t v);
void put32(void *p, uint32_t v);
uint16_t get16(const void *p);
uint32_t get24(const void *p);
uint32_t get32(const void *p);

/* Length of the headers RETH, ImmDt and AETH after the BTH; -1: the protocol has no such opcode. */
int frame_ext_len(uint8_t opcode);
bool frame_has_reth(uint8_t opcode);
bool frame_has_imm(uint8_t opcode);

void frame_build(struct frame *f, const struct frame_spec *spec);
/* Inserts a tag of IEEE 802.1Q with these 16 bits. */
void frame_tag(struct frame *f, uint16_t bits);
/* Removes the first tag of a frame. Returns whether it had one. */
bool frame_untag(struct frame *f);
/* Updates the IP checksum and the ICRC after a change of header fields. The IP total length decides
 * what they cover. */
void frame_seal(struct frame *f);
uint32_t frame_icrc(const uint8_t *ip, uint32_t len); /* ICRC of len bytes, from the IP header on */
/* The 16-bit ones' complement sum of len bytes, which is folded but not inverted. */
uint32_t frame_sum16(const uint8_t *p, uint32_t len, uint32_t sum);
/* True if the UDP checksum is absent (0) or right. */
bool frame_udp_csum_ok(const struct frame *f);
void frame_dump(const char *what, const struct frame *f);

#endif
