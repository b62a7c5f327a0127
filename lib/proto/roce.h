/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * RoCEv2 on the wire (IBTA Architecture Specification Vol. 1, chapters 5 and 9, and Annex A17):
 * the headers behind UDP port 4791. The XDP programs, the slow path, the soft transport and the
 * tests use it, so that each header is typed once. Multi-byte fields are in network byte order.
 */
#ifndef INC_PROTO_ROCE_H
#define INC_PROTO_ROCE_H

#include <linux/types.h>

#define INC_INLINE static inline __attribute__((always_inline))

/* The address of an interface, in the form of a GID of RoCEv2: an IPv6 address, or the IPv4 address
 * a.b.c.d as ::ffff:a.b.c.d. All zeros: there is no address. */
struct inc_addr {
	union {
		__u8 byte[16];
		__be32 word[4]; /* word[3] is the IPv4 address, if it is one */
	};
};

/* Returns an IPv4 address, which is in network byte order, as an address of either family. */
INC_INLINE struct inc_addr inc_addr_of_ipv4(__be32 ip)
{
	struct inc_addr addr = {.byte = {[10] = 0xff, [11] = 0xff}};

	addr.word[3] = ip;
	return addr;
}

#define INC_ROCE_UDP_PORT 4791
#define INC_PSN_MASK      0xffffffu
#define INC_QPN_MASK      0xffffffu
/* the least queue pair number of a connection; 0, 1 and the last number are for management and
 * multicast */
#define INC_MIN_QPN      2
#define INC_MAX_QPN      (INC_QPN_MASK - 1)
#define INC_PKEY_DEFAULT 0xffff
/* the partition's bits of a P_Key, which are never all 0; the top bit means full member */
#define INC_PKEY_BITS 0x7fff
#define INC_ICRC_LEN  4

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
	INC_OP_CNP = 0x81, /* congestion notification packet, annex A17.9.3 */
	/* not RC: two of the opcodes that the specification leaves to manufacturers */
	INC_OP_ECHO_REQUEST = 0xc0,
	INC_OP_ECHO_REPLY = 0xc1,
};

/* AETH syndromes. The syndrome of an ACK has a credit count. The count 0x1f means that there is no
 * credit limit. */
#define INC_AETH_ACK           0x1f
#define INC_AETH_RNR           0x20 /* RNR NAK, whose lowest five bits are the timer code */
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
	__be32 ecn_qpn;    /* FECN:1 BECN:1 (congestion), resv6 (all masked in the ICRC), QPN:24 */
	__be32 ackreq_psn; /* AckReq:1 resv7 (not masked), PSN:24 */
} __attribute__((packed));

#define INC_BTH_PAD_SHIFT 4
#define INC_BTH_PAD_MASK  0x30
#define INC_BTH_TVER_MASK 0x0f
#define INC_BTH_SE        0x80
#define INC_BTH_M         0x40
#define INC_BTH_BECN      0x40        /* the bit in the first byte of ecn_qpn that a CNP has */
#define INC_BTH_ACKREQ    0x80000000u /* the bit in ackreq_psn, host order, that requests an ACK */

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
#define INC_IPV6_LEN 40
#define INC_UDP_LEN  8
#define INC_BTH_LEN  12
#define INC_RETH_LEN 16
#define INC_IMM_LEN  4
#define INC_AETH_LEN 4
#define INC_CNP_LEN  16 /* zeros behind the BTH of a CNP */

_Static_assert(sizeof(struct inc_bth) == INC_BTH_LEN, "BTH is 12 bytes");
_Static_assert(sizeof(struct inc_reth) == INC_RETH_LEN, "RETH is 16 bytes");
_Static_assert(sizeof(struct inc_aeth) == INC_AETH_LEN, "AETH is 4 bytes");

/*
 * Between ends that accept packets in any order, the MSN of a NAK 60 names a gap: how many packets
 * behind the NAK's PSN the gap begins, and how many packets are missing there. A count of 0 means
 * all packets from the PSN on.
 */
#define INC_GAP(offset, count) ((offset) << 12 | (count))
#define INC_GAP_OFFSET(msn)    ((msn) >> 12)
#define INC_GAP_COUNT(msn)     ((msn)&0xfff)
/*
 * Between such ends the answer to a probe has AckReq, and its MSN has three numbers. The upper one
 * repeats the lowest four bits of the probe's MSN. The next one counts the packets behind the ACK's
 * PSN that are missing before the first one that is kept; 0: none is kept behind a gap. The lowest
 * one is the number of complete results, modulo 2^13.
 */
#define INC_STATUS(probe, missing, complete) \
	(((probe)&0xf) << 20 | (missing) << 13 | ((complete)&0x1fff))
#define INC_STATUS_PROBE(msn)    ((msn) >> 20)
#define INC_STATUS_MISSING(msn)  ((msn) >> 13 & 0x7f)
#define INC_STATUS_COMPLETE(msn) ((msn)&0x1fff)
#define INC_STATUS_PROBES        16

