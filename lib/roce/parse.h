/* SPDX-License-Identifier: BSD-2-Clause */
/* Parses a received RoCEv2 packet, from BTH to ICRC, and checks every length. */
#ifndef INC_ROCE_PARSE_H
#define INC_ROCE_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/proto/roce.h"

struct inc_roce_packet {
	uint8_t opcode;
	bool ackreq;
	bool se;   /* the solicited event bit is set */
	bool becn; /* the packet reports congestion on the way of its receiver's packets */
	uint16_t pkey;
	uint32_t qpn;
	uint32_t psn;
	uint64_t va; /* the fields of the RETH, if the opcode has one */
	uint32_t rkey;
	uint32_t dmalen;
	uint32_t imm;     /* the immediate, if the opcode has one */
	uint8_t syndrome; /* AETH syndrome of an ACK packet */
	uint32_t msn;
	const uint8_t *payload;
	size_t len; /* length of the payload without its pad */
};

/* Parses a UDP payload of size bytes. Returns 0, or -EBADMSG if it is no RC SEND, RDMA WRITE or ACK
 * packet with consistent lengths. The ICRC is not checked. */
int inc_roce_parse(const uint8_t *data, size_t size, struct inc_roce_packet *pkt);

/* Returns the packet number nearest to r_base whose PSN is psn. base: the PSN of packet r_base. */
static inline int64_t inc_psn_to_r(uint32_t psn, uint32_t base, uint64_t r_base)
{
	return (int64_t)r_base + inc_psn_diff(psn, base);
}

#endif
