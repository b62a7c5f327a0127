/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * RoCEv2 on the wire (IBTA Architecture Specification Vol. 1, chapters 5 and 9,
 * and Annex A17): the headers behind UDP port 4791. Used by the XDP programs,
 * the slow path, the soft transport and the tests, so that no header is typed
 * twice. Multi-byte fields are in network byte order.
 */
#ifndef INC_WIRE_H
#define INC_WIRE_H

#include <linux/types.h>

#define INC_ROCE_UDP_PORT 4791
#define INC_PSN_MASK      0xffffffu
#define INC_QPN_MASK      0xffffffu
#define INC_PKEY_DEFAULT  0xffff
#define INC_PKEY_BITS     0x7fff /* of the partition, never all 0; the top bit says full member */
#define INC_ICRC_LEN      4

/* RC opcodes of a BTH (transport class 000). */
enum inc_opcode {
	INC_OP_SEND_FIRST = 0x00,
	INC_OP_SEND_MIDDLE = 0x01,
	INC_OP_SEND_LAST = 0x02,
	INC_OP_SEND_LAST_IMM = 0x03,
	INC_OP_SEND_ONLY = 0x04,
	INC_OP_SEND_ONLY_IMM = 0x05,
	INC_OP_WRITE_FIRST = 0x06,
	INC_OP_WRITE_MIDDLE = 0x07,
	INC_OP_WRITE_LAST = 0x08,
	INC_OP_WRITE_LAST_IMM = 0x09,
	INC_OP_WRITE_ONLY = 0x0a,
	INC_OP_WRITE_ONLY_IMM = 0x0b,
	INC_OP_ACK = 0x11,
};

/* AETH syndromes. ACK is 000 and a credit count; 0x1f says "no credit limit". */
#define INC_AETH_ACK           0x1f
#define INC_AETH_RNR           0x20 /* | 5-bit timer code */
#define INC_AETH_NAK_SEQ       0x60
#define INC_AETH_NAK_INVALID   0x61
#define INC_AETH_NAK_ACCESS    0x62
#define INC_AETH_NAK_OPERATION 0x63
#define INC_AETH_TYPE_MASK     0xe0
#define INC_AETH_TYPE_ACK      0x00
#define INC_AETH_TYPE_RNR      0x20
#define INC_AETH_TYPE_NAK      0x60

struct inc_bth {
	__u8 opcode;
	__u8 se_m_pad_tver; /* SE:1 M:1 PadCnt:2 TVer:4 */
	__be16 pkey;
	__be32 resv_qpn;   /* FECN:1 BECN:1 resv6 (masked in the ICRC), QPN:24 */
	__be32 ackreq_psn; /* AckReq:1 resv7 (not masked), PSN:24 */
} __attribute__((packed));

#define INC_BTH_PAD_SHIFT 4
#define INC_BTH_PAD_MASK  0x30
#define INC_BTH_TVER_MASK 0x0f
#define INC_BTH_SE        0x80
#define INC_BTH_M         0x40
#define INC_BTH_ACKREQ    0x80000000u /* in ackreq_psn, host order */

struct inc_reth {
	__be64 va;
	__be32 rkey;
	__be32 dmalen;
} __attribute__((packed));

struct inc_aeth {
	__be32 syn_msn; /* syndrome:8 MSN:24 */
} __attribute__((packed));

#define INC_ETH_LEN  14
#define INC_IP_LEN   20
#define INC_UDP_LEN  8
#define INC_BTH_LEN  12
#define INC_RETH_LEN 16
#define INC_IMM_LEN  4
#define INC_AETH_LEN 4

_Static_assert(sizeof(struct inc_bth) == INC_BTH_LEN, "BTH is 12 bytes");
_Static_assert(sizeof(struct inc_reth) == INC_RETH_LEN, "RETH is 16 bytes");
_Static_assert(sizeof(struct inc_aeth) == INC_AETH_LEN, "AETH is 4 bytes");

/* CRC-32 state after the eight 0xff bytes that stand for the masked LRH/GRH of
 * the ICRC; reflected polynomial 0xEDB88320. */
#define INC_ICRC_SEED 0xdebb20e3u
#define INC_CRC_POLY  0xedb88320u

/*
 * Collective descriptor: the 32 bits of immediate data (host order) in the
 * first packet of a collective, and in every later immediate of the same one.
 *
 *   31..29 collective   28..26 operator   25..22 data type
 *   21..14 root rank    13..0  sequence number of the collective, modulo 2^14
 */
enum inc_collective {
	INC_COLL_ALLREDUCE = 0,
	INC_COLL_REDUCE = 1,
	INC_COLL_BROADCAST = 2,
	INC_COLL_BARRIER = 3,
};

enum inc_operator {
	INC_OPERATOR_SUM = 0,
};

enum inc_dtype {
	INC_DTYPE_INT32 = 0,
};

#define INC_DESC_SEQ_MASK 0x3fffu
#define INC_DESC(coll, op, dtype, root, seq)                                           \
	(((__u32)(coll)&7) << 29 | ((__u32)(op)&7) << 26 | ((__u32)(dtype)&15) << 22 | \
	 ((__u32)(root)&255) << 14 | ((__u32)(seq)&INC_DESC_SEQ_MASK))
#define INC_DESC_COLL(d)  ((__u32)(d) >> 29)
#define INC_DESC_OP(d)    ((__u32)(d) >> 26 & 7)
#define INC_DESC_DTYPE(d) ((__u32)(d) >> 22 & 15)
#define INC_DESC_ROOT(d)  ((__u32)(d) >> 14 & 255)
#define INC_DESC_SEQ(d)   ((__u32)(d)&INC_DESC_SEQ_MASK)

/* Does the rank receive data of this collective, or a packet of length 0? */
static inline __attribute__((always_inline)) _Bool inc_child_gets(__u32 desc, __u32 rank)
{
	__u32 coll = INC_DESC_COLL(desc);

	if (coll == INC_COLL_REDUCE)
		return INC_DESC_ROOT(desc) == rank;
	return coll != INC_COLL_BARRIER;
}

/* Serial distance in PSN space of a from b, -2^23 to 2^23 - 1. */
static inline __attribute__((always_inline)) __s32 inc_psn_diff(__u32 a, __u32 b)
{
	return (__s32)((a - b) << 8) >> 8;
}

#endif