/* Length of the headers from Ethernet to BTH, which every packet has. */
#define INC_HEADERS_LEN (INC_ETH_LEN + INC_IP_LEN + INC_UDP_LEN + INC_BTH_LEN)
/* Length of the headers from IP to BTH. */
#define INC_IP_TO_BTH_LEN (INC_IP_LEN + INC_UDP_LEN + INC_BTH_LEN)
/*
 * An echo request asks whether the XDP program of a switch runs on a port, and belongs to no
 * connection. The reply repeats its PSN and its payload, which always has this length
 * (docs/protocol.md, "Echo").
 */
#define INC_ECHO_QPN    0
#define INC_ECHO_LEN    16
#define INC_ECHO_IP_LEN (INC_IP_TO_BTH_LEN + INC_ECHO_LEN + INC_ICRC_LEN)
#define INC_CNP_IP_LEN  (INC_IP_TO_BTH_LEN + INC_CNP_LEN + INC_ICRC_LEN)
/* Most bytes that an IP packet has besides its payload, which is the case of a WRITE with an
 * immediate. */
#define INC_MAX_OVERHEAD (INC_IP_TO_BTH_LEN + INC_RETH_LEN + INC_IMM_LEN + INC_ICRC_LEN)
/* The same of an IPv6 packet. */
#define INC_MAX_OVERHEAD_IPV6 (INC_MAX_OVERHEAD - INC_IP_LEN + INC_IPV6_LEN)

/* CRC-32 state after eight 0xff bytes, which stand for the masked LRH or GRH in the ICRC. The
 * polynomial is the reflected 0xEDB88320. */
#define INC_ICRC_SEED 0xdebb20e3u
#define INC_CRC_POLY  0xedb88320u

#define INC_OPBIT(op) (1u << INC_OP_##op)

/* Whether an opcode is in a set of opcodes, which is a mask with one bit for each. Opcodes from 32
 * on are in no set. */
INC_INLINE _Bool inc_op_in(__u8 op, __u32 set)
{
	return op < 32 && set >> op & 1;
}

#define INC_OPS_WRITE                                                               \
	(INC_OPBIT(WRITE_FIRST) | INC_OPBIT(WRITE_MIDDLE) | INC_OPBIT(WRITE_LAST) | \
	 INC_OPBIT(WRITE_LAST_IMM) | INC_OPBIT(WRITE_ONLY) | INC_OPBIT(WRITE_ONLY_IMM))
#define INC_OPS_SEND                                                             \
	(INC_OPBIT(SEND_FIRST) | INC_OPBIT(SEND_MIDDLE) | INC_OPBIT(SEND_LAST) | \
	 INC_OPBIT(SEND_LAST_IMM) | INC_OPBIT(SEND_ONLY) | INC_OPBIT(SEND_ONLY_IMM))
#define INC_OPS_DATA (INC_OPS_SEND | INC_OPS_WRITE)
#define INC_OPS_RETH (INC_OPBIT(WRITE_FIRST) | INC_OPBIT(WRITE_ONLY) | INC_OPBIT(WRITE_ONLY_IMM))
#define INC_OPS_IMM                                                                        \
	(INC_OPBIT(SEND_LAST_IMM) | INC_OPBIT(SEND_ONLY_IMM) | INC_OPBIT(WRITE_LAST_IMM) | \
	 INC_OPBIT(WRITE_ONLY_IMM))
/* INC_OPS_BEGIN: opcodes that begin a message (first, only). INC_OPS_END: those that end one
 * (last, only). */
#define INC_OPS_ONLY                                                               \
	(INC_OPBIT(SEND_ONLY) | INC_OPBIT(SEND_ONLY_IMM) | INC_OPBIT(WRITE_ONLY) | \
	 INC_OPBIT(WRITE_ONLY_IMM))
#define INC_OPS_BEGIN (INC_OPS_ONLY | INC_OPBIT(SEND_FIRST) | INC_OPBIT(WRITE_FIRST))
#define INC_OPS_END                                                                               \
	(INC_OPS_ONLY | INC_OPBIT(SEND_LAST) | INC_OPBIT(SEND_LAST_IMM) | INC_OPBIT(WRITE_LAST) | \
	 INC_OPBIT(WRITE_LAST_IMM))

/* Length of the extended headers that follow the BTH (RETH, ImmDt, AETH) of a known opcode.
 * verifier 6.1: it has no branch, because the verifier would follow all that comes after for each
 * length. */
INC_INLINE __u32 inc_ext_len(__u8 op)
{
	_Static_assert(INC_AETH_LEN == INC_IMM_LEN, "one factor serves ImmDt and AETH");
	op &= 31;
	return (INC_OPS_RETH >> op & 1) * INC_RETH_LEN +
	       ((INC_OPS_IMM | INC_OPBIT(ACK)) >> op & 1) * INC_IMM_LEN;
}

/* Returns the length in a RETH (DMALen). A packet that is a whole message has its own length `len`
 * there, because a contribution and its result may differ in length. Any other packet has the
 * length of its message. Both arguments have the byte order of the return value. */
INC_INLINE __u32 inc_dmalen(__u8 op, __u32 len, __u32 message)
{
	return inc_op_in(op, INC_OPS_ONLY) ? len : message;
}

/* Returns the number of pad bytes after a payload up to a whole word (PadCnt of the BTH). They are
 * zeros. They count in the lengths of IP and UDP and in both checksums, but not in the length of
 * the data. */
INC_INLINE __u32 inc_pad(__u32 len)
{
	return -len & 3;
}

/* Sets the fields that routers may change to ones, as the ICRC counts them: TOS, TTL, both
 * checksums, FECN to resv6. ip: the IP header, followed by UDP and the BTH. */
#define INC_BTH_MASKED_AT 4
INC_INLINE void inc_icrc_mask(__u8 *ip)
{
	ip[1] = 0xff;
	ip[8] = 0xff;
	ip[10] = ip[11] = 0xff;
	ip[INC_IP_LEN + 6] = ip[INC_IP_LEN + 7] = 0xff;
	ip[INC_IP_LEN + INC_UDP_LEN + INC_BTH_MASKED_AT] = 0xff;
}

/* Does the same to an IPv6 packet without extension headers: traffic class, flow label, hop limit,
 * UDP checksum, FECN to resv6. */
INC_INLINE void inc_icrc_mask_ipv6(__u8 *ip)
{
	ip[0] |= 0x0f;
	ip[1] = ip[2] = ip[3] = 0xff;
	ip[7] = 0xff;
	ip[INC_IPV6_LEN + 6] = ip[INC_IPV6_LEN + 7] = 0xff;
	ip[INC_IPV6_LEN + INC_UDP_LEN + INC_BTH_MASKED_AT] = 0xff;
}

/* The payload sizes of a communicator. Each is a path MTU of RoCE. A switch in passthrough mode
 * reads each packet from one linear buffer, which limits it to INC_MAX_PAYLOAD. Connections that
 * end at sockets or devices at both ends may have INC_MAX_RC_PAYLOAD, the largest path MTU of RoCE.
 */
#define INC_MIN_PAYLOAD      256
#define INC_MAX_PAYLOAD      2048
#define INC_MAX_RC_PAYLOAD   4096
#define INC_N_RC_PAYLOADS    5
#define INC_PAYLOADS_TEXT    "256, 512, 1024 or 2048"
#define INC_RC_PAYLOADS_TEXT "256, 512, 1024, 2048 or 4096"
#define INC_PAYLOADS(_)      _(256) _(512) _(1024) _(2048)
#define INC_RC_PAYLOADS(_)   INC_PAYLOADS(_) _(4096)
_Static_assert(INC_MIN_PAYLOAD << (INC_N_RC_PAYLOADS - 1) == INC_MAX_RC_PAYLOAD,
	       "each size is twice the one before it");
INC_INLINE _Bool inc_rc_payload_ok(__u64 payload)
{
	return payload >= INC_MIN_PAYLOAD && payload <= INC_MAX_RC_PAYLOAD &&
	       !(payload & (payload - 1));
}
INC_INLINE _Bool inc_payload_ok(__u64 payload)
{
	return inc_rc_payload_ok(payload) && payload <= INC_MAX_PAYLOAD;
}

/* Whether addr (host order) is the address of one host: not 0.x.x.x, and below the multicast
 * addresses. */
INC_INLINE _Bool inc_addr_unicast(__u32 addr)
{
	return addr >> 24 && addr >> 28 < 0xe;
}

/* Whether mac is the address of one interface, or no address (zeros), and not the address of a
 * group. */
INC_INLINE _Bool inc_mac_unicast(const __u8 *mac)
{
	return !(mac[0] & 1);
}

/* Whether mac is an address and not zeros. */
INC_INLINE _Bool inc_mac_given(const __u8 *mac)
{
	return mac[0] | mac[1] | mac[2] | mac[3] | mac[4] | mac[5];
}

/* Whether RDMA devices with these P_Keys accept each other's packets: both are in one partition,
 * and at least one is a full member of it. */
INC_INLINE _Bool inc_pkeys_match(__u16 a, __u16 b)
{
	return !((a ^ b) & INC_PKEY_BITS) && (a | b) & ~INC_PKEY_BITS;
}

/* Returns a - b in the space of PSNs, -2^23 to 2^23 - 1. */
INC_INLINE __s32 inc_psn_diff(__u32 a, __u32 b)
{
	return (__s32)((a - b) << 8) >> 8;
}

#endif
